"""Merges two versions of a notebook that began as one, cell by cell: what a proposal wants, and what people did meanwhile.

Cells are matched by their ids and texts, not by the history of the shared document. That history is a new one after a file was loaded
again, and it knows no moved cells, only deleted and new ones.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pycrdt import Doc, Text

from cellwright.notebook.differences import in_all_longest_ascending, longest_ascending, replaced
from cellwright.notebook.textdiff import changed_text, changes, rebase, set_text

NO_METADATA = "{}"


@dataclass(frozen=True, slots=True)
class PlainCell:
    """What a proposal can change of a cell. It never changes outputs."""

    id: str
    cell_type: str
    source: str
    metadata: str = NO_METADATA
    """As JSON with sorted keys, without what does not last: when the cell ran, and whether its outputs are trusted."""

    @property
    def written(self) -> tuple[str, str]:
        """What people write, as opposed to what programs note beside it."""
        return self.cell_type, self.source


Plain = tuple[PlainCell, ...]
"""The cells of a notebook, in order, each with an id of its own."""


class Met(StrEnum):
    """How a proposal and the work of people concern the same cell."""

    BOTH = "both"
    """Both changed its text, and both changes are kept."""
    KEPT = "kept"
    """The proposal deletes it, but people changed it since, so it stays."""
    GONE = "gone"
    """The proposal changes it, but people deleted it since, so it stays deleted."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged notebook, and the cells that both versions concern, by their ids."""

    cells: Plain
    met: Mapping[str, Met]


def three_way(base: Plain, mine: Plain, theirs: Plain) -> Merged:
    """`theirs`, with everything in it that was changed from `base` to `mine`."""
    base_cells, my_cells = {cell.id: cell for cell in base}, {cell.id: cell for cell in mine}
    met: dict[str, Met] = {}
    merged: dict[str, PlainCell] = {}
    for cell in theirs:
        base_cell, my_cell = base_cells.get(cell.id), my_cells.get(cell.id)
        if base_cell is None:
            merged[cell.id] = cell
        elif my_cell is not None:
            merged[cell.id] = _combined_cell(base_cell, my_cell, cell)
            if my_cell.source != base_cell.source and cell.source not in (base_cell.source, my_cell.source):
                met[cell.id] = Met.BOTH
        elif cell.written != base_cell.written:
            merged[cell.id] = cell
            met[cell.id] = Met.KEPT
    their_ids = {cell.id for cell in theirs}
    for cell in mine:
        if cell.id not in base_cells:
            merged.setdefault(cell.id, cell)
        elif cell.id not in their_ids and cell.written != base_cells[cell.id].written:
            met[cell.id] = Met.GONE
    return Merged(tuple(merged[cell_id] for cell_id in _merged_order(base, mine, theirs, merged)), met)


def _combined_cell(base: PlainCell, mine: PlainCell, theirs: PlainCell) -> PlainCell:
    cell_type = mine.cell_type if mine.cell_type != base.cell_type else theirs.cell_type
    metadata = combined_metadata(base.metadata, mine.metadata, theirs.metadata)
    return PlainCell(base.id, cell_type, combined_text(base.source, mine.source, theirs.source), metadata)


def combined_metadata(base: str, mine: str, theirs: str) -> str:
    """Their metadata, with each entry in it that was changed from `base` to `mine`."""
    if mine in (base, theirs):
        return theirs
    entries: list[dict[str, object]] = [json.loads(text) for text in (base, mine, theirs)]
    base_entries, my_entries, their_entries = entries
    changed = {key for key in base_entries | my_entries if base_entries.get(key) != my_entries.get(key)}
    unchanged = {key: value for key, value in their_entries.items() if key not in changed}
    return metadata_text(unchanged | {key: value for key, value in my_entries.items() if key in changed})


def metadata_text(entries: Mapping[str, object]) -> str:
    """Metadata as JSON that is the same for the same entries."""
    return json.dumps(entries, sort_keys=True, ensure_ascii=False)


def combined_text(base: str, mine: str, theirs: str) -> str:
    """The text with both changes, as two people would get it who type in it at the same time."""
    if mine in (base, theirs):
        return theirs
    if theirs == base:
        return mine
    rebased = rebase(changes(base, mine), changes(base, theirs))
    if rebased is not None:
        return changed_text(theirs, rebased)
    first: Doc[Any] = Doc(client_id=1)
    text: Text = first.get("text", type=Text)
    text.insert(0, base)
    second: Doc[Any] = Doc(client_id=2)
    second.apply_update(first.get_update())
    set_text(text, theirs)
    set_text(second.get("text", type=Text), mine)
    first.apply_update(second.get_update())
    return str(text)


