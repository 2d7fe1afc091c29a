"""`jupyter://`: a notebook's outline, its cells, and single outputs in full, as they are in the live document."""

import asyncio
import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from urllib.parse import unquote

from cellwright.core.errors import InvalidUri, NotFound
from cellwright.core.resources import Changes, Content, ResourceInfo, ResourceTemplate, ResourceUpdated
from cellwright.core.text.clean import clean, clean_html
from cellwright.core.text.counting import counted
from cellwright.core.text.cutting import cut_text
from cellwright.core.text.sight import seen
from cellwright.core.types import Call
from cellwright.jupyter.documents.open_document import DocumentChanged, OpenDocument
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.model import JsonObject, LiveCell, RoomKind
from cellwright.jupyter.notebooks.cellreadings import CellStateShown
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.notebooks.shapes import cell_uri
from cellwright.jupyter.notebooks.whole import read_cell
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.staleness.tracking import StatesOfNotebook
from cellwright.jupyter.staleness.words import mark_of, state_shown, states_shown
from cellwright.notebook.addressing import by_id
from cellwright.notebook.outputs import PICTURES, best_mime, is_data, is_error, is_stream

SCHEME = "jupyter"
MOST_CHARACTERS = 2_000_000
"""Of a source or an output: nobody reads more, and sending it takes long. A note counts what is left out."""
_ADDRESS = re.compile(r"jupyter://(?P<path>.+\.ipynb)(?:/cells/(?P<cell>[^/]+)(?:/outputs/(?P<number>[0-9]{1,6}))?)?")
CELL_MIMES = {"code": "text/plain", "markdown": "text/markdown", "raw": "text/plain"}


def announcing(changes: Changes) -> Callable[[DocumentChanged], None]:
    """Tells watchers when people or agents change an open notebook."""

    def announce(change: DocumentChanged) -> None:
        if change.kind is not RoomKind.NOTEBOOK:
            return
        path = DocPath(change.path)
        changes.publish(ResourceUpdated(f"jupyter://{path.quoted}"))
        for cell_id in change.cells:
            changes.publish(ResourceUpdated(cell_uri(path, cell_id)))

    return announce


class NotebookResources:
    """The notebooks of the Jupyter server as resources. Reading never runs anything."""

    scheme = SCHEME

    def __init__(self, notebooks: LiveNotebooks) -> None:
        self._notebooks = notebooks

    def templates(self) -> Sequence[ResourceTemplate]:
        return [
            ResourceTemplate(
                "jupyter://{+path}", "notebook", "A line per cell of a live notebook; can be watched", "text/plain"
            ),
            ResourceTemplate(
                "jupyter://{+path}/cells/{id}", "cell", "The source of a cell; can be watched", "text/plain"
            ),
            ResourceTemplate(
                "jupyter://{+path}/cells/{id}/outputs/{n}", "output", "One output in full, pictures as bytes", "*/*"
            ),
        ]

    async def list(self, call: Call) -> Sequence[ResourceInfo]:
        """The notebooks that are open now: listing must not start a server."""
        del call
        return [
            ResourceInfo(
                f"jupyter://{path.quoted}", path.text, "Outline of an open notebook; can be watched", "text/plain"
            )
            for path in self._notebooks.open_notebooks()
        ]

    async def read(self, call: Call, uri: str) -> Sequence[Content]:
        path, cell_id, number = _parsed(uri)
        async with self._notebooks.open(call, path) as document:
            notebook = document.view
            if cell_id is None:
                states = await self._states(call, document)
                meta: dict[str, object] = {
                    "cell_count": notebook.cell_count,
                    "live": document.live,
                    "path": path.text,
                    **states_shown(states, notebook),
                    "view": self._notebooks.sight(call, path).show_aside(notebook, ()),
                }
                outline = notebook.whole_outline(partial(mark_of, states, notebook))
                return [Content("\n".join(outline), "text/plain", meta)]
            cell = await read_cell(notebook, notebook.resolve([by_id(cell_id)])[0])
            if number is None:
                shown = [cell.id] if len(cell.source) <= MOST_CHARACTERS else []
                view = self._notebooks.sight(call, path).show_aside(notebook, shown)
                # In a thread: a text of megabytes takes seconds to clean.
                state = state_shown(await self._states(call, document), notebook, cell.index, cell.head)
                return [await asyncio.to_thread(_source, cell, state, view)]
        return [await asyncio.to_thread(_output, cell, number)]

    async def _states(self, call: Call, document: OpenDocument[LiveNotebook]) -> StatesOfNotebook:
        return await self._notebooks.states.look(call, await self._notebooks.connected(call), document)

    async def watch(self, call: Call, uri: str) -> AbstractAsyncContextManager[object] | None:
        path, cell_id, number = _parsed(uri)
        if number is not None:
            return None
        async with self._notebooks.open(call, path) as document:
            if cell_id is not None:
                document.view.index_of(cell_id)
        # Changes are announced only while the document is open.
        return self._notebooks.open(call, path, looks=True)

    async def complete(self, call: Call, template: str, argument: str, prefix: str) -> Sequence[str]:
        del call, template
        if argument != "path":
            return []
        return [path.text for path in self._notebooks.open_notebooks() if path.text.startswith(prefix)]


