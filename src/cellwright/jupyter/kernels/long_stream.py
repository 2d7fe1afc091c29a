"""Takes the text of a stream from its JSON piece by piece, for a message that is too long to be parsed at once.

Everything that code prints within a moment comes in one message, however much it is. A stream's message has a name and a text. The
text is cut between characters and escapes, so that each piece is a JSON text of its own.
"""

import re
from collections.abc import Iterator

from cellwright.core.foreign_json import parsed

PIECE = 1024 * 1024
SEARCHED = 64 * 1024
"""How many bytes are searched for a place to cut."""
EDGE = 256
"""Bytes at the beginning and at the end in which everything but the text must lie."""

_BEGINNING = re.compile(rb'\s*\{\s*(?:"name"\s*:\s*"(\w{1,20})"\s*,\s*)?"text"\s*:\s*"')
_END = re.compile(rb'"\s*(?:,\s*"name"\s*:\s*"(\w{1,20})"\s*)?\}\s*\Z')
_BETWEEN = re.compile(
    # Either twelve bytes without a backslash, as many as the longest escape has (two halves of a character), or the end of a short escape.
    rb'[^\\]{12}(?![\x80-\xbf])|[^\\](?:\\\\)*\\["/bfnrt]'
)


def pieces(content: bytes | memoryview) -> Iterator[tuple[str, str]]:
    """The stream's name with each piece of its text, in order. Raises ValueError if this is no stream, or where it cannot be cut."""
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


def _cut(content: bytes | memoryview, start: int) -> int:
    """The first place from `start` on at which the text can be cut."""
    match = _BETWEEN.search(content[start : start + SEARCHED])
    if match is None:
        raise ValueError("no place to cut this text")
    return start + match.end()
