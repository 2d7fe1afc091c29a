"""Stream text as a terminal shows it: a carriage return goes to the line's start, a backspace takes a character."""

import re
from dataclasses import dataclass

from cellwright.core.weight import weight

LAST_LINE_SEARCH = 4096
_CONTROLS = re.compile("([\r\b\n])")


@dataclass(frozen=True, slots=True)
class Mark:
    """How much of a text a reader has seen: the number of finished pieces, and the unfinished last line."""

    finished: int = 0
    line: str = ""


@dataclass(frozen=True, slots=True)
class TailChange:
    """How the end of a text changed since a mark: `removed` goes from its end, then `added` comes."""

    removed: str
    added: str


@dataclass(frozen=True, slots=True)
class TextPlace:
    """A place in a text: where the last line began, and its text. It stays valid when the front of the text is dropped."""

    line_start: int
    line: str


class TerminalText:
    """Text that is written piece by piece. Only its last line can still change, so a change costs as much as is new."""

    def __init__(self) -> None:
        self._finished: list[str] = []
        self._finished_size = 0
        self._dropped = 0
        self._line: list[str] = []
        self._line_size = 0
        self._cursor = 0
        # Pieces of any length until something is overwritten, single characters from then on.
        self._in_characters = False

    def __len__(self) -> int:
        return self._finished_size + self._line_size

    def __str__(self) -> str:
        return "".join([*self._finished, *self._line])

    def weight(self) -> int:
        """Its bytes in memory."""
        return weight(self._finished) + weight(self._line)

    @property
    def last_line(self) -> str:
        """The newest line that has something on it."""
        recent = "".join(self._finished[-8:])[-LAST_LINE_SEARCH:] + "".join(self._line)[-LAST_LINE_SEARCH:]
        return next((line for line in reversed(recent.splitlines()) if line.strip()), "")

    def write(self, text: str) -> None:
        if "\r" not in text and "\b" not in text and self._cursor == self._line_size:
            finished, newline, line = text.rpartition("\n")
            if newline:
                self._finish_line(finished + newline)
            self._append(line)
            return
        for piece in _CONTROLS.split(text):
            match piece:
                case "":
                    pass
                case "\n":
                    self._finish_line("\n")
                case "\r":
                    self._cursor = 0
                case "\b":
                    self._backspace()
                case _:
                    self._overwrite(piece)

    def mark(self) -> Mark:
        return Mark(len(self._finished), "".join(self._line))

    def change_since(self, mark: Mark) -> TailChange:
        """How the end of the text has changed since `mark`."""
        now = "".join([*self._finished[mark.finished :], *self._line])
        if now.startswith(mark.line):
            return TailChange("", now[len(mark.line) :])
        pairs = enumerate(zip(mark.line, now, strict=False))
        same = next((index for index, (before, after) in pairs if before != after), len(now))
        return TailChange(mark.line[same:], now[same:])

    def end(self) -> TextPlace:
        """Where the text ends now."""
        return TextPlace(self._dropped + self._finished_size, "".join(self._line))

    def since(self, place: TextPlace) -> str:
        """The text after a place, or from the start of its line if that was overwritten meanwhile."""
        start = place.line_start - self._dropped
        # The dropped front may reach into the line: then only the remaining part of the line was seen before.
        line = place.line[max(0, -start) :]
        now = str(self)[max(0, start) :]
        return now.removeprefix(line)

    def drop_front(self, characters: int) -> None:
        """Forget the oldest `characters`. Earlier marks become invalid, places stay valid."""
        self._dropped += characters
        cursor = self._finished_size + self._cursor
        finished, newline, line = str(self)[characters:].rpartition("\n")
        self._finished = [finished + newline] if newline else []
        self._finished_size = len(finished) + len(newline)
        self._line, self._line_size, self._in_characters = [line], len(line), False
        self._cursor = max(0, min(self._line_size, cursor - characters - self._finished_size))

    def _append(self, text: str) -> None:
        if text:
            self._line.extend(text if self._in_characters else (text,))
            self._line_size += len(text)
            self._cursor = self._line_size

    def _finish_line(self, end: str) -> None:
        self._finished.append("".join([*self._line, end]))
        self._finished_size += len(self._finished[-1])
        self._line, self._line_size, self._cursor, self._in_characters = [], 0, 0, False

    def _overwrite(self, text: str) -> None:
        if self._cursor == self._line_size:
            self._append(text)
            return
        self._split()
        self._line[self._cursor : self._cursor + len(text)] = text
        self._line_size = len(self._line)
        self._cursor += len(text)

    def _backspace(self) -> None:
        if self._cursor > 0:
            self._split()
            self._cursor -= 1
            del self._line[self._cursor]
            self._line_size -= 1

    def _split(self) -> None:
        if not self._in_characters:
            self._line, self._in_characters = list("".join(self._line)), True
