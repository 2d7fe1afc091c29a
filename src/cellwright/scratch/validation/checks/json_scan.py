"""A strict JSON reader that keeps no data and never recurses: it finds where the text is wrong, and where values stand."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from cellwright.scratch.validation.checked import Path

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z_]+|-?(?:Infinity|NaN)")
_PLAIN_WORDS = frozenset(("true", "false", "null"))
_WRONG_WORDS = {
    "NaN": "NaN is not JSON; use null",
    "Infinity": "Infinity is not JSON; use null or a large number",
    "-Infinity": "-Infinity is not JSON; use null or a large number",
    "-NaN": "NaN is not JSON; use null",
    "None": "None is Python, in JSON it is null",
    "True": "True is Python, in JSON it is true",
    "False": "False is Python, in JSON it is false",
    "undefined": "undefined is JavaScript, JSON has null",
}
_BROKEN_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*')


class NotJson(ValueError):
    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


@dataclass(slots=True)
class _Open:
    """A container that is being read: an object with its keys so far, or a list."""

    keys: set[str] | None
    step: str | int = 0


@dataclass(frozen=True, slots=True)
class JsonScan:
    """What a scan found."""

    places: dict[Path, int] = field(default_factory=dict[Path, int])
    duplicates: list[tuple[Path, int]] = field(default_factory=list[tuple[Path, int]])
    deepest: int = 0


class _Scanner:
    def __init__(self, text: str, paths: Collection[Path]) -> None:
        self.text = text
        self.at = 0
        self.stack: list[_Open] = []
        self.paths = frozenset(paths)
        self.depths = {len(path) for path in self.paths}
        self.places: dict[Path, int] = {}
        self.duplicates: list[tuple[Path, int]] = []
        self.deepest = 0

    def skip_space(self) -> None:
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at

    def peek(self) -> str:
        self.skip_space()
        return self.text[self.at : self.at + 1]

    def path(self) -> Path:
        return tuple(container.step for container in self.stack)

    def note_place(self) -> None:
        if len(self.stack) in self.depths and (path := self.path()) in self.paths:
            self.places[path] = self.at

    def run(self) -> None:
        """Read one value and all in it. The stack is our own, so deep nesting cannot exhaust the interpreter's."""
        while self.value_or_opening() or self.go_on():
            pass
        self.expect_end()

    def run_until_found(self) -> None:
        """Like `run`, for a text that is known to be valid and to have no key twice: stops when all paths are found."""
        while len(self.places) < len(self.paths) and (self.value_or_opening() or self.go_on()):
            pass

    def expect_end(self) -> None:
        if self.peek():
            raise NotJson(self.at, "there is more text after the end of the JSON value")

    def value_or_opening(self) -> bool:
        """Read a scalar, or open a container; True if a value has to follow."""
        character = self.peek()
        self.note_place()
        if character and character in "{[":
            self.at += 1
            return self.open(character)
        self.scalar(character)
        return False

    def open(self, character: str) -> bool:
        self.stack.append(_Open(set() if character == "{" else None))
        self.deepest = max(self.deepest, len(self.stack))
        if self.peek() == ("}" if character == "{" else "]"):
            self.at += 1
            self.stack.pop()
            return self.go_on()
        if character == "{":
            self.key()
        return True

    def go_on(self) -> bool:
        """After a value: close what ends here; True if another value has to follow."""
        while self.stack and not self.next_in_container():
            self.stack.pop()
        return bool(self.stack)

    def next_in_container(self) -> bool:
        """After a value: True if another follows in the innermost container, False if that has ended."""
        container = self.stack[-1]
        character = self.peek()
        closing = "]" if container.keys is None else "}"
        if character == closing:
            self.at += 1
            return False
        if character != ",":
            raise NotJson(self.at, f"expected , or {closing}, but {_describe(character)}")
        comma = self.at
        self.at += 1
        if self.peek() == closing:
            raise NotJson(comma, f"a comma before {closing} is not JSON")
        if container.keys is None:
            container.step = int(container.step) + 1
        else:
            self.key()
        return True

    def key(self) -> None:
        container = self.stack[-1]
        character = self.peek()
        start = self.at
        if character != '"':
            raise NotJson(start, f"expected a key in double quotes, but {_describe(character)}")
        container.step = self.string()
        assert container.keys is not None
        if container.step in container.keys:
            self.duplicates.append((self.path(), start))
        container.keys.add(container.step)
        if self.peek() != ":":
            raise NotJson(self.at, "expected : after the key")
        self.at += 1

    def string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            raise self.broken_string()
        self.at = match.end()
        return _unescape(match.group()[1:-1])

    def broken_string(self) -> NotJson:
        beginning = _BROKEN_STRING.match(self.text, self.at)
        end = beginning.end() if beginning else self.at
        if end >= len(self.text):
            return NotJson(self.at, "this text in quotes never ends")
        if self.text[end] == "\\":
            return NotJson(end, f"{self.text[end : end + 2]!r} is no escape that JSON knows")
        return NotJson(end, f"the control character {self.text[end]!r} must be escaped in text")

    def scalar(self, character: str) -> None:
        if not character:
            raise NotJson(self.at, "expected a value, but the text ends")
        if character == '"':
            self.string()
            return
        word = _WORD.match(self.text, self.at)
        if word is not None and word.group() not in _PLAIN_WORDS:
            raise NotJson(self.at, _WRONG_WORDS.get(word.group(), f"{word.group()[:40]!r} is not a JSON value"))
        match = word or _NUMBER.match(self.text, self.at)
        if match is None:
            raise NotJson(self.at, _not_a_value(character))
        self.at = match.end()


def _describe(character: str) -> str:
    return f"found {character!r}" if character else "the text ends"


def _not_a_value(character: str) -> str:
    if character == "'":
        return "text stands in double quotes in JSON"
    if character in "/#":
        return "JSON has no comments"
    return f"expected a value, but found {character!r}"


_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _unescape(raw: str) -> str:
    if "\\" not in raw:
        return raw
    halves = _ESCAPE.sub(
        lambda match: chr(int(match[1][1:], 16)) if match[1][0] == "u" else _ESCAPED.get(match[1], match[1]), raw
    )
    # Two escapes can be the halves of one character; a half alone stays what it is.
    return halves.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def find(text: str, paths: Collection[Path]) -> dict[Path, int]:
    """The offsets of these paths in a text that is known to be valid and to have no key twice."""
    scanner = _Scanner(text, paths)
    scanner.run_until_found()
    return scanner.places


def scan(text: str, paths: Collection[Path] = ()) -> JsonScan:
    """Read the whole text, or raise NotJson. The scan has the offsets of `paths`."""
    scanner = _Scanner(text, paths)
    scanner.run()
    return JsonScan(scanner.places, scanner.duplicates, scanner.deepest)
