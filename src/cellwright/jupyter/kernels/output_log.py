"""The outputs of a run within limits: the beginning, the end, and how much is missing between them."""

import itertools
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from cellwright.core.text.counting import counted
from cellwright.core.weight import weight
from cellwright.jupyter.kernels.channel import JsonObject, Message
from cellwright.jupyter.kernels.output_values import (
    bounded_error,
    bundle_size,
    fitting,
    json_size,
    memory_bytes,
    whole_text,
    whole_value,
)
from cellwright.jupyter.kernels.stream_text import TerminalText, TextPlace
from cellwright.notebook.outputs import Data, Error, Output, Stream, is_data

SMALLEST_PIECE = 1024
TAIL_OUTPUTS = 20
RESERVED_FOR_ERRORS = 20
TRACEBACK_CHARACTERS = 64 * 1024
SHORTEST_TRACEBACK = 4 * 1024
METADATA_CHARACTERS = 64 * 1024
MIBI = 1024 * 1024


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """How many characters and outputs are kept."""

    text: int
    data: int
    outputs: int
    tail: int
    """How many characters of the end a log keeps, once a limit is reached."""
    all_tails: int
    """The same for all logs together that share an allowance."""


DOCUMENT_LIMITS = OutputLimits(text=MIBI, data=10 * MIBI, outputs=1000, tail=64 * 1024, all_tails=64 * 1024)
"""Per cell. A shared document keeps all that was ever in it, so every byte costs everybody who has it open."""
RESULT_LIMITS = OutputLimits(text=2 * MIBI, data=2 * MIBI, outputs=1000, tail=128 * 1024, all_tails=512 * 1024)
"""Per execution: together below 5 MiB."""


@dataclass(slots=True)
class Allowance:
    """How much of the limits is still free. Several logs may share one."""

    text: int
    data: int
    outputs: int
    tail: int

    @staticmethod
    def of(limits: OutputLimits) -> "Allowance":
        return Allowance(limits.text, limits.data, limits.outputs, limits.all_tails)


@dataclass(frozen=True, slots=True)
class Omitted:
    """How much is not kept: whole outputs, and characters of text or data."""

    outputs: int = 0
    characters: int = 0

    def __bool__(self) -> bool:
        return bool(self.outputs or self.characters)

    def __str__(self) -> str:
        parts = [counted(self.characters, "character")] if self.characters else []
        parts += [counted(self.outputs, "output")] if self.outputs else []
        return " and ".join(parts) or "nothing"


_serials = itertools.count()
"""Names for outputs. Unlike a reference to an output, a name keeps nothing in memory."""


@dataclass(eq=False, slots=True)
class StreamEntry:
    """A stream, which grows as long as it is the last output."""

    name: str
    text: TerminalText = field(default_factory=TerminalText)
    serial: int = field(default_factory=_serials.__next__)

    def value(self) -> Output:
        return _stream_output(self.name, str(self.text))

    def size(self) -> int:
        return len(self.text)

    def weight(self) -> int:
        return self.text.weight()


@dataclass(eq=False, slots=True)
class WholeEntry:
    """An output that came in one piece."""

    output: Data | Error
    display_id: str = ""
    characters: int = 0
    bytes: int = 0
    serial: int = field(default_factory=_serials.__next__)

    def value(self) -> Output:
        return self.output

    def size(self) -> int:
        return self.characters

    def weight(self) -> int:
        return self.bytes


Entry = StreamEntry | WholeEntry


@dataclass(frozen=True, slots=True)
class LogPosition:
    """How much of a log a reader has seen."""

    generation: int
    ends: Mapping[int, TextPlace | None]
    """The outputs at that time, by their serials, with the end of each stream."""
    size: int
    """Of all outputs so far, kept or not."""
    omitted: Omitted


@dataclass(frozen=True, slots=True)
class OutputNews:
    """The outputs of a log since a position."""

    outputs: tuple[Output, ...]
    omitted: Omitted
    cleared: bool = False
    """Whether the earlier outputs were cleared, so that these are all that there are now."""


