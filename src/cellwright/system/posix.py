"""Linux and macOS."""

import errno
import fcntl
import os
import re
import resource
import signal
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from cellwright.system.port import Apart, Beneath, Machine, wait_for

if TYPE_CHECKING:
    import asyncio
    import socket

_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_NICENESS = 5
_BACKGROUND_NICENESS = 10
GRACE_SECONDS = 1.0
"""The alarm comes this much after the time is up, so that the waiting process, if it still exists, can end us first."""

_NO_SECOND_NAMES = frozenset((errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS))
_MOST_FILES_OF_MACOS = 10_240
"""macOS reports that there is no limit, but refuses to set none."""
_SET_CHILD_SUBREAPER = 36
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_MOUNTS = Path("/proc/self/mountinfo")
_LARGE = 256 * 1024
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_LEAN = ((_ARENA_MAX, 2), (_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, 16 * _LARGE))
"""For glibc: two arenas, separate pages for large allocations, and little free memory kept at the end of an arena."""


class PosixBeneath(Beneath):
    """Each name is opened relative to the folder above it. The folder of the last file stays open for the next one."""

    def __init__(self, root: str) -> None:
        self._root = os.open(root, _FOLDER)
        self._last: tuple[str, int] | None = None

    def open_file(self, relative: str) -> int:
        folder, _, name = relative.rpartition("/")
        if self._last is None or self._last[0] != folder:
            self._close_last()
            self._last = (folder, self._open_folder(folder))
        return os.open(name, _FILE, dir_fd=self._last[1])

    @contextmanager
    def folder(self, relative: str) -> Generator[int | str]:
        descriptor = self._open_folder(relative)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open_folder(self, relative: str) -> int:
        # Opened again instead of duplicated: two listings of a duplicated descriptor would share their position.
        folder = os.open(".", _FOLDER, dir_fd=self._root)
        for name in relative.split("/") if relative else ():
            try:
                child = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            finally:
                os.close(folder)
            folder = child
        return folder

    def _close_last(self) -> None:
        if self._last is not None:
            os.close(self._last[1])
            self._last = None

    def close(self) -> None:
        self._close_last()
        os.close(self._root)


