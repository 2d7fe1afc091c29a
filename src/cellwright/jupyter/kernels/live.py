"""The kernels in use: one connection and one queue for each, shared by all callers, left when nobody needs them."""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cellwright.core.errors import CellwrightError, NotFound
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.kernels.channel import KernelChannel
from cellwright.jupyter.kernels.connection import KernelConnection
from cellwright.jupyter.kernels.executions import Clock, Executions
from cellwright.jupyter.kernels.queue import KernelQueue
from cellwright.jupyter.kernels.request import not_started
from cellwright.jupyter.model import KernelInfo, SessionInfo
from cellwright.jupyter.port import JupyterKernels

IDLE_SECONDS = 600.0
MOST_AWAY = 32
AWAY_BYTES = 8 * 1024 * 1024
"""Of kernels without a connection, of which most are gone, as after a restart of Jupyter: those used last are still known."""
AWAY_SECONDS = 60.0
"""One that was asked for just now is about to be connected."""
TRUST_SECONDS = 1.0
"""For how long a notebook that had a kernel is believed to have that kernel: a person may have given it another."""
HEARD_STATES = ("idle", "busy")
LOOK_SECONDS = 1.0
"""How often it is seen whether a kernel that does not answer yet is still there."""


@dataclass(slots=True)
class _Kept:
    queue: KernelQueue
    used: float


class LiveKernels:
    """Gives the queue of a kernel, connecting when it is first used."""

    def __init__(
        self,
        kernels: JupyterKernels,
        executions: Executions,
        clock: Clock,
        idle: float = IDLE_SECONDS,
        *,
        last_words: Callable[[], str] = str,
    ) -> None:
        """`last_words` is what is known of why a kernel did not start."""
        self._kernels = kernels
        self._last_words = last_words
        self._executions = executions
        self._clock = clock
        self._idle = idle
        self._kept: dict[str, _Kept] = {}
        self._sessions: dict[str, tuple[SessionInfo, float]] = {}

    async def session_of(self, path: NotebookPath) -> SessionInfo | None:
        """The notebook's session as the server has it, or had it a moment ago while its kernel is still connected."""
        asked = asyncio.get_running_loop().time()
        session, seen = self._sessions.get(path.text, (None, 0.0))
        if session is not None and asked - seen < TRUST_SECONDS and self._is_connected(session):
            return session
        found = await self._kernels.session_of(path)
        self._sessions = {known: one for known, one in self._sessions.items() if asked - one[1] < TRUST_SECONDS}
        if found is None:
            self._sessions.pop(path.text, None)
        else:
            self._sessions[path.text] = (found, asked)
        return found

    def _is_connected(self, session: SessionInfo) -> bool:
        kept = self._kept.get(session.kernel.id) if session.kernel is not None else None
        return kept is not None and kept.queue.kernel.connected

    async def queue(self, kernel_id: str) -> KernelQueue:
        """The one queue of this kernel. Leaves others that were not used for long."""
        await self._leave_idle()
        kept = self._kept.get(kernel_id)
        if kept is None:
            kept = self._kept[kernel_id] = _Kept(self._open(kernel_id), 0.0)
        kept.used = asyncio.get_running_loop().time()
        return kept.queue

    def state_of(self, kernel: KernelInfo) -> str:
        """What the kernel itself said last, where we hear it; else what the server says.

        The server listens only for people's sake and may have missed words of a kernel that was quick: it then calls one that has
        long been idle starting.
        """
        kept = self._kept.get(kernel.id)
        heard = kept.queue.kernel.state if kept is not None and kept.queue.kernel.answers else ""
        return (
            heard if heard in HEARD_STATES and kernel.state in (*HEARD_STATES, "starting", "unknown") else kernel.state
        )

    async def note_shutdown(self, kernel_id: str) -> None:
        """The server has shut this kernel down: what ran in it ended so, and it is left."""
        kept = self._kept.get(kernel_id)
        if kept is not None:
            await kept.queue.note_shutdown()
        await self.leave(kernel_id)

    async def leave(self, kernel_id: str) -> None:
        """Forget a kernel. It is not shut down by this."""
        kept = self._kept.pop(kernel_id, None)
        self._sessions.clear()
        if kept is not None:
            await kept.queue.close()
            await kept.queue.kernel.close()

    async def close(self) -> None:
        for kernel_id in tuple(self._kept):
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
            return await self._opened(kernel_id, session_id, exists)

        connection = KernelConnection(kernel_id, open_channel, session_id, exists=exists, busy=busy)
        return KernelQueue(connection, lambda: self._kernels.interrupt(kernel_id), self._executions, self._clock)

    async def _opened(self, kernel_id: str, session_id: str, exists: Callable[[], Awaitable[bool]]) -> KernelChannel:
        """A channel to the kernel. Jupyter makes it when the kernel answers, and for long does not say that it never will."""
        opening = asyncio.ensure_future(self._kernels.open_channel(kernel_id, session_id))
        try:
            gone = False
            while not (await asyncio.wait({opening}, timeout=LOOK_SECONDS))[0]:
                with contextlib.suppress(CellwrightError):
                    gone = not await exists()
                if gone:
                    raise not_started(kernel_id, self._last_words())
            return opening.result()
        finally:
            opening.cancel()

    async def _leave_idle(self) -> None:
        oldest = asyncio.get_running_loop().time() - self._idle
        for kernel_id, kept in tuple(self._kept.items()):
            if kept.used < oldest and not kept.queue.busy:
                await self.leave(kernel_id)
        await self._leave_away()

    async def _leave_away(self) -> None:
        oldest = asyncio.get_running_loop().time() - AWAY_SECONDS
        away = [
            (kept.used, kept.queue.weight, kernel_id)
            for kernel_id, kept in self._kept.items()
            if kept.used < oldest and not kept.queue.busy and not kept.queue.kernel.connected
        ]
        taken = sum(taken for _, taken, _ in away)
        for left, (_, weight, kernel_id) in zip(range(len(away), 0, -1), sorted(away), strict=True):
            if left <= MOST_AWAY and taken <= AWAY_BYTES:
                return
            taken -= weight
            await self.leave(kernel_id)
