"""A kernel that nothing has run in, for one purpose, and ended afterwards whatever happens."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from cellwright.core.errors import CellwrightError, NotFound
from cellwright.jupyter.connected import Connected
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.kernels.interpreter import KernelMemory, KernelPython, memory_of, python_of
from cellwright.jupyter.kernels.live import LiveKernels
from cellwright.jupyter.kernels.queue import KernelQueue
from cellwright.jupyter.model import KernelInfo
from cellwright.jupyter.port import JupyterKernels

log = logging.getLogger(__name__)

END_PAUSES = (0.5, 2.0, 5.0)
"""Seconds between attempts to end a kernel whose server does not answer."""
RESTART_SECONDS = 15.0
"""How long Jupyter may take to start a kernel again that died."""
UNKNOWN_MEMORY = KernelMemory(None, None)


class CleanKernel:
    """A running kernel of our own."""

    def __init__(self, info: KernelInfo, queue: KernelQueue) -> None:
        self.info = info
        self.queue = queue
        self.language = ""
        self.version = ""
        self.python: KernelPython | None = None
        self._tells_memory = True

    async def introduce(self) -> None:
        """Wait until it answers, and ask it what it is."""
        await self.queue.kernel.ready()
        about = await self.queue.kernel.kernel_info()
        self.language, self.version = about.language, about.language_version
        if about.language == "python":
            try:
                self.python = await python_of(self.queue.kernel)
            except CellwrightError as error:
                log.info("kernel_not_introduced kernel=%s error=%s", self.info.id, error)
        self._tells_memory = self.python is not None

    async def memory(self) -> KernelMemory:
        """How much memory its process takes. A kernel that does not know is not asked again."""
        if not self._tells_memory:
            return UNKNOWN_MEMORY
        try:
            return await memory_of(self.queue.kernel)
        except CellwrightError:
            self._tells_memory = False
            return UNKNOWN_MEMORY


@asynccontextmanager
async def clean_kernel(
    connected: Connected,
    name: str | None,
    beside: NotebookPath,
    started: Callable[[str], None],
    not_ended: Callable[[str], None],
) -> AsyncGenerator[CleanKernel]:
    """A new kernel in the folder of a notebook, without a session, so that no notebook shows it as its own.

    `started` is told its id, and `not_ended` why it could not be ended.
    """
    kernels = connected.found.jupyter.kernels
    info = await _start(kernels, name, beside)
    started(info.id)
    live = connected.kernels.apart()
    try:
        yield CleanKernel(info, await live.queue(info.id))
    finally:
        await asyncio.shield(asyncio.ensure_future(_end(kernels, live, info.id, not_ended)))


async def _start(kernels: JupyterKernels, name: str | None, beside: NotebookPath) -> KernelInfo:
    starting = asyncio.ensure_future(kernels.start_kernel(name, beside=beside))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # The server starts it all the same, and then nobody would end it.
        await asyncio.wait({starting})
        if not starting.cancelled() and starting.exception() is None:
            await _shut_down(kernels, starting.result().id)
        raise


async def _end(kernels: JupyterKernels, live: LiveKernels, kernel_id: str, not_ended: Callable[[str], None]) -> None:
    connection = (await live.queue(kernel_id)).kernel
    if connection.restarts:
        # It died, and Jupyter starts it again: what is shut down in the midst of that goes on all the same.
        with suppress(CellwrightError, TimeoutError):
            async with asyncio.timeout(RESTART_SECONDS):
                await connection.ready()
    async with live.ending(kernel_id):
        failure = await _shut_down(kernels, kernel_id)
    if failure:
        log.warning("kernel_not_ended kernel=%s reason=%s", kernel_id, failure)
        not_ended(f"kernel {kernel_id} may still run: {failure}")
        await live.close()
    else:
        await live.note_shutdown(kernel_id)


async def _shut_down(kernels: JupyterKernels, kernel_id: str) -> str:
    """End the kernel, and see that it is gone. Returns why it could not be ended, or an empty text."""
    failure = ""
    for pause in (*END_PAUSES, 0.0):
        try:
            await kernels.shut_down(kernel_id)
            await kernels.kernel(kernel_id)
            failure = "Jupyter still has it after it was shut down"
        except NotFound:
            return ""
        except CellwrightError as error:
            failure = error.message
        await asyncio.sleep(pause)
    return failure
