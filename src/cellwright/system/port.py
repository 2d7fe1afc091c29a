"""What cellwright asks of an operating system."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypedDict

if TYPE_CHECKING:
    import asyncio
    import socket

LOCK_LOOK_SECONDS = 0.01


class Apart(TypedDict, total=False):
    """Arguments for starting a child."""

    start_new_session: bool
    creationflags: int


class Beneath(ABC):
    """What lies below a folder, opened name by name and never through a link. Paths are relative, `/` between names.

    Whoever swaps a folder for a link to somewhere else meanwhile makes it vanish, no more. OSError for what cannot be opened.
    """

    @abstractmethod
    def open_file(self, relative: str) -> int:
        """A descriptor for reading. A pipe is opened without waiting for its other end."""

    @abstractmethod
    def folder(self, relative: str) -> AbstractContextManager[int | str]:
        """A folder (`""` is the one at the top) as `os.scandir` takes it."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Machine(ABC):
    """One operating system."""

    # Whose files these are. On Windows a file in the user's profile is protected by the list of rights that it inherits from
    # there, and modes say nothing: there everything counts as ours and private.

    @abstractmethod
    def is_own(self, status: os.stat_result) -> bool:
        """Whether the file belongs to the user who runs this program."""

    @abstractmethod
    def open_to_others(self, status: os.stat_result) -> bool:
        """Whether anybody else may do anything with the file."""

    @abstractmethod
    def others_may_write(self, status: os.stat_result) -> bool: ...

    @abstractmethod
    def may_write(self, status: os.stat_result) -> bool:
        """Whether we may write the file, by its mode alone: asking the system for each of many files takes longer."""

    @abstractmethod
    def keep_private(self, path: Path) -> None:
        """Close a file or folder to everybody else."""

    @abstractmethod
    def take_after(self, path: Path, status: os.stat_result) -> None:
        """Give a file the owner, as far as we may, and the mode that another one has."""

    # Files that last, and files that are shared.

    @abstractmethod
    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder survive a power cut."""

    @abstractmethod
    def replace(self, draft: Path, file: Path) -> None:
        """Give a finished draft the name of a file, in the place of what has that name. OSError if that cannot be."""

    @abstractmethod
    def name_anew(self, draft: Path, file: Path) -> bool:
        """Give a finished draft a name that nobody has; False if somebody has it, who keeps it."""

    @abstractmethod
    def exchange(self, one: Path, other: Path) -> bool:
        """Swap two files that exist, in one step. False where the system or the file system cannot."""

    @abstractmethod
    def lock(self, folder: Path, seconds: float) -> AbstractContextManager[None]:
        """Keep other processes that ask for the same lock waiting. TimeoutError if one holds it for longer than `seconds`.

        The system lets go of it when a process dies.
        """

    @abstractmethod
    def file_system(self, folder: Path) -> str:
        """The type of the file system that holds the folder, as `nfs4`; `network` if no more is known; empty if nothing is."""

    @abstractmethod
    def open_plain(self, path: str) -> int:
        """A descriptor for reading a file that is not itself a link. OSError for a link; a pipe keeps nobody waiting."""

    @abstractmethod
    def beneath(self, root: str) -> Beneath:
        """What lies below this folder, which itself may be a link."""

    @abstractmethod
    def read_into(self, descriptor: int, room: memoryview) -> int:
        """Read as far as there is room; how many bytes that were."""

    # Processes.

    @property
    @abstractmethod
    def apart(self) -> Apart:
        """Arguments for a child that a Ctrl-C at our terminal is not for."""

    @abstractmethod
    def is_alive(self, pid: int) -> bool:
        """Whether there is such a process."""

    @abstractmethod
    def parent_watch(self) -> Callable[[], bool]:
        """A question that can be asked again and again: does the process that started us still run?"""

    @abstractmethod
    def hold_descendants(self) -> bool:
        """From now on, whatever our descendants start stays ours to end, also when a parent in between has died.

        False where the system has no way to do it; then only those are found again that were seen in time.
        """

    # Being told to stop.

    @abstractmethod
    def on_stop(self, callback: Callable[[], None], loop: "asyncio.AbstractEventLoop | None" = None) -> None:
        """Call back when a person or the system wants this program to end; on the loop, if one is given."""

    @abstractmethod
    def prepare_listening(self, bound: "socket.socket") -> None:
        """Before a socket is bound: a port is ours alone, and free again as soon as we have ended."""

    # Limits of a process that looks at foreign content, and of a thread that works in the background.

    @abstractmethod
    def confine(self, memory_bytes: int) -> None:
        """For the rest of this process's life: others come first, and memory has an end."""

    @abstractmethod
    def sealed(self, seconds: float) -> AbstractContextManager[None]:
        """Meanwhile the system ends this process after that time without its help, and it can open no files.

        On Windows native code could still open files, and the time is that of the processor.
        """

    @abstractmethod
    def is_time_up(self, status: int) -> bool:
        """Whether a process that ended with this status was ended by `sealed`."""

    @abstractmethod
    def room_for_files(self, wanted: int) -> int:
        """How many files and sockets this process may have open, up to `wanted`, after asking the system for that many."""

    @abstractmethod
    def give_memory_back(self) -> None:
        """From now on, what this process frees goes back to the system, where its allocator would keep it for later.

        Asked for before threads are made. What the user has set for the allocator stays.
        """

    @abstractmethod
    def step_back(self) -> None:
        """Let all other threads of this process come before the one that calls this."""


def wait_for(attempt: Callable[[], bool], seconds: float) -> None:
    """Try until it succeeds. TimeoutError if it does not in time."""
    end = time.monotonic() + seconds
    while not attempt():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(LOCK_LOOK_SECONDS)
