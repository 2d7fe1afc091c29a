"""Which cells a call means: those that its caller was shown, wherever they are by now."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cellwright.core.errors import Conflict, InvalidArgument, NotFound
from cellwright.core.types import Call
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.notebooks.sights import Sight, Sights
from cellwright.notebook.addressing import CellRange, at, insert_position, resolve_each
from cellwright.notebook.merging import in_order

ANY = "any"
"""As `expect`: whatever is there, change it."""
Expected = dict[str, str] | Literal["any"] | None
"""The revisions that cells must have, by cell id."""
LINES_AROUND = 3
MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class MeantCell:
    """A cell that a caller means."""

    index: int
    """Where it is now."""
    revision: str | None
    """The revision that the caller was shown; None if the cell was not there then."""


class CallersSight:
    """What the caller of one call was shown of a notebook. Made when the call begins: a parallel call may show them more meanwhile."""

    def __init__(self, sights: Sights, call: Call, path: NotebookPath, view: str | None) -> None:
        self._sights = sights
        self._call = call
        self.path = path
        self._sight = sights.seen(call, path.text, view)

    def show(self, notebook: LiveNotebook | Sight) -> str:
        """Remember that the caller is shown the notebook as it is now. Returns the name of that view."""
        sight = notebook if isinstance(notebook, Sight) else notebook.sight()
        return self._sights.remember(self._call, self.path.text, sight)

    def each(self, notebook: LiveNotebook, ranges: Sequence[CellRange]) -> list[list[MeantCell]]:
        """The cells that each range means, in the order of the ranges. Raises NotFound if one is gone."""
        sight = self._sight
        if sight is None:
            return [[MeantCell(index, None) for index in indexes] for indexes in notebook.resolve_each(ranges)]
        if sight is notebook.sight():
            return [
                [MeantCell(index, sight.revisions[index]) for index in indexes]
                for indexes in notebook.resolve_each(ranges)
            ]
        resolved = resolve_each(_ShownCells(sight, notebook), ranges)
        return [[self._now(notebook, sight, position) for position in positions] for positions in resolved]

    def cells(self, notebook: LiveNotebook, ranges: Sequence[CellRange]) -> list[MeantCell]:
        """All cells that the ranges mean, in the order in which they are now."""
        each = self.each(notebook, ranges)
        return sorted((cell for cells in each for cell in cells), key=lambda cell: cell.index)

    def indexes_to_read(self, notebook: LiveNotebook, ranges: Sequence[CellRange]) -> list[int]:
        """The cells that ranges mean. Of cells that came after the last that was shown, indexes mean the notebook as it is."""
        try:
            return [cell.index for cell in self.cells(notebook, ranges)]
        except InvalidArgument:
            return notebook.resolve(ranges)

    def position(self, notebook: LiveNotebook, position: int) -> int:
        """Where cells go that are to be inserted at `position` of what was shown: after the cell that they were to follow."""
        sight = self._sight
        if sight is None or position == -1 or sight is notebook.sight():
            return insert_position(notebook.cell_count, position)
        place = insert_position(len(sight.ids), position)
        for before in range(place - 1, -1, -1):
            index = _index_now(notebook, sight, before)
            if index is not None:
                return index + 1
        return 0

    def check_unchanged(self, notebook: LiveNotebook, cells: Sequence[MeantCell], expect: Expected) -> None:
        """Raise Conflict if somebody changed one of these cells after it was shown. What `expect` names is checked against that."""
        if expect == ANY:
            return
        for cell in cells:
            named = notebook.id_at(cell.index) in (expect or {})
            if cell.revision is not None and not named:
                notebook.check_revision(cell.index, cell.revision)

    def check_nothing_changed(self, notebook: LiveNotebook, expect: str | None) -> None:
        """Raise Conflict if anything that is written in the notebook changed after it was shown: before all of it is replaced."""
        sight, now = self._sight, notebook.sight()
        if expect == ANY or sight is None or (sight.ids == now.ids and sight.revisions == now.revisions):
            return
        places = [index for index, cell_id in enumerate(now.ids) if self._is_news(cell_id, now.revisions[index])]
        raise Conflict(
            f"{self.path} has changed since you saw it; nothing was overwritten",
            hint=f'Read what is new, and write it with the rest; expect: "{ANY}" overwrites it',
            details={"outline": notebook.outline_lines(places[:MOST_NAMED]), "view": self.show(notebook)},
        )

    def _is_news(self, cell_id: str, revision: str) -> bool:
        position = None if self._sight is None else self._sight.positions.get(cell_id)
        return self._sight is None or position is None or self._sight.revisions[position] != revision

    def check_unmoved(self, notebook: LiveNotebook, cells: Sequence[MeantCell], expect: Expected) -> None:
        """Raise Conflict if somebody moved one of these cells after it was shown."""
        sight = self._sight
        if expect == ANY or sight is None or sight.ids == notebook.sight().ids:
            return
        unmoved = in_order(sight.ids, notebook.ids)
        for cell in cells:
            cell_id = notebook.id_at(cell.index)
            if cell_id in sight.positions and cell_id not in unmoved:
                raise Conflict(
                    f"somebody moved cell {cell_id} to index {cell.index} after you saw it; nothing was moved",
                    hint='Look where it is; expect: "any" moves it all the same',
                    details={"outline": _around(notebook, cell.index), "view": self.show(notebook)},
                )

    def _now(self, notebook: LiveNotebook, sight: Sight, position: int) -> MeantCell:
        if position >= len(sight.ids):
            return MeantCell(position - len(sight.ids), None)
        index = _index_now(notebook, sight, position)
        if index is None:
            raise self._gone(notebook, sight, position)
        return MeantCell(index, sight.revisions[position])

    def _gone(self, notebook: LiveNotebook, sight: Sight, position: int) -> NotFound:
        neighbours = (_index_now(notebook, sight, before) for before in range(position - 1, -1, -1))
        near = next((index for index in neighbours if index is not None), 0)
        return NotFound(
            f"cell {sight.ids[position] or '(without an id)'}, shown to you at index {position}, is no longer in "
            f"{self.path}; nothing was changed",
            hint="The outline shows what is there now; indexes count in it from now on",
            details={"outline": _around(notebook, near), "view": self.show(notebook)},
        )


class _ShownCells:
    """The cells of a sight, by which ranges are resolved. Cells that came later are named by numbers after the last."""

    def __init__(self, sight: Sight, notebook: LiveNotebook) -> None:
        self._sight = sight
        self._notebook = notebook

    @property
    def ids(self) -> Sequence[str]:
        return self._sight.ids

    def named(self, name: str) -> int:
        position = self._sight.position_of(name)
        if position is not None:
            return position
        return len(self._sight.ids) + self._notebook.resolve([CellRange(id=name)])[0]


def _index_now(notebook: LiveNotebook, sight: Sight, position: int) -> int | None:
    """Where the cell is that was at this position; None if it is gone, or cannot be told from others."""
    cell_id = sight.ids[position]
    if cell_id in sight.positions and notebook.has(cell_id):
        return notebook.index_of(cell_id)
    now = notebook.sight()
    # Files of older formats keep no ids, so the same cells have others after the file was opened again.
    same = sight.ids == now.ids or (not notebook.ids_are_stable and sight.revisions == now.revisions)
    return position if same else None


def _around(notebook: LiveNotebook, index: int) -> list[str]:
    """The outline around a cell."""
    return notebook.outline_lines(
        range(max(0, index - LINES_AROUND), min(notebook.cell_count, index + LINES_AROUND + 1))
    )


def each_at(cells: Sequence[MeantCell]) -> list[CellRange]:
    """These cells as ranges of the notebook as it is now."""
    return [at(cell.index) for cell in cells]


def exactly(expect: Expected) -> dict[str, str] | None:
    """The revisions that cells must have, whatever was shown."""
    return None if expect == ANY else expect
