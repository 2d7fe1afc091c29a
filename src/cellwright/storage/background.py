"""A thread that works beside everything else: begun when there is first something to do, woken when there is more, ended in order."""

import asyncio
import threading
from collections.abc import Callable

CLOSE_SECONDS = 10.0


class Background:
    """`run` is what the thread does: it looks at `wanted` for more work, and returns soon after `closed`."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        self._name = name
        self._run = run
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.wanted = threading.Event()
        self.closed = False

    def wake(self) -> None:
        """There may be something to do. From any thread."""
        if self.closed:
            return
        self.wanted.set()
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    async def close(self) -> None:
        self.closed = True
        self.wanted.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, CLOSE_SECONDS)
