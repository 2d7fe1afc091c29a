"""Searches a project by words and by meaning: its discoveries, modules, sessions, notebooks and files."""

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cellwright.context.files.grep import first_line_with
from cellwright.context.files.reading import lines_of
from cellwright.context.files.service import ProjectFiles, ReadableFile
from cellwright.context.model import Discovery, Project, Session
from cellwright.context.scanner.languages import language_of
from cellwright.context.uris import DISCOVERIES_URI, RECENT_URI, file_uri, module_uri
from cellwright.core.text.clean import clean
from cellwright.core.text.names import on_one_line
from cellwright.core.text.sight import seen
from cellwright.storage.database import Database, Transaction
from cellwright.storage.search.port import Entry, Hit, Key, Query, SearchIndex
from cellwright.storage.search.words import words_of

KINDS = ("discovery", "module", "session", "notebook", "file")
MOST_INDEXED = 2_000
MOST_CALLERS = 1_000
INDEXED_HEAD = 600
BATCH = 500
REFRESH_SECONDS = 30.0
"""How long a listing of the files is recent enough for a search."""
WAIT_SECONDS = 3.0
TEXTS = (".ipynb", ".md", ".rst", ".txt", ".toml", ".yaml", ".yml", ".json", ".html", ".css")
SNIPPET = 240
URIS = {"session": RECENT_URI, "discovery": DISCOVERIES_URI}


@dataclass(frozen=True)
class SearchHit:
    kind: str
    title: str
    score: float
    path: str | None = None
    line: int | None = None
    uri: str | None = None
    snippet: str = ""


@dataclass(frozen=True, slots=True)
class ProjectQuery:
    """What is searched for, and for whom. Callers find only their own sessions; everything else is shared."""

    query: str
    kinds: Sequence[str]
    module: str
    limit: int
    principal: str


def tenant_of(project_key: str) -> str:
    """The name under which the index has the contents of a project."""
    return f"project:{project_key}"


