"""What a run has put out so far, kept within limits: the beginning, the end, and how much is missing between them."""

import itertools
import json
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from cellwright.core.text.counting import counted
from cellwright.core.text.cutting import cut_for_file, from_file, gaps_of
from cellwright.core.weight import weight
from cellwright.jupyter.kernels.channel import JsonObject, Message
from cellwright.jupyter.kernels.stream_text import TerminalText, TextPlace
from cellwright.jupyter.model import DataOutput, ErrorOutput, Output, StreamOutput

SMALLEST_PIECE = 1024
TAIL_OUTPUTS = 20
RESERVED_FOR_ERRORS = 20
TRACEBACK_CHARACTERS = 64 * 1024
SHORTEST_TRACEBACK = 4 * 1024
METADATA_CHARACTERS = 64 * 1024
BYTES_OF_A_JSON_CHARACTER = 24
MIBI = 1024 * 1024


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """How much is kept, in characters."""

    text: int
    data: int
    outputs: int
    tail: int
    """What a log keeps of the end, once a limit is reached."""
    all_tails: int
    """The same for all logs that draw on one allowance."""


DOCUMENT_LIMITS = OutputLimits(text=MIBI, data=10 * MIBI, outputs=1000, tail=64 * 1024, all_tails=64 * 1024)
"""Per cell: a shared document never forgets what it once held, so every byte is paid for by everybody in it."""
RESULT_LIMITS = OutputLimits(text=2 * MIBI, data=2 * MIBI, outputs=1000, tail=128 * 1024, all_tails=512 * 1024)
"""Per execution: together below 5 MiB."""


@dataclass(slots=True)
class Allowance:
    """What is left of the limits. Several logs may draw on one."""

    text: int
    data: int
    outputs: int
    tail: int

    @staticmethod
    def of(limits: OutputLimits) -> "Allowance":
        return Allowance(limits.text, limits.data, limits.outputs, limits.all_tails)


@dataclass(frozen=True, slots=True)
class Omitted:
    """What is not kept: whole outputs, and characters of text or data."""

    outputs: int = 0
    characters: int = 0

    def __bool__(self) -> bool:
        return bool(self.outputs or self.characters)

    def __str__(self) -> str:
        parts = [counted(self.characters, "character")] if self.characters else []
        parts += [counted(self.outputs, "output")] if self.outputs else []
        return " and ".join(parts) or "nothing"


_serials = itertools.count()
"""Names for outputs that keep nothing in memory, as the outputs themselves would."""


@dataclass(eq=False, slots=True)
class StreamEntry:
    """A stream that may still grow while it is the last one."""

    name: str
    text: TerminalText = field(default_factory=TerminalText)
    serial: int = field(default_factory=_serials.__next__)

    def value(self) -> Output:
        return StreamOutput(self.name, str(self.text))

    def size(self) -> int:
        return len(self.text)

    def weight(self) -> int:
        return self.text.weight()


@dataclass(eq=False, slots=True)
class WholeEntry:
    """An output that came in one piece."""

    output: DataOutput | ErrorOutput
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
class Told:
    """How much of a log somebody knows."""

    generation: int
    ends: Mapping[int, TextPlace | None]
    """The outputs that were there, by their serials, with the end of each stream."""
    size: int
    """Of all that had come, kept or not."""
    omitted: Omitted


@dataclass(frozen=True, slots=True)
class OutputNews:
    """What somebody does not know yet of a log."""

    outputs: tuple[Output, ...]
    omitted: Omitted
    cleared: bool = False
    """Whether what was known before is gone: the outputs are all that there are now."""


