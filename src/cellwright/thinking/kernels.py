"""The kernels of notebooks: one for each, started when first needed, shut down when idle, and limited in number for each principal."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from cellwright.core.errors import CellwrightError, LimitReached
from cellwright.core.types import Call
from cellwright.notebook.run import Kernels
from cellwright.storage.cells import NotebookKey
from cellwright.thinking.model import ThinkingLimits, ThinkingNotebook, no_notebook

TRUST_SECONDS = 1.0
"""How long a kernel that answered is trusted to be alive."""
NEW_KERNEL = "The kernel is new: variables of earlier runs are gone, run the cells that make them again"
MADE_ROOM = (
    "The kernel was shut down to make room for that of another notebook (--thinking-max-kernels): variables of earlier runs are "
    "gone, run the cells that make them again"
)


@dataclass(slots=True)
class _Slot:
    """The kernel of one notebook, or the place for it while it starts."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    kernel: str = ""
    last_used: float = 0.0
    last_answer: float = 0.0
    claims: int = 0
    """How many callers are about to run something in it."""
    died: bool = False
    """Whether its process died since it was last made ready. Jupyter starts another process under the same id."""


@dataclass(frozen=True, slots=True)
class Ready:
    kernel: str
    note: str = ""


class NotebookKernels:
    def __init__(
        self,
        kernels: Kernels,
        limits: ThinkingLimits,
        clock: Callable[[], float],
        note_kernel: Callable[[NotebookKey, str], Awaitable[None]],
        busy: Callable[[NotebookKey], bool],
    ) -> None:
        """`note_kernel` stores which kernel a notebook has, because it may outlive this process. `busy` tells whether something runs."""
        self._kernels = kernels
        self._limits = limits
        self._clock = clock
        self._note_kernel = note_kernel
        self._busy = busy
        self._slots: dict[NotebookKey, _Slot] = {}
        self._evicted: set[NotebookKey] = set()
        """Notebooks whose kernel was shut down for that of another notebook, and that have had none since."""
        self._shutting_down: set[str] = set()
        """Kernels that are being shut down: alive for a moment more, but not to be used."""
        self._shutdown_tasks: set[asyncio.Task[None]] = set()

    def live(self, key: NotebookKey) -> bool:
        slot = self._slots.get(key)
        return slot is not None and bool(slot.kernel)

    def owners(self) -> dict[str, str]:
        """The owner of each kernel that runs now."""
        return {slot.kernel: key.owner for key, slot in self._slots.items() if slot.kernel}

    def note(self, key: NotebookKey) -> str:
        """What a reader of the notebook should know about its kernel; usually empty."""
        return MADE_ROOM if key in self._evicted else ""

    @asynccontextmanager
    async def ready(self, call: Call, key: NotebookKey, notebook: ThinkingNotebook) -> AsyncGenerator[Ready]:
        """The notebook's kernel: the one it has, the one it had before this process, or a new one. It stays while the block runs."""
        longest_idle = None if key in self._slots else self._notebook_to_evict(key)
        slot = self._slots.setdefault(key, _Slot())
        slot.claims += 1
        try:
            if longest_idle is not None:
                await asyncio.shield(self._in_background(self._end_kernel(longest_idle, for_another=True)))
            async with slot.lock:
                ready = await self._ready(call, key, slot, notebook)
            yield ready
        finally:
            slot.claims -= 1
            if not slot.kernel and self._slots.get(key) is slot and not slot.claims:
                del self._slots[key]

    def _notebook_to_evict(self, key: NotebookKey) -> NotebookKey | None:
        """At the limit, the notebook whose kernel has to make room for this one: the one that was idle longest."""
        own_keys = [slot_key for slot_key in self._slots if slot_key.owner == key.owner]
        if len(own_keys) < self._limits.kernels:
            return None
        idle_keys = [slot_key for slot_key in own_keys if not self._in_use(slot_key)]
        if not idle_keys:
            raise LimitReached(
                f"at work: all kernels that your notebooks may have at once, {len(own_keys)} (--thinking-max-kernels)",
                hint="wait for one of these runs to end, or end one: cancel_execution, or notebook_close",
                details={"notebooks": [slot_key.id for slot_key in own_keys]},
            )
        return min(idle_keys, key=lambda slot_key: self._slots[slot_key].last_used)

    def _in_use(self, key: NotebookKey) -> bool:
        slot = self._slots[key]
        return slot.claims > 0 or slot.lock.locked() or self._busy(key)

    async def _ready(self, call: Call, key: NotebookKey, slot: _Slot, notebook: ThinkingNotebook) -> Ready:
        now = asyncio.get_running_loop().time()
        slot.last_used = self._clock()
        if slot.kernel and now - slot.last_answer < TRUST_SECONDS:
            return Ready(slot.kernel)
        kernel = slot.kernel or notebook.kernel
        if kernel and kernel not in self._shutting_down and await self._kernels.alive(call, kernel):
            note = NEW_KERNEL if slot.died else ""
            slot.kernel, slot.last_answer, slot.died = kernel, now, False
            return Ready(kernel, note)
        slot.kernel, slot.died = "", False
        kernel = await self._start(call, notebook.language)
        if self._slots.get(key) is not slot:
            # The notebook was closed while its kernel started: nobody else would ever shut it down.
            await self._kernels.shut_down(kernel)
            raise no_notebook()
        slot.kernel = kernel
        slot.last_answer, slot.last_used = asyncio.get_running_loop().time(), self._clock()
        await self._note_kernel(key, slot.kernel)
        note = self.note(key) or (NEW_KERNEL if notebook.executions else "")
        self._evicted.discard(key)
        return Ready(slot.kernel, note)

    async def _start(self, call: Call, language: str) -> str:
        """A new kernel. If the caller stops waiting, the kernel is shut down as soon as it has started."""
        starting = asyncio.create_task(self._kernels.start(call, language))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            self._in_background(self._shut_down_started(starting))
            raise

    def _in_background(self, shutdown: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Shut a kernel down whether or not anybody waits for it."""
        task = asyncio.create_task(shutdown)
        self._shutdown_tasks.add(task)
        task.add_done_callback(self._shutdown_tasks.discard)
        return task

    async def _shut_down_started(self, starting: asyncio.Task[str]) -> None:
        with suppress(CellwrightError):
            await self._kernels.shut_down(await starting)

    def note_use(self, key: NotebookKey) -> None:
        """Something ran in the kernel until now, and it answered."""
        slot = self._slots.get(key)
        if slot is not None:
            slot.last_used = self._clock()
            slot.last_answer = asyncio.get_running_loop().time()

    def doubt(self, key: NotebookKey, *, died: bool) -> None:
        """Something went wrong in the kernel: check that it is alive before it is used again."""
        slot = self._slots.get(key)
        if slot is not None:
            slot.last_answer = 0.0
            slot.died = slot.died or died

    async def end(self, key: NotebookKey, kernel: str = "") -> None:
        """Shut the notebook's kernel down; `kernel` is the one that was stored for it."""
        slot = self._slots.pop(key, None)
        self._evicted.discard(key)
        await self._shut_down(slot.kernel if slot is not None and slot.kernel else kernel)

    async def _shut_down(self, kernel: str) -> None:
        self._shutting_down.add(kernel)
        try:
            if kernel:
                await self._kernels.shut_down(kernel)
        finally:
            self._shutting_down.discard(kernel)

    async def end_idle(self) -> None:
        oldest = self._clock() - self._limits.kernel_idle
        for key, slot in tuple(self._slots.items()):
            if slot.kernel and slot.last_used <= oldest and self._slots.get(key) is slot and not self._in_use(key):
                await self._end_kernel(key)

    async def close(self) -> None:
        await asyncio.gather(*self._shutdown_tasks)
        for key in tuple(self._slots):
            await self._end_kernel(key)

    async def _end_kernel(self, key: NotebookKey, *, for_another: bool = False) -> None:
        """Shut the kernel down and note in the notebook, which stays, that its variables are gone."""
        kernel = self._slots.pop(key).kernel
        if for_another:
            self._evicted.add(key)
        self._shutting_down.add(kernel)
        try:
            # Noted before the kernel is shut down: afterwards the notebook may have a new one, which must not be forgotten.
            await self._note_kernel(key, "")
        finally:
            await self._shut_down(kernel)
