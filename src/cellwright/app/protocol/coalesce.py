"""At most one notification a second for each resource: the first change at once, later ones together at the end of the second."""

import asyncio
from collections.abc import Callable

from cellwright.core.resources import Change

QUIET_SECONDS = 1.0


class Coalescer:
    """Passes changes on to `announce`, but fewer of them. The last change is never lost."""

    def __init__(self, announce: Callable[[Change], None], quiet: float = QUIET_SECONDS) -> None:
        self._announce = announce
        self._quiet = quiet
        self._waiting: dict[Change, bool] = {}
        self._timers: dict[Change, asyncio.TimerHandle] = {}

    def __call__(self, change: Change) -> None:
        if change in self._waiting:
            self._waiting[change] = True
            return
        self._announce(change)
        self._rest(change)

    def _rest(self, change: Change) -> None:
        self._waiting[change] = False
        self._timers[change] = asyncio.get_running_loop().call_later(self._quiet, self._wake, change)

    def _wake(self, change: Change) -> None:
        changed_meanwhile = self._waiting.pop(change)
        del self._timers[change]
        if changed_meanwhile:
            self._announce(change)
            self._rest(change)

    def close(self) -> None:
        """Drop the changes that wait."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._waiting.clear()