class ProjectIndex:
    """The part of the search index that is about one project. Files are read when somebody searches, not before."""

    def __init__(self, database: Database, index: SearchIndex, files: ProjectFiles, project_key: str) -> None:
        self._database = database
        self._index = index
        self._files = files
        self._tenant = tenant_of(project_key)
        self._indexed: dict[str, tuple[ReadableFile, str]] = {}
        """The files that this process has put into the index, each with its module."""
        self._project: Project | None = None
        self._refreshed = float("-inf")
        self._sessions: dict[str, bytes] = {}
        """A digest of what was last written of each caller's session."""
        self._refreshing: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait({self._refreshing})

    async def refresh(self, project: Project) -> None:
        """Make modules and files findable as they are now. Waits a bounded time; the rest is done in the background."""
        if self._refreshing is None or self._refreshing.done():
            if project is self._project and time.monotonic() - self._refreshed < REFRESH_SECONDS:
                return
            self._refreshing = asyncio.get_running_loop().create_task(self._update(project))
        await asyncio.wait({self._refreshing}, timeout=WAIT_SECONDS)
        if self._refreshing.done():
            self._refreshing.result()

    async def _update(self, project: Project) -> None:
        files = await asyncio.to_thread(self._files_to_index, project)
        changed = [path for path, file in files.items() if self._indexed.get(path) != file]
        for start in range(0, len(changed), BATCH):
            batch = {path: files[path] for path in changed[start : start + BATCH]}
            entries = await asyncio.to_thread(self._file_entries, batch)
            await self._database.write(lambda tx, entries=entries: self._index.put(tx, entries))
            self._indexed |= batch
        removed_paths = [path for path in self._indexed if path not in files]
        modules = self._module_entries(project) if project is not self._project else []

        def work(tx: Transaction) -> None:
            self._index.put(tx, modules)
            for path in removed_paths:
                self._index.remove(tx, self._tenant, _kind(path), path)

        if modules or removed_paths:
            await self._database.write(work)
        for path in removed_paths:
            del self._indexed[path]
        self._project, self._refreshed = project, time.monotonic()

    def _files_to_index(self, project: Project) -> dict[str, tuple[ReadableFile, str]]:
        """The files to index, each with its module: key files first, then other text files, at most MOST_INDEXED."""
        key_paths = {key_file.path for module in project.modules.values() for key_file in module.key_files}
        files = sorted(
            self._files.readable(),
            key=lambda file: (file.path not in key_paths, not _is_text(file.path), file.path),
        )
        module_of = project.finder()
        return {file.path: (file, module_of(file.path) or "") for file in files[:MOST_INDEXED]}

    def _file_entries(self, files: Mapping[str, tuple[ReadableFile, str]]) -> list[Entry]:
        return [
            Entry(
                Key(self._tenant, _kind(path), path),
                clean((self._files.text(path) or "")[:INDEXED_HEAD]).text if _is_text(path) else "",
                path,
                module,
            )
            for path, (_, module) in files.items()
        ]

    def _module_entries(self, project: Project) -> list[Entry]:
        return [
            Entry(Key(self._tenant, "module", name), f"{module.description}\n" + "\n".join(module.patterns), name, name)
            for name, module in project.modules.items()
        ]

    def add_discovery(self, tx: Transaction, discovery: Discovery) -> None:
        body = f"{discovery.content}\n{discovery.solution}".strip()
        self._index.put(
            tx, [Entry(Key(self._tenant, "discovery", discovery.id), body, discovery.type.value, discovery.module)]
        )

    async def add_session(self, principal: str, session: Session) -> None:
        """Make a caller's session findable for that caller."""
        text = "\n".join(map(on_one_line, [*session.topics, *(place.path for place in session.touched[:50])]))
        digest = hashlib.blake2b((session.id + text).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if self._sessions.get(principal) == digest:
            return
        entry = Entry(Key(self._session_tenant(principal), "session", session.id), text, f"session {session.id[:8]}")
        await self._database.write(lambda tx: self._index.put(tx, [entry]))
        self._sessions.pop(principal, None)
        self._sessions[principal] = digest
        if len(self._sessions) > MOST_CALLERS:
            del self._sessions[next(iter(self._sessions))]

    async def search(self, query: ProjectQuery) -> list[SearchHit]:
        """The best hits in the project and in the caller's own sessions."""
        kinds = tuple(query.kinds) or KINDS
        shared_kinds = tuple(kind for kind in kinds if kind != "session")
        hits: list[Hit] = []
        if shared_kinds:
            modules = (query.module,) if query.module else ()
            shared = Query(self._tenant, query.query, shared_kinds, modules, (), query.limit)
            hits += (await self._index.search(shared)).hits
        if "session" in kinds and not query.module:
            own = Query(self._session_tenant(query.principal), query.query, ("session",), (), (), query.limit)
            hits += (await self._index.search(own)).hits
        best = sorted(hits, key=lambda hit: -hit.score)[: query.limit]
        return await asyncio.to_thread(self._search_hits, best, words_of(query.query))

    def _session_tenant(self, principal: str) -> str:
        return f"{self._tenant}|{principal}"

    def _search_hits(self, hits: Sequence[Hit], words: Sequence[str]) -> list[SearchHit]:
        search_hits = (self._search_hit(hit.entry, round(hit.score, 4), words) for hit in hits)
        return [search_hit for search_hit in search_hits if search_hit is not None]

    def _search_hit(self, entry: Entry, score: float, words: Sequence[str]) -> SearchHit | None:
        """None for a file that is gone."""
        kind, name = entry.key.kind, entry.key.thing
        snippet = clean(entry.text[:SNIPPET]).text
        if kind not in {"file", "notebook"}:
            uri = URIS.get(kind) or module_uri(name)
            return SearchHit(kind, on_one_line(entry.title or name), score, uri=uri, snippet=snippet)
        text = self._files.text(name)
        if text is None and not self._files.exists(name):
            return None
        line, line_text = _best_line(text or "", words)
        return SearchHit(kind, on_one_line(name), score, name, line, file_uri(name), line_text or snippet)


def _best_line(text: str, words: Sequence[str]) -> tuple[int | None, str]:
    number = first_line_with(text, words)
    lines = lines_of(text)
    return (number, seen(lines[number - 1][:SNIPPET].removesuffix("\r")).text) if lines else (None, "")


def _kind(path: str) -> str:
    return "notebook" if path.endswith(".ipynb") else "file"


def _is_text(path: str) -> bool:
    return language_of(path) is not None or path.endswith(TEXTS)
