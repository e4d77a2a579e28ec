# SPDX-License-Identifier: Apache-2.0
"""Attention of the contract (include/siattn/attention.hpp) in 40-digit arithmetic, and how far a right program may be
from it.

Written from the contract alone; shares no code with the library. Plain loops over the equations: for small shapes.
Every step on which implementations disagree is a function of its own, so that planted.py can put a wrong one there.
"""
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import List, Optional, Tuple

import numpy as np
from mpmath import mp, mpf

mp.dps = 40

SQRT_E_AS_DOUBLE = 1.6487212707001282  # as alpha or beta it stands for the exact e^(1/2)


@dataclass(frozen=True)
class Problem:
    """What is computed, besides the shapes; the defaults are the command line's."""
    transform: str = "scale-invariant"
    tau: Tuple[float, ...] = (10.0,)          # one, or one per query head
    alpha: Optional[float] = None             # None: e^(1/2)
    beta: Optional[float] = None
    logn_scale: Tuple[float, ...] = (0.4,)    # one, or one per query head
    train_length: float = 4096.0
    sinks: int = 0
    mask: str = "causal"
    window: Optional[int] = None
    query_offset: Optional[int] = None        # None: kv_len - query_len
    softmax_scale: Optional[float] = None     # None: 1 / sqrt(head_dim)
    mean: Tuple[float, ...] = (0.0,)          # of the calibration; one, or one per query head
    standard_deviation: Tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class Arithmetic:
    """The constants of the bound: unit roundoff u, relative error of exp and of the transform's entries, u of weights
    that are rounded before P V, and the size below which a weight (at most 1 before normalisation) may be lost."""
    u: float
    e_exp: float
    e_table: float
    u_weights: float = 0.0
    lost_weight: float = 2.0**-126


# The transform in double is granted what check_table.py grants the table.
DOUBLE = Arithmetic(u=2.0**-53, e_exp=2.0**-51, e_table=1e-15, lost_weight=0.0)


def float32_arithmetic(dtype: str) -> Arithmetic:
    """float32, whose 16-bit weights may be rounded before they meet the values (contract, "Types"). A weight below the
    normal numbers of f16 is then rounded to a multiple of 2^-24."""
    u_weights = {"f32": 0.0, "bf16": 2.0**-8, "f16": 2.0**-11}[dtype]
    return Arithmetic(2.0**-24, 2.0**-22, 2.0**-24, u_weights, 2.0**-25 if dtype == "f16" else 2.0**-126)


# |rounded x - x| <= unit roundoff * |x| + half of the least subnormal
ROUNDING = {"f64": (2.0**-53, 0.0), "f32": (2.0**-24, 2.0**-150), "bf16": (2.0**-8, 2.0**-134),
            "f16": (2.0**-11, 2.0**-25)}


# ---- The equations ------------------------------------------------------------------------------------------------

def per_head(values: Tuple[float, ...], head: int) -> float:
    return values[0] if len(values) == 1 else values[head]


def kv_head(head: int, query_heads: int, kv_heads: int) -> int:
    return head // (query_heads // kv_heads)


def query_position(problem: Problem, row: int, query_len: int, kv_len: int) -> int:
    first = kv_len - query_len if problem.query_offset is None else problem.query_offset
    return first + row


def distance(problem: Problem, position: int, key: int) -> int:
    t = position - key
    return abs(t) if problem.mask == "bidirectional" else t


def visible_keys(problem: Problem, position: int, kv_len: int) -> List[int]:
    def visible(key: int) -> bool:
        if problem.mask == "causal" and position - key < 0:
            return False
        return problem.window is None or abs(position - key) < problem.window
    return [key for key in range(kv_len) if visible(key)]


def is_sink(problem: Problem, key: int, kv_len: int) -> bool:
    return key < problem.sinks


def exact_parameter(value: Optional[float]) -> mpf:
    return mp.exp(mpf(1) / 2) if value in (None, SQRT_E_AS_DOUBLE) else mpf(value)


@lru_cache(maxsize=None)
def scale_invariant(tau: float, alpha: Optional[float], beta: Optional[float], t: int) -> Tuple[mpf, mpf]:
    """a_t and m_t of Eq. 16. With 100 digits, because the terms of m_t cancel where t/tau is small."""
    with mp.workdps(100):
        a, b = exact_parameter(alpha), exact_parameter(beta)
        squared = 2 * (mp.log1p(mpf(t) / mpf(tau)) - mp.log(a) + b / a)
        scale, shift = mp.sqrt(squared), b / a - squared
    return +scale, +shift


