"""The text of a stream that came in one message too long to be parsed at once, taken from its JSON piece by piece.

What code prints within a moment comes in one message, however much that is. A stream's message is a name and a text; the text is cut
where no character and no escape is cut in two, so that each piece is a JSON text of its own.
"""

import re
from collections.abc import Iterator

from cellwright.core.foreign_json import parsed

PIECE = 1024 * 1024
SEARCHED = 64 * 1024
"""How far a place for a cut is looked for."""
EDGE = 256
"""Bytes at the beginning and at the end that hold all but the text."""

_BEGINNING = re.compile(rb'\s*\{\s*(?:"name"\s*:\s*"(\w{1,20})"\s*,\s*)?"text"\s*:\s*"')
_END = re.compile(rb'"\s*(?:,\s*"name"\s*:\s*"(\w{1,20})"\s*)?\}\s*\Z')
_BETWEEN = re.compile(
    # No escape begins in as many bytes as the longest has, two halves of a character; or a short one has just ended.
    rb'[^\\]{12}(?![\x80-\xbf])|[^\\](?:\\\\)*\\["/bfnrt]'
)


def pieces(content: bytes | memoryview) -> Iterator[tuple[str, str]]:
    """The stream's name and its text, in order. ValueError, from the first piece on, if this is not a stream's or cannot be cut."""
    beginning, end = _BEGINNING.match(content[:EDGE]), _END.search(content[-EDGE:])
    name = (beginning and beginning[1]) or (end and end[1])
    if beginning is None or end is None or name is None:
        raise ValueError("not the content of a stream")
    start, stop = beginning.end(), len(content) - min(EDGE, len(content)) + end.start()
    while start < stop:
        cut = stop if stop - start <= PIECE + SEARCHED else _cut(content, start + PIECE)
        text = parsed(b'"%b"' % bytes(content[start:cut]))
        assert isinstance(text, str)
        yield name.decode(), text
        start = cut


def _cut(content: bytes | memoryview, wanted: int) -> int:
    found = _BETWEEN.search(content[wanted : wanted + SEARCHED])
    if found is None:
        raise ValueError("no place to cut this text")
    return wanted + found.end()