class OutputLog:
    """The outputs of one run, in order, as JupyterLab would show them."""

    def __init__(self, limits: OutputLimits, allowance: Allowance | None = None) -> None:
        self._limits = limits
        self._tail_limit = 0
        self._allowance = allowance if allowance is not None else Allowance.of(limits)
        self._head: list[Entry] = []
        self._tail: deque[Entry] = deque()
        self._overflowed = False
        self._clear_next = False
        self._generation = 0
        self.omitted = Omitted()

    @property
    def head(self) -> tuple[Entry, ...]:
        """The outputs from the beginning until a limit was reached."""
        return tuple(self._head)

    @property
    def tail(self) -> tuple[Entry, ...]:
        """The newest outputs after a limit was reached."""
        return tuple(self._tail)

    @property
    def overflowed(self) -> bool:
        return self._overflowed

    @property
    def last_line(self) -> str:
        """The newest line of stream text, for progress messages."""
        newest = (*self._tail, *self._head[-1:])
        return next((entry.text.last_line for entry in newest[::-1] if isinstance(entry, StreamEntry)), "")

    def outputs(self) -> tuple[Output, ...]:
        """All kept outputs, with a note where something is missing."""
        note = [omission_note(self.omitted)] if self.omitted and self._overflowed else []
        return (*(entry.value() for entry in self._head), *note, *(entry.value() for entry in self._tail))

    def position(self) -> LogPosition:
        """The position at which the log ends now. A reader who has seen it needs only the outputs after it."""
        entries = (*self._head, *self._tail)
        ends = {entry.serial: entry.text.end() if isinstance(entry, StreamEntry) else None for entry in entries}
        return LogPosition(self._generation, ends, self._whole_size(), self.omitted)

    def news(self, position: LogPosition) -> OutputNews:
        """The outputs since a position, in order. An output that was changed meanwhile is new as a whole."""
        if position.generation != self._generation:
            return OutputNews(self.outputs(), self.omitted, cleared=bool(position.ends))
        head, tail = (
            [news for entry in entries if (news := _news_of(entry, position)) is not None]
            for entries in (self._head, self._tail)
        )
        missed = self._missed(position, sum(size for _, size in (*head, *tail)))
        note = [omission_note(missed)] if missed and self._overflowed else []
        return OutputNews((*(output for output, _ in head), *note, *(output for output, _ in tail)), missed)

    def _missed(self, position: LogPosition, news_size: int) -> Omitted:
        """How much came since a position and is not kept. Outputs that the reader saw before they were dropped do not count."""
        serials = {entry.serial for entry in (*self._head, *self._tail)}
        seen_and_dropped = sum(serial not in serials for serial in position.ends)
        outputs = self.omitted.outputs - position.omitted.outputs - seen_and_dropped
        return Omitted(max(0, outputs), max(0, self._whole_size() - position.size - news_size))

    def _whole_size(self) -> int:
        return self.size() + self.omitted.characters

    def size(self) -> int:
        return sum(entry.size() for entry in (*self._head, *self._tail))

    def weight(self) -> int:
        """Bytes in memory."""
        return sum(entry.weight() for entry in (*self._head, *self._tail))

    def write(self, message: Message) -> WholeEntry | None:
        """Add the output of one message. Returns the entry if it can be updated later by its display id."""
        content = message.content
        match message.type:
            case "stream":
                self._before_output()
                self._write_stream(str(content.get("name", "stdout")), whole_text(content.get("text")))
            case "display_data" | "execute_result":
                self._before_output()
                return self._write_data(content, is_result=message.type == "execute_result")
            case "error":
                self._before_output()
                self._write_error(content)
            case "clear_output" if content.get("wait"):
                self._clear_next = True
            case "clear_output":
                self.clear()
            case _:
                pass
        return None

    def update_display(self, display_id: str, data: JsonObject, metadata: JsonObject) -> None:
        """Replace the data of every output that was shown under this id."""
        for entries in (self._head, self._tail):
            for index, entry in enumerate(entries):
                if isinstance(entry, WholeEntry) and entry.display_id == display_id:
                    self._allowance.data += entry.characters
                    entries[index] = self._with_data(entry, data, metadata)

    def clear(self) -> None:
        for entry in self._head:
            self._allowance.outputs += 1
            if isinstance(entry, StreamEntry):
                self._allowance.text += entry.size()
            else:
                self._allowance.data += entry.characters
        self._head.clear()
        self._tail.clear()
        self._allowance.tail += self._tail_limit
        self._tail_limit = 0
        self._overflowed = self._clear_next = False
        self._generation += 1
        self.omitted = Omitted()

    def add(self, entry: Entry) -> None:
        """Add an entry of another log at the end of this one."""
        self._append(entry)

    def _before_output(self) -> None:
        if self._clear_next:
            self.clear()

    def _write_stream(self, name: str, text: str) -> None:
        if self._allowance.text < SMALLEST_PIECE and "\r" not in text:
            self._overflow()
        while text and not self._overflowed:
            entry = self._stream(name)
            piece, text = text[: self._allowance.text], text[self._allowance.text :]
            before = len(entry.text)
            entry.text.write(piece)
            self._allowance.text -= len(entry.text) - before
            if text and self._allowance.text < SMALLEST_PIECE:
                self._overflow()
        if text:
            self._write_tail_stream(name, text)

    def _overflow(self) -> None:
        if not self._overflowed:
            self._overflowed = True
            self._tail_limit = min(self._limits.tail, self._allowance.tail)
            self._allowance.tail -= self._tail_limit

    def _stream(self, name: str) -> StreamEntry:
        entries = self._tail if self._overflowed else self._head
        newest = entries[-1] if entries else None
        if isinstance(newest, StreamEntry) and newest.name == name:
            return newest
        entry = StreamEntry(name)
        self._append(entry)
        return entry

    def _write_tail_stream(self, name: str, text: str) -> None:
        excess = len(text) - self._tail_limit
        if excess > 0:
            self._omit(characters=excess)
            text = text[excess:]
        self._stream(name).text.write(text)
        self._trim_tail()

    def _write_data(self, content: JsonObject, *, is_result: bool) -> WholeEntry | None:
        output: Data = {"output_type": "display_data", "data": {}, "metadata": {}}
        if is_result:
            count = content.get("execution_count")
            count = count if isinstance(count, int) else None
            output = {"output_type": "execute_result", "execution_count": count, "data": {}, "metadata": {}}
        display_id = str(_object(content.get("transient")).get("display_id", ""))
        data, metadata = _object(content.get("data")), _object(content.get("metadata"))
        entry = self._with_data(WholeEntry(output, display_id), data, metadata)
        self._append(entry)
        return entry if display_id else None

    def _write_error(self, content: JsonObject) -> None:
        room = self._tail_limit if self._overflowed else self._allowance.data
        error, missing = bounded_error(content, min(TRACEBACK_CHARACTERS, max(SHORTEST_TRACEBACK, room)))
        self._omit(characters=missing)
        characters = len(error["evalue"]) + sum(map(len, error["traceback"]))
        entry = WholeEntry(error, characters=characters, bytes=weight(error))
        if not self._overflowed:
            self._allowance.data -= entry.characters
        self._append(entry, reserve=RESERVED_FOR_ERRORS)

    def _with_data(self, entry: WholeEntry, data: JsonObject, metadata: JsonObject) -> WholeEntry:
        assert is_data(entry.output)
        room = self._tail_limit if self._overflowed else self._allowance.data
        bundle = fitting(data, room)
        metadata = cast("JsonObject", whole_value(metadata))
        if json_size(metadata) > METADATA_CHARACTERS:
            self._omit(characters=json_size(metadata))
            metadata = {}
        self._omit(characters=bundle_size(data) - sum(json_size(data[mime]) for mime in bundle if mime in data))
        characters = bundle_size(bundle)
        weight_in_bytes = sum(map(memory_bytes, bundle.values())) + memory_bytes(metadata)
        if not self._overflowed:
            self._allowance.data -= characters
        output: Data = {**entry.output, "data": bundle, "metadata": metadata}
        return WholeEntry(output, entry.display_id, characters, weight_in_bytes)

    def _append(self, entry: Entry, reserve: int = 0) -> None:
        if not self._overflowed and self._allowance.outputs + reserve > 0:
            self._allowance.outputs -= 1
            self._head.append(entry)
            return
        self._overflow()
        self._tail.append(entry)
        self._trim_tail()

    def _trim_tail(self) -> None:
        excess = sum(entry.size() for entry in self._tail) - self._tail_limit
        while len(self._tail) > 1 and (len(self._tail) > TAIL_OUTPUTS or 0 < excess >= self._tail[0].size()):
            dropped = self._tail.popleft()
            excess -= dropped.size()
            self._omit(outputs=1, characters=dropped.size())
        oldest = self._tail[0]
        # Not for every piece, because each time costs as much as the tail is long.
        if excess > self._tail_limit // 4 and isinstance(oldest, StreamEntry):
            oldest.text.drop_front(excess)
            self._omit(characters=excess)

    def _omit(self, *, outputs: int = 0, characters: int = 0) -> None:
        self.omitted = Omitted(self.omitted.outputs + outputs, self.omitted.characters + characters)


def _news_of(entry: Entry, position: LogPosition) -> tuple[Output, int] | None:
    """The part of an output that is new since a position, and its size; None if nothing is new."""
    if entry.serial not in position.ends:
        return entry.value(), entry.size()
    end = position.ends[entry.serial]
    text = entry.text.since(end) if end is not None and isinstance(entry, StreamEntry) else ""
    return (_stream_output(entry.name, text), len(text)) if isinstance(entry, StreamEntry) and text else None


def _stream_output(name: str, text: str) -> Stream:
    return {"output_type": "stream", "name": name, "text": text}


def omission_note(omitted: Omitted | None = None) -> Data:
    """The note in the place of missing outputs. None while it is not known how much will be missing.

    It is not a stream, because JupyterLab would merge it with a neighbour of the same name.
    """
    missing = f"{omitted} left out here" if omitted else "the rest follows when the cell has ended"
    text = f"[cellwright: {missing}, the limit for one cell's output is reached]"
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
