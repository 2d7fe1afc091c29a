"""Everything that is known of one project: its file, its sessions, its discoveries. The service of the context tools."""

import asyncio
import hashlib
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from cellwright.context import discoveries as known
from cellwright.context import pages, sessions
from cellwright.context.enriching import Addition, additions
from cellwright.context.files import ProjectFiles
from cellwright.context.finding import KnownThings, SearchHit, Wanted, tenant_of
from cellwright.context.model import THINKING, Discovery, DiscoveryType, NoActiveSession, Project, Session, Touched
from cellwright.context.overview import Overview, Share
from cellwright.context.paths import Root
from cellwright.context.project_file import ProjectFile
from cellwright.context.recorder import IDLE_SECONDS, Recorder, TraceOf
from cellwright.context.scanner.scan import scan
from cellwright.context.scanner.walk import Progress
from cellwright.context.uris import CURRENT_URI, DISCOVERIES_URI, OVERVIEW_URI, RECENT_URI, canonical, module_uri
from cellwright.core.clean import clean
from cellwright.core.errors import CellwrightError, InvalidArgument, LimitReached
from cellwright.core.resources import Changes, ResourceListChanged, ResourceUpdated
from cellwright.core.status import PartStatus
from cellwright.core.types import Call
from cellwright.storage.database import Database, Transaction
from cellwright.storage.search import SearchIndex

LONGEST_CONTENT = 4_000
MOST_DISCOVERIES = 20_000
RECENT = 10


@dataclass(frozen=True)
class Limits:
    """What the operator may choose."""

    window: int = 100_000
    """The model's window, in tokens."""
    allow_secrets: bool = False
    idle: float = IDLE_SECONDS


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
class Knowledge:
    """Everything that a page about the project shows, as plain values."""

    project: Project
    archived: tuple[str, ...]
    """The modules that the overview leaves out, because they are hardly used."""
    discoveries: tuple[Discovery, ...]
    """Newest first."""
    sessions: tuple[Session, ...]
    """The caller's own, newest first."""


Addresses = Callable[[Call], Awaitable[Mapping[str, str]]]
"""The addresses of a caller's thinking notebooks, by their ids: which address one has is known to their own part only."""


