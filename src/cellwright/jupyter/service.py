"""Live notebooks of one workspace: connects when first needed, opens documents, finds kernels, runs cells."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pycrdt import Map

from cellwright.core.errors import CellwrightError, Forbidden, InvalidArgument, NotFound
from cellwright.core.status import PartStatus
from cellwright.core.types import Call, Scope
from cellwright.jupyter.connect import Connect, Found
from cellwright.jupyter.embedded import EmbeddedJupyter
from cellwright.jupyter.executions import (
    Checkpoint,
    Clock,
    Execution,
    Executions,
    ExecutionView,
    Job,
    call_cancelled,
)
from cellwright.jupyter.kernel_queue import KernelQueue
from cellwright.jupyter.live_kernels import LiveKernels
from cellwright.jupyter.model import CellType, RoomKind, SessionInfo
from cellwright.jupyter.notebook import Notebook
from cellwright.jupyter.outputs import OutputWriter
from cellwright.jupyter.paths import DocPath, NotebookPath
from cellwright.jupyter.presence import Collaborator
from cellwright.jupyter.proposals import Desk, Proposals
from cellwright.jupyter.rooms import DocumentChanged, OpenDocument, Rooms

log = logging.getLogger(__name__)

LOST_CHECK_SECONDS = 1.0
MAX_WAIT_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Connected:
    """A Jupyter server in use."""

    found: Found
    rooms: Rooms
    kernels: LiveKernels


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
    ) -> None:
        """`instance` tells this installation from others that use the same Jupyter server."""
        self.executions = Executions(clock)
        self.proposals = Proposals(clock, instance)
        self._connect = connect
        self._clock = clock
        self._embedded = embedded
        self._agent_name = agent_name
        self._idle_seconds = idle_seconds
        self._changed = changed
        self._connecting = asyncio.Lock()
        self._connected: Connected | None = None
        self._holders: set[asyncio.Task[None]] = set()

    # -- connecting ----------------------------------------------------------------------------------------------------------

    async def connected(self, call: Call) -> Connected:
        """The Jupyter server, connected on the first call; an embedded one is started again if it died."""
        async with self._connecting:
            if self._connected is not None and await self._moved(self._connected.found):
                await self._disconnect()
            if self._connected is None:
                self._connected = self._wired(await self._connect(), call)
        return self._connected

    @property
    def in_use(self) -> Connected | None:
        """The Jupyter server, if there is a connection already: asking makes none."""
        return self._connected

    async def _moved(self, found: Found) -> bool:
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

    def _wired(self, found: Found, call: Call) -> Connected:
        name = self._agent_name or call.client or "Agent"
        rooms = Rooms(found.jupyter.documents, Collaborator(name=name), idle_seconds=self._idle_seconds)
        rooms.subscribe(self._changed)
        return Connected(found, rooms, LiveKernels(found.jupyter.kernels, self.executions, self._clock))

    def status(self) -> PartStatus:
        """How it is, from memory."""
        connected = self._connected
        if connected is None:
            return PartStatus(
                "jupyter", "not connected", "a server is looked for, or started, on the first notebook call"
            )
        rooms = [room for room in connected.rooms.open_rooms() if room.connected]
        running = [f"{room.path} ({'live' if room.live else 'file'})" for room in rooms]
        return PartStatus(
            "jupyter", f"connected, {connected.found.origin}", connected.found.jupyter.documents.url, running
        )

    async def lab_url(self, call: Call, notebook: str = "") -> str | None:
        """The address of JupyterLab for a person, with the token that lets them in; None if we were not given the token."""
        found = (await self.connected(call)).found
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

    # -- documents -----------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def open(self, call: Call, path: NotebookPath) -> AsyncGenerator[OpenDocument[Notebook]]:
        """The live notebook, held open for the block."""
        connected = await self.connected(call)
        async with connected.rooms.notebook(path) as document:
            yield document

    async def desk(self, call: Call) -> Desk:
        """Where proposals are worked on."""
        connected = await self.connected(call)
        who = Collaborator(name=self._agent_name or call.client or "Agent")
        return Desk(connected.found.jupyter.documents, connected.rooms, who)

    @asynccontextmanager
    async def edit(
        self, call: Call, path: NotebookPath, *, propose: bool
    ) -> AsyncGenerator[tuple[OpenDocument[Notebook], str | None]]:
        """The document that an edit goes into: the live notebook, or the caller's proposal for it, whose id comes along."""
        if propose:
            async with self.proposals.edit(call, await self.desk(call), path) as proposed:
                yield proposed.document, proposed.proposal
        else:
            async with self.open(call, path) as document:
                yield document, None

    # -- kernels -------------------------------------------------------------------------------------------------------------

    async def session(self, call: Call, path: NotebookPath, *, kernel_name: str | None = None) -> SessionInfo:
        """The notebook's session, the person's if there is one, else a new one with its kernel."""
        connected = await self.connected(call)
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

    async def queue(self, call: Call, session: SessionInfo) -> KernelQueue:
        """The one queue of the session's kernel."""
        if session.kernel is None:
            raise NotFound(f"{session.path} has no kernel", hint="restart_nb_kernel starts one")
        return await (await self.connected(call)).kernels.queue(session.kernel.id)

    async def restart(self, call: Call, path: NotebookPath, kernel_name: str | None) -> SessionInfo:
        """A fresh kernel for the notebook: restarted, or another one, or the first."""
        require_run(call)
        connected = await self.connected(call)
        kernels = connected.found.jupyter.kernels
        session = await kernels.session_of(path)
        if session is None or session.kernel is None:
            return await self.session(call, path, kernel_name=kernel_name)
        if kernel_name is not None and kernel_name != session.kernel.name:
            return await self.assign(call, path, kernel_name)
        queue = await connected.kernels.queue(session.kernel.id)
        seen_before = queue.kernel.restarts
        await kernels.restart(session.kernel.id)
        queue.note_restart(seen_before)
        return session

    async def assign(self, call: Call, path: NotebookPath, kernel_name: str) -> SessionInfo:
        """Another kernel for the notebook, in its session if it has one; the notebook remembers the choice."""
        require_run(call)
        connected = await self.connected(call)
        kernels = connected.found.jupyter.kernels
        await connected.found.jupyter.documents.stat(path)
        session = await kernels.session_of(path)
        if session is None:
            made = await kernels.start_session(path, kernel_name=kernel_name)
        else:
            made = await kernels.switch_kernel(session.id, kernel_name=kernel_name)
            if session.kernel is not None and (made.kernel is None or made.kernel.id != session.kernel.id):
                await connected.kernels.leave(session.kernel.id)
        spec = next(spec for spec in await kernels.specs() if spec.name == kernel_name)
        remembered = {"name": spec.name, "display_name": spec.display_name, "language": spec.language}
        async with connected.rooms.notebook(path) as document:
            await document.change(lambda view: view.set_metadata("kernelspec", remembered))
        return made

    # -- running -------------------------------------------------------------------------------------------------------------

    async def run(self, call: Call, path: NotebookPath, cell_ids: Sequence[str], wait: float) -> ExecutionView:
        """Run cells in the notebook's kernel, their outputs going into the shared document; wait for at most `wait` seconds.

        The execution outlives the wait. A caller that cancels its call interrupts the kernel.
        """
        require_run(call)
        session = await self.session(call, path)
        queue = await self.queue(call, session)
        execution = await self._submit(call, path, cell_ids, queue)
        try:
            return await execution.wait(wait, call.report)
        except asyncio.CancelledError:
            await call_cancelled(call, execution)
            raise

    async def _submit(self, call: Call, path: NotebookPath, cell_ids: Sequence[str], queue: KernelQueue) -> Execution:
        connected = await self.connected(call)
        stack = AsyncExitStack()
        document = await stack.enter_async_context(connected.rooms.notebook(path))
        holder = _Holder(connected.rooms, path, document, stack, self._start)
        jobs = [holder.job(cell_id, queue) for cell_id in cell_ids]
        try:
            execution = queue.submit(call.principal.id, jobs, checkpoint=Checkpoint(path.text, holder.save))
        except CellwrightError:
            await stack.aclose()
            raise
        self._start(holder.hold(execution))
        return execution

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._holders.add(task)
        task.add_done_callback(self._holders.discard)


