"""Cells copied, split and joined. Each is one step for its author's undo."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.counting import counted
from cellwright.jupyter.edits.history import CellPlace, Cleared, Inserted, Removed, Retyped, Rewritten, Step
from cellwright.jupyter.model import CellType, JsonObject
from cellwright.jupyter.notebooks.cellmetadata import TRUSTED, with_entries
from cellwright.jupyter.notebooks.cells import checked_source, new_id
from cellwright.jupyter.notebooks.guards import check_changed, check_count
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.notebook.addressing import CellRange, insert_position
from cellwright.notebook.lineends import ShownText
from cellwright.notebook.textdiff import TextChange, apply, changed_text


def copied(
    view: LiveNotebook, ranges: Sequence[CellRange], *, outputs: bool, expect: Mapping[str, str] | None = None
) -> list[JsonObject]:
    """Cells as JSON, to be pasted somewhere. Without their outputs they are as if they had never run."""
    indexes = view.resolve(ranges)
    check_count(len(indexes))
    view.check_revisions(indexes, expect)
    return [_copy(view.json_at(index), outputs=outputs) for index in indexes]


def _copy(cell: JsonObject, *, outputs: bool) -> JsonObject:
    if cell.get("cell_type") != CellType.CODE or outputs:
        return cell
    bare: JsonObject = {**cell, "outputs": [], "execution_count": None}
    return {**bare, "metadata": with_entries(cell.get("metadata") or {}, {TRUSTED: True, "execution": None})}


def paste(view: LiveNotebook, position: int, cells: Sequence[JsonObject], *, author: str) -> list[str]:
    """Copies of cells, with ids of their own, before the cell at `position`; -1 appends. Their ids."""
    place = insert_position(view.cell_count, position)
    taken = set(view.ids)
    copies: list[JsonObject] = []
    for cell in cells:
        copies.append({**cell, "id": new_id(taken)})
        taken.add(str(copies[-1]["id"]))
    with view.doc.transaction(origin=author):
        view.put(place, copies)
    view.history.add(author, f"copy {counted(len(copies), 'cell')}", [_inserted(copies)] if copies else [])
    return view.note_touched([str(cell["id"]) for cell in copies])


def split(
    view: LiveNotebook,
    ranges: Sequence[CellRange],
    lines: Sequence[int],
    *,
    expect: Mapping[str, str] | None = None,
    author: str,
) -> list[str]:
    """A new cell from each of these lines on, counted from 1. The first part stays the cell that it was; outputs go with the last.

    The ids of all parts.
    """
    index = _one(view, ranges)
    view.check_revisions([index], expect)
    view.check_idle([index])
    head = view.head(index)
    check_count(len(set(lines)))
    parts = _parts(head.source, lines)
    text = view.text_of(index)
    cell_id = view.own_ids([index], author=author)[0]
    made = _pieces(view, view.json_at(index), parts[1:])
    steps: list[Step] = [Rewritten(cell_id, head.source, parts[0]), *_cleared(view, index), _inserted(made)]
    with view.doc.transaction(origin=author):
        apply(text, head.source, [TextChange(len(parts[0]), len(head.source), "")])
        view.clear_at([index])
        view.put(index + 1, made)
    view.history.add(author, f"split a cell into {len(parts)}", steps)
    return view.note_touched([cell_id, *(str(piece["id"]) for piece in made)])


def _one(view: LiveNotebook, ranges: Sequence[CellRange]) -> int:
    indexes = view.resolve(ranges)
    if len(indexes) != 1:
        raise InvalidArgument(f"one cell is split at a time, {len(indexes)} were named", hint="Leave lines out to join")
    return indexes[0]


def _parts(source: str, lines: Sequence[int]) -> list[str]:
    """The text before each of these lines, each without the newline at its end: that is now the end of a cell."""
    starts = [0, *(found.end() for found in re.finditer("\n", source))]
    wanted = sorted(set(lines))
    if wanted[0] < 2 or wanted[-1] > len(starts):  # noqa: PLR2004 - a cell begins with line 1 already
        at = wanted[0] if wanted[0] < 2 else wanted[-1]  # noqa: PLR2004
        raise InvalidArgument(
            f"the cell cannot be split before line {at}: it has {counted(len(starts), 'line')}",
            hint="Lines count from 1; name the lines with which the new cells begin",
        )
    cuts = [0, *(starts[line - 1] for line in wanted), len(source)]
    pieces = [source[start:end] for start, end in pairwise(cuts)]
    return [*(piece.removesuffix("\n").removesuffix("\r") for piece in pieces[:-1]), pieces[-1]]


def _pieces(view: LiveNotebook, cell: JsonObject, sources: Sequence[str]) -> list[JsonObject]:
    taken = set(view.ids)
    made: list[JsonObject] = []
    for number, source in enumerate(sources, 1):
        bare = _copy(cell, outputs=number == len(sources))
        made.append({**bare, "id": new_id(taken), "source": source})
        taken.add(str(made[-1]["id"]))
    return made


def join(
    view: LiveNotebook, ranges: Sequence[CellRange], *, expect: Mapping[str, str] | None = None, author: str
) -> tuple[str, list[str]]:
    """Neighbouring cells of one type become the first of them, a newline between each. Its id, and those of the others, which go."""
    indexes = view.resolve(ranges)
    check_changed(len(indexes))
    view.check_revisions(indexes, expect)
    _check_joinable(view, indexes)
    first, others = indexes[0], indexes[1:]
    shown = ShownText(view.head(first).source)
    added = "".join(f"\n{ShownText(view.head(index).source).shown}" for index in others)
    made = [TextChange(len(shown.text), len(shown.text), shown.adapted(added))]
    joined = checked_source(changed_text(shown.text, made))
    attached = _attachments(view, indexes)
    cell_id = view.own_ids([first], author=author)[0]
    gone = tuple((CellPlace(view.id_at(index - 1), index), view.json_at(index)) for index in others)
    # Where attachments come along, only the whole cell says how it was.
    was = Retyped(cell_id, view.json_at(first), joined) if attached else Rewritten(cell_id, shown.text, joined)
    steps: list[Step] = [was, *_cleared(view, first), Removed(gone)]
    with view.doc.transaction(origin=author):
        apply(view.text_of(first), shown.text, made)
        if attached:
            view.shared_at(first)["attachments"] = attached
        view.clear_at([first])
        view.remove(others)
    view.history.add(author, f"join {counted(len(indexes), 'cell')}", steps)
    return view.note_touched([cell_id])[0], [str(cell.get("id", "")) for _, cell in gone]


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
    """The attachments of all these cells, if others than the first have any: they are found by name, so names must not meet."""
    each = [view.cell_at(index).attachments for index in indexes]
    merged: JsonObject = {}
    for attachments in each if any(each[1:]) else ():
        for name, attachment in attachments.items():
            if merged.setdefault(name, attachment) != attachment:
                raise InvalidArgument(
                    f"two of these cells have an attachment {name!a} each; nothing was changed",
                    hint="Leave one of the cells as it is",
                )
    return merged


def _cleared(view: LiveNotebook, index: int) -> list[Cleared]:
    """For undo: the outputs that the cell is about to lose, if it has any."""
    step = view.outputs_at(index)
    return [] if step is None else [step]


def _inserted(cells: Sequence[JsonObject]) -> Inserted:
    return Inserted(tuple((str(cell["id"]), str(cell["source"])) for cell in cells))
