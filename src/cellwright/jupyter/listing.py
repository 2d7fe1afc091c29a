"""Lists of notebooks: cards of those on the Jupyter server, or, before it is connected, of the files below the root.

Also the collection of a server's notebooks for search, and the path of the project's folder on the server.
"""

import asyncio
import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cellwright.core.errors import CellwrightError, DeadlineExceeded, Unavailable
from cellwright.core.secrecy import is_secret
from cellwright.core.text.sight import spelt
from cellwright.core.types import Call
from cellwright.jupyter.files.paths import DocPath, NotebookPath, folder_path, is_path
from cellwright.jupyter.files.stored import stored_notebook
from cellwright.jupyter.model import FileInfo
from cellwright.jupyter.server.discovery import accepts_token, running_servers, server_holding
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.sheet import SUFFIX
from cellwright.notebook.formats.ipynb import notebook_within
from cellwright.notebook.model import Notebook
from cellwright.notebook.places import Inventory, Place, PlaceKind, Reading, is_findable, newest
from cellwright.notebook.shelf import Card

MOST_LISTED = 500
MOST_WALKED = 20_000
LARGEST_NOTEBOOK = 10_000_000
LISTING_SECONDS = 60.0
BELIEVED_SECONDS = 30.0
SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})


async def notebooks_of(notebooks: LiveNotebooks, call: Call) -> tuple[list[Card], bool]:
    """Cards of the notebooks on the Jupyter server, and whether there are more."""
    connected = await notebooks.connected(call)
    documents = connected.found.jupyter.documents
    paths = await documents.find(folder_path(connected.found.folder), SUFFIX)
    described = await documents.describe(paths[:MOST_LISTED])
    rooms = {room.path: room for room in connected.rooms.open_rooms() if room.connected}
    cards: list[Card] = []
    for info in described:
        room = rooms.get(info.path)
        live, people = bool(room and room.live), len(room.others) if room else 0
        cards.append(_card(info.path, info.last_modified, live=live, people=people))
    return cards, len(paths) > len(described) or not paths.complete


def _card(path: str, last_modified: datetime, *, live: bool = False, people: int = 0) -> Card:
    title = spelt(path).rpartition("/")[2].removesuffix(SUFFIX)
    changed = last_modified.isoformat(timespec="seconds")
    return Card(
        "notebook", f"jupyter://{DocPath(path).quoted}", title, spelt(path), (), changed, live=live, people=people
    )


def notebooks_below(root: Path) -> tuple[list[Card], bool]:
    """Cards of the notebook files below a folder, and whether there are more."""
    cards: list[Card] = []
    walked = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in SKIPPED)
        walked += len(folders) + len(files)
        for name in sorted(files):
            if name.endswith(SUFFIX) and not name.startswith("."):
                card = _card_of_file(root, Path(folder) / name)
                cards += [card] if card is not None else []
        if walked > MOST_WALKED or len(cards) >= MOST_LISTED:
            return cards[:MOST_LISTED], True
    return cards, False


def _card_of_file(root: Path, file: Path) -> Card | None:
    """None for a file that nobody could open: with a name that no tool accepts, a pipe, a broken link, or deleted meanwhile."""
    path = file.relative_to(root).as_posix()
    try:
        status = file.stat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or not is_path(path):
        return None
    return _card(path, datetime.fromtimestamp(status.st_mtime, UTC))


@dataclass(frozen=True, slots=True)
class ServerCollection:
    """The notebooks of a Jupyter server, listed by its contents API."""

    tenant: str
    notebooks: LiveNotebooks
    call: Call
    kinds: tuple[PlaceKind, ...] = (PlaceKind.NOTEBOOK,)
    keep_seconds: float | None = None

    async def inventory(self) -> Inventory:
        try:
            async with asyncio.timeout(LISTING_SECONDS):
                server = (await self.notebooks.connected(self.call)).found
                documents = server.jupyter.documents
                infos = await documents.describe(await documents.find(folder_path(server.folder), SUFFIX))
        except TimeoutError:
            raise DeadlineExceeded(
                f"listing the notebooks took more than {LISTING_SECONDS:.0f} s",
                hint="try again later, or serve a folder with fewer files as --root",
            ) from None
        return newest([(info.last_modified, _place(info)) for info in infos if _is_searchable(info)])

    async def read(self, places: Sequence[Place]) -> list[Reading]:
        return [Reading(place, await self._notebook(place), place.id) for place in places]

    async def _notebook(self, place: Place) -> Notebook | None:
        documents = (await self.notebooks.connected(self.call)).found.jupyter.documents
        try:
            content = await stored_notebook(documents, NotebookPath(place.id))
        except Unavailable:
            raise
        except CellwrightError:
            # Deleted since it was listed, or not a notebook for the server either.
            return None
        return await asyncio.to_thread(notebook_within, content)


def _is_searchable(info: FileInfo) -> bool:
    return is_findable(info.path) and not is_secret(info.path) and (info.size or 0) <= LARGEST_NOTEBOOK


def _place(info: FileInfo) -> Place:
    return Place(PlaceKind.NOTEBOOK, info.path, f"{info.last_modified.timestamp()}:{info.size}", info.size or 0)


class FolderInJupyter:
    """The path of the project's folder below the root of the Jupyter server that would be used for it. Starts no server."""

    def __init__(self, root: Path, runtime: Path) -> None:
        self._root = root
        self._runtime = runtime
        self._remembered: tuple[float, str] | None = None

    async def __call__(self) -> str:
        now = time.monotonic()
        if self._remembered is None or now - self._remembered[0] > BELIEVED_SECONDS:
            self._remembered = (now, await self._find())
        return self._remembered[1]

    async def _find(self) -> str:
        root = self._root.resolve()
        server = await server_holding(root, running_servers(self._runtime), accepts_token)
        folder = root.relative_to(server.root).as_posix() if server else "."
        return "" if folder == "." else folder
