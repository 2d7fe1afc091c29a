"""One document that people look at, encoded once for all of them, with what has changed since any earlier revision."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pydantic_core import to_json

from cellwright.core.types import Call
from cellwright.notebook.shelf import HeldNotebook, JsonObject, Sheet, Shelf
from cellwright.web.outputs import shown

MOST_CELLS = 200
MOST_BYTES = 8_000_000
QUIET_SECONDS = 0.1
FRESH_SECONDS = 1.0
"""How long an answer is given again before the document is looked at anew, if no change was heard of."""
NAMELESS = "~"
LONGEST_NUMBER = 15
"""Digits of the number of a revision that is taken for one."""

Mask = Callable[[bytes], bytes]
"""Takes our own secrets out, should a cell have printed one."""


@dataclass(slots=True)
class _Answer:
    body: bytes
    number: int
    made: float


@dataclass(eq=False)
class Mirror:
    """`announce` is told of a new revision: at once, then every tenth of a second for as long as changes go on."""

    uri: str
    shelf: Shelf
    call: Call
    mask: Mask
    announce: Callable[["Mirror"], None]
    viewers: int = 0
    people: list[JsonObject] = field(default_factory=list[JsonObject])
    held: HeldNotebook | None = None

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
        """Something has changed; `touched` says which cells, for shelves that know."""
        self._number += 1
        self._tell()

    def touched(self, name: str) -> None:
        self._changed_at[name] = self._number
        self._encoded.pop(name, None)

    def forget(self) -> None:
        """Everything may have changed: it was not heard of for a while."""
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
        """What changed since that revision, if that is known; else the cells from `start` on."""
        run, _, number = since.rpartition(".")
        known = run == self._run and number.isascii() and number.isdigit() and len(number) <= LONGEST_NUMBER
        seen = int(number) if known else 0
        key = (min(seen, self._number), 0 if seen else start, MOST_CELLS if seen else min(count, MOST_CELLS))
        # All who ask at the same moment are given the same bytes.
        async with self._reading:
            now = asyncio.get_running_loop().time()
            given = self._answers.get(key)
            if given is not None and given.number == self._number and now - given.made < FRESH_SECONDS:
                return given.body
            async with self.shelf.open(self.call, self.uri) as sheet:
                number_now = self._number
                body = self._answer(sheet, *key)
            self._answers = {k: a for k, a in self._answers.items() if a.number == number_now}
            self._answers[key] = _Answer(body, number_now, now)
            return body

    def _answer(self, sheet: Sheet, seen: int, start: int, count: int) -> bytes:
        names = tuple(sheet.names)
        self._follow(sheet, names)
        about = {**sheet.about, "uri": self.uri, "revision": self.revision, "people": self.people, "total": len(names)}
        if seen:
            changed = [
                i for i, name in enumerate(names) if self._changed_at.get(name, 0) > seen or name[:1] == NAMELESS
            ]
            if len(changed) <= MOST_CELLS and (cells := self._cells(sheet, names, changed)) is not None:
                return _joined({**about, "order": names if self._order_at > seen else None}, cells)
            start = 0
        cells = self._cells(sheet, names, range(start, min(start + count, len(names))), cut=True)
        if start == 0:
            about["outline"] = [{"id": name, **sheet.entry(index)} for index, name in enumerate(names)]
        return _joined(about, cells or [])

    def _follow(self, sheet: Sheet, names: tuple[str, ...]) -> None:
        if names != self._order:
            gone = set(self._order).difference(names)
            for name in gone:
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
        """The cells at these places, encoded; only as many as an answer holds with `cut`, else None if they are too many."""
        made: list[bytes] = []
        size = 0
        for index in indexes:
            name = names[index]
            body = self._encoded.get(name)
            if body is None or name[:1] == NAMELESS:
                body = self._encoded[name] = self._encode(sheet, index, name)
            size += len(body)
            if size > MOST_BYTES and made:
                return made if cut else None
            made.append(b'{"index":%d,%s' % (index, body[1:]))
        return made

    def _encode(self, sheet: Sheet, index: int, name: str) -> bytes:
        cell = sheet.cell(index)
        return self.mask(to_json({**cell, "id": name, "outputs": shown(cell["outputs"], self.uri, name)}))


def _joined(about: JsonObject, cells: Sequence[bytes]) -> bytes:
    return b'%s,"cells":[%s]}' % (to_json(about)[:-1], b",".join(cells))
