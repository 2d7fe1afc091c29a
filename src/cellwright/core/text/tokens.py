"""How many tokens a text costs a model: a fast estimate that is rather too high than too low.

No tokenizer ships with this program, so the estimate counts kinds of characters and of neighbours, with weights fitted to
stay above what byte-pair vocabularies make of real text: 2,840 pieces of up to 4,000 characters, each against the largest
count of three vocabularies (Claude 2, cl100k, o200k). Estimate divided by that count, per piece:

                      least  mean  most                          least  mean  most
    prose              1.10  1.17  1.27    base64                 0.93  1.03  1.14
    Python             0.92  1.12  1.25    UUIDs, hashes          1.05  1.08  1.10
    Markdown           0.98  1.12  1.40    Chinese, Japanese      1.01  1.19  1.38
    tracebacks         1.10  1.15  1.19    Korean                 0.99  1.03  1.09
    JSON, compact      1.02  1.42  1.63    22 other languages     0.93  1.18  1.95
    JSON, indented     0.93  1.14  1.56    emoji                  1.01  1.04  1.06
    JSON around code   0.95  1.03  1.14    HTML                   0.96  1.13  1.24
    CSV, numbers       0.92  1.08  1.35    other source code      0.72  1.10  1.71

These are the pieces of the fit itself; ten that are hardly text were left out of it: lists of rare Han characters (0.6), base85
(0.9), packed type signatures (0.7). Random punctuation: 0.85. A vocabulary that spells out every digit (tekken) takes up to
twice the estimate for tables of long numbers.
"""

import math
import string
from collections.abc import Iterable

_KINDS: dict[str, Iterable[int]] = {
    "a": string.ascii_lowercase.encode(),
    "A": string.ascii_uppercase.encode(),
    "0": string.digits.encode(),
    ".": string.punctuation.encode(),
    " ": b" ",
    "\n": b"\n",
    # Of a longer character only the first UTF-8 byte counts, which identifies the script well enough.
    "_": range(0x80, 0xC0),
    "L": range(0xC0, 0xC4),  # Latin-1
    "X": range(0xC4, 0xCE),  # Latin extended, phonetic, combining
    "G": range(0xCE, 0xD0),  # Greek
    "C": range(0xD0, 0xD4),  # Cyrillic
    "R": range(0xD4, 0xD7),  # Armenian
    "H": range(0xD7, 0xE0),  # Hebrew, Arabic, Syriac
    "I": range(0xE0, 0xE2),  # India, South-East Asia, Georgian, Ethiopic
    "S": range(0xE2, 0xE3),  # symbols, lines, punctuation
    "K": range(0xE3, 0xEA),  # Chinese, Japanese
    "Q": range(0xEA, 0xEE),  # Korean
    "F": range(0xEE, 0xF0),  # private use, full width, presentation forms
    "E": range(0xF0, 0x100),  # emoji and all else
}
_RUNS: dict[str, Iterable[int]] = {"0": string.digits.encode(), " ": b" "}

_ASCII_WEIGHTS = {
    b"a": 0.27,
    b"A": 0.34,
    b"0": 0.33,
    b".": 0.35,
    b" ": 0.02,
    b"\n": 0.8,
    b"?": 0.7,
    b"AaA": 3.4,  # base64 and the like; CamelCase has longer words
    b"aAA": 0.4,
    b".a": 0.8,  # a word that no space begins
    b".A": 0.8,
}
_RUN_WEIGHTS = {
    b"?0": 1.4,  # a number begins
    b" 0": 2.05,
    b"?  ": 0.4,  # indentation or a column begins
    b"0  ": 0.4,
}
_OTHER_WEIGHTS = {
    b"L": 2.7,
    b"X": 3.0,
    b"G": 1.3,
    b"C": 0.9,
    b"R": 2.1,
    b"H": 1.2,
    b"I": 2.9,
    b"S": 1.1,
    b"K": 1.3,
    b"Q": 1.4,
    b"F": 3.0,
    b"E": 3.1,
}


def _table(kinds: dict[str, Iterable[int]]) -> bytes:
    table = bytearray(b"?" * 256)
    for kind, members in kinds.items():
        for byte in members:
            table[byte] = ord(kind)
    return bytes(table)


_KIND_TABLE = _table(_KINDS)
_RUN_TABLE = _table(_RUNS)
_ASCII_KINDS = b"aA0. \n?_"
MOST_TOKENS_PER_CHARACTER = 4
"""More than any character can cost, so short texts need no counting."""


def estimate_tokens(text: str) -> int:
    """About how many tokens the text costs. Never shrinks when text is added at either end."""
    encoded = text.encode("utf-8", "surrogatepass")
    kinds = encoded.translate(_KIND_TABLE)
    total = _weigh(kinds, _ASCII_WEIGHTS) + _weigh(encoded.translate(_RUN_TABLE), _RUN_WEIGHTS)
    if not text.isascii():
        total += _weigh(kinds.translate(None, _ASCII_KINDS), _OTHER_WEIGHTS)
    return math.ceil(total)


def _weigh(kinds: bytes, weights: dict[bytes, float]) -> float:
    total = 0.0
    for pattern, weight in weights.items():
        total += kinds.count(pattern) * weight
    return total
