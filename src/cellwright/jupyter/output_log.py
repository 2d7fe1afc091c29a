"""What a run has put out so far, kept within limits: the beginning, the end, and how much is missing between them."""

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from cellwright.jupyter.kernel_channel import JsonObject, Message
from cellwright.jupyter.model import DataOutput, ErrorOutput, Output, StreamOutput
from cellwright.jupyter.terminal import TerminalText

SMALLEST_PIECE = 1024
TAIL_OUTPUTS = 20
RESERVED_FOR_ERRORS = 20
TRACEBACK_CHARACTERS = 64 * 1024
SHORTEST_TRACEBACK = 4 * 1024
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
        parts = [f"{self.characters:,} characters"] if self.characters else []
        parts += [f"{self.outputs:,} outputs"] if self.outputs else []
        return " and ".join(parts) or "nothing"


@dataclass(eq=False, slots=True)
class StreamEntry:
    """A stream that may still grow while it is the last one."""

    name: str
    text: TerminalText = field(default_factory=TerminalText)

    def value(self) -> Output:
        return StreamOutput(self.name, str(self.text))

    def size(self) -> int:
        return len(self.text)


@dataclass(eq=False, slots=True)
class WholeEntry:
    """An output that came in one piece."""

    output: DataOutput | ErrorOutput
    display_id: str = ""
    characters: int = 0

    def value(self) -> Output:
        return self.output

    def size(self) -> int:
        return self.characters


Entry = StreamEntry | WholeEntry


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

    def size(self) -> int:
        return sum(entry.size() for entry in (*self._head, *self._tail))

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
        error = bounded_error(content, min(TRACEBACK_CHARACTERS, max(SHORTEST_TRACEBACK, room)))
        entry = WholeEntry(error, characters=len(error.value) + sum(map(len, error.traceback)))
        if not self._overflowed:
            self._left.data -= entry.characters
        self._add(entry, reserve=RESERVED_FOR_ERRORS)

    def _replaced(self, entry: WholeEntry, data: JsonObject, metadata: JsonObject) -> WholeEntry:
        assert isinstance(entry.output, DataOutput)
        room = self._tail_limit if self._overflowed else self._left.data
        kept = fitting(data, room)
        self._omit(characters=_bundle_size(data) - sum(_size(data[mime]) for mime in kept if mime in data))
        size = _bundle_size(kept)
        if not self._overflowed:
            self._left.data -= size
        return WholeEntry(replace(entry.output, data=kept, metadata=metadata), entry.display_id, size)

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


def bounded_error(content: JsonObject, limit: int) -> ErrorOutput:
    """The error with at most `limit` characters of traceback and as many of its own words."""
    lines = tuple(whole_text(line) for line in cast("Iterable[object]", content.get("traceback") or ()))
    text = "\n".join(lines)
    if len(text) > limit:
        lines = (text[: limit // 2], f"[cellwright: {len(text) - limit:,} characters left out]", text[-limit // 2 :])
    return ErrorOutput(whole_text(content.get("ename")), whole_text(content.get("evalue"))[:limit], lines)


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
            return float(value)
        case _:
            return value


def _size(value: object) -> int:
    return len(value) if isinstance(value, str) else len(json.dumps(value))


def _bundle_size(data: Mapping[str, Any]) -> int:
    return sum(_size(value) for value in data.values())


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
