"""Reads notebooks from their files, for searches and for the index, which do not need them open."""

import asyncio
from typing import cast

from cellwright.core.errors import LimitReached
from cellwright.core.foreign_json import parsed
from cellwright.jupyter.files import rules as filerules
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.files.unreadable import are_outputs, what_is_wrong
from cellwright.jupyter.model import FileContent, FileKind, JsonObject
from cellwright.jupyter.port import Documents
from cellwright.jupyter.remote.rest import FILE_BOUNDS
from cellwright.notebook.model import InvalidFormat, joined

WRITING_SECONDS = 0.1
"""How long a server takes to write a file, which is incomplete meanwhile."""
OLD_FORMATS = (1, 2, 3)


async def stored_notebook(documents: Documents, path: NotebookPath) -> JsonObject:
    """The JSON of a notebook's file, in format 4. Raises InvalidFormat if it is no notebook.

    The file is read as text. A server that reads a notebook while it writes it finds a broken one, moves it away, and restores the
    backup copy: by then that copy may be gone, and then the notebook is lost.
    """
    problem = ""
    for _ in range(2):
        # As bytes, because a text with one wide letter would be four times as large, in addition to the JSON made of it.
        data = _bytes_of(await documents.read(path, FileKind.FILE))
        large = data is not None and len(data) > filerules.LARGE_BYTES
        notebook, problem = await asyncio.to_thread(_parsed_notebook, data) if large else _parsed_notebook(data)
        if notebook.get("nbformat") in OLD_FORMATS:
            # The file is complete, so it is not being written; and only the server knows how to convert it.
            return cast("JsonObject", (await documents.read(path, FileKind.NOTEBOOK)).content)
        if not problem:
            return notebook
        await asyncio.sleep(WRITING_SECONDS)
    raise InvalidFormat(f"{path} is not a notebook: {problem}", hint="mend that in the file, or leave it out")


def _bytes_of(file: FileContent) -> bytes | None:
    """The text of the file as bytes; None if it is not text. The text itself is not kept in a variable of the caller."""
    return joined(file.content).encode("utf-8", "surrogatepass") if file.format == "text" else None


def _parsed_notebook(data: bytes | None) -> tuple[JsonObject, str]:
    """The notebook in the file, and the problem that keeps it from being read. Problems that only prevent opening do not count."""
    if data is None:
        return {}, "it is not text in UTF-8"
    if excess := FILE_BOUNDS.excess(data):
        raise LimitReached(f"a notebook was not read: it has {excess}", hint="clear its outputs, or split it")
    try:
        content = parsed(data)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        return {}, what_is_wrong(data.decode("utf-8", "surrogatepass"))
    notebook = cast("JsonObject", content)
    cells: object = notebook.get("cells")
    if isinstance(cells, list) and all(map(_is_cell, cast("list[object]", cells))):
        return notebook, ""
    return notebook, what_is_wrong(data.decode("utf-8", "surrogatepass")) or "its cells are none"


def _is_cell(cell: object) -> bool:
    return isinstance(cell, dict) and are_outputs(cast("JsonObject", cell).get("outputs") or [])
