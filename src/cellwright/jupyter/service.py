"""Live notebooks of one workspace: connects when first needed, opens documents, finds kernels, runs cells."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import quote

from cellwright.core.errors import CellwrightError, InvalidArgument, NotFound
from cellwright.core.installation import this_installation
from cellwright.core.status import PartStatus
from cellwright.core.types import Call
from cellwright.jupyter import sessions
from cellwright.jupyter.connected import Connected
from cellwright.jupyter.documents.open_document import DocumentChanged, OpenDocument
from cellwright.jupyter.documents.people import Strangers
from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.rooms import Rooms
from cellwright.jupyter.edits.lost import LostEdits
from cellwright.jupyter.edits.proposals import Desk, Proposals
from cellwright.jupyter.files.creating import CreatedFile, create, new_notebook
from cellwright.jupyter.files.guarded import guarded
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.files.rules import Claims
from cellwright.jupyter.inside.permitted import ENDING, WRITE_KERNELS, require, require_run
from cellwright.jupyter.kernels.executions import (
    Checkpoint,
    Clock,
    Execution,
    Executions,
    ExecutionView,
    NeedsIt,
    call_cancelled,
)
from cellwright.jupyter.kernels.holding import RunHolder
from cellwright.jupyter.kernels.images import Pictures
from cellwright.jupyter.kernels.live import LiveKernels
from cellwright.jupyter.kernels.queue import KernelQueue
from cellwright.jupyter.lives import KernelLife, LastRuns, Runner
from cellwright.jupyter.model import FileKind, JsonObject, NewCell, RoomKind, SessionInfo
from cellwright.jupyter.notebooks.meaning import ASIDE, CallersSight, proposal_key
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.notebooks.sights import Sights
from cellwright.jupyter.reproducing.reproductions import Reproductions
from cellwright.jupyter.server.connect import Connect, FoundServer
from cellwright.jupyter.server.embedded import EmbeddedJupyter, LabNotInstalled, missing_parts
from cellwright.jupyter.server.which_python import which_python
from cellwright.jupyter.staleness.service import CellStates
from cellwright.notebook.model import Kind
from cellwright.system.reach import BY_NAME, Reach
from cellwright.workers.pool import WorkerPool

MAX_WAIT_SECONDS = 86_400.0


OwnersOfKernels = Callable[[], Awaitable[Mapping[str, str]]]
"""Kernels that belong to one caller alone: the id of each, and of its owner."""


async def no_owners() -> Mapping[str, str]:
    return {}


class LiveNotebooks:
    """The service of the notebook tools. One for the whole program, used by all callers."""

    def __init__(
        self,
        connect: Connect,
        clock: Clock,
        *,
        embedded: EmbeddedJupyter | None = None,
        agent_name: str = "",
        idle_seconds: float = 300.0,
        changed: Callable[[DocumentChanged], None] = lambda _change: None,
        instance: str = "",
        server: str = "the Jupyter server",
        reach: Reach = BY_NAME,
        pool: WorkerPool | None = None,
    ) -> None:
        """`instance` tells this installation from others that use the same Jupyter server.

        `server` is what people call the server of `connect`, where we do not start it ourselves. `reach` says which files may be
        read, `pool` is shared with other parts.
        """
        self.executions = Executions(clock)
        self._last_runs = LastRuns()
        self.strangers = Strangers()
        self.proposals = Proposals(clock, instance)
        self.pool = pool or WorkerPool()
        self.pictures = Pictures(self.pool)
        self.reproductions = Reproductions(clock, self.pool)
        self.states = CellStates(self.pool)
        self._own_pool = pool is None
        self._connect = connect
        self._clock = clock
        self._embedded = embedded
        self._agent_name = agent_name
        self._idle_seconds = idle_seconds
        self._changed = changed
        self._server = server
        self._reach = reach
        self.owners_of_kernels: OwnersOfKernels = no_owners
        self._connecting = asyncio.Lock()
        # Jupyter does not bear two changes of one kernel at once: one of them fails, or the kernel never answers again.
        self._changing_kernels = Claims()
        self._connected: Connected | None = None
        self._lost = LostEdits()
        self._holders: set[asyncio.Task[None]] = set()
        self._sights = Sights()

    # -- connecting ----------------------------------------------------------------------------------------------------------

    async def connected(self, call: Call) -> Connected:
        """The Jupyter server as this caller may use it.

        The first call connects; an embedded server is started again if it died.
        """
        async with self._connecting:
            if self._connected is not None and await self._has_moved(self._connected.found):
                await self._disconnect()
            if self._connected is None:
                self._connected = self._opened(guarded(await self._connect(), self._reach), call)
        return self._connected.permitted(call.principal)

    def in_use(self, call: Call) -> Connected | None:
        """The Jupyter server as this caller may use it, if we are connected already. Does not connect."""
        return self._connected.permitted(call.principal) if self._connected else None

    @property
    def ours(self) -> Connected | None:
        """The same without a check of permissions: for our own work, and for facts that every reader may know."""
        return self._connected

    async def _has_moved(self, server: FoundServer) -> bool:
        """Whether the server is gone for good, or came back at another address."""
        if server.origin == "embedded" and self._embedded is not None:
            return (await self._embedded.server()).url != server.jupyter.documents.url
        return server.has_ended

    async def _disconnect(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            await connected.kernels.close()
            await connected.rooms.close()
            await connected.found.jupyter.close()
            if connected.found.share is not None:
                connected.found.share.close()

    def _opened(self, server: FoundServer, call: Call) -> Connected:
        rooms = Rooms(
            server.jupyter.documents,
            self._collaborator(call),
            idle_seconds=self._idle_seconds,
            lost=self._lost,
            root=server.root,
        )
        rooms.subscribe(self._changed)
        rooms.subscribe(lambda change: self._note_stranger(rooms, change))
        embedded = self._embedded if server.origin == "embedded" else None
        last_words = embedded.last_words if embedded else str
        kernels = LiveKernels(
            server.jupyter.kernels,
            self.executions,
            self._clock,
            last_words=last_words,
            last_runs=self._last_runs,
        )
        return Connected(server, rooms, kernels)

    def _note_stranger(self, rooms: Rooms, change: DocumentChanged) -> None:
        if change.kind is not RoomKind.NOTEBOOK or change.ours:
            return
        document = rooms.open_notebook(NotebookPath(change.path))
        if document is not None and document.room is not None:
            self.strangers.note(change.path, change.cells, document.room)

    def _collaborator(self, call: Call) -> Collaborator:
        return Collaborator(name=self._agent_name or call.client or "Agent")

    def status(self) -> PartStatus:
        """The state of the connection, without asking the server."""
        connected = self._connected
        if connected is None:
            return PartStatus("jupyter", "not connected", self._first_connection())
        rooms = [room for room in connected.rooms.open_rooms() if room.connected]
        running = [f"{room.path} ({'live' if room.live else 'file'})" for room in rooms]
        return PartStatus(
            "jupyter", f"connected, {connected.found.origin}", connected.found.jupyter.documents.url, running
        )

    def _first_connection(self) -> str:
        """What the first notebook call will do."""
        if self._embedded is None:
            return "the server is asked on the first notebook call"
        if missing := missing_parts():
            return (
                "a server of this folder is looked for on the first notebook call; none can be started, because "
                f"{', '.join(missing)} is not installed: {this_installation().mend()}"
            )
        return "a server of this folder is looked for, or one is started, on the first notebook call"

    async def which_python(self, call: Call) -> str:
        """Which Python runs cells, as far as that is known and this caller may know it. Starts and runs nothing."""
        connected = self.in_use(call)
        return await which_python(connected.found if connected else None, self._embedded, self._server)

    async def unusable_environments(self, call: Call) -> list[str]:
        """Environments of the workspace in which no kernel can be started, each with what to do about it."""
        server = (await self.connected(call)).found
        if self._embedded is None or server.origin != "embedded":
            return []
        return list((await asyncio.to_thread(self._embedded.environments)).unusable.values())

    async def lab_url(self, call: Call, notebook: str = "") -> str | None:
        """The address of JupyterLab for a person, with the token that lets them in; None if we do not know the token."""
        server = (await self.connected(call)).found
        if server.origin == "embedded" and self._embedded is not None and not self._embedded.serves_lab:
            raise LabNotInstalled(
                "JupyterLab is not installed", hint=f"bring it with: {this_installation().add('lab')}"
            )
        if server.token is None:
            return None
        path = "/".join(part for part in (server.folder, notebook) if part)
        page = f"/lab/tree/{DocPath(path).quoted}" if path else "/lab"
        token = f"?token={quote(server.token.reveal())}" if server.token else ""
        return f"{server.jupyter.documents.url}{page}{token}"

    def open_now(self, path: NotebookPath) -> OpenDocument[LiveNotebook] | None:
        """The notebook if it is open; it may be closed at any time."""
        return self._connected.rooms.open_notebook(path) if self._connected else None

    def open_notebooks(self) -> list[NotebookPath]:
        """The notebooks that are open now."""
        rooms = self._connected.rooms.open_rooms() if self._connected else []
        return [NotebookPath(room.path) for room in rooms if room.connected and room.kind is RoomKind.NOTEBOOK]

    async def close(self) -> None:
        """Leave everything; an embedded server is stopped with its kernels."""
        await self.reproductions.close()
        await self.states.close()
        for task in tuple(self._holders):
            task.cancel()
        await asyncio.gather(*self._holders, return_exceptions=True)
        if self._connected is not None and self._connected.found.may_end_with_us:
            # Such a server loses changes that its own autosave has not written yet.
            await self._connected.rooms.save_all()
        await self._disconnect()
        if self._embedded is not None:
            await self._embedded.stop()
        if self._own_pool:
            await self.pool.close()

    # -- documents -----------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def open(
        self, call: Call, path: NotebookPath, *, looks: bool = False
    ) -> AsyncGenerator[OpenDocument[LiveNotebook]]:
        """The live notebook, kept open for the block. With `looks`, others may move or delete it meanwhile."""
        connected = await self.connected(call)
        async with connected.rooms.notebook(path, looks=looks) as document:
            if not looks:
                call.news.extend(connected.rooms.news(path, RoomKind.NOTEBOOK, call.principal.id))
            yield document

    def sight(self, call: Call, path: NotebookPath, view: str | None = None, *, proposes: bool = False) -> CallersSight:
        """What the caller was shown of the notebook, or of their proposal for it: in this view, or last."""
        aside = view == ASIDE
        return CallersSight(self._sights, call, path, None if aside else view, proposes=proposes, aside=aside)

    def moved(self, before: DocPath, after: DocPath) -> None:
        """A file or folder was renamed: what was shown of it, and proposals for it, go with it."""
        self.proposals.moved(before, after)
        self._sights.moved(before.text, after.text)

    def proposal_ended(self, call: Call, path: str, session: str) -> None:
        """A proposal of this session was merged or dropped: what was shown of it counts no more."""
        self._sights.forget(call, proposal_key(path, session))

    async def desk(self, call: Call) -> Desk:
        """The desk at which proposals are made."""
        connected = await self.connected(call)
        return Desk(connected.found.jupyter.documents, connected.rooms, self._collaborator(call))

    @asynccontextmanager
    async def edit(
        self, call: Call, path: NotebookPath, *, propose: bool
    ) -> AsyncGenerator[tuple[OpenDocument[LiveNotebook], str | None]]:
        """The document to edit: the live notebook, or the caller's proposal for it, with the proposal's id."""
        if propose:
            async with self.proposals.edit(call, await self.desk(call), path) as proposed:
                yield proposed.document, proposed.proposal
        else:
            async with self.open(call, path) as document:
                yield document, None

    async def create(
        self, call: Call, path: NotebookPath, cells: Sequence[NewCell], kernel_name: str | None = None
    ) -> tuple[JsonObject, CreatedFile]:
        """Make a new notebook with these cells, and the folders above it. Returns the file's content, and what was made."""
        jupyter = (await self.connected(call)).found.jupyter
        content = new_notebook(cells, await sessions.kernelspec_metadata(jupyter.kernels, kernel_name))
        return content, await create(jupyter.documents, path, FileKind.NOTEBOOK, content)

    # -- kernels -------------------------------------------------------------------------------------------------------------

    async def session(self, call: Call, path: NotebookPath, *, kernel_name: str | None = None) -> SessionInfo:
        """The notebook's session: a person's if there is one, otherwise a new one with its kernel."""
        connected = await self.connected(call)
        async with self._changing_kernels.hold(path):
            return await sessions.find_or_start(connected, path, kernel_name)

    async def kernels_of_others(self, call: Call) -> frozenset[str]:
        """Kernels that belong to other callers alone, as those of thinking notebooks do. They are hidden from this caller."""
        owners = {**await self.owners_of_kernels(), **self.reproductions.owners_of_kernels()}
        return frozenset(kernel for kernel, owner in owners.items() if owner != call.principal.id)

    async def queue(self, call: Call, session: SessionInfo) -> KernelQueue:
        """The one queue of the session's kernel."""
        if session.kernel is None:
            raise NotFound(f"{session.path} has no kernel", hint="restart_nb_kernel starts one")
        return await (await self.connected(call)).kernels.queue(session.kernel.id)

    async def restart(self, call: Call, path: NotebookPath, kernel_name: str | None) -> SessionInfo:
        """Give the notebook a fresh kernel: restarted, or another one, or its first."""
        require_run(call)
        connected = await self.connected(call)
        async with self._changing_kernels.hold(path):
            session = await sessions.restart(connected, path, kernel_name, runner_of(call, path))
        self.note_own_kernel(call, path)
        return session

    async def assign(self, call: Call, path: NotebookPath, kernel_name: str) -> SessionInfo:
        """Give the notebook another kernel, in its session if it has one, and write the choice into the notebook."""
        require_run(call)
        connected = await self.connected(call)
        async with self._changing_kernels.hold(path):
            session = await sessions.assign(connected, path, kernel_name)
        self.note_own_kernel(call, path)
        return session

    async def shut_down(self, call: Call, path: NotebookPath) -> sessions.EndedKernel | None:
        """End the notebook's kernel, with its variables and everything that runs in it; None if it has none."""
        require_run(call, "shutting down a kernel", "leave it to a person", needed=ENDING)
        connected = await self.connected(call)
        async with self._changing_kernels.hold(path):
            ended = await sessions.shut_down(connected, path)
        if ended is not None:
            self.note_own_kernel(call, path, ended.kernel.id)
        return ended

    def note_own_kernel(self, call: Call, path: NotebookPath, ended: str | None = None) -> None:
        """The caller has ended or replaced the notebook's kernel, and needs not be told that it is new."""
        self._last_runs.ended_by(runner_of(call, path), ended)

    def lost_state(self, call: Call, path: NotebookPath, life: KernelLife | None) -> str:
        """What to tell a caller who looks at the notebook, if its kernel is not that of their last run any more."""
        return self._last_runs.looked(runner_of(call, path), life)

    async def cancel(self, call: Call, execution_id: str) -> ExecutionView:
        """Interrupt one of the caller's runs, or remove it from the queue."""
        execution = self.executions.get(call.principal.id, execution_id)
        require(call.principal, WRITE_KERNELS)
        return await execution.cancel()

    # -- running -------------------------------------------------------------------------------------------------------------

    async def run(
        self,
        call: Call,
        path: NotebookPath,
        cell_ids: Sequence[str],
        wait: float,
        *,
        keep_going: bool = False,
        needs_it: NeedsIt | None = None,
    ) -> ExecutionView:
        """Run cells in the notebook's kernel, writing their outputs into the shared document. Wait for at most `wait` seconds.

        The execution goes on after the wait. A caller that cancels its call interrupts the kernel. With `keep_going` the next cell
        runs even if one raised, unless `needs_it` names it as one that needs what the other defines.
        """
        require_run(call)
        session = await self.session(call, path)
        queue = await self.queue(call, session)
        execution = await self._submit(call, path, cell_ids, queue, keep_going=keep_going, needs_it=needs_it)
        try:
            return await execution.wait(wait, call.report)
        except asyncio.CancelledError:
            await call_cancelled(call, execution)
            raise

    async def _submit(
        self,
        call: Call,
        path: NotebookPath,
        cell_ids: Sequence[str],
        queue: KernelQueue,
        *,
        keep_going: bool,
        needs_it: NeedsIt | None,
    ) -> Execution:
        connected = await self.connected(call)
        holder = RunHolder(connected.rooms, path)
        await holder.open()
        jobs = [holder.job(cell_id, queue) for cell_id in cell_ids]
        try:
            execution = queue.submit(
                call.principal.id,
                jobs,
                checkpoint=Checkpoint(path.text, holder.save),
                keep_going=keep_going,
                needs_it=needs_it,
                runner=runner_of(call, path),
            )
        except CellwrightError:
            await holder.close()
            raise
        task = asyncio.create_task(holder.hold(execution))
        self._holders.add(task)
        task.add_done_callback(self._holders.discard)
        return execution


def runner_of(call: Call, path: NotebookPath) -> Runner:
    """Who runs the notebook's cells: the caller, each connection of a caller for itself."""
    return Runner(f"{call.principal.id} {call.session}", path.text)


def code_cells(notebook: LiveNotebook, ids: Sequence[str]) -> list[str]:
    """The code cells among these: those that can be run."""
    return [cell_id for cell_id in ids if notebook.head(notebook.index_of(cell_id)).cell_type == Kind.CODE]


def wait_seconds(timeout: float) -> float:
    """Check the timeout that a tool was given."""
    if not 0 <= timeout <= MAX_WAIT_SECONDS:
        raise InvalidArgument(
            f"timeout is {timeout}, not between 0 and {MAX_WAIT_SECONDS:.0f} seconds",
            hint="0 returns at once; a longer run goes on, ask get_execution",
        )
    return timeout
