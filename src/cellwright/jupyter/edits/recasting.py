"""Turning a shared notebook into another version of itself, with as few changes as possible, so that it can be undone."""

import json
from collections.abc import Sequence

from cellwright.core.errors import InvalidArgument, LimitReached
from cellwright.core.text.counting import counted
from cellwright.jupyter.edits.history import (
    CellPlace,
    Inserted,
    Moved,
    Remarked,
    Removed,
    Retyped,
    Rewritten,
    Step,
    landing,
    rest_of,
)
from cellwright.jupyter.model import JsonObject, NewCell
from cellwright.jupyter.notebooks.cellmetadata import PASSING, metadata_of, put_entries, with_entries
from cellwright.jupyter.notebooks.cells import new_cell_json, to_json
from cellwright.jupyter.notebooks.guards import check_idle
from cellwright.jupyter.notebooks.notebook import LiveNotebook, retyped
from cellwright.notebook.merging import NO_METADATA, CellChange, Plain, PlainCell, compare, metadata_text
from cellwright.notebook.model import Kind
from cellwright.notebook.textdiff import set_text

MOST_CELLS = 1_000


def plain(view: LiveNotebook) -> Plain:
    """The cells in the form in which proposals are compared. All are compared at once, so there may not be too many."""
    if view.cell_count > MOST_CELLS:
        raise LimitReached(
            f"{view.name} has {counted(view.cell_count, 'cell')}; changes are proposed for notebooks of at most {MOST_CELLS:,}; "
            "nothing was done",
            hint="Edit the notebook itself, without propose; undo_nb_edit takes that back",
        )
    if not view.have_own_ids(range(view.cell_count)):
        raise InvalidArgument(
            f"cells of {view.name} have no id or share one, so a proposal cannot tell them apart; nothing was done",
            hint="Edit the notebook itself, without propose; running such a cell gives it an id of its own",
        )
    return tuple(
        PlainCell(head.id, head.cell_type, head.source, _lasting_metadata(view, index))
        for index, head in enumerate(view.outline())
    )


def _lasting_metadata(view: LiveNotebook, index: int) -> str:
    metadata = metadata_of(view.shared_at(index))
    return metadata_text({key: value for key, value in metadata.items() if key not in PASSING})


def check_recastable(view: LiveNotebook, changes: Sequence[CellChange]) -> None:
    """Raise if one of these changes would remove a cell that runs, or change a source that is not text."""
    for change in changes:
        if change.index is None:
            continue
        if not change.in_place:
            check_idle([(change.index, view.head(change.index))])
        if "changed" in change.kinds:
            view.text_of(change.index)


def recast(view: LiveNotebook, target: Plain, *, author: str, what: str) -> list[CellChange]:
    """Make the notebook have these cells, each with its outputs and metadata in this notebook. Returns the changes, which can be undone."""
    changes = compare(plain(view), target)
    if not changes:
        return changes
    step_groups = _steps(view, changes, [cell.id for cell in target])
    with view.doc.transaction(origin=author):
        for change in changes:
            if change.after is not None and change.index is not None and change.before != change.after:
                set_text(view.text_of(change.index), change.after.source)
                put_entries(view.shared_at(change.index), _entries(change))
        placed = {change.id: _placed_cell(view, change) for change in changes if not change.in_place}
        view.remove(sorted(change.index for change in changes if change.id in placed and change.index is not None))
        for index, cell in enumerate(target):
            if cell.id in placed:
                view.put(index, [placed[cell.id]])
    for steps in step_groups:
        view.history.add(author, what, steps)
    return changes


def _entries(change: CellChange) -> JsonObject:
    """The metadata that changes, as entries to set; None removes an entry."""
    before: JsonObject = json.loads(change.before.metadata if change.before else NO_METADATA)
    after: JsonObject = json.loads(change.after.metadata if change.after else NO_METADATA)
    return {key: after.get(key) for key in before | after if before.get(key) != after.get(key)}


def _placed_cell(view: LiveNotebook, change: CellChange) -> JsonObject:
    """The JSON of a cell that is new, moved or retyped, and therefore put into the notebook as a whole."""
    if change.index is None and change.after is not None:
        has_known_type = change.after.cell_type in list(Kind)
        cell_type = Kind(change.after.cell_type) if has_known_type else Kind.RAW
        cell = new_cell_json(NewCell(change.after.source, cell_type), ())
        return {**cell, "id": change.id, "metadata": with_entries(cell["metadata"], _entries(change))}
    cell = to_json(view.shared_at(change.index or 0))
    if "retyped" not in change.kinds or change.after is None:
        return cell
    return retyped(cell, change.after.cell_type, change.after.source, {})


def _steps(view: LiveNotebook, changes: Sequence[CellChange], new_ids: Sequence[str]) -> list[list[Step]]:
    """The steps for undo: removed, changed, moved, inserted cells. Undo takes back each group by itself, the last one first.

    `new_ids` are the cells in the order that they will have.
    """
    ids = view.ids
    removed: list[tuple[CellPlace, JsonObject]] = []
    texts: list[Step] = []
    moved: list[tuple[str, CellPlace]] = []
    for change in changes:
        if change.index is None or change.before is None:
            continue
        place = CellPlace(ids[change.index - 1] if change.index else None, change.index)
        if change.after is None:
            removed.append((place, to_json(view.shared_at(change.index))))
            continue
        if "retyped" in change.kinds:
            cell = to_json(view.shared_at(change.index))
            cell_after = retyped(cell, change.after.cell_type, change.after.source, _entries(change))
            texts.append(Retyped(change.id, cell, change.after.source, rest_of(cell_after)))
        elif "changed" in change.kinds:
            texts.append(Rewritten(change.id, change.before.source, change.after.source))
        if "metadata" in change.kinds and "retyped" not in change.kinds:
            after = _entries(change)
            now: JsonObject = json.loads(change.before.metadata)
            texts.append(Remarked(change.id, {key: now.get(key) for key in after}, after))
        if change.moved:
            moved.append((change.id, place))
    inserted = tuple((change.id, change.after.source) for change in changes if change.after and change.before is None)
    moved.sort(key=lambda cell: cell[1].index)
    landed = landing(new_ids, {cell_id for cell_id, _ in moved})
    return [
        [Removed(tuple(removed))] if removed else [],
        texts,
        [Moved(tuple(moved), landed)] if moved else [],
        [Inserted(inserted)] if inserted else [],
    ]
