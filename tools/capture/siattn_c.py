# SPDX-License-Identifier: Apache-2.0
"""The C interface of the library, <siattn/siattn.h>, on numpy arrays: as much
of it as attention over a growing cache wants."""

import ctypes
from ctypes import (POINTER, Structure, byref, c_char, c_char_p, c_double,
                    c_int32, c_int64, c_size_t, c_uint32, c_void_p)

import numpy as np

F32 = 1
TRANSFORMS = {"scale-invariant": 0, "none": 1, "logn": 2, "infoscale": 3,
              "alibi": 4}


class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int32), ("reserved", c_int32),
                ("shape", c_int64 * 4), ("strides", c_int64 * 4)]

    @classmethod
    def of(cls, array):
        """A float32 array [heads, tokens, dim] as [1, heads, tokens, dim]."""
        if array.dtype != np.float32 or array.ndim != 3:
            raise ValueError(f"array of {array.dtype}, {array.ndim} axes: "
                             "expected float32 and 3")
        return cls(array.ctypes.data, F32, 0, (1, *array.shape),
                   (0, *(stride // 4 for stride in array.strides)))


class PerHead(Structure):
    _fields_ = [("values", POINTER(c_double)), ("count", c_int64)]

    @classmethod
    def of(cls, values):
        return cls((c_double * len(values))(*values), len(values))


class Int64s(Structure):
    _fields_ = [("values", POINTER(c_int64)), ("count", c_int64)]


class Cumulative(Structure):
    _fields_ = [("values", c_void_p), ("count", c_int64), ("bits", c_int32),
                ("reserved", c_int32)]


class PageTable(Structure):
    _fields_ = [("pages", POINTER(c_int32)), ("stride", c_int64),
                ("page_size", c_int64)]


class Descriptor(Structure):
    """Zero but for its own size: every other member has its default."""

    def __init__(self, **members):
        super().__init__(struct_size=ctypes.sizeof(self), **members)


class Problem(Descriptor):
    _fields_ = [("struct_size", c_size_t), ("dtype", c_int32),
                ("kv_dtype", c_int32), ("batch", c_int64),
                ("query_heads", c_int64), ("kv_heads", c_int64),
                ("query_len", c_int64), ("kv_len", c_int64),
                ("head_dim", c_int64), ("value_dim", c_int64),
                ("mask", c_int32), ("transform", c_int32), ("flags", c_uint32),
                ("reserved", c_int32), ("window", c_int64),
                ("n_sink", c_int64), ("query_offset", c_int64),
                ("softmax_scale", c_double), ("tau", PerHead),
                ("alpha", c_double), ("beta", c_double),
                ("logn_scale", PerHead), ("train_length", c_double),
                ("slopes", PerHead), ("calibration_mean", PerHead),
                ("calibration_standard_deviation", PerHead)]


class Tensors(Descriptor):
    _fields_ = [("struct_size", c_size_t), ("query", Tensor), ("key", Tensor),
                ("value", Tensor), ("out", Tensor), ("lse", Tensor),
                ("key_scale", Tensor), ("value_scale", Tensor),
                ("query_lengths", Int64s), ("kv_lengths", Int64s),
                ("cu_query", Cumulative), ("cu_kv", Cumulative),
                ("pages", PageTable), ("query_offsets", Int64s),
                ("stream", c_void_p)]


class Execution(Descriptor):
    _fields_ = [("struct_size", c_size_t), ("backend", c_char_p),
                ("threads", c_int32), ("reserved", c_int32),
                ("table_cache", c_void_p)]


class Message(Structure):
    _fields_ = [("text", c_char * 512)]


class Library:
    """A loaded library. Raises OSError where there is none, ValueError with
    the library's message where a call is refused."""

    def __init__(self, path):
        self._c = ctypes.CDLL(str(path))
        self._c.siattn_version.restype = c_char_p
        self._c.siattn_plan_workspace_bytes.restype = c_size_t
        self._c.siattn_plan_workspace_bytes.argtypes = [c_void_p]
        self._c.siattn_plan_destroy.argtypes = [c_void_p]
        self._c.siattn_plan_create.argtypes = [
            POINTER(Problem), POINTER(Execution), POINTER(c_void_p),
            POINTER(Message)]
        self._c.siattn_plan_run.argtypes = [
            c_void_p, POINTER(Tensors), c_void_p, c_size_t, POINTER(Message)]

    @property
    def version(self):
        return self._c.siattn_version().decode()

    def plan(self, problem, threads=0):
        return Plan(self._c, problem, Execution(threads=threads))


class Plan:
    """A problem, for one sequence of at most its query_len and kv_len."""

    def __init__(self, c, problem, execution):
        self._c, self._handle = c, c_void_p()
        self._checked(c.siattn_plan_create, byref(problem), byref(execution),
                      byref(self._handle))
        size = c.siattn_plan_workspace_bytes(self._handle)
        self._workspace = np.empty(size, np.uint8)

    def __del__(self):
        if self._handle:
            self._c.siattn_plan_destroy(self._handle)

    def run(self, query, key, value, out):
        """query and out [heads, rows, dim], key and value [kv_heads, keys,
        dim], float32, any strides but the innermost; the queries are the last
        of the tokens."""
        tensors = Tensors(query=Tensor.of(query), key=Tensor.of(key),
                          value=Tensor.of(value), out=Tensor.of(out))
        # A batch of one sequence that is shorter than the plan is for.
        for name, rows in (("cu_query", query.shape[1]),
                           ("cu_kv", key.shape[1])):
            values = (c_int64 * 2)(0, rows)
            setattr(tensors, name,
                    Cumulative(ctypes.addressof(values), 2, 64, 0))
            setattr(tensors, f"kept_{name}", values)  # as long as tensors is
        self._checked(self._c.siattn_plan_run, self._handle, byref(tensors),
                      self._workspace.ctypes.data, self._workspace.nbytes)

    @staticmethod
    def _checked(function, *arguments):
        message = Message()
        if function(*arguments, byref(message)) != 0:
            raise ValueError(message.text.decode())
