"""A notebook as text to be read: cleaned, in any format, converted once for each version."""

import asyncio
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, NotRequired

from pydantic_core import to_json
from typing_extensions import TypedDict

from cellwright.core.text.cutting import cut_text
from cellwright.notebook.formats.registry import FORMATS
from cellwright.notebook.model import UNTITLED, Cell, language_named, mime_of
from cellwright.notebook.run import CellOutcome, RunView
from cellwright.storage.cells import NotebookKey
from cellwright.thinking.model import JsonObject, ThinkingNotebook
from cellwright.thinking.outputs import Cleaner
from cellwright.workers.conversions import Conversions

CACHED_BYTES = 16 * 1024 * 1024
"""Measured in memory, where one wide letter makes its whole text four bytes a letter."""
ERROR_CHARACTERS = 1_000
JSON_MIME = "application/json"
FORMS = (*FORMATS, "cells")
"""The forms in which a notebook can be read."""


@dataclass(frozen=True, slots=True)
class Text:
    """A notebook, or a part of it, as text for a model."""

    body: str
    mime_type: str
    losses: tuple[str, ...] = ()
    hidden: int = 0


def moment(microseconds: int) -> str:
    """A time of ours as ISO 8601 in UTC."""
    return (
        datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def time_of(time: datetime | None) -> str | None:
    return None if time is None else moment(int(time.timestamp() * 1_000_000))


def output_uri(notebook: ThinkingNotebook, cell_id: str, number: int) -> str:
    return f"{notebook.uri}/cells/{cell_id}/outputs/{number}"


def meta_of(notebook: ThinkingNotebook) -> dict[str, object]:
    """The metadata of every content item of a notebook. What the notebook does not have (a pattern, a run) is left out."""
    about = {
        "sessionId": notebook.session,
        "notebookId": notebook.id,
        "pattern": notebook.pattern or None,
        "cellCount": notebook.cell_count,
        "createdAt": moment(notebook.created),
        "lastModified": moment(notebook.modified),
        "lastExecuted": None if notebook.executed is None else moment(notebook.executed),
        "totalExecutions": notebook.executions,
        "hasErrors": notebook.has_errors,
    }
    return {name: value for name, value in about.items() if value is not None}


def cleaned_cells(cells: Sequence[Cell], cleaner: Cleaner) -> list[Cell]:
    return [
        replace(
            cell,
            source=cleaner.source(cell.source),
            filename=cleaner.text(cell.filename),
            language=cleaner.text(cell.language),
            outputs=tuple(cleaner.json(output) for output in cell.outputs),
            metadata=cleaner.json(dict(cell.metadata)),
        )
        for cell in cells
    ]


async def as_format(
    conversions: Conversions, notebook: ThinkingNotebook, cells: Sequence[Cell], name: str, caller: str
) -> Text:
    """The notebook as a file of this format, or its `cells`."""
    cleaner = Cleaner()

    def clean_notebook() -> tuple[ThinkingNotebook, list[Cell]]:
        title = cleaner.text(notebook.title) or UNTITLED
        about = replace(notebook, title=title, metadata=cleaner.json(dict(notebook.metadata)))
        return about, list(cleaned_cells(cells, cleaner))

    about, cleaned = await asyncio.to_thread(clean_notebook)
    if name == "cells":
        body = await asyncio.to_thread(lambda: to_json([cell_json(about, cell) for cell in cleaned]).decode())
        return Text(body, JSON_MIME, hidden=cleaner.hidden)
    converted = await conversions.write(about.with_cells(cleaned), name, caller, measured=False)
    return Text(converted.text, converted.mime_type, tuple(converted.losses), cleaner.hidden)


class CellMeta(TypedDict):
    """The metadata of a cell."""

    cellId: str
    cellType: str
    language: str
    filename: str | None
    status: str
    hasOutputs: bool


class CellRecord(TypedDict):
    """A cell with its outputs."""

    id: str
    type: str
    source: str
    language: NotRequired[str]
    filename: NotRequired[str]
    status: NotRequired[str]
    executionCount: int | None
    outputs: list[JsonObject]


MAY_BE_EMPTY: tuple[Literal["language", "filename", "status"], ...] = ("language", "filename", "status")
"""Keys of a cell's record that are left out if they are empty."""


class ProblemRecord(TypedDict):
    ename: str
    evalue: str
    hint: str


class OutcomeRecord(TypedDict):
    """A cell's run without its outputs."""

    cellId: str
    status: str
    executionCount: int | None
    startedAt: str | None
    endedAt: str | None
    durationMs: int | None
    error: NotRequired[ProblemRecord]
    notes: NotRequired[list[str]]


class CellRunRecord(OutcomeRecord):
    outputs: list[JsonObject]


class RunRecord(TypedDict):
    """A run: how it stands, what its cells put out, when."""

    id: str
    status: str
    createdAt: str | None
    startedAt: str | None
    endedAt: str | None
    durationMs: int | None
    notes: list[str]
    cells: list[CellRunRecord]


def cell_meta(notebook: ThinkingNotebook, cell: Cell) -> CellMeta:
    language = language_named(cell.language or notebook.language) if cell.kind.value == "code" else cell.kind.value
    return {
        "cellId": cell.id,
        "cellType": cell.kind.value,
        "language": language,
        "filename": cell.filename or None,
        "status": cell.status,
        "hasOutputs": bool(cell.outputs),
    }


def cell_json(notebook: ThinkingNotebook, cell: Cell) -> CellRecord:
    record: CellRecord = {
        "id": cell.id,
        "type": cell.kind.value,
        "source": cell.source,
        "language": cell_meta(notebook, cell)["language"],
        "filename": cell.filename,
        "status": cell.status,
        "executionCount": cell.execution_count,
        "outputs": list(cell.outputs),
    }
    for name in MAY_BE_EMPTY:
        if not record.get(name):
            record.pop(name, None)
    return record


def cell_source(notebook: ThinkingNotebook, cell: Cell) -> Text:
    cleaner = Cleaner()
    return Text(cleaner.source(cell.source), mime_of(cell_meta(notebook, cell)["language"]), hidden=cleaner.hidden)


def execution_json(view: RunView, outputs: Callable[[CellOutcome], list[JsonObject]]) -> RunRecord:
    return {
        "id": view.id,
        "status": view.status.value,
        "createdAt": time_of(view.created),
        "startedAt": time_of(view.started),
        "endedAt": time_of(view.ended),
        "durationMs": _duration(view.started, view.ended),
        "notes": list(view.notes),
        "cells": [{**outcome_json(cell), "outputs": outputs(cell)} for cell in view.cells],
    }


def outcome_json(cell: CellOutcome) -> OutcomeRecord:
    record: OutcomeRecord = {
        "cellId": cell.cell_id,
        "status": cell.status.value,
        "executionCount": cell.execution_count,
        "startedAt": time_of(cell.started),
        "endedAt": time_of(cell.ended),
        "durationMs": _duration(cell.started, cell.ended),
    }
    if cell.problem is not None:
        value = cut_text(cell.problem.value, ERROR_CHARACTERS)
        record["error"] = {"ename": cell.problem.name, "evalue": value, "hint": cell.problem.hint}
    if cell.notes:
        record["notes"] = list(cell.notes)
    return record


def _duration(started: datetime | None, ended: datetime | None) -> int | None:
    return None if started is None or ended is None else round((ended - started).total_seconds() * 1000)


class Texts:
    """Caches converted notebooks by version: converting a long one costs more than everything else about reading it."""

    def __init__(self) -> None:
        self._texts: OrderedDict[tuple[NotebookKey, str], tuple[int, Text]] = OrderedDict()
        self._bytes = 0

    def get(self, key: NotebookKey, name: str, version: int) -> Text | None:
        cached = self._texts.get((key, name))
        return cached[1] if cached is not None and cached[0] == version else None

    def put(self, key: NotebookKey, name: str, version: int, text: Text) -> None:
        self._drop((key, name))
        self._texts[key, name] = (version, text)
        self._bytes += sys.getsizeof(text.body)
        while self._bytes > CACHED_BYTES:
            self._drop(next(iter(self._texts)))

    def forget(self, key: NotebookKey) -> None:
        for cached_key in [cached_key for cached_key in self._texts if cached_key[0] == key]:
            self._drop(cached_key)

    def _drop(self, cached_key: tuple[NotebookKey, str]) -> None:
        cached = self._texts.pop(cached_key, None)
        if cached is not None:
            self._bytes -= sys.getsizeof(cached[1].body)
