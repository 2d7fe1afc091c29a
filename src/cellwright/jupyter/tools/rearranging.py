"""Cells moved, copied, split, joined, and rid of their outputs: more of the toolset `editing`."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.counting import counted
from cellwright.core.types import Call
from cellwright.jupyter.edits.reshaping import copied, join, paste, split
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.common import (
    CellWhereabouts,
    EditAcknowledgement,
    Path,
    Range,
    acknowledgement,
    author_of,
    cell_ranges,
    whereabouts,
)
from cellwright.jupyter.tools.proposing import Propose, ProposedEdit, proposed

Expect = Annotated[dict[str, str] | None, Field(description="{cell id: revision}")]


class MovedCells(EditAcknowledgement, ProposedEdit):
    message: str
    cells: list[CellWhereabouts]


async def move_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    ranges: list[Range],
    position: Annotated[int, Field(description="index now before which they go; -1 is the end")],
    expect: Expect = None,
    propose: Propose = False,
    copy: bool = False,
    to: Annotated[str | None, Field(description="notebook to copy into")] = None,
    outputs: Annotated[bool, Field(description="copy them too")] = False,
) -> MovedCells:
    """Move cells, with outputs, keeping order and ids. With copy: new cells instead, also in another notebook."""
    notebook_path = NotebookPath(path)
    target = notebook_path if to is None else NotebookPath(to)
    requested = cell_ranges(ranges)
    author = author_of(call)
    if not copy and (to is not None or outputs):
        raise InvalidArgument(
            "to and outputs are for copies", hint="Give copy: true; delete_nb_cells removes the originals"
        )
    if outputs and propose:
        raise InvalidArgument("a proposal holds no outputs", hint="Leave outputs out, or copy without propose")

    def edit(view: LiveNotebook) -> list[str]:
        if not copy:
            return view.move(requested, position, expect=expect, author=author)
        cells = copied(view, requested, outputs=outputs, expect=expect) if copied_cells is None else copied_cells
        if propose:
            _check_proposable(cells)
        return paste(view, position, cells, author=author)

    copied_cells = None
    if target != notebook_path:
        async with notebooks.open(call, notebook_path) as source:
            copied_cells = copied(source.view, requested, outputs=outputs, expect=expect)
    async with notebooks.edit(call, target, propose=propose) as (document, proposal):
        ids, acknowledged = await document.change(edit)
        where = whereabouts(document.view, ids)
    message = f"Copied {counted(len(ids), 'cell')} to {target}" if copy else f"Moved {counted(len(ids), 'cell')}"
    return {"message": message, "cells": where, **acknowledgement(acknowledged), **proposed(proposal)}


class ReshapedCells(EditAcknowledgement, ProposedEdit):
    message: str
    cells: list[CellWhereabouts]
    removed_ids: list[str]


async def split_join_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    ranges: list[Range],
    lines: Annotated[list[int] | None, Field(description="where new cells begin, from 1")] = None,
    expect: Expect = None,
    propose: Propose = False,
) -> ReshapedCells:
    """Split a cell before lines; its last part keeps the outputs. Without lines: join neighbours, without outputs."""
    notebook_path = NotebookPath(path)
    requested = cell_ranges(ranges)
    author = author_of(call)

    def edit(view: LiveNotebook) -> tuple[list[str], list[str]]:
        if propose:
            _check_proposable([view.json_at(index) for index in view.resolve(requested)])
        if lines:
            return split(view, requested, lines, expect=expect, author=author), []
        cell_id, removed_ids = join(view, requested, expect=expect, author=author)
        return [cell_id], removed_ids

    async with notebooks.edit(call, notebook_path, propose=propose) as (document, proposal):
        (ids, removed_ids), acknowledged = await document.change(edit)
        where = whereabouts(document.view, ids)
    message = f"Split a cell into {len(ids)}" if lines else f"Joined {counted(len(removed_ids) + 1, 'cell')}"
    return {
        "message": message,
        "cells": where,
        "removed_ids": removed_ids,
        **acknowledgement(acknowledged),
        **proposed(proposal),
    }


def _check_proposable(cells: Sequence[JsonObject]) -> None:
    """Raise if a cell has attachments: a proposal holds text only, and its new cell would lose them."""
    for cell in cells:
        if cell.get("attachments"):
            raise InvalidArgument(
                f"cell {cell.get('id')} has attachments, which a proposal does not hold; nothing was proposed",
                hint="Leave the cell out, or make the edit without propose",
            )


class ClearedOutputs(EditAcknowledgement):
    message: str
    ids: list[str]


async def clear_nb_outputs(
    notebooks: LiveNotebooks, call: Call, path: Path, ranges: list[Range] | None = None, expect: Expect = None
) -> ClearedOutputs:
    """Clear the outputs of cells; without ranges, of all. undo_nb_edit brings them back."""
    notebook_path = NotebookPath(path)
    requested = None if ranges is None else cell_ranges(ranges)
    async with notebooks.open(call, notebook_path) as document:
        ids, acknowledged = await document.change(
            lambda view: view.clear_outputs(requested, expect=expect, author=author_of(call))
        )
    return {
        "message": f"Cleared the outputs of {counted(len(ids), 'cell')}",
        "ids": ids,
        **acknowledgement(acknowledged),
    }
