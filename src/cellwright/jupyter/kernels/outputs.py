"""Writes the messages of a run into the cell of a shared document, and into memory for the result.

An open JupyterLab follows only some changes of a document's outputs; others it shows wrongly or writes back corrupted. Therefore:
  * the outputs array is never replaced, every output is a Map, and a stream's text is a Text;
  * stream text changes only at the end of the last output, one change per transaction, removal apart from addition;
  * new outputs are only appended. To change output i, it and all after it are removed and added again in one transaction,
    and i must not be a stream: Lab would append a stream's text to whatever output is last if the name is that of the last
    stream that it received, even when that stream is gone;
  * the execution count is written when the run has ended: before that it would make Lab show the cell as idle.
"""

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, cast

from pycrdt import Array, Doc, Map, Text, Transaction

from cellwright.jupyter.kernels.channel import JsonObject, Message
from cellwright.jupyter.kernels.output_log import (
    DOCUMENT_LIMITS,
    RESULT_LIMITS,
    Allowance,
    Entry,
    LogPosition,
    Omitted,
    OutputLimits,
    OutputLog,
    OutputNews,
    StreamEntry,
    WholeEntry,
    omission_note,
)
from cellwright.jupyter.kernels.stream_text import Mark, TerminalText
from cellwright.jupyter.model import DataOutput, ErrorOutput, Output, StreamOutput, UnknownOutput

OUTPUT_ORIGIN = "cellwright-output"
"""The origin of our output transactions, which tells them from edits (for undo and presence)."""
UPDATES_PER_SECOND = 20
SHORTEST_PAUSE = 0.1
"""Many small transactions cost the server far more than a few large ones."""
LONGEST_PAUSE = 5.0
CHARACTERS_PER_SECOND = 512 * 1024
REMEMBERED_DISPLAYS = 256
OWNERS_OF_A_DISPLAY = 64
"""The most cells that show the same display; the latest are remembered."""


class DisplayOwner(Protocol):
    def update_display(self, display_id: str, data: JsonObject, metadata: JsonObject) -> None: ...


