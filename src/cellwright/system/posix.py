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
"""How much later than the time itself the alarm comes: whoever waits for the answer ends us first, unless they are gone."""

_NO_SECOND_NAMES = frozenset((errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS))
_MOST_FILES_OF_MACOS = 10_240
"""It answers that there is no limit, and refuses to set none."""
_SET_CHILD_SUBREAPER = 36
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_MOUNTS = Path("/proc/self/mountinfo")
_LARGE = 256 * 1024
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_LEAN = ((_ARENA_MAX, 2), (_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, 16 * _LARGE))
"""For glibc: two pools, pages of their own for large pieces, and little that is kept at the end of a pool."""


class PosixBeneath(Beneath):
    """Opened from the folder above, one after the other. The folder of the last file stays open for the next."""

    def __init__(self, root: str) -> None:
        self._root = os.open(root, _FOLDER)
        self._last: tuple[str, int] | None = None

    def open_file(self, relative: str) -> int:
        folder, _, name = relative.rpartition("/")
        if self._last is None or self._last[0] != folder:
            self._forget()
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
        # Opened anew, not duplicated: two that list one description would share their place in it.
        here = os.open(".", _FOLDER, dir_fd=self._root)
        for name in relative.split("/") if relative else ():
            try:
                deeper = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=here)
            finally:
                os.close(here)
            here = deeper
        return here

    def _forget(self) -> None:
        if self._last is not None:
            os.close(self._last[1])
            self._last = None

    def close(self) -> None:
        self._forget()
        os.close(self._root)


class PosixMachine(Machine):
    def is_own(self, status: os.stat_result) -> bool:
        return status.st_uid == os.getuid()

    def open_to_others(self, status: os.stat_result) -> bool:
        return bool(status.st_mode & 0o077)

    def others_may_write(self, status: os.stat_result) -> bool:
        return bool(status.st_mode & 0o022)

    def may_write(self, status: os.stat_result) -> bool:
        user, groups = _identity()
        if user == 0:
            return True
        if status.st_uid == user:
            return bool(status.st_mode & stat.S_IWUSR)
        return bool(status.st_mode & (stat.S_IWGRP if status.st_gid in groups else stat.S_IWOTH))

    def keep_private(self, path: Path) -> None:
        path.chmod(0o700 if path.is_dir() else 0o600)

    def take_after(self, path: Path, status: os.stat_result) -> None:
        with suppress(PermissionError):
            # Run with sudo, the file stays the user's.
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
            # File systems of sticks and cards give a file one name only.
            if error.errno not in _NO_SECOND_NAMES:
                raise
            if file.exists():
                return False
            draft.rename(file)
        return True

    def exchange(self, one: Path, other: Path) -> bool:
        call = _renameat2()
        if call is None:
            return False
        if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
            return True
        import ctypes  # noqa: PLC0415 - loaded by then

        code = ctypes.get_errno()
        if code in {errno.EINVAL, *_NO_SECOND_NAMES}:
            return False
        raise OSError(code, os.strerror(code), str(one))

    @contextmanager
    def lock(self, folder: Path, seconds: float) -> Generator[None]:
        # Of the folder itself, so that no file is left behind. Closing it lets go.
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
            # Somebody else's; or a number that no process can have.
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
            # `nohup` asks us to live on when the terminal goes.
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
        # macOS knows the limit but refuses to set it below what is mapped already.
        if sys.platform == "linux":
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))

    @contextmanager
    def sealed(self, seconds: float) -> Generator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The default action of the alarm needs no interpreter, so it also ends a parser that never returns.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + GRACE_SECONDS)
        # Descriptors that are open already, our pipes, are not touched by the limit.
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            yield
        finally:
            _limit_files(soft, hard)
            signal.setitimer(signal.ITIMER_REAL, 0)

    def is_time_up(self, status: int) -> bool:
        return status == -signal.SIGALRM

    def room_for_files(self, wanted: int) -> int:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return wanted
        room = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (room, hard))
        except (ValueError, OSError):
            return soft
        return room

    def give_memory_back(self) -> None:
        set_allocator = _mallopt()
        if set_allocator is None or any(name.startswith("MALLOC_") for name in os.environ):
            return
        # By itself it makes pools for every few threads and keeps pieces of up to 32 MB in them: a few large requests in a row
        # left hundreds of megabytes that nobody had any use for.
        for what, value in _LEAN:
            set_allocator(what, value)

    def step_back(self) -> None:
        # Linux alone has priorities of single threads.
        if sys.platform == "linux":
            import threading  # noqa: PLC0415

            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _BACKGROUND_NICENESS)


def _limit_files(soft: int, hard: int) -> None:
    if sys.platform == "darwin" and soft == resource.RLIM_INFINITY:
        soft = _MOST_FILES_OF_MACOS
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def file_system_in(folder: Path, mounts: str) -> str:
    """The type of the file system that holds the folder, by what Linux tells of its mounts."""
    known: list[tuple[str, str]] = []
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        _, _, _, _, mounted, *_ = [*before.split(" "), "", "", "", "", ""]
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), mounted)
        known.append((point, after.split(" ")[0]))
    return nearest_mount(folder, known)


def nearest_mount(folder: Path, mounts: list[tuple[str, str]]) -> str:
    """The type of the mount that is nearest above the folder. The last one wins among equals: it covers the earlier."""
    best = ("", -1)
    for point, kind in mounts:
        depth = len(PurePosixPath(point).parts)
        if PurePosixPath(folder).is_relative_to(point) and depth >= best[1]:
            best = (kind, depth)
    return best[0]


@cache
def _identity() -> tuple[int, frozenset[int]]:
    return os.geteuid(), frozenset(os.getgroups())


def _mallopt() -> Any:  # noqa: ANN401 - a function of the C library
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415 - not needed by most who load this

    call = getattr(ctypes.CDLL(None), "mallopt", None)
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_int]
        call.restype = ctypes.c_int
    return call


@cache
def _renameat2() -> Any:  # noqa: ANN401 - a function of the C library
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415 - not needed by most who load this

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
        call.restype = ctypes.c_int
    return call
