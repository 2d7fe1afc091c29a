"""Words of texts and of questions, for full-text search: the same on every engine."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable

MAX_WORDS = 32
_WORD = re.compile(r"\w+")
_PLAIN = re.compile(r"[^\W_]+")
_HUMPS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def plain_words(text: str) -> str:
    """The text as its words alone, in lower case and without accents: for an engine whose own idea of words is not ours."""
    if not text.isascii():
        text = "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))
    return " ".join(_PLAIN.findall(text.lower()))


def words_of(question: str) -> list[str]:
    """The words that are looked for, each once, in lower case."""
    return list(dict.fromkeys(word.lower() for word in _WORD.findall(question)))[:MAX_WORDS]


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
