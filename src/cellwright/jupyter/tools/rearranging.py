"""Cells moved, copied, split, joined, and rid of their outputs: more of the toolset `editing`."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.counting import counted
from cellwright.core.types import Call
from cellwright.jupyter.edits.edited import compared
from cellwright.jupyter.edits.reshaping import copied, join, paste, split
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebooks.meaning import Expected, each_at, exactly
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.common import (
    CellWhereabouts,
    EditAcknowledgement,
    EditOutcome,
    Path,
    Range,
    ViewName,
    acknowledgement,
    author_of,
    cell_ranges,
    change_report,
    whereabouts,
)
from cellwright.jupyter.tools.proposing import Propose, ProposedEdit, proposed

Expect = Annotated[Expected, Field(description="{cell id: revision}, or any")]


class MovedCells(EditOutcome, ProposedEdit):
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
    view: ViewName = None,
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

    sight = notebooks.sight(call, notebook_path, view, proposes=propose and target == notebook_path)
    target_sight = sight if target == notebook_path else notebooks.sight(call, target, proposes=propose)

    def copies(notebook: LiveNotebook) -> list[JsonObject]:
        cells = sight.cells(notebook, requested)
        return copied(notebook, each_at(cells), outputs=outputs, expect=exactly(expect))

    def edit(notebook: LiveNotebook) -> list[str]:
        place = target_sight.position(notebook, position)
        if not copy:
            cells = sight.cells(notebook, requested)
            sight.check_unmoved(notebook, cells, expect)
            return notebook.move(each_at(cells), place, expect=exactly(expect), author=author)
        new_cells = copies(notebook) if copied_cells is None else copied_cells
        if propose:
            _check_proposable(new_cells)
        return paste(notebook, place, new_cells, author=author)

    copied_cells = None
    if target != notebook_path:
        async with notebooks.open(call, notebook_path) as source:
            copied_cells = copies(source.view)
    async with notebooks.edit(call, target, propose=propose) as (document, proposal):
        await document.catch_up()
        edited, acknowledged = await document.change(compared(edit))
        ids = edited.result
        where, change = whereabouts(document.view, ids), change_report(target_sight, edited, ids if copy else ())
    message = f"Copied {counted(len(ids), 'cell')} to {target}" if copy else f"Moved {counted(len(ids), 'cell')}"
    return {
        "message": message,
        "cells": where,
        **change,
        **await notebooks.states.news(call, document.view),
        **acknowledgement(acknowledged),
        **proposed(proposal),
    }


class ReshapedCells(EditOutcome, ProposedEdit):
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
    view: ViewName = None,
) -> ReshapedCells:
    """Split a cell before lines; its last part keeps the outputs. Without lines: join neighbours, without outputs."""
    notebook_path = NotebookPath(path)
    requested = cell_ranges(ranges)
    author = author_of(call)

    sight = notebooks.sight(call, notebook_path, view, proposes=propose)
    known: set[str] = set()

    def edit(notebook: LiveNotebook) -> tuple[list[str], list[str]]:
        cells = sight.cells(notebook, requested)
        ranges_now = each_at(cells)
        if propose:
            _check_proposable([notebook.json_at(cell.index) for cell in cells])
        if lines:
            # The lines are those of the text that the caller saw.
            sight.check_unchanged(notebook, cells, expect)
            return split(notebook, ranges_now, lines, expect=exactly(expect), author=author), []
        all_known = sight.known(notebook).issuperset(notebook.sight().keys[cell.index] for cell in cells)
        cell_id, removed_ids = join(notebook, ranges_now, expect=exactly(expect), author=author)
        known.update([cell_id] if all_known else ())
        return [cell_id], removed_ids

    async with notebooks.edit(call, notebook_path, propose=propose) as (document, proposal):
        await document.catch_up()
        edited, acknowledged = await document.change(compared(edit))
        ids, removed_ids = edited.result
        # A joined cell has the text of others as it was, also where the caller had not seen it.
        where, change = whereabouts(document.view, ids), change_report(sight, edited, ids if lines else known)
    message = f"Split a cell into {len(ids)}" if lines else f"Joined {counted(len(removed_ids) + 1, 'cell')}"
    return {
        "message": message,
        "cells": where,
        "removed_ids": removed_ids,
        **change,
        **await notebooks.states.news(call, document.view),
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
    view: str
    message: str
    ids: list[str]


async def clear_nb_outputs(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    ranges: list[Range] | None = None,
    expect: Expect = None,
    view: ViewName = None,
) -> ClearedOutputs:
    """Clear the outputs of cells; without ranges, of all. undo_nb_edit brings them back."""
    notebook_path = NotebookPath(path)
    requested = None if ranges is None else cell_ranges(ranges)
    sight = notebooks.sight(call, notebook_path, view)

    def clear(notebook: LiveNotebook) -> list[str]:
        cells = None if requested is None else each_at(sight.cells(notebook, requested))
        return notebook.clear_outputs(cells, expect=exactly(expect), author=author_of(call))

    async with notebooks.open(call, notebook_path) as document:
        ids, acknowledged = await document.change(clear)
        new_view = sight.keep(document.view)
    return {
        "message": f"Cleared the outputs of {counted(len(ids), 'cell')}",
        "ids": ids,
        "view": new_view,
        **acknowledgement(acknowledged),
    }
