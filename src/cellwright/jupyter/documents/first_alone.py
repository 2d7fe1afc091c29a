"""A gate that lets callers through one at a time until the first has succeeded."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class FirstAlone:
    """Callers go one by one until the first has got through, then all at once. Nobody waits for longer than `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._got_through = False
        self._alone = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        has_lock = not self._got_through and await self._acquire()
        try:
            yield
            self._got_through = True
        finally:
            if has_lock:
                self._alone.release()

    async def _acquire(self) -> bool:
        """Wait for the lock. Returns False, without the lock, if another caller got through meanwhile or the time is up."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._alone.acquire()
        except TimeoutError:
            return False
        if self._got_through:
            self._alone.release()
        return not self._got_through
