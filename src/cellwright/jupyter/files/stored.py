"""Notebooks as their files have them, for those who only look: searches and the index."""

import asyncio
from typing import cast

from cellwright.core.errors import LimitReached
from cellwright.core.foreign_json import parsed
from cellwright.jupyter.files import rules as filerules
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.files.unreadable import are_outputs, what_is_wrong
from cellwright.jupyter.model import FileContent, FileKind, JsonObject, joined
from cellwright.jupyter.port import Documents
from cellwright.jupyter.remote.rest import FILE_BOUNDS
from cellwright.notebook.model import InvalidFormat

WRITING_SECONDS = 0.1
"""What a server takes to write a file, which is not whole meanwhile."""
OLD_FORMATS = (1, 2, 3)


async def stored_notebook(documents: Documents, path: NotebookPath) -> JsonObject:
    """The JSON of a notebook's file, of format 4. InvalidFormat if it is none.

    It is asked for as text. A server that is asked for a notebook while it writes it finds one that breaks off, moves it away as broken,
    and puts the copy back from which it would restore it: by then the copy may be gone, and so is the notebook.
    """
    wrong = ""
    for _ in range(2):
        # As bytes: beside what is made of it, a text with one wide letter would be four times as large.
        data = _bytes_of(await documents.read(path, FileKind.FILE))
        large = data is not None and len(data) > filerules.LARGE_BYTES
        notebook, wrong = await asyncio.to_thread(_taken_apart, data) if large else _taken_apart(data)
        if notebook.get("nbformat") in OLD_FORMATS:
            # It is whole, so nobody writes it; and only the server knows how to convert it.
            return cast("JsonObject", (await documents.read(path, FileKind.NOTEBOOK)).content)
        if not wrong:
            return notebook
        await asyncio.sleep(WRITING_SECONDS)
    raise InvalidFormat(f"{path} is not a notebook: {wrong}", hint="mend that in the file, or leave it out")


def _bytes_of(found: FileContent) -> bytes | None:
    """None if it is no text."""
    return joined(found.content).encode("utf-8", "surrogatepass") if found.format == "text" else None


def _taken_apart(data: bytes | None) -> tuple[JsonObject, str]:
    """What the file has, and what keeps it from being read; nothing that only keeps it from being opened."""
    if data is None:
        return {}, "it is not text in UTF-8"
    if excess := FILE_BOUNDS.excess(data):
        raise LimitReached(f"a notebook was not read: it has {excess}", hint="clear its outputs, or split it")
    try:
        notebook = parsed(data)
    except (ValueError, RecursionError):
        notebook = None
    if not isinstance(notebook, dict):
        return {}, what_is_wrong(data.decode("utf-8", "surrogatepass"))
    read = cast("JsonObject", notebook)
    if _has_cells(read):
        return read, ""
    return read, what_is_wrong(data.decode("utf-8", "surrogatepass")) or "its cells are none"


def _has_cells(notebook: JsonObject) -> bool:
    cells: object = notebook.get("cells")
    return isinstance(cells, list) and all(_is_cell(cell) for cell in cast("list[object]", cells))


def _is_cell(cell: object) -> bool:
    return isinstance(cell, dict) and are_outputs(cast("JsonObject", cell).get("outputs") or [])
