"""A background thread: started when there is first something to do, woken when there is more, and joined at the end."""

import asyncio
import threading
from collections.abc import Callable

CLOSE_SECONDS = 10.0


class Background:
    """`run` is the thread's function: it waits on `woken` for more work, and returns soon after `closed` is set."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        self._name = name
        self._run = run
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.woken = threading.Event()
        self.closed = False

    def wake(self) -> None:
        """Say that there may be something to do. May be called from any thread."""
        if self.closed:
            return
        self.woken.set()
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    async def close(self) -> None:
        self.closed = True
        self.woken.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, CLOSE_SECONDS)
