"""Running cells of a notebook: some, all, those above or below one; and all of them after a restart."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.errors import CellwrightError, InvalidArgument, Unavailable
from cellwright.core.toolset import Reply
from cellwright.core.types import Call
from cellwright.jupyter.documents.open_document import OpenDocument
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.inside.permitted import require_run
from cellwright.jupyter.kernels.executions import ExecutionView
from cellwright.jupyter.notebooks.meaning import CallersSight
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.service import LiveNotebooks, wait_seconds
from cellwright.jupyter.staleness.service import asked_session
from cellwright.jupyter.staleness.tracking import StatesOfNotebook, key_at
from cellwright.jupyter.staleness.words import StaleNews
from cellwright.jupyter.tools.common import (
    DEFAULT_OUTPUT_SIZE,
    DEFAULT_WAIT,
    NotBegun,
    OutputSize,
    Path,
    Range,
    RunIfAsked,
    RunReport,
    ViewName,
    Wait,
    author_of,
    cell_ranges,
    how_it_went,
    one_cell,
    run_if_asked,
    run_report,
)
from cellwright.notebook.addressing import runs_of
from cellwright.notebook.model import Kind
from cellwright.notebook.run import RunStatus

MOST_NAMED = 20
Which = Annotated[
    Literal["all", "stale", "above", "below"] | None,
    Field(description="above or from the one cell in ranges; stale: all not fresh"),
]
Needed = Annotated[str | int | None, Field(description="run this cell and what it needs, unless fresh")]
KeepGoing = Annotated[bool, Field(description="run on past cells that raise, not what needs them")]


class CellsExecuted(RunReport, StaleNews):
    message: str
    view: NotRequired[str]
    executed_ranges: int
    executed_cells: int


async def execute_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    ranges: list[Range] | None = None,
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
    timeout: Wait = DEFAULT_WAIT,  # noqa: ASYNC109 - the contract's name
    cells: Which = None,
    needed_for: Needed = None,
    keep_going: KeepGoing = False,
    view: ViewName = None,
) -> Reply[CellsExecuted]:
    """Run cells in order in the notebook's kernel, the one people use. Stops at the first error: the rest is not_run."""
    wait_seconds(timeout)
    notebook_path = NotebookPath(path)
    require_run(call)
    sight = notebooks.sight(call, notebook_path, view)
    by_need = cells == "stale" or needed_for is not None
    async with notebooks.open(call, notebook_path) as document:
        looks = by_need or keep_going
        states = await _states_now(notebooks, call, document) if looks else None
        if by_need and states is not None:
            code = _indexes_by_need(document.view, sight, states, ranges, cells, needed_for)
        else:
            code = _code_among(document.view, _requested_indexes(document.view, sight, ranges, cells))
        ids = await _own_ids(document, code, call)
    if not ids and cells == "stale":
        raise InvalidArgument("every code cell is fresh: there is nothing to run", hint='cells: "all" runs them again')
    if not ids:
        raise InvalidArgument("none of these cells is a code cell", hint="get_nb_stat with outline shows which are")
    needs_it = states.certain_dependents if keep_going and states is not None else None
    run_view = await notebooks.run(call, notebook_path, ids, timeout, keep_going=keep_going, needs_it=needs_it)
    begun_count = sum(cell.state not in {RunStatus.NOT_RUN, RunStatus.QUEUED} for cell in run_view.cells)
    report = await report_with_rest(notebooks, call, notebook_path, run_view, max_cell_output_size)
    answer: CellsExecuted = {
        "message": how_it_went(run_view),
        "executed_ranges": len(ranges) if ranges and cells is None else 1,
        "executed_cells": begun_count,
        **report.data,
    }
    if (document := notebooks.open_now(notebook_path)) is not None:
        answer["view"] = sight.keep(document.view)
        answer = {**answer, **await notebooks.states.news(call, document.view)}
    return Reply(answer, report.content, report.failed)


def _requested_indexes(
    view: LiveNotebook, sight: CallersSight, ranges: list[Range] | None, cells: str | None
) -> list[int]:
    """The cells that a call names, by ranges or by a word."""
    if cells == "all":
        if ranges:
            raise InvalidArgument('cells: "all" goes without ranges', hint='Leave one out; "below" begins at a cell')
        return list(range(view.cell_count))
    if ranges is None:
        raise InvalidArgument("which cells?", hint='Give ranges, or cells: "all"')
    indexes = [cell.index for cell in sight.cells(view, cell_ranges(ranges))]
    if cells is None:
        return indexes
    if len(indexes) != 1:
        raise InvalidArgument(
            f"cells: {cells!r} is relative to one cell, {len(indexes)} were named",
            hint='ranges: [{"id": "…"}] names it',
        )
    return list(range(indexes[0]) if cells == "above" else range(indexes[0], view.cell_count))


async def _states_now(notebooks: LiveNotebooks, call: Call, document: OpenDocument[LiveNotebook]) -> StatesOfNotebook:
    """The states of the cells, with the kernel that the notebook has at this moment."""
    connected = await notebooks.connected(call)
    session = await asked_session(connected, NotebookPath(document.path.text))
    return await notebooks.states.look(call, connected, document, session)


