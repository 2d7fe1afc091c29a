"""Everything that is known of one project: its file, its sessions, its discoveries. The service of the context tools."""

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cellwright.context import discoveries as known
from cellwright.context import pages, sessions
from cellwright.context.enriching import Addition, additions
from cellwright.context.grep import Matches, Wanted, compiled, first_line_with, grep
from cellwright.context.model import Discovery, DiscoveryType, NoActiveSession, Project, Session, Unreadable
from cellwright.context.paths import Root
from cellwright.context.project_file import ProjectFile
from cellwright.context.reading import FileText, dependencies, read_file, read_text
from cellwright.context.recorder import IDLE_SECONDS, Recorder, TraceOf
from cellwright.context.relevance import FULL, Use, lowest_fifth, score
from cellwright.context.scanner.imports import Layout, layout_of
from cellwright.context.scanner.scan import Scan, scan
from cellwright.context.scanner.walk import Progress, list_files
from cellwright.core.clean import clean
from cellwright.core.errors import CellwrightError, InvalidArgument, LimitReached
from cellwright.core.resources import Changes, ResourceListChanged, ResourceUpdated
from cellwright.core.status import PartStatus
from cellwright.core.tokens import estimate_tokens
from cellwright.core.types import Call
from cellwright.storage.database import Database, Transaction
from cellwright.storage.search import Entry, Hit, Key, Query, SearchIndex
from cellwright.storage.words import words_of

OVERVIEW_URI = "context://project/overview"
CURRENT_URI = "context://session/current"
RECENT_URI = "context://sessions/recent"
DISCOVERIES_URI = "context://discoveries"
KINDS = ("discovery", "module", "session", "notebook", "file")
GREP_SECONDS = 10.0
SCAN_SECONDS = 120.0
LONGEST_CONTENT = 4_000
MOST_DISCOVERIES = 20_000
MOST_INDEXED = 2_000
INDEXED_HEAD = 600
LAYOUT_SECONDS = 30.0
"""How long a listing of the project's files is good enough for finding what a file imports."""


@dataclass(frozen=True)
class Limits:
    """What the operator may choose."""

    window: int = 100_000
    """The model's window, in tokens."""
    allow_secrets: bool = False
    idle: float = IDLE_SECONDS


@dataclass(frozen=True)
class SearchHit:
    kind: str
    title: str
    score: float
    path: str | None = None
    line: int | None = None
    uri: str | None = None
    snippet: str = ""


@dataclass(frozen=True)
class Enrichment:
    """What discoveries add to project.yaml: `applied` says whether that was done."""

    additions: list[Addition]
    applied: bool
    file: str


@dataclass(frozen=True)
class Scanned:
    """What a scan found and whether project.yaml changed."""

    files: int
    modules: list[str]
    stack: list[str]
    changed: bool
    file: str
    truncated: bool = False


@dataclass(frozen=True)
class Share:
    """What a model would be given, in tokens."""

    overview: int
    modules: int
    session: int
    window: int
    archived: list[str] = field(default_factory=list[str])

    @property
    def total(self) -> int:
        return self.overview + self.modules + self.session


