"""Naming cells: by index, by range, by id; all resolved against one state of the notebook."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from cellwright.core.errors import InvalidArgument, NotFound


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
    near = get_close_matches(cell_id, ids[:2000], n=3, cutoff=0.5)
    hint = f"Near it: {', '.join(near)}" if near else "read_nb_cells shows the ids"
    return NotFound(f"no cell with id {cell_id}; the notebook has {len(ids)} cells", hint=hint)


class Cells(Protocol):
    """Cells in order, as far as naming them goes."""

    @property
    def ids(self) -> Sequence[str]: ...

    def find(self, cell_id: str) -> int:
        """The index of the cell with this id, or an error that helps."""
        ...


def resolve_each(cells: Cells, ranges: Sequence[CellRange]) -> list[list[int]]:
    """The indexes each range means, in the order given. Nothing may be named twice."""
    resolved = [_resolve(cells, one) for one in ranges]
    seen: set[int] = set()
    for indexes in resolved:
        twice = seen.intersection(indexes)
        if twice:
            raise InvalidArgument(f"the ranges overlap at cell {min(twice)}", hint="Name every cell once")
        seen.update(indexes)
    return resolved


def resolve(cells: Cells, ranges: Sequence[CellRange]) -> list[int]:
    """All indexes the ranges mean, ascending."""
    return sorted(index for indexes in resolve_each(cells, ranges) for index in indexes)


def _resolve(cells: Cells, one: CellRange) -> list[int]:
    if one.id is not None:
        return [cells.find(one.id)]
    assert one.start is not None
    count = len(cells.ids)
    end = one.start + 1 if one.end is None else one.end
    if one.start < 0 or end < one.start or end > count:
        shown = f"cell {one.start}" if one.end is None else f"cells {one.start} to {one.end}"
        last = f"0 to {count - 1}" if count else "none yet"
        raise InvalidArgument(f"there is no {shown}: the notebook has {count} cells ({last})")
    return list(range(one.start, end))


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
            f"cannot insert at {position}: the notebook has {count} cells (0 to {count}, or -1 to append)"
        )
    return position
