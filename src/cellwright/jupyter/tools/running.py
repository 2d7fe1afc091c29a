"""Running cells of a notebook: some, all, those above or below one; and all of them after a restart."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import Field

from cellwright.core.errors import CellwrightError, InvalidArgument
from cellwright.core.toolset import Reply
from cellwright.core.types import Call
from cellwright.jupyter.documents.open_document import OpenDocument
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.inside.permitted import require_run
from cellwright.jupyter.kernels.executions import ExecutionView
from cellwright.jupyter.model import CellType, JsonObject
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.service import LiveNotebooks, wait_seconds
from cellwright.jupyter.tools.common import (
    DEFAULT_OUTPUT_SIZE,
    DEFAULT_WAIT,
    NotBegun,
    OutputSize,
    Path,
    Range,
    Wait,
    author_of,
    how_it_went,
    run_if_asked,
    with_run,
)
from cellwright.notebook.addressing import runs_of
from cellwright.notebook.run import RunStatus

MOST_NAMED = 20
Which = Annotated[
    Literal["all", "above", "below"] | None,
    Field(description="above, or from, the one cell in ranges; or all"),
]
KeepGoing = Annotated[bool, Field(description="run on past cells that raise")]


async def execute_nb_cells(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    ranges: list[Range] | None = None,
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
    timeout: Wait = DEFAULT_WAIT,  # noqa: ASYNC109 - the contract's name
    cells: Which = None,
    keep_going: KeepGoing = False,
) -> Reply[dict[str, Any]]:
    """Run cells in order in the notebook's kernel, the one people use. Stops at the first error: the rest is not_run."""
    wait_seconds(timeout)
    checked = NotebookPath(path)
    require_run(call)
    async with notebooks.open(call, checked) as document:
        view = document.view
        code = _code_among(view, _meant(view, ranges, cells))
        ids = await _own_ids(document, code, call)
    if not ids:
        raise InvalidArgument("none of these cells is a code cell", hint="get_nb_stat with outline shows which are")
    ran = await notebooks.run(call, checked, ids, timeout, keep_going=keep_going)
    begun = sum(cell.state not in {RunStatus.NOT_RUN, RunStatus.QUEUED} for cell in ran.cells)
    done: JsonObject = {
        "message": how_it_went(ran),
        "executed_ranges": len(ranges or ()) if cells is None else 1,
        "executed_cells": begun,
    }
    return await with_rest(notebooks, call, checked, done, ran, max_cell_output_size)


def _meant(view: LiveNotebook, ranges: list[Range] | None, cells: str | None) -> list[int]:
    """The cells that a call names, by ranges or by a word."""
    if cells == "all":
        if ranges:
            raise InvalidArgument('cells: "all" goes without ranges', hint='Leave one out; "below" begins at a cell')
        return list(range(view.cell_count))
    if ranges is None:
        raise InvalidArgument("which cells?", hint='Give ranges, or cells: "all"')
    named = view.resolve([one.checked() for one in ranges])
    if cells is None:
        return named
    if len(named) != 1:
        raise InvalidArgument(
            f"cells: {cells!r} is relative to one cell, {len(named)} were named", hint='ranges: [{"id": "…"}] names it'
        )
    return list(range(named[0]) if cells == "above" else range(named[0], view.cell_count))


def _code_among(view: LiveNotebook, indexes: Sequence[int]) -> list[int]:
    return [index for index in indexes if view.head(index).cell_type == CellType.CODE]


async def _own_ids(document: OpenDocument[LiveNotebook], indexes: Sequence[int], call: Call) -> list[str]:
    """Ids by which these cells are found while they run; two cells of one id get one each."""
    if document.view.have_own_ids(indexes):
        return [document.view.id_at(index) for index in indexes]
    # In one step with the resolving that came before: nothing was awaited since.
    ids, _ = await document.change(lambda view: view.own_ids(indexes, author=author_of(call)))
    return ids


async def with_rest(
    notebooks: LiveNotebooks,
    call: Call,
    path: NotebookPath,
    done: JsonObject,
    ran: ExecutionView | NotBegun | None,
    limit: int,
) -> Reply[dict[str, Any]]:
    """A run's result, with the cells that raised and the call that runs what was left out because of them."""
    if not isinstance(ran, ExecutionView):
        return await with_run(notebooks, call, done, ran, path, limit)
    raised = [cell.cell_id for cell in ran.cells if cell.state is RunStatus.ERROR]
    if ran.state.ended and raised:
        done = {**done, "failed_cells": raised}
        left = [cell.cell_id for cell in ran.cells if cell.state is RunStatus.NOT_RUN]
        # Where the notebook cannot be had any more the run has happened all the same.
        with suppress(CellwrightError):
            async with notebooks.open(call, path) as document:
                there = [document.view.index_of(cell_id) for cell_id in left if cell_id in document.view.ids]
                if there:
                    done["next"] = _next_call(document.view, path, there)
    return await with_run(notebooks, call, done, ran, path, limit)


def _next_call(view: LiveNotebook, path: NotebookPath, left: Sequence[int]) -> str:
    """The exact call that runs these cells: by the first if they are all that follow it, else by name."""
    arguments: JsonObject = {"path": path.text}
    if left == _code_among(view, range(left[0], view.cell_count)):
        arguments |= {"cells": "below", "ranges": [{"id": view.id_at(left[0])}]}
    elif len(left) <= MOST_NAMED:
        arguments["ranges"] = [{"id": view.id_at(index)} for index in left]
    else:
        arguments["ranges"] = [{"start": start, "end": end} for start, end in runs_of(left)]
    return (
        f"{len(left)} not run; to run them all the same: execute_nb_cells({json.dumps(arguments, ensure_ascii=False)})"
    )


async def restart_nb_kernel(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    clear_outputs: bool = False,
    exec: bool = True,  # noqa: A002 - the contract's name
    kernel_name: str | None = None,
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
    timeout: Wait = DEFAULT_WAIT,  # noqa: ASYNC109
) -> Reply[dict[str, Any]]:
    """Restart the notebook's kernel (variables are lost), then run all code cells in order unless exec is false."""
    wait_seconds(timeout)
    checked = NotebookPath(path)
    await notebooks.restart(call, checked, kernel_name)
    async with notebooks.open(call, checked) as document:
        if clear_outputs:
            await document.change(lambda view: view.clear_outputs(author=author_of(call)))
        code = _code_among(document.view, range(document.view.cell_count)) if exec else []
        ids = await _own_ids(document, code, call)
    done: JsonObject = {"message": "Restarted the kernel", "kernel_restarted": True, "outputs_cleared": clear_outputs}
    view = await run_if_asked(notebooks, call, checked, ids, wanted=exec, wait=timeout)
    done["cells_executed"] = isinstance(view, ExecutionView)
    return await with_rest(notebooks, call, checked, done, view, max_cell_output_size)
