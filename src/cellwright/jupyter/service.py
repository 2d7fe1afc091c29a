"""Live notebooks of one workspace: connects when first needed, opens documents, finds kernels, runs cells."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from cellwright.core.errors import CellwrightError, Forbidden, InvalidArgument, NotFound, Unavailable
from cellwright.core.installation import this_installation
from cellwright.core.status import PartStatus
from cellwright.core.types import Call, Principal
from cellwright.jupyter.documents.open_document import DocumentChanged, OpenDocument
from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.rooms import Rooms
from cellwright.jupyter.edits.proposals import Desk, Proposals
from cellwright.jupyter.files.creating import CreatedFile, create, new_notebook
from cellwright.jupyter.files.guarded import guarded
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.files.rules import Claims
from cellwright.jupyter.inside.permitted import (
    ENDING,
    WRITE_KERNELS,
    PermittedJupyter,
    permitted_queues,
    permitted_rooms,
    require,
    require_run,
)
from cellwright.jupyter.kernels.executions import (
    Checkpoint,
    Clock,
    Execution,
    Executions,
    ExecutionView,
    call_cancelled,
)
from cellwright.jupyter.kernels.holding import RunHolder
from cellwright.jupyter.kernels.images import Pictures
from cellwright.jupyter.kernels.live import LiveKernels
from cellwright.jupyter.kernels.queue import KernelQueue
from cellwright.jupyter.model import (
    CellType,
    FileKind,
    JsonObject,
    KernelInfo,
    KernelSpec,
    NewCell,
    RoomKind,
    SessionInfo,
)
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.parsing import known_kernel, spec_named
from cellwright.jupyter.port import JupyterKernels
from cellwright.jupyter.server.connect import Connect, FoundServer
from cellwright.jupyter.server.embedded import EmbeddedJupyter, LabNotInstalled, missing_parts
from cellwright.jupyter.server.which_python import which_python
from cellwright.system.reach import BY_NAME, Reach
from cellwright.workers.pool import WorkerPool

MAX_WAIT_SECONDS = 86_400.0


OwnersOfKernels = Callable[[], Awaitable[Mapping[str, str]]]
"""Kernels that belong to one caller alone: their ids, and whose they are."""


async def nobody() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Connected:
    """A Jupyter server in use."""

    found: FoundServer
    rooms: Rooms
    kernels: LiveKernels

    def permitted(self, principal: Principal) -> "Connected":
        """The same for one caller: asks for Jupyter's leave wherever there is somebody who gives or denies it."""
        if principal.leaves is None:
            return self
        return Connected(
            replace(self.found, jupyter=PermittedJupyter(self.found.jupyter, principal)),
            permitted_rooms(self.rooms, principal),
            permitted_queues(self.kernels, principal),
        )


