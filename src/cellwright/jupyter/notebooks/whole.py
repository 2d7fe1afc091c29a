"""Reads a whole shared notebook in slices of a few milliseconds: thousands of cells take seconds, and others must not wait so long.

The result is still of one moment: if cells change meanwhile, the reading begins anew.
"""

import asyncio
import time
from typing import cast

from pycrdt import Array, Map

from cellwright.core.errors import Conflict
from cellwright.jupyter.model import JsonObject, LiveCell
from cellwright.jupyter.notebooks.cellindex import CellsChanged
from cellwright.jupyter.notebooks.cells import (
    LARGE_PARTS,
    MAX_DEPTH,
    UnreadableCell,
    YCell,
    as_cell,
    cell_from,
    to_plain,
)
from cellwright.jupyter.notebooks.reading import ReadableNotebook

SLICE_SECONDS = 0.01
STEPS = 16
"""Values that are read between two looks at the clock."""
TRIES = 5
MANY_CELLS = 300
"""Fewer unread cells than this are read when they are needed."""


class _Changed(Exception):
    """A cell changed while the notebook was being read."""


class Pace:
    """Lets others work every few milliseconds."""

    def __init__(self, cell_id: str | None = None) -> None:
        """`cell_id`: the one cell that is read; None if all are."""
        self._cell_id = cell_id
        self._steps = 0
        self._since = time.monotonic()
        self._changed = False

    def note(self, change: CellsChanged) -> None:
        self._changed = self._changed or change.order or self._cell_id is None or self._cell_id in change.cells

    async def step(self) -> None:
        self._steps += 1
        if self._steps % STEPS or time.monotonic() - self._since < SLICE_SECONDS:
            return
        await asyncio.sleep(0)
        self._since = time.monotonic()
        if self._changed:
            raise _Changed


async def whole_json(view: ReadableNotebook) -> JsonObject:
    """The whole notebook as its file would be. Conflict if it never stays the same for as long as that takes."""
    for _ in range(TRIES):
        pace = Pace()
        stop = view.on_change(pace.note)
        try:
            cells = [await _cell_json(view, index, pace) for index in range(view.cell_count)]
        except _Changed:
            continue
        finally:
            stop()
        return view.file_of(cells)
    raise Conflict(
        f"{view.name} changed all the time while it was read as a whole",
        hint="make the same call again, or read some of its cells",
    )


async def read_heads(view: ReadableNotebook) -> None:
    """If many cells are unread, read their heads now in slices, so that later calls find them in memory."""
    if view.unread_count < MANY_CELLS:
        return
    pace = Pace()
    index = 0
    # Their number may change meanwhile. A cell that changes is unread again, and is read when it is needed.
    while index < view.cell_count:
        view.load_head(index)
        await pace.step()
        index += 1


async def read_cell(view: ReadableNotebook, index: int) -> LiveCell:
    """One cell with its outputs: a single one may hold a million numbers."""
    shared, head = view.shared_entry(index), view.head(index)
    if isinstance(head, UnreadableCell) or view.cached_cell(index) is not None:
        return view.cell_at(index)
    pace = Pace(head.id)
    stop = view.on_change(pace.note)
    try:
        parts = {key: await _plain(cast("YCell", shared).get(key), pace, 0) for key in LARGE_PARTS}
    except _Changed:
        # Somebody is editing it. Its present state is read at once.
        return view.cell_at(min(index, view.cell_count - 1))
    finally:
        stop()
    return view.cache(cell_from(parts, index, head))


async def _cell_json(view: ReadableNotebook, index: int, pace: Pace) -> JsonObject:
    shared = view.shared_entry(index)
    return as_cell(shared, await _plain(shared, pace, 0))


async def _plain(value: object, pace: Pace, depth: int) -> object:
    """As `to_plain`, but in slices."""
    await pace.step()
    if depth < MAX_DEPTH and isinstance(value, dict | Map):
        # All entries are looked up first: a Map must not change while it is iterated.
        items = list(cast("JsonObject", value).items())
        return {key: await _plain(item, pace, depth + 1) for key, item in items}
    if depth < MAX_DEPTH and isinstance(value, list | Array):
        return [await _plain(item, pace, depth + 1) for item in list(cast("list[object]", value))]
    return to_plain(value, depth)