async def no_addresses(_call: Call) -> Mapping[str, str]:
    return {}


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
        addresses: Addresses = no_addresses,
    ) -> None:
        self._limits = limits or Limits()
        self._folder = root
        self._file = ProjectFile(root)
        self._database = database
        self._changes = changes
        self._clock = clock
        self._addresses = addresses
        self._key = hashlib.blake2b(
            os.path.realpath(root).encode("utf-8", "surrogateescape"), digest_size=8
        ).hexdigest()
        self._unwritten = Project(root.name, path=".")
        self._last_project = self._unwritten
        self._find_module = self._last_project.finder()
        self._has_read = False
        self._watched: Counter[str] = Counter()
        self._scanning = asyncio.Lock()
        self.files = ProjectFiles(Root(root, self._limits.allow_secrets))
        self._overview = Overview(database, self._key, self._limits.window, clock)
        self._things = KnownThings(database, index, self.files, self._key)
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
        return self._find_module(path)

    def status(self) -> PartStatus:
        known_modules = len(self._last_project.modules)
        return PartStatus("context", "ready", f"{known_modules} modules known" if known_modules else "")

    async def close(self) -> None:
        await self._things.close()
        await self.recorder.close()

    # -- the project ---------------------------------------------------------------------------------------------------------

    async def project(self) -> Project:
        """What project.yaml says; a nameless project with no modules if there is none yet."""
        return self._keep(await asyncio.to_thread(self._file.read))

    def _keep(self, read: Project | None) -> Project:
        project, before = read or self._unwritten, self._last_project
        if project is not before:
            self._last_project, self._find_module = project, project.finder()
            if self._has_read and project != before:
                # Somebody wrote the file: who watches it is told as soon as we see that.
                self._project_changed(before)
        self._has_read = True
        return project

    @property
    def project_file(self) -> Path:
        return self._file.path

    async def scan(self, progress: Progress = lambda _done, _total: None) -> Scanned:
        """Look at the project again and add what is new to project.yaml; what a person wrote stays."""
        async with self._scanning:
            found = await asyncio.to_thread(scan, str(self._folder), progress)
            changed = await asyncio.to_thread(self._file.merge, found.project)
            project = await self.project()
        self._project_changed()
        shown = self._file.path.relative_to(self._folder).as_posix()
        stack, modules = list(found.project.stack), list(project.modules)
        return Scanned(len(found.files), modules, stack, changed, shown, found.truncated)

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
            self._things.add_discovery(tx, made)
            return made, merged

        result = await self._database.write(work)
        self._updated(DISCOVERIES_URI)
        return result

    async def discoveries(self, kind: str = "", module: str = "") -> list[Discovery]:
        """What was learnt of the project, newest first, whoever recorded it: for pages, and for who searches the whole workspace."""
        return await self._database.read(lambda tx: known.list_all(tx, self._key, kind, module))

    async def enrich(self, *, apply: bool) -> Enrichment:
        """What the discoveries would add to project.yaml; with `apply` they are added."""
        found = [one for one in await self.discoveries() if not one.archived][::-1]
        project = await self.project()
        missing = additions(project, found)
        shown = self._file.path.relative_to(self._folder).as_posix()
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
        await self._know_project()
        await self._things.refresh(self._last_project)
        session = self.recorder.current(call)
        if session is not None:
            await self._things.add_session(call.principal.id, session)
        return await self._things.search(Wanted(query, kinds, module, limit, call.principal.id))

    @property
    def search_tenant(self) -> str:
        """Under which name the index has what is known of the project: for who searches the whole workspace."""
        return tenant_of(self._key)

    # -- pages ---------------------------------------------------------------------------------------------------------------

    async def overview(self, call: Call) -> str:
        # One way to another thread instead of two: this is what is read most.
        found, uses = await self._database.read(lambda tx: (self._file.read(), self._overview.uses(tx)))
        return await self._overview.page(self._keep(found), uses, self.recorder.current(call))

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
        (whole,) = await self._with_addresses(call, [session])
        return whole

    async def _with_addresses(self, call: Call, found: Sequence[Session]) -> list[Session]:
        """Thinking notebooks by the addresses that they have now; those that are gone have none."""
        if not any(one.kind == THINKING for session in found for one in session.touched):
            return list(found)
        known_addresses = await self._addresses(call)

        def now(one: Touched) -> Touched:
            return replace(one, uri=known_addresses.get(one.path, "")) if one.kind == THINKING else one

        return [replace(session, touched=tuple(map(now, session.touched))) for session in found]

    async def current_page(self, call: Call) -> str:
        return pages.session_page(await self.current(call), self._clock())

    async def recent(self, call: Call, limit: int) -> list[Session]:
        await self.recorder.flush()
        now = self._clock()

        def work(tx: Transaction) -> list[Session]:
            sessions.recover(tx, self._key, self._limits.idle, now)
            return sessions.recent(tx, self._key, call.principal.id, limit)

        return await self._with_addresses(call, await self._database.write(work))

    async def recent_page(self, call: Call, limit: int) -> str:
        return pages.sessions_page(await self.recent(call, limit), self._clock())

    async def discoveries_page(self, kind: str, module: str) -> str:
        return pages.discoveries_page(await self.discoveries(kind, module))

    async def knowledge(self, call: Call, limit: int = RECENT) -> Knowledge:
        """What the workspace's web page shows of the project, and of the caller's sessions."""
        project = await self.project()
        archived = await self._overview.archived(project)
        return Knowledge(project, archived, tuple(await self.discoveries()), tuple(await self.recent(call, limit)))

    async def share(self, call: Call) -> Share:
        """What a model would be given, in tokens."""
        return await self._overview.share(await self.project(), self.recorder.current(call))

    # -- telling -------------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def watching(self, uri: str) -> AsyncGenerator[None]:
        """As long as it is held, changes of this address with its parameters are told, too."""
        self._watched[uri] += 1
        try:
            yield
        finally:
            self._watched[uri] -= 1
            self._watched += Counter[str]()

    def _updated(self, uri: str, tenant: str | None = None) -> None:
        for one in (uri, *(watched for watched in self._watched if canonical(watched) == uri != watched)):
            self._changes.publish(ResourceUpdated(one, tenant))

    def _project_changed(self, before: Project | None = None) -> None:
        self._changes.publish(ResourceUpdated(OVERVIEW_URI))
        for name in {**(before.modules if before else {}), **self._last_project.modules}:
            self._updated(module_uri(name))
        self._changes.publish(ResourceListChanged())

    def _sessions_changed(self, tenants: frozenset[str]) -> None:
        for tenant in tenants:
            self._changes.publish(ResourceUpdated(CURRENT_URI, tenant))
            self._updated(RECENT_URI, tenant)
