"""What Windows would answer, given by what this system has: real locks, real places of files, limits as they were set."""

import errno
import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cellwright.system.windows_api import WindowsApi


@dataclass(frozen=True)
class Limits:
    """The limits of a job, as they were last set."""

    seconds: float | None = None
    memory_bytes: int | None = None
    low_priority: bool = False


@dataclass
class FakeWindows(WindowsApi):
    """Stands for the calls of Windows."""

    joined: list[int] = field(default_factory=list[int])
    limits: list[Limits] = field(default_factory=list[Limits])
    network: frozenset[str] = frozenset({"Z:\\"})
    jobs: int = 0
    refusals: int = 0
    on_refusal: Callable[[], None] = lambda: None

    def new_job(self) -> int:
        self.jobs += 1
        return self.jobs

    def limit_job(
        self, job: int, *, seconds: float | None = None, memory_bytes: int | None = None, low_priority: bool = False
    ) -> None:
        assert job == self.jobs
        self.limits.append(Limits(seconds, memory_bytes, low_priority))

    def join_job(self, job: int) -> None:
        self.joined.append(job)

    def final_path(self, descriptor: int) -> str:
        return f"\\\\?\\{Path(f'/proc/self/fd/{descriptor}').readlink()}"

    def replace(self, draft: Path, file: Path) -> None:
        # Who has a file open there keeps it from being replaced.
        if {draft, file} & {Path(link).resolve() for link in Path("/proc/self/fd").iterdir()}:
            self.refusals += 1
            self.on_refusal()
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
        draft.replace(file)

    def rename(self, draft: Path, file: Path) -> None:
        if file.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(file))
        draft.rename(file)

    def is_network_drive(self, drive: str) -> bool:
        return drive in self.network

    def lock_first_byte(self, descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def lower_thread_priority(self) -> None:
        self.limits.append(Limits(low_priority=True))
