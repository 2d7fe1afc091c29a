"""The shelf of live notebooks, and of the other files of a Jupyter server that hold a notebook in one of our formats.

Listing starts nothing. Reading and looking connect to Jupyter, and run nothing.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast
from urllib.parse import quote, unquote

from cellwright.core.errors import Conflict, InvalidArgument, InvalidUri, NotFound
from cellwright.core.text.counting import counted
from cellwright.core.types import Call, Scope
from cellwright.jupyter.documents.shareable import check_shared
from cellwright.jupyter.edits.overwriting import overwrite
from cellwright.jupyter.files.creating import create
from cellwright.jupyter.files.on_disk import walk_local
from cellwright.jupyter.files.paths import DocPath, NotebookPath, is_path
from cellwright.jupyter.listing import FolderInJupyter, ServerCollection, notebooks_below, notebooks_of
from cellwright.jupyter.model import FileKind, JsonObject
from cellwright.jupyter.notebooks.cellmetadata import TRUSTED
from cellwright.jupyter.notebooks.shapes import cell_uri
from cellwright.jupyter.notebooks.whole import whole_json
from cellwright.jupyter.port import Documents
from cellwright.jupyter.server.discovery import runtime_dir
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.sheet import SUFFIX, HeldDocument, NotebookSheet
from cellwright.jupyter.tools.common import author_of
from cellwright.jupyter.tools.documents.common import DocumentFiles
from cellwright.notebook.formats.files import format_of, linked_files, no_format, not_in_notebook
from cellwright.notebook.formats.ipynb import from_notebook, to_notebook
from cellwright.notebook.formats.losses import MOST, difference, reported_losses
from cellwright.notebook.formats.srcmd import with_files
from cellwright.notebook.model import InvalidFormat, Kind, Notebook
from cellwright.notebook.places import Address, Place, PlaceKind, Reading, cell_of, digest, files_tenant
from cellwright.notebook.shelf import OVERWRITE_HINT, Card, Put, Taken
from cellwright.workers.conversions import Conversions

PREFIX = "jupyter://"
LISTING_SECONDS = 2.0
NBFORMAT = 4
MAX_LINKED_CHARACTERS = 8_000_000
MOST_NAMED = 20_000
PATHS = ("path", "notebook_path", "newPath", "new_path", "copyPath", "copy_path")
"""The names of arguments that are paths of files in the workspace."""
FOLDER_TOOLS = frozenset({"list_nbs", "list_documents", "list_files", "search_nbs"})
"""Tools whose path is that of a folder."""


class NotebookShelf:
    """The notebooks of the workspace, the same to everybody who may read."""

    scheme = "jupyter"
    shape = "folder/name.ipynb (also .md, .src.md, .json)"
    example = "folder/name.ipynb"
    shared = True
    exact = True

    def __init__(
        self,
        notebooks: LiveNotebooks,
        root: Path,
        conversions: Conversions,
        *,
        allow_hidden: bool = False,
        server: str = "",
    ) -> None:
        """`server` names the Jupyter server that has the notebooks; empty if they are the files below `root`."""
        self._notebooks = notebooks
        self._files = DocumentFiles(notebooks, allow_hidden)
        self._root = root
        self._conversions = conversions
        self._server = server
        tenant = f"notebooks:{digest(server)}" if server else files_tenant(root)
        self.kinds: Mapping[PlaceKind, str] = {PlaceKind.NOTEBOOK: tenant}
        self._folder = FolderInJupyter(root, runtime_dir())
        self._listing = asyncio.Lock()
        self._listed: tuple[float, tuple[list[Card], bool]] | None = None

    # -- addresses -----------------------------------------------------------------------------------------------------------

    def has(self, address: str) -> bool:
        return address.startswith(PREFIX) or ("://" not in address and bool(address.strip()))

    def takes(self, address: str) -> bool:
        return self.has(address)

    def keeps(self, address: str) -> bool:
        return address.endswith(SUFFIX) and "://" not in address

    def _path(self, address: str) -> DocPath:
        if not address.startswith(PREFIX):
            return self._files.path(address)
        try:
            path = DocPath.from_quoted(address.removeprefix(PREFIX))
        except UnicodeDecodeError:
            raise InvalidArgument(
                f"{address[:80]!a} is not valid UTF-8 once decoded", hint="give the path as it is, without jupyter://"
            ) from None
        return self._files.path(path.text)

    async def resolve(self, call: Call, uri: str) -> str:
        del call
        return f"{PREFIX}{path_of(uri).quoted}"

    def arguments(self, tool: str) -> Sequence[str]:
        return () if tool in FOLDER_TOOLS else PATHS

    def named(self, name: str) -> Place:
        """The place of any file. Only a notebook has a `jupyter://` address."""
        path = unquote(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else name
        path = path.removeprefix("./").lstrip("/")
        if not path.endswith(SUFFIX):
            return Place(PlaceKind.FILE, path)
        return Place(PlaceKind.NOTEBOOK, path, uri=f"{PREFIX}{quote(path)}")

    async def names(self) -> list[str]:
        """The paths of notebooks, to complete what a person types. Starts and connects nothing, because typing is no request yet."""
        connected = self._notebooks.ours
        if connected is not None:
            files = await connected.found.jupyter.documents.find(None, SUFFIX)
        elif self._server:
            return []
        else:
            files = await asyncio.to_thread(walk_local, self._root, None, SUFFIX, MOST_NAMED)
        return [file.path for file in files if is_path(file.path) and not DocPath(file.path).is_hidden]

    # -- finding -------------------------------------------------------------------------------------------------------------

    def collection(self, call: Call) -> ServerCollection | None:
        """The notebooks of a server. Those below the root are searched with all other files of the project."""
        tenant = self.kinds[PlaceKind.NOTEBOOK]
        return ServerCollection(tenant, self._notebooks, call) if self._server else None

    async def address(self, found: Reading) -> Address:
        folder = "" if self._server else await self._folder()
        path = DocPath(f"{folder}/{found.place.id}" if folder else found.place.id)
        cell = cell_of(found.part)
        uri = cell_uri(path, cell) if cell else f"{PREFIX}{path.quoted}"
        return Address(uri, uri, path.text, cell)

    # -- looking -------------------------------------------------------------------------------------------------------------

    async def cards(self, call: Call) -> tuple[Sequence[Card], bool]:
        async with self._listing:
            now = time.monotonic()
            if self._listed is None or now - self._listed[0] > LISTING_SECONDS:
                self._listed = (now, await self._list(call))
        return self._listed[1]

    def listing_changed(self) -> None:
        self._listed = None

    async def _list(self, call: Call) -> tuple[list[Card], bool]:
        if self._server or self._notebooks.status().state.startswith("connected"):
            return await notebooks_of(self._notebooks, call)
        return await asyncio.to_thread(notebooks_below, self._root)

    @asynccontextmanager
    async def hold(self, call: Call, uri: str) -> AsyncGenerator[HeldDocument]:
        async with self._notebooks.open(call, path_of(uri), looks=True) as document:
            yield HeldDocument(document)

    @asynccontextmanager
    async def open(self, call: Call, uri: str) -> AsyncGenerator[NotebookSheet]:
        path = path_of(uri)
        async with self._notebooks.open(call, path) as document:
            yield NotebookSheet(document, path)

    async def lab(self, call: Call, uri: str) -> str:
        """The notebook's address in JupyterLab. It has the token only for callers who may run code, and so could read the token anyway."""
        path = path_of(uri)
        server = (await self._notebooks.connected(call)).found
        token = f"?token={quote(server.token.reveal())}" if server.token and call.principal.may(Scope.RUN) else ""
        return f"{server.jupyter.documents.url}/lab/tree/{path.quoted}{token}"

    # -- reading -------------------------------------------------------------------------------------------------------------

    async def read(self, call: Call, address: str, format_name: str | None = None) -> Taken:
        try:
            path = self._path(address)
            if path.is_notebook:
                return await self._read_notebook(call, NotebookPath(path.text))
            return await self._read_file(call, path, format_name)
        except NotFound as missing:
            hint = missing.hint or "list_nbs shows the notebooks there are"
            raise NotFound(missing.message, hint=hint, details=missing.details) from missing

    async def _read_notebook(self, call: Call, path: NotebookPath) -> Taken:
        async with self._notebooks.open(call, path) as document:
            content = await whole_json(document.view)
        notebook, notes = await asyncio.to_thread(_to_notebook, content)
        return Taken(notebook, f"{PREFIX}{path.quoted}", tuple(notes))

    async def _read_file(self, call: Call, path: DocPath, format_name: str | None) -> Taken:
        if format_name is None and format_of(path.text) is None:
            raise no_format(path.text)
        async with self._files.text(call, path) as document:
            text = document.view.text
        form = format_name or format_of(path.text, text) or "md"
        if files := await asyncio.to_thread(linked_files, text, form):
            text = await asyncio.to_thread(with_files, text, await self._linked_texts(call, path, files))
        notebook = await self._conversions.read(text, form, call.principal.id)
        return Taken(notebook, path.text, tuple(await asyncio.to_thread(not_in_notebook, notebook, text, form)))

    async def _linked_texts(self, call: Call, path: DocPath, files: Mapping[str, str]) -> dict[str, str]:
        """The texts of the files that a notebook links to, by their links."""
        folder = path.text.rpartition("/")[0]
        texts: dict[str, str] = {}
        for link, name in files.items():
            async with self._files.text(call, self._files.path(f"{folder}/{name}" if folder else name)) as document:
                texts[link] = document.view.text
            if sum(map(len, texts.values())) > MAX_LINKED_CHARACTERS:
                raise InvalidFormat(
                    f"the files that {path} links to have more than {MAX_LINKED_CHARACTERS:,} characters together",
                    hint="link to smaller files",
                )
        return texts

    # -- writing -------------------------------------------------------------------------------------------------------------

    async def write(self, call: Call, address: str, notebook: Notebook, *, over: bool = False) -> Put:
        path = self._path(address)
        if path.is_notebook:
            return await self._write_notebook(call, NotebookPath(path.text), notebook, over=over)
        return await self._write_file(call, path, notebook, over=over)

    async def _write_notebook(self, call: Call, path: NotebookPath, notebook: Notebook, *, over: bool) -> Put:
        """Write a new file, or change the document that people may have open."""
        content, losses = await asyncio.to_thread(_to_content, notebook)
        check_shared("what would be in the notebook", content)
        outcome = Put(path.text, f"{PREFIX}{path.quoted}", tuple(reported_losses((), losses)))
        connected = await self._notebooks.connected(call)
        documents = connected.found.jupyter.documents
        if not over or not await _exists(documents, path):
            return replace(outcome, notes=await _create(documents, path, FileKind.NOTEBOOK, content))
        async with connected.rooms.notebook(path) as document:
            changed, _ = await document.change(lambda view: overwrite(view, content, author=author_of(call)))
        note = f"{counted(changed, 'cell')} went, came or changed; undo_nb_edit takes it back"
        return replace(outcome, notes=(note,) if changed else ())

    async def _write_file(self, call: Call, path: DocPath, notebook: Notebook, *, over: bool) -> Put:
        format_name = format_of(path.text)
        if format_name is None:
            raise no_format(path.text)
        conversion = await self._conversions.write(notebook, format_name, call.principal.id)
        connected = await self._notebooks.connected(call)
        documents = connected.found.jupyter.documents
        outcome = Put(path.text, path.text, tuple(conversion.losses))
        if not over or not await _exists(documents, path):
            return replace(outcome, notes=await _create(documents, path, FileKind.FILE, conversion.text))
        async with connected.rooms.document(path) as document:
            await document.change(lambda view: view.overwrite(conversion.text, author=author_of(call)))
        return outcome