@lru_cache(maxsize=None)
def alibi_slopes(heads: int) -> Tuple[mpf, ...]:
    """2^(-8 h / H), h = 1 .. H, for a power of two; else those of the power below, then every other one of twice it."""
    power = 1
    while 2 * power <= heads:
        power *= 2
    slopes = [mpf(2) ** (mpf(-8 * h) / power) for h in range(1, power + 1)]
    between = [mpf(2) ** (mpf(-8 * h) / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return tuple(slopes + between[:heads - power])


def info_scale(n: int, head_dim: int, train_length: float) -> mpf:
    def information(length) -> mpf:
        return mp.sqrt(1 - mpf(length) ** (mpf(-2) / head_dim))
    return information(n) / information(train_length)


def affine_map(problem: Problem, head: int, query_heads: int, head_dim: int, t: int, n: int) -> Tuple[mpf, mpf]:
    """(factor, shift) of L = factor * S + shift, for a key at distance t of a query that sees n keys."""
    if problem.transform == "scale-invariant":
        return scale_invariant(per_head(problem.tau, head), problem.alpha, problem.beta, t)
    if problem.transform == "logn":
        return mpf(per_head(problem.logn_scale, head)) * mp.log(n), mpf(0)
    if problem.transform == "infoscale":
        return info_scale(n, head_dim, problem.train_length), mpf(0)
    if problem.transform == "alibi":
        return mpf(1), -alibi_slopes(query_heads)[head] * t
    if problem.transform == "none":
        return mpf(1), mpf(0)
    raise ValueError(f"unknown transform {problem.transform}")


def calibrated(problem: Problem, head: int, factor: mpf, shift: mpf) -> Tuple[mpf, mpf]:
    """The map of S that is L = factor * (S - mean) / standard_deviation + shift."""
    deviation = mpf(per_head(problem.standard_deviation, head))
    return factor / deviation, shift - factor * mpf(per_head(problem.mean, head)) / deviation


def log_sum_exp(logits: List[mpf]) -> mpf:
    top = max(logits)
    return top + mp.log(mp.fsum(mp.exp(x - top) for x in logits))


@dataclass
class Row:
    """One query's exact result over the keys that it sees, and what the bound needs to know of the way there."""
    keys: List[int]
    dots: List[float] = field(default_factory=list)     # sum_d |q_d||k_jd|
    scores: List[float] = field(default_factory=list)   # S_j
    factors: List[float] = field(default_factory=list)
    shifts: List[float] = field(default_factory=list)
    cancelled: List[float] = field(default_factory=list)  # the sizes of the two terms of a shift that has two
    logits: List[mpf] = field(default_factory=list)
    weights: List[mpf] = field(default_factory=list)
    out: List[mpf] = field(default_factory=list)
    lse: mpf = mpf("-inf")


def to_mpf(matrix: np.ndarray) -> List[List[mpf]]:
    return [[mpf(float(x)) for x in row] for row in matrix]


def attention_head(problem: Problem, head: int, query_heads: int, query: np.ndarray, key: np.ndarray,
                   value: np.ndarray) -> List[Row]:
    """query [query_len, head_dim], key [kv_len, head_dim], value [kv_len, value_dim] of one head, as doubles."""
    (query_len, head_dim), kv_len = query.shape, key.shape[0]
    scale = 1 / mp.sqrt(head_dim) if problem.softmax_scale is None else mpf(problem.softmax_scale)
    absolute = np.abs(query) @ np.abs(key).T
    q, k, columns = to_mpf(query), to_mpf(key), to_mpf(value.T)
    rows = []
    for i in range(query_len):
        position = query_position(problem, i, query_len, kv_len)
        row = Row(visible_keys(problem, position, kv_len))
        row.out = [mpf(0)] * value.shape[1]
        for j in row.keys:
            score = scale * mp.fdot(q[i], k[j])
            factor, shift, cancelled = mpf(1), mpf(0), 0.0
            if not is_sink(problem, j, kv_len):
                factor, before = affine_map(problem, head, query_heads, head_dim, distance(problem, position, j),
                                            len(row.keys))
                factor, shift = calibrated(problem, head, factor, before)
                if shift != before:
                    cancelled = float(abs(before) + abs(shift - before))
            row.logits.append(factor * score + shift)
            row.dots.append(float(abs(scale)) * absolute[i, j])
            row.scores.append(float(score))
            row.factors.append(float(factor))
            row.shifts.append(float(shift))
            row.cancelled.append(cancelled)
        if row.keys:
            row.lse = log_sum_exp(row.logits)
            row.weights = [mp.exp(x - row.lse) for x in row.logits]
            row.out = [mp.fdot(row.weights, [column[j] for j in row.keys]) for column in columns]
        rows.append(row)
    return rows


# ---- The bound ----------------------------------------------------------------------------------------------------

def gamma(k: int, u: float) -> float:
    return k * u / (1 - k * u)


def logit_error(row: Row, head_dim: int, arithmetic: Arithmetic) -> np.ndarray:
    """L_j = c <q, k_j> + m_j with c = row factor * table entry.
    Errors: head_dim roundings in each term of <q, k_j> (one more is granted for a score that is scaled first); then
    relative to c <q, k_j>: the entry, the row factor u, their product u, times <q, k_j> u, the addition u; relative
    to m_j: the entry, the addition u. Where m_j is a difference, formed in double: 2^-50 of its terms."""
    u, e_table = arithmetic.u, arithmetic.e_table
    factors = np.abs(np.array(row.factors))
    return (factors * np.array(row.dots) * gamma(head_dim + 1, u)
            + factors * np.abs(np.array(row.scores)) * (e_table + 4 * u)
            + np.abs(np.array(row.shifts)) * (e_table + u) + 2.0**-50 * np.array(row.cancelled))


def maximum_rises(below_top: np.ndarray) -> Tuple[int, float]:
    """How often the running maximum rises, and by how much in all, over the keys in the order given. Tiles or lanes
    see a subsequence of these rises."""
    running = np.maximum.accumulate(below_top)
    return int(np.count_nonzero(np.diff(running))), float(running[-1] - running[0])


def weight_error(row: Row, head_dim: int, arithmetic: Arithmetic) -> np.ndarray:
    """Relative error of exp(L_j - running maximum), rescaled each time that the maximum rises: the logit's error; one
    rounding of the argument; the exponential; for each rise the exponential of the step, its rounded argument and a
    product. Keys may be taken from either end."""
    u, e_exp = arithmetic.u, arithmetic.e_exp
    top = max(row.logits)
    below_top = np.array([float(x - top) for x in row.logits])
    rises, climb = map(max, zip(maximum_rises(below_top), maximum_rises(below_top[::-1])))
    with np.errstate(over="ignore"):
        return np.expm1(logit_error(row, head_dim, arithmetic) + u * np.abs(below_top) + e_exp
                        + rises * (e_exp + 2 * u) + u * climb)


@dataclass
class Bound:
    out: List[float]
    lse: float
    weights: List[float]  # of the visible keys, for weights rounded to float32


def bound(row: Row, head_dim: int, value: np.ndarray, arithmetic: Arithmetic, dtype: str) -> Bound:
    """out = sum w_j v_j / sum w_j with w_j = p_j (1 + d_j), |d_j| <= theta_j: to first order the error is
    sum p_j d_j (v_j - out). Both sums have chains of at most n + 2 additions; division, normalisation and the last
    product 3u; weights rounded before the product u_weights; 1 % for what is of second order; lost weights; and the
    rounding to the output type. lse = M + log(sum w_j), perhaps in base 2: 6u of what is added, then one rounding."""
    if not row.keys:
        return Bound([0.0] * value.shape[1], 0.0, [])
    u, n = arithmetic.u, len(row.keys)
    theta = weight_error(row, head_dim, arithmetic)
    p = np.array([float(x) for x in row.weights])
    v = value[row.keys]
    out = np.array([float(x) for x in row.out])
    sizes = p @ np.abs(v)
    u_out, half_subnormal = ROUNDING[dtype]
    tolerance = 1.01 * ((p * theta) @ np.abs(v - out) + gamma(n + 2, u) * (sizes + np.abs(out)) + 3 * u * np.abs(out)
                        + arithmetic.u_weights * sizes)
    tolerance += u_out * np.abs(out) + half_subnormal + n * arithmetic.lost_weight * np.abs(v).max(axis=0)

    u_lse, half_subnormal = ROUNDING["f64" if dtype == "f64" else "f32"]
    of_sum = p @ theta + gamma(n + 2, u) + n * min(arithmetic.lost_weight, 2.0**-126)
    lse = 1.01 * (of_sum + 6 * u * (abs(float(max(row.logits))) + abs(float(row.lse))))
    u_weight, half_subnormal_weight = ROUNDING["f32"]
    weights = p * (1.01 * (theta + of_sum) + u_weight) + half_subnormal_weight
    return Bound(list(tolerance), lse + u_lse * abs(float(row.lse)) + half_subnormal, list(weights))


# ---- Exact answers ------------------------------------------------------------------------------------------------

def h_inputs_row(position: int, keys: List[int]) -> Tuple[Fraction, Fraction]:
    """Query and key 0, tau = 1, softmax_scale = 1, value_j = j: the weight at distance t is proportional to
    1/(t + 1)^2, exactly. Returns out and exp(lse), as fractions."""
    weights = [Fraction(1, (abs(position - j) + 1) ** 2) for j in keys]
    return sum(w * j for w, j in zip(weights, keys)) / sum(weights), sum(weights)
