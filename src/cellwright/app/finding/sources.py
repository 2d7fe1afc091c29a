"""The places: the project's folder, the notebooks of a Jupyter server that is elsewhere, a caller's thinking notebooks."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from cellwright.app.finding.model import Content, Kind, Listing, Thing
from cellwright.app.finding.texts import book_entries, book_of, file_entries, is_findable
from cellwright.context.files import ProjectFiles, ReadableFile
from cellwright.context.paths import is_secret
from cellwright.core.clean import clean
from cellwright.core.errors import CellwrightError, DeadlineExceeded, Unavailable
from cellwright.core.types import Call
from cellwright.jupyter.model import FileInfo, FileKind
from cellwright.jupyter.paths import NotebookPath, folder_path, is_path
from cellwright.jupyter.service import LiveNotebooks
from cellwright.storage.search import Entry
from cellwright.thinking.service import Thinking, View

NOTEBOOK = ".ipynb"
MOST_LISTED = 100_000
LISTED_AT_ONCE = 1_000
MOST_INDEXED = 5_000
"""Things of one place; what was changed last comes first."""
LARGEST_FILE = 1_000_000
LARGEST_NOTEBOOK = 20_000_000
LISTING_SECONDS = 60.0


def newest(things: Sequence[tuple[Any, Thing]], left_out: int = 0) -> Listing:
    """Notebooks first, then what was changed last, as many as are indexed."""
    ordered = sorted(things, key=lambda one: (one[1].kind is Kind.NOTEBOOK, one[0]), reverse=True)
    kept = [thing for _, thing in ordered[:MOST_INDEXED]]
    return Listing(kept, left_out + len(ordered) - len(kept))


@dataclass(frozen=True, slots=True)
class ProjectPlace:
    """The files of the project's folder, by the rules of project context; its notebooks too, if that is where notebooks are."""

    tenant: str
    files: ProjectFiles
    with_notebooks: bool
    keep_seconds: float | None = None

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return (Kind.NOTEBOOK, Kind.FILE) if self.with_notebooks else (Kind.FILE,)

    async def listing(self) -> Listing:
        walk = self.files.readable(LARGEST_NOTEBOOK if self.with_notebooks else LARGEST_FILE)
        found: list[tuple[int, Thing]] = []
        listed = 0
        while some := await asyncio.to_thread(_taken, walk):
            listed += len(some)
            found += [(file.modified, thing) for file in some if (thing := self._thing(file)) is not None]
            if listed >= MOST_LISTED:
                return newest(found, left_out=1)
        return newest(found)

    def _thing(self, file: ReadableFile) -> Thing | None:
        is_notebook = file.path.endswith(NOTEBOOK)
        if not is_findable(file.path) or (is_notebook and not (self.with_notebooks and is_path(file.path))):
            return None
        if not is_notebook and file.size > LARGEST_FILE:
            return None
        kind = Kind.NOTEBOOK if is_notebook else Kind.FILE
        return Thing(kind, file.path, f"{file.modified}:{file.size}", file.size)

    async def read(self, things: Sequence[Thing]) -> list[Content]:
        return await asyncio.to_thread(lambda: [Content(thing, self._entries(thing)) for thing in things])

    def _entries(self, thing: Thing) -> list[Entry]:
        text = self.files.text(thing.id)
        if text is None:
            return []
        if thing.kind is Kind.FILE:
            return file_entries(self.tenant, thing, text)
        try:
            return notebook_entries(self.tenant, thing, json.loads(text))
        except (ValueError, RecursionError):
            # Half-written, or no notebook at all: the next change is looked at again.
            return []


def _taken(walk: Iterator[ReadableFile]) -> list[ReadableFile]:
    return list(islice(walk, LISTED_AT_ONCE))


def notebook_entries(tenant: str, thing: Thing, content: object) -> list[Entry]:
    return book_entries(tenant, thing, thing.id, book_of(content))


@dataclass(frozen=True, slots=True)
class ContentsPlace:
    """The notebooks of a Jupyter server, as its contents API tells them."""

    tenant: str
    notebooks: LiveNotebooks
    call: Call
    kinds: tuple[Kind, ...] = (Kind.NOTEBOOK,)
    keep_seconds: float | None = None

    async def listing(self) -> Listing:
        try:
            async with asyncio.timeout(LISTING_SECONDS):
                found = (await self.notebooks.connected(self.call)).found
                documents = found.jupyter.documents
                infos = await documents.describe(await documents.find(folder_path(found.folder), NOTEBOOK))
        except TimeoutError:
            raise DeadlineExceeded(f"listing the notebooks took more than {LISTING_SECONDS:.0f} s") from None
        return newest([(info.last_modified, _thing(info)) for info in infos if _is_wanted(info)])

    async def read(self, things: Sequence[Thing]) -> list[Content]:
        return [Content(thing, await self._entries(thing)) for thing in things]

    async def _entries(self, thing: Thing) -> list[Entry]:
        documents = (await self.notebooks.connected(self.call)).found.jupyter.documents
        try:
            content = (await documents.read(NotebookPath(thing.id), FileKind.NOTEBOOK)).content
        except Unavailable:
            raise
        except CellwrightError:
            # Deleted since it was listed, or no notebook to the server either.
            return []
        return await asyncio.to_thread(notebook_entries, self.tenant, thing, content)


def _is_wanted(info: FileInfo) -> bool:
    return is_findable(info.path) and not is_secret(info.path) and (info.size or 0) <= LARGEST_NOTEBOOK


def _thing(info: FileInfo) -> Thing:
    return Thing(Kind.NOTEBOOK, info.path, f"{info.last_modified.timestamp()}:{info.size}", info.size or 0)


@dataclass(frozen=True, slots=True)
class ThinkingPlace:
    """A caller's thinking notebooks. They are not in the index by themselves, because most are gone before anybody looks for them."""

    thinking: Thinking
    call: Call
    keep_seconds: float | None
    kinds: tuple[Kind, ...] = (Kind.THINKING,)

    @property
    def tenant(self) -> str:
        return self.call.principal.id

    async def listing(self) -> Listing:
        found = await self.thinking.all_of(self.call)
        return Listing([Thing(Kind.THINKING, one.id, f"{one.session}:{one.version}") for one in found])

    async def read(self, things: Sequence[Thing]) -> list[Content]:
        return [Content(thing, await self._entries(thing)) for thing in things]

    async def _entries(self, thing: Thing) -> list[Entry]:
        try:
            view: View = await self.thinking.read(self.call, thing.id)
        except CellwrightError:
            return []
        notebook = view.notebook
        book = notebook.book(view.cells)
        return await asyncio.to_thread(
            book_entries, self.tenant, thing, clean(notebook.title).text, book, notebook.session
        )
