"""Stream text as a terminal shows it: a carriage return goes to the line's start, a backspace takes a character."""

import re
from dataclasses import dataclass

LAST_LINE_SEARCH = 4096
_CONTROLS = re.compile("([\r\b\n])")


@dataclass(frozen=True, slots=True)
class Mark:
    """How much of a text somebody has seen: all its finished lines up to a point, and an unfinished last line."""

    finished: int = 0
    line: str = ""


@dataclass(frozen=True, slots=True)
class TailChange:
    """What to do at the end of a text that was seen up to a mark: take `removed` away, then add `added`."""

    removed: str
    added: str


class TerminalText:
    """Text that is written piece by piece. Only its last line can still change, so a change costs what is new."""

    def __init__(self) -> None:
        self._finished: list[str] = []
        self._line: list[str] = []
        self._cursor = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size + len(self._line)

    def __str__(self) -> str:
        return "".join(self._finished) + "".join(self._line)

    @property
    def last_line(self) -> str:
        """The newest line that has something on it."""
        recent = "".join(self._finished[-8:])[-LAST_LINE_SEARCH:] + "".join(self._line[-LAST_LINE_SEARCH:])
        return next((line for line in reversed(recent.splitlines()) if line.strip()), "")

    def write(self, text: str) -> None:
        if "\r" not in text and "\b" not in text and self._cursor == len(self._line):
            self._append(text)
            return
        for piece in _CONTROLS.split(text):
            match piece:
                case "":
                    pass
                case "\n":
                    self._finish("".join(self._line) + "\n")
                case "\r":
                    self._cursor = 0
                case "\b":
                    self._backspace()
                case _:
                    self._line[self._cursor : self._cursor + len(piece)] = piece
                    self._cursor += len(piece)

    def mark(self) -> Mark:
        return Mark(len(self._finished), "".join(self._line))

    def change_since(self, mark: Mark) -> TailChange:
        """How the text's end differs from what it was at `mark`."""
        now = "".join([*self._finished[mark.finished :], *self._line])
        if now.startswith(mark.line):
            return TailChange("", now[len(mark.line) :])
        same = next((i for i, (old, new) in enumerate(zip(mark.line, now, strict=False)) if old != new), len(now))
        return TailChange(mark.line[same:], now[same:])

    def drop_front(self, characters: int) -> None:
        """Forget the oldest `characters`. Marks made before no longer hold."""
        while characters > 0 and self._finished:
            first = self._finished.pop(0)
            self._size -= len(first)
            if len(first) > characters:
                self._finished.insert(0, first[characters:])
                self._size += len(first) - characters
            characters -= min(characters, len(first))
        del self._line[:characters]
        self._cursor = max(0, self._cursor - max(0, characters))

    def _append(self, text: str) -> None:
        finished, newline, rest = text.rpartition("\n")
        if newline:
            self._finish("".join(self._line) + finished + newline)
        self._line.extend(rest)
        self._cursor = len(self._line)

    def _finish(self, text: str) -> None:
        self._finished.append(text)
        self._size += len(text)
        self._line.clear()
        self._cursor = 0

    def _backspace(self) -> None:
        if self._cursor > 0:
            self._cursor -= 1
            del self._line[self._cursor]