class _Holder:
    """Keeps a notebook open while something runs in it, also when the connection is lost and made again meanwhile.

    What comes after the run, from a thread or as an update of a display, is written as long as anybody keeps it open.
    """

    def __init__(
        self,
        rooms: Rooms,
        path: NotebookPath,
        document: OpenDocument[Notebook],
        stack: AsyncExitStack,
        start: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._rooms = rooms
        self._path = path
        self._document = document
        self._stack = stack
        self._start = start
        self._writers: list[OutputWriter] = []
        self._released = False
        self._rejoining = False

    def job(self, cell_id: str, queue: KernelQueue) -> Job:
        def cell() -> Map[object] | None:
            try:
                self._document.check_open()
                return self._document.view.shared_cell(cell_id)
            except CellwrightError:
                self._rejoin_if_open()
                return None

        def code() -> str | None:
            view = self._document.view
            try:
                return view.head(view.index_of(cell_id)).source
            except CellwrightError:
                return None

        writer = OutputWriter(cell, queue.displays)
        self._writers.append(writer)
        return Job(code, cell_id, writer)

    async def save(self) -> None:
        try:
            self._document.check_open()
        except CellwrightError:
            # It was left, so Jupyter has all of it and saves it; or it was lost, which `hold` sees to.
            return
        await self._document.save()

    async def hold(self, execution: Execution) -> None:
        try:
            while not execution.ended:
                await execution.wait(LOST_CHECK_SECONDS)
                await self._renew_if_lost()
            await self._document.acknowledge()
            for writer in self._writers:
                writer.settle()
        except CellwrightError as error:
            execution.notes.append(f"The notebook may not show all of this run: {error.message}")
        finally:
            self._released = True
            await self._stack.aclose()

    async def _renew_if_lost(self) -> None:
        try:
            self._document.check_open()
        except CellwrightError:
            await self._stack.aclose()
            self._document = await self._stack.enter_async_context(self._rooms.notebook(self._path))
            for writer in self._writers:
                writer.flush()

    def _rejoin_if_open(self) -> None:
        """After the run nobody opens the notebook for its late output; but where it was opened again, that goes there."""
        opened = (self._path.text, RoomKind.NOTEBOOK)
        rooms = self._rooms.open_rooms()
        if self._released and not self._rejoining and any(r.connected and (r.path, r.kind) == opened for r in rooms):
            self._rejoining = True
            self._start(self._rejoin())

    async def _rejoin(self) -> None:
        try:
            async with self._rooms.notebook(self._path) as document:
                self._document = document
                for writer in self._writers:
                    writer.flush()
                await document.acknowledge()
        except CellwrightError as error:
            log.info("late output not shown path=%s error=%s", self._path, error)
        finally:
            self._rejoining = False


def require_run(call: Call) -> None:
    """Running code needs its own scope, also where a tool that writes does it on the way."""
    if not call.principal.may(Scope.RUN):
        raise Forbidden(
            "the token lacks the scope 'run' that executing cells needs",
            hint="give exec: false, or ask the operator for a token with it",
            details={"scope": Scope.RUN.value},
        )


def code_cells(notebook: Notebook, ids: Sequence[str]) -> list[str]:
    """Of these cells, the ones that can be run."""
    return [cell_id for cell_id in ids if notebook.head(notebook.index_of(cell_id)).cell_type == CellType.CODE]


def wait_seconds(timeout: float) -> float:
    """A wait as tools take it, checked."""
    if not 0 <= timeout <= MAX_WAIT_SECONDS:
        raise InvalidArgument(f"timeout is {timeout}, not between 0 and {MAX_WAIT_SECONDS:.0f} seconds")
    return timeout
