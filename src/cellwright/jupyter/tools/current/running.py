"""Running cells of the notebook in use, and code without a cell."""

import asyncio
from typing import Annotated

from pydantic import Field

from cellwright.core.errors import InvalidArgument
from cellwright.core.toolset import Reply
from cellwright.core.types import Call
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.inside.permitted import require_run
from cellwright.jupyter.kernels.executions import CellJob, ExecutionView, call_cancelled
from cellwright.jupyter.service import runner_of, wait_seconds
from cellwright.jupyter.tools.common import Insertion, Range, RunReport, run_report
from cellwright.jupyter.tools.current.common import CellIndex, CurrentCells, NotebookName, run_reply
from cellwright.jupyter.tools.current.streaming import watched
from cellwright.jupyter.tools.current.writing import InsertAt
from cellwright.jupyter.tools.notebooks import InsertedCells, insert_nb_cells
from cellwright.jupyter.tools.running import CellsExecuted, execute_nb_cells
from cellwright.notebook.addressing import at
from cellwright.notebook.model import Kind

OUTPUT_CHARACTERS = 10_000
CELL_SECONDS = 300.0
IPYTHON_SECONDS = 60.0

Seconds = Annotated[float, Field(description="a longer run goes on: get_execution has the rest")]
Interval = Annotated[float, Field(ge=0.1, le=3_600, description="seconds between progress messages")]


class CellExecuted(CellsExecuted):
    path: str


class CodeRun(RunReport):
    message: str
    path: str


async def execute_cell_simple_timeout(
    cells: CurrentCells,
    call: Call,
    cell_index: CellIndex,
    timeout_seconds: Seconds = CELL_SECONDS,
    notebook: NotebookName = None,
) -> Reply[CellExecuted]:
    """Run a cell in the notebook's kernel and wait for its outputs."""
    return await _execute(cells, call, cell_index, timeout_seconds, notebook)


async def execute_cell_with_progress(
    cells: CurrentCells,
    call: Call,
    cell_index: CellIndex,
    timeout_seconds: Seconds = CELL_SECONDS,
    notebook: NotebookName = None,
) -> Reply[CellExecuted]:
    """Run a cell and wait for its outputs; progress tells its newest line, at most twice a second."""
    return await _execute(cells, call, cell_index, timeout_seconds, notebook)


async def execute_cell_streaming(
    cells: CurrentCells,
    call: Call,
    cell_index: CellIndex,
    timeout_seconds: Seconds = CELL_SECONDS,
    progress_interval: Interval = 5.0,
    notebook: NotebookName = None,
) -> Reply[CodeRun]:
    """Run a cell; all that it puts out is told as progress while it runs, and again in the result."""
    wait_seconds(timeout_seconds)
    path = cells.path_to_change(call, notebook)
    reply = await _run(cells, call, path, cell_index, 0)
    execution = cells.notebooks.executions.get(call.principal.id, reply.data["execution_id"])
    view = await watched(execution, call, timeout_seconds, progress_interval)
    return await _code_run(cells, call, view, f"cell {cell_index}", path)


class InsertedCellRun(InsertedCells):
    path: str


async def insert_execute_code_cell(
    cells: CurrentCells,
    call: Call,
    cell_index: InsertAt,
    cell_source: str,
    notebook: NotebookName = None,
    timeout_seconds: Seconds = CELL_SECONDS,
) -> Reply[InsertedCellRun]:
    """Insert a code cell, run it and wait for its outputs."""
    path = cells.path_to_change(call, notebook)
    new = [Insertion(cell_source)]
    reply = await insert_nb_cells(
        cells.notebooks,
        call,
        path.text,
        cell_index,
        new,
        max_cell_output_size=OUTPUT_CHARACTERS,
        timeout=timeout_seconds,
    )
    (inserted,) = reply.data["cells"]
    message = f"Inserted code cell {inserted['index']} in {path}"
    answer: InsertedCellRun = {**reply.data, "message": message, "path": path.text}
    return run_reply(Reply(answer, reply.content, reply.failed), message, failure=reply.data.get("error"))


async def execute_ipython(
    cells: CurrentCells,
    call: Call,
    code: str,
    timeout: Seconds = IPYTHON_SECONDS,  # noqa: ASYNC109 - the contract's name
    notebook: NotebookName = None,
) -> Reply[CodeRun]:
    """Run code in the notebook's kernel without a cell: also %magics and !shell commands. People do not see it in the notebook."""
    wait_seconds(timeout)
    require_run(call)
    path = cells.path_to_change(call, notebook)
    session = await cells.notebooks.session(call, path)
    queue = await cells.notebooks.queue(call, session)
    # Not in the history: the numbers and `_` of the people in this notebook stay theirs.
    job = CellJob(lambda: code, store_history=False)
    execution = queue.submit(call.principal.id, [job], runner=runner_of(call, path))
    try:
        view = await execution.wait(timeout, call.report)
    except asyncio.CancelledError:
        await call_cancelled(call, execution)
        raise
    return await _code_run(cells, call, view, "code without a cell", path)


async def _code_run(
    cells: CurrentCells, call: Call, view: ExecutionView, what: str, path: NotebookPath
) -> Reply[CodeRun]:
    report = await run_report(cells.notebooks, call, view, path, OUTPUT_CHARACTERS)
    answer: CodeRun = {"message": _message(view.state.value, what, path), "path": path.text, **report.data}
    return run_reply(Reply(answer, report.content, report.failed))


async def _execute(
    cells: CurrentCells, call: Call, cell_index: int, wait: float, notebook: str | None
) -> Reply[CellExecuted]:
    path = cells.path_to_change(call, notebook)
    reply = await _run(cells, call, path, cell_index, wait)
    message = _message(reply.data["status"], f"cell {cell_index}", path)
    answer: CellExecuted = {**reply.data, "message": message, "path": path.text}
    return run_reply(Reply(answer, reply.content, reply.failed))


async def _run(cells: CurrentCells, call: Call, path: NotebookPath, index: int, wait: float) -> Reply[CellsExecuted]:
    async with cells.notebooks.open(call, path) as document:
        (cell,) = cells.notebooks.sight(call, path).cells(document.view, [at(index)])
        head = document.view.head(cell.index)
    if head.cell_type != Kind.CODE:
        raise InvalidArgument(f"cell {index} of {path} is not code", hint="list_cells shows the type of each cell")
    return await execute_nb_cells(cells.notebooks, call, path.text, [Range(start=index)], OUTPUT_CHARACTERS, wait)


def _message(status: str, what: str, path: NotebookPath) -> str:
    return f"{status}: {what} in the kernel of {path}"