def _indexes_by_need(
    view: LiveNotebook,
    sight: CallersSight,
    states: StatesOfNotebook,
    ranges: list[Range] | None,
    cells: str | None,
    needed_for: str | int | None,
) -> list[int]:
    """The cells that are not fresh: all of them, or those that one cell needs, and that cell."""
    if ranges or (needed_for is not None and cells is not None):
        raise InvalidArgument(
            'ranges, cells: "stale" and needed_for each name the cells to run', hint="Give one of them alone"
        )
    if states.is_late:
        raise Unavailable(
            "it is not known yet which cells are fresh: they are still being read; nothing was run", hint="Try again"
        )
    code = _code_among(view, range(view.cell_count))
    if needed_for is None:
        due = states.due(view)
    else:
        (cell,) = sight.cells(view, [one_cell(needed_for)])
        due = states.due_for(view, key_at(view, cell.index))
    return [index for index in code if key_at(view, index) in due]


def _code_among(view: LiveNotebook, indexes: Sequence[int]) -> list[int]:
    return [index for index in indexes if view.head(index).cell_type == Kind.CODE]


async def _own_ids(document: OpenDocument[LiveNotebook], indexes: Sequence[int], call: Call) -> list[str]:
    """Ids by which these cells are found while they run. Cells that share an id get one each."""
    if document.view.have_own_ids(indexes):
        return [document.view.id_at(index) for index in indexes]
    # Nothing was awaited since the indexes were resolved, so they are still right.
    ids, _ = await document.change(lambda view: view.own_ids(indexes, author=author_of(call)))
    return ids


class RunThatStopped(TypedDict, total=False):
    """The cells that raised, and the call that runs the cells that were skipped because of them."""

    failed_cells: list[str]
    next: str


async def report_with_rest(
    notebooks: LiveNotebooks, call: Call, path: NotebookPath, run_view: ExecutionView, limit: int
) -> Reply[RunReport]:
    """How a run went, and how to go on where it stopped."""
    stopped = await _where_it_stopped(notebooks, call, path, run_view)
    report = await run_report(notebooks, call, run_view, path, limit)
    return Reply({**stopped, **report.data}, report.content, report.failed)


async def report_if_asked(
    notebooks: LiveNotebooks,
    call: Call,
    path: NotebookPath,
    run_view: ExecutionView | NotBegun | None,
    edit_message: str,
    limit: int,
) -> Reply[RunIfAsked]:
    """How the run after an edit went, or that there was none."""
    if isinstance(run_view, ExecutionView):
        report = await report_with_rest(notebooks, call, path, run_view, limit)
        return Reply({**report.data}, report.content, report.failed)
    outcome: RunIfAsked = {"executed": False, "execution_results": []}
    if run_view is not None:
        outcome["status"] = RunStatus.NOT_RUN.value
        outcome["error"] = run_view.failure(edit_message)
    return Reply(outcome, failed=run_view is not None)


async def _where_it_stopped(
    notebooks: LiveNotebooks, call: Call, path: NotebookPath, run_view: ExecutionView
) -> RunThatStopped:
    raised = [cell.cell_id for cell in run_view.cells if cell.state is RunStatus.ERROR]
    if not (run_view.state.ended and raised):
        return {}
    stopped: RunThatStopped = {"failed_cells": raised}
    not_run = [cell.cell_id for cell in run_view.cells if cell.state is RunStatus.NOT_RUN]
    # If the notebook cannot be opened any more, the run has happened all the same.
    with suppress(CellwrightError):
        async with notebooks.open(call, path) as document:
            indexes = [document.view.index_of(cell_id) for cell_id in not_run if cell_id in document.view.ids]
            if indexes:
                stopped["next"] = _next_call(document.view, path, indexes)
    return stopped


def _next_call(view: LiveNotebook, path: NotebookPath, indexes: Sequence[int]) -> str:
    """The exact call that runs these cells: by the first if they are all that follow it, else by name."""
    arguments: dict[str, object] = {"path": path.text}
    if indexes == _code_among(view, range(indexes[0], view.cell_count)):
        arguments |= {"cells": "below", "ranges": [{"id": view.id_at(indexes[0])}]}
    elif len(indexes) <= MOST_NAMED:
        arguments["ranges"] = [{"id": view.id_at(index)} for index in indexes]
    else:
        arguments["ranges"] = [{"start": start, "end": end} for start, end in runs_of(indexes)]
    return f"{len(indexes)} not run; to run them all the same: execute_nb_cells({json.dumps(arguments, ensure_ascii=False)})"


class KernelRestarted(RunIfAsked):
    message: str
    kernel_restarted: bool
    outputs_cleared: bool
    cells_executed: bool


async def restart_nb_kernel(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    clear_outputs: bool = False,
    exec: bool = True,  # noqa: A002 - the contract's name
    kernel_name: str | None = None,
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
    timeout: Wait = DEFAULT_WAIT,  # noqa: ASYNC109
) -> Reply[KernelRestarted]:
    """Restart the notebook's kernel (variables are lost), then run all code cells in order unless exec is false."""
    wait_seconds(timeout)
    notebook_path = NotebookPath(path)
    await notebooks.restart(call, notebook_path, kernel_name)
    async with notebooks.open(call, notebook_path) as document:
        if clear_outputs:
            await document.change(lambda view: view.clear_outputs(author=author_of(call)))
        code = _code_among(document.view, range(document.view.cell_count)) if exec else []
        ids = await _own_ids(document, code, call)
    run_view = await run_if_asked(notebooks, call, notebook_path, ids, should_run=exec, wait=timeout)
    message = "Restarted the kernel"
    report = await report_if_asked(notebooks, call, notebook_path, run_view, message, max_cell_output_size)
    answer: KernelRestarted = {
        "message": message,
        "kernel_restarted": True,
        "outputs_cleared": clear_outputs,
        "cells_executed": isinstance(run_view, ExecutionView),
        **report.data,
    }
    return Reply(answer, report.content, report.failed)
