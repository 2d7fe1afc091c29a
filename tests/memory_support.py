"""What a server takes, with all its worker processes: memory and processor time, as the system counts them."""

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import psutil

from support import HttpServer, until

QUIET_SECONDS = 1.0
BACK = 1.2
"""How much of what there was at rest is there again at the next rest."""
BACK_SECONDS = 100.0
"""A worker process ends when nobody has needed it for a minute."""


class Memory:
    """A server's processes."""

    def __init__(self, server: HttpServer) -> None:
        self._process = psutil.Process(server.process.pid)

    def _every(self) -> list[psutil.Process]:
        return [self._process, *self._process.children(recursive=True)]

    def _sum(self, what: str) -> int:
        total = 0
        for process in self._every():
            with suppress(OSError):
                text = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
                total += next(
                    (int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(f"{what}:")), 0
                )
        return total

    def now(self) -> int:
        return self._sum("VmRSS")

    def peak(self) -> int:
        """The most since `reset`, of each process; those that began later count from their beginning."""
        return self._sum("VmHWM")

    def reset(self) -> None:
        for process in self._every():
            with suppress(OSError):
                Path(f"/proc/{process.pid}/clear_refs").write_text("5", encoding="ascii")

    def seconds(self) -> float:
        """Processor time so far."""
        spent = 0.0
        for process in self._every():
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                spent += times.user + times.system
        return spent

    async def quiet(self) -> None:
        """Return when there is nothing more to do: what was stored is made ready for search behind the scenes."""
        spent, since = self.seconds(), time.monotonic()

        def is_quiet() -> bool:
            nonlocal spent, since
            if self.seconds() - spent > 0.05 * QUIET_SECONDS:
                spent, since = self.seconds(), time.monotonic()
            return time.monotonic() - since > QUIET_SECONDS

        await until(is_quiet, "the server being quiet", 240)

    async def at_rest(self) -> int:
        """What there is once there is nothing more to do."""
        await self.quiet()
        return self.now()

    async def back(self, idle: int, seconds: float = BACK_SECONDS) -> int:
        """What there is once everything was left, and all that is kept for a while is gone: as much as before, or what it stays at."""
        await self.quiet()
        end = time.monotonic() + seconds
        while self.now() >= idle * BACK and time.monotonic() < end:  # noqa: ASYNC110 - what is waited for happens in other processes
            await asyncio.sleep(0.5)
        return self.now()
