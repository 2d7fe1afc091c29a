"""What the worker process may not do: reach the network, start processes, open files, eat the machine, or go on for ever."""

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager

if sys.platform != "win32":
    import resource

REFUSED_EVENTS = frozenset(
    (
        "socket.__new__",
        "socket.connect",
        "socket.bind",
        "socket.sendto",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
    )
)
NICENESS = 5
GRACE_SECONDS = 1.0
"""How much later than the parent the worker's own alarm ends it; it only matters when the parent is gone."""


class Refused(RuntimeError):
    """Something in the worker tried what a validator never needs."""


def _refuse(event: str, _arguments: tuple[object, ...]) -> None:
    if event in REFUSED_EVENTS:
        raise Refused(f"a validator may not do this: {event}")


def confine(memory_bytes: int) -> None:
    """For the rest of this process's life."""
    sys.addaudithook(_refuse)
    if sys.platform != "win32":
        # Where cores are short, the server comes first.
        os.nice(NICENESS)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # macOS knows the limit but refuses to set it below what is mapped already.
        if sys.platform == "linux":
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


@contextmanager
def sealed(seconds: float) -> Generator[None]:
    """While content is looked at: nothing can be opened, by native code neither, and the alarm ends us without our help."""
    if sys.platform == "win32":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The default action of the alarm needs no interpreter, so it also ends a parser that never returns.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + GRACE_SECONDS)
    # Descriptors that are open already, our pipes, are not touched by the limit.
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        signal.setitimer(signal.ITIMER_REAL, 0)