def path_of(uri: str) -> NotebookPath:
    quoted = uri.removeprefix(PREFIX)
    if quoted == uri or not quoted.endswith(SUFFIX):
        raise InvalidUri(f"{uri[:200]!r} names no notebook", hint="jupyter://folder/name.ipynb")
    try:
        return NotebookPath.from_quoted(quoted)
    except UnicodeDecodeError:
        raise InvalidUri(
            f"{uri[:200]!r} is not valid UTF-8 once decoded", hint="copy the address from resources/list"
        ) from None


def _to_content(notebook: Notebook) -> tuple[JsonObject, dict[str, str]]:
    """The notebook as JSON, and what of it the format cannot hold."""
    content = to_notebook(notebook)
    return content, difference(notebook, from_notebook(content), "ipynb")


async def _exists(documents: Documents, path: DocPath) -> bool:
    try:
        await documents.stat(path)
    except NotFound:
        return False
    return True


async def _create(documents: Documents, path: DocPath, kind: FileKind, content: JsonObject | str) -> tuple[str, ...]:
    """Make the file, with the folders above it. Returns a note about the folders that were made, if any."""
    try:
        created = await create(documents, path, kind, content)
    except Conflict as conflict:
        raise Conflict(conflict.message, hint=OVERWRITE_HINT, details=conflict.details) from conflict
    return (f"made the folders {', '.join(created.folders)}",) if created.folders else ()


def _to_notebook(content: JsonObject) -> tuple[Notebook, list[str]]:
    """The notebook that a live document holds, and notes. Anybody can put anything in the place of a cell: it becomes raw text."""
    cells: list[object] = list(content["cells"])
    odd = [index for index, cell in enumerate(cells) if not _is_cell(cell)]
    for index in odd:
        cells[index] = {"cell_type": "raw", "metadata": {}, "source": json.dumps(cells[index], ensure_ascii=False)}
    # Jupyter stores trust in outputs outside of the file, so it is nothing that a format could lose.
    cells = [_without_trust(cast("JsonObject", cell)) for cell in cells]
    notes = [f"cell {index} is no proper cell; it is taken as raw text" for index in odd[:MOST]]
    return from_notebook({**content, "cells": cells, "nbformat": NBFORMAT}), notes


def _without_trust(cell: JsonObject) -> JsonObject:
    metadata: object = cell.get("metadata")
    if not isinstance(metadata, dict):
        return cell
    return {**cell, "metadata": {k: v for k, v in cast("JsonObject", metadata).items() if k != TRUSTED}}


def _is_cell(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    cell = cast("JsonObject", value)
    return cell.get("cell_type") in list(Kind) and isinstance(cell.get("source"), str)
