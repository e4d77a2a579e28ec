#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files that fuzzing starts from: FOLDER/TARGET/NAME. Usage: seeds.py FOLDER

Good files and problems of every kind, and the ways in which files are known to lie. Nothing is random."""
import json
import pathlib
import struct
import sys

# --- .npy ------------------------------------------------------------------------------------------------------------


def npy(header, data=b"", version=1, pad=True, length=None):
    text = header.encode("latin-1")
    if pad:
        begin = 10 if version == 1 else 12
        text += b" " * (-(begin + len(text) + 1) % 16) + b"\n"
    count = len(text) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", count) + text + data


def dictionary(descr="<f4", order="False", shape="(2, 3)"):
    return f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}"


def npy_seeds():
    data = bytes(range(1, 129))
    yield "f4", npy(dictionary(), data[:24])
    yield "f8", npy(dictionary("<f8", shape="(3,)"), data[:24])
    yield "f2", npy(dictionary("<f2", shape="(2, 2, 2)"), data[:16])
    yield "bf16", npy(dictionary("<V2", shape="(4,)"), data[:8])
    yield "bf16-bar", npy(dictionary("|V2", shape="(1, 4, 1)"), data[:8])
    yield "fortran", npy(dictionary(order="True"), data[:24])
    yield "fortran-3", npy(dictionary("<f2", "True", "(2, 3, 4)"), data[:48])
    yield "big-f4", npy(dictionary(">f4"), data[:24])
    yield "big-f8-fortran", npy(dictionary(">f8", "True", "(2, 2)"), data[:32])
    yield "big-f2", npy(dictionary(">f2", shape="(3, 1)"), data[:6])
    yield "scalar", npy(dictionary(shape="()"), data[:4])
    yield "one-axis", npy(dictionary(shape="(3,)"), data[:12])
    yield "no-tuple", npy(dictionary(shape="(3)"), data[:12])
    yield "empty", npy(dictionary(shape="(0, 4)"))
    yield "empty-fortran", npy(dictionary("<f8", "True", "(4, 0, 2)"))
    yield "empty-huge", npy(dictionary(shape="(0, 9223372036854775807)"))
    yield "version-2", npy(dictionary(), data[:24], version=2)
    yield "version-3", npy(dictionary("<f8", shape="(1, 1)"), data[:8], version=3)
    yield "version-4", npy(dictionary(), data[:24], version=4)
    yield "reordered", npy('{"shape": (2,), "fortran_order": False, "descr": "<f4"}', data[:8])
    yield "object", npy(dictionary("|O", shape="(2,)"), data[:16])
    yield "structure", npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", data[:8])
    yield "integers", npy(dictionary("<i4"), data[:24])
    yield "twice", npy("{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", data[:8])
    yield "no-shape", npy("{'descr': '<f4', 'fortran_order': False, }", data[:8])
    yield "huge", npy(dictionary(shape="(99999999999, 99999999999)"), data[:8])
    yield "huge-product", npy(dictionary(shape="(4294967296, 4294967296)"), data[:8])
    yield "wraps-to-24", npy(dictionary(shape="(4611686018427387910,)"), data[:24])
    yield "negative", npy(dictionary(shape="(-1, -6)"), data[:24])
    yield "float-extent", npy(dictionary(shape="(1.5, 4)"), data[:24])
    yield "zero-padded", npy(dictionary(shape="(02, 3)"), data[:24])
    yield "past-int64", npy(dictionary(shape="(18446744073709551618, 3)"), data[:24])
    yield "short", npy(dictionary(), data[:23])
    yield "long", npy(dictionary(), data[:25])
    yield "header-beyond", npy(dictionary(), data[:24], length=60000)
    yield "header-beyond-2", npy(dictionary(), data[:24], version=2, length=0xFFFFFFFF)
    yield "header-cut", npy(dictionary(), data[:24])[:30]
    yield "magic-only", b"\x93NUMPY"
    yield "many-axes", npy(dictionary("<f2", shape="(" + "1, " * 33 + ")"), data[:2])
    yield "rank-8", npy(dictionary("<f2", "True", "(2, 1, 2, 1, 3, 1, 1, 2)"), data[:48])


# --- .safetensors ----------------------------------------------------------------------------------------------------


def safetensors(header, data=b"", length=None):
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_seeds():
    data = bytes(range(1, 113))
    yield "f32", safetensors({"q": entry("F32", [2, 3], 0, 24)}, data[:24])
    yield "f64", safetensors({"q": entry("F64", [3], 0, 24)}, data[:24])
    yield "f16", safetensors({"q": entry("F16", [2, 1, 2], 0, 8)}, data[:8])
    yield "bf16", safetensors({"q": entry("BF16", [4], 0, 8)}, data[:8])
    yield "three", safetensors({"q": entry("F32", [2], 0, 8), "k": entry("BF16", [3], 8, 14), "v": entry("F64", [1], 14, 22)},
                               data[:22])
    yield "disordered", safetensors({"a": entry("F32", [1], 8, 12), "b": entry("F64", [1], 0, 8)}, data[:12])
    yield "metadata", safetensors({"__metadata__": {"format": "pt", "": "empty key"}, "q": entry("F32", [1], 0, 4)}, data[:4])
    yield "metadata-only", safetensors({"__metadata__": {"a": "b"}})
    yield "nothing", safetensors({})
    yield "scalar", safetensors({"q": entry("F32", [], 0, 4)}, data[:4])
    yield "empty", safetensors({"q": entry("F32", [0, 5], 0, 0)})
    yield "empty-huge", safetensors({"q": entry("F32", [0, 9223372036854775807], 0, 0)})
    yield "two-empty", safetensors({"a": entry("F32", [0], 0, 0), "b": entry("F16", [0, 2], 0, 0)})
    yield "integers", safetensors({"i": entry("I64", [2], 0, 16), "b": entry("BOOL", [3], 16, 19)}, data[:19])
    yield "bits", safetensors({"f": entry("F4", [4], 0, 2), "g": entry("F6_E2M3", [4], 2, 5)}, data[:5])
    yield "unknown", safetensors({"u": entry("F3", [7], 0, 5)}, data[:5])
    yield "escapes", safetensors('{"\\u0071\\n\\u0000":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', data[:4])
    yield "unicode", safetensors('{"\u03c4\u2192\U0001f600":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}', data[:2])
    yield "spaces", safetensors('{ "q" : { "shape" : [ 1 ] , "dtype" : "F32" , "data_offsets" : [ 0 , 4 ] } }    ', data[:4])
    yield "empty-name", safetensors({"": entry("F32", [1], 0, 4)}, data[:4])
    yield "huge", safetensors({"q": entry("F32", [4294967296, 4294967296], 0, 4)}, data[:4])
    yield "wraps-to-8", safetensors({"q": entry("F32", [4611686018427387906], 0, 8)}, data[:8])
    yield "negative", safetensors({"q": entry("F32", [-1, -4], 0, 16)}, data[:16])
    yield "1e400", safetensors('{"q":{"dtype":"F32","shape":[1e400],"data_offsets":[0,4]}}', data[:4])
    yield "fraction", safetensors('{"q":{"dtype":"F32","shape":[1.5],"data_offsets":[0,6]}}', data[:6])
    yield "beyond", safetensors({"q": entry("F32", [4], 0, 16)}, data[:8])
    yield "far-beyond", safetensors({"q": entry("F32", [1], 9223372036854775803, 9223372036854775807)}, data[:8])
    yield "overlapping", safetensors({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 4, 12)}, data[:12])
    yield "gap", safetensors({"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 8, 12)}, data[:12])
    yield "backwards", safetensors({"a": entry("F32", [1], 4, 0)}, data[:4])
    yield "one-offset", safetensors('{"q":{"dtype":"F32","shape":[1],"data_offsets":[0]}}', data[:4])
    yield "twice", safetensors('{"q":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
                               '"q":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', data[:8])
    yield "field-twice", safetensors('{"q":{"dtype":"F32","dtype":"F64","shape":[1],"data_offsets":[0,4]}}', data[:4])
    yield "no-dtype", safetensors('{"q":{"shape":[1],"data_offsets":[0,4]}}', data[:4])
    yield "nested", safetensors('{"q":' * 20 + "{}" + "}" * 20)
    yield "array", safetensors("[1]")
    yield "cut", safetensors('{"q":{"dtype":"F32","sh')
    yield "longer-than-file", safetensors({}, length=1 << 60)
    yield "short-length", b"\x05\x00\x00"
    yield "trailing", safetensors({"q": entry("F32", [1], 0, 4)}, data[:5])


# --- problems: numbers as fuzz/support.hpp reads them ----------------------------------------------------------------

BORDERS = [-1, -2, -3, -4, -8, -16, -64, 128, 255, 256, 257, 300, 512, 513, 4096, 65536, 2**31 - 1, 1 - 2**31, 2**31,
           -(2**31), 2**31 + 1]


def integer(value):
    if 0 <= value < 128:
        return bytes([value])
    if value in BORDERS:
        return bytes([128 + BORDERS.index(value)])
    return b"\xf0" + struct.pack("<q", value)


def number(value):
    return b"\xf0" + struct.pack("<d", value)


F32, BF16, F16, F64 = 0, 1, 2, 3
CAUSAL, BIDIRECTIONAL = 0, 1
DENSE = b"\x00\x00"
PLAIN = DENSE * 5
NO_LENGTHS = b"\x00\x00"


def per_head(*values):
    """One value, or as many as there are heads."""
    return bytes([0 if len(values) == 1 else 1]) + b"".join(map(number, values))


def scale_invariant(tau=(10.0,), alpha=1.6487212707001281468, beta=1.6487212707001281468):
    return b"\x00" + per_head(*tau) + number(alpha) + number(beta)


def logn(*scale):
    return b"\x01" + per_head(*scale)


def info_scale(length):
    return b"\x02" + number(length)


def alibi(*slopes):
    return b"\x03" + (b"\x05" if not slopes else per_head(*slopes))


def problem(shape, dtype=F32, backend=0, threads=None, short_workspace=False, mask=CAUSAL, window=None, offset=None,
            scale=None, sinks=None, transform=None, calibration=None, kind=1, operands=PLAIN, lengths=NO_LENGTHS):
    text = bytes([backend, (threads is not None) + 2 * short_workspace])
    if threads is not None:
        text += integer(threads)
    text += bytes([dtype]) + b"".join(map(integer, shape)) + bytes([mask])
    given = [(window, integer), (offset, integer), (scale, number), (sinks, integer), (transform, lambda t: t),
             (calibration, lambda lists: per_head(*lists[0]) + per_head(*lists[1]))]
    text += bytes([sum(1 << i for i, (value, _) in enumerate(given) if value is not None)])
    text += b"".join(write(value) for value, write in given if value is not None)
    return text + bytes([kind]) + operands + lengths


def operands(**changed):
    return b"".join(changed.get(name, DENSE) for name in ("query", "key", "value", "out", "lse"))


def strided(*strides):
    return b"\x05" + b"".join(map(integer, strides)) + b"\x00"


def attention_seeds():
    small = (2, 4, 2, 3, 5, 8, 6)
    for backend in range(4):
        yield f"small-{backend}", problem(small, backend=backend)
        yield f"decode-{backend}", problem((3, 4, 1, 1, 70, 16, 16), backend=backend, dtype=BF16)
        yield f"prefill-{backend}", problem((1, 2, 2, 20, 33, 5, 9), backend=backend, dtype=F16)
        yield f"long-{backend}", problem((1, 2, 1, 2, 300, 3, 1), backend=backend)
        yield f"tail-{backend}", problem((1, 1, 1, 40, 40, 17, 33), backend=backend)
    yield "f64", problem(small, dtype=F64, backend=3)
    yield "f64-cpu", problem(small, dtype=F64)
    yield "bad-type", problem(small, dtype=9)
    yield "bidirectional", problem(small, mask=BIDIRECTIONAL, window=2)
    yield "window", problem(small, window=1, sinks=1)
    yield "window-huge", problem(small, window=2**63 - 1)
    yield "window-0", problem(small, window=0)
    yield "offset", problem(small, offset=2**31 - 3)
    yield "offset-low", problem(small, offset=1 - 2**31)
    yield "offset-beyond", problem(small, offset=2**31 - 2)
    yield "scale", problem(small, scale=0.25)
    yield "scale-nan", problem(small, scale=float("nan"))
    yield "scale-huge", problem(small, scale=1e308)
    yield "sinks", problem(small, sinks=2**63 - 1)
    yield "sinks-negative", problem(small, sinks=-1)
    yield "tau-per-head", problem(small, transform=scale_invariant((1.0, 2.0, 4.0, 8.0)))
    yield "tau-nan", problem(small, transform=scale_invariant((float("nan"),)))
    yield "tau-small", problem(small, transform=scale_invariant((1e-290,)))
    yield "alpha-beta", problem(small, transform=scale_invariant(alpha=2.0, beta=3.0))
    yield "beta-low", problem(small, transform=scale_invariant(alpha=4.0, beta=1.0))
    yield "logn", problem(small, transform=logn(0.4))
    yield "logn-per-head", problem(small, transform=logn(0.1, 0.2, 0.3, 0.4))
    yield "logn-inf", problem(small, transform=logn(float("inf")))
    yield "info", problem(small, transform=info_scale(4096.0))
    yield "info-1", problem(small, transform=info_scale(1.0))
    yield "alibi", problem((1, 12, 12, 2, 9, 4, 4), transform=alibi())
    yield "alibi-given", problem(small, transform=alibi(0.5))
    yield "none", problem(small, transform=b"\x04")
    yield "calibrated", problem(small, calibration=((-9.0,), (3.0,)))
    yield "calibrated-per-head", problem(small, calibration=((-9.0, 0.0, 1.0, 2.0), (3.0, 1.0, 0.5, 2.0)))
    yield "calibrated-logn", problem(small, transform=logn(0.4), calibration=((0.0,), (3.0,)))
    yield "calibrated-logn-mean", problem(small, transform=logn(0.4), calibration=((-9.0,), (3.0,)))
    yield "calibration-0", problem(small, calibration=((0.0,), (0.0,)))
    for empty in range(7):
        yield f"empty-{empty}", problem([0 if i == empty else n for i, n in enumerate(small)])
    yield "heads-3-2", problem((1, 3, 2, 2, 2, 4, 4))
    yield "2^60", problem((2**30, 1, 1, 2**30, 1, 1, 1))
    yield "2^59", problem((2**29, 1, 1, 2**30, 1, 1, 1))
    yield "extents-int32", problem((2**31 - 1, 1, 1, 0, 0, 2**31 - 1, 2**31 - 1))
    yield "extent-beyond", problem((2**31, 1, 1, 1, 1, 1, 1))
    yield "threads", problem(small, threads=7)
    yield "threads-1025", problem(small, threads=1025)
    yield "short-workspace", problem(small, short_workspace=True)
    yield "dim-513", problem((1, 1, 1, 1, 2, 513, 1))
    yield "lengths", problem(small, lengths=b"\x01" + integer(2) + integer(0) + b"\x01" + integer(5) + integer(1))
    yield "lengths-beyond", problem(small, lengths=b"\x01" + integer(4) + integer(0) + b"\x00")
    yield "lengths-count", problem(small, lengths=b"\x83" + integer(1) * 3 + b"\x00")
    for layout, name in enumerate(("permuted", "padded", "reversed", "broadcast"), 1):
        detail = {2: b"\x03", 4: b"\x03"}.get(layout, b"")
        bent = bytes([layout]) + detail + b"\x00"
        yield f"inputs-{name}", problem(small, operands=operands(query=bent, key=bent, value=bent))
        yield f"outputs-{name}", problem(small, operands=operands(out=bent, lse=bent))
    yield "innermost-2", problem(small, operands=operands(query=strided(192, 48, 16, 2)))
    yield "stride-far", problem(small, operands=operands(key=strided(2**62, 40, 8, 1)))
    yield "stride-least", problem((2, 1, 1, 1, 1, 1, 1), dtype=F16, operands=operands(key=strided(-(2**62), 1, 1, 1)))
    yield "stride-unused", problem((1, 1, 1, 2, 3, 4, 4), operands=operands(query=strided(-(2**63), 2**63 - 1, 4, 1)))
    yield "out-on-itself", problem(small, operands=operands(out=strided(72, 18, 5, 1)))
    for mistake, name in enumerate(("null", "odd", "element"), 1):
        for operand in ("query", "key", "value", "out", "lse"):
            yield f"{name}-{operand}", problem(small, operands=operands(**{operand: bytes([0, mistake])}))
    yield "wrong-shape", problem(small, operands=operands(value=b"\x00\x04\x02" + integer(6)))
    yield "wrong-type", problem(small, operands=operands(value=b"\x00\x05\x01"))
    yield "pointer", problem(small, operands=operands(key=b"\x00\x06" + integer(-16)))
    for first, second in ((3, 0), (3, 1), (4, 3), (1, 0), (2, 1)):
        yield f"alias-{first}-{second}", problem((1, 1, 1, 2, 2, 4, 4), kind=3, operands=PLAIN + bytes([first + 5 * second]))


# --- position encodings ----------------------------------------------------------------------------------------------


def encoding_seeds():
    half, interleaved = b"\x00", b"\x01"
    base = number(10000.0)
    encodings = {
        "none": b"\x00",
        "rope": b"\x01" + base + half,
        "rope-interleaved": b"\x01" + base + interleaved,
        "rope-1": b"\x01" + number(1.0) + half,
        "rope-1e100": b"\x01" + number(1e100) + half,
        "rope-nan": b"\x01" + number(float("nan")) + half,
        "layout": b"\x01" + base + b"\x07",
        "partial": b"\x02" + integer(4) + base + half,
        "partial-0": b"\x02" + integer(0) + base + interleaved,
        "partial-odd": b"\x02" + integer(3) + base + half,
        "p-rope": b"\x03" + number(0.5) + base + half,
        "p-rope-0": b"\x03" + number(0.0) + base + interleaved,
        "p-rope-2": b"\x03" + number(2.0) + base + half,
        "half-truncated": b"\x04" + number(1024.0) + half,
        "ntk": b"\x05" + number(4.0) + base + half,
        "ntk-low": b"\x05" + number(0.5) + base + half,
        "dynamic": b"\x06" + integer(4096) + integer(65536) + base + half,
        "dynamic-0": b"\x06" + integer(0) + integer(1) + base + half,
        "yarn": b"\x07" + number(4.0) + integer(4096) + number(32.0) + number(1.0) + b"\x00" + base + half,
        "yarn-magnitude": b"\x07" + number(4.0) + integer(4096) + number(32.0) + number(1.0) + b"\x01" + number(1.5) + base
                          + interleaved,
        "yarn-betas": b"\x07" + number(4.0) + integer(4096) + number(1.0) + number(32.0) + b"\x00" + base + half,
    }
    from_5 = b"\x00\x00" + integer(5)
    for name, text in encodings.items():
        yield name, text + integer(8) + integer(2) + integer(2) + integer(3) + bytes([F64]) + DENSE + DENSE + from_5
    rope = encodings["rope"]
    for dtype in range(5):
        yield f"type-{dtype}", rope + b"\x10\x02\x02\x03" + bytes([dtype]) + DENSE + DENSE + from_5
    sizes = b"\x08\x02\x02\x03" + bytes([F32])
    yield "dim-7", rope + b"\x07\x02\x02\x03\x00" + DENSE + DENSE + from_5
    yield "dim-16384", rope + integer(16384) + b"\x01\x01\x01\x00" + DENSE + DENSE + from_5
    yield "in-place", rope + sizes + DENSE + DENSE + b"\x01\x00" + integer(7)
    yield "far", rope + sizes + DENSE + DENSE + b"\x00\x00" + integer(2**31 - 3)
    yield "too-far", rope + sizes + DENSE + DENSE + b"\x00\x00" + integer(2**31 - 2)
    yield "list", rope + sizes + DENSE + DENSE + b"\x00\x01\x00\x00" + integer(0) + integer(-3) + integer(2**31 - 1)
    yield "list-batch", rope + sizes + DENSE + DENSE + b"\x00\x01\x00\x01" + integer(9) * 6
    yield "list-short", rope + sizes + DENSE + DENSE + b"\x00\x01\x00\x02" + integer(9) * 2
    yield "list-beyond", rope + sizes + DENSE + DENSE + b"\x00\x01\x00\x00" + integer(2**31) * 3
    for layout, detail in ((1, b""), (2, b"\x03"), (3, b""), (4, b"\x07")):
        bent = bytes([layout]) + detail + b"\x00"
        yield f"in-layout-{layout}", rope + sizes + bent + DENSE + from_5
        yield f"out-layout-{layout}", rope + sizes + DENSE + bent + from_5
    yield "stride-least", rope + b"\x08\x02\x01\x01" + bytes([F16]) + strided(-(2**62), 1, 1, 1) + DENSE + from_5
    yield "stride-unused", rope + b"\x08\x01\x01\x03" + bytes([F32]) + strided(-(2**63), 2**63 - 1, 8, 1) + DENSE + from_5
    for mistake in (1, 2, 3):
        yield f"in-mistake-{mistake}", rope + sizes + bytes([0, mistake]) + DENSE + from_5
        yield f"out-mistake-{mistake}", rope + sizes + DENSE + bytes([0, mistake]) + from_5


def main():
    targets = {"npy": npy_seeds, "safetensors": safetensors_seeds, "attention": attention_seeds,
               "encoding": encoding_seeds}
    for target, seeds in targets.items():
        folder = pathlib.Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in seeds():
            (folder / name).write_bytes(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: seeds.py FOLDER")
    main()
