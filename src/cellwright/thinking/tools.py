"""Toolset `thinking`: notebooks to think in, gone when they are no longer used, unless kept."""

from typing import Annotated, Literal

from pydantic import Field

from cellwright.core.toolset import DataAsText, Image, Reply, Toolset, read, run, write
from cellwright.core.types import Call
from cellwright.notebook.model import Cell, Kind, language_named
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
from cellwright.thinking.runs import Ran
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
    return _made(thinking, call, view)


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
    return {**_about(thinking, call, notebook), "cell": _cell(notebook, cell, cell.index)}


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
    return {**_about(thinking, call, notebook), "cell": _cell(notebook, cell, cell.index)}


async def notebook_delete_cell(
    thinking: Thinking, call: Call, notebook_id: NotebookId, cell_id: CellId
) -> CellDeletion:
    """Delete a cell with its outputs."""
    notebook = await thinking.delete_cell(call, notebook_id, cell_id)
    return {**_about(thinking, call, notebook), "deleted": cell_id}


async def notebook_run_cell(
    thinking: Thinking, call: Call, notebook_id: NotebookId, cell_id: CellId, timeout_ms: Wait = DEFAULT_WAIT
) -> Reply[NotebookRun]:
    """Run a cell in the notebook's own kernel; variables stay between cells."""
    return await _ran(thinking, call, await thinking.run(call, notebook_id, cell_id, timeout_ms / 1000))


async def notebook_run_all(
    thinking: Thinking, call: Call, notebook_id: NotebookId, timeout_ms: Wait = DEFAULT_WAIT
) -> Reply[NotebookRun]:
    """Run all code cells in order; stops at the first error."""
    return await _ran(thinking, call, await thinking.run(call, notebook_id, None, timeout_ms / 1000))


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
    about = _about(thinking, call, view.notebook)
    for index, cell in enumerate(view.cells):
        if cell.id == cell_id:
            shown, pictures = await _whole_cell(thinking, call, view.notebook, cell, index)
            return Reply({**about, "cells": [shown]}, (DataAsText(), *pictures) if pictures else None)
    if cell_id is not None:
        raise no_cell(cell_id)
    listed: list[CellSummary] = [
        {**_cell(view.notebook, cell, index), "status": cell.status, "outputs": len(cell.outputs)}
        for index, cell in enumerate(view.cells)
    ]
    return Reply({**about, "cells": listed})


async def notebook_export(
    thinking: Thinking,
    call: Call,
    notebook_id: NotebookId,
    format: Literal["srcmd", "json", "ipynb", "md"] = "srcmd",  # noqa: A002 - the contract's name
) -> NotebookText:
    """The notebook as a file's text; `losses` says what the format cannot hold. contentUri has all of a long one."""
    notebook, text = await thinking.text(call, notebook_id, format)
    made: NotebookText = {
        **_about(thinking, call, notebook),
        "format": format,
        "mimeType": text.mime_type,
        "contentUri": notebook.uri if format == "srcmd" else f"{notebook.uri}/{format}",
        "losses": list(text.losses),
        "content": text.body,
    }
    if text.hidden:
        made["hiddenCharactersRemoved"] = text.hidden
    return made


async def notebook_import(
    thinking: Thinking,
    call: Call,
    content: str,
    format: Literal["srcmd", "json", "ipynb", "md"] = "srcmd",  # noqa: A002
    session: Session = None,
) -> ImportedNotebook:
    """A new notebook from a file's text."""
    view, notes = await thinking.import_(call, content, format, session)
    made: ImportedNotebook = {**_made(thinking, call, view)}
    if notes:
        made["notes"] = notes
    return made


async def notebook_keep(
    thinking: Thinking,
    call: Call,
    notebook_id: NotebookId,
    path: Annotated[str, Field(description="folder/name.ipynb in the Jupyter workspace, or scratchpad://ID")],
) -> KeptNotebook:
    """Keep a notebook for good, as a real notebook or as a pad. Nothing is overwritten."""
    notebook, kept = await thinking.keep(call, notebook_id, path)
    about = _about(thinking, call, notebook)
    return {**about, "path": kept.path, "keptUri": kept.uri, "losses": list(kept.losses)}


async def notebook_close(thinking: Thinking, call: Call, notebook_id: NotebookId) -> ClosedNotebook:
    """Delete a notebook and end its kernel."""
    notebook = await thinking.close_notebook(call, notebook_id)
    return {**_about(thinking, call, notebook), "kernel": "none", "closed": True}