@dataclass(frozen=True, slots=True)
class EndedKernel:
    """A kernel that was shut down, and which other documents ran in it."""

    kernel: KernelInfo
    others: tuple[str, ...]


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

        `server` is what people call the one that `connect` leads to, where it is not ours to start. `reach` says what may be read,
        `pool` is shared with other parts.
        """
        self.executions = Executions(clock)
        self.proposals = Proposals(clock, instance)
        self.pool = pool or WorkerPool()
        self.pictures = Pictures(self.pool)
        self._own_pool = pool is None
        self._connect = connect
        self._clock = clock
        self._embedded = embedded
        self._agent_name = agent_name
        self._idle_seconds = idle_seconds
        self._changed = changed
        self._server = server
        self._reach = reach
        self.owners_of_kernels: OwnersOfKernels = nobody
        self._connecting = asyncio.Lock()
        # Jupyter does not bear two changes of one kernel at once: one of them fails, or the kernel never answers again.
        self._changing_kernels = Claims()
        self._connected: Connected | None = None
        self._holders: set[asyncio.Task[None]] = set()

    # -- connecting ----------------------------------------------------------------------------------------------------------

    async def connected(self, call: Call) -> Connected:
        """The Jupyter server as this caller may use it.

        Connected on the first call; an embedded server is started again if it died.
        """
        async with self._connecting:
            if self._connected is not None and await self._moved(self._connected.found):
                await self._disconnect()
            if self._connected is None:
                self._connected = self._wired(guarded(await self._connect(), self._reach), call)
        return self._connected.permitted(call.principal)

    def in_use(self, call: Call) -> Connected | None:
        """The Jupyter server as this caller may use it, if there is a connection already: asking makes none."""
        return self._connected.permitted(call.principal) if self._connected else None

    @property
    def ours(self) -> Connected | None:
        """The same without asking what anybody may: for what we do on our own account, and for what every reader may know."""
        return self._connected

    async def _moved(self, found: FoundServer) -> bool:
        """Whether the server we know is gone for good, or came back at another address."""
        if found.origin == "embedded" and self._embedded is not None:
            return (await self._embedded.server()).url != found.jupyter.documents.url
        return found.gone

    async def _disconnect(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            await connected.kernels.close()
            await connected.rooms.close()
            await connected.found.jupyter.close()

    def _wired(self, found: FoundServer, call: Call) -> Connected:
        name = self._agent_name or call.client or "Agent"
        rooms = Rooms(found.jupyter.documents, Collaborator(name=name), idle_seconds=self._idle_seconds)
        rooms.subscribe(self._changed)
        ours = self._embedded if found.origin == "embedded" else None
        kernels = LiveKernels(
            found.jupyter.kernels, self.executions, self._clock, last_words=ours.last_words if ours else str
        )
        return Connected(found, rooms, kernels)

    def status(self) -> PartStatus:
        """How it is, from memory."""
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
        """Which Python runs cells, as far as it is known by now and this caller may know it. Starts and runs nothing."""
        connected = self.in_use(call)
        return await which_python(connected.found if connected else None, self._embedded, self._server)

    async def unusable_environments(self, call: Call) -> list[str]:
        """Environments of the workspace in which no kernel can be started, each with what to do about it."""
        found = (await self.connected(call)).found
        if self._embedded is None or found.origin != "embedded":
            return []
        return list((await asyncio.to_thread(self._embedded.environments)).unusable.values())

    async def lab_url(self, call: Call, notebook: str = "") -> str | None:
        """The address of JupyterLab for a person, with the token that lets them in; None if we were not given the token."""
        found = (await self.connected(call)).found
        if found.origin == "embedded" and self._embedded is not None and not self._embedded.serves_lab:
            raise LabNotInstalled(
                "JupyterLab is not installed", hint=f"bring it with: {this_installation().add('lab')}"
            )
        if found.token is None:
            return None
        place = "/".join(part for part in (found.folder, notebook) if part)
        page = f"/lab/tree/{DocPath(place).quoted}" if place else "/lab"
        token = f"?token={quote(found.token.reveal())}" if found.token else ""
        return f"{found.jupyter.documents.url}{page}{token}"

    def open_notebooks(self) -> list[NotebookPath]:
        """The notebooks that are open now."""
        rooms = self._connected.rooms.open_rooms() if self._connected else []
        return [NotebookPath(room.path) for room in rooms if room.connected and room.kind is RoomKind.NOTEBOOK]

    async def close(self) -> None:
        """Leave everything; an embedded server is stopped with its kernels."""
        for task in tuple(self._holders):
            task.cancel()
        await asyncio.gather(*self._holders, return_exceptions=True)
        if self._connected is not None and self._connected.found.origin in ("embedded", "local"):
            # These servers end with us, and drop what their own autosave has not written yet.
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
        """The live notebook, held open for the block; with `looks` nobody is kept from moving or deleting it meanwhile."""
        connected = await self.connected(call)
        async with connected.rooms.notebook(path, looks=looks) as document:
            yield document

    async def desk(self, call: Call) -> Desk:
        """Where proposals are worked on."""
        connected = await self.connected(call)
        who = Collaborator(name=self._agent_name or call.client or "Agent")
        return Desk(connected.found.jupyter.documents, connected.rooms, who)

    @asynccontextmanager
    async def edit(
        self, call: Call, path: NotebookPath, *, propose: bool
    ) -> AsyncGenerator[tuple[OpenDocument[LiveNotebook], str | None]]:
        """The document that an edit goes into: the live notebook, or the caller's proposal for it, whose id comes along."""
        if propose:
            async with self.proposals.edit(call, await self.desk(call), path) as proposed:
                yield proposed.document, proposed.proposal
        else:
            async with self.open(call, path) as document:
                yield document, None

    async def create(
        self, call: Call, path: NotebookPath, cells: Sequence[NewCell], kernel_name: str | None = None
    ) -> tuple[JsonObject, CreatedFile]:
        """A new notebook with these cells, and the folders above it. What is in its file, and what was made."""
        jupyter = (await self.connected(call)).found.jupyter
        content = new_notebook(cells, await _kernelspec(jupyter.kernels, kernel_name))
        return content, await create(jupyter.documents, path, FileKind.NOTEBOOK, content)

    # -- kernels -------------------------------------------------------------------------------------------------------------

    async def session(self, call: Call, path: NotebookPath, *, kernel_name: str | None = None) -> SessionInfo:
        """The notebook's session, the person's if there is one, else a new one with its kernel."""
        connected = await self.connected(call)
        async with self._changing_kernels.hold(path):
            return await self._session(connected, path, kernel_name)

    async def _session(self, connected: Connected, path: NotebookPath, kernel_name: str | None) -> SessionInfo:
        found = await connected.kernels.session_of(path)
        if found is not None:
            return found
        # Jupyter starts a kernel for any path, also one that does not exist.
        await connected.found.jupyter.documents.stat(path)
        name = kernel_name or await self._named_kernel(connected, path)
        return await connected.found.jupyter.kernels.start_session(path, kernel_name=name)

    async def _named_kernel(self, connected: Connected, path: NotebookPath) -> str | None:
        """What the notebook says it runs in, if that is installed; None lets the server choose."""
        async with connected.rooms.notebook(path) as document:
            name = document.view.kernel_name
        if not name:
            return None
        return name if any(spec.name == name for spec in await connected.found.jupyter.kernels.specs()) else None

    async def kernels_of_others(self, call: Call) -> frozenset[str]:
        """Kernels that are another caller's own, as those of thinking notebooks are: to everybody else they are not there."""
        owners = await self.owners_of_kernels()
        return frozenset(kernel for kernel, owner in owners.items() if owner != call.principal.id)

    async def queue(self, call: Call, session: SessionInfo) -> KernelQueue:
        """The one queue of the session's kernel."""
        if session.kernel is None:
            raise NotFound(f"{session.path} has no kernel", hint="restart_nb_kernel starts one")
        return await (await self.connected(call)).kernels.queue(session.kernel.id)

    async def restart(self, call: Call, path: NotebookPath, kernel_name: str | None) -> SessionInfo:
        """A fresh kernel for the notebook: restarted, or another one, or the first."""
        require_run(call)
        connected = await self.connected(call)
        async with self._changing_kernels.hold(path):
            return await self._restart(call, connected, path, kernel_name)

    async def _restart(
        self, call: Call, connected: Connected, path: NotebookPath, kernel_name: str | None
    ) -> SessionInfo:
        kernels = connected.found.jupyter.kernels
        session = await kernels.session_of(path)
        if session is None or session.kernel is None:
            return await self._session(connected, path, kernel_name)
        if kernel_name is not None and kernel_name != session.kernel.name:
            return await self._assign(connected, path, kernel_name)
        queue = await connected.kernels.queue(session.kernel.id)
        seen_before = queue.kernel.restarts
        await kernels.restart(session.kernel.id)
        queue.note_restart(seen_before, call.principal.id)
        return session

    async def assign(self, call: Call, path: NotebookPath, kernel_name: str) -> SessionInfo:
        """Another kernel for the notebook, in its session if it has one; the notebook remembers the choice."""
        require_run(call)
        connected = await self.connected(call)
        async with self._changing_kernels.hold(path):
            return await self._assign(connected, path, kernel_name)

    async def _assign(self, connected: Connected, path: NotebookPath, kernel_name: str) -> SessionInfo:
        kernels = connected.found.jupyter.kernels
        await connected.found.jupyter.documents.stat(path)
        spec = spec_named(kernel_name, await kernels.specs(), kernels.url)
        session = await kernels.session_of(path)
        if session is None:
            made = await kernels.start_session(path, kernel_name=kernel_name)
        else:
            made = await kernels.switch_kernel(session.id, kernel_name=kernel_name)
            if session.kernel is not None and (made.kernel is None or made.kernel.id != session.kernel.id):
                await connected.kernels.note_shutdown(session.kernel.id)
        async with connected.rooms.notebook(path) as document:
            await document.change(lambda view: view.set_metadata("kernelspec", remembered(spec)))
        return made

    async def shut_down(self, call: Call, path: NotebookPath) -> EndedKernel | None:
        """End the notebook's kernel, with its variables and what runs in it; None if it has none."""
        require_run(call, "shutting down a kernel", "leave it to a person", needed=ENDING)
        connected = await self.connected(call)
        async with self._changing_kernels.hold(path):
            return await self._shut_down(connected, path)

    async def _shut_down(self, connected: Connected, path: NotebookPath) -> EndedKernel | None:
        kernels = connected.found.jupyter.kernels
        session = await kernels.session_of(path)
        if session is None or session.kernel is None:
            return None
        kernel = session.kernel
        others = {one.path for one in await kernels.sessions() if one.kernel and one.kernel.id == kernel.id}
        await kernels.end_session(session.id)
        await connected.kernels.note_shutdown(kernel.id)
        return EndedKernel(kernel, tuple(sorted(others - {path.text})))

    async def cancel(self, call: Call, execution_id: str) -> ExecutionView:
        """Interrupt a run of the caller's, or take it from the queue."""
        execution = self.executions.get(call.principal.id, execution_id)
        require(call.principal, WRITE_KERNELS)
        return await execution.cancel()

    # -- running -------------------------------------------------------------------------------------------------------------

    async def run(
        self, call: Call, path: NotebookPath, cell_ids: Sequence[str], wait: float, *, keep_going: bool = False
    ) -> ExecutionView:
        """Run cells in the notebook's kernel, their outputs going into the shared document; wait for at most `wait` seconds.

        The execution outlives the wait. A caller that cancels its call interrupts the kernel. With `keep_going` a cell that
        raised does not keep the next from running.
        """
        require_run(call)
        session = await self.session(call, path)
        queue = await self.queue(call, session)
        execution = await self._submit(call, path, cell_ids, queue, keep_going=keep_going)
        try:
            return await execution.wait(wait, call.report)
        except asyncio.CancelledError:
            await call_cancelled(call, execution)
            raise

    async def _submit(
        self, call: Call, path: NotebookPath, cell_ids: Sequence[str], queue: KernelQueue, *, keep_going: bool
    ) -> Execution:
        connected = await self.connected(call)
        holder = RunHolder(connected.rooms, path)
        await holder.open()
        jobs = [holder.job(cell_id, queue) for cell_id in cell_ids]
        try:
            execution = queue.submit(
                call.principal.id, jobs, checkpoint=Checkpoint(path.text, holder.save), keep_going=keep_going
            )
        except CellwrightError:
            await holder.close()
            raise
        self._start(holder.hold(execution))
        return execution

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._holders.add(task)
        task.add_done_callback(self._holders.discard)


