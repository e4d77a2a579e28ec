# SPDX-License-Identifier: Apache-2.0
"""Byte-level BPE, as GPT-2 defined it, with the `smollm` pre-tokeniser.

Text is cut into words by two regular expressions, each word is spelled in
bytes, and the bytes are joined pair by pair in the order of the merge list.

What is approximated: white space is Python's `\\s`, which also holds the four
control characters U+001C..U+001F, and letters and numbers follow the Unicode
tables of the running Python. Control tokens such as <|im_start|> are never
recognised in the text: they are spelled like any other characters.
"""

import re
import sys
import unicodedata

CONTROL_TOKEN = 3  # tokenizer.ggml.token_type of <|endoftext|> and its kind


def _number_class():
    """The characters of Unicode category N, to be put inside [...]."""
    return "".join(chr(code) for code in range(sys.maxunicode + 1)
                   if unicodedata.category(chr(code))[0] == "N")


# Python's re has no \p{L} and \p{N}. \w is letters, numbers and "_", so what
# is left of it once numbers and "_" are out is \p{L}.
NUMBER = _number_class()
LETTER = rf"[^\W_{NUMBER}]"
DIGIT_SPLIT = re.compile(rf"[{NUMBER}]|[^{NUMBER}]+")
WORD_SPLIT = re.compile(
    r"'s|'t|'re|'ve|'m|'ll|'d"
    rf"| ?{LETTER}+"
    rf"| ?[{NUMBER}]+"
    rf"| ?(?:_|[^\s\w{NUMBER}])+"
    r"|\s+(?!\S)|\s+")


def byte_alphabet():
    """The printable character that stands for each of the 256 bytes.

    Printable Latin-1 bytes stand for themselves, the others are numbered from
    U+0100 on, so that the vocabulary never holds a space or a control byte.
    """
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD),
                 *range(0xAE, 0x100)}
    alphabet, spare = [], 0x100
    for byte in range(256):
        if byte in printable:
            alphabet.append(chr(byte))
        else:
            alphabet.append(chr(spare))
            spare += 1
    return alphabet


class Tokenizer:
    """Encodes text into token numbers and back."""

    def __init__(self, tokens, merges, token_types):
        self.tokens = tokens
        self.numbers = {token: number for number, token in enumerate(tokens)}
        self.ranks = {tuple(merge.split(" ")): rank
                      for rank, merge in enumerate(merges)}
        self.control = {number for number, kind in enumerate(token_types)
                        if kind == CONTROL_TOKEN}
        self.alphabet = byte_alphabet()
        self.bytes = {char: byte for byte, char in enumerate(self.alphabet)}
        self.known_words = {}

    def encode(self, text):
        """The token numbers of a text; no token is put in front."""
        numbers = []
        for piece in DIGIT_SPLIT.findall(text):
            for word in WORD_SPLIT.findall(piece):
                numbers += self._encode_word(word)
        return numbers

    def decode(self, numbers):
        """The text of token numbers; a byte cut off mid-character shows as
        U+FFFD, control tokens are left out."""
        spelled = "".join(self.tokens[number] for number in numbers
                          if number not in self.control)
        raw = bytes(self.bytes[char] for char in spelled)
        return raw.decode("utf-8", errors="replace")

    def _encode_word(self, word):
        # The same few words make up most of a text.
        if word not in self.known_words:
            spelled = [self.alphabet[byte] for byte in word.encode("utf-8")]
            self.known_words[word] = [self.numbers[part]
                                      for part in self._merge(spelled)]
        return self.known_words[word]

    def _merge(self, parts):
        """Join the pair of lowest rank everywhere, until no pair has one."""
        while len(parts) > 1:
            pairs = set(zip(parts, parts[1:]))
            best = min(pairs,
                       key=lambda pair: self.ranks.get(pair, sys.maxsize))
            if best not in self.ranks:
                break
            joined, at = [], 0
            while at < len(parts):
                if tuple(parts[at:at + 2]) == best:
                    joined.append(parts[at] + parts[at + 1])
                    at += 2
                else:
                    joined.append(parts[at])
                    at += 1
            parts = joined
        return parts