class PosixMachine(Machine):
    def is_own(self, status: os.stat_result) -> bool:
        return status.st_uid == os.getuid()

    def open_to_others(self, status: os.stat_result) -> bool:
        return bool(status.st_mode & 0o077)

    def others_may_write(self, status: os.stat_result) -> bool:
        return bool(status.st_mode & 0o022)

    def may_write(self, status: os.stat_result) -> bool:
        user, groups = _user_and_groups()
        if user == 0:
            return True
        if status.st_uid == user:
            return bool(status.st_mode & stat.S_IWUSR)
        return bool(status.st_mode & (stat.S_IWGRP if status.st_gid in groups else stat.S_IWOTH))

    def keep_private(self, path: Path) -> None:
        path.chmod(0o700 if path.is_dir() else 0o600)

    def take_after(self, path: Path, status: os.stat_result) -> None:
        with suppress(PermissionError):
            # If we run with sudo, the file stays the user's.
            os.chown(path, status.st_uid, status.st_gid)
        path.chmod(stat.S_IMODE(status.st_mode))

    def sync_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, _FOLDER)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, draft: Path, file: Path) -> None:
        draft.replace(file)

    def name_anew(self, draft: Path, file: Path) -> bool:
        try:
            os.link(draft, file)
        except FileExistsError:
            return False
        except OSError as error:
            # Some file systems, such as those of USB sticks, have no hard links.
            if error.errno not in _NO_SECOND_NAMES:
                raise
            if file.exists():
                return False
            draft.rename(file)
        return True

    def exchange(self, first: Path, second: Path) -> bool:
        rename = _renameat2()
        if rename is None:
            return False
        if rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
            return True
        import ctypes  # noqa: PLC0415 - loaded by then

        code = ctypes.get_errno()
        if code in {errno.EINVAL, *_NO_SECOND_NAMES}:
            return False
        raise OSError(code, os.strerror(code), str(first))

    @contextmanager
    def lock(self, folder: Path, seconds: float) -> Generator[None]:
        # The folder itself is locked, so that no file is left behind. Closing it releases the lock.
        descriptor = os.open(folder, _FOLDER)

        def take() -> bool:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        try:
            wait_for(take, seconds)
            yield
        finally:
            os.close(descriptor)

    def file_system(self, folder: Path) -> str:
        if sys.platform == "linux":
            return file_system_in(folder, _MOUNTS.read_text(encoding="utf-8"))
        import psutil  # noqa: PLC0415 - takes a while to load

        return nearest_mount(folder, [(part.mountpoint, part.fstype) for part in psutil.disk_partitions(all=True)])

    def open_plain(self, path: str) -> int:
        return os.open(path, _FILE)

    def beneath(self, root: str) -> Beneath:
        return PosixBeneath(root)

    def read_into(self, descriptor: int, room: memoryview) -> int:
        return os.readv(descriptor, (room,))

    @property
    def apart(self) -> Apart:
        return {"start_new_session": True}

    def is_alive(self, pid: int) -> bool:
        if pid <= 0:
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except (PermissionError, OverflowError):
            # A process of somebody else, or a number that no process can have.
            return pid < 1 << 31
        return True

    def parent_watch(self) -> Callable[[], bool]:
        parent = os.getppid()
        return lambda: os.getppid() == parent

    def hold_descendants(self) -> bool:
        if sys.platform != "linux":
            return False
        import ctypes  # noqa: PLC0415 - not needed by most who load this

        return ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0

    def on_stop(self, callback: Callable[[], None], loop: "asyncio.AbstractEventLoop | None" = None) -> None:
        for number in _STOPPING:
            # With `nohup` the program goes on when the terminal is closed.
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            if loop is None:
                signal.signal(number, lambda _number, _frame: callback())
            else:
                loop.add_signal_handler(number, callback)

    def prepare_listening(self, bound: "socket.socket") -> None:
        import socket  # noqa: PLC0415 - loaded by then

        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

    def confine(self, memory_bytes: int) -> None:
        os.nice(_NICENESS)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # macOS has this limit, but refuses to set it below what is already mapped.
        if sys.platform == "linux":
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))

    @contextmanager
    def sealed(self, seconds: float) -> Generator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The default action of the alarm does not need the interpreter, so it also ends a parser that never returns.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + GRACE_SECONDS)
        # The limit does not affect descriptors that are already open, such as our pipes.
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            yield
        finally:
            _restore_file_limit(soft, hard)
            signal.setitimer(signal.ITIMER_REAL, 0)

    def is_time_up(self, status: int) -> bool:
        return status == -signal.SIGALRM

    def room_for_files(self, count: int) -> int:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY or soft >= count:
            return count
        room = count if hard == resource.RLIM_INFINITY else min(count, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (room, hard))
        except (ValueError, OSError):
            return soft
        return room

    def give_memory_back(self) -> None:
        set_allocator = _of_allocator("mallopt", "c_int", "c_int")
        if set_allocator is None:
            return
        # By default it has an arena for every few threads and keeps freed blocks of up to 32 MB in them: after a few large requests
        # hundreds of megabytes stayed unused.
        for parameter, value in _LEAN:
            set_allocator(parameter, value)

    def give_gaps_back(self) -> None:
        if (trim := _of_allocator("malloc_trim", "c_size_t")) is not None:
            trim(0)

    def step_back(self) -> None:
        # Only Linux has priorities of single threads.
        if sys.platform == "linux":
            import threading  # noqa: PLC0415

            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _BACKGROUND_NICENESS)


def _restore_file_limit(soft: int, hard: int) -> None:
    if sys.platform == "darwin" and soft == resource.RLIM_INFINITY:
        soft = _MOST_FILES_OF_MACOS
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def file_system_in(folder: Path, mounts: str) -> str:
    """The type of the folder's file system, given the text of Linux's `mountinfo`."""
    mount_points: list[tuple[str, str]] = []
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        _, _, _, _, mounted, *_ = [*before.split(" "), "", "", "", "", ""]
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), mounted)
        mount_points.append((point, after.split(" ")[0]))
    return nearest_mount(folder, mount_points)


def nearest_mount(folder: Path, mounts: list[tuple[str, str]]) -> str:
    """The type of the nearest mount above the folder. Among equal mount points the last one wins, because it hides the others."""
    best = ("", -1)
    for point, kind in mounts:
        depth = len(PurePosixPath(point).parts)
        if PurePosixPath(folder).is_relative_to(point) and depth >= best[1]:
            best = (kind, depth)
    return best[0]


@cache
def _user_and_groups() -> tuple[int, frozenset[int]]:
    return os.geteuid(), frozenset(os.getgroups())


@cache
def _of_allocator(name: str, *takes: str) -> Any:  # noqa: ANN401 - a function of the C library
    """A function of glibc's allocator, with the types of what it takes; None for other allocators, and if the user has set this one."""
    if sys.platform != "linux" or any(variable.startswith("MALLOC_") for variable in os.environ):
        return None
    import ctypes  # noqa: PLC0415 - not needed by most who load this

    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function.argtypes = [getattr(ctypes, one) for one in takes]
        function.restype = ctypes.c_int
    return function


@cache
def _renameat2() -> Any:  # noqa: ANN401 - a function of the C library
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415 - not needed by most who load this

    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
        function.restype = ctypes.c_int
    return function
