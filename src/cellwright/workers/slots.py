"""A few slots for worker processes, shared fairly: one caller's slow content does not keep the others waiting.

A caller who holds no slot may take any free one. A caller who already holds one gets another only if half of all slots stay free.
Waiting callers are served by how many slots they hold, then in the order of arrival.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cellwright.workers.process import Worker


@dataclass(slots=True, eq=False)
class Slot:
    """A place for one worker, which is started when it is needed and ends when it was idle for long."""

    worker: Worker | None = None
    expiry: asyncio.TimerHandle | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    caller: str
    turn: asyncio.Future[Slot]


class Slots:
    def __init__(self, count: int) -> None:
        self.all = tuple(Slot() for _ in range(count))
        self._free = list(self.all)
        self._held_by: Counter[str] = Counter()
        self._waiting: list[_Waiting] = []

    @asynccontextmanager
    async def slot_for(self, caller: str) -> AsyncGenerator[Slot]:
        slot = await self._take(caller)
        try:
            yield slot
        finally:
            self._give_back(caller, slot)

    def _may_take(self, caller: str) -> bool:
        still_free = len(self._free) - 1
        return still_free >= 0 and (self._held_by[caller] == 0 or still_free >= len(self.all) // 2)

    async def _take(self, caller: str) -> Slot:
        if self._may_take(caller):
            return self._hand_out(caller)
        waiting = _Waiting(caller, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            return await waiting.turn
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            elif not waiting.turn.cancelled():
                # It got a slot in the same moment.
                self._give_back(caller, waiting.turn.result())
            raise

    def _hand_out(self, caller: str) -> Slot:
        # First a slot that has a worker: starting one costs more than most jobs.
        slot = next((slot for slot in self._free if slot.worker is not None), self._free[0])
        self._free.remove(slot)
        self._held_by[caller] += 1
        return slot

    def _give_back(self, caller: str, slot: Slot) -> None:
        self._held_by[caller] -= 1
        if not self._held_by[caller]:
            del self._held_by[caller]
        self._free.append(slot)
        for waiting in sorted(self._waiting, key=lambda waiting: self._held_by[waiting.caller]):
            if self._may_take(waiting.caller):
                self._waiting.remove(waiting)
                if not waiting.turn.done():
                    waiting.turn.set_result(self._hand_out(waiting.caller))
