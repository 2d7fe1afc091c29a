"""Toolset `editing`: small, exact changes inside a notebook, taking them back, and finding things in many."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from cellwright.core.errors import InvalidArgument, LimitReached
from cellwright.core.text.counting import counted
from cellwright.core.toolset import Reply, Toolset, read, write
from cellwright.core.types import Call
from cellwright.jupyter.edits.edited import compared
from cellwright.jupyter.edits.finding import replacements
from cellwright.jupyter.edits.history import EditGroup
from cellwright.jupyter.edits.replacing import ReplacedText, replace_in_all, replace_in_cell
from cellwright.jupyter.edits.undo import undo
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.inside.permitted import require_run
from cellwright.jupyter.notebooks.meaning import ANY, CallersSight, MeantCell
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.notebooks.views import NOT_SHOWN
from cellwright.jupyter.service import LiveNotebooks, wait_seconds
from cellwright.jupyter.tools.common import (
    DEFAULT_OUTPUT_SIZE,
    DEFAULT_WAIT,
    CellWhereabouts,
    EditOutcome,
    OutputSize,
    Path,
    RunIfAsked,
    ViewName,
    Wait,
    acknowledgement,
    author_of,
    change_report,
    one_cell,
    run_if_asked,
    whereabouts,
)
from cellwright.jupyter.tools.proposing import Propose, ProposedEdit, proposed
from cellwright.jupyter.tools.rearranging import clear_nb_outputs, move_nb_cells, split_join_nb_cells
from cellwright.jupyter.tools.running import report_if_asked
from cellwright.jupyter.tools.search import search_nbs
from cellwright.notebook.textdiff import changed_text

Expect = Annotated[str | None, Field(description="its revision, or any")]
Cell = Annotated[str | int, Field(description="id, index, or [12] as people see it")]


@dataclass(frozen=True, slots=True)
class _Replacement:
    """Texts that were replaced, and what the caller knows of the cells after it."""

    edits: list[ReplacedText]
    known: set[str]
    """Cells whose text the caller knows, if they were changed."""
    believed: dict[str, str]


class EditedText(EditOutcome, ProposedEdit, RunIfAsked):
    message: str
    replaced: int
    cells: list[CellWhereabouts]


async def edit_nb_cell(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    old: str,
    new: str,
    cell: Cell | None = None,
    replace_all: bool = False,
    expect: Expect = None,
    exec: bool = False,  # noqa: A002 - as the other tools call it
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
    timeout: Wait = DEFAULT_WAIT,  # noqa: ASYNC109
    propose: Propose = False,
    view: ViewName = None,
) -> Reply[EditedText]:
    """Replace literal text in a cell, or without cell in all. It must occur exactly once, unless replace_all. The result is a diff."""
    should_run = exec and not propose
    if should_run:
        require_run(call)
    wait_seconds(timeout)
    notebook_path = NotebookPath(path)

    if cell is None and expect is not None:
        raise InvalidArgument("`expect` is the revision of one cell", hint="Name the cell, or leave expect out")

    sight = notebooks.sight(call, notebook_path, view, proposes=propose)

    def replace(notebook: LiveNotebook) -> tuple[list[str], _Replacement]:
        author = author_of(call)
        if cell is None:
            known = sight.known(notebook)
            replacement = _Replacement(replace_in_all(notebook, old, new, every=replace_all, author=author), known, {})
        else:
            replacement = _replace(notebook, sight, cell, old, new, every=replace_all, expect=expect, author=author)
        return [notebook.id_at(edit.index) for edit in replacement.edits], replacement

    async with notebooks.edit(call, notebook_path, propose=propose) as (document, proposal):
        edited, acknowledged = await document.change(compared(replace))
        ids, replacement = edited.result
        where = whereabouts(document.view, ids)
        change = change_report(sight, edited, replacement.known.intersection(ids), replacement.believed)
    count = sum(edit.count for edit in replacement.edits)
    message = f"Replaced {counted(count, 'occurrence')}"
    run_view = await run_if_asked(notebooks, call, notebook_path, ids, should_run=should_run, wait=timeout)
    report = await report_if_asked(notebooks, call, notebook_path, run_view, message, max_cell_output_size)
    answer: EditedText = {
        "message": message,
        "replaced": count,
        "cells": where,
        **change,
        **await notebooks.states.news(call, document.view),
        **acknowledgement(acknowledged, report.data),
        **proposed(proposal),
        **report.data,
    }
    return Reply(answer, report.content, report.failed)


def _replace(
    notebook: LiveNotebook,
    sight: CallersSight,
    cell: str | int,
    old: str,
    new: str,
    *,
    every: bool,
    expect: str | None,
    author: str,
) -> _Replacement:
    """Replace text in one cell."""
    (meant,) = sight.cells(notebook, [one_cell(cell)])
    behind = meant.revision is not None and notebook.head(meant.index).revision != meant.revision
    exact, seen = (None, None) if expect == ANY else (expect, meant.revision)
    edits = replace_in_cell(notebook, meant.index, old, new, every=every, expect=exact, seen=seen, author=author)
    believed = _believed_text(notebook, meant, old, new) if behind and exact is None else {}
    return _Replacement(edits, {notebook.id_at(meant.index)}, believed)


def _believed_text(notebook: LiveNotebook, cell: MeantCell, old: str, new: str) -> dict[str, str]:
    """The revision of the text that the caller will take for the cell's, if somebody else changed the cell since they saw it."""
    revision = cell.revision or NOT_SHOWN
    seen = notebook.seen_text(revision)
    if seen is not None:
        # Where the text that was seen would grow too large, they are taken to know what they saw.
        with suppress(LimitReached):
            revision = notebook.remember_text(changed_text(seen, replacements(seen, old, new)))
    return {notebook.id_at(cell.index): revision}


