"""Programs that use an embedded server which another one started. Each holds a lock as long as it is there, and the server stays for it.

A lock, because the system releases it when a program is killed. The server's guardian withdraws the server before it looks for
locks, and a program looks whether the server is withdrawn after it has taken its lock: so one of them always sees the other.
"""

import contextlib
import shutil
import tempfile
from pathlib import Path

from cellwright.system import machine


def runtime_file(runtime: Path, pid: int) -> Path:
    """The file by which a server is found."""
    return runtime / f"jpserver-{pid}.json"


def users_folder(runtime: Path, pid: int) -> Path:
    """The folder in which the users of an embedded server have a folder each, which they lock."""
    return runtime / f"cellwright-users-{pid}"


def open_for_others(runtime: Path, pid: int) -> Path:
    """Let other programs use our embedded server."""
    folder = users_folder(runtime, pid)
    with contextlib.suppress(OSError):
        # Without it the server is used as one that somebody else has started: it ends with its owner.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def is_used(folder: Path) -> bool:
    """Whether another program is there."""
    try:
        users = list(folder.iterdir())
    except FileNotFoundError:
        return False
    return any(map(_is_locked, users))


def _is_locked(folder: Path) -> bool:
    try:
        with machine.lock(folder, 0):
            return False
    except TimeoutError:
        return True
    except FileNotFoundError:
        return False


class ServerUse:
    """Our use of another program's embedded server, until `close` or the end of this process."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError if the server is not, or no longer, open for others."""
        self._folder = Path(tempfile.mkdtemp(dir=folder))
        self._lock = contextlib.ExitStack()
        self._lock.enter_context(machine.lock(self._folder, 1))

    def close(self) -> None:
        self._lock.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def share(runtime: Path, pid: int) -> ServerUse | None:
    """Use a server for as long as we are there. None if it is not another program's embedded one."""
    try:
        return ServerUse(users_folder(runtime, pid))
    except (OSError, TimeoutError):
        return None
