#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/capture's model on the library's attention, checked on a small model of
random weights: the code that runs the trained one, without its 93 MB.

    check_serve.py --library libsiattn.so [--plant MISTAKE]

--plant makes a mistake on purpose, which has to be found: `position` (the
library is not given the first key), `sink` (it is transformed like the others),
`calibration` (1 % off)."""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "capture"))

import library_attention  # noqa: E402
from checks import perplexity, token_losses  # noqa: E402
from library_attention import (LibraryAttention, Method,  # noqa: E402
                               measure_calibration)
from model import (Cache, Config, Model, causal_attention,  # noqa: E402
                   greedy, weight_names)
from serve import EDGES, by_position, print_perplexity, speed  # noqa: E402
from siattn_c import Library, Plan  # noqa: E402

VOCABULARY = 97
CONFIG = Config(layers=3, heads=6, kv_heads=2, head_dim=16, context=512,
                rope_theta=10000.0, norm_epsilon=1e-5, end_token=-1,
                licence="none")
METHODS = ("none", "logn:0.3", "infoscale:64", "alibi", "scale-invariant",
           "scale-invariant:3+calibration")
failures = []


def expect(condition, words):
    if not condition:
        failures.append(words)
        print(f"FAILED: {words}")


def random_model():
    """Weights of such a size that attention is neither flat nor one-hot."""
    rng = np.random.default_rng(20250517)
    width = CONFIG.heads * CONFIG.head_dim
    rows = {"attn_q": width, "attn_k": CONFIG.kv_heads * CONFIG.head_dim,
            "attn_v": CONFIG.kv_heads * CONFIG.head_dim, "attn_output": width,
            "ffn_gate": 2 * width, "ffn_up": 2 * width, "ffn_down": width,
            "token_embd": VOCABULARY}
    weights = {}
    for name in sorted(weight_names(CONFIG.layers)):
        part = name.split(".")[-2]
        if part.endswith("norm"):
            weights[name] = np.ones(width, np.float32)
            continue
        columns = 2 * width if part == "ffn_down" else width
        scale = 1.5 if part in ("attn_q", "attn_k") else 1.0
        weights[name] = (scale / np.sqrt(columns) * rng.standard_normal(
            (rows[part], columns))).astype(np.float32)
    return Model(CONFIG, weights)


def alibi_slopes(heads):
    """Press et al. 2021, for heads that are no power of two too."""
    lower = 2 ** int(np.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / lower) for h in range(lower)]
    twice = [2 ** (-8 * (h + 1) / (2 * lower)) for h in range(2 * lower)]
    return np.array(slopes + twice[::2][:heads - lower])


def numpy_attention(method, calibration):
    """The same written down once more: a full matrix in float64."""
    def attention(query, key, value, layer):
        heads, rows, head_dim = query.shape
        group = heads // len(key)
        key, value = (np.repeat(x.astype(np.float64), group, axis=0)
                      for x in (key, value))
        scores = query.astype(np.float64) @ key.swapaxes(-1, -2)
        scores /= np.sqrt(head_dim)
        position = np.arange(key.shape[1] - rows, key.shape[1])[:, None]
        distance = position - np.arange(key.shape[1])
        t = np.maximum(distance, 0)
        base = scores
        if calibration:
            mean, deviation = calibration[layer]
            base = (scores - mean[:, None, None]) / deviation[:, None, None]
        logits = {
            "none": lambda: base,
            "logn": lambda: method.parameter * np.log(position + 1) * base,
            "infoscale": lambda: base * np.sqrt(
                (1 - (position + 1.0) ** (-2 / head_dim))
                / (1 - method.parameter ** (-2 / head_dim))),
            "alibi": lambda: base - alibi_slopes(heads)[:, None, None] * t,
            "scale-invariant": lambda: (
                np.sqrt(1 + 2 * np.log1p(t / (method.parameter or 1))) * base
                - 2 * np.log1p(t / (method.parameter or 1))),
        }[method.name]()
        if method.name != "none":
            logits[..., :1] = scores[..., :1]  # the sink
        logits = np.where(distance >= 0, logits, -np.inf)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return (weights @ value).astype(np.float32)
    return attention


def check_text(model, library, numbers):
    plain = LibraryAttention(library, Method("none"))
    own = greedy(model, numbers[:20], 40)
    expect(len(set(own)) > 5, "the random model repeats itself")
    expect(greedy(model, numbers[:20], 40, plain) == own,
           "greedy text under none is that of the model's own attention")
    worst = np.abs(model.forward(numbers, plain)
                   - model.forward(numbers)).max()
    expect(worst < 1e-4, f"hidden states differ by {worst}")
    for name, attention in (("own", causal_attention), ("library", plain)):
        prefill, decode = speed(model, numbers[:64], attention)
        print(f"{name}: prefill at {prefill:.0f} tokens/s, single tokens at "
              f"{decode:.0f} tokens/s")
        expect(prefill > 0 and decode > 0, "a speed is not positive")


def check_methods(model, library, numbers, plant):
    found = measure_calibration(model, numbers[:100])
    for words in METHODS:
        method = Method.parse(words)
        calibration = found if method.calibrated else None
        told = calibration
        if plant == "calibration" and calibration:
            told = [(mean, 1.01 * sd) for mean, sd in calibration]
        attention = LibraryAttention(library, method, told)
        losses = token_losses(model, numbers, attention)
        right = token_losses(model, numbers,
                             numpy_attention(method, calibration))
        expect(np.abs(losses - right).max() < 1e-3,
               f"{words}: losses differ by {np.abs(losses - right).max()}")
        # A prefill in two parts and single tokens behind it.
        cache = Cache(CONFIG, len(numbers))
        parts = [model.forward(numbers[first:last], attention, cache)
                 for first, last in ((0, 70), (70, 290), (290, 291),
                                     (291, len(numbers)))]
        worst = np.abs(np.concatenate(parts)
                       - model.forward(numbers, attention)).max()
        expect(worst < 1e-4, f"{words}: in parts differs by {worst}")


def check_calibration(model, numbers):
    """Against all the logits at once."""
    kept = {}
    model.forward(numbers, observe=lambda layer, name, x: kept.__setitem__(
        (layer, name), x))
    found = measure_calibration(model, numbers)
    for layer in range(CONFIG.layers):
        key = np.repeat(kept[layer, "key_rope"], 3, axis=0)
        scores = kept[layer, "query_rope"].astype(np.float64) @ key.swapaxes(
            -1, -2) / np.sqrt(CONFIG.head_dim)
        i, j = np.tril_indices(len(numbers))
        seen = scores[:, i[j > 0], j[j > 0]]
        for name, a, b in (("mean", found[layer][0], seen.mean(axis=-1)),
                           ("deviation", found[layer][1], seen.std(axis=-1))):
            expect(np.abs(a - b).max() < 1e-4, f"layer {layer}: {name} {a} {b}")


def check_table(model, library, numbers):
    losses = token_losses(model, numbers)
    expect(abs(perplexity(model, numbers) - np.exp(losses.mean())) < 1e-9,
           "perplexity is not exp of the mean loss")
    rows = by_position(losses[None])
    expect([row[1] for row in rows] == [255, 44, 299], f"buckets {rows}")
    expect(abs(rows[1][2] - np.exp(losses[EDGES[1] - 1:].mean())) < 1e-9,
           "the second bucket")
    print_perplexity(model, library, [numbers], ["none"], None)


def run():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True)
    parser.add_argument("--plant", default="none",
                        choices=("none", "position", "sink", "calibration"))
    options = parser.parse_args()
    library = Library(options.library)
    if options.plant == "sink":
        library_attention.SINKS = 0
    if options.plant == "position":
        whole = Plan.run
        Plan.run = lambda plan, query, key, value, out: whole(
            plan, query, key[:, 1:], value[:, 1:], out)
    model = random_model()
    numbers = np.random.default_rng(1).integers(0, VOCABULARY, 300).tolist()
    check_text(model, library, numbers)
    check_methods(model, library, numbers, options.plant)
    check_calibration(model, numbers[:120])
    check_table(model, library, numbers)
    print("FAILED" if failures else "all good")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(run())
