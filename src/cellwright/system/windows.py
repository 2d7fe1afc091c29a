"""Windows.

Private files are those in the user's profile (`%LOCALAPPDATA%`): the rights that they inherit from it let in the user, the
system and its administrators, and nobody else. Modes mean nothing here, so they are neither set nor looked at.
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
"""How a process ends whose job has used up its time."""

_BINARY: int = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
_PREFIXES = (("\\\\?\\UNC\\", "\\\\"), ("\\\\?\\", ""))


class WindowsBeneath(Beneath):
    """There is no opening from a folder on: a file is opened by its path, and must then be where that path says."""

    def __init__(self, root: str, api: "WindowsApi") -> None:
        self._root = os.path.realpath(root)
        self._api = api

    def open_file(self, relative: str) -> int:
        return open_in_place(self._path(relative), self._api)

    @contextmanager
    def folder(self, relative: str) -> Generator[int | str]:
        path = self._path(relative)
        if not _same(os.path.realpath(path), path):
            raise _led_away(path)
        yield path

    def _path(self, relative: str) -> str:
        return os.path.join(self._root, *relative.split("/")) if relative else self._root  # noqa: PTH118 - compared as text

    def close(self) -> None:
        return None


class WindowsMachine(Machine):
    def __init__(self, api: "WindowsApi | None" = None) -> None:
        self._given_api = api
        self._job = 0
        self._memory_bytes: int | None = None

    @cached_property
    def _api(self) -> "WindowsApi":
        if self._given_api is not None:
            return self._given_api
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
        refused: list[PermissionError] = []

        def attempt() -> bool:
            try:
                self._api.replace(draft, file)
            except PermissionError as error:
                refused.append(error)
                return False
            return True

        # Whoever has the file open, be it to look for viruses, keeps it from being replaced, mostly for a moment.
        try:
            wait_for(attempt, REPLACE_SECONDS)
        except TimeoutError:
            raise refused[-1] from None

    def name_anew(self, draft: Path, file: Path) -> bool:
        try:
            self._api.rename(draft, file)
        except FileExistsError:
            return False
        return True

    def exchange(self, one: Path, other: Path) -> bool:
        del one, other
        return False

    @contextmanager
    def lock(self, folder: Path, seconds: float) -> Generator[None]:
        # A folder cannot be locked here, so a file in it is. It stays: who deletes it would take away a lock that others wait for.
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

        # The number of the parent stays what it was, and may be another process's later: psutil also compares when it began.
        try:
            return psutil.Process(os.getppid()).is_running
        except psutil.NoSuchProcess:
            return lambda: False

    def hold_descendants(self) -> bool:
        self._join_job()
        return True

    def _join_job(self) -> None:
        """Be in a job of our own: its only handle is ours, so all that is in it ends when we do."""
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

        # SO_REUSEADDR would let any other program take the port away from us; without it, it is free at once all the same.
        bound.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_EXCLUSIVEADDRUSE", -5), 1)

    def confine(self, memory_bytes: int) -> None:
        self._join_job()
        self._memory_bytes = memory_bytes
        self._limit(None)

    @contextmanager
    def sealed(self, seconds: float) -> Generator[None]:
        # The limit counts from the beginning of the process.
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

    def room_for_files(self, wanted: int) -> int:
        # Sockets are handles there, of which a process may have sixteen million.
        return wanted

    def give_memory_back(self) -> None:
        """The heap of Windows does."""

    def step_back(self) -> None:
        self._api.lower_thread_priority()


def open_in_place(path: str, api: "WindowsApi") -> int:
    """Open a file for reading; ELOOP if a link on the way led to another place than the path says."""
    descriptor = os.open(path, os.O_RDONLY | _BINARY)
    try:
        if not _same(_without_prefix(api.final_path(descriptor)), path):
            raise _led_away(path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _without_prefix(path: str) -> str:
    """A path as people write it: the system puts a mark in front that lifts limits."""
    for prefix, plain in _PREFIXES:
        if path.startswith(prefix):
            return plain + path.removeprefix(prefix)
    return path


def _same(path: str, other: str) -> bool:
    return os.path.normcase(path) == os.path.normcase(other)


def _led_away(path: str) -> OSError:
    return OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
