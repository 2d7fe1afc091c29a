"""Two versions of a notebook that began as one, put together cell by cell: what a proposal wants, and what people did meanwhile.

By cell ids and texts, not by the history of the shared document: that one is another after a file was loaded anew, and it knows no
moved cells, only deleted and new ones.
"""

import json
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pycrdt import Doc, Text

from cellwright.notebook.textdiff import changed_text, changes, rebase, set_text

NO_METADATA = "{}"


@dataclass(frozen=True, slots=True)
class PlainCell:
    """What a proposal can change of a cell. Outputs are never its business."""

    id: str
    cell_type: str
    source: str
    metadata: str = NO_METADATA
    """As JSON with sorted keys, without what passes: when the cell ran, and whether its outputs are trusted."""

    @property
    def written(self) -> tuple[str, str]:
        """What people write, as opposed to what programs note beside it."""
        return self.cell_type, self.source


Plain = tuple[PlainCell, ...]
"""The cells of a notebook, in order, each with an id of its own."""


class Met(StrEnum):
    """How a proposal and other people's work met in one cell."""

    BOTH = "both"
    """Both changed its text: both changes are kept."""
    KEPT = "kept"
    """The proposal deletes it, people changed it since: it stays."""
    GONE = "gone"
    """The proposal changes it, people deleted it since: it stays deleted."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The notebook that comes out, and the cells in which the two met."""

    cells: Plain
    met: Mapping[str, Met]


def three_way(base: Plain, mine: Plain, theirs: Plain) -> Merged:
    """`theirs`, with everything in it that was changed from `base` to `mine`."""
    was, proposed = {cell.id: cell for cell in base}, {cell.id: cell for cell in mine}
    met: dict[str, Met] = {}
    kept: dict[str, PlainCell] = {}
    for cell in theirs:
        before, wanted = was.get(cell.id), proposed.get(cell.id)
        if before is None:
            kept[cell.id] = cell
        elif wanted is not None:
            kept[cell.id] = _combined(before, wanted, cell)
            if wanted.source != before.source and cell.source not in (before.source, wanted.source):
                met[cell.id] = Met.BOTH
        elif cell.written != before.written:
            kept[cell.id] = cell
            met[cell.id] = Met.KEPT
    present = {cell.id for cell in theirs}
    for cell in mine:
        if cell.id not in was:
            kept.setdefault(cell.id, cell)
        elif cell.id not in present and cell.written != was[cell.id].written:
            met[cell.id] = Met.GONE
    return Merged(tuple(kept[cell_id] for cell_id in _order(base, mine, theirs, kept)), met)


def _combined(base: PlainCell, mine: PlainCell, theirs: PlainCell) -> PlainCell:
    cell_type = mine.cell_type if mine.cell_type != base.cell_type else theirs.cell_type
    metadata = combined_metadata(base.metadata, mine.metadata, theirs.metadata)
    return PlainCell(base.id, cell_type, combined_text(base.source, mine.source, theirs.source), metadata)


def combined_metadata(base: str, mine: str, theirs: str) -> str:
    """Their metadata, with each entry in it that was changed from `base` to `mine`."""
    if mine in (base, theirs):
        return theirs
    entries: list[dict[str, object]] = [json.loads(text) for text in (base, mine, theirs)]
    before, wanted, now = entries
    changed = {key for key in before | wanted if before.get(key) != wanted.get(key)}
    return metadata_text({key: value for key, value in now.items() if key not in changed} | _picked(wanted, changed))


def _picked(entries: Mapping[str, object], keys: Collection[str]) -> dict[str, object]:
    return {key: value for key, value in entries.items() if key in keys}


def metadata_text(entries: Mapping[str, object]) -> str:
    """Metadata as a text that is the same for the same entries."""
    return json.dumps(entries, sort_keys=True, ensure_ascii=False)


def combined_text(base: str, mine: str, theirs: str) -> str:
    """Both changes of one text, as two people who type in it at the same time would get it."""
    if mine in (base, theirs):
        return theirs
    if theirs == base:
        return mine
    apart = rebase(changes(base, mine), changes(base, theirs))
    if apart is not None:
        return changed_text(theirs, apart)
    first: Doc[Any] = Doc(client_id=1)
    text: Text = first.get("text", type=Text)
    text.insert(0, base)
    second: Doc[Any] = Doc(client_id=2)
    second.apply_update(first.get_update())
    set_text(text, theirs)
    set_text(second.get("text", type=Text), mine)
    first.apply_update(second.get_update())
    return str(text)


def _order(base: Plain, mine: Plain, theirs: Plain, kept: Mapping[str, PlainCell]) -> list[str]:
    """Their order, with each cell that the proposal made or moved after the cell it follows there."""
    was = {cell.id for cell in base}
    wanted = [cell.id for cell in mine if cell.id in kept]
    placed = in_order([cell.id for cell in base], [cell_id for cell_id in wanted if cell_id in was])
    own = {cell_id for cell_id in wanted if cell_id not in placed}
    order = [cell.id for cell in theirs if cell.id in kept and cell.id not in own]
    at = {cell_id: index for index, cell_id in enumerate(order)}
    after: dict[int, list[str]] = {}
    place = -1
    for cell_id in wanted:
        if cell_id in own:
            after.setdefault(place, []).append(cell_id)
        else:
            place = at[cell_id]
    made = list(after.get(-1, []))
    for index, cell_id in enumerate(order):
        made += [cell_id, *after.get(index, [])]
    return made


def in_order(before: Sequence[str], now: Sequence[str]) -> set[str]:
    """The most of the ids of `now` that stand in the order they had `before`: all others came or were moved."""
    rank = {cell_id: index for index, cell_id in enumerate(before)}
    common = [cell_id for cell_id in now if cell_id in rank]
    ends: list[int] = []
    last: list[int] = []
    previous: list[int | None] = []
    for index, cell_id in enumerate(common):
        length = bisect_left(ends, rank[cell_id])
        previous.append(last[length - 1] if length else None)
        ends[length : length + 1] = [rank[cell_id]]
        last[length : length + 1] = [index]
    found: set[str] = set()
    step = last[-1] if last else None
    while step is not None:
        found.add(common[step])
        step = previous[step]
    return found


@dataclass(frozen=True, slots=True)
class CellChange:
    """What happens to one cell, from one version of a notebook to another."""

    before: PlainCell | None
    after: PlainCell | None
    index: int | None
    """Where it is before; None for a cell that comes."""
    new_index: int | None
    moved: bool

    @property
    def id(self) -> str:
        cell = self.after or self.before
        return cell.id if cell else ""

    @property
    def in_place(self) -> bool:
        """Whether the cell stays the one it is, and only what is in it changes."""
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
    """Everything that differs: first what goes, then the rest in the order of `after`."""
    old = {cell.id: (index, cell) for index, cell in enumerate(before)}
    new = {cell.id for cell in after}
    stable = in_order([cell.id for cell in before], [cell.id for cell in after])
    made = [CellChange(cell, None, index, None, moved=False) for index, cell in old.values() if cell.id not in new]
    for new_index, cell in enumerate(after):
        index, was = old.get(cell.id, (None, None))
        change = CellChange(was, cell, index, new_index, moved=cell.id not in stable)
        if change.kinds:
            made.append(change)
    return made
