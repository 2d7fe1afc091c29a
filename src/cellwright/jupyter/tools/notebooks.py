"""Toolset `notebooks`: notebooks by path, read, changed and run live, together with the people who have them open."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.errors import InvalidArgument
from cellwright.core.resources import NOTEBOOK_VIEW
from cellwright.core.text.counting import counted
from cellwright.core.toolset import Reply, Toolset, read, run, write
from cellwright.core.types import Call
from cellwright.jupyter.edits.edited import compared
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.inside.permitted import require_run
from cellwright.jupyter.notebooks.meaning import ANY, Expected, MeantCell, each_at, exactly
from cellwright.jupyter.notebooks.notebook import LiveNotebook, SourceChange
from cellwright.jupyter.service import LiveNotebooks, wait_seconds
from cellwright.jupyter.tools.common import (
    DEFAULT_OUTPUT_SIZE,
    DEFAULT_WAIT,
    CellKind,
    CellWhereabouts,
    EditOutcome,
    Insertion,
    OutputSize,
    Path,
    Range,
    RunIfAsked,
    ViewName,
    Wait,
    acknowledgement,
    author_of,
    cell_ranges,
    change_report,
    run_if_asked,
    whereabouts,
)
from cellwright.jupyter.tools.creating import create_nb
from cellwright.jupyter.tools.looking import (
    get_base_url,
    get_nb_stat,
    list_available_kernels,
    list_nbs,
    nb_path_from_url,
)
from cellwright.jupyter.tools.proposing import Propose, ProposedEdit, proposed
from cellwright.jupyter.tools.reading import read_nb_cells
from cellwright.jupyter.tools.running import execute_nb_cells, report_if_asked, restart_nb_kernel
from cellwright.notebook.addressing import at
from cellwright.notebook.model import Kind


@dataclass(frozen=True)
class Modification:
    """expect: the revision they must have, or any. metadata: entries to set, null removes one."""

    range: Range
    content: str | None = None
    expect: str | None = None
    type: CellKind | None = None
    metadata: dict[str, Any] | None = None

    def changes(self, cells: Sequence[MeantCell]) -> list[SourceChange]:
        """The changes of the cells that it means."""
        if self.content is None and self.type is None and self.metadata is None:
            raise InvalidArgument("a modification says nothing", hint="Give content, type or metadata")
        if self.expect not in (None, ANY) and len(cells) != 1:
            raise InvalidArgument("`expect` is the revision of one cell", hint="Name one cell per change")
        kind = None if self.type is None else Kind(self.type)
        expect = None if self.expect == ANY else self.expect
        return [
            SourceChange(
                at(cell.index),
                self.content,
                kind,
                expect,
                self.metadata,
                seen=None if self.expect == ANY else cell.revision,
            )
            for cell in cells
        ]


class RemovedParts(TypedDict, total=False):
    """Parts that cells lost because they got another type."""

    removed: list[str]


class ModifiedCells(RemovedParts, EditOutcome, ProposedEdit, RunIfAsked):
    message: str
    modified_ranges: int
    cells: list[CellWhereabouts]


async def modify_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    modifications: list[Modification],
    exec: bool = True,  # noqa: A002 - the contract's name
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
    timeout: Wait = DEFAULT_WAIT,  # noqa: ASYNC109 - the contract's name
    propose: Propose = False,
    view: ViewName = None,
) -> Reply[ModifiedCells]:
    """Give cells new content and run them; or a type, or metadata (tags). Only what differs changes: what people type there stays."""
    should_run = exec and not propose and any(modification.content is not None for modification in modifications)
    if should_run:
        require_run(call)
    wait_seconds(timeout)
    notebook_path = NotebookPath(path)
    sight = notebooks.sight(call, notebook_path, view, proposes=propose)
    ranges = [modification.range.cell_range() for modification in modifications]

    believed: dict[str, str] = {}

    def modify(notebook: LiveNotebook) -> tuple[list[str], list[str], list[str]]:
        meant = zip(modifications, sight.each(notebook, ranges), strict=True)
        changes = [change for modification, cells in meant for change in modification.changes(cells)]
        believed_at = believed_texts(notebook, changes)
        rewritten = notebook.resolve([change.range for change in changes if change.source is not None])
        lost = _lost_by_type(notebook, changes)
        ids = notebook.replace(changes, author=author_of(call))
        # By the ids that the cells have now: those that shared one have got their own.
        believed.update((notebook.id_at(index), revision) for index, revision in believed_at.items())
        return ids, [notebook.id_at(index) for index in rewritten], lost

    async with notebooks.edit(call, notebook_path, propose=propose) as (document, proposal):
        if any(modification.type is not None for modification in modifications):
            await document.catch_up()
        edited, acknowledged = await document.change(compared(modify))
        ids, rewritten_ids, lost = edited.result
        # Whoever changed only a type or metadata was shown no text.
        where, change = whereabouts(document.view, ids), change_report(sight, edited, rewritten_ids, believed)
    message = f"Modified {counted(len(ids), 'cell')} in {counted(len(modifications), 'range')}"
    run_view = await run_if_asked(notebooks, call, notebook_path, rewritten_ids, should_run=should_run, wait=timeout)
    report = await report_if_asked(notebooks, call, notebook_path, run_view, message, max_cell_output_size)
    removed: RemovedParts = {"removed": lost} if lost else {}
    answer: ModifiedCells = {
        "message": message,
        "modified_ranges": len(modifications),
        "cells": where,
        **change,
        **await notebooks.states.news(call, document.view),
        **removed,
        **acknowledgement(acknowledged, report.data),
        **proposed(proposal),
        **report.data,
    }
    return Reply(answer, report.content, report.failed)


def believed_texts(notebook: LiveNotebook, changes: Sequence[SourceChange]) -> dict[int, str]:
    """By index: the revision of the text that the caller will take for the cell's, where others' changes are merged into it."""
    merged = [
        (change.source, index)
        for change in changes
        if change.source is not None and change.seen is not None and change.expect is None
        for index in notebook.resolve([change.range])
        if notebook.head(index).revision != change.seen
    ]
    return {index: notebook.remember_text(text) for text, index in merged}


def _lost_by_type(view: LiveNotebook, changes: Sequence[SourceChange]) -> list[str]:
    """Parts that cells are about to lose with their type: only code has outputs, and only other cells have attachments."""
    lost: list[str] = []
    new_types = {change.range.start: change.cell_type for change in changes}
    for index in view.resolve([change.range for change in changes if change.cell_type is not None]):
        cell = view.cell_at(index)
        new_type = new_types[index]
        if cell.head.cell_type == new_type:
            continue
        lost_counts = (
            ("outputs", len(cell.outputs)),
            ("attachments", len(cell.attachments) if new_type is Kind.CODE else 0),
        )
        lost += [f"{count} {part} of cell {cell.id}" for part, count in lost_counts if count]
    return lost


class InsertedCells(EditOutcome, ProposedEdit, RunIfAsked):
    message: str
    cells: list[CellWhereabouts]


async def insert_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    position: Annotated[int, Field(description="index of the first new cell; -1 appends")],
    cells: list[Insertion],
    exec: bool = True,  # noqa: A002
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
    timeout: Wait = DEFAULT_WAIT,  # noqa: ASYNC109
    propose: Propose = False,
    view: ViewName = None,
) -> Reply[InsertedCells]:
    """Insert cells and run the code ones. The result has their ids and outputs."""
    should_run = exec and not propose
    if should_run:
        require_run(call)
    wait_seconds(timeout)
    notebook_path = NotebookPath(path)
    new_cells = [insertion.cell() for insertion in cells]
    sight = notebooks.sight(call, notebook_path, view, proposes=propose)

    def insert(notebook: LiveNotebook) -> list[str]:
        return notebook.insert(sight.position(notebook, position), new_cells, author=author_of(call))

    async with notebooks.edit(call, notebook_path, propose=propose) as (document, proposal):
        edited, acknowledged = await document.change(compared(insert))
        ids = edited.result
        where, change = whereabouts(document.view, ids), change_report(sight, edited, ids)
    message = f"Inserted {counted(len(ids), 'cell')}"
    run_view = await run_if_asked(notebooks, call, notebook_path, ids, should_run=should_run, wait=timeout)
    report = await report_if_asked(notebooks, call, notebook_path, run_view, message, max_cell_output_size)
    answer: InsertedCells = {
        "message": message,
        "cells": where,
        **change,
        **await notebooks.states.news(call, document.view),
        **acknowledgement(acknowledged, report.data),
        **proposed(proposal),
        **report.data,
    }
    return Reply(answer, report.content, report.failed)


class DeletedCells(EditOutcome, ProposedEdit):
    message: str
    deleted_cells: int
    ids: list[str]


async def delete_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    ranges: list[Range],
    expect: Expected = None,
    propose: Propose = False,
    view: ViewName = None,
) -> DeletedCells:
    """Delete cells; undo_nb_edit brings them back. Refused if one was changed since you saw it. expect: {cell id: revision}, or any."""
    notebook_path = NotebookPath(path)
    requested = cell_ranges(ranges)
    sight = notebooks.sight(call, notebook_path, view, proposes=propose)

    def delete(notebook: LiveNotebook) -> list[str]:
        cells = sight.cells(notebook, requested)
        sight.check_unchanged(notebook, cells, expect)
        return notebook.delete(each_at(cells), expect=exactly(expect), author=author_of(call))

    async with notebooks.edit(call, notebook_path, propose=propose) as (document, proposal):
        await document.catch_up()
        edited, acknowledged = await document.change(compared(delete))
        remaining, change = document.view.cell_count, change_report(sight, edited)
    deleted_ids = edited.result
    return {
        "message": f"Deleted {counted(len(deleted_ids), 'cell')}; {remaining} left",
        "deleted_cells": len(deleted_ids),
        "ids": deleted_ids,
        **change,
        **await notebooks.states.news(call, document.view),
        **acknowledgement(acknowledged),
        **proposed(proposal),
    }


class AssignedKernel(TypedDict):
    message: str
    kernel_assigned: bool
    kernel_name: str


async def assign_nb_kernel(notebooks: LiveNotebooks, call: Call, path: Path, kernel_name: str) -> AssignedKernel:
    """Give the notebook another kernel. The old one is shut down, its variables are lost."""
    notebook_path = NotebookPath(path)
    await notebooks.assign(call, notebook_path, kernel_name)
    message = f"{notebook_path} now runs in {kernel_name}"
    return {"message": message, "kernel_assigned": True, "kernel_name": kernel_name}


def notebooks_toolset(notebooks: LiveNotebooks) -> Toolset:
    tools = (
        read(get_base_url),
        read(nb_path_from_url),
        read(list_nbs),
        read(get_nb_stat),
        write(create_nb),
        read(read_nb_cells, view=NOTEBOOK_VIEW),
        write(modify_nb_cells, long=True),
        write(insert_nb_cells, long=True),
        write(delete_nb_cells, destructive=True),
        run(execute_nb_cells, view=NOTEBOOK_VIEW),
        run(restart_nb_kernel),
        read(list_available_kernels),
        run(assign_nb_kernel),
    )
    return Toolset(
        "notebooks", "live notebooks by path: read, change and run them together with people", tools, notebooks
    )
