"""The threads beside the event loop, shared fairly: one caller's slow searches do not delay the others.

Blocking work is done by `asyncio.to_thread`, which knows nothing of callers. So the caller is noted at the beginning of each request, and
each caller gets at most a share of the threads: its further work waits in a queue of its own.
"""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import Any

THREADS = 16
SHARE = 4
"""The threads that one caller may use. Work without a caller, such as at the start, may use all of them."""
NOBODY = ""

_CALLER: ContextVar[str] = ContextVar("caller", default=NOBODY)
Work = Callable[[], Any]


def on_behalf_of(caller: str) -> None:
    """From here on, the work that this task gives to threads counts for this caller."""
    _CALLER.set(caller)


class FairThreads(ThreadPoolExecutor):
    """A thread pool in which no caller uses more than its share."""

    def __init__(self, threads: int = THREADS, share: int = SHARE) -> None:
        super().__init__(threads, "beside-loop")
        self._share = share
        self._lock = threading.Lock()
        self._busy: Counter[str] = Counter()
        self._waiting: dict[str, deque[tuple[Future[Any], Work]]] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401 - as the base class
        caller = _CALLER.get()
        with self._lock:
            if self._busy[caller] >= self._share and caller != NOBODY:
                promised: Future[Any] = Future()
                self._waiting.setdefault(caller, deque()).append((promised, partial(fn, *args, **kwargs)))
                return promised
            self._busy[caller] += 1
        running = super().submit(fn, *args, **kwargs)
        running.add_done_callback(lambda _: self._next(caller))
        return running

    def _next(self, caller: str) -> None:
        """A thread of this caller is free: begin the next work that waits and was not cancelled."""
        while True:
            with self._lock:
                queue = self._waiting.get(caller)
                if not queue:
                    self._waiting.pop(caller, None)
                    self._busy[caller] -= 1
                    if not self._busy[caller]:
                        del self._busy[caller]
                    return
                promised, work = queue.popleft()
            if not promised.set_running_or_notify_cancel():
                continue
            try:
                # It goes behind the work that others have submitted meanwhile.
                running = super().submit(work)
            except RuntimeError as ended:
                # The program is ending, and the pool takes no more work.
                promised.set_exception(ended)
                continue
            running.add_done_callback(partial(self._finish, caller, promised))
            return

    def _finish(self, caller: str, promised: Future[Any], finished: Future[Any]) -> None:
        if (error := finished.exception()) is not None:
            promised.set_exception(error)
        else:
            promised.set_result(finished.result())
        self._next(caller)


def share_threads() -> None:
    """Use `FairThreads` for the running loop."""
    asyncio.get_running_loop().set_default_executor(FairThreads())
