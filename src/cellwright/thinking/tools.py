"""Toolset `thinking`: notebooks to think in, gone when they are no longer used, unless kept."""

from typing import Annotated, Literal

from pydantic import Field

from cellwright.core.toolset import DataAsText, Image, Reply, Toolset, read, run, write
from cellwright.core.types import Call
from cellwright.notebook.model import Cell, Kind, ReadableFormat, language_named
from cellwright.notebook.run import CellOutcome
from cellwright.thinking.answers import (
    CellDeletion,
    CellIdentity,
    CellLine,
    CellSummary,
    ClosedNotebook,
    ImportedNotebook,
    KeptNotebook,
    NewNotebook,
    NotebookRun,
    NotebookState,
    NotebookText,
    RanCell,
    RunResult,
    RunStanding,
    ThinkingCellReading,
    ThinkingReading,
    WrittenCell,
)
from cellwright.thinking.drafts import CellDraft
from cellwright.thinking.model import ThinkingNotebook, ThinkingView
from cellwright.thinking.outputs import Cleaner
from cellwright.thinking.reading import OutcomeRecord, moment, outcome_json, output_uri
from cellwright.thinking.runs import StartedRun
from cellwright.thinking.service import Thinking
from cellwright.thinking.store import no_cell

NotebookId = Annotated[str, Field(alias="notebookId")]
CellId = Annotated[str, Field(alias="cellId")]
CellType = Annotated[Literal["code", "markdown"], Field(alias="cellType")]
Index = Annotated[int | None, Field(ge=0, description="place; the end if not given")]
Wait = Annotated[
    int, Field(alias="timeoutMs", ge=0, le=86_400_000, description="how long to wait; a longer run goes on")
]
Session = Annotated[str | None, Field(description="a sessionId you were given; else your own")]
DEFAULT_WAIT = 30_000
OUTPUT_CHARACTERS = 2_000
READ_CHARACTERS = 8_000
MAX_PICTURES = 8
SHOWN_CELLS = 60


async def notebook_create(
    thinking: Thinking,
    call: Call,
    pattern: Annotated[
        str | None, Field(description="a template: notebook://templates has them; blank if not given")
    ] = None,
    title: str | None = None,
    language: str = "python",
    session: Session = None,
    problem: Annotated[str | None, Field(description="what the template is to think about")] = None,
) -> NewNotebook:
    """Make a notebook to think in, blank or from a reasoning template. It is gone after a time without use: notebook_keep keeps it."""
    view = await thinking.create(call, pattern, title, language, session, problem)
    return _new_notebook(thinking, call, view)


async def notebook_add_cell(
    thinking: Thinking,
    call: Call,
    notebook_id: NotebookId,
    source: str,
    cell_type: CellType = "code",
    language: str | None = None,
    filename: str | None = None,
    index: Index = None,
) -> WrittenCell:
    """Add a cell at the end, or at a place."""
    draft = CellDraft(source, Kind(cell_type), language, filename)
    notebook, cell = await thinking.add_cell(call, notebook_id, draft, index)
    return {**_state(thinking, call, notebook), "cell": _cell_line(notebook, cell, cell.index)}


async def notebook_update_cell(
    thinking: Thinking,
    call: Call,
    notebook_id: NotebookId,
    cell_id: CellId,
    source: str | None = None,
    language: str | None = None,
    filename: str | None = None,
    index: Annotated[int | None, Field(ge=0, description="move it there")] = None,
) -> WrittenCell:
    """Change a cell or move it; what is not given stays, outputs too."""
    draft = CellDraft(source, None, language, filename)
    notebook, cell = await thinking.update_cell(call, notebook_id, cell_id, draft, index)
    return {**_state(thinking, call, notebook), "cell": _cell_line(notebook, cell, cell.index)}


async def notebook_delete_cell(
    thinking: Thinking, call: Call, notebook_id: NotebookId, cell_id: CellId
) -> CellDeletion:
    """Delete a cell with its outputs."""
    notebook = await thinking.delete_cell(call, notebook_id, cell_id)
    return {**_state(thinking, call, notebook), "deleted": cell_id}


async def notebook_run_cell(
    thinking: Thinking, call: Call, notebook_id: NotebookId, cell_id: CellId, timeout_ms: Wait = DEFAULT_WAIT
) -> Reply[NotebookRun]:
    """Run a cell in the notebook's own kernel; variables stay between cells."""
    return await _run_reply(thinking, call, await thinking.run(call, notebook_id, cell_id, timeout_ms / 1000))


