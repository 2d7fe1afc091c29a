"""What a change did to a pad, as lines removed and added: in its fields, its schemas and its cells."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import NotRequired

from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.core.text.sight import pictured
from cellwright.notebook.differences import unified
from cellwright.notebook.model import Cell
from cellwright.notebook.shortdiff import DIFF_LINES, cell_line, cut_line
from cellwright.notebook.shortdiff import LONGEST_LINE as SHORT_LINE
from cellwright.scratch import rows
from cellwright.scratch.history import (
    HISTORY_KEPT,
    ChangeSubject,
    PadVersion,
    State,
    Undo,
    changes,
    read_undo,
    state_of,
    undo_change,
)
from cellwright.scratch.model import Pad, PadDraft, SharedSchema
from cellwright.scratch.rows import CELLS
from cellwright.scratch.views import all_words
from cellwright.storage.cells import NotebookKey
from cellwright.storage.database import Transaction

MOST_LINES = 200
LONGEST_LINE = 400
LINES_IN_LIST = 6
"""Of each change in a list of changes."""


class PadDifference(ChangeSubject):
    """A change as lines. The time of the change that created the pad is not recorded."""

    version: int
    at: NotRequired[str]
    change: NotRequired[str]
    diff: str


def change_at(tx: Transaction, key: NotebookKey, pad: Pad, version: int) -> PadDifference:
    """The change that made this version, with the difference to the version before; the first is compared with an empty pad."""
    after = Undo.state_at(tx, key, state_of(tx, key, pad), pad.version, version)
    before: State = Undo.state_at(tx, key, after, version, version - 1) if version > 1 else (PadDraft(), [], [])
    diff = difference(before, after)
    change = next((change for change in changes(tx, key, HISTORY_KEPT) if change["version"] == version), None)
    return {"version": version, "diff": diff} if change is None else {**change, "diff": diff}


def difference(before: State, after: State) -> str:
    """Removed lines with -, added lines with +, under the name of what they belong to."""
    lines = chain(
        _changed_words(before[0], after[0]),
        _changed_schemas(before[2], after[2]),
        _changed_cells(before[1], after[1]),
    )
    return _diff_text(lines, MOST_LINES, LONGEST_LINE)


def brief_difference(before: State, after: State, max_lines: int = DIFF_LINES) -> str:
    """The difference for the answer to a change: a cell that was added or removed is one line."""
    lines = chain(
        _changed_words(before[0], after[0]),
        _changed_schemas(before[2], after[2]),
        _changed_cells(before[1], after[1], brief=True),
    )
    return _diff_text(lines, max_lines)


def brief_cells(before: Sequence[Cell], after: Sequence[Cell]) -> str:
    return _diff_text(_changed_cells(before, after, brief=True))


def brief_removal(tx: Transaction, key: NotebookKey) -> str:
    """The cells of a pad that is deleted. No more of them are read than are shown."""
    cell_ids = CELLS.read_ids(tx, key)
    cells = rows.read_cells(tx, key, cell_ids[:DIFF_LINES])
    more = (cell_line("-", index, cell_id, "") for index, cell_id in enumerate(cell_ids[DIFF_LINES:], DIFF_LINES))
    return _diff_text(chain(_changed_cells(cells, [], brief=True), more))


def brief_replacement(before: Cell, after: Cell) -> str:
    """The difference of one cell for the answer to a change. Of a cell that was only moved, it says from where to where."""
    moved = f"cell {after.id}, {_position(before, after)}" if before.index != after.index else ""
    return brief_cells([before], [after]) or moved


def brief_schemas(before: Sequence[SharedSchema], after: Sequence[SharedSchema]) -> str:
    return _diff_text(_changed_schemas(before, after))


def brief_words(before: PadDraft | None, after: PadDraft) -> str:
    return _diff_text(_changed_words(before, after))


def changes_with_diffs(tx: Transaction, key: NotebookKey, pad: Pad, limit: int) -> list[PadVersion]:
    """The changes, newest first, each with the beginning of its diff."""
    state, versions = state_of(tx, key, pad), changes(tx, key, limit)
    for change in versions:
        # One after the other, because each may hold a whole pad.
        undo = read_undo(tx, key, change["version"])
        if undo is None:
            break
        before = undo_change(state, undo)
        if diff := brief_difference(before, state, LINES_IN_LIST):
            change["diff"] = diff
        state = before
    return versions


def is_cut(diff: str) -> bool:
    """Whether a diff leaves out lines or ends of lines."""
    return any(line.endswith("…") for line in diff.split("\n")) or diff.rpartition("\n")[2].startswith("… ")


def _diff_text(lines: Iterator[str], max_lines: int = DIFF_LINES, max_length: int = SHORT_LINE) -> str:
    """The first lines, cleaned, and how many there are more. Those of a whole pad are counted and not held in memory."""
    short = [clean(cut_line(line, max_length)).text for line in islice(lines, max_lines)]
    more = sum(1 for _ in lines)
    left_out = [f"… {counted(more, 'more line')}"] if more else []
    return "\n".join([*short, *left_out])


def _changed_words(before: PadDraft | None, after: PadDraft) -> Iterator[str]:
    old, new = ({} if about is None else all_words(about) for about in (before, after))
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if names:
        yield "about the pad"
    for name in names:
        texts = old.get(name) or "", new.get(name) or ""
        if any(isinstance(text, str) and "\n" in text for text in texts):
            yield f"{name}:"
            was, now = (pictured(str(text)).split("\n") for text in texts)
            yield from unified(was, now)
        else:
            values = [(sign, about.get(name)) for sign, about in (("-", old), ("+", new))]
            yield from (f"{sign}{name}: {_one_line(value)}" for sign, value in values if value not in (None, "", []))


def _changed_schemas(before: Sequence[SharedSchema], after: Sequence[SharedSchema]) -> Iterator[str]:
    old, new = ({schema.id: schema for schema in schemas} for schemas in (before, after))
    for schema_id in dict.fromkeys([*old, *new]):
        was, now = old.get(schema_id), new.get(schema_id)
        name = (now or was or SharedSchema(schema_id, "", "", {})).name
        old_lines, new_lines = _schema_lines(was), _schema_lines(now)
        if old_lines != new_lines:
            yield f"schema {name}"
            yield from unified(old_lines, new_lines)


def _changed_cells(before: Sequence[Cell], after: Sequence[Cell], *, brief: bool = False) -> Iterator[str]:
    """The lines of each cell that differs; of one that is only there before or after, one line if the difference is `brief`."""
    old, new = ({cell.id: cell for cell in cells} for cells in (before, after))
    for cell_id in dict.fromkeys([*old, *new]):
        was, now = old.get(cell_id), new.get(cell_id)
        if was == now:
            continue
        if brief and was is None and now is not None:
            yield cell_line("+", now.index, now.id, now.source)
        elif brief and was is not None and now is None:
            yield cell_line("-", was.index, was.id, was.source)
        else:
            yield from _changed_cell(was, now)


def _changed_cell(was: Cell | None, now: Cell | None) -> Iterator[str]:
    """The name of the cell, the attributes that differ, and the lines of its text that do."""
    old, new = _attribute_lines(was), _attribute_lines(now)
    removed, added = [line for line in old if line not in new], [line for line in new if line not in old]
    attributes = [*(f"-{line}" for line in removed), *(f"+{line}" for line in added)]
    text = unified(_text_lines(was), _text_lines(now))
    cell = now or was
    if cell is not None and (attributes or text):
        yield f"cell {cell.id}, {_position(was, now)}"
        yield from attributes
        yield from text


def _position(was: Cell | None, now: Cell | None) -> str:
    if was is None or now is None:
        return f"new, index {now.index}" if now is not None else "deleted"
    return f"index {now.index}" if was.index == now.index else f"moved from index {was.index} to {now.index}"


def _one_line(value: object) -> str:
    return pictured(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _schema_lines(schema: SharedSchema | None) -> list[str]:
    if schema is None:
        return []
    fields = {"description": schema.description, "schema": schema.schema}
    return json.dumps(fields, ensure_ascii=False, indent=1, sort_keys=True).splitlines()


def _attribute_lines(cell: Cell | None) -> list[str]:
    """One line for each attribute of the cell that is not empty."""
    if cell is None:
        return []
    attributes = {
        "language": cell.language,
        "tags": cell.tags,
        "metadata": cell.metadata,
        "json_schema": cell.check.schema,
    }
    return [
        f"{name}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in attributes.items()
        if value not in ((), {}, None)
    ]


def _text_lines(cell: Cell | None) -> list[str]:
    """With an empty line at the end where the text ends with a newline, so that two texts that differ look different."""
    return pictured(cell.source).split("\n") if cell is not None and cell.source else []
