"""Changing the notebook in use: inserting, overwriting and deleting one cell."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.text.clean import clean
from cellwright.core.text.cutting import cut_text
from cellwright.core.text.sight import seen
from cellwright.core.toolset import Reply
from cellwright.core.types import Call
from cellwright.jupyter.edits.edited import compared
from cellwright.jupyter.model import CellHead
from cellwright.jupyter.notebooks.meaning import ANY, Expected, each_at, exactly
from cellwright.jupyter.notebooks.notebook import LiveNotebook, SourceChange
from cellwright.jupyter.tools.common import (
    CellWhereabouts,
    EditOutcome,
    Insertion,
    acknowledgement,
    author_of,
    change_part,
    change_report,
    news_block,
    saved_part,
    whereabouts,
)
from cellwright.jupyter.tools.current.common import CellIndex, CurrentCells, NotebookName
from cellwright.jupyter.tools.notebooks import believed_texts, insert_nb_cells
from cellwright.notebook.addressing import at

DELETED_CHARACTERS = 2_000

InsertAt = Annotated[int, Field(description="its index; -1 appends")]
Expect = Annotated[str | None, Field(description="revision it must have, or any")]


class InsertedCell(EditOutcome):
    message: str
    path: str
    cells: list[CellWhereabouts]


async def insert_cell(
    cells: CurrentCells,
    call: Call,
    cell_index: InsertAt,
    cell_type: Literal["code", "markdown", "raw"],
    cell_source: str,
    notebook: NotebookName = None,
) -> InsertedCell:
    """Insert a cell without running it."""
    path = cells.path_to_change(call, notebook)
    new = [Insertion(cell_source, cell_type)]
    reply = await insert_nb_cells(cells.notebooks, call, path.text, cell_index, new, exec=False)
    (inserted,) = reply.data["cells"]
    return {
        "message": f"Inserted {cell_type} cell {inserted['index']} in {path}",
        "path": path.text,
        "cells": [inserted],
        **change_part(reply.data),
        "live": reply.data["live"],
        **saved_part(reply.data),
    }


class OverwrittenCell(EditOutcome):
    message: str
    path: str
    cells: list[CellWhereabouts]


async def overwrite_cell_source(
    cells: CurrentCells,
    call: Call,
    cell_index: CellIndex,
    cell_source: str,
    notebook: NotebookName = None,
    expect: Expect = None,
) -> Reply[OverwrittenCell]:
    """Give a cell new source, without running it. The result is a diff. Only what differs changes; expect refuses a stale edit."""
    path = cells.path_to_change(call, notebook)

    sight = cells.notebooks.sight(call, path)
    believed: dict[str, str] = {}

    def overwrite(view: LiveNotebook) -> tuple[int, list[str]]:
        (cell,) = sight.cells(view, [at(cell_index)])
        exact, seen_revision = (None, None) if expect == ANY else (expect, cell.revision)
        change = SourceChange(at(cell.index), cell_source, expect=exact, seen=seen_revision)
        believed_at = believed_texts(view, [change])
        ids = view.replace([change], author=author_of(call))
        believed.update((view.id_at(index), revision) for index, revision in believed_at.items())
        return cell.index, ids

    async with cells.notebooks.open(call, path) as document:
        edited, acknowledged = await document.change(compared(overwrite))
        index, ids = edited.result
        where, change = whereabouts(document.view, ids), change_report(sight, edited, ids, believed)
    diff = change["diff"]
    message = f"Overwrote cell {index} of {path}" if diff else f"Cell {index} of {path} has this source already"
    data: OverwrittenCell = {
        "message": message,
        "path": path.text,
        "cells": where,
        **change,
        **await cells.notebooks.states.news(call, document.view),
        **acknowledgement(acknowledged),
    }
    return Reply(data, (message, *([diff] if diff else []), *news_block(data)))


class CellThatWas(TypedDict):
    id: str
    cell_type: str
    source: str


class DeletedCell(EditOutcome):
    message: str
    path: str
    deleted: CellThatWas
    cell_count: int


async def delete_cell(
    cells: CurrentCells, call: Call, cell_index: CellIndex, notebook: NotebookName = None, expect: Expect = None
) -> DeletedCell:
    """Delete a cell. The result has its source; undo_nb_edit brings it back."""
    path = cells.path_to_change(call, notebook)

    sight = cells.notebooks.sight(call, path)

    def delete(view: LiveNotebook) -> tuple[int, CellHead]:
        (cell,) = meant = sight.cells(view, [at(cell_index)])
        head = view.head(cell.index)
        expected: Expected = ANY if expect == ANY else {head.id: expect} if expect else None
        sight.check_unchanged(view, meant, expected)
        view.delete(each_at(meant), expect=exactly(expected), author=author_of(call))
        return cell.index, head

    async with cells.notebooks.open(call, path) as document:
        await document.catch_up()
        edited, acknowledged = await document.change(compared(delete))
        index, deleted_head = edited.result
        remaining, change = document.view.cell_count, change_report(sight, edited)
    source = cut_text(seen(deleted_head.source).text, DELETED_CHARACTERS)
    message = f"Deleted cell {index} of {path}, {remaining} are left"
    deleted: CellThatWas = {"id": deleted_head.id, "cell_type": clean(deleted_head.cell_type).text, "source": source}
    return {
        "message": message,
        "path": path.text,
        "deleted": deleted,
        "cell_count": remaining,
        **change,
        **await cells.notebooks.states.news(call, document.view),
        **acknowledgement(acknowledged),
    }