def merged_text(base: str, mine: str, theirs: str) -> str | None:
    """The text with both changes; None if they touch: if both change the same line, or add lines at the same place."""
    if mine in (base, theirs):
        return theirs
    if theirs == base:
        return mine
    base_lines = base.split("\n")
    passages = {
        (passage.start, passage.end, *lines[passage.new_start : passage.new_end])
        for lines in (mine.split("\n"), theirs.split("\n"))
        for passage in replaced(base_lines, lines)
    }
    merged: list[str] = []
    last_start = last_end = 0
    for number, (start, end, *new_lines) in enumerate(sorted(passages, key=lambda passage: passage[:2])):
        adds_at_same_place = number and start == end == last_start == last_end
        if start < last_end or adds_at_same_place:
            return None
        merged += [*base_lines[last_end:start], *new_lines]
        last_start, last_end = start, end
    return "\n".join([*merged, *base_lines[last_end:]])


def _merged_order(base: Plain, mine: Plain, theirs: Plain, merged: Mapping[str, PlainCell]) -> list[str]:
    """Their order, in which each cell that the proposal added or moved comes after the cell that it follows in the proposal."""
    base_ids = [cell.id for cell in base]
    my_ids = [cell.id for cell in mine if cell.id in merged]
    known_ids = set(base_ids)
    unmoved = in_order(base_ids, [cell_id for cell_id in my_ids if cell_id in known_ids])
    added_or_moved = {cell_id for cell_id in my_ids if cell_id not in unmoved}
    their_ids = [cell.id for cell in theirs if cell.id in merged and cell.id not in added_or_moved]
    their_index = {cell_id: index for index, cell_id in enumerate(their_ids)}
    following: dict[int, list[str]] = {}
    index = -1
    for cell_id in my_ids:
        if cell_id in added_or_moved:
            following.setdefault(index, []).append(cell_id)
        else:
            index = their_index[cell_id]
    order = list(following.get(-1, []))
    for index, cell_id in enumerate(their_ids):
        order += [cell_id, *following.get(index, [])]
    return order


def in_order(before: Sequence[str], now: Sequence[str]) -> set[str]:
    """As many ids of `now` as stand in the order that they had `before`. All others are new or were moved."""
    return _ascending(before, now, longest_ascending)


def certainly_in_order(before: Sequence[str], now: Sequence[str]) -> set[str]:
    """The ids of `now` that nobody moved since `before`. Of two neighbours that changed places neither is among them."""
    return _ascending(before, now, in_all_longest_ascending)


def _ascending(
    before: Sequence[str], now: Sequence[str], ascending: Callable[[Sequence[int]], Sequence[int]]
) -> set[str]:
    rank = {cell_id: index for index, cell_id in enumerate(before)}
    common = [cell_id for cell_id in now if cell_id in rank]
    return {common[index] for index in ascending([rank[cell_id] for cell_id in common])}


@dataclass(frozen=True, slots=True)
class CellChange:
    """What happens to one cell, from one version of a notebook to another."""

    before: PlainCell | None
    after: PlainCell | None
    index: int | None
    """Where it is before; None for an added cell."""
    new_index: int | None
    moved: bool

    @property
    def id(self) -> str:
        cell = self.after or self.before
        return cell.id if cell else ""

    @property
    def in_place(self) -> bool:
        """Whether the cell stays where it is, and only its content changes."""
        return self.before is not None and not {"added", "removed", "retyped", "moved"}.intersection(self.kinds)

    @property
    def kinds(self) -> tuple[str, ...]:
        if self.before is None or self.after is None:
            return ("added",) if self.before is None else ("removed",)
        facts = {
            "changed": self.before.source != self.after.source,
            "retyped": self.before.cell_type != self.after.cell_type,
            "moved": self.moved,
            "metadata": self.before.metadata != self.after.metadata,
        }
        return tuple(kind for kind, true in facts.items() if true)


def compare(before: Plain, after: Plain) -> list[CellChange]:
    """Everything that differs: first the removed cells, then the rest in the order of `after`."""
    old_cells = {cell.id: (index, cell) for index, cell in enumerate(before)}
    new_ids = {cell.id for cell in after}
    unmoved = in_order([cell.id for cell in before], [cell.id for cell in after])
    cell_changes = [
        CellChange(cell, None, index, None, moved=False) for index, cell in old_cells.values() if cell.id not in new_ids
    ]
    for new_index, cell in enumerate(after):
        index, old_cell = old_cells.get(cell.id, (None, None))
        change = CellChange(old_cell, cell, index, new_index, moved=cell.id not in unmoved)
        if change.kinds:
            cell_changes.append(change)
    return cell_changes
