"""Copying, splitting and joining cells. Each is one step for its author's undo."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.counting import counted
from cellwright.jupyter.edits.history import CellPlace, Cleared, Inserted, Removed, Retyped, Rewritten, Step, rest_of
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebooks.cellmetadata import TRUSTED, with_entries
from cellwright.jupyter.notebooks.cells import checked_source, new_id
from cellwright.jupyter.notebooks.guards import check_changed, check_count
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.notebook.addressing import CellRange, insert_position
from cellwright.notebook.lineends import ShownText
from cellwright.notebook.model import Kind
from cellwright.notebook.textdiff import TextChange, apply, changed_text


def copied(
    view: LiveNotebook, ranges: Sequence[CellRange], *, outputs: bool, expect: Mapping[str, str] | None = None
) -> list[JsonObject]:
    """Cells as JSON, to be pasted somewhere. Without their outputs they look as if they had never run."""
    indexes = view.resolve(ranges)
    check_count(len(indexes))
    view.check_revisions(indexes, expect)
    return [_copy(view.json_at(index), outputs=outputs) for index in indexes]


def _copy(cell: JsonObject, *, outputs: bool) -> JsonObject:
    if cell.get("cell_type") != Kind.CODE or outputs:
        return cell
    bare: JsonObject = {**cell, "outputs": [], "execution_count": None}
    return {**bare, "metadata": with_entries(cell.get("metadata") or {}, {TRUSTED: True, "execution": None})}


def paste(view: LiveNotebook, position: int, cells: Sequence[JsonObject], *, author: str) -> list[str]:
    """Insert copies of cells, with ids of their own, before the cell at `position`; -1 appends. Returns their ids."""
    index = insert_position(view.cell_count, position)
    copies = _with_new_ids(view, cells)
    with view.doc.transaction(origin=author):
        view.put(index, copies)
    view.history.add(author, f"copy {counted(len(copies), 'cell')}", [_inserted(copies)] if copies else [])
    return view.note_touched([str(cell["id"]) for cell in copies])


def _with_new_ids(view: LiveNotebook, cells: Iterable[JsonObject]) -> list[JsonObject]:
    used_ids = set(view.ids)
    copies: list[JsonObject] = []
    for cell in cells:
        cell_id = new_id(used_ids)
        used_ids.add(cell_id)
        copies.append({**cell, "id": cell_id})
    return copies


def split(
    view: LiveNotebook,
    ranges: Sequence[CellRange],
    lines: Sequence[int],
    *,
    expect: Mapping[str, str] | None = None,
    author: str,
) -> list[str]:
    """Split a cell before each of these lines, counted from 1. The first part stays the same cell; outputs go with the last.

    Returns the ids of all parts.
    """
    indexes = view.resolve(ranges)
    if len(indexes) != 1:
        raise InvalidArgument(f"one cell is split at a time, {len(indexes)} were named", hint="Leave lines out to join")
    index = indexes[0]
    view.check_revisions([index], expect)
    view.check_idle([index])
    head = view.head(index)
    check_count(len(set(lines)))
    parts = _parts(head.source, lines)
    text = view.text_of(index)
    cell_id = view.own_ids([index], author=author)[0]
    cell = view.json_at(index)
    pieces = (
        {**_copy(cell, outputs=number == len(parts)), "source": source} for number, source in enumerate(parts[1:], 2)
    )
    new_cells = _with_new_ids(view, pieces)
    steps: list[Step] = [Rewritten(cell_id, head.source, parts[0]), *_cleared(view, index), _inserted(new_cells)]
    with view.doc.transaction(origin=author):
        apply(text, head.source, [TextChange(len(parts[0]), len(head.source), "")])
        view.clear_at([index])
        view.put(index + 1, new_cells)
    view.history.add(author, f"split a cell into {len(parts)}", steps)
    return view.note_touched([cell_id, *(str(cell["id"]) for cell in new_cells)])


def _parts(source: str, lines: Sequence[int]) -> list[str]:
    """The source, cut before each of these lines. Each part is without the newline at its end, where its cell now ends."""
    starts = [0, *(newline.end() for newline in re.finditer("\n", source))]
    first_lines = sorted(set(lines))
    if first_lines[0] < 2 or first_lines[-1] > len(starts):  # noqa: PLR2004 - a cell begins with line 1 already
        line = first_lines[0] if first_lines[0] < 2 else first_lines[-1]  # noqa: PLR2004
        raise InvalidArgument(
            f"the cell cannot be split before line {line}: it has {counted(len(starts), 'line')}",
            hint="Lines count from 1; name the lines with which the new cells begin",
        )
    cuts = [0, *(starts[line - 1] for line in first_lines), len(source)]
    parts = [source[start:end] for start, end in pairwise(cuts)]
    return [*(part.removesuffix("\n").removesuffix("\r") for part in parts[:-1]), parts[-1]]


def join(
    view: LiveNotebook, ranges: Sequence[CellRange], *, expect: Mapping[str, str] | None = None, author: str
) -> tuple[str, list[str]]:
    """Join neighbouring cells of one type into the first of them, a newline between each. Returns its id, and the removed ids."""
    indexes = view.resolve(ranges)
    check_changed(len(indexes))
    view.check_revisions(indexes, expect)
    _check_joinable(view, indexes)
    first, others = indexes[0], indexes[1:]
    source = ShownText(view.head(first).source)
    added_text = "".join(f"\n{ShownText(view.head(index).source).shown}" for index in others)
    changes = [TextChange(len(source.text), len(source.text), source.adapted(added_text))]
    joined = checked_source(changed_text(source.text, changes))
    attachments = _attachments(view, indexes)
    cell_id = view.own_ids([first], author=author)[0]
    removed = tuple((CellPlace(view.id_at(index - 1), index), view.json_at(index)) for index in others)
    # Where attachments are added, undo needs the whole cell as it was.
    before = view.json_at(first)
    rewritten = (
        Retyped(cell_id, before, joined, rest_of({**before, "attachments": attachments}))
        if attachments
        else Rewritten(cell_id, source.text, joined)
    )
    steps: list[Step] = [rewritten, *_cleared(view, first), Removed(removed)]
    with view.doc.transaction(origin=author):
        apply(view.text_of(first), source.text, changes)
        if attachments:
            view.shared_at(first)["attachments"] = attachments
        view.clear_at([first])
        view.remove(others)
    view.history.add(author, f"join {counted(len(indexes), 'cell')}", steps)
    return view.note_touched([cell_id])[0], [str(cell.get("id", "")) for _, cell in removed]


def _check_joinable(view: LiveNotebook, indexes: Sequence[int]) -> None:
    if len(indexes) < 2:  # noqa: PLR2004
        raise InvalidArgument("joining needs two cells or more", hint="Give lines to split a cell")
    if indexes[-1] - indexes[0] != len(indexes) - 1:
        raise InvalidArgument(
            "only neighbouring cells can be joined; nothing was changed", hint="move_nb_cells puts them side by side"
        )
    types = {view.head(index).cell_type for index in indexes}
    if len(types) > 1:
        raise InvalidArgument(
            f"cells of different types ({', '.join(sorted(types))}) cannot be joined; nothing was changed",
            hint="modify_nb_cells with type makes them of one type first",
        )
    view.check_idle(indexes)
    for index in indexes:
        view.text_of(index)


def _attachments(view: LiveNotebook, indexes: Sequence[int]) -> JsonObject:
    """The attachments of all these cells; empty if only the first has any. They are found by name, so no two may share a name."""
    by_cell = [view.cell_at(index).attachments for index in indexes]
    merged: JsonObject = {}
    for attachments in by_cell if any(by_cell[1:]) else ():
        for name, attachment in attachments.items():
            if merged.setdefault(name, attachment) != attachment:
                raise InvalidArgument(
                    f"two of these cells have an attachment {name!a} each; nothing was changed",
                    hint="Leave one of the cells as it is",
                )
    return merged


def _cleared(view: LiveNotebook, index: int) -> list[Cleared]:
    """The step for undo that restores the outputs which the cell is about to lose, if it has any."""
    step = view.outputs_at(index)
    return [] if step is None else [step]


def _inserted(cells: Sequence[JsonObject]) -> Inserted:
    return Inserted(tuple((str(cell["id"]), str(cell["source"])) for cell in cells))
