# SPDX-License-Identifier: Apache-2.0
"""Wrong variants of attention_mp.py's equations. With any of them in its place check_run.py must fail: else it would
not see a program that is wrong in that way."""
from typing import Callable, Dict, Tuple

from mpmath import mp, mpf

import attention_mp as exact

right = {name: getattr(exact, name) for name in ("scale_invariant", "distance", "visible_keys", "affine_map",
                                                 "attention_head", "alibi_slopes")}


def without(keys, index):
    return keys[:index] + keys[index + 1:] if len(keys) > 1 else keys


def with_scale(change) -> Callable:
    """A scale-invariant transform whose a_t and m_t are changed."""
    return lambda tau, alpha, beta, t: change(*right["scale_invariant"](tau, alpha, beta, t))


def window_plus_one(problem, position, kv_len):
    window = None if problem.window is None else problem.window + 1
    return right["visible_keys"](exact.Problem(mask=problem.mask, window=window), position, kv_len)


def count_plus_one(problem, head, query_heads, head_dim, t, n):
    return right["affine_map"](problem, head, query_heads, head_dim, t, n + 1)


def lse_in_base_two(*arguments):
    rows = right["attention_head"](*arguments)
    for row in rows:
        row.lse /= mp.log(2)
    return rows


def mean_outside(problem, head, factor, shift):
    """The mean taken away after the transform."""
    deviation = mpf(exact.per_head(problem.standard_deviation, head))
    return factor / deviation, shift - mpf(exact.per_head(problem.mean, head)) / deviation


PLANTS: Dict[str, Tuple[str, Callable]] = {
    "tau-1-percent": ("scale_invariant", lambda tau, *rest: right["scale_invariant"](1.01 * tau, *rest)),
    "a-without-1": ("scale_invariant", with_scale(lambda a, m: (mp.sqrt(max(a * a - 1, 0)), m))),
    "a-is-1": ("scale_invariant", with_scale(lambda a, m: (mpf(1), m))),
    "m-is-0": ("scale_invariant", with_scale(lambda a, m: (a, mpf(0)))),
    "a-bf16": ("scale_invariant", with_scale(lambda a, m: (mpf(round(float(a) * 256) / 256), m))),
    "distance-plus-1": ("distance", lambda *x: right["distance"](*x) + 1),
    "distance-minus-1": ("distance", lambda problem, position, key: abs(position - key - 1)),
    "query-offset-0": ("query_position", lambda problem, row, query_len, kv_len: (problem.query_offset or 0) + row),
    "oldest-key-dropped": ("visible_keys", lambda *x: without(right["visible_keys"](*x), 0)),
    "newest-key-dropped": ("visible_keys", lambda *x: right["visible_keys"](*x)[:-1] or right["visible_keys"](*x)),
    "window-plus-1": ("visible_keys", window_plus_one),
    "kv-head-modulo": ("kv_head", lambda head, query_heads, kv_heads: head % kv_heads),
    "sink-from-the-end": ("is_sink", lambda problem, key, kv_len: key >= kv_len - problem.sinks),
    "sinks-transformed": ("is_sink", lambda *x: False),
    "count-plus-1": ("affine_map", count_plus_one),
    "calibration-mean-outside": ("calibrated", mean_outside),
    "calibration-forgotten": ("calibrated", lambda problem, head, factor, shift: (factor, shift)),
    "alibi-from-1": ("alibi_slopes", lambda heads: (mpf(1), *right["alibi_slopes"](heads)[:-1])),
    "lse-base-2": ("attention_head", lse_in_base_two),
}


def plant(name: str) -> None:
    function, wrong = PLANTS[name]
    setattr(exact, function, wrong)
