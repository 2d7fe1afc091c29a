"""The kernels in use: one connection and one queue for each, shared by all callers, left when nobody needs them."""

import asyncio
import secrets
from dataclasses import dataclass

from cellwright.core.errors import NotFound
from cellwright.jupyter.executions import Clock, Executions
from cellwright.jupyter.kernel import KernelConnection
from cellwright.jupyter.kernel_queue import KernelQueue
from cellwright.jupyter.port import Kernels

IDLE_SECONDS = 600.0


@dataclass(slots=True)
class _Kept:
    queue: KernelQueue
    used: float


class LiveKernels:
    """Gives the queue of a kernel, connecting when it is first used."""

    def __init__(self, kernels: Kernels, executions: Executions, clock: Clock, idle: float = IDLE_SECONDS) -> None:
        self._kernels = kernels
        self._executions = executions
        self._clock = clock
        self._idle = idle
        self._kept: dict[str, _Kept] = {}

    async def queue(self, kernel_id: str) -> KernelQueue:
        """The one queue of this kernel. Leaves others that were not used for long."""
        await self._leave_idle()
        kept = self._kept.get(kernel_id)
        if kept is None:
            kept = self._kept[kernel_id] = _Kept(self._open(kernel_id), 0.0)
        kept.used = asyncio.get_running_loop().time()
        return kept.queue

    async def leave(self, kernel_id: str) -> None:
        """Forget a kernel, as after it was shut down. It is not shut down by this."""
        kept = self._kept.pop(kernel_id, None)
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

        connection = KernelConnection(
            kernel_id, lambda: self._kernels.open_channel(kernel_id, session_id), session_id, exists=exists
        )
        return KernelQueue(connection, lambda: self._kernels.interrupt(kernel_id), self._executions, self._clock)

    async def _leave_idle(self) -> None:
        oldest = asyncio.get_running_loop().time() - self._idle
        for kernel_id, kept in tuple(self._kept.items()):
            if kept.used < oldest and not kept.queue.busy:
                await self.leave(kernel_id)
