"""A process between us and the embedded Jupyter server, which leaves nothing behind when either of them ends.

Run as a script. It reads from its input what to start, and ends when that input ends, so that the server and its kernels end also
when our process is killed; but not as long as another program uses the server. It writes the server's log to a file of bounded size,
and ends kernels whose server died. Its own output is the server's, which announces there where it listens.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from cellwright.jupyter.server.sharing import is_used, open_for_others, runtime_file
from cellwright.system import machine
from cellwright.system.folders import home_folder, jupyter_runtime_folder
from cellwright.system.pipes import EndOfPipe, read_line
from cellwright.system.trees import Descendants

POLL_SECONDS = 0.5
GRACE_SECONDS = 8.0
LOG_BYTES = 1024 * 1024
AUTOSAVE_SECONDS = 1.5
"""The server writes a document one second after its last change."""


def copy_log(source: IO[bytes], path: Path, limit: int) -> None:
    """Write the source to the log. When the log is full, keep it as the previous one and begin a new one.

    What cannot be written is dropped: the server must not wait for a full disk, or for somebody who has the log open.
    """
    while piece := os.read(source.fileno(), max(1, limit // 16)):
        with contextlib.suppress(OSError):
            if path.exists() and path.stat().st_size + len(piece) > limit:
                path.replace(path.with_name(path.name + ".1"))
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600)
            with os.fdopen(handle, "ab") as log:
                log.write(piece)


def start_server(order: dict[str, Any]) -> subprocess.Popen[bytes]:
    server = subprocess.Popen(  # noqa: S603 - the command comes from our own process
        order["command"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=order["cwd"]
    )
    assert server.stdin is not None
    assert server.stderr is not None
    threading.Thread(target=copy_log, args=(server.stderr, Path(order["log"]), LOG_BYTES), daemon=True).start()
    with contextlib.suppress(OSError):
        # It stays open: the server ends when this pipe ends.
        server.stdin.write(json.dumps(order["server"]).encode() + b"\n")
        server.stdin.flush()
    return server


class Ending:
    """Why the server should end: it was told to, or whoever started it has left."""

    def __init__(self) -> None:
        self.told = threading.Event()
        self.left = threading.Event()

    def tell(self) -> None:
        self.told.set()
        self.left.set()

    def wait(self, seconds: float) -> None:
        """Wait for what comes next."""
        (self.told if self.left.is_set() else self.left).wait(seconds)


def watch(
    server: subprocess.Popen[bytes], ending: Ending, parent_lives: Callable[[], bool], below: Descendants, users: Path
) -> None:
    """Wait until the server has ended, or nobody needs it any more: neither its owner nor another program."""
    owner = EndOfPipe(0, ending.left)
    outlived = False
    while server.poll() is None and not ending.told.is_set():
        if ending.left.is_set() or not parent_lives():
            if not is_wanted(server.pid, users):
                break
            outlived = True
        below.look()
        ending.wait(POLL_SECONDS)
    withdraw(server.pid)
    if owner.is_silent_end or outlived:
        # The last program ended without a goodbye: its last changes are still on their way to disk.
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(AUTOSAVE_SECONDS)


def is_wanted(pid: int, users: Path) -> bool:
    """Whether another program uses the server. Once none does, it is withdrawn, and they are looked for again."""
    if is_used(users):
        return True
    withdraw(pid)
    return is_used(users)


def runtime_folder() -> Path:
    return jupyter_runtime_folder(os.environ, home_folder(), sys.platform)


def withdraw(pid: int) -> None:
    """Remove the server's runtime file, so that nobody finds a server that is about to end."""
    with contextlib.suppress(OSError):
        runtime_file(runtime_folder(), pid).unlink(missing_ok=True)


def stop(server: subprocess.Popen[bytes], below: Descendants) -> None:
    """End the server, gently at first, then everything that it started."""
    below.look()
    assert server.stdin is not None
    with contextlib.suppress(OSError):
        server.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(GRACE_SECONDS)
    below.end(GRACE_SECONDS)


def main() -> None:
    ending = Ending()
    parent_lives = machine.parent_watch()
    machine.on_stop(ending.tell)
    below = Descendants(held=machine.hold_descendants())
    order = json.loads(read_line(0))
    server = start_server(order)
    users = open_for_others(runtime_folder(), server.pid)
    try:
        watch(server, ending, parent_lives, below, users)
    finally:
        stop(server, below)
        for folder in (users, order["private"]):
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
