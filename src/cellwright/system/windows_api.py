"""Functions of Windows that Python does not have. `windows.py` says what they are used for."""

import ctypes
import importlib
from pathlib import Path
from typing import Any

_EXTENDED_LIMITS = 9
_LIMIT_PROCESS_TIME = 0x2
_LIMIT_PRIORITY_CLASS = 0x20
_LIMIT_PROCESS_MEMORY = 0x100
_LIMIT_KILL_ON_CLOSE = 0x2000
_BELOW_NORMAL_PRIORITY = 0x4000
_THREAD_BELOW_NORMAL = -1
_TICKS_A_SECOND = 10_000_000
_LONGEST_PATH = 32_768
_LOCK_WITHOUT_WAITING = 2
_DRIVE_REMOTE = 4


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("process_time", ctypes.c_int64),
        ("job_time", ctypes.c_int64),
        ("flags", ctypes.c_uint32),
        ("least_working_set", ctypes.c_size_t),
        ("most_working_set", ctypes.c_size_t),
        ("active_processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority_class", ctypes.c_uint32),
        ("scheduling_class", ctypes.c_uint32),
    )


class _ExtendedLimits(ctypes.Structure):
    _fields_ = (
        ("basic", _BasicLimits),
        ("counters", ctypes.c_uint64 * 6),
        ("process_memory", ctypes.c_size_t),
        ("job_memory", ctypes.c_size_t),
        ("peak_process_memory", ctypes.c_size_t),
        ("peak_job_memory", ctypes.c_size_t),
    )


class WindowsApi:
    """Handles are numbers. OSError if a call fails."""

    def __init__(self) -> None:
        # Looked up by name, because type checkers on other systems know neither.
        self._kernel: Any = vars(ctypes)["WinDLL"]("kernel32", use_last_error=True)
        self._msvcrt: Any = importlib.import_module("msvcrt")
        self._kernel.CreateJobObjectW.restype = ctypes.c_void_p
        self._kernel.GetCurrentProcess.restype = ctypes.c_void_p
        self._kernel.GetCurrentThread.restype = ctypes.c_void_p

    def _checked(self, result: int) -> int:
        if not result:
            raise vars(ctypes)["WinError"](vars(ctypes)["get_last_error"]())
        return result

    def new_job(self) -> int:
        """Create a job, a group of processes. Their children belong to it too, and all end when its last handle is closed."""
        return self._checked(self._kernel.CreateJobObjectW(None, None))

    def limit_job(
        self, job: int, *, seconds: float | None = None, memory_bytes: int | None = None, low_priority: bool = False
    ) -> None:
        """Set all limits of a job. `seconds` is processor time, for each of its processes."""
        limits = _ExtendedLimits()
        flags = _LIMIT_KILL_ON_CLOSE
        if seconds is not None:
            flags |= _LIMIT_PROCESS_TIME
            limits.basic.process_time = int(seconds * _TICKS_A_SECOND)
        if memory_bytes is not None:
            flags |= _LIMIT_PROCESS_MEMORY
            limits.process_memory = memory_bytes
        if low_priority:
            flags |= _LIMIT_PRIORITY_CLASS
            limits.basic.priority_class = _BELOW_NORMAL_PRIORITY
        limits.basic.flags = flags
        self._checked(
            self._kernel.SetInformationJobObject(
                ctypes.c_void_p(job), _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
            )
        )

    def join_job(self, job: int) -> None:
        """Put this process into a job, for good."""
        process = ctypes.c_void_p(self._kernel.GetCurrentProcess())
        self._checked(self._kernel.AssignProcessToJobObject(ctypes.c_void_p(job), process))

    def final_path(self, descriptor: int) -> str:
        """The real path of an open file, with all links resolved."""
        text = ctypes.create_unicode_buffer(_LONGEST_PATH)
        handle = ctypes.c_void_p(self._msvcrt.get_osfhandle(descriptor))
        self._checked(self._kernel.GetFinalPathNameByHandleW(handle, text, _LONGEST_PATH, 0))
        return text.value

    def replace(self, draft: Path, file: Path) -> None:
        """PermissionError while any program has one of the two open."""
        draft.replace(file)

    def rename(self, draft: Path, file: Path) -> None:
        """FileExistsError if there is such a file."""
        draft.rename(file)

    def is_network_drive(self, drive: str) -> bool:
        """Whether a drive, such as `Z:\\`, is on another machine."""
        return self._kernel.GetDriveTypeW(ctypes.c_wchar_p(drive)) == _DRIVE_REMOTE

    def lock_first_byte(self, descriptor: int) -> bool:
        """Lock a file until its descriptor is closed. False if another process has locked it."""
        try:
            self._msvcrt.locking(descriptor, _LOCK_WITHOUT_WAITING, 1)
        except OSError:
            return False
        return True

    def lower_thread_priority(self) -> None:
        self._kernel.SetThreadPriority(ctypes.c_void_p(self._kernel.GetCurrentThread()), _THREAD_BELOW_NORMAL)
