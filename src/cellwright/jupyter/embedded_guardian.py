"""Stands between us and the embedded Jupyter server, so that nothing of it is left when either of them ends.

Run as a script of its own, with the standard library only. It reads what to start from its input, and ends when that input
ends: so the server and its kernels go away also when our process is killed. It writes the server's output to a log file of
bounded size, and adopts kernels whose server died, to end them too.
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

PR_SET_CHILD_SUBREAPER = 36
POLL_SECONDS = 0.5
GRACE_SECONDS = 8.0
LOG_BYTES = 1024 * 1024
AUTOSAVE_SECONDS = 1.5
"""The server writes a document one second after its last change."""


def adopt_orphans() -> None:
    """Become the parent of processes whose parent ends (Linux): kernels have sessions of their own."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def parents() -> dict[int, int]:
    """The parent of every process."""
    if Path("/proc/self/stat").exists():
        found: dict[int, int] = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                # The name in parentheses may hold anything; what follows its last parenthesis is state, then parent.
                status = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                found[int(entry.name)] = int(status[1])
        return found
    listed = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=False)  # noqa: S607
    pairs = [line.split() for line in listed.stdout.splitlines()]
    return {int(pair[0]): int(pair[1]) for pair in pairs}


def descendants(pid: int) -> set[int]:
    """All processes below this one."""
    of = parents()
    found: set[int] = set()
    newest = {pid}
    while newest:
        newest = {child for child, parent in of.items() if parent in newest and child not in found}
        found |= newest
    return found


def end_all(pids: set[int], how: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, how)


def copy_log(source: IO[bytes], path: Path, limit: int) -> None:
    """Write what comes to the log; when it is full, keep it as the previous one and start again."""
    while piece := os.read(source.fileno(), max(1, limit // 16)):
        if path.exists() and path.stat().st_size + len(piece) > limit:
            path.replace(path.with_name(path.name + ".1"))
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "ab") as log:
            log.write(piece)


def start_server(order: dict[str, Any]) -> subprocess.Popen[bytes]:
    # Not 1 itself: the server's own standard output goes to the log.
    announcements = os.dup(1)
    server = subprocess.Popen(  # noqa: S603 - the command comes from our own process
        order["command"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=order["cwd"],
        pass_fds=(announcements,),
    )
    assert server.stdin is not None
    assert server.stdout is not None
    threading.Thread(target=copy_log, args=(server.stdout, Path(order["log"]), LOG_BYTES), daemon=True).start()
    with contextlib.suppress(BrokenPipeError), server.stdin as wire:
        wire.write(json.dumps({**order["server"], "announce_to": announcements}).encode())
    return server


def watch(server: subprocess.Popen[bytes], stopping: threading.Event) -> None:
    """Return when the server has ended, or when nobody is left to serve."""
    parent = os.getppid()
    while server.poll() is None and not stopping.is_set() and os.getppid() == parent:
        ready, _, _ = select.select([0], [], [], POLL_SECONDS)
        if ready:
            if not os.read(0, 4096):
                # Nobody said goodbye: what was changed last is still on its way to disk.
                stopping.wait(AUTOSAVE_SECONDS)
            return


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server, gently at first, then everything it started."""
    below = descendants(os.getpid())
    if server.poll() is None:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(GRACE_SECONDS)
    deadline = time.monotonic() + GRACE_SECONDS
    while left := (descendants(os.getpid()) | (below & parents().keys())):
        end_all(left, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)


def main() -> None:
    stopping = threading.Event()
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda _signum, _frame: stopping.set())
    adopt_orphans()
    order = json.loads(sys.stdin.buffer.readline())
    server = start_server(order)
    try:
        watch(server, stopping)
    finally:
        stop(server)
        shutil.rmtree(order["private"], ignore_errors=True)


if __name__ == "__main__":
    main()
