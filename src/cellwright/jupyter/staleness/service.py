"""The states of the cells of all open notebooks."""

import asyncio
import logging
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from cellwright.core.errors import CellwrightError, Forbidden
from cellwright.core.types import Call
from cellwright.jupyter.connected import Connected
from cellwright.jupyter.documents.open_document import OpenDocument
from cellwright.jupyter.errors import answered_soon
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.model import KernelInfo, SessionInfo
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.staleness.names import NamesOfCells
from cellwright.jupyter.staleness.tracking import KernelSeen, StatesOfNotebook
from cellwright.jupyter.staleness.words import StaleNews, stale_news
from cellwright.workers.pool import WorkerPool

log = logging.getLogger(__name__)

ASK_SECONDS = 2.0
"""For how long a kernel is asked what ran in it. One that is busy answers later."""
LOOK_SECONDS = 1.0
"""For how long an answer waits for the states of a notebook's cells."""


@dataclass(frozen=True, slots=True)
class AskedSession:
    """What Jupyter said when it was asked for a notebook's session."""

    session: SessionInfo | None
    denied: str = ""
    """Why the caller may not know."""


async def asked_session(connected: Connected, path: NotebookPath) -> AskedSession:
    try:
        return AskedSession(await answered_soon(connected.kernels.session_of(path), f"the kernel of {path}"))
    except Forbidden as denied:
        return AskedSession(None, denied.message)


class CellStates:
    """Which cells of open notebooks are fresh. A notebook is looked at when somebody asks; from then on it is followed."""

    def __init__(self, pool: WorkerPool) -> None:
        self._names = NamesOfCells(pool)
        self._updates: set[asyncio.Task[None]] = set()
        self._of: WeakKeyDictionary[LiveNotebook, StatesOfNotebook] = WeakKeyDictionary()

    async def look(
        self,
        call: Call,
        connected: Connected,
        document: OpenDocument[LiveNotebook],
        session: AskedSession | None = None,
        *,
        aside: bool = False,
    ) -> StatesOfNotebook:
        """The states as they are now. The notebook's kernel is asked what ran in it, if it has one; none is started.

        With `aside`, nobody who edits counts as having been told of them.
        """
        view, path = document.view, NotebookPath(document.path.text)
        states = self._of.get(view)
        if states is None:
            states = self._of[view] = StatesOfNotebook(view, self._names)
        age = asyncio.get_running_loop().time() - states.asked_at
        if session is not None or states.kernel.is_outdated(age):
            await self._update(call, states, view, await self._ask(connected, path, states, session))
        else:
            await self._update(call, states, view, states.kernel)
        if states.doubts_kernel:
            await self._update(call, states, view, await self._ask(connected, path, states, session))
        if not aside:
            states.news()
        return states

    async def _update(self, call: Call, states: StatesOfNotebook, view: LiveNotebook, kernel: KernelSeen) -> None:
        """Bring the states up to date. What takes long goes on behind the scenes: a large notebook that was just opened."""
        if states.is_current(kernel):
            return
        update = asyncio.create_task(states.update(view, kernel, call.principal.id))
        self._updates.add(update)
        update.add_done_callback(self._updates.discard)
        await asyncio.wait({update}, timeout=LOOK_SECONDS)
        if update.done():
            update.result()

    async def close(self) -> None:
        for update in tuple(self._updates):
            update.cancel()
        await asyncio.gather(*self._updates, return_exceptions=True)

    async def news(self, call: Call, view: LiveNotebook) -> StaleNews:
        """The cells that are stale since the last look or edit. Nothing for a notebook that nobody asked about: no kernel is asked."""
        states = self._of.get(view)
        if states is None or states.kernel.runs is None:
            return {}
        await self._update(call, states, view, states.kernel)
        return {} if states.is_late else stale_news(states.news(), view)

    async def _ask(
        self, connected: Connected, path: NotebookPath, states: StatesOfNotebook, session: AskedSession | None
    ) -> KernelSeen:
        states.asked_at = asyncio.get_running_loop().time()
        try:
            asked = session or await asked_session(connected, path)
            if asked.denied:
                return _not_shown(states, asked.denied)
            if asked.session is None or asked.session.kernel is None:
                return KernelSeen(none=True)
            return await _runs_in(connected, asked.session.kernel)
        except Forbidden as denied:
            return _not_shown(states, denied.message)
        except (CellwrightError, TimeoutError) as error:
            log.info("kernel_not_asked_what_ran path=%s error=%s", path, error)
            return KernelSeen(note="the kernel did not say what ran in it")


def _not_shown(states: StatesOfNotebook, denied: str) -> KernelSeen:
    """The kernel for a caller who may not ask: what others found out stays, because the states are those of the notebook."""
    return states.kernel if states.kernel.runs is not None else KernelSeen(note=f"what ran is not shown: {denied}")


async def _runs_in(connected: Connected, kernel: KernelInfo) -> KernelSeen:
    connection = (await connected.kernels.queue(kernel.id)).kernel
    if not (connection.ran.whole and connection.answers):
        async with asyncio.timeout(ASK_SECONDS):
            await connection.ready()
            # One that is busy answers when it is idle again.
            if "busy" not in (kernel.state, connection.state):
                await connection.all_that_ran(ASK_SECONDS)
    return KernelSeen(connection.ran, connection)
