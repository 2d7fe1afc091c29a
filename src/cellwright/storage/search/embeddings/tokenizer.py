"""BERT's WordPiece for lower-case models: texts as numbers of a vocabulary."""

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
"""No sensible text has more; the rest of a huge one is not looked at."""
MOST_REMEMBERED = 20_000
LONGEST_REMEMBERED = 24
"""In characters: together with the number of words a bound in bytes, about 12 MB. Longer words are rare, and cut each time."""
_ASCII_WORDS = re.compile(r"[a-z0-9]+|[^\sa-z0-9\x00-\x1f\x7f]")
_CONTROL_SPACES = "\t\n\r"
_IDEOGRAPHS = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0xF900, 0xFAFF), (0x20000, 0x2FA1F))


def read_vocabulary(file: Path) -> dict[str, int]:
    data = file.read_bytes()
    lines = (gzip.decompress(data) if file.suffix == ".gz" else data).decode().split("\n")
    return {line.rstrip("\r"): number for number, line in enumerate(lines) if line}


class WordPiece:
    """Numbers of a text: [CLS], its word pieces, [SEP]."""

    def __init__(self, vocabulary: dict[str, int], longest: int = 256) -> None:
        self._vocabulary = vocabulary
        self._longest = longest
        self._known: dict[str, list[int]] = {}
        self._first, self._last, self._unknown = (vocabulary[name] for name in ("[CLS]", "[SEP]", "[UNK]"))

    def numbers(self, text: str) -> list[int]:
        found: list[int] = []
        room = self._longest - 2
        for word in split(text[: self._longest * CHARS_PER_TOKEN]):
            found += self._pieces(word)
            if len(found) >= room:
                break
        return [self._first, *found[:room], self._last]

    def _pieces(self, word: str) -> list[int]:
        known = self._known.get(word)
        if known is not None:
            return known
        found = self._cut(word) if len(word) <= LONGEST_WORD else [self._unknown]
        if len(word) <= LONGEST_REMEMBERED and len(self._known) < MOST_REMEMBERED:
            self._known[word] = found
        return found

    def _cut(self, word: str) -> list[int]:
        """Greedy: the longest piece that is known, then the longest that continues it."""
        found: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._vocabulary.get(mark + word[start:end])
                if number is not None:
                    found.append(number)
                    start = end
                    break
            else:
                return [self._unknown]
        return found


def split(text: str) -> Sequence[str]:
    """Words in lower case without accents; each sign of punctuation and each ideograph is a word."""
    text = text.lower()
    if text.isascii():
        return _ASCII_WORDS.findall(text)
    words: list[str] = []
    current: list[str] = []

    def end_word() -> None:
        if current:
            words.append("".join(current))
            current.clear()

    for sign in chain.from_iterable(map(_apart, text)):
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
def _apart(sign: str) -> str:
    """A sign and its accents. One by one: for a whole text this takes a time that grows with the square of its longest row of accents."""
    return unicodedata.normalize("NFD", sign)


def _stands_alone(sign: str, category: str) -> bool:
    if sign.isascii():
        return not sign.isalnum()
    return category[0] == "P" or any(low <= ord(sign) <= high for low, high in _IDEOGRAPHS)
