#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of tools/device_check.sh: what `siattn bench --json` measured, beside PyTorch where it is installed.

    device_check.py FOLDER      the folder holds bench-SHAPE.json for each shape

PyTorch's rows are the same shapes and type: scaled_dot_product_attention without any transform, and FlexAttention, whose
score_mod looks the same tables up. Times are medians over calls, by CUDA events.
"""
import json
import math
import statistics
import sys
from pathlib import Path


def median_rate(document):
    """Median of the rounds in FLOP/s or byte/s, which of them, and the other figures of the first entry."""
    entries = document["benchmarks"]
    key = "bytes_per_second" if "bytes_per_second" in entries[0] else "flops_per_second"
    return statistics.median(entry[key] for entry in entries), key == "bytes_per_second", entries[0]


def work_of(shape, by_bytes):
    batch, heads, kv_heads, queries, keys, dim = shape
    if by_bytes:
        return 2 * batch * kv_heads * keys * dim * 2
    pairs = sum(keys - queries + i + 1 for i in range(queries))
    return 2 * pairs * 2 * dim * batch * heads


def time_of(torch, run):
    """Seconds of one call."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    times = []
    for _ in range(7):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(10):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3 / 10)
    return statistics.median(times)


def torch_times(torch, shape):
    """Seconds of SDPA and of FlexAttention with the tables of tau = 10; None for what could not be run."""
    from torch.nn import functional
    batch, heads, kv_heads, queries, keys, dim = shape
    make = lambda h, n: torch.randn(batch, h, n, dim, dtype=torch.bfloat16, device="cuda")
    query, key, value = make(heads, queries), make(kv_heads, keys), make(kv_heads, keys)
    grouped = heads != kv_heads
    causal = queries == keys  # a single query sees every key
    times = {}
    try:
        times["sdpa"] = time_of(torch, lambda: functional.scaled_dot_product_attention(
            query, key, value, is_causal=causal, enable_gqa=grouped))
    except Exception as error:  # pylint: disable=broad-except
        print(f"SDPA {shape}: {str(error).splitlines()[0]}", file=sys.stderr)
    try:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        t = torch.arange(keys, dtype=torch.float32, device="cuda")
        log = torch.log1p(t / 10)
        scale, shift = torch.sqrt(1 + 2 * log), -2 * log
        offset = keys - queries

        def score_mod(score, _batch, _head, i, j):
            distance = torch.clamp(i + offset - j, min=0)
            return scale[distance] * score + shift[distance]

        mask = create_block_mask(lambda b, h, i, j: i + offset >= j, None, None, queries, keys, device="cuda")
        compiled = torch.compile(flex_attention)
        times["flex"] = time_of(torch, lambda: compiled(query, key, value, score_mod=score_mod, block_mask=mask,
                                                        enable_gqa=grouped))
    except Exception as error:  # pylint: disable=broad-except
        print(f"FlexAttention {shape}: {str(error).splitlines()[0]}", file=sys.stderr)
    return times


def copy_rate(torch):
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / time_of(torch, lambda: target.copy_(source))


def product_rate(torch):
    n = 8192
    a, b = (torch.randn(n, n, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    return 2 * n ** 3 / time_of(torch, lambda: torch.matmul(a, b))


def main():
    folder = Path(sys.argv[1])
    try:
        import torch
        if not torch.cuda.is_available():
            torch = None
    except ImportError:
        torch = None
    if torch is None:
        print("no PyTorch with a device here: its columns are left out")
    else:
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}: bf16 product of 8192 "
              f"{product_rate(torch) / 1e12:.0f} TFLOP/s, copy {copy_rate(torch) / 1e12:.2f} TB/s")
    print("bf16, causal, scale-invariant with tau = 10; TFLOP/s on visible pairs, for one query TB/s of K and V\n")
    print(f"{'batch, heads, kv, queries, keys, dim':<38} {'siattn':>8} {'without':>8} {'SDPA':>8} {'Flex':>8} "
          f"{'over Flex':>9} {'bound':>6}")
    good = True
    for path in sorted(folder.glob("bench-*.json")):
        shape = [int(x) for x in path.stem.removeprefix("bench-").split(",")]
        try:
            rate, by_bytes, entry = median_rate(json.loads(path.read_text(encoding="utf-8")))
        except (json.JSONDecodeError, IndexError, KeyError):
            print(f"{', '.join(map(str, shape)):<38} FAILED")
            good = False
            continue
        times = torch_times(torch, shape) if torch is not None else {}
        work = work_of(shape, by_bytes)
        sdpa, flex = (work / times[name] if name in times else math.nan for name in ("sdpa", "flex"))
        figures = [rate, rate / entry["against_none"], sdpa, flex]
        cells = " ".join(f"{'-' if math.isnan(x) else f'{x / 1e12:.2f}' if by_bytes else f'{x / 1e12:.0f}':>8}"
                         for x in figures)
        over = "-" if math.isnan(flex) else f"{rate / flex:.2f}x"
        print(f"{', '.join(map(str, shape)):<38} {cells} {over:>9} {entry['error_over_bound']:>6.3f}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
