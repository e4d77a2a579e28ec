# SPDX-License-Identifier: Apache-2.0
"""The problems that check_run.py gives to `siattn run`: directed probes, each for a kind of error, and random ones.

Many small cases share one launch of the program by way of the batch and head axes, which hold unlike data.
"""
from dataclasses import dataclass, replace
from typing import Iterator, List, Tuple

import numpy as np

from attention_mp import SQRT_E_AS_DOUBLE, Problem

DTYPES = ("f32", "bf16", "f16")
TRANSFORMS = ("scale-invariant", "none", "logn", "infoscale", "alibi")
FAR = 2**31 - 1


@dataclass
class Case:
    group: str
    name: str
    problem: Problem
    query: np.ndarray          # [batch, query_heads, query_len, head_dim] in double, before any rounding
    key: np.ndarray            # [batch, kv_heads, kv_len, head_dim]
    value: np.ndarray          # [batch, kv_heads, kv_len, value_dim]
    dtype: str = "f32"
    file_dtypes: Tuple[str, ...] = ()   # of query, key, value; empty: all of them dtype, and no --dtype
    layout: str = "bhsd"
    container: str = "npy"
    axes: int = 4              # of the files: 2 and 3 stand for leading axes of 1
    threads: int = 1
    h_inputs: bool = False     # out and lse are known as fractions
    transform_option: str = ""  # another name of the transform


# ---- Inputs -------------------------------------------------------------------------------------------------------

