"""Why Jupyter cannot open a notebook: it only says that it cannot, or nothing at all, so its file is looked at."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from cellwright.core.errors import CellwrightError, NotFound
from cellwright.jupyter.documents.shareable import excerpt, not_shared
from cellwright.jupyter.errors import JupyterDenied
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.model import CellType, FileKind, JsonObject, joined
from cellwright.jupyter.port import Documents
from cellwright.notebook.formats.older import as_current
from cellwright.notebook.model import InvalidFormat

KNOWN_FORMATS = (1, 2, 3, 4)
CURRENT = 4
LONG_SECONDS = 3.0
"""A room that takes longer to open than this makes one look at the file."""
WRITING_SECONDS = 0.5

T = TypeVar("T")


async def opened(documents: Documents, path: DocPath, opening: Coroutine[Any, Any, T]) -> T:
    """What opening the notebook gives. If that fails, or takes long, the file is looked at: InvalidFormat says what is wrong in it.

    For some files the server neither opens the room nor refuses it.
    """
    task = asyncio.ensure_future(opening)
    looking: asyncio.Future[InvalidFormat | None] | None = None
    try:
        await asyncio.wait({task}, timeout=LONG_SECONDS)
        if not task.done():
            looking = asyncio.ensure_future(_reason(documents, path))
            await asyncio.wait({task, looking}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and (reason := looking.result()) is not None:
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
        for unfinished in (task, looking):
            if unfinished is not None and not unfinished.done():
                unfinished.cancel()
                await asyncio.gather(unfinished, return_exceptions=True)


async def _reason(documents: Documents, path: DocPath) -> InvalidFormat | None:
    """What is wrong in the file, if it can be read and something is."""
    wrong = await _looked_at(documents, path)
    if wrong:
        # The server empties a file before it writes it, and puts it back where the disk is full: only what stays so is wrong.
        await asyncio.sleep(WRITING_SECONDS)
        wrong = await _looked_at(documents, path)
    if not wrong:
        return None
    return InvalidFormat(
        f"{path} is not a notebook that Jupyter can open: {wrong}",
        hint="trying again will not help: mend that in the file with a text editor, or write it anew",
    )


async def _looked_at(documents: Documents, path: DocPath) -> str:
    """What is wrong in the file now; empty if nothing is, or it cannot be read."""
    try:
        found = await documents.read(path, FileKind.FILE)
    except CellwrightError:
        return ""
    return (
        "it is not text in UTF-8" if found.format != "text" else await asyncio.to_thread(what_is_wrong, found.content)
    )


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
    return _wrong_in(cast("JsonObject", notebook))


def _can_be_converted(notebook: JsonObject, version: int) -> bool:
    try:
        as_current(notebook, version)
    except InvalidFormat:
        return False
    return True


def _wrong_in(notebook: JsonObject) -> str:
    version = notebook.get("nbformat")
    if version not in KNOWN_FORMATS:
        return f"its nbformat is {excerpt(version)}, not a number from 1 to 4"
    if version != CURRENT:
        return (
            ""
            if _can_be_converted(notebook, version)
            else f"it says nbformat {version}, but cannot be converted from that"
        )
    if not isinstance(notebook.get("metadata"), dict):
        return "its metadata is not an object"
    cells = notebook.get("cells")
    if not isinstance(cells, list):
        return "it has no list of cells"
    numbered = ((number, _wrong_in_cell(cell)) for number, cell in enumerate(cast("list[object]", cells)))
    wrong = next((f"cell {number} (from 0) {wrong}" for number, wrong in numbered if wrong), "")
    if wrong or not (unshared := not_shared({**notebook, "cells": None})):
        return wrong
    return f"its metadata {unshared}"


def _wrong_in_cell(found: object) -> str:
    if not isinstance(found, dict):
        return "is not an object"
    cell = cast("JsonObject", found)
    source = cell.get("source")
    lines: list[object] = cast("list[object]", source) if isinstance(source, list) else [source]
    kind = cell.get("cell_type")
    checks = {
        f"has {excerpt(kind)} as cell_type, not code, markdown or raw": kind in list(CellType),
        "has a source that is neither text nor lines of text": all(isinstance(line, str) for line in lines),
        "has no metadata": isinstance(cell.get("metadata"), dict),
        "has outputs that are not a list of objects": are_outputs(cell.get("outputs", [])),
    }
    return next((wrong for wrong, right in checks.items() if not right), "") or not_shared(cell)


def are_outputs(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(output, dict) for output in cast("list[object]", value))
