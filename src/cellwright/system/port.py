"""The port to the operating system."""

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
    """Arguments of `subprocess.Popen` for a child that our terminal's Ctrl-C does not reach."""

    start_new_session: bool
    creationflags: int


class Beneath(ABC):
    """What is below a folder, opened name by name and never through a link. Paths are relative, with `/` between names.

    If somebody replaces a folder by a link meanwhile, opening fails and nothing outside is read. OSError if something cannot be opened.
    """

    @abstractmethod
    def open_file(self, relative: str) -> int:
        """A descriptor for reading. Opening a pipe does not wait for its other end."""

    @abstractmethod
    def folder(self, relative: str) -> AbstractContextManager[int | str]:
        """A folder (`""` is the top) in the form that `os.scandir` takes."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Machine(ABC):
    """One operating system."""

    # Ownership of files. On Windows a file in the user's profile is protected by the access rights that it inherits from there,
    # and modes mean nothing: every file counts as ours and private.

    @abstractmethod
    def is_own(self, status: os.stat_result) -> bool:
        """Whether the file belongs to the user who runs this program."""

    @abstractmethod
    def open_to_others(self, status: os.stat_result) -> bool:
        """Whether anybody else has any access to the file."""

    @abstractmethod
    def others_may_write(self, status: os.stat_result) -> bool: ...

    @abstractmethod
    def may_write(self, status: os.stat_result) -> bool:
        """Whether we may write the file, judged by its mode: asking the system for each of many files takes longer."""

    @abstractmethod
    def keep_private(self, path: Path) -> None:
        """Make a file or folder inaccessible to other users."""

    @abstractmethod
    def take_after(self, path: Path, status: os.stat_result) -> None:
        """Give a file the mode of another one, and its owner if we may."""

    # Durable files and shared files.

    @abstractmethod
    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder survive a power cut."""

    @abstractmethod
    def replace(self, draft: Path, file: Path) -> None:
        """Rename a finished draft to `file`, replacing what is there. OSError if that fails."""

    @abstractmethod
    def name_anew(self, draft: Path, file: Path) -> bool:
        """Rename a finished draft to `file`. False, and nothing changes, if there is such a file."""

    @abstractmethod
    def exchange(self, first: Path, second: Path) -> bool:
        """Swap two existing files in one step. False if the system or the file system cannot do that."""

    @abstractmethod
    def lock(self, folder: Path, seconds: float) -> AbstractContextManager[None]:
        """Hold a lock of the folder between processes. TimeoutError if another process holds it for longer than `seconds`.

        The system releases it when a process dies.
        """

    @abstractmethod
    def file_system(self, folder: Path) -> str:
        """The type of the folder's file system, such as `nfs4`; `network` if only that is known; empty if nothing is known."""

    @abstractmethod
    def open_plain(self, path: str) -> int:
        """A descriptor for reading a file that is not itself a link. OSError for a link. Opening a pipe does not wait."""

    @abstractmethod
    def beneath(self, root: str) -> Beneath:
        """What is below this folder, which itself may be a link."""

    @abstractmethod
    def read_into(self, descriptor: int, room: memoryview) -> int:
        """Read into the buffer. Returns how many bytes were read."""

    # Processes.

    @property
    @abstractmethod
    def apart(self) -> Apart:
        """Arguments for a child that Ctrl-C at our terminal must not reach."""

    @abstractmethod
    def is_alive(self, pid: int) -> bool:
        """Whether there is such a process."""

    @abstractmethod
    def parent_watch(self) -> Callable[[], bool]:
        """A function that says whether the process that started us still runs."""

    @abstractmethod
    def hold_descendants(self) -> bool:
        """Keep all descendants reachable from now on, also those whose parent has died, so that we can end them.

        False if the system cannot do that; then orphans are only found if they were seen before their parent died.
        """

    # Requests to stop.

    @abstractmethod
    def on_stop(self, callback: Callable[[], None], loop: "asyncio.AbstractEventLoop | None" = None) -> None:
        """Call back when a person or the system wants this program to end; on the event loop, if there is one."""

    @abstractmethod
    def prepare_listening(self, bound: "socket.socket") -> None:
        """Set options before a socket is bound: nobody else can share the port, and it is free again as soon as we have ended."""

    # Limits of a process that reads foreign content, and of a background thread.

    @abstractmethod
    def confine(self, memory_bytes: int) -> None:
        """Lower the priority of this process and limit its memory, for the rest of its life."""

    @abstractmethod
    def sealed(self, seconds: float) -> AbstractContextManager[None]:
        """Inside the context this process cannot open files, and the system ends it after that time, even if it hangs.

        On Windows native code could still open files, and processor time counts.
        """

    @abstractmethod
    def is_time_up(self, status: int) -> bool:
        """Whether a process with this exit status was ended by `sealed`."""

    @abstractmethod
    def room_for_files(self, count: int) -> int:
        """Ask the system to let this process open `count` files and sockets. Returns how many it may open, at most `count`."""

    @abstractmethod
    def give_memory_back(self) -> None:
        """Make the allocator return freed memory to the system instead of keeping it.

        Called before threads are started. The user's own settings for the allocator are kept.
        """

    @abstractmethod
    def give_gaps_back(self) -> None:
        """Return freed memory that lies between what is still used, which the allocator does not do by itself.

        It takes a few milliseconds. The user's own settings for the allocator are kept.
        """

    @abstractmethod
    def step_back(self) -> None:
        """Give the calling thread a lower priority than all other threads of this process."""


def wait_for(attempt: Callable[[], bool], seconds: float) -> None:
    """Repeat the attempt until it succeeds. TimeoutError if it does not in time."""
    end = time.monotonic() + seconds
    while not attempt():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(LOCK_LOOK_SECONDS)
