# SPDX-License-Identifier: Apache-2.0
"""A Llama-architecture causal model in numpy, read from a GGUF file.

Everything runs in float32 on the dequantised weights. Shapes follow one rule:
    query  [heads,    tokens, head_dim]
    key    [kv_heads, tokens, head_dim]
    value  [kv_heads, tokens, head_dim]
Query head h reads key/value head h // (heads / kv_heads).

RoPE layout: INTERLEAVED. GGUF files of the Llama architecture hold the rows of
the query and key weights permuted within each head, so that RoPE turns the
pairs (2i, 2i+1), and not the pairs (i, i + head_dim/2) of the published
checkpoint. Query and key are permuted alike, so every dot product before RoPE,
and every dot product after it, is the same in both layouts.
"""

from dataclasses import dataclass

import numpy as np

from tokenizer import Tokenizer

# Queries handled at once: 256 rows of 8192 logits in 9 heads are 75 MB.
QUERY_BLOCK = 256


@dataclass(frozen=True)
class Config:
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    rope_theta: float
    norm_epsilon: float
    end_token: int
    licence: str


class Cache:
    """Rotated keys and values of the tokens seen so far, layer by layer."""

    def __init__(self, config, capacity):
        shape = (config.layers, config.kv_heads, capacity, config.head_dim)
        self.key = np.zeros(shape, np.float32)
        self.value = np.zeros(shape, np.float32)
        self.length = 0

    def extend(self, layer, key, value):
        """Store the new tokens of a layer; give back all of that layer."""
        end = self.length + key.shape[1]
        self.key[layer, :, self.length:end] = key
        self.value[layer, :, self.length:end] = value
        return self.key[layer, :, :end], self.value[layer, :, :end]


def weight_blocks(query, key):
    """The causal softmax weights, one block of queries at a time.

    The queries are the last tokens among the keys. Yields the slice of query
    rows and weights [kv_heads, group, rows, keys], keys up to the last row's.
    """
    heads, rows, head_dim = query.shape
    kv_heads, tokens, _ = key.shape
    grouped = query.reshape(kv_heads, heads // kv_heads, rows, head_dim)
    scale = np.float32(1 / np.sqrt(head_dim))
    for start in range(0, rows, QUERY_BLOCK):
        block = slice(start, min(start + QUERY_BLOCK, rows))
        position = np.arange(tokens - rows + block.start,
                             tokens - rows + block.stop)
        end = position[-1] + 1
        logits = (grouped[:, :, block] * scale
                  @ key[:, None, :end].swapaxes(-1, -2))
        logits[:, :, np.arange(end) > position[:, None]] = -np.inf
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        yield block, weights


def causal_attention(query, key, value, layer):
    """Plain softmax attention of the last tokens over all tokens.

    Any function of these arguments may take its place: query and key come
    after RoPE, and the outcome has the shape of query.
    """
    kv_heads = key.shape[0]
    out = np.empty_like(query)
    grouped = out.reshape(kv_heads, -1, *query.shape[1:])
    for block, weights in weight_blocks(query, key):
        end = weights.shape[-1]
        grouped[:, :, block] = weights @ value[:, None, :end]
    return out


def rotate_interleaved(x, cos, sin):
    """RoPE on the pairs (2i, 2i+1): the layout of the GGUF weights."""
    even, odd = x[..., 0::2], x[..., 1::2]
    out = np.empty_like(x)
    out[..., 0::2] = even * cos - odd * sin
    out[..., 1::2] = even * sin + odd * cos
    return out


def rotate_halves(x, cos, sin):
    """RoPE on the pairs (i, i + head_dim/2). Wrong for these weights: kept to
    show, by the perplexity it gives, that the other layout is the right one."""
    low, high = np.split(x, 2, axis=-1)
    return np.concatenate([low * cos - high * sin, low * sin + high * cos], -1)


def silu(x):
    # exp of a large positive number overflows to inf, and x / inf is the 0
    # that is wanted.
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-x))


