"""How a question travels to a worker process and its answer back: a head in JSON, then the long texts and the bytes as they are.

Long texts stay out of the JSON because escaping them would hold the event loop for as long as the text is large.
"""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

LENGTH = struct.Struct("!I")
LONG_TEXT = 16_384
"""Texts of this many characters travel beside the JSON."""
DEEPEST = 2


@dataclass(frozen=True, slots=True)
class Head:
    """The JSON of a frame, and which of its values follow behind it: the keys that lead to each, its kind and its size in bytes."""

    message: dict[str, Any]
    beside: tuple[tuple[Sequence[str], str, int], ...]

    @staticmethod
    def read(line: bytes) -> "Head":
        content = json.loads(line)
        return Head(content["message"], tuple((keys, kind, size) for keys, kind, size in content["beside"]))

    def with_values(self, values: Iterator[bytes]) -> dict[str, Any]:
        """The whole message again."""
        for ((*way, last), kind, _size), value in zip(self.beside, values, strict=True):
            found = self.message
            for key in way:
                found = found[key]
            found[last] = value if kind == "bytes" else value.decode("utf-8", "surrogatepass")
        return self.message


def encode(message: Mapping[str, Any]) -> list[bytes]:
    """A message as the pieces of a frame. Its values, and those of objects that are its values, may be bytes; all else must be JSON."""
    beside: list[tuple[Sequence[str], str, int]] = []
    values: list[bytes] = []
    plain = _without_long(dict(message), (), beside, values)
    head = json.dumps({"message": plain, "beside": beside}).encode()
    return [LENGTH.pack(len(head)) + head, *values]


def _without_long(
    value: object, way: tuple[str, ...], beside: list[tuple[Sequence[str], str, int]], values: list[bytes]
) -> object:
    """The value without what travels beside it, whose place is kept. Not a function inside of the other: that cycle would keep them all."""
    if isinstance(value, bytes):
        data, kind = value, "bytes"
    elif isinstance(value, str) and len(value) >= LONG_TEXT:
        data, kind = value.encode("utf-8", "surrogatepass"), "text"
    elif isinstance(value, dict) and len(way) < DEEPEST:
        inner = cast("dict[str, object]", value)
        return {name: _without_long(one, (*way, name), beside, values) for name, one in inner.items()}
    else:
        return cast("object", value)
    beside.append((way, kind, len(data)))
    values.append(data)
    return None
