"""Processes and their descendants."""

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

LOOK_SECONDS = 0.2
MOST_LEVELS = 6


class Descendants:
    """All descendants of this process. If the system does not keep orphans reachable, those are remembered that `look` has seen."""

    def __init__(self, *, held: bool) -> None:
        """`held` says whether the system makes orphans our own children."""
        self._held = held
        self._seen: set[psutil.Process] = set()

    def look(self) -> None:
        """Remember the present descendants, if that is needed."""
        if not self._held:
            self._seen = self._living()

    def end(self, seconds: float) -> bool:
        """Kill them all, and those that they start meanwhile. False if some are still alive after that time."""
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

        # `is_running` also compares the start time, so a pid that now belongs to another process does not count.
        remembered = {process for process in self._seen if process.is_running()}
        return remembered.union(psutil.Process().children(recursive=True))


def commands_above() -> Iterator[tuple[str, ...]]:
    """The command lines of our parent process, of its parent, and so on, as far as they can be read."""
    import psutil  # noqa: PLC0415 - takes a while to load

    process = psutil.Process()
    # On Windows there are a few launchers in between: scripts of packages and interpreters of environments start the real ones.
    for _level in range(MOST_LEVELS):
        try:
            parent = process.parent()
            if parent is None:
                return
            words = tuple(parent.cmdline())
        except psutil.Error:
            return
        yield words
        process = parent


def end_tree(pid: int, seconds: float) -> None:
    """Kill a process and all its descendants."""
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
