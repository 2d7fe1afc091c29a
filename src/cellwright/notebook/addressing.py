"""Naming cells: by index, by range, by id, as [12]; all resolved against one state of the notebook."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from cellwright.core.errors import InvalidArgument, NotFound
from cellwright.core.text.counting import counted

LONGEST_ID = 64
LOOKED_AT = 500
_CALLED = re.compile(r"\[([0-9]{1,9})\]")


@dataclass(frozen=True, slots=True)
class CellRange:
    """Cells `start` up to `end` (exclusive), or the one cell at `start`, or the one with this `id`."""

    start: int | None = None
    end: int | None = None
    id: str | None = None

    def __post_init__(self) -> None:
        if (self.start is None) == (self.id is None) or (self.id is not None and self.end is not None):
            raise InvalidArgument(
                "a range names either a start or an id", hint='{"start": 2}, {"start": 2, "end": 5} or {"id": "…"}'
            )


def at(index: int) -> CellRange:
    return CellRange(start=index)


def by_id(cell_id: str) -> CellRange:
    return CellRange(id=cell_id)


def no_such_cell(ids: Sequence[str], cell_id: str) -> NotFound:
    cell_id = cell_id if len(cell_id) <= LONGEST_ID else f"{cell_id[:LONGEST_ID]}…"
    near = get_close_matches(cell_id, [known[:LONGEST_ID] for known in ids[:LOOKED_AT]], n=3, cutoff=0.5)
    hint = f"Near it: {', '.join(near)}" if near else "read_nb_cells shows the ids"
    if cell_id.isdecimal():
        hint = f"as an index give it as a number, {cell_id[:9]}, without quotes; [{cell_id[:9]}] is the cell with that execution count"
    return NotFound(f"no cell with id {cell_id}; the notebook has {counted(len(ids), 'cell')}", hint=hint)


def execution_count_in(name: str) -> int | None:
    """The 12 of a cell that is called [12], as people see it beside the cell; None for any other name."""
    called = _CALLED.fullmatch(name)
    return int(called[1]) if called else None


def the_one_called(name: str, ids: Sequence[str], indexes: Sequence[int]) -> int:
    """Of the cells that show this execution count, the only one; people may have several after a restart."""
    if not indexes:
        raise NotFound(f"no cell shows {name}", hint="get_nb_stat with outline has each cell with its [count] and id")
    if len(indexes) > 1:
        several = ", ".join(f"{ids[index]} (index {index})" for index in indexes[:6])
        raise InvalidArgument(
            f"{name} is shown by {counted(len(indexes), 'cell')}: {several}", hint="name one of them by its id"
        )
    return indexes[0]


class AddressedCells(Protocol):
    """Cells in order, as far as naming them goes."""

    @property
    def ids(self) -> Sequence[str]: ...

    def named(self, name: str) -> int:
        """The index of the cell with this id, or called [12] by its execution count; else an error that helps."""
        ...


def resolve_each(cells: AddressedCells, ranges: Sequence[CellRange]) -> list[list[int]]:
    """The indexes each range means, in the order given. Nothing may be named twice."""
    resolved = [_resolve(cells, one) for one in ranges]
    seen: set[int] = set()
    for indexes in resolved:
        twice = seen.intersection(indexes)
        if twice:
            raise InvalidArgument(f"the ranges overlap at cell {min(twice)}", hint="Name every cell once")
        seen.update(indexes)
    return resolved


def resolve(cells: AddressedCells, ranges: Sequence[CellRange]) -> list[int]:
    """All indexes the ranges mean, ascending."""
    return sorted(index for indexes in resolve_each(cells, ranges) for index in indexes)


def _resolve(cells: AddressedCells, one: CellRange) -> list[int]:
    if one.id is not None:
        return [cells.named(one.id)]
    assert one.start is not None
    count = len(cells.ids)
    end = one.start + 1 if one.end is None else one.end
    if one.start < 0 or end < one.start or end > count:
        raise _outside(one, count)
    return list(range(one.start, end))


def _outside(one: CellRange, count: int) -> InvalidArgument:
    asked = f"there is no cell {one.start}" if one.end is None else f"start {one.start}, end {one.end} is outside"
    has = {0: "no cells", 1: "1 cell, index 0"}.get(count, f"{counted(count, 'cell')}, index 0 to {count - 1}")
    if one.start is not None and one.end is not None and one.end < one.start:
        asked = f"end {one.end} is before start {one.start}"
    return InvalidArgument(f"{asked}: the notebook has {has}", hint=f"end is exclusive: it is at most {count}")


def runs_of(indexes: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending indexes as the fewest ranges, start and exclusive end, that mean exactly these."""
    runs: list[tuple[int, int]] = []
    for index in indexes:
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return runs


def insert_position(count: int, position: int) -> int:
    """Where new cells go: -1 appends."""
    if position == -1:
        return count
    if not 0 <= position <= count:
        raise InvalidArgument(
            f"cannot insert at {position}: the notebook has {counted(count, 'cell')} (0 to {count}, or -1 to append)",
            hint="get_nb_stat with outline shows where cells are",
        )
    return position