class ProjectContext:
    """What is known about the project at `root`, and what is done in it."""

    def __init__(
        self,
        root: Path,
        database: Database,
        index: SearchIndex,
        changes: Changes,
        trace_of: TraceOf,
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._limits = limits or Limits()
        self._root = Root(root, self._limits.allow_secrets)
        self._file = ProjectFile(root)
        self._database = database
        self._index = index
        self._changes = changes
        self._clock = clock
        self._key = hashlib.blake2b(
            os.path.realpath(root).encode("utf-8", "surrogateescape"), digest_size=8
        ).hexdigest()
        self._tenant = f"project:{self._key}"
        self._layout: tuple[float, Layout] | None = None
        self._last_project = Project()
        self._scanning = asyncio.Lock()
        self.recorder = Recorder(
            database,
            self._key,
            trace_of,
            clock,
            idle=self._limits.idle,
            prepare=self._know_project,
            module_of=self._module_of,
            flushed=self._sessions_changed,
        )

    async def _know_project(self) -> None:
        # A project file that cannot be read is told to who reads it; what is done is recorded all the same.
        with suppress(CellwrightError):
            await self.project()

    def _module_of(self, path: str) -> str | None:
        return self._last_project.module_of(path)

    def status(self) -> PartStatus:
        known_modules = len(self._last_project.modules)
        return PartStatus("context", "ready", f"{known_modules} modules known" if known_modules else "")

    async def close(self) -> None:
        await self.recorder.close()

    # -- the project ---------------------------------------------------------------------------------------------------------

    async def project(self) -> Project:
        """What project.yaml says; a nameless project with no modules if there is none yet."""
        found = await asyncio.to_thread(self._file.read)
        self._last_project = found if found is not None else Project(self._root.folder.name, path=".")
        return self._last_project

    @property
    def project_file(self) -> Path:
        return self._file.path

    async def scan(self, progress: Progress = lambda _done, _total: None) -> Scanned:
        """Look at the project again and add what is new to project.yaml; what a person wrote stays."""
        async with self._scanning:
            found = await asyncio.to_thread(scan, str(self._root.folder), progress)
            changed = await asyncio.to_thread(self._file.merge, found.project)
            project = await self.project()
            await self._index_scan(found, project)
        self._project_changed()
        shown = self._file.path.relative_to(self._root.folder).as_posix()
        stack, modules = list(found.project.stack), list(project.modules)
        return Scanned(len(found.files), modules, stack, changed, shown, found.truncated)

    async def _index_scan(self, found: Scan, project: Project) -> None:
        key_paths = {one.path for module in project.modules.values() for one in module.key_files}
        paths = sorted(
            (one.path for one in found.files), key=lambda path: (path not in key_paths, path not in found.heads, path)
        )
        entries = [
            Entry(Key(self._tenant, "module", name), f"{module.description}\n" + "\n".join(module.patterns), name, name)
            for name, module in project.modules.items()
        ]
        for path in paths[:MOST_INDEXED]:
            kind = "notebook" if path.endswith(".ipynb") else "file"
            head = clean(found.heads.get(path, "")[:INDEXED_HEAD]).text
            entries.append(Entry(Key(self._tenant, kind, path), head, path, project.module_of(path) or ""))
        for start in range(0, len(entries), 500):
            batch = entries[start : start + 500]
            await self._database.write(lambda tx, batch=batch: self._index.put(tx, batch))

    # -- files ---------------------------------------------------------------------------------------------------------------

    async def read_file(self, path: str, start: int | None, end: int | None, depth: int) -> FileText:
        """A file of the project; with `depth` the files it imports as well."""
        shown = await asyncio.to_thread(read_file, self._root, path, start, end)
        if not depth:
            return shown
        layout = await self._current_layout()
        found = await asyncio.to_thread(dependencies, self._root, layout, shown.path, depth)
        return FileText(
            shown.path, shown.text, shown.start, shown.end, shown.lines, shown.next, shown.hidden_characters, found
        )

    async def _current_layout(self) -> Layout:
        now = time.monotonic()
        if self._layout is None or now - self._layout[0] > LAYOUT_SECONDS:
            listing = await asyncio.to_thread(list_files, str(self._root.folder))
            self._layout = (now, layout_of((one.path for one in listing.files), {}))
        return self._layout[1]

    async def grep(
        self, pattern: str, file_pattern: str, *, case_sensitive: bool, context_lines: int, limit: int
    ) -> Matches:
        wanted = Wanted(compiled(pattern, case_sensitive=case_sensitive), file_pattern, context_lines, limit)
        return await asyncio.to_thread(grep, self._root, wanted, GREP_SECONDS)

    # -- discoveries ---------------------------------------------------------------------------------------------------------

    async def record(self, call: Call, kind: str, content: str, module: str, solution: str) -> tuple[Discovery, bool]:
        """Keep something learnt. Whether it was merged with what was known."""
        text, remedy = clean(content).text.strip(), clean(solution).text.strip()
        if not text or max(len(text), len(remedy)) > LONGEST_CONTENT:
            raise InvalidArgument(
                "content is empty or too long",
                hint=f"say it in 1 to {LONGEST_CONTENT:,} characters, one thing at a time",
            )
        if module:
            (await self.project()).module(module)
        draft = Discovery("", DiscoveryType(kind), text, module, remedy, self.recorder.session_id(call))
        now = self._clock()

        def work(tx: Transaction) -> tuple[Discovery, bool]:
            row = tx.row("SELECT count(*) FROM context_discoveries WHERE project = ?", self._key)
            if row and isinstance(row[0], int) and row[0] >= MOST_DISCOVERIES:
                raise LimitReached(
                    f"the project has {MOST_DISCOVERIES:,} discoveries", hint="put them into project.yaml"
                )
            made, merged = known.record(tx, self._key, draft, now)
            known.count_use(tx, self._key, [f"discovery:{made.id}", *([f"module:{module}"] if module else [])], now)
            body = f"{made.content}\n{made.solution}".strip()
            self._index.put(tx, [Entry(Key(self._tenant, "discovery", made.id), body, made.type.value, module)])
            return made, merged

        result = await self._database.write(work)
        self._changes.publish(ResourceUpdated(DISCOVERIES_URI))
        return result

    async def discoveries(self, kind: str = "", module: str = "") -> list[Discovery]:
        return await self._database.read(lambda tx: known.list_all(tx, self._key, kind, module))

    async def enrich(self, *, apply: bool) -> Enrichment:
        """What the discoveries would add to project.yaml; with `apply` they are added."""
        found = [one for one in await self.discoveries() if not one.archived][::-1]
        project = await self.project()
        missing = additions(project, found)
        shown = self._file.path.relative_to(self._root.folder).as_posix()
        if not apply or not missing:
            return Enrichment(missing, applied=False, file=shown)
        wanted = {one.discovery for one in missing}
        changed = await asyncio.to_thread(self._file.enrich, [one for one in found if one.id in wanted])
        await self.project()
        self._project_changed()
        return Enrichment(missing, applied=changed, file=shown)

    # -- search --------------------------------------------------------------------------------------------------------------

    async def search(self, call: Call, query: str, kinds: Sequence[str], module: str, limit: int) -> list[SearchHit]:
        """By words and by meaning, over everything that is known of the project, and the caller's own sessions."""
        wanted = tuple(kinds) or KINDS
        shared = tuple(kind for kind in wanted if kind != "session")
        hits: list[Hit] = []
        if shared:
            only = (module,) if module else ()
            hits += (await self._index.search(Query(self._tenant, query, shared, only, (), limit))).hits
        if "session" in wanted and not module:
            await self._index_session(call)
            own = Query(self._tenant_of(call), query, ("session",), (), (), limit)
            hits += (await self._index.search(own)).hits
        words = words_of(query)
        best = sorted(hits, key=lambda hit: -hit.score)[:limit]
        return [await asyncio.to_thread(self._hit, hit.entry, hit.score, words) for hit in best]

    def _tenant_of(self, call: Call) -> str:
        """Sessions are their callers' own; what is known of the project is everybody's."""
        return f"{self._tenant}|{call.principal.id}"

    async def _index_session(self, call: Call) -> None:
        """What the caller's session is about, findable from now on."""
        session = self.recorder.current(call)
        if session is None:
            return
        text = "\n".join([*session.topics, *(one.path for one in session.touched[:50])])
        entry = Entry(Key(self._tenant_of(call), "session", session.id), text, f"session {session.id[:8]}")
        await self._database.write(lambda tx: self._index.put(tx, [entry]))

    def _hit(self, entry: Entry, value: float, words: Sequence[str]) -> SearchHit:
        kind, thing = entry.key.kind, entry.key.thing
        snippet = clean(entry.text[:240]).text
        if kind not in {"file", "notebook"}:
            uri = {"module": f"context://module/{thing}", "session": RECENT_URI}.get(kind, DISCOVERIES_URI)
            return SearchHit(kind, entry.title or thing, round(value, 4), uri=uri, snippet=snippet)
        line, shown = self._line(thing, words)
        return SearchHit(kind, thing, round(value, 4), thing, line, f"context://file/{thing}", shown or snippet)

    def _line(self, path: str, words: Sequence[str]) -> tuple[int | None, str]:
        try:
            _, text = read_text(self._root, path)
        except CellwrightError:
            return None, ""
        number = first_line_with(text, words)
        lines = text.splitlines()
        return number, clean(lines[number - 1][:240]).text if lines else ""

    # -- pages ---------------------------------------------------------------------------------------------------------------

    async def overview(self, call: Call) -> str:
        project = await self.project()
        await self._make_room(call, project)
        uses = await self._database.read(lambda tx: known.uses(tx, self._key))
        now = self._clock()
        worth = {name: score(uses.get(f"module:{name}", Use(name)), now) for name in project.modules}
        return pages.overview(project, worth, [name for name in project.modules if self._is_archived(uses, name)])

    async def module(self, name: str) -> str:
        found = (await self.project()).module(name)
        now = self._clock()
        await self._database.write(lambda tx: known.count_use(tx, self._key, [f"module:{name}"], now))
        return pages.module_page(found)

    async def current(self, call: Call) -> Session:
        await self._know_project()
        session = self.recorder.current(call)
        if session is None:
            raise NoActiveSession(
                "No active session",
                details={"reason": "no tool was called yet, or not for 30 minutes; the next call starts one"},
            )
        return session

    async def current_page(self, call: Call) -> str:
        return pages.session_page(await self.current(call), self._clock())

    async def recent(self, call: Call, limit: int) -> list[Session]:
        await self.recorder.flush()
        now = self._clock()

        def work(tx: Transaction) -> list[Session]:
            sessions.recover(tx, self._key, self._limits.idle, now)
            return sessions.recent(tx, self._key, call.principal.id, limit)

        return await self._database.write(work)

    async def recent_page(self, call: Call, limit: int) -> str:
        return pages.sessions_page(await self.recent(call, limit), self._clock())

    async def discoveries_page(self, kind: str, module: str) -> str:
        return pages.discoveries_page(await self.discoveries(kind, module))

    async def file_page(self, path: str) -> str:
        shown = await asyncio.to_thread(read_file, self._root, path, None, None, 20_000)
        if shown.next is not None:
            raise Unreadable(f"{path[:200]} is too long to be read as a whole", hint="read_file reads a part of it")
        return shown.text

    # -- how much there is ---------------------------------------------------------------------------------------------------

    async def share(self, call: Call) -> Share:
        """What a model would be given, in tokens: the overview, the pages of the modules in it, the session."""
        project = await self.project()
        uses = await self._database.read(lambda tx: known.uses(tx, self._key))
        archived = [name for name in project.modules if self._is_archived(uses, name)]
        overview = pages.overview(project, {}, archived)
        shown = [module for name, module in project.modules.items() if name not in set(archived)]
        session = self.recorder.current(call)
        return Share(
            estimate_tokens(overview),
            sum(estimate_tokens(pages.module_page(module)) for module in shown),
            estimate_tokens(pages.session_page(session, self._clock())) if session else 0,
            self._limits.window,
            archived,
        )

    async def _make_room(self, call: Call, project: Project) -> None:
        """Archive the least used fifth while the overview or the window is too full."""
        for _attempt in range(20):
            share = await self.share(call)
            left = [name for name in project.modules if name not in set(share.archived)]
            too_long = pages.overview_bytes(project, share.archived) > pages.OVERVIEW_BYTES
            crowded = too_long or share.total > FULL * share.window
            if not crowded or len(left) <= 1:
                return
            now = self._clock()

            def work(tx: Transaction, left: list[str] = left, now: float = now) -> None:
                uses = known.uses(tx, self._key)
                candidates = [uses.get(f"module:{name}", Use(f"module:{name}")) for name in left]
                known.archive(tx, self._key, lowest_fifth(candidates, now))

            await self._database.write(work)

    @staticmethod
    def _is_archived(uses: dict[str, Use], name: str) -> bool:
        use = uses.get(f"module:{name}")
        return use is not None and use.archived

    # -- telling -------------------------------------------------------------------------------------------------------------

    def _project_changed(self) -> None:
        self._changes.publish(ResourceUpdated(OVERVIEW_URI))
        for name in self._last_project.modules:
            self._changes.publish(ResourceUpdated(f"context://module/{name}"))
        self._changes.publish(ResourceListChanged())

    def _sessions_changed(self, tenants: frozenset[str]) -> None:
        for tenant in tenants:
            self._changes.publish(ResourceUpdated(CURRENT_URI, tenant))
            self._changes.publish(ResourceUpdated(RECENT_URI, tenant))
