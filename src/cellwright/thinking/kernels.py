"""Which notebook runs in which kernel: one each, started when first needed, shut down when idle, few for each principal."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from cellwright.core.errors import CellwrightError, LimitReached
from cellwright.core.running import Kernels
from cellwright.core.types import Call
from cellwright.thinking.model import Key, Limits, Notebook, no_notebook

TRUST_SECONDS = 1.0
"""For how long a kernel that answered is believed to be there."""
NEW_KERNEL = "The kernel is new: variables of earlier runs are gone, run the cells that make them again"


@dataclass(slots=True)
class _Held:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    kernel: str = ""
    used: float = 0.0
    seen: float = 0.0
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
        limits: Limits,
        clock: Callable[[], float],
        note_kernel: Callable[[Key, str], Awaitable[None]],
    ) -> None:
        """`note_kernel` remembers which kernel a notebook has: it may outlive this process."""
        self._kernels = kernels
        self._limits = limits
        self._clock = clock
        self._note_kernel = note_kernel
        self._held: dict[Key, _Held] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def live(self, key: Key) -> bool:
        held = self._held.get(key)
        return held is not None and bool(held.kernel)

    async def ready(self, call: Call, key: Key, notebook: Notebook) -> Ready:
        """The notebook's kernel: the one it has, the one it had before this process, or a new one."""
        held = self._held.get(key) or self._room(key)
        try:
            async with held.lock:
                return await self._ready(call, key, held, notebook)
        finally:
            if not held.kernel and self._held.get(key) is held and not held.lock.locked():
                del self._held[key]

    def _room(self, key: Key) -> _Held:
        others = [other.id for other in self._held if other.owner == key.owner]
        if len(others) >= self._limits.kernels:
            raise LimitReached(
                f"{len(others)} of your notebooks have a kernel, which is the most you may have (--thinking-max-kernels)",
                hint="notebook_close one of them, or wait: idle kernels are shut down by and by",
                details={"notebooks": others},
            )
        return self._held.setdefault(key, _Held())

    async def _ready(self, call: Call, key: Key, held: _Held, notebook: Notebook) -> Ready:
        now = asyncio.get_running_loop().time()
        held.used = self._clock()
        if held.kernel and now - held.seen < TRUST_SECONDS:
            return Ready(held.kernel)
        known = held.kernel or notebook.kernel
        if known and await self._kernels.alive(call, known):
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
        return Ready(held.kernel, NEW_KERNEL if notebook.executions else "")

    async def _start(self, call: Call, language: str) -> str:
        """A new kernel. One that comes when nobody waits for it any more is shut down."""
        starting = asyncio.create_task(self._kernels.start(call, language))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            ending = asyncio.create_task(self._end_late(starting))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            raise

    async def _end_late(self, starting: asyncio.Task[str]) -> None:
        with suppress(CellwrightError):
            await self._kernels.shut_down(await starting)

    def note_use(self, key: Key) -> None:
        """Something ran in it until now, and it answered."""
        held = self._held.get(key)
        if held is not None:
            held.used = self._clock()
            held.seen = asyncio.get_running_loop().time()

    def doubt(self, key: Key, *, died: bool) -> None:
        """Something went wrong in it: look before it is used again."""
        held = self._held.get(key)
        if held is not None:
            held.seen = 0.0
            held.died = held.died or died

    async def end(self, key: Key, kernel: str = "") -> None:
        """Shut the notebook's kernel down; `kernel` is the one it is known to have had."""
        held = self._held.pop(key, None)
        wanted = held.kernel if held is not None and held.kernel else kernel
        if wanted:
            await self._kernels.shut_down(wanted)

    async def end_idle(self, busy: Callable[[Key], bool]) -> None:
        oldest = self._clock() - self._limits.kernel_idle
        for key, held in tuple(self._held.items()):
            if held.kernel and held.used <= oldest and not held.lock.locked() and not busy(key):
                await self._end_known(key)

    async def close(self) -> None:
        await asyncio.gather(*self._ending)
        for key in tuple(self._held):
            await self._end_known(key)

    async def _end_known(self, key: Key) -> None:
        """The notebook stays, and is to know that its variables are gone."""
        await self.end(key)
        await self._note_kernel(key, "")