class Model:
    """The network; `rotate` is the position encoding of query and key."""

    def __init__(self, config, weights, rotate=rotate_interleaved):
        self.config = config
        self.weights = weights
        self.rotate = rotate

    def forward(self, numbers, attention=causal_attention, cache=None,
                observe=None):
        """The last hidden states [tokens, width] of token numbers.

        With a cache, the tokens follow those that the cache holds and are
        added to it. `observe(layer, name, tensor)` is shown query, key,
        query_rope, key_rope and value of every layer.
        """
        first = cache.length if cache else 0
        cos, sin = self._rope_angles(first, len(numbers))
        hidden = self.weights["token_embd.weight"][np.asarray(numbers)]
        for layer in range(self.config.layers):
            hidden = hidden + self._attend(hidden, layer, cos, sin, attention,
                                           cache, observe)
            hidden = hidden + self._feed_forward(hidden, layer)
        if cache:
            cache.length += len(numbers)
        return self._norm(hidden, "output_norm.weight")

    def logits(self, hidden):
        """The logits of the next token; the output weights are the token
        embeddings (the file has no output.weight of its own)."""
        return hidden @ self.weights["token_embd.weight"].T

    def _attend(self, hidden, layer, cos, sin, attention, cache, observe):
        config, block = self.config, f"blk.{layer}."
        x = self._norm(hidden, block + "attn_norm.weight")
        query = self._heads(x, block + "attn_q.weight", config.heads)
        key = self._heads(x, block + "attn_k.weight", config.kv_heads)
        value = self._heads(x, block + "attn_v.weight", config.kv_heads)
        query_rope = self.rotate(query, cos, sin)
        key_rope = self.rotate(key, cos, sin)
        if observe:
            for name, tensor in (("query", query), ("key", key),
                                 ("query_rope", query_rope),
                                 ("key_rope", key_rope), ("value", value)):
                observe(layer, name, tensor)
        all_keys, all_values = key_rope, value
        if cache:
            all_keys, all_values = cache.extend(layer, key_rope, value)
        out = attention(query_rope, all_keys, all_values, layer)
        out = out.swapaxes(0, 1).reshape(len(hidden), -1)
        return out @ self.weights[block + "attn_output.weight"].T

    def _feed_forward(self, hidden, layer):
        block = f"blk.{layer}."
        x = self._norm(hidden, block + "ffn_norm.weight")
        gate = silu(x @ self.weights[block + "ffn_gate.weight"].T)
        up = x @ self.weights[block + "ffn_up.weight"].T
        return (gate * up) @ self.weights[block + "ffn_down.weight"].T

    def _heads(self, x, name, heads):
        """Project [tokens, width] and give [heads, tokens, head_dim]."""
        flat = x @ self.weights[name].T
        split = flat.reshape(len(x), heads, self.config.head_dim)
        return np.ascontiguousarray(split.swapaxes(0, 1))

    def _norm(self, x, name):
        mean_square = np.mean(x * x, axis=-1, keepdims=True)
        root = np.sqrt(mean_square + np.float32(self.config.norm_epsilon))
        return x / root * self.weights[name]

    def _rope_angles(self, first, count):
        # In float64: 8191 radians in float32 would already be off by 2e-4.
        head_dim = self.config.head_dim
        exponent = np.arange(0, head_dim, 2) / head_dim
        position = np.arange(first, first + count)
        angle = position[:, None] * self.config.rope_theta ** -exponent
        return (np.cos(angle).astype(np.float32),
                np.sin(angle).astype(np.float32))


def greedy(model, numbers, count, attention=causal_attention):
    """The `count` most likely next tokens, one by one, with a cache; fewer if
    the model ends the text."""
    cache = Cache(model.config, len(numbers) + count)
    chosen, new = [], list(numbers)
    while len(chosen) < count:
        hidden = model.forward(new, attention, cache)
        best = int(np.argmax(model.logits(hidden[-1])))
        if best == model.config.end_token:
            break
        chosen.append(best)
        new = [best]
    return chosen


def weight_names(layers):
    """Every tensor that such a model has, and no other."""
    parts = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output",
             "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
    return {"token_embd.weight", "output_norm.weight",
            *(f"blk.{layer}.{part}.weight"
              for layer in range(layers) for part in parts)}


def load(path):
    """The model and tokenizer of a GGUF file. Raises ValueError for a file
    that is not such a model."""
    # Here, so that a model whose weights come from elsewhere needs no gguf.
    from gguf import GGUFReader
    from gguf.quants import dequantize

    reader = GGUFReader(path)

    def field(name):
        if name not in reader.fields:
            raise ValueError(f"the model file has no {name}")
        return reader.fields[name].contents()

    for name, known in (("general.architecture", "llama"),
                        ("tokenizer.ggml.model", "gpt2"),
                        ("tokenizer.ggml.pre", "smollm")):
        if field(name) != known:
            raise ValueError(f"{name} is {field(name)}, only {known} is known")
    config = Config(
        layers=field("llama.block_count"),
        heads=field("llama.attention.head_count"),
        kv_heads=field("llama.attention.head_count_kv"),
        head_dim=field("llama.rope.dimension_count"),
        context=field("llama.context_length"),
        rope_theta=field("llama.rope.freq_base"),
        norm_epsilon=field("llama.attention.layer_norm_rms_epsilon"),
        end_token=field("tokenizer.ggml.eos_token_id"),
        licence=field("general.license"))
    if config.heads * config.head_dim != field("llama.embedding_length"):
        raise ValueError("RoPE on part of the head dimensions is not known")
    weights = {tensor.name: dequantize(tensor.data, tensor.tensor_type)
               for tensor in reader.tensors}
    odd_ones = set(weights) ^ weight_names(config.layers)
    if odd_ones:  # a bias, say, or output weights that are not tied
        raise ValueError(f"{min(odd_ones)} is missing or not known")
    tokenizer = Tokenizer(field("tokenizer.ggml.tokens"),
                          field("tokenizer.ggml.merges"),
                          field("tokenizer.ggml.token_type"))
    return Model(config, weights), tokenizer
