# SPDX-License-Identifier: Apache-2.0
"""What shows that the model runs right, and where its attention goes."""

import time

import numpy as np

from model import (Cache, Model, causal_attention, greedy, rotate_halves,
                   weight_blocks)

LOGIT_ROWS = 256  # 256 rows of a 49152-token vocabulary are 50 MB
CONTINUATION = 48


def token_losses(model, numbers, attention=causal_attention):
    """The negative log-likelihood, nats, of every token but the first:
    entry i is that of token i + 1 after i + 1 tokens of context."""
    hidden = model.forward(numbers, attention)
    following = np.asarray(numbers[1:])
    losses = np.empty(len(following))
    for start in range(0, len(following), LOGIT_ROWS):
        rows = slice(start, min(start + LOGIT_ROWS, len(following)))
        logits = model.logits(hidden[rows]).astype(np.float64)
        top = logits.max(axis=-1)
        log_total = top + np.log(np.exp(logits - top[:, None]).sum(axis=-1))
        chosen = logits[np.arange(len(logits)), following[rows]]
        losses[rows] = log_total - chosen
    return losses


def perplexity(model, numbers, attention=causal_attention):
    """exp of the mean negative log-likelihood of every token but the first."""
    return float(np.exp(token_losses(model, numbers, attention).mean()))


def stepwise_logits(model, prompt, continuation):
    """The logits that cached decoding saw ahead of each continuation token."""
    cache = Cache(model.config, len(prompt) + len(continuation))
    rows, new = [], prompt
    for number in continuation:
        rows.append(model.logits(model.forward(new, cache=cache)[-1]))
        new = [number]
    return np.stack(rows)


def check(model, tokenizer, text, numbers, start):
    """Print the checks; True if those with a yes or no answer say yes."""
    round_trip = tokenizer.decode(tokenizer.encode(text)) == text
    print(f"decode(encode(text)) is the text: {yes_no(round_trip)}")

    started = time.perf_counter()
    right = perplexity(model, numbers)
    seconds = time.perf_counter() - started
    wrong = perplexity(Model(model.config, model.weights, rotate_halves),
                       numbers)
    print(f"perplexity over {len(numbers)} tokens: {right:.3f} "
          f"({seconds:.1f} s)")
    print(f"the same, RoPE in the other layout: {wrong:.3f}")

    chosen = greedy(model, start, CONTINUATION)
    print(f"prompt: {tokenizer.decode(start)!r}\n"
          f"greedy: {tokenizer.decode(chosen)!r}")
    if not chosen:
        print("the model ends the text there: cached decoding is not checked")
        return False
    stepwise = stepwise_logits(model, start, chosen)
    hidden = model.forward(start + chosen)
    whole = model.logits(hidden[len(start) - 1:len(start) + len(chosen) - 1])
    same = chosen == whole.argmax(axis=-1).tolist()
    print(f"cached decoding chooses the {len(chosen)} tokens of one full pass: "
          f"{yes_no(same)} (logits differ by up to "
          f"{np.abs(stepwise - whole).max():.1e} of "
          f"{np.abs(whole).max():.1f})")
    return round_trip and same and right < wrong


def yes_no(answer):
    return "yes" if answer else "NO"


def attention_mass(model, numbers):
    """The share of attention by distance, of the queries in the second half.

    Returns the names of the columns and shares [layers, heads, columns]. Key 0
    stands apart: it is the sink that heads attend to when they have no other
    use for their weight.
    """
    tokens = len(numbers)
    edges = [0, 1]
    while edges[-1] < tokens:
        edges.append(edges[-1] * 10)
    ranges = list(zip(edges, edges[1:]))
    names = ["key 0", "itself"] + [f"{low}-{min(high, tokens) - 1}"
                                   for low, high in ranges[1:]]
    shares = np.zeros((model.config.layers, model.config.heads, len(names)))

    def measured_attention(query, key, value, layer):
        for block, weights in weight_blocks(query, key):
            position = np.arange(block.start, block.stop)
            late = position >= tokens // 2
            keys = np.arange(weights.shape[-1])
            distance = position[late, None] - keys
            flat = weights.reshape(len(query), *weights.shape[2:])[:, late]
            shares[layer, :, 0] += flat[..., 0].sum(axis=1)
            for column, (low, high) in enumerate(ranges, start=1):
                inside = (keys > 0) & (low <= distance) & (distance < high)
                shares[layer, :, column] += (flat * inside).sum(axis=(1, 2))
        return causal_attention(query, key, value, layer)

    model.forward(numbers, measured_attention)
    return names, shares / (tokens - tokens // 2)


def print_mass(model, numbers):
    names, shares = attention_mass(model, numbers)
    print("share of attention by distance in tokens, mean over heads; last: "
          "the heads' least and greatest share of key 0")
    print("layer" + "".join(f"{name:>10}" for name in names) + "   of key 0")
    for layer, by_head in enumerate(shares):
        cells = "".join(f"{100 * cell:9.1f}%" for cell in by_head.mean(axis=0))
        least, greatest = 100 * by_head[:, 0].min(), 100 * by_head[:, 0].max()
        print(f"{layer:5}{cells}   {least:.0f}-{greatest:.0f}%")