class OutputLog:
    """The outputs of one run, in order, as JupyterLab would show them."""

    def __init__(self, limits: OutputLimits, allowance: Allowance | None = None) -> None:
        self._limits = limits
        self._tail_limit = 0
        self._left = allowance if allowance is not None else Allowance.of(limits)
        self._head: list[Entry] = []
        self._tail: deque[Entry] = deque()
        self._overflowed = False
        self._clear_next = False
        self._generation = 0
        self.omitted = Omitted()

    @property
    def head(self) -> tuple[Entry, ...]:
        """What stands from the beginning until a limit was reached."""
        return tuple(self._head)

    @property
    def tail(self) -> tuple[Entry, ...]:
        """The newest of what came after a limit was reached."""
        return tuple(self._tail)

    @property
    def overflowed(self) -> bool:
        return self._overflowed

    @property
    def last_line(self) -> str:
        """The newest line of stream text, for progress messages."""
        newest = (*self._tail, *self._head[-1:])
        return next((e.text.last_line for e in newest[::-1] if isinstance(e, StreamEntry)), "")

    def outputs(self) -> tuple[Output, ...]:
        """Everything kept, with a note where something is missing."""
        note = [omission_note(self.omitted)] if self.omitted and self._overflowed else []
        return (*(e.value() for e in self._head), *note, *(e.value() for e in self._tail))

    def told(self) -> Told:
        """How much there is now: who has been told this needs only what comes after it."""
        entries = (*self._head, *self._tail)
        ends = {entry.serial: entry.text.end() if isinstance(entry, StreamEntry) else None for entry in entries}
        return Told(self._generation, ends, self._whole_size(), self.omitted)

    def news(self, told: Told) -> OutputNews:
        """What has come since, in order. An output that was changed meanwhile is new as a whole."""
        if told.generation != self._generation:
            return OutputNews(self.outputs(), self.omitted, cleared=bool(told.ends))
        head, tail = ([new for e in part if (new := _new(e, told)) is not None] for part in (self._head, self._tail))
        missed = self._missed(told, sum(size for _, size in (*head, *tail)))
        note = [omission_note(missed)] if missed and self._overflowed else []
        return OutputNews((*(new for new, _ in head), *note, *(new for new, _ in tail)), missed)

    def _missed(self, told: Told, shown: int) -> Omitted:
        """What came since and is not kept: what was told before it was dropped is not missing to who was told."""
        kept = {entry.serial for entry in (*self._head, *self._tail)}
        known = sum(serial not in kept for serial in told.ends)
        outputs = self.omitted.outputs - told.omitted.outputs - known
        return Omitted(max(0, outputs), max(0, self._whole_size() - told.size - shown))

    def _whole_size(self) -> int:
        return self.size() + self.omitted.characters

    def size(self) -> int:
        return sum(entry.size() for entry in (*self._head, *self._tail))

    def weight(self) -> int:
        """Bytes in memory."""
        return sum(entry.weight() for entry in (*self._head, *self._tail))

    def write(self, message: Message) -> WholeEntry | None:
        """Take in one message. Returns the entry when it can be updated later by its display id."""
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
        """Put new data in the place of every output that was shown under this id."""
        for entries in (self._head, self._tail):
            for index, entry in enumerate(entries):
                if isinstance(entry, WholeEntry) and entry.display_id == display_id:
                    self._left.data += entry.characters
                    entries[index] = self._replaced(entry, data, metadata)

    def clear(self) -> None:
        for entry in self._head:
            self._give_back(entry)
        self._head.clear()
        self._tail.clear()
        self._left.tail += self._tail_limit
        self._tail_limit = 0
        self._overflowed = self._clear_next = False
        self._generation += 1
        self.omitted = Omitted()

    def take(self, entry: Entry) -> None:
        """Put an entry of another log at the end of this one."""
        self._add(entry)

    def _before_output(self) -> None:
        if self._clear_next:
            self.clear()

    def _give_back(self, entry: Entry) -> None:
        self._left.outputs += 1
        if isinstance(entry, StreamEntry):
            self._left.text += entry.size()
        else:
            self._left.data += entry.characters

    def _write_stream(self, name: str, text: str) -> None:
        rest = text
        if self._left.text < SMALLEST_PIECE and "\r" not in text:
            self._overflow()
        while rest and not self._overflowed:
            entry = self._stream(name)
            piece, rest = rest[: self._left.text], rest[self._left.text :]
            before = len(entry.text)
            entry.text.write(piece)
            self._left.text -= len(entry.text) - before
            if rest and self._left.text < SMALLEST_PIECE:
                self._overflow()
        if rest:
            self._write_tail_stream(name, rest)

    def _overflow(self) -> None:
        if not self._overflowed:
            self._overflowed = True
            self._tail_limit = min(self._limits.tail, self._left.tail)
            self._left.tail -= self._tail_limit

    def _stream(self, name: str) -> StreamEntry:
        entries = self._tail if self._overflowed else self._head
        last = entries[-1] if entries else None
        if isinstance(last, StreamEntry) and last.name == name:
            return last
        entry = StreamEntry(name)
        self._add(entry)
        return entry

    def _write_tail_stream(self, name: str, text: str) -> None:
        excess = len(text) - self._tail_limit
        if excess > 0:
            self._omit(characters=excess)
            text = text[excess:]
        self._stream(name).text.write(text)
        self._trim_tail()

    def _write_data(self, content: JsonObject, *, is_result: bool) -> WholeEntry | None:
        count = content.get("execution_count") if is_result else None
        output = DataOutput(
            {}, _object(content.get("metadata")), count if isinstance(count, int) else None, is_result=is_result
        )
        display_id = str(_object(content.get("transient")).get("display_id", ""))
        entry = self._replaced(WholeEntry(output, display_id), _object(content.get("data")), dict(output.metadata))
        self._add(entry)
        return entry if display_id else None

    def _write_error(self, content: JsonObject) -> None:
        room = self._tail_limit if self._overflowed else self._left.data
        error, missing = bounded_error(content, min(TRACEBACK_CHARACTERS, max(SHORTEST_TRACEBACK, room)))
        self._omit(characters=missing)
        characters = len(error.value) + sum(map(len, error.traceback))
        entry = WholeEntry(error, characters=characters, bytes=weight(error))
        if not self._overflowed:
            self._left.data -= entry.characters
        self._add(entry, reserve=RESERVED_FOR_ERRORS)

    def _replaced(self, entry: WholeEntry, data: JsonObject, metadata: JsonObject) -> WholeEntry:
        assert isinstance(entry.output, DataOutput)
        room = self._tail_limit if self._overflowed else self._left.data
        kept = fitting(data, room)
        metadata = cast("JsonObject", _whole(metadata))
        if _size(metadata) > METADATA_CHARACTERS:
            self._omit(characters=_size(metadata))
            metadata = {}
        self._omit(characters=_bundle_size(data) - sum(_size(data[mime]) for mime in kept if mime in data))
        size = _bundle_size(kept)
        taken = sum(map(_weight, kept.values())) + _weight(metadata)
        if not self._overflowed:
            self._left.data -= size
        return WholeEntry(replace(entry.output, data=kept, metadata=metadata), entry.display_id, size, taken)

    def _add(self, entry: Entry, reserve: int = 0) -> None:
        if not self._overflowed and self._left.outputs + reserve > 0:
            self._left.outputs -= 1
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
        first = self._tail[0]
        # Not for every piece: each time costs as much as the whole tail is long.
        if excess > self._tail_limit // 4 and isinstance(first, StreamEntry):
            first.text.drop_front(excess)
            self._omit(characters=excess)

    def _omit(self, *, outputs: int = 0, characters: int = 0) -> None:
        self.omitted = Omitted(self.omitted.outputs + outputs, self.omitted.characters + characters)


