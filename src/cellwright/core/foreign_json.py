"""Limits for JSON from outside, checked before it is parsed.

A few megabytes of `[[],[],…]` become hundreds of megabytes of objects, and the parser blocks everything else until it is done. So the
values are counted first, with operations on bytes that take about a millisecond per megabyte.
"""

import json
from array import array
from dataclasses import dataclass
from itertools import accumulate

from pydantic_core import from_json

LARGE = 256 * 1024

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Brackets as signed bytes: 1 for an opening one, -1 for a closing one."""


@dataclass(frozen=True, slots=True)
class JsonBounds:
    """The most that foreign JSON may have: bytes, items (values and keys), levels of nesting."""

    size: int
    items: int
    depth: int

    def excess(self, data: bytes) -> str:
        """Why this is too much, as the end of a sentence ("it has …"); empty if it is not.

        Text that is not JSON may pass here: the parser refuses it later.
        """
        if len(data) > self.size:
            return f"{len(data):,} bytes; at most {self.size:,} are taken"
        if b"\\" in data:
            data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
        too_many = f"more than {self.items:,} values"
        # A string has two quotes, and an item has at most two strings (key and value). This also limits the split below.
        if data.count(b'"') > 4 * self.items:
            return too_many
        outside_texts = b"".join(data.split(b'"')[::2])
        if outside_texts.count(b",") + outside_texts.count(b"[") + outside_texts.count(b"{") > self.items:
            return too_many
        steps = array("b", outside_texts.translate(_STEPS, _NOT_BRACKETS))
        depth = max(accumulate(steps), default=0)
        return f"more than {self.depth} levels of nesting" if depth > self.depth else ""


def parsed(data: bytes) -> object:
    """The value of this JSON in UTF-8. ValueError or RecursionError if it cannot be parsed.

    Python's parser first decodes all of it to one string, which takes four bytes per character if one of them is wide. So long JSON
    is parsed from its bytes; what only Python's parser accepts, such as half a surrogate pair, is left to that.
    """
    if len(data) >= LARGE:
        try:
            return from_json(data, cache_strings="keys")
        except ValueError:
            pass
    return json.loads(data.decode("utf-8", "surrogatepass"))
