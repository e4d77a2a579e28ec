#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention on numpy arrays through the C interface, with ctypes alone.  attention_numpy.py [LIBSIATTN.SO]"""
import ctypes as c
import sys

import numpy as np

lib = c.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libsiattn.so")


class Tensor(c.Structure):  # siattn_tensor
    _fields_ = [("data", c.c_void_p), ("dtype", c.c_int32), ("reserved", c.c_int32), ("shape", c.c_int64 * 4),
                ("strides", c.c_int64 * 4)]


class Tensors(c.Structure):  # siattn_tensors, as far as it is used here: the size below says so, the rest stays 0
    _fields_ = [("struct_size", c.c_size_t)] + [(name, Tensor) for name in ("query", "key", "value", "out", "lse")] + [
        ("rest", c.c_byte * 288)]


def tensor(array):
    assert array.ndim == 4 and array.dtype == np.float32
    strides = [stride // array.itemsize for stride in array.strides]
    return Tensor(array.ctypes.data, 1, 0, tuple(array.shape), tuple(strides))


def attention(query, key, value):
    """Causal, scale-invariant with tau = 10. [batch, heads, len, dim], any strides but the last; out and lse."""
    out = np.empty(query.shape[:3] + value.shape[3:], np.float32)
    lse = np.empty(query.shape[:3] + (1,), np.float32)
    arguments = Tensors(c.sizeof(Tensors), *map(tensor, (query, key, value, out, lse)))
    message = c.create_string_buffer(512)
    if lib.siattn_attention(c.byref(arguments), None, None, message):
        raise ValueError(message.value.decode())
    return out, lse[..., 0]


if __name__ == "__main__":
    random = np.random.default_rng(1)
    query, key, value = (random.standard_normal((1, heads, 300, 64), np.float32) for heads in (8, 2, 2))
    out, lse = attention(query, key, value)

    t = np.arange(300)[:, None] - np.arange(300)
    log = np.log1p(np.maximum(t, 0) / 10)
    logits = query @ key.repeat(4, 1).swapaxes(2, 3) / 8 * np.sqrt(1 + 2 * log) - 2 * log
    weights = np.exp(np.where(t >= 0, logits, -np.inf))
    expected = weights @ value.repeat(4, 1) / weights.sum(-1, keepdims=True)
    lib.siattn_version.restype = c.c_char_p
    print(f"siattn {lib.siattn_version().decode()}: largest difference from numpy {abs(out - expected).max():.1e}")
    assert np.allclose(out, expected, atol=1e-5) and np.allclose(lse, np.log(weights.sum(-1)), atol=1e-5)
    try:
        attention(query[..., :32], key, value)
    except ValueError as error:
        print("an error:", error)
