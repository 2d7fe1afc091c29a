"""Live notebooks for the page. Listing starts nothing; opening one connects to Jupyter, and runs nothing."""

import asyncio
import os
import stat
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import cast
from urllib.parse import quote

from cellwright.core.clean import clean
from cellwright.core.errors import InvalidUri
from cellwright.core.sight import seen, spelt
from cellwright.core.types import Call, Scope
from cellwright.jupyter.model import Cell, FileInfo
from cellwright.jupyter.notebook import Notebook
from cellwright.jupyter.outputs import output_json
from cellwright.jupyter.paths import DocPath, NotebookPath, folder_path, is_path
from cellwright.jupyter.people import people_in
from cellwright.jupyter.rooms import OpenDocument
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.ycells import UnreadableCell
from cellwright.web.outputs import cut
from cellwright.web.ports import JsonObject, Thing

PREFIX = "jupyter://"
SUFFIX = ".ipynb"
MOST_LISTED = 500
MOST_WALKED = 20_000
LISTING_SECONDS = 2.0
MOST_SOURCE = 200_000
SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})
FIRST_CHARACTERS = 120


class NotebookSource:
    """The notebooks of the workspace, the same to everybody who may read."""

    scheme = "jupyter"
    shared = True
    exact = True

    def __init__(self, notebooks: LiveNotebooks, root: Path, *, may_connect: Callable[[], bool]) -> None:
        """`may_connect` says whether listing may ask Jupyter; otherwise the files below `root` are looked at."""
        self._notebooks = notebooks
        self._root = root
        self._may_connect = may_connect
        self._listing = asyncio.Lock()
        self._listed: tuple[float, tuple[list[Thing], bool]] | None = None

    async def things(self, call: Call) -> tuple[Sequence[Thing], bool]:
        async with self._listing:
            now = time.monotonic()
            if self._listed is None or now - self._listed[0] > LISTING_SECONDS:
                self._listed = (now, await self._list(call))
        return self._listed[1]

    def listing_changed(self) -> None:
        self._listed = None

    async def _list(self, call: Call) -> tuple[list[Thing], bool]:
        if not self._may_connect():
            return await asyncio.to_thread(notebooks_below, self._root)
        connected = await self._notebooks.connected(call)
        documents = connected.found.jupyter.documents
        found = await documents.find(folder_path(connected.found.folder), SUFFIX)
        described = await documents.describe(found[:MOST_LISTED])
        rooms = {room.path: room for room in connected.rooms.open_rooms() if room.connected}
        made: list[Thing] = []
        for info in described:
            room = rooms.get(info.path)
            made.append(_thing(info, live=bool(room and room.live), people=len(room.others) if room else 0))
        return made, len(found) > len(described)

    async def resolve(self, call: Call, uri: str) -> str:
        del call
        return f"{PREFIX}{path_of(uri).quoted}"

    @asynccontextmanager
    async def hold(self, call: Call, uri: str) -> AsyncGenerator["HeldNotebook"]:
        async with self._notebooks.open(call, path_of(uri)) as document:
            yield HeldNotebook(document)

    @asynccontextmanager
    async def open(self, call: Call, uri: str) -> AsyncGenerator["NotebookSheet"]:
        path = path_of(uri)
        async with self._notebooks.open(call, path) as document:
            yield NotebookSheet(document, path)

    async def lab(self, call: Call, uri: str) -> str:
        """The notebook in JupyterLab. With the token that lets a person in only for those who could run code to find it."""
        path = path_of(uri)
        found = (await self._notebooks.connected(call)).found
        token = f"?token={quote(found.token.reveal())}" if found.token and call.principal.may(Scope.RUN) else ""
        return f"{found.jupyter.documents.url}/lab/tree/{path.quoted}{token}"


class HeldNotebook:
    """A notebook that is kept open because somebody looks at it."""

    def __init__(self, document: OpenDocument[Notebook]) -> None:
        self._document = document

    @property
    def is_open(self) -> bool:
        return self._document.is_open

    def people(self) -> list[JsonObject]:
        room = self._document.room
        if room is None:
            return []
        found = people_in(room, self._document.view)
        return [{"name": one.name, "colour": one.colour, "cell": one.cell, "agent": one.agent} for one in found]


