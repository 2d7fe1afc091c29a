"""Changing the notebook in use: inserting, overwriting and deleting one cell."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.text.clean import clean
from cellwright.core.text.cutting import cut_text
from cellwright.core.text.sight import seen
from cellwright.core.toolset import Reply
from cellwright.core.types import Call
from cellwright.jupyter.model import CellHead
from cellwright.jupyter.notebooks.notebook import LiveNotebook, SourceChange
from cellwright.jupyter.tools.common import (
    CellWhereabouts,
    EditAcknowledgement,
    Insertion,
    acknowledgement,
    author_of,
    saved_part,
    whereabouts,
)
from cellwright.jupyter.tools.current.common import CellIndex, CurrentCells, NotebookName
from cellwright.jupyter.tools.editing import short_diff
from cellwright.jupyter.tools.notebooks import insert_nb_cells
from cellwright.notebook.addressing import at

DELETED_CHARACTERS = 2_000

InsertAt = Annotated[int, Field(description="its index; -1 appends")]
Expect = Annotated[str | None, Field(description="revision the cell must still have")]


class InsertedCell(EditAcknowledgement):
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
    path = cells.path(call, notebook)
    new = [Insertion(cell_source, cell_type)]
    reply = await insert_nb_cells(cells.notebooks, call, path.text, cell_index, new, exec=False)
    (inserted,) = reply.data["cells"]
    return {
        "message": f"Inserted {cell_type} cell {inserted['index']} in {path}",
        "path": path.text,
        "cells": [inserted],
        "live": reply.data["live"],
        **saved_part(reply.data),
    }


class OverwrittenCell(EditAcknowledgement):
    message: str
    path: str
    diff: str
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
    path = cells.path(call, notebook)

    def change(view: LiveNotebook) -> CellHead:
        before = view.head(view.resolve([at(cell_index)])[0])
        view.replace([SourceChange(at(cell_index), cell_source, expect=expect)], author=author_of(call))
        return before

    async with cells.notebooks.open(call, path) as document:
        before, acknowledged = await document.change(change)
        where = whereabouts(document.view, [before.id])
    diff = clean(short_diff(before.source, cell_source)).text
    same = before.source == cell_source
    message = (
        f"Cell {cell_index} of {path} has this source already" if same else f"Overwrote cell {cell_index} of {path}"
    )
    data: OverwrittenCell = {
        "message": message,
        "path": path.text,
        "diff": diff,
        "cells": where,
        **acknowledgement(acknowledged),
    }
    return Reply(data, (message, *([diff] if diff else [])))


class CellThatWas(TypedDict):
    id: str
    cell_type: str
    source: str


class DeletedCell(EditAcknowledgement):
    message: str
    path: str
    deleted: CellThatWas
    cell_count: int


async def delete_cell(
    cells: CurrentCells, call: Call, cell_index: CellIndex, notebook: NotebookName = None, expect: Expect = None
) -> DeletedCell:
    """Delete a cell. The result has its source; undo_nb_edit brings it back."""
    path = cells.path(call, notebook)

    def change(view: LiveNotebook) -> CellHead:
        head = view.head(view.resolve([at(cell_index)])[0])
        view.delete([at(cell_index)], expect={head.id: expect} if expect else None, author=author_of(call))
        return head

    async with cells.notebooks.open(call, path) as document:
        deleted_head, acknowledged = await document.change(change)
        remaining = document.view.cell_count
    source = cut_text(seen(deleted_head.source).text, DELETED_CHARACTERS)
    message = f"Deleted cell {cell_index} of {path}, {remaining} are left"
    deleted: CellThatWas = {"id": deleted_head.id, "cell_type": clean(deleted_head.cell_type).text, "source": source}
    return {
        "message": message,
        "path": path.text,
        "deleted": deleted,
        "cell_count": remaining,
        **acknowledgement(acknowledged),
    }
