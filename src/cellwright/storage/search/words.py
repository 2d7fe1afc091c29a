"""Words of texts and of questions, for full-text search: the same on every engine."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise

MAX_WORDS = 32
LONGEST_QUESTION = 10_000
LONGEST_WORD = 255
"""Only the beginning of a longer word counts: engines drop words that are too long for them, each at a different length."""
_WORD = re.compile(r"\w+")
_PLAIN = re.compile(r"[^\W_]+")
# Only matches at the beginning of a word: trying every position would take quadratic time.
_LONG = re.compile(rf"(?<![^\W_])[^\W_]{{{LONGEST_WORD + 1}}}")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_HUMPS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
# Han, kana and Hangul: written without spaces between words, or with suffixes attached to them. Each sign counts as a word.
_SIGNS = "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\U00020000-\U000323af"
_SIGN = f"[{_SIGNS}]"
_RUNS = f"[{_SIGNS}]+|[^{_SIGNS}]+"
_ROW = f"[{_SIGNS}](?: [{_SIGNS}])+"
MOST_SIGNS = 10_000
VOICED = "\u3099\u309a"
"""Marks that change the sound of a kana. They are not accents."""


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    """Compiled at first use: these large character classes take ten milliseconds, and most programs never need them."""
    return re.compile(expression)


def plain_words(text: str) -> str:
    """Only the words of the text, in lower case and without accents, so that every engine indexes the same words."""
    if not text.isascii():
        text = _compiled(_SIGN).sub(r" \g<0> ", _FOREIGN.sub(_unaccented, text))
    return " ".join(word[:LONGEST_WORD] for word in _PLAIN.findall(text.lower()))


class _WithoutAccents(dict[int, str]):
    """A table for `str.translate` that decomposes each sign and drops its accents. Its entries are computed at first use.

    It works sign by sign, because decomposing a whole text sorts the marks after each letter, which takes quadratic time.
    """

    def __missing__(self, code: int) -> str:
        parts = unicodedata.normalize("NFKD", chr(code))
        bare = "".join(part for part in parts if not unicodedata.combining(part) or part in VOICED)
        if len(self) >= MOST_SIGNS:
            self.clear()
        self[code] = bare
        return bare


_WITHOUT_ACCENTS = _WithoutAccents()


def _unaccented(signs: re.Match[str]) -> str:
    """The signs without accents, with equivalent signs written in the same way."""
    return unicodedata.normalize("NFC", signs[0].translate(_WITHOUT_ACCENTS))


def signs_in_pairs(plain: str) -> str:
    """Plain words with each two adjacent signs as one word: for an index that does not know which words are adjacent."""
    if plain.isascii():
        return plain
    return _compiled(_ROW).sub(lambda row: " ".join(map("".join, pairwise(row[0][::2]))), plain)


def is_plain(text: str) -> bool:
    """Whether an engine that splits at everything but letters and digits finds the same words here as in `plain_words`."""
    return text.isascii() and not _LONG.search(text)


def words_of(question: str) -> list[str]:
    """The words of a question as they are written, each once, in lower case."""
    return list(dict.fromkeys(word.lower() for word in _WORD.findall(question)))[:MAX_WORDS]


def query_words(question: str) -> list[str]:
    """What an index is searched for: plain words, each once. A word such as `snake_case` becomes a phrase of several plain words."""
    phrases: dict[str, None] = {}
    for word in _WORD.finditer(question[:LONGEST_QUESTION]):
        for phrase in _phrases_in(word[0]):
            phrases[phrase] = None
            if len(phrases) == MAX_WORDS:
                return list(phrases)
    return list(phrases)


def _phrases_in(word: str) -> Iterator[str]:
    """In scripts without spaces between words, each two adjacent signs are a phrase."""
    for run in [word] if word.isascii() else _compiled(_RUNS).findall(_FOREIGN.sub(_unaccented, word)):
        if _compiled(_SIGN).match(run):
            yield from map(plain_words, dict.fromkeys(run[start : start + 2] for start in range(max(1, len(run) - 1))))
        elif plain := plain_words(run):
            yield " ".join(plain.split(" ", MAX_WORDS)[:MAX_WORDS])


def parts_of_names(text: str) -> str:
    """The words inside of names: `user` finds `getUserName`, `server` finds `HTTPServer`. Snake case is split anyway."""
    parts: list[str] = []
    for word in set(_WORD.findall(text)):
        humps = _HUMPS.findall(word)
        if len(humps) > 1:
            parts += humps
    return " ".join(sorted({part.lower() for part in parts}))


def scope_number(kind: str, value: str) -> int:
    """A filter's value as 64 bits. Two values may have the same number, so the rows must be checked too."""
    return int.from_bytes(hashlib.blake2b(f"{kind}{value}".encode(), digest_size=8).digest(), "big")


def scope_token(kind: str, value: str) -> str:
    """A filter's value as one word of digits, which no tokenizer splits or stems."""
    return f"{kind}{scope_number(kind, value)}"


def scope_of(tenant: str, kind: str, namespace: str, tags: Iterable[str]) -> str:
    """All values by which an entry can be filtered, as words."""
    tokens = [scope_token("t", tenant), scope_token("k", kind), scope_token("n", namespace)]
    return " ".join([*tokens, *(scope_token("g", tag) for tag in tags)])
