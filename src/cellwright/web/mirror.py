"""One document that people look at. It is encoded once for all viewers, with what has changed since any earlier revision."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pydantic_core import to_json

from cellwright.core.types import Call
from cellwright.notebook.shelf import HeldNotebook, JsonObject, Sheet, Shelf
from cellwright.web.outputs import page_outputs

MOST_CELLS = 200
MOST_BYTES = 8_000_000
QUIET_SECONDS = 0.1
FRESH_SECONDS = 1.0
"""How long an answer is repeated before the document is read again, if no change was announced."""
NAMELESS = "~"
LONGEST_NUMBER = 15
"""How many digits the number of a revision may have."""

Mask = Callable[[bytes], bytes]
"""Removes our own secrets, in case a cell has printed one."""


@dataclass(slots=True)
class _Answer:
    body: bytes
    number: int
    created: float


@dataclass(eq=False)
class Mirror:
    """`announce` is called for a new revision: at once, then every tenth of a second as long as changes go on."""

    uri: str
    shelf: Shelf
    call: Call
    mask: Mask
    announce: Callable[["Mirror"], None]
    viewers: int = 0
    people: list[JsonObject] = field(default_factory=list[JsonObject])
    notebook: HeldNotebook | None = None

    def __post_init__(self) -> None:
        self._run = secrets.token_hex(3)
        self._number = 1
        self._announced = 1
        self._quiet: asyncio.TimerHandle | None = None
        self._changed_at: dict[str, int] = {}
        self._order: tuple[str, ...] = ()
        self._order_at = 0
        self._encoded: dict[str, bytes] = {}
        self._compared_at = 0
        self._answers: dict[tuple[int, int, int], _Answer] = {}
        self._reading = asyncio.Lock()

    # -- changes -------------------------------------------------------------------------------------------------------------

    @property
    def revision(self) -> str:
        return f"{self._run}.{self._number}"

    def changed(self) -> None:
        """Something has changed. Shelves that know which cells call `touched` for these."""
        self._number += 1
        self._tell()

    def touched(self, name: str) -> None:
        self._changed_at[name] = self._number
        self._encoded.pop(name, None)

    def forget(self) -> None:
        """Everything may have changed, because changes were not heard for a while."""
        self._run = secrets.token_hex(3)
        self._encoded.clear()
        self._answers.clear()
        self.changed()

    def _tell(self) -> None:
        if self._quiet is None and self._number > self._announced:
            self._announced = self._number
            self.announce(self)
            self._quiet = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._wake)

    def _wake(self) -> None:
        self._quiet = None
        self._tell()

    def close(self) -> None:
        if self._quiet is not None:
            self._quiet.cancel()

    # -- answers -------------------------------------------------------------------------------------------------------------

    async def read(self, since: str, start: int, count: int) -> bytes:
        """What changed since that revision, if it is one of ours; else the cells from `start` on."""
        seen_number = number_seen(since, self._run)
        key = (
            min(seen_number, self._number),
            0 if seen_number else start,
            MOST_CELLS if seen_number else min(count, MOST_CELLS),
        )
        # All who ask at the same moment get the same bytes.
        async with self._reading:
            now = asyncio.get_running_loop().time()
            answer = self._answers.get(key)
            if answer is not None and answer.number == self._number and now - answer.created < FRESH_SECONDS:
                return answer.body
            async with self.shelf.open(self.call, self.uri) as sheet:
                number_now = self._number
                body = self._answer(sheet, *key)
            self._answers = {k: a for k, a in self._answers.items() if a.number == number_now}
            self._answers[key] = _Answer(body, number_now, now)
            return body

    def _answer(self, sheet: Sheet, seen_number: int, start: int, count: int) -> bytes:
        """What changed since the revision with the number `seen_number`; if that is 0, or too much changed, the cells from `start` on."""
        names = tuple(sheet.names)
        self._note_changes(sheet, names)
        about = {**sheet.about, "uri": self.uri, "revision": self.revision, "people": self.people, "total": len(names)}
        if seen_number:
            changed = [
                i for i, name in enumerate(names) if self._changed_at.get(name, 0) > seen_number or name[:1] == NAMELESS
            ]
            if len(changed) <= MOST_CELLS and (cells := self._cells(sheet, names, changed)) is not None:
                return _joined({**about, "order": names if self._order_at > seen_number else None}, cells)
            start = 0
        cells = self._cells(sheet, names, range(start, min(start + count, len(names))), cut=True)
        if start == 0:
            about["outline"] = [{"id": name, **sheet.entry(index)} for index, name in enumerate(names)]
        return _joined(about, cells or [])

    def _note_changes(self, sheet: Sheet, names: tuple[str, ...]) -> None:
        """Note in which revision the order and, where the shelf does not announce single cells, each cell changed."""
        if names != self._order:
            for name in set(self._order).difference(names):
                self._encoded.pop(name, None)
                self._changed_at.pop(name, None)
            self._order, self._order_at = names, self._number
        if not self.shelf.exact and self._compared_at < self._number:
            self._compared_at = self._number
            for index, name in enumerate(names):
                body = self._encode(sheet, index, name)
                if self._encoded.get(name) != body:
                    self._encoded[name] = body
                    self._changed_at[name] = self._number

    def _cells(
        self, sheet: Sheet, names: Sequence[str], indexes: Sequence[int], *, cut: bool = False
    ) -> list[bytes] | None:
        """The cells at these indexes, encoded. If they are too many for an answer, the first of them with `cut`, else None."""
        encoded_cells: list[bytes] = []
        size = 0
        for index in indexes:
            name = names[index]
            body = self._encoded.get(name)
            if body is None or name[:1] == NAMELESS:
                body = self._encoded[name] = self._encode(sheet, index, name)
            size += len(body)
            if size > MOST_BYTES and encoded_cells:
                return encoded_cells if cut else None
            encoded_cells.append(b'{"index":%d,%s' % (index, body[1:]))
        return encoded_cells

    def _encode(self, sheet: Sheet, index: int, name: str) -> bytes:
        cell = sheet.cell(index)
        return self.mask(to_json({**cell, "id": name, "outputs": page_outputs(cell["outputs"], self.uri, name)}))


def number_seen(revision: str, run: str) -> int:
    """The number of a revision of this run; 0 if it is none."""
    its_run, _, number = revision.rpartition(".")
    is_ours = its_run == run and number.isascii() and number.isdigit() and len(number) <= LONGEST_NUMBER
    return int(number) if is_ours else 0


def _joined(about: JsonObject, cells: Sequence[bytes]) -> bytes:
    return b'%s,"cells":[%s]}' % (to_json(about)[:-1], b",".join(cells))