def _new(entry: Entry, told: Told) -> tuple[Output, int] | None:
    """What is new of an output, and its size."""
    if entry.serial not in told.ends:
        return entry.value(), entry.size()
    end = told.ends[entry.serial]
    text = entry.text.since(end) if end is not None and isinstance(entry, StreamEntry) else ""
    return (StreamOutput(entry.name, text), len(text)) if isinstance(entry, StreamEntry) and text else None


def omission_note(omitted: Omitted | None = None) -> DataOutput:
    """What stands in the place of the missing; None while it is not known how much will be missing.

    Not a stream: JupyterLab would merge it with a neighbour of the same name.
    """
    missing = f"{omitted} left out here" if omitted else "the rest follows when the cell has ended"
    return DataOutput({"text/plain": f"[cellwright: {missing}, the limit for one cell's output is reached]"}, {})


def whole_text(value: object) -> str:
    """Text that every encoder takes: half characters, which a kernel may send, become a replacement mark."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def fitting(data: Mapping[str, Any], room: int) -> JsonObject:
    """The data without its largest representations, if it is larger than `room`; what went is said. Nothing is cut."""
    kept = {mime: _whole(value) for mime, value in data.items()}
    gone: list[str] = []
    while kept and _bundle_size(kept) > room:
        largest = max(kept, key=lambda mime: _size(kept[mime]))
        gone.append(f"[cellwright: {largest} of {_size(kept.pop(largest)):,} characters left out, it is too large]")
    if gone:
        plain = kept.get("text/plain")
        kept["text/plain"] = "\n".join([*([plain] if isinstance(plain, str) else []), *gone])
    return kept


def bounded_error(content: JsonObject, limit: int) -> tuple[ErrorOutput, int]:
    """The error with at most `limit` characters of traceback and as many of its own words; how many are missing of both."""
    lines = tuple(whole_text(line) for line in cast("Iterable[object]", content.get("traceback") or ()))
    text, value = "\n".join(lines), whole_text(content.get("evalue"))
    kept, kept_value = cut_for_file(text, limit), cut_for_file(value, limit)
    if kept != text:
        lines = tuple(kept.split("\n"))
    missing = sum(gap.missing for one in (kept, kept_value) for gap in gaps_of(from_file(one)))
    return ErrorOutput(whole_text(content.get("ename")), kept_value, lines), missing


def _whole(value: object) -> object:
    match value:
        case str():
            return whole_text(value)
        case dict():
            return {whole_text(key): _whole(item) for key, item in cast("dict[object, object]", value).items()}
        case list():
            return [_whole(item) for item in cast("list[object]", value)]
        case int() if not isinstance(value, bool) and abs(value) > 2**53:
            # JavaScript would read it as a big integer, which JupyterLab cannot show.
            return float(value) if abs(value) <= sys.float_info.max else str(value)
        case _:
            return value


def _size(value: object) -> int:
    return len(value) if isinstance(value, str) else len(json.dumps(value))


def _weight(value: object) -> int:
    """At most these bytes in memory: of JSON, `[[],[],…]` takes the most for each character."""
    return sys.getsizeof(value) if isinstance(value, str) else BYTES_OF_A_JSON_CHARACTER * _size(value)


def _bundle_size(data: Mapping[str, Any]) -> int:
    return sum(_size(value) for value in data.values())


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
