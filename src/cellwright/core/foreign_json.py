"""How much there is in JSON that came from outside, found out before it is parsed.

A few megabytes of `[[],[],…]` become hundreds of megabytes of objects, and the parser lets nobody else work until it is done. So the parts
are counted first, with operations on bytes that take about a millisecond for each megabyte.
"""

import json
from array import array
from dataclasses import dataclass
from itertools import accumulate

from pydantic_core import from_json

LARGE = 256 * 1024

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""One level down, or up, as signed bytes."""


@dataclass(frozen=True, slots=True)
class JsonBounds:
    """What foreign JSON may have at most: bytes, values and keys in it, levels of nesting."""

    size: int
    items: int
    depth: int

    def excess(self, data: bytes) -> str:
        """Why this is too much, as the end of a sentence ("it has …"); empty if it is not.

        Text that is not JSON may pass: its parser refuses it.
        """
        if len(data) > self.size:
            return f"{len(data):,} bytes; at most {self.size:,} are taken"
        if b"\\" in data:
            data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
        too_many = f"more than {self.items:,} values"
        # Each text has two quotes, and there are at most two texts (a key, a value) to an item; this also bounds what is split below.
        if data.count(b'"') > 4 * self.items:
            return too_many
        outside_texts = b"".join(data.split(b'"')[::2])
        if outside_texts.count(b",") + outside_texts.count(b"[") + outside_texts.count(b"{") > self.items:
            return too_many
        return f"more than {self.depth} levels of nesting" if _depth(outside_texts) > self.depth else ""


def parsed(data: bytes) -> object:
    """What this JSON in UTF-8 says. ValueError or RecursionError if it is none.

    Python's parser makes one text of all of it first: four bytes for every letter if one of them is wide, beside what it makes of
    that. So what is long is read from its bytes; what only Python takes, such as half a surrogate pair, is left to it.
    """
    if len(data) >= LARGE:
        try:
            return from_json(data, cache_strings="keys")
        except ValueError:
            pass
    return json.loads(data.decode("utf-8", "surrogatepass"))


def _depth(outside_texts: bytes) -> int:
    steps = array("b", outside_texts.translate(_STEPS, _NOT_BRACKETS))
    return max(accumulate(steps), default=0)
