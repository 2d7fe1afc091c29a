"""The threads beside the event loop, shared fairly: nobody's slow searches keep the others waiting.

Whatever blocks is done by `asyncio.to_thread`, which knows nothing of callers. So who asks is noted at the beginning of each request, and
a caller has at most a share of the threads: what it asks for beyond that waits in a line of its own.
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
"""Of one caller. Work of nobody's, as at the start, has all of them."""
NOBODY = ""

_CALLER: ContextVar[str] = ContextVar("caller", default=NOBODY)
Work = Callable[[], Any]


def on_behalf_of(caller: str) -> None:
    """From here on, what this task has done in threads is this caller's."""
    _CALLER.set(caller)


class FairThreads(ThreadPoolExecutor):
    """A few threads, of which no caller has more than its share."""

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
                asked: Future[Any] = Future()
                self._waiting.setdefault(caller, deque()).append((asked, partial(fn, *args, **kwargs)))
                return asked
            self._busy[caller] += 1
        begun = super().submit(fn, *args, **kwargs)
        begun.add_done_callback(lambda _: self._next(caller))
        return begun

    def _next(self, caller: str) -> None:
        """A thread of this caller's is free: for what waits, unless nobody does any more."""
        while True:
            with self._lock:
                line = self._waiting.get(caller)
                if not line:
                    self._waiting.pop(caller, None)
                    self._busy[caller] -= 1
                    if not self._busy[caller]:
                        del self._busy[caller]
                    return
                asked, work = line.popleft()
            if not asked.set_running_or_notify_cancel():
                continue
            try:
                # Behind what others have asked for meanwhile.
                begun = super().submit(work)
            except RuntimeError as ended:
                # The program ends, and nothing more begins.
                asked.set_exception(ended)
                continue
            begun.add_done_callback(partial(self._tell, caller, asked))
            return

    def _tell(self, caller: str, asked: Future[Any], begun: Future[Any]) -> None:
        if (error := begun.exception()) is not None:
            asked.set_exception(error)
        else:
            asked.set_result(begun.result())
        self._next(caller)


def share_threads() -> None:
    """For the running loop."""
    asyncio.get_running_loop().set_default_executor(FairThreads())