async def notebook_run_all(
    thinking: Thinking, call: Call, notebook_id: NotebookId, timeout_ms: Wait = DEFAULT_WAIT
) -> Reply[NotebookRun]:
    """Run all code cells in order; stops at the first error."""
    return await _run_reply(thinking, call, await thinking.run(call, notebook_id, None, timeout_ms / 1000))


async def notebook_read(
    thinking: Thinking,
    call: Call,
    notebook_id: NotebookId,
    cell_id: Annotated[
        str | None, Field(alias="cellId", description="one cell, with its outputs; else a line for each")
    ] = None,
) -> Reply[ThinkingReading]:
    """Read one cell with its outputs, or the list of cells."""
    view = await thinking.read(call, notebook_id)
    state = _state(thinking, call, view.notebook)
    for index, cell in enumerate(view.cells):
        if cell.id == cell_id:
            reading, pictures = await _cell_reading(thinking, call, view.notebook, cell, index)
            return Reply({**state, "cells": [reading]}, (DataAsText(), *pictures) if pictures else None)
    if cell_id is not None:
        raise no_cell(cell_id)
    summaries: list[CellSummary] = [
        {**_cell_line(view.notebook, cell, index), "status": cell.status, "outputs": len(cell.outputs)}
        for index, cell in enumerate(view.cells)
    ]
    return Reply({**state, "cells": summaries})


async def notebook_export(
    thinking: Thinking,
    call: Call,
    notebook_id: NotebookId,
    format: ReadableFormat = "srcmd",  # noqa: A002 - the contract's name
) -> NotebookText:
    """The notebook as a file's text; `losses` says what the format cannot hold. contentUri has all of a long one."""
    notebook, text = await thinking.text(call, notebook_id, format)
    reply: NotebookText = {
        **_state(thinking, call, notebook),
        "format": format,
        "mimeType": text.mime_type,
        "contentUri": notebook.uri if format == "srcmd" else f"{notebook.uri}/{format}",
        "losses": list(text.losses),
        "content": text.body,
    }
    if text.hidden:
        reply["hiddenCharactersRemoved"] = text.hidden
    return reply


async def notebook_import(
    thinking: Thinking,
    call: Call,
    content: str,
    format: ReadableFormat = "srcmd",  # noqa: A002
    session: Session = None,
) -> ImportedNotebook:
    """A new notebook from a file's text."""
    view, notes = await thinking.import_(call, content, format, session)
    reply: ImportedNotebook = {**_new_notebook(thinking, call, view)}
    if notes:
        reply["notes"] = notes
    return reply


async def notebook_keep(
    thinking: Thinking,
    call: Call,
    notebook_id: NotebookId,
    path: Annotated[str, Field(description="folder/name.ipynb in the Jupyter workspace, or scratchpad://ID")],
) -> KeptNotebook:
    """Keep a notebook for good, as a real notebook or as a pad. Nothing is overwritten."""
    notebook, place = await thinking.keep(call, notebook_id, path)
    state = _state(thinking, call, notebook)
    return {**state, "path": place.path, "keptUri": place.uri, "losses": list(place.losses)}


async def notebook_close(thinking: Thinking, call: Call, notebook_id: NotebookId) -> ClosedNotebook:
    """Delete a notebook and end its kernel."""
    notebook = await thinking.close_notebook(call, notebook_id)
    return {**_state(thinking, call, notebook), "kernel": "none", "closed": True}


def _state(thinking: Thinking, call: Call, notebook: ThinkingNotebook) -> NotebookState:
    state: NotebookState = {
        "notebookId": notebook.id,
        "sessionId": notebook.session,
        "uri": notebook.uri,
        "cellCount": notebook.cell_count,
        "kernel": thinking.kernel_state(call.principal.id, notebook),
    }
    note = thinking.kernel_note(call.principal.id, notebook)
    return {**state, "kernelNote": note} if note else state


def _new_notebook(thinking: Thinking, call: Call, view: ThinkingView) -> NewNotebook:
    notebook = view.notebook
    cells = [_cell_line(notebook, cell, index) for index, cell in enumerate(view.cells[:SHOWN_CELLS])]
    return {
        **_state(thinking, call, notebook),
        "title": Cleaner().text(notebook.title),
        "pattern": notebook.pattern or "blank",
        "language": notebook.language,
        "createdAt": moment(notebook.created),
        "cells": cells,
    }