class NotebookSheet:
    """A notebook as it is in the shared document now."""

    def __init__(self, document: OpenDocument[Notebook], path: NotebookPath) -> None:
        self._document = document
        self._view = document.view
        self._path = path
        shared = self._view.duplicate_ids
        self._names = [name if name and name not in shared else f"~{n}" for n, name in enumerate(self._view.ids)]

    @property
    def about(self) -> JsonObject:
        title = spelt(self._path.text).rpartition("/")[2].removesuffix(SUFFIX)
        about = {"kind": "notebook", "title": title, "path": spelt(self._path.text), "language": self._language}
        # The same for everybody who looks; the address itself depends on who asks.
        lab = f"api/lab?uri={quote(f'{PREFIX}{self._path.quoted}', safe='')}"
        return {**about, "lab": lab, "live": self._document.live}

    @property
    def names(self) -> Sequence[str]:
        return self._names

    @property
    def _language(self) -> str:
        metadata = self._view.metadata
        for key, field in (("language_info", "name"), ("kernelspec", "language")):
            found: object = metadata.get(key)
            if isinstance(found, dict) and (name := cast("JsonObject", found).get(field)):
                return clean(str(name)).text[:60]
        return ""

    def entry(self, index: int) -> JsonObject:
        head = self._view.head(index)
        first = next(iter(seen(head.source.strip()[:FIRST_CHARACTERS]).text.splitlines()), "")
        lines = head.source.count("\n") + 1 if head.source else 0
        return {"kind": head.cell_type, "lines": lines, "first": first, "failed": head.failed}

    def cell(self, index: int) -> JsonObject:
        cell = self._view.cell_at(index)
        head = cell.head
        made: JsonObject = {
            "kind": clean(head.cell_type).text,
            "language": self._language if head.cell_type == "code" else head.cell_type,
            "source": cut(seen(head.source).text, MOST_SOURCE)[0],
            "count": head.execution_count,
            "state": "running" if head.running else "idle",
            "revision": head.revision,
            "outputs": [output_json(output) for output in cell.outputs],
        }
        if pictures := _attachments(cell):
            made["attachments"] = pictures
        return {**made, "notes": [head.note]} if isinstance(head, UnreadableCell) else made


def _attachments(cell: Cell) -> dict[str, str]:
    """Pictures that a markdown cell carries with it."""
    found: dict[str, str] = {}
    for name, forms in cell.attachments.items():
        for mime, body in cast("JsonObject", forms).items() if isinstance(forms, dict) else ():
            if mime in {"image/png", "image/jpeg", "image/gif"} and isinstance(body, str):
                found[clean(name).text] = f"data:{mime};base64,{''.join(body.split())}"
    return found


def path_of(uri: str) -> NotebookPath:
    quoted = uri.removeprefix(PREFIX)
    if quoted == uri or not quoted.endswith(SUFFIX):
        raise InvalidUri(f"{uri[:200]!r} names no notebook", hint="jupyter://folder/name.ipynb")
    try:
        return NotebookPath.from_quoted(quoted)
    except UnicodeDecodeError:
        raise InvalidUri(f"{uri[:200]!r} is not valid UTF-8 once decoded") from None


def _thing(info: FileInfo, *, live: bool, people: int) -> Thing:
    changed = info.last_modified.isoformat(timespec="seconds")
    return _named(info.path, changed, live=live, people=people)


def _named(path: str, changed: str, *, live: bool = False, people: int = 0) -> Thing:
    title = spelt(path).rpartition("/")[2].removesuffix(SUFFIX)
    return Thing(
        "notebook", f"{PREFIX}{DocPath(path).quoted}", title, spelt(path), (), changed, live=live, people=people
    )


def notebooks_below(root: Path) -> tuple[list[Thing], bool]:
    """The notebooks in a folder as files, where no Jupyter server is connected yet."""
    made: list[Thing] = []
    walked = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in SKIPPED)
        walked += len(folders) + len(files)
        for name in sorted(files):
            if name.endswith(SUFFIX) and not name.startswith("."):
                found = _found(root, Path(folder) / name)
                made += [found] if found is not None else []
        if walked > MOST_WALKED or len(made) >= MOST_LISTED:
            return made[:MOST_LISTED], True
    return made, False


def _found(root: Path, file: Path) -> Thing | None:
    """None for what nobody could open: a name that no tool takes, a pipe, a link to nowhere, what went meanwhile."""
    path = file.relative_to(root).as_posix()
    try:
        status = file.stat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or not is_path(path):
        return None
    return _named(path, datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds"))