def _parsed(uri: str) -> tuple[NotebookPath, str | None, int | None]:
    match = _ADDRESS.fullmatch(uri)
    if match is None:
        raise InvalidUri(
            f"{uri[:200]!r} names no notebook", hint="jupyter://folder/name.ipynb, then /cells/ID, then /outputs/N"
        )
    cell = match["cell"]
    number = match["number"]
    try:
        path = NotebookPath.from_quoted(match["path"])
    except UnicodeDecodeError:
        raise InvalidUri(
            f"{uri[:200]!r} is not valid UTF-8 once decoded", hint="quote the path's UTF-8 bytes"
        ) from None
    return path, unquote(cell) if cell else None, int(number) if number else None


def _source(cell: LiveCell, state: CellStateShown, view: str) -> Content:
    mime = CELL_MIMES.get(cell.head.cell_type, "text/plain")
    meta: dict[str, object] = {
        "index": cell.index,
        "cell_type": cell.head.cell_type,
        "revision": cell.head.revision,
        "execution_count": cell.head.execution_count,
        "outputs": len(cell.outputs),
        **state,
        "view": view,
    }
    return Content(_bounded(seen(cell.source).text), mime, meta)


def _output(cell: LiveCell, number: int) -> Content:
    if number >= len(cell.outputs):
        raise NotFound(
            f"cell {cell.id} has {counted(len(cell.outputs), 'output')}, counted from 0",
            hint="read the cell for what there is",
        )
    output = cell.outputs[number]
    if is_stream(output):
        return Content(_bounded(clean(output["text"]).text), "text/plain", {"name": output["name"]})
    if is_error(output):
        text = "\n".join(output["traceback"]) or f"{output['ename']}: {output['evalue']}"
        return Content(_bounded(clean(text).text), "text/plain", {"ename": output["ename"]})
    if is_data(output):
        return _data(output["data"])
    return Content(_bounded(clean(_as_json(output)).text), "text/plain")


def _data(data: JsonObject) -> Content:
    mime = best_mime(data)
    value = data.get(mime, "")
    if mime in PICTURES and isinstance(value, str):
        try:
            return Content(base64.b64decode(value, validate=False), mime)
        except binascii.Error:
            raise NotFound("this output is not valid base64", hint="run the cell again") from None
    if not isinstance(value, str):
        return Content(_bounded(_as_json(value)), "application/json")
    return Content(_bounded((clean_html(value) if mime == "text/html" else clean(value)).text), mime)


def _as_json(value: object) -> str:
    # `iterencode` runs in Python, so that other threads can work in between.
    return "".join(json.JSONEncoder(ensure_ascii=False).iterencode(value))


def _bounded(text: str) -> str:
    return cut_text(text, MOST_CHARACTERS)
