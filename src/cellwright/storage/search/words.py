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
"""Of a longer one the beginning counts: engines drop a word that is too long for them, each at another length."""
_WORD = re.compile(r"\w+")
_PLAIN = re.compile(r"[^\W_]+")
# Only from where a word begins: from everywhere in it would take a time that grows with its square.
_LONG = re.compile(rf"(?<![^\W_])[^\W_]{{{LONGEST_WORD + 1}}}")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_HUMPS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
# Han, kana and Hangul: written without spaces between words, or with endings that stick to them. Each sign is a word of its own.
_SIGNS = "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\U00020000-\U000323af"
_SIGN = f"[{_SIGNS}]"
_RUNS = f"[{_SIGNS}]+|[^{_SIGNS}]+"
_ROW = f"[{_SIGNS}](?: [{_SIGNS}])+"
MOST_SIGNS = 10_000
VOICED = "\u3099\u309a"
"""Marks of kana that make another sound of it, not an accent."""


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    """When it is first needed: classes of so many signs cost ten milliseconds, and most programs never meet one."""
    return re.compile(expression)


def plain_words(text: str) -> str:
    """The text as its words alone, in lower case and without accents: the same for every engine, whatever it takes for a word."""
    if not text.isascii():
        text = _compiled(_SIGN).sub(r" \g<0> ", _FOREIGN.sub(_unaccented, text))
    return " ".join(word[:LONGEST_WORD] for word in _PLAIN.findall(text.lower()))


class _WithoutAccents(dict[int, str]):
    """Every sign as it is taken apart, without its accents, for `str.translate`; found out when it is first met.

    Sign by sign, because taking a whole text apart puts the marks behind each letter in order, in a time that grows with their square.
    """

    def __missing__(self, code: int) -> str:
        parts = unicodedata.normalize("NFKD", chr(code))
        bare = "".join(part for part in parts if not unicodedata.combining(part) or part in VOICED)
        if len(self) >= MOST_SIGNS:
            self.clear()
        self[code] = bare
        return bare


_WITHOUT_ACCENTS = _WithoutAccents()


def _unaccented(found: re.Match[str]) -> str:
    """Signs that look alike as one sign, without accents."""
    return unicodedata.normalize("NFC", found[0].translate(_WITHOUT_ACCENTS))


def signs_in_pairs(plain: str) -> str:
    """Plain words with every two signs in a row as one word: for an index that does not know which word stands beside which."""
    return plain if plain.isascii() else _compiled(_ROW).sub(_paired, plain)


def _paired(row: re.Match[str]) -> str:
    return " ".join(map("".join, pairwise(row[0][::2])))


def is_plain(text: str) -> bool:
    """Whether an engine that parts text at what is no letter and no digit finds the same words in it as in `plain_words`."""
    return text.isascii() and not _LONG.search(text)


def words_of(question: str) -> list[str]:
    """The words of a question as it has them, each once, in lower case."""
    return list(dict.fromkeys(word.lower() for word in _WORD.findall(question)))[:MAX_WORDS]


def looked_for(question: str) -> list[str]:
    """What an index is asked for: plain words, each once; several in a row where one word is made of them, as `snake_case` is."""
    found: dict[str, None] = {}
    for word in _WORD.finditer(question[:LONGEST_QUESTION]):
        for asked in _asked_by(word[0]):
            found[asked] = None
            if len(found) == MAX_WORDS:
                return list(found)
    return list(found)


def _asked_by(word: str) -> Iterator[str]:
    """Where words are not parted, every two signs in a row are looked for."""
    for run in [word] if word.isascii() else _compiled(_RUNS).findall(_FOREIGN.sub(_unaccented, word)):
        if _compiled(_SIGN).match(run):
            yield from map(plain_words, dict.fromkeys(run[start : start + 2] for start in range(max(1, len(run) - 1))))
        elif plain := plain_words(run):
            yield " ".join(plain.split(" ", MAX_WORDS)[:MAX_WORDS])


def parts_of_names(text: str) -> str:
    """The words inside names: `getUserName` and `HTTPServer` are found by `user` and `server`. Snake case needs no help."""
    parts: list[str] = []
    for word in set(_WORD.findall(text)):
        found = _HUMPS.findall(word)
        if len(found) > 1:
            parts += found
    return " ".join(sorted({part.lower() for part in parts}))


def scope_number(kind: str, value: str) -> int:
    """A filter's value as 64 bits. Two values may have the same: whoever looks by it checks the row."""
    return int.from_bytes(hashlib.blake2b(f"{kind}{value}".encode(), digest_size=8).digest(), "big")


def scope_token(kind: str, value: str) -> str:
    """A filter's value as one word of digits, which no tokenizer splits or stems."""
    return f"{kind}{scope_number(kind, value)}"


def scope_of(tenant: str, kind: str, namespace: str, tags: Iterable[str]) -> str:
    """Everything an entry can be filtered by, as words."""
    tokens = [scope_token("t", tenant), scope_token("k", kind), scope_token("n", namespace)]
    return " ".join([*tokens, *(scope_token("g", tag) for tag in tags)])
