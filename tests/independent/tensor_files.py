# SPDX-License-Identifier: Apache-2.0
"""Tensors in .npy and .safetensors files, element types that numpy lacks included. A tensor here is an array of doubles
and the name of its element type: f64, f32, bf16 or f16."""
import ast
import json
import struct
from typing import Dict, Tuple

import numpy as np

NPY_TYPES = {"f64": "<f8", "f32": "<f4", "bf16": "<V2", "f16": "<f2"}
SAFETENSORS_TYPES = {"f64": "F64", "f32": "F32", "bf16": "BF16", "f16": "F16"}


def round_to_bf16_bits(values: np.ndarray) -> np.ndarray:
    """To nearest, ties to even, in one rounding from double: rounding to float first would round twice. The float
    between is rounded to odd: truncated, its last bit set where anything was cut off, which keeps every tie apart."""
    values = np.asarray(values, dtype=np.float64)
    nearest = values.astype(np.float32)
    too_far = np.abs(nearest.astype(np.float64)) > np.abs(values)
    truncated = np.where(too_far, np.nextafter(nearest, np.float32(0)), nearest)
    bits = truncated.view(np.uint32) | (truncated.astype(np.float64) != values)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def encode(values: np.ndarray, dtype: str) -> bytes:
    if dtype == "bf16":
        return round_to_bf16_bits(values).astype("<u2").tobytes()
    return np.asarray(values, dtype=np.float64).astype(NPY_TYPES[dtype]).tobytes()


def decode(data: bytes, dtype: str, shape) -> np.ndarray:
    if dtype == "bf16":
        bits = np.frombuffer(data, dtype="<u2").astype(np.uint32) << 16
        return bits.view(np.float32).astype(np.float64).reshape(shape)
    return np.frombuffer(data, dtype=NPY_TYPES[dtype]).astype(np.float64).reshape(shape)


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """The values as that type holds them, in one rounding."""
    return decode(encode(values, dtype), dtype, np.shape(values))


def write_npy(path: str, values: np.ndarray, dtype: str) -> None:
    """By hand: numpy would write '|V2' for bf16."""
    header = f"{{'descr': '{NPY_TYPES[dtype]}', 'fortran_order': False, 'shape': {tuple(values.shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + encode(values, dtype))


def read_npy(path: str) -> Tuple[np.ndarray, str]:
    with open(path, "rb") as file:
        data = file.read()
    if data[:8] != b"\x93NUMPY\x01\x00":
        raise ValueError(f"{path}: no version 1 .npy file")
    length = struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:10 + length].decode())
    names = {descr: name for name, descr in NPY_TYPES.items()}
    names["|V2"] = "bf16"
    if header["descr"] not in names or header["fortran_order"]:
        raise ValueError(f"{path}: unexpected header {header}")
    dtype = names[header["descr"]]
    return decode(data[10 + length:], dtype, header["shape"]), dtype


def write_safetensors(path: str, tensors: Dict[str, Tuple[np.ndarray, str]]) -> None:
    header, body = {}, b""
    for name, (values, dtype) in tensors.items():
        data = encode(values, dtype)
        header[name] = {"dtype": SAFETENSORS_TYPES[dtype], "shape": list(values.shape),
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def read_safetensors(path: str) -> Dict[str, Tuple[np.ndarray, str]]:
    with open(path, "rb") as file:
        data = file.read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    names = {code: name for name, code in SAFETENSORS_TYPES.items()}
    result = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            dtype = names[entry["dtype"]]
            result[name] = decode(data[start + begin:start + end], dtype, entry["shape"]), dtype
    return result


def read_tensor(path: str) -> Tuple[np.ndarray, str]:
    """FILE.npy or FILE.safetensors:NAME."""
    if ".safetensors:" in path:
        file, name = path.rsplit(":", 1)
        return read_safetensors(file)[name]
    return read_npy(path)
