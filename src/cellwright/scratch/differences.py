"""What a change did to a pad, as lines removed and added: in its fields, its schemas and its cells."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import NotRequired

from cellwright.core.text.counting import counted
from cellwright.notebook.differences import unified
from cellwright.notebook.model import Cell
from cellwright.scratch import rows
from cellwright.scratch.history import HISTORY_KEPT, ChangeSubject, State, Undo, changes, state_of
from cellwright.scratch.model import Pad, PadDraft, SharedSchema
from cellwright.storage.cells import NotebookKey
from cellwright.storage.database import Transaction

MOST_LINES = 200
LONGEST_LINE = 400


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
    old_about, new_about = (_as_lines(rows.about_as_json(about)) for about, _cells, _schemas in (before, after))
    lines = chain(
        _changed("about the pad", old_about, new_about),
        _changed_schemas(before[2], after[2]),
        _changed_cells(before[1], after[1]),
    )
    short = [line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…" for line in islice(lines, MOST_LINES)]
    # A whole pad may have been removed: millions of lines, which are counted and not held in memory.
    more = sum(1 for _ in lines)
    left_out = [f"… {counted(more, 'more line')}"] if more else []
    return "\n".join([*short, *left_out])


def _changed_schemas(before: Sequence[SharedSchema], after: Sequence[SharedSchema]) -> Iterator[str]:
    old, new = ({schema.id: schema for schema in schemas} for schemas in (before, after))
    for schema_id in dict.fromkeys([*old, *new]):
        was, now = old.get(schema_id), new.get(schema_id)
        name = (now or was or SharedSchema(schema_id, "", "", {})).name
        yield from _changed(f"schema {name}", _schema_lines(was), _schema_lines(now))


def _changed_cells(before: Sequence[Cell], after: Sequence[Cell]) -> Iterator[str]:
    old, new = ({cell.id: cell for cell in cells} for cells in (before, after))
    for cell_id in dict.fromkeys([*old, *new]):
        was, now = old.get(cell_id), new.get(cell_id)
        yield from _changed(f"cell {cell_id}, {_position(was, now)}", _cell_lines(was), _cell_lines(now))


def _position(was: Cell | None, now: Cell | None) -> str:
    if was is None or now is None:
        return f"new, index {now.index}" if now is not None else "deleted"
    return f"index {now.index}" if was.index == now.index else f"moved from index {was.index} to {now.index}"


def _changed(name: str, before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    if before != after:
        yield name
        yield from unified(before, after)


def _as_lines(value: object) -> list[str]:
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True).splitlines()


def _schema_lines(schema: SharedSchema | None) -> list[str]:
    return [] if schema is None else _as_lines({"description": schema.description, "schema": schema.schema})


def _cell_lines(cell: Cell | None) -> list[str]:
    """One line for each attribute of the cell that is not empty, then its content."""
    if cell is None:
        return []
    attributes = {
        "language": cell.language,
        "tags": cell.tags,
        "metadata": cell.metadata,
        "json_schema": cell.check.schema,
    }
    about = [
        f"{name}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in attributes.items()
        if value not in ((), {}, None)
    ]
    return [*about, *cell.source.splitlines()]