class Displays:
    """Which outputs of one kernel were shown under which display id, in any cell."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, list[Callable[[], DisplayOwner | None]]] = OrderedDict()

    def register(self, display_id: str, owner: Callable[[], DisplayOwner | None]) -> None:
        """`owner` returns the owner of the output, or None once its run is forgotten."""
        others = [other for other in self._owners.get(display_id, ()) if other() not in (None, owner())]
        self._owners[display_id] = [*others, owner][-OWNERS_OF_A_DISPLAY:]
        self._owners.move_to_end(display_id)
        while len(self._owners) > REMEMBERED_DISPLAYS:
            self._owners.popitem(last=False)

    def update(self, content: JsonObject) -> None:
        """Apply an `update_display_data` message to every output that it names."""
        display_id = str(content.get("transient", {}).get("display_id", ""))
        references = self._owners.get(display_id, ())
        owners = {id(owner): owner for reference in references if (owner := reference()) is not None}
        for owner in owners.values():
            owner.update_display(display_id, dict(content.get("data", {})), dict(content.get("metadata", {})))


class OutputSink(Protocol):
    """Receives the messages of one run."""

    def begin(self) -> None: ...

    def write(self, message: Message) -> None: ...

    def end(self, execution_count: int | None) -> None: ...


def deliver(message: Message, displays: Displays, *sinks: OutputSink) -> None:
    """Give one message to all sinks of its run."""
    if message.type == "update_display_data":
        displays.update(message.content)
        return
    for sink in sinks:
        sink.write(message)


class MemoryOutputs:
    """The outputs of one run as values, for results and for kernels without a document."""

    def __init__(self, displays: Displays, allowance: Allowance | None = None) -> None:
        self._log = OutputLog(RESULT_LIMITS, allowance)
        self._displays = displays

    def begin(self) -> None:
        self._log.clear()

    def write(self, message: Message) -> None:
        entry = self._log.write(message)
        if entry is not None:
            self._displays.register(entry.display_id, weakref.ref(self))

    def end(self, execution_count: int | None) -> None:
        """Does nothing: memory is always up to date."""

    def update_display(self, display_id: str, data: JsonObject, metadata: JsonObject) -> None:
        self._log.update_display(display_id, data, metadata)

    @property
    def outputs(self) -> tuple[Output, ...]:
        return self._log.outputs()

    @property
    def omitted(self) -> Omitted:
        return self._log.omitted

    def position(self) -> LogPosition:
        return self._log.position()

    def news(self, position: LogPosition) -> OutputNews:
        return self._log.news(position)

    @property
    def last_line(self) -> str:
        return self._log.last_line

    @property
    def size(self) -> int:
        return self._log.size()

    @property
    def weight(self) -> int:
        """Its bytes in memory."""
        return self._log.weight()


class OutputWriter:
    """Writes one run into a code cell of a shared document as its messages come.

    `cell` looks up the cell's Map each time, because the document may be replaced after a lost connection. It returns None when the
    cell is gone, or when the document is not `reachable`.
    """

    def __init__(
        self,
        cell: Callable[[], Map[Any] | None],
        displays: Displays,
        *,
        limits: OutputLimits = DOCUMENT_LIMITS,
        origin: str = OUTPUT_ORIGIN,
        reachable: Callable[[], bool] = lambda: True,
    ) -> None:
        self._cell = cell
        self._reachable = reachable
        self._displays = displays
        self._origin = origin
        self._log = OutputLog(limits)
        self._written: list[Entry] = []
        self._mark = Mark()
        self._last_length = 0
        self._note = WholeEntry(omission_note())
        self._document: weakref.ref[Doc[Any]] | None = None
        """The document that was written to. A weak reference, because results are kept longer than open notebooks."""
        self._timer: asyncio.TimerHandle | None = None
        self._not_before = 0.0
        self._ended = self._end_written = self._settled = False
        self._count: int | None = None
        self._superseded = self._missing = False

    @property
    def detached(self) -> str:
        """Why the document does not show this run; empty while it does."""
        if self._superseded:
            return "somebody else ran the cell or changed its outputs meanwhile"
        if self._missing:
            return "the cell is not in the document any more" if self._reachable() else "Jupyter cannot be reached"
        return ""

    @property
    def weight(self) -> int:
        """The bytes of the outputs that are kept for writing."""
        return self._log.weight()

    @property
    def omitted(self) -> Omitted:
        """How much of this run's output is missing in the document."""
        return self._log.omitted

    def announce(self) -> None:
        """Show the cell as waiting for its turn, with its old outputs."""
        self._set_state("running")

    def abandon(self) -> None:
        """Show the cell as idle again, because its turn will not come."""
        self._set_state("idle")

    def begin(self) -> None:
        cell = self._cell()
        self._missing = cell is None
        if cell is None:
            return
        self._document = weakref.ref(_document(cell))
        with self._transaction(cell):
            if "outputs" in cell:
                _outputs(cell).clear()
            else:
                cell["outputs"] = Array()
            cell["execution_count"] = None
            cell["execution_state"] = "running"
            # Without it our save drops the notebook's signature, and people's rich outputs come back untrusted.
            if isinstance(cell.get("metadata"), Map):
                cell["metadata"]["trusted"] = True

    def write(self, message: Message) -> None:
        if self._ended and self._log.overflowed:
            return
        entry = self._log.write(message)
        if entry is not None:
            self._displays.register(entry.display_id, weakref.ref(self))
        self._schedule()

    def end(self, execution_count: int | None) -> None:
        """Write the remaining outputs, then the count, and that the cell is idle.

        If the document is not open just now, a later `flush` does it.
        """
        self._ended, self._count = True, execution_count
        if self._log.overflowed:
            self._note = WholeEntry(omission_note(self._log.omitted))
        self.flush()

    def update_display(self, display_id: str, data: JsonObject, metadata: JsonObject) -> None:
        self._log.update_display(display_id, data, metadata)
        self._schedule()

    def settle(self) -> None:
        """Everything written so far is known to have arrived. A document that lacks it was changed by somebody."""
        self._settled = self._end_written

    def flush(self) -> None:
        """Bring the document up to date now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        cell = self._cell()
        self._missing = cell is None
        if cell is None or self._superseded or not self._is_ours(cell):
            return
        transactions, characters = self._mirror(cell)
        pause = max(SHORTEST_PAUSE, transactions / UPDATES_PER_SECOND, characters / CHARACTERS_PER_SECOND)
        self._not_before = _now() + min(pause, LONGEST_PAUSE)
        if self._ended and not self._end_written:
            self._end_written = True
            with self._transaction(cell):
                cell["execution_count"] = self._final_count
                cell["execution_state"] = "idle"

    def _schedule(self) -> None:
        if self._timer is not None or self._superseded:
            return
        delay = self._not_before - _now()
        if delay <= 0:
            # The first output waits a moment, too, for others that can go into the same transaction.
            delay = 0.01
        self._timer = asyncio.get_running_loop().call_later(delay, self.flush)

    def _visible(self) -> list[Entry]:
        note: list[Entry] = [self._note] if self._log.overflowed else []
        return [*self._log.head, *note, *(self._log.tail if self._ended else ())]

    def _is_ours(self, cell: Map[Any]) -> bool:
        """Whether the cell has the outputs that we wrote. A new document gets all of them again; changes of people stay."""
        outputs = _outputs(cell)
        before = self._document() if self._document is not None else None
        self._document = weakref.ref(_document(cell))
        if _document(cell) is not before and not self._settled:
            self._written, self._end_written = [], False
            with self._transaction(cell):
                outputs.clear()
                cell["execution_state"] = "running"
        elif len(outputs) == 0 and self._written:
            self._start_over_after_clear()
        elif not self._matches(cell, outputs):
            self._superseded = True
        return not self._superseded

    def _matches(self, cell: Map[Any], outputs: Array[Any]) -> bool:
        # Late outputs and updates must not touch the outputs of a later run by somebody else.
        if self._end_written and cell["execution_count"] != self._final_count:
            return False
        if len(outputs) != len(self._written):
            return False
        if not self._written or not isinstance(self._written[-1], StreamEntry):
            return True
        text = outputs[len(outputs) - 1].get("text")
        return isinstance(text, Text) and len(text) == self._last_length

    @property
    def _final_count(self) -> float | None:
        return None if self._count is None else float(self._count)

    def _start_over_after_clear(self) -> None:
        """Somebody cleared the outputs: go on with those that were not written yet."""
        unwritten = self._visible()[len(self._written) :]
        newest = self._written[-1]
        added_text = newest.text.change_since(self._mark).added if isinstance(newest, StreamEntry) else ""
        self._log.clear()
        self._written = []
        if added_text and isinstance(newest, StreamEntry):
            stream = StreamEntry(newest.name)
            stream.text.write(added_text)
            self._log.add(stream)
        for entry in unwritten:
            self._log.add(entry)

    def _mirror(self, cell: Map[Any]) -> tuple[int, int]:
        """Bring the cell's outputs up to date. Returns how many transactions and characters it took."""
        entries = self._visible()
        pairs = enumerate(zip(self._written, entries, strict=False))
        same = next(
            (index for index, (written, entry) in pairs if written is not entry), min(len(self._written), len(entries))
        )
        outputs = _outputs(cell)
        transactions = characters = 0
        if same == len(self._written) > 0 and isinstance(newest := self._written[-1], StreamEntry):
            transactions, characters = self._mirror_stream(cell, outputs[len(outputs) - 1]["text"], newest.text)
        if same < len(self._written) or same < len(entries):
            with self._transaction(cell):
                del outputs[same:]
                outputs.extend([_shared(entry.value()) for entry in entries[same:]])
            transactions += 1
            characters += sum(entry.size() for entry in entries[same:])
        self._written = entries
        if entries and isinstance(entries[-1], StreamEntry):
            self._mark = entries[-1].text.mark()
            self._last_length = len(outputs[len(outputs) - 1]["text"])
        return transactions, characters

    def _mirror_stream(self, cell: Map[Any], shared: Text, text: TerminalText) -> tuple[int, int]:
        change = text.change_since(self._mark)
        if change.removed:
            with self._transaction(cell):
                # Offsets of a shared text count UTF-8 bytes.
                del shared[len(shared) - len(change.removed.encode()) : len(shared)]
        if change.added:
            with self._transaction(cell):
                shared.insert(len(shared), change.added)
        return bool(change.removed) + bool(change.added), len(change.added)

    def _set_state(self, state: str) -> None:
        cell = self._cell()
        if cell is not None:
            with self._transaction(cell):
                cell["execution_state"] = state

    def _transaction(self, cell: Map[Any]) -> AbstractContextManager[Transaction]:
        return _document(cell).transaction(origin=self._origin)


def _outputs(cell: Map[Any]) -> Array[Any]:
    return cell["outputs"]


def _document(cell: Map[Any]) -> Doc[Any]:
    return cast("Doc[Any]", cell.doc)  # pyright: ignore[reportUnknownMemberType]


def _now() -> float:
    return asyncio.get_running_loop().time()


def _shared(output: Output) -> Map[Any]:
    raw = output_json(output)
    if raw["output_type"] == "stream":
        raw["text"] = Text(raw["text"])
    return Map(raw)


def output_json(output: Output) -> JsonObject:
    """The output as in notebook files."""
    match output:
        case StreamOutput():
            return {"output_type": "stream", "name": output.name, "text": output.text}
        case ErrorOutput():
            traceback = list(output.traceback)
            return {"output_type": "error", "ename": output.name, "evalue": output.value, "traceback": traceback}
        case DataOutput(is_result=True):
            count = None if output.execution_count is None else float(output.execution_count)
            body = {"data": dict(output.data), "metadata": dict(output.metadata)}
            return {"output_type": "execute_result", "execution_count": count, **body}
        case DataOutput():
            return {"output_type": "display_data", "data": dict(output.data), "metadata": dict(output.metadata)}
        case UnknownOutput():
            return dict(output.raw)