def one_hot_values(kv_len: int, value_dim: int) -> np.ndarray:
    """One channel for each of the keys 0, 1, n/2, n-2, n-1, over and over: a key that is dropped or doubled shows."""
    value = np.zeros((kv_len, value_dim))
    for channel in range(value_dim if kv_len else 0):
        value[(0, 1, kv_len // 2, kv_len - 2, kv_len - 1)[channel % 5] % kv_len, channel] = 1
    return value


def keys_and_values(kind: str, rng, kv_len: int, head_dim: int, value_dim: int) -> Tuple[np.ndarray, np.ndarray]:
    key, value = np.zeros((kv_len, head_dim)), one_hot_values(kv_len, value_dim)
    if kind == "gaussian":
        return rng.normal(size=key.shape), rng.normal(size=value.shape)
    if kind == "wide":
        return 4 * rng.normal(size=key.shape), rng.normal(size=value.shape)
    if kind == "shifted":  # out is close to 100: v - out cancels
        return rng.normal(size=key.shape), 100 + rng.normal(size=value.shape)
    if kind == "equal":    # scores 0: the transform alone decides
        return key, value
    if kind == "needle":   # the oldest key outweighs the rest
        key[:1] = 8
        return key, value
    if kind == "alternating":
        key[:] = np.where(np.arange(kv_len) % 2 == 0, -5.0, 1.5)[:, None]
        return key, value
    if kind == "low":      # a running maximum that starts at 0 or -5e4 loses everything
        key[:] = -1000 - np.arange(kv_len)[:, None]
        return key, value
    raise ValueError(kind)


KINDS = ("gaussian", "wide", "shifted", "equal", "needle", "alternating", "low")


def inputs(rng, kinds, batch, group_size, query_len, kv_len, head_dim, value_dim):
    """One kv head for each kind, another draw in every sequence, group_size query heads for each. The kinds that are
    not drawn get queries e_0 + (tenths), so that their scores are about softmax_scale times what they say."""
    query = rng.normal(size=(batch, len(kinds) * group_size, query_len, head_dim))
    for g, kind in enumerate(kinds):
        if kind not in ("gaussian", "wide", "shifted"):
            heads = slice(g * group_size, (g + 1) * group_size)
            query[:, heads] = (np.arange(head_dim) == 0) + 0.1 * np.arange(group_size)[:, None, None]
    pairs = [[keys_and_values(kind, rng, kv_len, head_dim, value_dim) for kind in kinds] for _ in range(batch)]
    shape = (batch, len(kinds), kv_len)
    key = np.array([k for row in pairs for k, _ in row]).reshape(*shape, head_dim)
    value = np.array([v for row in pairs for _, v in row]).reshape(*shape, value_dim)
    return query, key, value


# ---- Directed cases -----------------------------------------------------------------------------------------------

def h_inputs(query_len: int, kv_len: int, name: str, dtypes=DTYPES, **options) -> Iterator[Case]:
    problem = Problem(tau=(1.0,), softmax_scale=1.0, **options)
    value = np.broadcast_to(np.arange(kv_len, dtype=float)[:, None], (1, 1, kv_len, 3))
    for dtype in dtypes:
        yield Case("H-inputs", name, problem, np.zeros((1, 1, query_len, 4)), np.zeros((1, 1, kv_len, 4)), value, dtype,
                   h_inputs=True)


def h_input_cases() -> Iterator[Case]:
    yield from h_inputs(5, 5, "prefill")
    yield from h_inputs(5, 2, "rows that see nothing")
    yield from h_inputs(1, 5, "decode", ("f32", "bf16"))
    yield from h_inputs(64, 64, "prefill 64", ("f32", "f16"))
    yield from h_inputs(60, 64, "chunk", ("f32",))
    yield from h_inputs(5, 5, "window 2", window=2)
    yield from h_inputs(5, 5, "bidirectional", ("f32",), mask="bidirectional")
    yield from h_inputs(3, 40, "far", ("f32",), mask="bidirectional", query_offset=-1000)


def head_dim_cases() -> Iterator[Case]:
    """Only the last channel holds anything: 0.8 when it is left out, 0.5 (lse ln 2) when it is not."""
    problem = Problem(tau=(1.0,), softmax_scale=1.0)
    dims = {"f32": (1, 3, 8, 17, 65, 129), "bf16": (7, 31, 64), "f16": (15, 63)}
    for dtype, choices in dims.items():
        for head_dim in choices:
            query, key = np.zeros((1, 1, 1, head_dim)), np.zeros((1, 1, 2, head_dim))
            query[..., -1] = 1
            key[0, 0, 0, -1] = 0.89741525801397862
            yield Case("head_dim", f"D = {head_dim}", problem, query, key, np.array([[[[0.0], [1.0]]]]), dtype)


def size_cases(rng) -> Iterator[Case]:
    """Lengths on both sides of vectors and tiles, every kind of data in its own kv head."""
    sizes = (("f32", 15, 15), ("bf16", 16, 16), ("f16", 17, 17), ("f32", 1, 33), ("f32", 31, 32), ("bf16", 2, 65),
             ("f16", 1, 64), ("f32", 5, 70))
    for index, (dtype, query_len, kv_len) in enumerate(sizes):
        kinds = KINDS if query_len < 10 else tuple(np.roll(KINDS, index)[:4])
        data = inputs(rng, kinds, 1, 2 if query_len < 10 else 1, query_len, kv_len, 3, 5)
        yield Case("sizes", f"{query_len} x {kv_len}", Problem(softmax_scale=1.0), *data, dtype)
    long = 4096  # the sum of the weights is out of the range in which f16 and bf16 count
    for dtype in ("bf16", "f16"):
        yield Case("sizes", f"sum of {long}", Problem(tau=(1e30,)), np.zeros((1, 1, 1, 1)), np.zeros((1, 1, long, 1)),
                   np.ones((1, 1, long, 1)), dtype)
    for low, dtype in ((-1000.0, "f32"), (-60000.0, "f32"), (-60000.0, "f16")):
        values = np.arange(4.0).reshape(1, 1, 4, 1)
        yield Case("sizes", f"scores {low}", Problem(tau=(1.0,), softmax_scale=1.0), np.ones((1, 1, 4, 1)),
                   np.full((1, 1, 4, 1), low), values, dtype)
    for shape in ((0, 3), (3, 0), (0, 0)):
        yield Case("sizes", f"{shape[0]} x {shape[1]}", Problem(), *inputs(rng, ("gaussian",), 2, 2, *shape, 4, 3))


def transform_cases(rng) -> Iterator[Case]:
    """Each option of each transform. Two sequences, 2 kv heads or so, 6 queries, 9 keys."""
    options = (
        Problem(tau=(0.5, 3.0, 10.0, 200.0)), Problem(tau=(7.0,), alpha=1.0, beta=1.0),
        Problem(tau=(2.5,), alpha=2.0, beta=3.0), Problem(tau=(10.0,), alpha=0.3, beta=0.05),
        Problem(alpha=SQRT_E_AS_DOUBLE, beta=SQRT_E_AS_DOUBLE),
        Problem(transform="logn", logn_scale=(0.4, 1.0, -0.3, 0.0)), Problem(transform="logn", window=4),
        Problem(transform="logn", mask="bidirectional", window=3, sinks=2),
        Problem(transform="infoscale", train_length=5.0), Problem(transform="infoscale", train_length=1e6, window=3),
        Problem(transform="alibi", mask="bidirectional", window=5), Problem(transform="alibi", sinks=3),
        Problem(tau=(1.0,), sinks=1), Problem(tau=(1.0,), sinks=20), Problem(tau=(1.0,), sinks=2, window=4))
    for index, problem in enumerate(options):
        data = inputs(rng, ("gaussian", ("equal", "alternating", "needle")[index % 3]), 2, 2, 6, 9, 4, 5)
        yield Case("transforms", str(index), problem, *data, DTYPES[index % 3])
    for heads, dtype in ((6, "f32"), (8, "bf16"), (12, "f16"), (1, "f32")):
        data = inputs(rng, ("gaussian",), 1, heads, 3, 7, 2, 3)
        yield Case("transforms", f"alibi, {heads} heads", Problem(transform="alibi"), *data, dtype)
    data = inputs(rng, ("gaussian",), 1, 2, 3, 7, 2, 3)
    yield Case("transforms", "ssmax", Problem(transform="logn"), *data, transform_option="ssmax")


def calibration_cases(rng) -> Iterator[Case]:
    """Base logits that are far from standard normal, with and without sinks."""
    mean, deviation = (-9.0, -2.5, 0.5, 3.0), (3.0, 1.5, 0.4, 0.7)
    options = (
        Problem(mean=(-9.0,), standard_deviation=(3.0,)), Problem(mean=mean, standard_deviation=deviation, sinks=1),
        Problem(mean=mean, tau=(0.5, 3.0, 10.0, 200.0)), Problem(standard_deviation=deviation, alpha=2.0, beta=3.0),
        Problem(transform="none", mean=mean, standard_deviation=deviation),
        Problem(transform="alibi", mean=mean, standard_deviation=(0.5,), sinks=2),
        Problem(transform="logn", standard_deviation=deviation, window=4),
        Problem(transform="infoscale", standard_deviation=(2.5,), train_length=20.0))
    for index, problem in enumerate(options):
        data = inputs(rng, ("gaussian", ("equal", "alternating", "needle")[index % 3]), 2, 2, 6, 9, 4, 5)
        yield Case("calibration", str(index), problem, *data, DTYPES[index % 3])
    yield Case("calibration", "f64", options[1], *inputs(rng, ("gaussian", "equal"), 1, 2, 5, 8, 4, 5), "f64")


def position_cases(rng) -> Iterator[Case]:
    options = (
        ("f32", Problem(query_offset=0)), ("bf16", Problem(query_offset=-3)), ("f16", Problem(query_offset=40)),
        ("f32", Problem(query_offset=FAR - 6)), ("f32", Problem(query_offset=-FAR, mask="bidirectional")),
        ("bf16", Problem(query_offset=FAR - 6, transform="logn")), ("f16", Problem(query_offset=7, window=3)),
        ("f32", Problem(query_offset=12, window=6, mask="bidirectional")), ("f32", Problem(query_offset=20, window=4)),
        ("f32", Problem(window=FAR)))
    for index, (dtype, problem) in enumerate(options):
        data = inputs(rng, ("gaussian", "needle", "equal"), 1, 2, 6, 9, 5, 5)
        yield Case("positions", str(index), problem, *data, dtype, layout=("bhsd", "bshd")[index % 2])


def file_cases(rng) -> Iterator[Case]:
    """Types of files, conversions, layouts, containers."""
    data = inputs(rng, ("gaussian", "shifted"), 2, 2, 4, 6, 5, 3)
    for dtype, file_dtypes in (("bf16", ("f32",) * 3), ("f16", ("f64",) * 3), ("f32", ("bf16", "f16", "f64")),
                               ("bf16", ("bf16", "f32", "f64")), ("f16", ("f16", "bf16", "f32"))):
        yield Case("files", "types", Problem(), *data, dtype, file_dtypes, layout="bshd")
    # One key: out is the value, converted. Ties, and doubles that two roundings get wrong.
    ties = np.array([0x3E89CCD5, 0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF], dtype=np.uint32).view(np.float32)
    near = [1 + 2.0**-8 + 2.0**-40, 1 + 3 * 2.0**-8 - 2.0**-40, 1 + 2.0**-11 + 2.0**-40, 1 + 3 * 2.0**-11 - 2.0**-40]
    near.append(3e-41)  # subnormal but in float64
    values = np.concatenate([ties.astype(float), -ties.astype(float), near]).reshape(1, 1, 1, 15)
    ones = np.ones((1, 1, 1, 2))
    for dtype in DTYPES:
        yield Case("files", "rounding", Problem(), ones, ones, values, dtype, ("f64",) * 3)
    for dtype, layout in zip(DTYPES, ("bshd", "bhsd", "bshd")):
        yield Case("files", "safetensors", Problem(), *data, dtype, layout=layout, container="safetensors")
    for axes, heads in ((2, 1), (3, 2)):
        small = inputs(rng, ("gaussian",) * heads, 1, heads, 4, 6, 5, 3)
        yield Case("files", f"{axes} axes", Problem(), *small, "f32", axes=axes)
    yield Case("files", "threads", Problem(), *data, "f32", threads=3)


def double_cases(rng) -> Iterator[Case]:
    for index, transform in enumerate(TRANSFORMS):
        data = inputs(rng, ("gaussian", KINDS[index]), 1, 2, 5, 8, 6, 5)
        yield Case("float64", transform, Problem(transform=transform, sinks=index % 2), *data, "f64")


# ---- Random cases -------------------------------------------------------------------------------------------------

def random_problem(rng, transform: str, heads: int, query_len: int, kv_len: int) -> Problem:
    def pick(*choices):
        return choices[rng.integers(len(choices))]
    offsets = [None, None, None, int(rng.integers(-4, kv_len + 5)), 0]
    if transform in ("scale-invariant", "logn"):
        offsets.append(FAR - query_len)
    problem = Problem(
        transform=transform, sinks=int(pick(0, 0, rng.integers(1, 4))), mask=pick("causal", "causal", "bidirectional"),
        window=pick(None, None, int(rng.integers(1, kv_len + 3))), query_offset=pick(*offsets),
        softmax_scale=pick(None, None, 1.0, 0.1, -0.6, float(rng.normal())))
    if transform == "scale-invariant":
        tau = tuple(float(x) for x in np.exp(rng.uniform(-3, 6, size=pick(1, heads))))
        problem = replace(problem, tau=tau)
        if pick(True, False, False):
            alpha = float(np.exp(rng.uniform(-2, 1)))
            problem = replace(problem, alpha=alpha, beta=float(max(alpha * np.log(alpha), 0) + rng.uniform(0.1, 3)))
    if transform == "logn":
        problem = replace(problem, logn_scale=tuple(float(x) for x in rng.uniform(-0.5, 1.0, size=pick(1, heads))))
    if transform == "infoscale":
        problem = replace(problem, train_length=float(pick(2.0, 16.0, 4096.0)))
    return problem


def random_case(rng, index: int) -> Case:
    transform, dtype = TRANSFORMS[index % 5], DTYPES[index % 3]
    if rng.random() < 0.25:
        query_len, kv_len, batch = int(rng.integers(1, 30)), int(rng.integers(10, 71)), 1
        kinds = tuple(rng.choice(KINDS, size=2))
    else:
        query_len, kv_len, batch = int(rng.integers(0, 10)), int(rng.integers(0, 10)), int(rng.integers(1, 4))
        kinds = tuple(rng.choice(KINDS, size=rng.integers(1, 4)))
    group_size = int(rng.integers(1, 4))
    head_dim, value_dim = (int(rng.integers(1, 10)) if rng.random() < 0.8 else 64 for _ in range(2))
    problem = random_problem(rng, transform, len(kinds) * group_size, query_len, kv_len)
    data = inputs(rng, kinds, batch, group_size, query_len, kv_len, head_dim, value_dim)
    return Case("random", str(index), problem, *data, dtype, layout=("bhsd", "bshd")[rng.integers(2)])


def all_cases(seed: int, count: int) -> List[Case]:
    rng = np.random.default_rng(seed)
    directed = [*h_input_cases(), *head_dim_cases(), *size_cases(rng), *transform_cases(rng), *position_cases(rng),
                *file_cases(rng), *double_cases(rng), *calibration_cases(rng)]
    return directed + [random_case(rng, index) for index in range(count)]