class UndoneEdit(EditOutcome):
    message: str
    undone: str
    cell_count: int


class RemadeEdits(EditOutcome):
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
    sight = notebooks.sight(call, notebook_path)

    def take_back(notebook: LiveNotebook) -> tuple[EditGroup, set[str]]:
        known, before = sight.known(notebook), notebook.sight()
        group = undo(notebook, author_of(call))
        now = notebook.sight()
        taken_back = {
            key: now.revisions[index]
            for key, index in now.positions.items()
            if (was_at := before.positions.get(key)) is None or before.revisions[was_at] != now.revisions[index]
        }
        # What comes back may be what somebody else wrote, and the caller replaced unseen.
        seen = {key for key, revision in taken_back.items() if sight.was_shown(key, revision)}
        return group, known.difference(taken_back) | seen

    async with notebooks.open(call, notebook_path) as document:
        edited, acknowledged = await document.change(compared(take_back))
        group, known = edited.result
        count, change = document.view.cell_count, change_report(sight, edited, known)
    return {
        "message": f"Took back: {group.what}",
        "undone": group.what,
        "cell_count": count,
        **change,
        **await notebooks.states.news(call, document.view),
        **acknowledgement(acknowledged),
    }


async def _make_again(notebooks: LiveNotebooks, call: Call, path: NotebookPath) -> RemadeEdits:
    lost = (await notebooks.connected(call)).rooms.lost
    async with notebooks.open(call, path) as document:
        edited, acknowledged = await document.change(
            compared(lambda view: lost.make_again(path.text, view, author_of(call)))
        )
        ids = edited.result
        change = change_report(notebooks.sight(call, path), edited)
        where = whereabouts(document.view, [cell_id for cell_id in ids if cell_id in document.view.ids])
    return {
        "message": f"Made the lost edits of {counted(len(ids), 'cell')} again",
        "cells": where,
        **change,
        **await notebooks.states.news(call, document.view),
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
