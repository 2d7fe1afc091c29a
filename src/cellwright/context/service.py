"""Everything that is known of one project: its file, its sessions, its discoveries. The service of the context tools."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from cellwright.context import discoveries as known
from cellwright.context import pages, sessions
from cellwright.context.files.paths import Root
from cellwright.context.files.service import ProjectFiles
from cellwright.context.finding import KnownThings, SearchHit, Wanted, tenant_of
from cellwright.context.model import Discovery, DiscoveryType, NoActiveSession, Project, Session, Touched
from cellwright.context.overview import Overview, Share
from cellwright.context.project.enriching import Addition, additions
from cellwright.context.project.file import ProjectFile
from cellwright.context.recorder import IDLE_SECONDS, Recorder
from cellwright.context.scanner.scan import scan
from cellwright.context.scanner.walk import Progress
from cellwright.context.traces import Traces
from cellwright.context.uris import CURRENT_URI, DISCOVERIES_URI, OVERVIEW_URI, RECENT_URI, canonical, module_uri
from cellwright.core.arguments import nearest
from cellwright.core.errors import CellwrightError, InvalidArgument, LimitReached
from cellwright.core.resources import Changes, ResourceListChanged, ResourceUpdated
from cellwright.core.status import PartStatus
from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.core.text.names import can_be_given, on_one_line
from cellwright.core.types import Call
from cellwright.notebook.places import Naming, digest
from cellwright.storage.database import Database, Transaction
from cellwright.storage.search.port import SearchIndex
from cellwright.system.reach import BY_NAME, Reach

LONGEST_CONTENT = 4_000
MOST_CLEANED = 10 * LONGEST_CONTENT
LONGEST_MODULE = 200
MOST_DISCOVERIES = 20_000
RECENT = 10


@dataclass(frozen=True)
class ContextLimits:
    """What the operator may choose."""

    window: int = 100_000
    """The model's window, in tokens."""
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
"""Where a caller's things of one kind are now, by their ids: which address one has is known to its own part only."""


class ProjectContext:
    """What is known about the project at `root`, and what is done in it."""

    def __init__(
        self,
        root: Path,
        database: Database,
        index: SearchIndex,
        changes: Changes,
        naming: Sequence[Naming] = (),
        *,
        limits: ContextLimits | None = None,
        reach: Reach = BY_NAME,
        clock: Callable[[], float] = time.time,
        addresses: Mapping[str, Addresses] | None = None,
    ) -> None:
        """`naming` are those who know which places a call names; `addresses`, by kind, of what does not stay where it was."""
        self._limits = limits or ContextLimits()
        self._folder = root
        self._reach = reach
        self._file = ProjectFile(root)
        self._database = database
        self._changes = changes
        self._clock = clock
        self._addresses = addresses or {}
        self._key = digest(os.path.realpath(root))
        self._unwritten = Project(root.name, path=".")
        self._last_project = self._unwritten
        self._find_module = self._last_project.finder()
        self._has_read = False
        self._watched: Counter[str] = Counter()
        self._scanning = asyncio.Lock()
        self.files = ProjectFiles(Root(root, reach))
        self._overview = Overview(database, self._key, self._limits.window, clock)
        self._things = KnownThings(database, index, self.files, self._key)
        self.traces = Traces(naming)
        self.recorder = Recorder(
            database,
            self._key,
            self.traces.trace_of,
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
        return PartStatus("context", "ready", f"{counted(known_modules, 'module')} known" if known_modules else "")

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
            found = await asyncio.to_thread(scan, str(self._folder), progress, self._reach)
            changed = await asyncio.to_thread(self._file.merge, found.project)
            project = await self.project()
        self._project_changed()
        shown = self._file.path.relative_to(self._folder).as_posix()
        stack, modules = list(found.project.stack), list(project.modules)
        return Scanned(len(found.files), modules, stack, changed, shown, found.truncated)

    # -- discoveries ---------------------------------------------------------------------------------------------------------

    async def record(self, call: Call, kind: str, content: str, module: str, solution: str) -> tuple[Discovery, bool]:
        """Keep something learnt. Whether it was merged with what was known."""
        # What is far too long is not even cleaned, which would take as long as it is.
        readable = max(len(content), len(solution)) <= MOST_CLEANED
        text, remedy = (clean(content).text.strip(), clean(solution).text.strip()) if readable else ("", "")
        if not text or max(len(text), len(remedy)) > LONGEST_CONTENT:
            raise InvalidArgument(
                "content is empty or too long",
                hint=f"say it in 1 to {LONGEST_CONTENT:,} characters, one thing at a time",
            )
        if len(module) > LONGEST_MODULE or not can_be_given(module):
            raise InvalidArgument("this is no name of a module", hint="give a module of the project, or leave it out")
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

    async def module_note(self, module: str) -> str:
        """What to know about a module that something was recorded for: nothing, if project.yaml has it."""
        try:
            known = (await self.project()).modules
        except CellwrightError as error:
            return f"whether {on_one_line(module)} is a module cannot be told: {error.message}"
        if not module or module in known:
            return ""
        meant = nearest(module, list(known))
        near = f"did you mean {on_one_line(meant)}? " if meant else ""
        return (
            f"project.yaml has no module {on_one_line(module)} yet; {near}context_enrich adds it with what was recorded"
        )

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
        """What does not stay where it was by the addresses it has now; what is gone has none."""
        kinds = {one.kind for session in found for one in session.touched} & self._addresses.keys()
        known_addresses = {kind: await self._addresses[kind](call) for kind in kinds}

        def now(one: Touched) -> Touched:
            return replace(one, uri=known_addresses[one.kind].get(one.path, "")) if one.kind in kinds else one

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
