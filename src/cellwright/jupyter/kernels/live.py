"""The kernels in use: one connection and one queue for each, shared by all callers, and closed when nobody needs them."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass

from cellwright.core.errors import CellwrightError, NotFound
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.kernels.channel import KernelChannel
from cellwright.jupyter.kernels.connection import KernelConnection
from cellwright.jupyter.kernels.executions import Clock, Executions
from cellwright.jupyter.kernels.queue import KernelQueue
from cellwright.jupyter.kernels.request import not_started
from cellwright.jupyter.lives import KernelLife, LastRuns
from cellwright.jupyter.model import KernelInfo, SessionInfo
from cellwright.jupyter.port import JupyterKernels

IDLE_SECONDS = 600.0
MOST_AWAY = 32
AWAY_BYTES = 8 * 1024 * 1024
"""Of kernels without a connection. Most of them are gone, as after a restart of Jupyter; those used last are kept."""
AWAY_SECONDS = 60.0
"""A kernel that was requested more recently is about to be connected."""
TRUST_SECONDS = 1.0
"""For how long the session of a notebook is remembered. After that a person may have given it another kernel."""
HEARD_STATES = ("idle", "busy")
LOOK_SECONDS = 1.0
"""How often we check that a kernel which does not answer yet still exists."""


@dataclass(slots=True)
class _Entry:
    queue: KernelQueue
    last_used: float


class LiveKernels:
    """The queues of all kernels. A kernel is connected when it is first used."""

    def __init__(
        self,
        kernels: JupyterKernels,
        executions: Executions,
        clock: Clock,
        idle: float = IDLE_SECONDS,
        *,
        last_words: Callable[[], str] = str,
        last_runs: LastRuns | None = None,
    ) -> None:
        """`last_words` returns why a kernel did not start, as far as that is known. `last_runs` outlives the server."""
        self._kernels = kernels
        self._last_words = last_words
        self._last_runs = last_runs or LastRuns()
        self._executions = executions
        self._clock = clock
        self._idle = idle
        self._entries: dict[str, _Entry] = {}
        self._sessions: dict[str, tuple[SessionInfo, float]] = {}

    def apart(self) -> "LiveKernels":
        """The same server, for kernels that no caller knows of: what runs in them is not among anybody's executions."""
        executions = Executions(self._clock)
        return LiveKernels(self._kernels, executions, self._clock, self._idle, last_words=self._last_words)

    async def session_of(self, path: NotebookPath) -> SessionInfo | None:
        """The notebook's session on the server. It is remembered for a moment while its kernel is connected."""
        now = asyncio.get_running_loop().time()
        session, asked_at = self._sessions.get(path.text, (None, 0.0))
        if session is not None and now - asked_at < TRUST_SECONDS and self._is_connected(session):
            return session
        session = await self._kernels.session_of(path)
        self._sessions = {
            other_path: (other, asked_at)
            for other_path, (other, asked_at) in self._sessions.items()
            if now - asked_at < TRUST_SECONDS
        }
        if session is None:
            self._sessions.pop(path.text, None)
        else:
            self._sessions[path.text] = (session, now)
        return session

    def _is_connected(self, session: SessionInfo) -> bool:
        entry = self._entries.get(session.kernel.id) if session.kernel is not None else None
        return entry is not None and entry.queue.kernel.connected

    async def queue(self, kernel_id: str) -> KernelQueue:
        """The one queue of this kernel. Closes those of others that were not used for long."""
        await self._leave_idle()
        entry = self._entries.get(kernel_id)
        if entry is None:
            entry = self._entries[kernel_id] = _Entry(self._open(kernel_id), 0.0)
        entry.last_used = asyncio.get_running_loop().time()
        return entry.queue

    def state_of(self, kernel: KernelInfo) -> str:
        """The state that the kernel itself last reported to us, if we are connected; otherwise the server's.

        The server may have missed messages of a kernel that was quick: it then says that a kernel is starting which has long been
        idle.
        """
        entry = self._entries.get(kernel.id)
        reported = entry.queue.kernel.state if entry is not None and entry.queue.kernel.answers else ""
        trusted = reported in HEARD_STATES and kernel.state in (*HEARD_STATES, "starting", "unknown")
        return reported if trusted else kernel.state

    def life_of(self, kernel: KernelInfo) -> KernelLife:
        """The kernel's present life, as far as we know it without asking the kernel."""
        entry = self._entries.get(kernel.id)
        return KernelLife(kernel.id) if entry is None else entry.queue.kernel.life

    @asynccontextmanager
    async def ending(self, kernel_id: str) -> AsyncGenerator[None]:
        """While the server is asked to shut this kernel down."""
        entry = self._entries.get(kernel_id)
        async with nullcontext() if entry is None else entry.queue.ending():
            yield

    async def note_shutdown(self, kernel_id: str) -> None:
        """The server has shut this kernel down: end the runs in it, and forget it."""
        entry = self._entries.get(kernel_id)
        if entry is not None:
            await entry.queue.note_shutdown()
        await self.leave(kernel_id)

    async def leave(self, kernel_id: str) -> None:
        """Forget a kernel, without shutting it down."""
        entry = self._entries.pop(kernel_id, None)
        self._sessions.clear()
        if entry is not None:
            await entry.queue.close()
            await entry.queue.kernel.close()

    async def close(self) -> None:
        for kernel_id in tuple(self._entries):
            await self.leave(kernel_id)

    def _open(self, kernel_id: str) -> KernelQueue:
        session_id = secrets.token_hex(16)

        async def exists() -> bool:
            try:
                await self._kernels.kernel(kernel_id)
            except NotFound:
                return False
            return True

        async def busy() -> bool:
            return (await self._kernels.kernel(kernel_id)).state == "busy"

        async def open_channel() -> KernelChannel:
            return await self._open_channel(kernel_id, session_id, exists)

        connection = KernelConnection(kernel_id, open_channel, session_id, exists=exists, busy=busy)
        return KernelQueue(
            connection,
            lambda: self._kernels.interrupt(kernel_id),
            self._executions,
            self._clock,
            last_runs=self._last_runs,
        )

    async def _open_channel(
        self, kernel_id: str, session_id: str, exists: Callable[[], Awaitable[bool]]
    ) -> KernelChannel:
        """A channel to the kernel. Jupyter opens it when the kernel answers; if it never will, Jupyter does not say so for long."""
        opening = asyncio.ensure_future(self._kernels.open_channel(kernel_id, session_id))
        try:
            is_gone = False
            while not (await asyncio.wait({opening}, timeout=LOOK_SECONDS))[0]:
                with contextlib.suppress(CellwrightError):
                    is_gone = not await exists()
                if is_gone:
                    raise not_started(kernel_id, self._last_words())
            return opening.result()
        finally:
            opening.cancel()

    async def _leave_idle(self) -> None:
        oldest = asyncio.get_running_loop().time() - self._idle
        for kernel_id, entry in tuple(self._entries.items()):
            if entry.last_used < oldest and not entry.queue.busy:
                await self.leave(kernel_id)
        await self._leave_disconnected()

    async def _leave_disconnected(self) -> None:
        """Forget the kernels without a connection that were used longest ago, if there are too many of them."""
        oldest = asyncio.get_running_loop().time() - AWAY_SECONDS
        away = [
            (entry.last_used, entry.queue.weight, kernel_id)
            for kernel_id, entry in self._entries.items()
            if entry.last_used < oldest and not entry.queue.busy and not entry.queue.kernel.connected
        ]
        count, total_weight = len(away), sum(weight for _, weight, _ in away)
        for _, weight, kernel_id in sorted(away):
            if count <= MOST_AWAY and total_weight <= AWAY_BYTES:
                return
            count -= 1
            total_weight -= weight
            await self.leave(kernel_id)
