"""Toolset `editing`: small, exact changes inside a notebook, taking them back, and finding things in many."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.core.toolset import Reply, Toolset, read, write
from cellwright.core.types import Call
from cellwright.jupyter.edits.replacing import ReplacedText, replace_in_all, replace_in_cell
from cellwright.jupyter.edits.undo import undo
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.inside.permitted import require_run
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.service import LiveNotebooks, wait_seconds
from cellwright.jupyter.tools.common import (
    DEFAULT_OUTPUT_SIZE,
    DEFAULT_WAIT,
    CellWhereabouts,
    EditAcknowledgement,
    OutputSize,
    Path,
    RunIfAsked,
    Wait,
    acknowledgement,
    author_of,
    run_if_asked,
    whereabouts,
)
from cellwright.jupyter.tools.proposing import Propose, ProposedEdit, proposed
from cellwright.jupyter.tools.rearranging import clear_nb_outputs, move_nb_cells, split_join_nb_cells
from cellwright.jupyter.tools.running import report_if_asked
from cellwright.jupyter.tools.search import search_nbs
from cellwright.notebook.addressing import CellRange
from cellwright.notebook.textdiff import difference

DIFF_LINES = 40
DIFF_HEAD = 2
"""Lines above a difference that name the compared texts."""

Cell = Annotated[str | int, Field(description="id, index, or [12] as people see it")]


def one_cell(cell: str | int) -> CellRange:
    return CellRange(start=cell) if isinstance(cell, int) else CellRange(id=cell)


def short_diff(before: str, after: str) -> str:
    return _first_lines(difference(before, after).splitlines())


def _diff(ids: Sequence[str], edits: Sequence[ReplacedText]) -> str:
    """The changes of the cells; if there are several cells, each under its id."""
    if len(edits) == 1:
        return short_diff(edits[0].before, edits[0].after)
    pairs = zip(ids, edits, strict=True)
    diffs = ((cell_id, difference(edit.before, edit.after).splitlines()[DIFF_HEAD:]) for cell_id, edit in pairs)
    return _first_lines([line for cell_id, lines in diffs for line in (f"cell {cell_id}", *lines)])


def _first_lines(lines: Sequence[str]) -> str:
    return "\n".join(lines[:DIFF_LINES]) + (
        f"\n… {counted(len(lines) - DIFF_LINES, 'more line')}" if len(lines) > DIFF_LINES else ""
    )


class EditedText(EditAcknowledgement, ProposedEdit, RunIfAsked):
    message: str
    replaced: int
    diff: str
    cells: list[CellWhereabouts]


async def edit_nb_cell(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    old: str,
    new: str,
    cell: Cell | None = None,
    replace_all: bool = False,
    expect: str | None = None,
    exec: bool = False,  # noqa: A002 - as the other tools call it
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
    timeout: Wait = DEFAULT_WAIT,  # noqa: ASYNC109
    propose: Propose = False,
) -> Reply[EditedText]:
    """Replace literal text in a cell, or without cell in all. It must occur exactly once, unless replace_all. The result is a diff."""
    should_run = exec and not propose
    if should_run:
        require_run(call)
    wait_seconds(timeout)
    notebook_path = NotebookPath(path)

    if cell is None and expect is not None:
        raise InvalidArgument("`expect` is the revision of one cell", hint="Name the cell, or leave expect out")

    def change(view: LiveNotebook) -> tuple[list[str], list[ReplacedText]]:
        author = author_of(call)
        if cell is None:
            edits = replace_in_all(view, old, new, every=replace_all, author=author)
        else:
            edits = replace_in_cell(view, one_cell(cell), old, new, every=replace_all, expect=expect, author=author)
        indexes = [edit.index for edit in edits]
        ids = view.own_ids(indexes, author=author) if should_run else [view.id_at(index) for index in indexes]
        return ids, edits

    async with notebooks.edit(call, notebook_path, propose=propose) as (document, proposal):
        (ids, edits), acknowledged = await document.change(change)
        where = whereabouts(document.view, ids)
    count = sum(edit.count for edit in edits)
    message = f"Replaced {counted(count, 'occurrence')}"
    run_view = await run_if_asked(notebooks, call, notebook_path, ids, should_run=should_run, wait=timeout)
    report = await report_if_asked(notebooks, call, notebook_path, run_view, message, max_cell_output_size)
    answer: EditedText = {
        "message": message,
        "replaced": count,
        "diff": clean(_diff(ids, edits)).text,
        "cells": where,
        **acknowledgement(acknowledged, report.data),
        **proposed(proposal),
        **report.data,
    }
    return Reply(answer, report.content, report.failed)


class UndoneEdit(EditAcknowledgement):
    message: str
    undone: str
    cell_count: int


class RemadeEdits(EditAcknowledgement):
    message: str
    cells: list[CellWhereabouts]


async def undo_nb_edit(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    again: Annotated[bool, Field(description="make lost edits again instead")] = False,
) -> UndoneEdit | RemadeEdits:
    """Take back your own last edit of this notebook, and nobody else's. Refused if others changed the same text since."""
    notebook_path = NotebookPath(path)
    if again:
        return await _make_again(notebooks, call, notebook_path)
    async with notebooks.open(call, notebook_path) as document:
        group, acknowledged = await document.change(lambda view: undo(view, author_of(call)))
        count = document.view.cell_count
    return {
        "message": f"Took back: {group.what}",
        "undone": group.what,
        "cell_count": count,
        **acknowledgement(acknowledged),
    }


async def _make_again(notebooks: LiveNotebooks, call: Call, path: NotebookPath) -> RemadeEdits:
    lost = (await notebooks.connected(call)).rooms.lost
    async with notebooks.open(call, path) as document:
        ids, acknowledged = await document.change(lambda view: lost.make_again(path.text, view, author_of(call)))
        where = whereabouts(document.view, [cell_id for cell_id in ids if cell_id in document.view.ids])
    return {
        "message": f"Made the lost edits of {counted(len(ids), 'cell')} again",
        "cells": where,
        **acknowledgement(acknowledged),
    }


def editing_toolset(notebooks: LiveNotebooks) -> Toolset:
    tools = (
        write(edit_nb_cell, long="exec"),
        write(move_nb_cells),
        write(split_join_nb_cells),
        write(clear_nb_outputs),
        write(undo_nb_edit),
        read(search_nbs, long=True),
    )
    return Toolset("editing", "small exact changes inside a notebook, undo, and search in many", tools, notebooks)
