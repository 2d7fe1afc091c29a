"""A process between us and the embedded Jupyter server, which leaves nothing behind when either of them ends.

Run as a script. It reads from its input what to start, and ends when that input ends, so that the server and its kernels end also
when our process is killed. It writes the server's log to a file of bounded size, and ends kernels whose server died. Its own output
is the server's, which announces there where it listens.
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


def watch(
    server: subprocess.Popen[bytes], stopping: threading.Event, parent_lives: Callable[[], bool], below: Descendants
) -> None:
    """Wait until the server has ended, or nobody needs it any more."""
    owner = EndOfPipe(0, stopping)
    while server.poll() is None and not stopping.wait(POLL_SECONDS) and parent_lives():
        below.look()
    withdraw(server.pid)
    if owner.is_silent_end:
        # We ended without a goodbye: the last changes are still on their way to disk.
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(AUTOSAVE_SECONDS)


def withdraw(pid: int) -> None:
    """Remove the server's runtime file, so that nobody finds a server that is about to end."""
    folder = jupyter_runtime_folder(os.environ, home_folder(), sys.platform)
    with contextlib.suppress(OSError):
        (folder / f"jpserver-{pid}.json").unlink(missing_ok=True)


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
    stopping = threading.Event()
    parent_lives = machine.parent_watch()
    machine.on_stop(stopping.set)
    below = Descendants(held=machine.hold_descendants())
    order = json.loads(read_line(0))
    server = start_server(order)
    try:
        watch(server, stopping, parent_lives, below)
    finally:
        stop(server, below)
        shutil.rmtree(order["private"], ignore_errors=True)


if __name__ == "__main__":
    main()
