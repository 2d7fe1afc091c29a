"""Windows.

Private files are those in the user's profile (`%LOCALAPPDATA%`): the access rights that they inherit from it allow the user, the
system and its administrators, and nobody else. Modes mean nothing here, so they are neither set nor read.
"""

import errno
import ntpath
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from cellwright.system.port import Apart, Beneath, Machine, wait_for

if TYPE_CHECKING:
    import asyncio
    import socket

    from cellwright.system.windows_api import WindowsApi

LOCK_FILE = ".lock"
GRACE_SECONDS = 1.0
REPLACE_SECONDS = 2.0
_NEW_PROCESS_GROUP = 0x200
_NO_WINDOW = 0x0800_0000
_READ_ONLY_MODE = 0o200
_OUT_OF_QUOTA = 1816
"""The exit status of a process whose job has used up its time."""

_BINARY: int = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
_PREFIXES = (("\\\\?\\UNC\\", "\\\\"), ("\\\\?\\", ""))


class WindowsBeneath(Beneath):
    """A file cannot be opened relative to a folder here: it is opened by its path, and then its real path must be the same."""

    def __init__(self, root: str, api: "WindowsApi") -> None:
        self._root = os.path.realpath(root)
        self._api = api

    def open_file(self, relative: str) -> int:
        return open_in_place(self._path(relative), self._api)

    @contextmanager
    def folder(self, relative: str) -> Generator[int | str]:
        path = self._path(relative)
        if not _same_path(os.path.realpath(path), path):
            raise _link_error(path)
        yield path

    def _path(self, relative: str) -> str:
        return os.path.join(self._root, *relative.split("/")) if relative else self._root  # noqa: PTH118 - compared as text

    def close(self) -> None:
        return None


