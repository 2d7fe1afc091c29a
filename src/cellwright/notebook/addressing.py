"""How cells are named: by index, by range, by id, or as [12]. All names are resolved against one state of the notebook."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from cellwright.core.errors import InvalidArgument, NotFound
from cellwright.core.text.counting import counted

LONGEST_ID = 64
MOST_IDS_COMPARED = 500
_BRACKETED_COUNT = re.compile(r"\[([0-9]{1,9})\]")


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
    near = get_close_matches(
        cell_id, [existing_id[:LONGEST_ID] for existing_id in ids[:MOST_IDS_COMPARED]], n=3, cutoff=0.5
    )
    hint = f"Near it: {', '.join(near)}" if near else "read_nb_cells shows the ids"
    if cell_id.isdecimal():
        hint = f"as an index give it as a number, {cell_id[:9]}, without quotes; [{cell_id[:9]}] is the cell with that execution count"
    return NotFound(f"no cell with id {cell_id}; the notebook has {counted(len(ids), 'cell')}", hint=hint)


def execution_count_in(name: str) -> int | None:
    """The 12 of a cell that is named [12], as people see it beside the cell. None for any other name."""
    match = _BRACKETED_COUNT.fullmatch(name)
    return int(match[1]) if match else None


def only_cell_showing(name: str, ids: Sequence[str], indexes: Sequence[int]) -> int:
    """The index of the only cell that shows this execution count. After a restart there may be several, which is an error."""
    if not indexes:
        raise NotFound(f"no cell shows {name}", hint="get_nb_stat with outline has each cell with its [count] and id")
    if len(indexes) > 1:
        several = ", ".join(f"{ids[index]} (index {index})" for index in indexes[:6])
        raise InvalidArgument(
            f"{name} is shown by {counted(len(indexes), 'cell')}: {several}", hint="name one of them by its id"
        )
    return indexes[0]


class AddressedCells(Protocol):
    """Cells in order, with what is needed to name them."""

    @property
    def ids(self) -> Sequence[str]: ...

    def named(self, name: str) -> int:
        """The index of the cell with this id, or named [12] by its execution count. Raises an error with a hint if there is none."""
        ...


def resolve_each(cells: AddressedCells, ranges: Sequence[CellRange]) -> list[list[int]]:
    """The indexes that each range means, in the order of the ranges. No cell may be named twice."""
    resolved = [_indexes_of(cells, cell_range) for cell_range in ranges]
    earlier_indexes: set[int] = set()
    for indexes in resolved:
        overlap = earlier_indexes.intersection(indexes)
        if overlap:
            raise InvalidArgument(f"the ranges overlap at cell {min(overlap)}", hint="Name every cell once")
        earlier_indexes.update(indexes)
    return resolved


def resolve(cells: AddressedCells, ranges: Sequence[CellRange]) -> list[int]:
    """All indexes that the ranges mean, ascending."""
    return sorted(index for indexes in resolve_each(cells, ranges) for index in indexes)


def _indexes_of(cells: AddressedCells, cell_range: CellRange) -> list[int]:
    if cell_range.id is not None:
        return [cells.named(cell_range.id)]
    assert cell_range.start is not None
    count = len(cells.ids)
    end = cell_range.start + 1 if cell_range.end is None else cell_range.end
    if cell_range.start < 0 or end < cell_range.start or end > count:
        raise _outside_notebook(cell_range.start, cell_range.end, count)
    return list(range(cell_range.start, end))


def _outside_notebook(start: int, end: int | None, count: int) -> InvalidArgument:
    if end is None:
        problem = f"there is no cell {start}"
    elif end < start:
        problem = f"end {end} is before start {start}"
    else:
        problem = f"start {start}, end {end} is outside"
    extent = {0: "no cells", 1: "1 cell, index 0"}.get(count, f"{counted(count, 'cell')}, index 0 to {count - 1}")
    return InvalidArgument(f"{problem}: the notebook has {extent}", hint=f"end is exclusive: it is at most {count}")


def runs_of(indexes: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending indexes as the fewest ranges that cover exactly these. Each range is its start and its exclusive end."""
    runs: list[tuple[int, int]] = []
    for index in indexes:
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return runs


def insert_position(count: int, position: int) -> int:
    """The index where new cells go; -1 appends."""
    if position == -1:
        return count
    if not 0 <= position <= count:
        raise InvalidArgument(
            f"cannot insert at {position}: the notebook has {counted(count, 'cell')} (0 to {count}, or -1 to append)",
            hint="get_nb_stat with outline shows where cells are",
        )
    return position
