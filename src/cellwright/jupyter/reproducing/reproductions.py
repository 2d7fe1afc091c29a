"""All reproductions of this process: few at a time, and none goes on when it ends."""

import asyncio
from collections.abc import Mapping

from cellwright.core.errors import LimitReached
from cellwright.jupyter.connected import Connected
from cellwright.jupyter.kernels.executions import Clock, KeptWork
from cellwright.jupyter.reproducing.copies import NotebookCopy
from cellwright.jupyter.reproducing.reproduction import Reproduction, Wishes
from cellwright.workers.pool import WorkerPool

AT_ONCE = 4
END_SECONDS = 20.0
"""How long the end of this process waits for kernels to end."""
PREFIX = "repro_"
"""How the id of a reproduction begins, by which it is told from an execution."""


class Reproductions(KeptWork[Reproduction]):
    """Starts reproductions, and keeps what came of them."""

    def __init__(self, clock: Clock, pool: WorkerPool) -> None:
        super().__init__(clock)
        self._pool = pool
        self._under_way: set[Reproduction] = set()

    def start(self, principal_id: str, copy: NotebookCopy, wishes: Wishes, connected: Connected) -> Reproduction:
        """Begin to reproduce a notebook. `connected` is used without the permissions of a caller: we end what we started."""
        self._under_way = {reproduction for reproduction in self._under_way if not reproduction.ended}
        if len(self._under_way) >= AT_ONCE:
            raise LimitReached(
                f"{AT_ONCE} notebooks are being reproduced already, each in a kernel of its own",
                hint="Wait for one to end, or cancel_execution one of yours",
            )
        reproduction = Reproduction(principal_id, copy, wishes, connected, self._pool, self._clock)
        self._under_way.add(reproduction)
        self.add(reproduction)
        reproduction.start()
        return reproduction

    def owners_of_kernels(self) -> Mapping[str, str]:
        """The kernels in use, each with its owner."""
        return {
            reproduction.kernel.id: reproduction.principal_id
            for reproduction in self._under_way
            if reproduction.kernel is not None and not reproduction.ended
        }

    async def close(self) -> None:
        """End all that is under way, with its kernels."""
        await asyncio.gather(*(reproduction.cancel(END_SECONDS) for reproduction in self._under_way))
