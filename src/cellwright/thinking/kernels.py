"""Which notebook runs in which kernel: one each, started when first needed, shut down when idle, few for each principal."""

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
"""For how long a kernel that answered is believed to be there."""
NEW_KERNEL = "The kernel is new: variables of earlier runs are gone, run the cells that make them again"
MADE_ROOM = (
    "The kernel was shut down to make room for that of another notebook (--thinking-max-kernels): variables of earlier runs are "
    "gone, run the cells that make them again"
)


@dataclass(slots=True)
class _Held:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    kernel: str = ""
    used: float = 0.0
    seen: float = 0.0
    claims: int = 0
    """How many callers are about to run something in it."""
    died: bool = False
    """Whether the process in it died since it was last made ready; Jupyter starts another under the same id."""


@dataclass(frozen=True, slots=True)
class Ready:
    kernel: str
    note: str = ""


class HeldKernels:
    def __init__(
        self,
        kernels: Kernels,
        limits: ThinkingLimits,
        clock: Callable[[], float],
        note_kernel: Callable[[NotebookKey, str], Awaitable[None]],
        busy: Callable[[NotebookKey], bool],
    ) -> None:
        """`note_kernel` remembers which kernel a notebook has: it may outlive this process. `busy` tells whether something runs."""
        self._kernels = kernels
        self._limits = limits
        self._clock = clock
        self._note_kernel = note_kernel
        self._busy = busy
        self._held: dict[NotebookKey, _Held] = {}
        self._made_room: set[NotebookKey] = set()
        """Notebooks whose kernel was shut down for another one, and which have had none since."""
        self._leaving: set[str] = set()
        """Kernels that are being shut down: alive for a moment more, but not to be used."""
        self._ending: set[asyncio.Task[None]] = set()

    def live(self, key: NotebookKey) -> bool:
        held = self._held.get(key)
        return held is not None and bool(held.kernel)

    def owners(self) -> dict[str, str]:
        """Whose the kernels are that run now."""
        return {held.kernel: key.owner for key, held in self._held.items() if held.kernel}

    def note(self, key: NotebookKey) -> str:
        """What whoever reads the notebook should know of its kernel; mostly nothing."""
        return MADE_ROOM if key in self._made_room else ""

    @asynccontextmanager
    async def ready(self, call: Call, key: NotebookKey, notebook: ThinkingNotebook) -> AsyncGenerator[Ready]:
        """The notebook's kernel: the one it has, the one it had before this process, or a new one. For the block it is not taken away."""
        longest_idle = None if key in self._held else self._make_room(key)
        held = self._held.setdefault(key, _Held())
        held.claims += 1
        try:
            if longest_idle is not None:
                await asyncio.shield(self._work(self._end_known(longest_idle, for_another=True)))
            async with held.lock:
                ready = await self._ready(call, key, held, notebook)
            yield ready
        finally:
            held.claims -= 1
            if not held.kernel and self._held.get(key) is held and not held.claims:
                del self._held[key]

    def _make_room(self, key: NotebookKey) -> NotebookKey | None:
        """At the limit, the notebook whose kernel has to go for that of another one: the one that was idle longest."""
        mine = [other for other in self._held if other.owner == key.owner]
        if len(mine) < self._limits.kernels:
            return None
        idle = [other for other in mine if not self._in_use(other)]
        if not idle:
            raise LimitReached(
                f"at work: all kernels that your notebooks may have at once, {len(mine)} (--thinking-max-kernels)",
                hint="wait for one of these runs to end, or end one: cancel_execution, or notebook_close",
                details={"notebooks": [other.id for other in mine]},
            )
        return min(idle, key=lambda other: self._held[other].used)

    def _in_use(self, key: NotebookKey) -> bool:
        held = self._held[key]
        return held.claims > 0 or held.lock.locked() or self._busy(key)

    async def _ready(self, call: Call, key: NotebookKey, held: _Held, notebook: ThinkingNotebook) -> Ready:
        now = asyncio.get_running_loop().time()
        held.used = self._clock()
        if held.kernel and now - held.seen < TRUST_SECONDS:
            return Ready(held.kernel)
        known = held.kernel or notebook.kernel
        if known and known not in self._leaving and await self._kernels.alive(call, known):
            note = NEW_KERNEL if held.died else ""
            held.kernel, held.seen, held.died = known, now, False
            return Ready(known, note)
        held.kernel, held.died = "", False
        started = await self._start(call, notebook.language)
        if self._held.get(key) is not held:
            # Closed while it started: nobody would ever shut it down.
            await self._kernels.shut_down(started)
            raise no_notebook()
        held.kernel = started
        held.seen, held.used = asyncio.get_running_loop().time(), self._clock()
        await self._note_kernel(key, held.kernel)
        note = self.note(key) or (NEW_KERNEL if notebook.executions else "")
        self._made_room.discard(key)
        return Ready(held.kernel, note)

    async def _start(self, call: Call, language: str) -> str:
        """A new kernel. One that comes when nobody waits for it any more is shut down."""
        starting = asyncio.create_task(self._kernels.start(call, language))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            self._work(self._end_late(starting))
            raise

    def _work(self, ending: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """End a kernel whether or not anybody waits for it."""
        task = asyncio.create_task(ending)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def _end_late(self, starting: asyncio.Task[str]) -> None:
        with suppress(CellwrightError):
            await self._kernels.shut_down(await starting)

    def note_use(self, key: NotebookKey) -> None:
        """Something ran in it until now, and it answered."""
        held = self._held.get(key)
        if held is not None:
            held.used = self._clock()
            held.seen = asyncio.get_running_loop().time()

    def doubt(self, key: NotebookKey, *, died: bool) -> None:
        """Something went wrong in it: look before it is used again."""
        held = self._held.get(key)
        if held is not None:
            held.seen = 0.0
            held.died = held.died or died

    async def end(self, key: NotebookKey, kernel: str = "") -> None:
        """Shut the notebook's kernel down; `kernel` is the one it is known to have had."""
        held = self._held.pop(key, None)
        self._made_room.discard(key)
        wanted = held.kernel if held is not None and held.kernel else kernel
        await self._shut_down(wanted)

    async def _shut_down(self, kernel: str) -> None:
        self._leaving.add(kernel)
        try:
            if kernel:
                await self._kernels.shut_down(kernel)
        finally:
            self._leaving.discard(kernel)

    async def end_idle(self) -> None:
        oldest = self._clock() - self._limits.kernel_idle
        for key, held in tuple(self._held.items()):
            if held.kernel and held.used <= oldest and self._held.get(key) is held and not self._in_use(key):
                await self._end_known(key)

    async def close(self) -> None:
        await asyncio.gather(*self._ending)
        for key in tuple(self._held):
            await self._end_known(key)

    async def _end_known(self, key: NotebookKey, *, for_another: bool = False) -> None:
        """The notebook stays, and is to know that its variables are gone."""
        kernel = self._held.pop(key).kernel
        if for_another:
            self._made_room.add(key)
        self._leaving.add(kernel)
        try:
            # Before it is shut down: afterwards the notebook may have got a new one, which must not be forgotten.
            await self._note_kernel(key, "")
        finally:
            await self._shut_down(kernel)
