"""Finding what is known of a project, by words and by meaning: discoveries, modules, sessions, notebooks, files."""

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
"""How long a look at the files is good enough for a search."""
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
class Wanted:
    """What is looked for, and for whom: sessions are their callers' own, what is known of the project is everybody's."""

    query: str
    kinds: Sequence[str]
    module: str
    limit: int
    principal: str


def tenant_of(project_key: str) -> str:
    """Under which name the index has what is known of a project."""
    return f"project:{project_key}"


class KnownThings:
    """The part of the search index that is about one project. Files are looked at when somebody searches, not before."""

    def __init__(self, database: Database, index: SearchIndex, files: ProjectFiles, project_key: str) -> None:
        self._database = database
        self._index = index
        self._files = files
        self._tenant = tenant_of(project_key)
        self._seen: dict[str, tuple[ReadableFile, str]] = {}
        """What is in the index, with its module, as this process has seen it."""
        self._project: Project | None = None
        self._looked = float("-inf")
        self._sessions: dict[str, bytes] = {}
        """What was last written of each caller's session, as a digest."""
        self._refreshing: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait({self._refreshing})

    async def refresh(self, project: Project) -> None:
        """Make modules and files findable as they are now. Waits a bounded moment; the rest goes on beside."""
        if self._refreshing is None or self._refreshing.done():
            if project is self._project and time.monotonic() - self._looked < REFRESH_SECONDS:
                return
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh(project))
        await asyncio.wait({self._refreshing}, timeout=WAIT_SECONDS)
        if self._refreshing.done():
            self._refreshing.result()

    async def _refresh(self, project: Project) -> None:
        files = await asyncio.to_thread(self._files_to_index, project)
        changed = [path for path, now in files.items() if self._seen.get(path) != now]
        for start in range(0, len(changed), BATCH):
            batch = {path: files[path] for path in changed[start : start + BATCH]}
            entries = await asyncio.to_thread(self._file_entries, batch)
            await self._database.write(lambda tx, entries=entries: self._index.put(tx, entries))
            self._seen |= batch
        gone = [path for path in self._seen if path not in files]
        modules = self._module_entries(project) if project is not self._project else []

        def work(tx: Transaction) -> None:
            self._index.put(tx, modules)
            for path in gone:
                self._index.remove(tx, self._tenant, _kind(path), path)

        if modules or gone:
            await self._database.write(work)
        for path in gone:
            del self._seen[path]
        self._project, self._looked = project, time.monotonic()

    def _files_to_index(self, project: Project) -> dict[str, tuple[ReadableFile, str]]:
        """Key files first, then those with code, as many as are worth it, each with its module."""
        key_paths = {one.path for module in project.modules.values() for one in module.key_files}
        found = sorted(
            self._files.readable(),
            key=lambda one: (one.path not in key_paths, not _says_something(one.path), one.path),
        )
        module_of = project.finder()
        return {one.path: (one, module_of(one.path) or "") for one in found[:MOST_INDEXED]}

    def _file_entries(self, files: Mapping[str, tuple[ReadableFile, str]]) -> list[Entry]:
        return [
            Entry(
                Key(self._tenant, _kind(path), path),
                clean((self._files.text(path) or "")[:INDEXED_HEAD]).text if _says_something(path) else "",
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

    def add_discovery(self, tx: Transaction, made: Discovery) -> None:
        body = f"{made.content}\n{made.solution}".strip()
        self._index.put(tx, [Entry(Key(self._tenant, "discovery", made.id), body, made.type.value, made.module)])

    async def add_session(self, principal: str, session: Session) -> None:
        """What a caller's session is about, findable from now on, by them."""
        text = "\n".join(map(on_one_line, [*session.topics, *(one.path for one in session.touched[:50])]))
        digest = hashlib.blake2b((session.id + text).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if self._sessions.get(principal) == digest:
            return
        entry = Entry(Key(self._tenant_of(principal), "session", session.id), text, f"session {session.id[:8]}")
        await self._database.write(lambda tx: self._index.put(tx, [entry]))
        self._sessions.pop(principal, None)
        self._sessions[principal] = digest
        if len(self._sessions) > MOST_CALLERS:
            del self._sessions[next(iter(self._sessions))]

    async def search(self, wanted: Wanted) -> list[SearchHit]:
        """The best of what is known of the project and of the caller's own sessions."""
        kinds = tuple(wanted.kinds) or KINDS
        shared = tuple(kind for kind in kinds if kind != "session")
        hits: list[Hit] = []
        if shared:
            only = (wanted.module,) if wanted.module else ()
            everybodys = Query(self._tenant, wanted.query, shared, only, (), wanted.limit)
            hits += (await self._index.search(everybodys)).hits
        if "session" in kinds and not wanted.module:
            own = Query(self._tenant_of(wanted.principal), wanted.query, ("session",), (), (), wanted.limit)
            hits += (await self._index.search(own)).hits
        best = sorted(hits, key=lambda hit: -hit.score)[: wanted.limit]
        return await asyncio.to_thread(self._shown, best, words_of(wanted.query))

    def _tenant_of(self, principal: str) -> str:
        return f"{self._tenant}|{principal}"

    def _shown(self, hits: Sequence[Hit], words: Sequence[str]) -> list[SearchHit]:
        shown = (self._hit(hit.entry, round(hit.score, 4), words) for hit in hits)
        return [one for one in shown if one is not None]

    def _hit(self, entry: Entry, score: float, words: Sequence[str]) -> SearchHit | None:
        kind, thing = entry.key.kind, entry.key.thing
        snippet = clean(entry.text[:SNIPPET]).text
        if kind not in {"file", "notebook"}:
            uri = URIS.get(kind) or module_uri(thing)
            return SearchHit(kind, on_one_line(entry.title or thing), score, uri=uri, snippet=snippet)
        text = self._files.text(thing)
        if text is None and not self._files.exists(thing):
            return None
        line, shown = _best_line(text or "", words)
        return SearchHit(kind, on_one_line(thing), score, thing, line, file_uri(thing), shown or snippet)


def _best_line(text: str, words: Sequence[str]) -> tuple[int | None, str]:
    number = first_line_with(text, words)
    lines = lines_of(text)
    return (number, seen(lines[number - 1][:SNIPPET].removesuffix("\r")).text) if lines else (None, "")


def _kind(path: str) -> str:
    return "notebook" if path.endswith(".ipynb") else "file"


def _says_something(path: str) -> bool:
    return language_of(path) is not None or path.endswith(TEXTS)