def _about(thinking: Thinking, call: Call, notebook: ThinkingNotebook) -> NotebookState:
    about: NotebookState = {
        "notebookId": notebook.id,
        "sessionId": notebook.session,
        "uri": notebook.uri,
        "cellCount": notebook.cell_count,
        "kernel": thinking.kernel_state(call.principal.id, notebook),
    }
    note = thinking.kernel_note(call.principal.id, notebook)
    return {**about, "kernelNote": note} if note else about


def _made(thinking: Thinking, call: Call, view: ThinkingView) -> NewNotebook:
    notebook = view.notebook
    cells = [_cell(notebook, cell, index) for index, cell in enumerate(view.cells[:SHOWN_CELLS])]
    return {
        **_about(thinking, call, notebook),
        "title": Cleaner().text(notebook.title),
        "pattern": notebook.pattern or "blank",
        "language": notebook.language,
        "createdAt": moment(notebook.created),
        "cells": cells,
    }


def _identity(notebook: ThinkingNotebook, cell: Cell, index: int) -> CellIdentity:
    made: CellIdentity = {"id": cell.id, "index": index, "type": cell.kind.value}
    if cell.kind is Kind.CODE:
        made["language"] = language_named(cell.language or notebook.language)
    if cell.filename:
        made["filename"] = Cleaner().text(cell.filename)
    return made


def _cell(notebook: ThinkingNotebook, cell: Cell, index: int) -> CellLine:
    first = Cleaner().source(cell.source[:400]).strip().partition("\n")[0][:80]
    return {**_identity(notebook, cell, index), "starts": first}


async def _whole_cell(
    thinking: Thinking, call: Call, notebook: ThinkingNotebook, cell: Cell, index: int
) -> tuple[ThinkingCellReading, list[Image]]:
    """A cell, and the pictures in its outputs."""
    cleaner = Cleaner()
    links = [output_uri(notebook, cell.id, number) for number in range(len(cell.outputs))]
    shown = await thinking.kernels.show(call, cell.outputs, READ_CHARACTERS, MAX_PICTURES, links)
    made: ThinkingCellReading = {
        **_identity(notebook, cell, index),
        "source": cleaner.source(cell.source),
        "status": cell.status,
        "executionCount": cell.execution_count,
        "outputs": shown.outputs,
        "truncated": shown.truncated,
    }
    if hidden := cleaner.hidden + shown.hidden:
        made["hiddenCharactersRemoved"] = hidden
    return made, shown.pictures


async def _ran(thinking: Thinking, call: Call, ran: Ran) -> Reply[NotebookRun]:
    """A run as it stands, its pictures, and the truth about how it went."""
    notebook, view = ran.notebook, ran.view
    pictures: list[Image] = []
    results: list[RunResult] = []
    for cell in view.cells:
        kept = thinking.kept_places(cell.outputs)
        links = [
            output_uri(notebook, cell.cell_id, kept[number]) if number in kept else ""
            for number in range(len(cell.outputs))
        ]
        shown = await thinking.kernels.show(call, cell.outputs, OUTPUT_CHARACTERS, MAX_PICTURES - len(pictures), links)
        pictures += shown.pictures
        results.append({**_ran_cell(cell), "outputs": shown.outputs, "truncated": shown.truncated})
    uri = f"{notebook.uri}/executions/{view.id}"
    standing: RunStanding = {
        **_about(thinking, call, notebook),
        "executionId": view.id,
        "executionUri": uri,
        "status": view.status.value,
    }
    if ran.skipped:
        standing["skipped"] = ran.skipped
    if ran.notes:
        standing["notes"] = ran.notes
    if not view.status.ended:
        standing["next"] = f"still running: read {uri}, or get_execution; cancel_execution stops it"
    data: NotebookRun = {**standing, "results": results}
    return Reply(data, (DataAsText(), *pictures) if pictures else None, failed=view.failed)


def _ran_cell(outcome: CellOutcome) -> RanCell:
    told: OutcomeRecord = Cleaner().json(outcome_json(outcome))
    made: RanCell = {"cellId": told["cellId"], "status": told["status"]}
    if told["executionCount"] is not None:
        made["executionCount"] = told["executionCount"]
    if told["durationMs"] is not None:
        made["durationMs"] = told["durationMs"]
    if "error" in told:
        made["error"] = told["error"]
    if "notes" in told:
        made["notes"] = told["notes"]
    return made


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