def _identity(notebook: ThinkingNotebook, cell: Cell, index: int) -> CellIdentity:
    identity: CellIdentity = {"id": cell.id, "index": index, "type": cell.kind.value}
    if cell.kind is Kind.CODE:
        identity["language"] = language_named(cell.language or notebook.language)
    if cell.filename:
        identity["filename"] = Cleaner().text(cell.filename)
    return identity


def _cell_line(notebook: ThinkingNotebook, cell: Cell, index: int) -> CellLine:
    first = Cleaner().source(cell.source[:400]).strip().partition("\n")[0][:80]
    return {**_identity(notebook, cell, index), "starts": first}


async def _cell_reading(
    thinking: Thinking, call: Call, notebook: ThinkingNotebook, cell: Cell, index: int
) -> tuple[ThinkingCellReading, list[Image]]:
    """A cell, and the pictures in its outputs."""
    cleaner = Cleaner()
    links = [output_uri(notebook, cell.id, number) for number in range(len(cell.outputs))]
    shown_outputs = await thinking.kernels.show(call, cell.outputs, READ_CHARACTERS, MAX_PICTURES, links)
    reading: ThinkingCellReading = {
        **_identity(notebook, cell, index),
        "source": cleaner.source(cell.source),
        "status": cell.status,
        "executionCount": cell.execution_count,
        "outputs": shown_outputs.outputs,
        "truncated": shown_outputs.truncated,
    }
    if hidden := cleaner.hidden + shown_outputs.hidden:
        reading["hiddenCharactersRemoved"] = hidden
    return reading, shown_outputs.pictures


async def _run_reply(thinking: Thinking, call: Call, started: StartedRun) -> Reply[NotebookRun]:
    """The status of a run and of its cells, with their outputs and pictures."""
    notebook, view = started.notebook, started.view
    pictures: list[Image] = []
    results: list[RunResult] = []
    for cell in view.cells:
        stored_numbers = thinking.stored_numbers(cell.outputs)
        links = [
            output_uri(notebook, cell.cell_id, stored_numbers[number]) if number in stored_numbers else ""
            for number in range(len(cell.outputs))
        ]
        room = MAX_PICTURES - len(pictures)
        shown_outputs = await thinking.kernels.show(call, cell.outputs, OUTPUT_CHARACTERS, room, links)
        pictures += shown_outputs.pictures
        results.append({**_ran_cell(cell), "outputs": shown_outputs.outputs, "truncated": shown_outputs.truncated})
    uri = f"{notebook.uri}/executions/{view.id}"
    standing: RunStanding = {
        **_state(thinking, call, notebook),
        "executionId": view.id,
        "executionUri": uri,
        "status": view.status.value,
    }
    if started.skipped:
        standing["skipped"] = started.skipped
    if started.notes:
        standing["notes"] = started.notes
    if not view.status.ended:
        standing["next"] = f"still running: read {uri}, or get_execution; cancel_execution stops it"
    reply: NotebookRun = {**standing, "results": results}
    return Reply(reply, (DataAsText(), *pictures) if pictures else None, failed=view.failed)


def _ran_cell(outcome: CellOutcome) -> RanCell:
    record: OutcomeRecord = Cleaner().json(outcome_json(outcome))
    ran_cell: RanCell = {"cellId": record["cellId"], "status": record["status"]}
    if record["executionCount"] is not None:
        ran_cell["executionCount"] = record["executionCount"]
    if record["durationMs"] is not None:
        ran_cell["durationMs"] = record["durationMs"]
    if "error" in record:
        ran_cell["error"] = record["error"]
    if "notes" in record:
        ran_cell["notes"] = record["notes"]
    return ran_cell


def thinking_toolset(thinking: Thinking) -> Toolset:
    return Toolset(
        "thinking",
        "notebooks to think in: reasoning templates, real kernels, gone when unused unless kept",
        (
            write(notebook_create),
            write(notebook_add_cell),
            write(notebook_update_cell, idempotent=True),
            write(notebook_delete_cell, destructive=True),
            run(notebook_run_cell),
            run(notebook_run_all),
            read(notebook_read),
            read(notebook_export),
            write(notebook_import),
            write(notebook_keep, long=True),
            write(notebook_close, destructive=True),
        ),
        thinking,
    )
