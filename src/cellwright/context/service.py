"""The service of the context tools: a project's file, its sessions and its discoveries."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from cellwright.context import discoveries as discovery_rows
from cellwright.context import pages, sessions
from cellwright.context.files.paths import Root
from cellwright.context.files.service import ProjectFiles
from cellwright.context.finding import ProjectIndex, ProjectQuery, SearchHit, tenant_of
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
    """What discoveries add to project.yaml; `applied` says whether it was added."""

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
    """The modules that the overview leaves out because they are hardly used."""
    discoveries: tuple[Discovery, ...]
    """Newest first."""
    sessions: tuple[Session, ...]
    """The caller's own, newest first."""


Addresses = Callable[[Call], Awaitable[Mapping[str, str]]]
"""The current addresses of a caller's places of one kind, by their ids. Only the part that has the places knows them."""


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
        """`naming` are the shelves that know which places a call names. `addresses` is for kinds of places whose addresses change."""
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
        self._index = ProjectIndex(database, index, self.files, self._key)
        self.traces = Traces(naming)
        self.recorder = Recorder(
            database,
            self._key,
            self.traces.trace_of,
            clock,
            idle=self._limits.idle,
            prepare=self._try_reading_project,
            module_of=self._module_of,
            flushed=self._sessions_changed,
        )

    async def _try_reading_project(self) -> None:
        # A project file that cannot be read is reported to its readers; calls are recorded all the same.
        with suppress(CellwrightError):
            await self.project()

    def _module_of(self, path: str) -> str | None:
        return self._find_module(path)

    def status(self) -> PartStatus:
        modules = len(self._last_project.modules)
        return PartStatus("context", "ready", f"{counted(modules, 'module')} known" if modules else "")

    async def close(self) -> None:
        await self._index.close()
        await self.recorder.close()

    # -- the project ---------------------------------------------------------------------------------------------------------

    async def project(self) -> Project:
        """What project.yaml says; a nameless project with no modules if there is none yet."""
        return self._remember(await asyncio.to_thread(self._file.read))

    def _remember(self, written_project: Project | None) -> Project:
        project, last_project = written_project or self._unwritten, self._last_project
        if project is not last_project:
            self._last_project, self._find_module = project, project.finder()
            if self._has_read and project != last_project:
                # Somebody else wrote the file, which is noticed only now.
                self._project_changed(last_project)
        self._has_read = True
        return project

    @property
    def project_file(self) -> Path:
        return self._file.path

    async def scan(self, progress: Progress = lambda _done, _total: None) -> Scanned:
        """Look at the project again and add what is new to project.yaml; what a person wrote stays."""
        async with self._scanning:
            scanned = await asyncio.to_thread(scan, str(self._folder), progress, self._reach)
            changed = await asyncio.to_thread(self._file.merge, scanned.project)
            project = await self.project()
        self._project_changed()
        stack, modules = list(scanned.project.stack), list(project.modules)
        file = self._file.relative_path
        return Scanned(len(scanned.files), modules, stack, changed, file, scanned.truncated)

    # -- discoveries ---------------------------------------------------------------------------------------------------------

    async def record(self, call: Call, kind: str, content: str, module: str, solution: str) -> tuple[Discovery, bool]:
        """Record something that was learnt. Returns the discovery and whether it was merged with an earlier one."""
        # Text that is far too long is not even cleaned, because cleaning takes the longer the longer it is.
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
            discovery, merged = discovery_rows.record(tx, self._key, draft, now)
            used = [f"discovery:{discovery.id}", *([f"module:{module}"] if module else [])]
            discovery_rows.count_use(tx, self._key, used, now)
            self._index.add_discovery(tx, discovery)
            return discovery, merged

        recorded = await self._database.write(work)
        self._updated(DISCOVERIES_URI)
        return recorded

    async def module_note(self, module: str) -> str:
        """A note about the module of a discovery; empty if project.yaml has that module."""
        try:
            modules = (await self.project()).modules
        except CellwrightError as error:
            return f"whether {on_one_line(module)} is a module cannot be told: {error.message}"
        if not module or module in modules:
            return ""
        similar = nearest(module, list(modules))
        question = f"did you mean {on_one_line(similar)}? " if similar else ""
        return f"project.yaml has no module {on_one_line(module)} yet; {question}context_enrich adds it with what was recorded"

    async def discoveries(self, kind: str = "", module: str = "") -> list[Discovery]:
        """What was learnt about the project, by everybody, newest first."""
        return await self._database.read(lambda tx: discovery_rows.list_all(tx, self._key, kind, module))

    async def enrich(self, *, apply: bool) -> Enrichment:
        """What the discoveries would add to project.yaml; with `apply` they are added."""
        oldest_first = [discovery for discovery in await self.discoveries() if not discovery.archived][::-1]
        missing = additions(await self.project(), oldest_first)
        file = self._file.relative_path
        if not apply or not missing:
            return Enrichment(missing, applied=False, file=file)
        missing_ids = {addition.discovery for addition in missing}
        new_discoveries = [discovery for discovery in oldest_first if discovery.id in missing_ids]
        changed = await asyncio.to_thread(self._file.enrich, new_discoveries)
        await self.project()
        self._project_changed()
        return Enrichment(missing, applied=changed, file=file)

    # -- search --------------------------------------------------------------------------------------------------------------

    async def search(self, call: Call, query: str, kinds: Sequence[str], module: str, limit: int) -> list[SearchHit]:
        """Search the project and the caller's own sessions, by words and by meaning."""
        await self._try_reading_project()
        await self._index.refresh(self._last_project)
        session = self.recorder.current(call)
        if session is not None:
            await self._index.add_session(call.principal.id, session)
        return await self._index.search(ProjectQuery(query, kinds, module, limit, call.principal.id))

    @property
    def search_tenant(self) -> str:
        """The name under which the index has the project's contents, for the search over the whole workspace."""
        return tenant_of(self._key)

    # -- pages ---------------------------------------------------------------------------------------------------------------

    async def overview(self, call: Call) -> str:
        # The file and the uses are read in one thread, not in two: this page is read most.
        written_project, uses = await self._database.read(lambda tx: (self._file.read(), self._overview.uses(tx)))
        return await self._overview.page(self._remember(written_project), uses, self.recorder.current(call))

    async def module(self, name: str) -> str:
        module = (await self.project()).module(name)
        now = self._clock()
        await self._database.write(lambda tx: discovery_rows.count_use(tx, self._key, [f"module:{name}"], now))
        return pages.module_page(module)

    async def current(self, call: Call) -> Session:
        await self._try_reading_project()
        session = self.recorder.current(call)
        if session is None:
            raise NoActiveSession(
                "No active session",
                details={"reason": "no tool was called yet, or not for 30 minutes; the next call starts one"},
            )
        (with_addresses,) = await self._with_addresses(call, [session])
        return with_addresses

    async def _with_addresses(self, call: Call, recorded: Sequence[Session]) -> list[Session]:
        """The sessions with the current addresses of places whose addresses change. A place that is gone has none."""
        kinds = {place.kind for session in recorded for place in session.touched} & self._addresses.keys()
        uris = {kind: await self._addresses[kind](call) for kind in kinds}

        def with_uri(place: Touched) -> Touched:
            return replace(place, uri=uris[place.kind].get(place.path, "")) if place.kind in kinds else place

        return [replace(session, touched=tuple(map(with_uri, session.touched))) for session in recorded]

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
        """How many tokens a model would be given."""
        return await self._overview.share(await self.project(), self.recorder.current(call))

    # -- announcing changes --------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def watching(self, uri: str) -> AsyncGenerator[None]:
        """While the block runs, changes of this address with its parameters are announced, too."""
        self._watched[uri] += 1
        try:
            yield
        finally:
            self._watched[uri] -= 1
            self._watched += Counter[str]()

    def _updated(self, uri: str, tenant: str | None = None) -> None:
        """Announce the address, and every watched one that is the same but for its parameters or spelling."""
        for changed in (uri, *(watched for watched in self._watched if canonical(watched) == uri != watched)):
            self._changes.publish(ResourceUpdated(changed, tenant))

    def _project_changed(self, before: Project | None = None) -> None:
        self._changes.publish(ResourceUpdated(OVERVIEW_URI))
        for name in {**(before.modules if before else {}), **self._last_project.modules}:
            self._updated(module_uri(name))
        self._changes.publish(ResourceListChanged())

    def _sessions_changed(self, tenants: frozenset[str]) -> None:
        for tenant in tenants:
            self._changes.publish(ResourceUpdated(CURRENT_URI, tenant))
            self._updated(RECENT_URI, tenant)
