"""The format of messages to and from a worker process: a head in JSON, then the long texts and the bytes as they are.

Long texts are not part of the JSON, because escaping them would block the event loop.
"""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

LENGTH = struct.Struct("!I")
LONG_TEXT = 16_384
"""Texts of at least this many characters follow after the JSON."""
DEEPEST = 2


@dataclass(frozen=True, slots=True)
class Head:
    """The JSON of a frame, and which of its values follow after it: the path of keys to each, its kind, and its size in bytes."""

    message: dict[str, Any]
    beside: tuple[tuple[Sequence[str], str, int], ...]

    @staticmethod
    def read(line: bytes) -> "Head":
        content = json.loads(line)
        return Head(content["message"], tuple((keys, kind, size) for keys, kind, size in content["beside"]))

    def with_values(self, values: Iterator[bytes]) -> dict[str, Any]:
        """The whole message, with the values that follow the head put in their places."""
        for ((*path, last), kind, _size), value in zip(self.beside, values, strict=True):
            parent = self.message
            for key in path:
                parent = parent[key]
            parent[last] = value if kind == "bytes" else value.decode("utf-8", "surrogatepass")
        return self.message


def encode(message: Mapping[str, Any]) -> list[bytes]:
    """A message as the pieces of a frame. Its values, and those of objects one level below, may be bytes; all else must be JSON."""
    beside: list[tuple[Sequence[str], str, int]] = []
    values: list[bytes] = []
    plain = _without_long(dict(message), (), beside, values)
    head = json.dumps({"message": plain, "beside": beside}).encode()
    return [LENGTH.pack(len(head)) + head, *values]


def _without_long(
    value: object, path: tuple[str, ...], beside: list[tuple[Sequence[str], str, int]], values: list[bytes]
) -> object:
    """The value with None in place of what follows the head. Not a closure: a recursive one is a cycle that keeps the values alive."""
    if isinstance(value, bytes):
        data, kind = value, "bytes"
    elif isinstance(value, str) and len(value) >= LONG_TEXT:
        data, kind = value.encode("utf-8", "surrogatepass"), "text"
    elif isinstance(value, dict) and len(path) < DEEPEST:
        items = cast("dict[str, object]", value).items()
        return {name: _without_long(item, (*path, name), beside, values) for name, item in items}
    else:
        return cast("object", value)
    beside.append((path, kind, len(data)))
    values.append(data)
    return None