class WindowsMachine(Machine):
    def __init__(self, api: "WindowsApi | None" = None) -> None:
        self._custom_api = api
        self._job = 0
        self._memory_bytes: int | None = None

    @cached_property
    def _api(self) -> "WindowsApi":
        if self._custom_api is not None:
            return self._custom_api
        from cellwright.system.windows_api import WindowsApi  # noqa: PLC0415 - most commands need none of it

        return WindowsApi()

    def is_own(self, status: os.stat_result) -> bool:
        del status
        return True

    def open_to_others(self, status: os.stat_result) -> bool:
        del status
        return False

    def others_may_write(self, status: os.stat_result) -> bool:
        del status
        return False

    def may_write(self, status: os.stat_result) -> bool:
        return bool(status.st_mode & _READ_ONLY_MODE)

    def keep_private(self, path: Path) -> None:
        del path

    def take_after(self, path: Path, status: os.stat_result) -> None:
        path.chmod(status.st_mode)

    def sync_folder(self, folder: Path) -> None:
        # A folder cannot be flushed here; NTFS keeps a journal of names.
        del folder

    def replace(self, draft: Path, file: Path) -> None:
        refusals: list[PermissionError] = []

        def attempt() -> bool:
            try:
                self._api.replace(draft, file)
            except PermissionError as error:
                refusals.append(error)
                return False
            return True

        # A file that another program, such as a virus scanner, has open cannot be replaced. That mostly takes only a moment.
        try:
            wait_for(attempt, REPLACE_SECONDS)
        except TimeoutError:
            raise refusals[-1] from None

    def name_anew(self, draft: Path, file: Path) -> bool:
        try:
            self._api.rename(draft, file)
        except FileExistsError:
            return False
        return True

    def exchange(self, first: Path, second: Path) -> bool:
        del first, second
        return False

    @contextmanager
    def lock(self, folder: Path, seconds: float) -> Generator[None]:
        # A folder cannot be locked here, so a file in it is. It is never deleted, because others may wait for its lock.
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | _BINARY, 0o600)
        try:
            wait_for(lambda: self._api.lock_first_byte(descriptor), seconds)
            yield
        finally:
            os.close(descriptor)

    def file_system(self, folder: Path) -> str:
        drive = ntpath.splitdrive(_without_prefix(str(folder)))[0]
        if drive.startswith("\\\\"):
            return "network"
        return "network" if drive and self._api.is_network_drive(f"{drive}\\") else ""

    def open_plain(self, path: str) -> int:
        folder, name = os.path.split(path)
        return open_in_place(os.path.join(os.path.realpath(folder), name), self._api)  # noqa: PTH118 - compared as text

    def beneath(self, root: str) -> Beneath:
        return WindowsBeneath(root, self._api)

    def read_into(self, descriptor: int, room: memoryview) -> int:
        data = os.read(descriptor, len(room))
        room[: len(data)] = data
        return len(data)

    @property
    def apart(self) -> Apart:
        return {"creationflags": _NEW_PROCESS_GROUP | _NO_WINDOW}

    def is_alive(self, pid: int) -> bool:
        import psutil  # noqa: PLC0415 - takes a while to load

        return pid > 0 and psutil.pid_exists(pid)

    def parent_watch(self) -> Callable[[], bool]:
        import psutil  # noqa: PLC0415 - takes a while to load

        # The parent's pid never changes, and may belong to another process later. psutil also compares the start time.
        try:
            return psutil.Process(os.getppid()).is_running
        except psutil.NoSuchProcess:
            return lambda: False

    def hold_descendants(self) -> bool:
        self._join_job()
        return True

    def _join_job(self) -> None:
        """Put this process into a job of its own. We have its only handle, so all its processes end when we do."""
        if not self._job:
            self._job = self._api.new_job()
            self._api.limit_job(self._job)
            self._api.join_job(self._job)

    def on_stop(self, callback: Callable[[], None], loop: "asyncio.AbstractEventLoop | None" = None) -> None:
        def stop(_number: int, _frame: object) -> None:
            if loop is None:
                callback()
            else:
                loop.call_soon_threadsafe(callback)

        for name in ("SIGTERM", "SIGINT", "SIGBREAK"):
            number = getattr(signal, name, None)
            if number is not None:
                signal.signal(number, stop)

    def prepare_listening(self, bound: "socket.socket") -> None:
        import socket  # noqa: PLC0415 - loaded by then

        # With SO_REUSEADDR any other program could take over the port; it is free at once after our end even without that.
        bound.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_EXCLUSIVEADDRUSE", -5), 1)

    def confine(self, memory_bytes: int) -> None:
        self._join_job()
        self._memory_bytes = memory_bytes
        self._limit(None)

    @contextmanager
    def sealed(self, seconds: float) -> Generator[None]:
        # The limit counts from the start of the process.
        self._limit(os.times().user + seconds + GRACE_SECONDS)
        try:
            yield
        finally:
            self._limit(None)

    def _limit(self, seconds: float | None) -> None:
        if self._job:
            self._api.limit_job(self._job, seconds=seconds, memory_bytes=self._memory_bytes, low_priority=True)

    def is_time_up(self, status: int) -> bool:
        return status == _OUT_OF_QUOTA

    def room_for_files(self, count: int) -> int:
        # Sockets are handles here, of which a process may have sixteen million.
        return count

    def give_memory_back(self) -> None:
        """Nothing to do: the heap of Windows does that by itself."""

    def give_gaps_back(self) -> None:
        """Nothing to do here either."""

    def step_back(self) -> None:
        self._api.lower_thread_priority()


def open_in_place(path: str, api: "WindowsApi") -> int:
    """Open a file for reading. ELOOP if a link led to another file than the path says."""
    descriptor = os.open(path, os.O_RDONLY | _BINARY)
    try:
        if not _same_path(_without_prefix(api.final_path(descriptor)), path):
            raise _link_error(path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _without_prefix(path: str) -> str:
    """The path without the prefix that the system adds to lift limits of paths."""
    for prefix, plain in _PREFIXES:
        if path.startswith(prefix):
            return plain + path.removeprefix(prefix)
    return path


def _same_path(path: str, other: str) -> bool:
    return os.path.normcase(path) == os.path.normcase(other)


def _link_error(path: str) -> OSError:
    return OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