async def _kernelspec(kernels: JupyterKernels, name: str | None) -> dict[str, str] | None:
    """What a notebook remembers of its kernel: the named one, or the server's usual one if that can be known."""
    try:
        specs = await kernels.specs()
    except (Unavailable, Forbidden):
        if name is not None:
            raise
        return None
    if name is not None:
        name = known_kernel(name, specs, kernels.url)
    spec = next((spec for spec in specs if (spec.name == name if name else spec.is_default)), None)
    return None if spec is None else remembered(spec)


def remembered(spec: KernelSpec) -> dict[str, str]:
    """A kind of kernel as notebooks name it."""
    return {"name": spec.name, "display_name": spec.display_name, "language": spec.language}


def code_cells(notebook: LiveNotebook, ids: Sequence[str]) -> list[str]:
    """Of these cells, the ones that can be run."""
    return [cell_id for cell_id in ids if notebook.head(notebook.index_of(cell_id)).cell_type == CellType.CODE]


def wait_seconds(timeout: float) -> float:
    """A wait as tools take it, checked."""
    if not 0 <= timeout <= MAX_WAIT_SECONDS:
        raise InvalidArgument(
            f"timeout is {timeout}, not between 0 and {MAX_WAIT_SECONDS:.0f} seconds",
            hint="0 returns at once; a longer run goes on, ask get_execution",
        )
    return timeout
