"""Processes and what they started."""

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

LOOK_SECONDS = 0.2
MOST_LEVELS = 6


class Descendants:
    """Everything below this process. Where the system loses sight of orphans, those stay known that were seen in time."""

    def __init__(self, *, held: bool) -> None:
        """`held` says that the system shows us orphans as children of our own."""
        self._held = held
        self._seen: set[psutil.Process] = set()

    def look(self) -> None:
        """Remember who is there, where that is needed."""
        if not self._held:
            self._seen = self._living()

    def end(self, seconds: float) -> bool:
        """Kill them all, and who they start meanwhile. False if some still live after that time."""
        import psutil  # noqa: PLC0415 - takes a while to load

        deadline = time.monotonic() + seconds
        while living := self._living():
            if time.monotonic() > deadline:
                return False
            _kill(living)
            self._seen = set(psutil.wait_procs(list(living), timeout=LOOK_SECONDS)[1])
        return True

    def _living(self) -> "set[psutil.Process]":
        import psutil  # noqa: PLC0415 - takes a while to load

        # `is_running` also compares when the process began: a number that was given to another one does not count.
        known = {process for process in self._seen if process.is_running()}
        return known.union(psutil.Process().children(recursive=True))


def commands_above() -> Iterator[tuple[str, ...]]:
    """The command lines of the process that started us, of the one that started that, and so on, as far as they can be seen."""
    import psutil  # noqa: PLC0415 - takes a while to load

    process = psutil.Process()
    # On Windows, programs of packages and interpreters of environments start the real ones: a few of those lie in between.
    for _level in range(MOST_LEVELS):
        try:
            above = process.parent()
            if above is None:
                return
            words = tuple(above.cmdline())
        except psutil.Error:
            return
        yield words
        process = above


def end_tree(pid: int, seconds: float) -> None:
    """Kill a process and all below it."""
    import psutil  # noqa: PLC0415 - takes a while to load

    try:
        process = psutil.Process(pid)
        family = {process, *process.children(recursive=True)}
    except psutil.NoSuchProcess:
        return
    _kill(family)
    psutil.wait_procs(list(family), timeout=seconds)


def _kill(processes: "set[psutil.Process]") -> None:
    import psutil  # noqa: PLC0415 - loaded by then

    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.kill()
