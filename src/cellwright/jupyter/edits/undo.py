"""Undoing an agent's own edit, by making the reverse edit on the notebook as it is now."""

from collections.abc import Collection, Sequence
from typing import cast

from pycrdt import Array

from cellwright.core.errors import Conflict, NotFound
from cellwright.jupyter.edits.history import (
    CellPlace,
    Cleared,
    EditGroup,
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
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebooks.cellmetadata import metadata_of, put_entries
from cellwright.jupyter.notebooks.cells import to_json, to_youtput
from cellwright.jupyter.notebooks.notebook import AGENT, LiveNotebook
from cellwright.notebook.model import Kind
from cellwright.notebook.textdiff import TextChange, apply, changes, difference, rebase


def undo(notebook: LiveNotebook, author: str = AGENT) -> EditGroup:
    """Take back the last edit of `author`. Later edits of others stay; where they could not, raise Conflict and change nothing."""
    group = notebook.history.last_of(author)
    if group is None:
        raise NotFound(
            "there is no edit of yours to take back in this notebook",
            hint="edits of people, and of before a restart, are not taken back here",
        )
    inserted_ids = {cell_id for step in group.steps if isinstance(step, Inserted) for cell_id, _ in step.cells}
    for step in group.steps:
        _check(notebook, step, inserted_ids)
    for step in reversed(group.steps):
        # Each step has its own transaction: only after it are the positions of cells known again.
        with notebook.doc.transaction(origin=author):
            _take_back(notebook, step)
    notebook.history.forget(group)
    return group


def _check(notebook: LiveNotebook, step: Step, inserted_ids: Collection[str]) -> None:
    """Raise if the step cannot be taken back without touching somebody's later work.

    `inserted_ids` are the cells that the whole group inserted, and that are removed before this step is taken back.
    """
    match step:
        case Inserted(cells):
            for cell_id, source in cells:
                _check_source(notebook, cell_id, source)
        case Removed(cells):
            ids = [str(cell.get("id", "")) for _, cell in cells]
            _check_absent(notebook, [cell_id for cell_id in ids if cell_id not in inserted_ids])
        case Rewritten():
            _reverse(notebook, step)
        case Retyped(cell_id, _, after_source, after_rest):
            _check_source(notebook, cell_id, after_source)
            _check_rest(notebook, cell_id, after_rest)
        case Moved():
            _check_places(notebook, step)
        case Cleared(cell_id):
            _check_cleared(notebook, cell_id)
        case Remarked(cell_id, _, after):
            _check_metadata(notebook, cell_id, after)


def _check_absent(notebook: LiveNotebook, ids: Sequence[str]) -> None:
    present = {cell_id for cell_id in ids if cell_id}.intersection(notebook.ids)
    if present:
        raise Conflict(
            f"there is a cell with id {min(present)} again; nothing was taken back",
            hint="read the notebook and make the change by hand",
        )


def _check_source(notebook: LiveNotebook, cell_id: str, source: str) -> None:
    now = notebook.head(notebook.index_of(cell_id)).source
    if now != source:
        raise Conflict(
            f"cell {cell_id} was changed since your edit; nothing was taken back",
            hint="Edit or delete it yourself if that is what you want",
            details={"cell_id": cell_id, "diff": difference(source, now)},
        )


def _check_rest(notebook: LiveNotebook, cell_id: str, rest: JsonObject) -> None:
    now = rest_of(notebook.json_at(notebook.index_of(cell_id)))
    if changed := [part.replace("_", " ") for part, value in rest.items() if now[part] != value]:
        raise Conflict(
            f"the {changed[0]} of cell {cell_id} changed since your edit; nothing was taken back",
            hint="Set what you want with modify_nb_cells",
        )


def _check_cleared(notebook: LiveNotebook, cell_id: str) -> None:
    head = notebook.head(notebook.index_of(cell_id))
    if head.cell_type != Kind.CODE:
        raise Conflict(
            f"cell {cell_id} is no code any more, and has no outputs; nothing was taken back",
            hint="read the notebook and make the change by hand",
        )
    if head.output_count or head.execution_count is not None or head.running:
        raise Conflict(
            f"cell {cell_id} was run since its outputs were cleared; nothing was taken back",
            hint="read the notebook and make the change by hand",
        )


def _check_places(notebook: LiveNotebook, step: Moved) -> None:
    """Raise if a cell is neither beside one of the cells between which it had come, nor between them."""
    moved_ids = [cell_id for cell_id, _ in step.cells]
    indexes = {cell_id: notebook.index_of(cell_id) for cell_id in moved_ids}
    for cell_id, now in landing(notebook.ids, set(moved_ids)).items():
        landed, index = step.landed.get(cell_id, now), indexes[cell_id]
        if any(beside == then for beside, then in zip(now, landed, strict=True)):
            continue
        before, after = (notebook.index_of(beside) if beside and notebook.has(beside) else None for beside in landed)
        if (before is not None and before > index) or (after is not None and after < index):
            raise Conflict(
                f"cell {cell_id} was moved since your edit, or all that was around it; nothing was taken back",
                hint="Move it yourself if that is what you want",
                details={"cell_id": cell_id, "index": index},
            )


def _check_metadata(notebook: LiveNotebook, cell_id: str, entries: JsonObject) -> None:
    now = metadata_of(notebook.shared_cell(cell_id))
    if changed := [key for key, value in entries.items() if now.get(key) != value]:
        raise Conflict(
            f"the metadata {changed[0]!r} of cell {cell_id} was changed since your edit; nothing was taken back",
            hint="Set it with modify_nb_cells if that is what you want",
        )


def _reverse(notebook: LiveNotebook, step: Rewritten) -> tuple[int, str, list[TextChange]]:
    """How to undo a change of source around later edits of others: the cell's index, its source now, and the text changes."""
    index = notebook.index_of(step.cell_id)
    now = notebook.head(index).source
    reverse_changes = rebase(changes(step.after, step.before), changes(step.after, now))
    if reverse_changes is None:
        raise Conflict(
            f"cell {step.cell_id} was changed since, at the place of your edit; nothing was taken back",
            details={"cell_id": step.cell_id, "diff": difference(step.after, now)},
            hint="read the cell and change it with edit_nb_cell",
        )
    return index, now, reverse_changes


def _take_back(notebook: LiveNotebook, step: Step) -> None:
    match step:
        case Inserted(cells):
            notebook.remove(sorted(notebook.index_of(cell_id) for cell_id, _ in cells))
        case Removed(cells):
            _put_back(notebook, list(notebook.ids), cells)
        case Rewritten():
            index, now, reverse_changes = _reverse(notebook, step)
            apply(notebook.text_of(index), now, reverse_changes)
        case Retyped(cell_id, before):
            notebook.put_over(notebook.index_of(cell_id), before)
        case Moved(cells, _):
            _move_back(notebook, cells)
        case Cleared(cell_id, outputs, count):
            cell = notebook.shared_cell(cell_id)
            cast("Array[object]", cell["outputs"]).extend([to_youtput(output) for output in outputs])
            cell["execution_count"] = None if count is None else float(count)
        case Remarked(cell_id, before):
            put_entries(notebook.shared_cell(cell_id), before)


def _move_back(notebook: LiveNotebook, cells: tuple[tuple[str, CellPlace], ...]) -> None:
    moved_ids = {cell_id for cell_id, _ in cells}
    moved_cells = [(place, to_json(notebook.shared_cell(cell_id))) for cell_id, place in cells]
    notebook.remove(sorted(notebook.index_of(cell_id) for cell_id in moved_ids))
    _put_back(notebook, [cell_id for cell_id in notebook.ids if cell_id not in moved_ids], moved_cells)


def _put_back(notebook: LiveNotebook, ids: list[str], cells: Sequence[tuple[CellPlace, JsonObject]]) -> None:
    """Put each cell after the one it followed. `ids` is updated by hand: the notebook's own list is only after the transaction."""
    for place, cell in cells:
        if place.after is None:
            index = 0
        elif ids.count(place.after) == 1:
            index = ids.index(place.after) + 1
        else:
            index = min(place.index, len(ids))
        notebook.put(index, [cell])
        ids.insert(index, str(cell.get("id", "")))
