# SPDX-License-Identifier: Apache-2.0
"""The library's attention where the model has its own, and the calibration
that the scale-invariant transform wants of a model trained without it."""

import re
from dataclasses import dataclass

import numpy as np

from model import QUERY_BLOCK
from siattn_c import F32, TRANSFORMS, PerHead, Problem

SINKS = 1  # the first token, which later layers use as a sink


@dataclass(frozen=True)
class Method:
    """A transform of the logits: its name in the library, its parameter, and
    whether base logits are standardised first."""
    name: str
    parameter: float | None = None
    calibrated: bool = False

    @classmethod
    def parse(cls, words):
        """scale-invariant, scale-invariant:20, logn:0.4, alibi,
        scale-invariant+calibration: name, parameter, and so on."""
        found = re.fullmatch(r"(none|scale-invariant|logn|infoscale|alibi)"
                             r"(?::([0-9.e+-]+))?(\+calibration)?", words)
        if not found:
            raise ValueError(f"{words}: no such transform")
        name, parameter, calibrated = found.groups()
        defaults = {"scale-invariant": 10.0, "logn": 0.4, "infoscale": 4096.0}
        if parameter is None:
            parameter = defaults.get(name)
        elif name not in defaults:
            raise ValueError(f"{words}: {name} takes no parameter")
        else:
            parameter = float(parameter)
        return cls(name, parameter, calibrated is not None)


def bucket(length):
    """Plans are made for lengths that are powers of two, and used for all up
    to these."""
    return 1 << max(length - 1, 0).bit_length()


class LibraryAttention:
    """Takes the place of model.causal_attention."""

    def __init__(self, library, method, calibration=None):
        self.library = library
        self.method = method
        self.calibration = calibration  # (mean, standard deviation) by layer
        self.plans = {}

    def __call__(self, query, key, value, layer):
        out = np.empty_like(query)
        shape = (query.shape[0], key.shape[0], bucket(query.shape[1]),
                 bucket(key.shape[1]), query.shape[2])
        # Layers differ by their calibration only.
        name = (layer if self.calibration else 0, *shape)
        if name not in self.plans:
            self.plans[name] = self._plan(layer, *shape)
        self.plans[name].run(query, key, value, out)
        return out

    def _plan(self, layer, heads, kv_heads, rows, keys, head_dim):
        name, parameter = self.method.name, self.method.parameter
        problem = Problem(
            dtype=F32, batch=1, query_heads=heads, kv_heads=kv_heads,
            query_len=rows, kv_len=keys, head_dim=head_dim, value_dim=head_dim,
            transform=TRANSFORMS[name],
            # Plain softmax leaves every key as it is.
            n_sink=0 if name == "none" else SINKS)
        if name == "scale-invariant":
            problem.tau = PerHead.of([parameter])
        elif name == "logn":
            problem.logn_scale = PerHead.of([parameter])
        elif name == "infoscale":
            problem.train_length = parameter
        if self.calibration:
            mean, deviation = self.calibration[layer]
            problem.calibration_mean = PerHead.of(mean)
            problem.calibration_standard_deviation = PerHead.of(deviation)
        # One token on so few keys is done before a second thread has woken.
        return self.library.plan(problem, 1 if rows * keys <= 4096 else 0)


def base_logit_moments(query, key):
    """Mean and standard deviation of S = query . key / sqrt(head_dim) for each
    head, over the pairs that a causal mask shows, sinks left out."""
    heads, tokens, head_dim = query.shape
    kv_heads = key.shape[0]
    grouped = query.reshape(kv_heads, heads // kv_heads, tokens, head_dim)
    counted = sum_1 = sum_2 = 0
    for start in range(0, tokens, QUERY_BLOCK):
        block = slice(start, min(start + QUERY_BLOCK, tokens))
        position = np.arange(block.start, block.stop)
        keys = np.arange(SINKS, block.stop)
        seen = keys <= position[:, None]
        logits = (grouped[:, :, block] / np.float32(np.sqrt(head_dim))
                  @ key[:, None, SINKS:block.stop].swapaxes(-1, -2))
        logits = np.where(seen, logits.astype(np.float64), 0)
        counted += seen.sum()
        sum_1 = sum_1 + logits.sum(axis=(-1, -2)).ravel()
        sum_2 = sum_2 + (logits * logits).sum(axis=(-1, -2)).ravel()
    mean = sum_1 / counted
    return mean, np.sqrt(sum_2 / counted - mean * mean)


def measure_calibration(model, numbers):
    """(mean, standard deviation) by head, for every layer, on these tokens
    under the model's own attention."""
    query, found = {}, {}

    def observe(layer, name, tensor):
        if name == "query_rope":
            query[layer] = tensor
        elif name == "key_rope":
            found[layer] = base_logit_moments(query.pop(layer), tensor)

    model.forward(numbers, observe=observe)
    return [found[layer] for layer in range(model.config.layers)]
