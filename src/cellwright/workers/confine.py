"""Limits of a worker process: it may not reach the network, start processes, open files, use up the machine, or run for ever."""

import sys

from cellwright.system import machine

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


class Refused(RuntimeError):
    """Code in the worker tried something that foreign content never needs."""


def _refuse(event: str, _arguments: tuple[object, ...]) -> None:
    if event in REFUSED_EVENTS:
        raise Refused(f"a worker process may not do this: {event}")


def confine(memory_bytes: int) -> None:
    """Apply the limits to this process, for the rest of its life."""
    sys.addaudithook(_refuse)
    machine.confine(memory_bytes)
