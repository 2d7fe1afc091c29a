"""Who goes first."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class FirstAlone:
    """Until one has got through, they go one by one; then all at once. Nobody waits for longer than `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._got_through = False
        self._alone = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        mine = not self._got_through and await self._my_turn()
        try:
            yield
            self._got_through = True
        finally:
            if mine:
                self._alone.release()

    async def _my_turn(self) -> bool:
        """Wait for it. False: meanwhile one got through, or we have waited long enough."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._alone.acquire()
        except TimeoutError:
            return False
        if self._got_through:
            self._alone.release()
        return not self._got_through
