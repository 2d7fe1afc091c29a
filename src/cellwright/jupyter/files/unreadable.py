"""Finds out why Jupyter cannot open a notebook. Jupyter only says that it cannot, or nothing at all, so we look at the file."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from cellwright.core.errors import CellwrightError, NotFound
from cellwright.jupyter.documents.shareable import excerpt, not_shared
from cellwright.jupyter.errors import JupyterDenied
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.model import FileKind, JsonObject
from cellwright.jupyter.port import Documents
from cellwright.notebook.formats.older import as_current
from cellwright.notebook.model import InvalidFormat, Kind, joined

KNOWN_FORMATS = (1, 2, 3, 4)
CURRENT = 4
LONG_SECONDS = 3.0
"""If opening a room takes longer than this, we look at the file."""
WRITING_SECONDS = 0.5

T = TypeVar("T")


async def opened(documents: Documents, path: DocPath, opening: Coroutine[Any, Any, T]) -> T:
    """Await `opening`. If it fails or takes long, look at the file, and raise InvalidFormat if something is wrong in it.

    For some files the server neither opens the room nor refuses it.
    """
    task = asyncio.ensure_future(opening)
    diagnosis: asyncio.Future[InvalidFormat | None] | None = None
    try:
        await asyncio.wait({task}, timeout=LONG_SECONDS)
        if not task.done():
            diagnosis = asyncio.ensure_future(_reason(documents, path))
            await asyncio.wait({task, diagnosis}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and (reason := diagnosis.result()) is not None:
                raise reason
        return await task
    except (NotFound, JupyterDenied, InvalidFormat):
        raise
    except CellwrightError as error:
        reason = await _reason(documents, path)
        if reason is None:
            raise
        raise reason from error
    finally:
        for unfinished in (task, diagnosis):
            if unfinished is not None and not unfinished.done():
                unfinished.cancel()
                await asyncio.gather(unfinished, return_exceptions=True)


async def _reason(documents: Documents, path: DocPath) -> InvalidFormat | None:
    """The error that says what is wrong in the file; None if nothing is, or the file cannot be read."""
    problem = await _problem_in_file(documents, path)
    if problem:
        # The server empties a file before it writes it, and restores it where the disk is full: only a problem that stays counts.
        await asyncio.sleep(WRITING_SECONDS)
        problem = await _problem_in_file(documents, path)
    if not problem:
        return None
    return InvalidFormat(
        f"{path} is not a notebook that Jupyter can open: {problem}",
        hint="trying again will not help: mend that in the file with a text editor, or write it anew",
    )


async def _problem_in_file(documents: Documents, path: DocPath) -> str:
    """What is wrong in the file now; empty if nothing is, or the file cannot be read."""
    try:
        file = await documents.read(path, FileKind.FILE)
    except CellwrightError:
        return ""
    return "it is not text in UTF-8" if file.format != "text" else await asyncio.to_thread(what_is_wrong, file.content)


def what_is_wrong(content: Any) -> str:  # noqa: ANN401 - as the server sent it
    """What keeps this text from being a notebook; empty if nothing is seen."""
    text = joined(content)
    try:
        notebook: object = json.loads(text)
    except RecursionError:
        return "its JSON is nested too deeply"
    except ValueError as error:
        at = f", line {error.lineno} column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return f"it is not JSON{at}" if text.strip() else "it is empty"
    if not isinstance(notebook, dict):
        return "it is JSON, but no object"
    return _problem_in_notebook(cast("JsonObject", notebook))


def _problem_in_notebook(notebook: JsonObject) -> str:
    version = notebook.get("nbformat")
    if version not in KNOWN_FORMATS:
        return f"its nbformat is {excerpt(version)}, not a number from 1 to 4"
    if version != CURRENT:
        return _problem_in_older(notebook, version)
    if not isinstance(notebook.get("metadata"), dict):
        return "its metadata is not an object"
    cells = notebook.get("cells")
    if not isinstance(cells, list):
        return "it has no list of cells"
    for index, cell in enumerate(cast("list[object]", cells)):
        if problem := _problem_in_cell(cell):
            return f"cell {index} (from 0) {problem}"
    problem = not_shared({**notebook, "cells": None})
    return f"its metadata {problem}" if problem else ""


def _problem_in_older(notebook: JsonObject, version: int) -> str:
    try:
        as_current(notebook, version)
    except InvalidFormat:
        return f"it says nbformat {version}, but cannot be converted from that"
    return ""


def _problem_in_cell(value: object) -> str:
    if not isinstance(value, dict):
        return "is not an object"
    cell = cast("JsonObject", value)
    source = cell.get("source")
    lines: list[object] = cast("list[object]", source) if isinstance(source, list) else [source]
    kind = cell.get("cell_type")
    checks = {
        f"has {excerpt(kind)} as cell_type, not code, markdown or raw": kind in list(Kind),
        "has a source that is neither text nor lines of text": all(isinstance(line, str) for line in lines),
        "has no metadata": isinstance(cell.get("metadata"), dict),
        "has outputs that are not a list of objects": are_outputs(cell.get("outputs", [])),
    }
    return next((problem for problem, is_right in checks.items() if not is_right), "") or not_shared(cell)


def are_outputs(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(output, dict) for output in cast("list[object]", value))
