"""BERT's WordPiece tokenizer for lower-case models: texts become numbers of a vocabulary."""

import gzip
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path

BUILTIN_VOCABULARY = Path(__file__).with_name("vocab.txt.gz")
LONGEST_WORD = 100
CHARS_PER_TOKEN = 12
"""No sensible text has more; the rest of a huge one is ignored."""
MOST_REMEMBERED = 20_000
LONGEST_REMEMBERED = 24
"""In characters: together with the number of words this limits the cache to about 12 MB. Longer words are rare, and are split each time."""
_ASCII_WORDS = re.compile(r"[a-z0-9]+|[^\sa-z0-9\x00-\x1f\x7f]")
_CONTROL_SPACES = "\t\n\r"
_IDEOGRAPHS = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0xF900, 0xFAFF), (0x20000, 0x2FA1F))


def read_vocabulary(file: Path) -> dict[str, int]:
    data = file.read_bytes()
    lines = (gzip.decompress(data) if file.suffix == ".gz" else data).decode().split("\n")
    return {line.rstrip("\r"): number for number, line in enumerate(lines) if line}


class WordPiece:
    """Turns a text into numbers: [CLS], its word pieces, [SEP]."""

    def __init__(self, vocabulary: dict[str, int], longest: int = 256) -> None:
        self._vocabulary = vocabulary
        self._longest = longest
        self._cache: dict[str, list[int]] = {}
        self._first, self._last, self._unknown = (vocabulary[name] for name in ("[CLS]", "[SEP]", "[UNK]"))

    def numbers(self, text: str) -> list[int]:
        pieces: list[int] = []
        room = self._longest - 2
        for word in split(text[: self._longest * CHARS_PER_TOKEN]):
            pieces += self._pieces(word)
            if len(pieces) >= room:
                break
        return [self._first, *pieces[:room], self._last]

    def _pieces(self, word: str) -> list[int]:
        cached = self._cache.get(word)
        if cached is not None:
            return cached
        pieces = self._split_word(word) if len(word) <= LONGEST_WORD else [self._unknown]
        if len(word) <= LONGEST_REMEMBERED and len(self._cache) < MOST_REMEMBERED:
            self._cache[word] = pieces
        return pieces

    def _split_word(self, word: str) -> list[int]:
        """Greedy: the longest piece in the vocabulary, then the longest that continues the word."""
        pieces: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._vocabulary.get(mark + word[start:end])
                if number is not None:
                    pieces.append(number)
                    start = end
                    break
            else:
                return [self._unknown]
        return pieces


def split(text: str) -> Sequence[str]:
    """Words in lower case without accents. Each punctuation mark and each ideograph is a word."""
    text = text.lower()
    if text.isascii():
        return _ASCII_WORDS.findall(text)
    words: list[str] = []
    current: list[str] = []

    def end_word() -> None:
        if current:
            words.append("".join(current))
            current.clear()

    for sign in chain.from_iterable(map(_decomposed, text)):
        category = unicodedata.category(sign)
        if category == "Mn" or sign == "\ufffd" or (category[0] == "C" and sign not in _CONTROL_SPACES):
            continue
        if sign.isspace():
            end_word()
        elif _stands_alone(sign, category):
            end_word()
            words.append(sign)
        else:
            current.append(sign)
    end_word()
    return words


@lru_cache(maxsize=10_000)
def _decomposed(sign: str) -> str:
    """A sign and its accents. Called for each sign: for a whole text the time grows with the square of its longest row of accents."""
    return unicodedata.normalize("NFD", sign)


def _stands_alone(sign: str, category: str) -> bool:
    if sign.isascii():
        return not sign.isalnum()
    return category[0] == "P" or any(low <= ord(sign) <= high for low, high in _IDEOGRAPHS)
