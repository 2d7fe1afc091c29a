"""Opens files of the project, and nothing outside of its root, step by step so that nothing can be swapped in between.

`..`, absolute paths, NUL and disguises of them are refused as text. Links are resolved and must stay inside. Then every folder on the
way is opened without following links, so that a link that is put there a moment later leads nowhere.
"""

import errno
import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cellwright.context.model import Unreadable
from cellwright.core.errors import InvalidArgument, NotFound
from cellwright.core.text.names import can_be_given, is_disguised, on_one_line
from cellwright.system import machine
from cellwright.system.port import Beneath
from cellwright.system.reach import BY_NAME, Reach

MAX_PATH = 4_000
_DRIVE = re.compile(r"[A-Za-z]:")


def checked(text: str) -> str:
    """A valid path: relative, with `/` between names. InvalidArgument for any other."""
    path = text.removeprefix("./")
    names = path.split("/")
    bad = len(path) > MAX_PATH or "\\" in path or not can_be_given(path) or _DRIVE.match(path) is not None
    if bad or any(is_disguised(name) or name != name.rstrip(". ") for name in names):
        raise InvalidArgument(
            f"{text[:80]!a} is not a path in the project", hint="paths are relative to the project, as src/app/main.py"
        )
    return path


@dataclass(frozen=True, slots=True)
class Opened:
    """An open regular file of the project."""

    path: str
    """Relative to the root, links resolved."""
    descriptor: int
    size: int


@dataclass(frozen=True, slots=True)
class Root:
    """The folder of the project, and what may be read in it."""

    folder: Path
    reach: Reach = BY_NAME

    def resolve(self, text: str) -> str:
        """The path with links resolved. NotFound if nothing is there, InvalidArgument if it leads out of the project."""
        path = checked(text)
        real_root = os.path.realpath(self.folder)
        try:
            real = os.path.realpath(os.path.join(real_root, path))  # noqa: PTH118 - compared as text below
        except OSError as error:
            # A link was removed a moment ago.
            raise _refusal(text, error) from error
        if not Path(real).is_relative_to(real_root) or Path(real) == Path(real_root):
            raise InvalidArgument(
                f"{text[:80]!a} is not a path in the project", hint="it is a link that leads out of the project"
            )
        relative = os.path.relpath(real, real_root).replace(os.sep, "/")
        if not can_be_given(relative):
            raise Unreadable(
                f"{_printable(text)} is a link to a file whose name cannot be given", hint="rename what it leads to"
            )
        self.reach.check(text, real, path, relative)
        return relative

    @contextmanager
    def open(self, text: str, largest: int) -> Generator[Opened]:
        """The file, open for reading. Not a folder, a pipe or a device, and not larger than `largest`."""
        relative = self.resolve(text)
        try:
            descriptor = open_below(os.path.realpath(self.folder), relative)
        except OSError as error:
            raise _refusal(text, error) from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable(
                    f"{_printable(text)} is not a file", hint="context_search and grep_codebase find files"
                )
            if status.st_size > largest:
                raise Unreadable(
                    f"{_printable(text)} has {status.st_size:,} bytes, more than {largest:,}",
                    hint="grep_codebase looks into it",
                )
            yield Opened(relative, descriptor, status.st_size)
        finally:
            os.close(descriptor)


def open_below(root: str, relative: str) -> int:
    """Open a file below the root, following no link on the way."""
    with machine.beneath(root) as folder:
        return folder.open_file(relative)


class ManyFiles:
    """Reads many files below a root, as safely as `open_below`."""

    def __init__(self, root: str, reach: Reach = BY_NAME) -> None:
        self._root = root
        self._reach = reach
        self._below: Beneath | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._below is not None:
            self._below.close()
            self._below = None

    def read_into(self, buffer: memoryview, folder: str, name: str) -> int:
        """Read the beginning of a file into the buffer. Returns how many bytes were read; -1 if the file cannot be read."""
        try:
            if self._below is None:
                self._below = machine.beneath(self._root)
            descriptor = self._below.open_file(f"{folder}/{name}" if folder else name)
        except OSError:
            return -1
        try:
            if self._reach.is_private_file(os.fstat(descriptor)):
                return -1
            return machine.read_into(descriptor, buffer)
        except OSError:
            return -1
        finally:
            os.close(descriptor)


_PICTURES = re.compile(r"[\u2400-\u2426]")


def _printable(path: str) -> str:
    return on_one_line(path[:200])


def _refusal(text: str, error: OSError) -> NotFound | Unreadable:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        hint = "grep_codebase and context_search find files"
        if _PICTURES.search(text):
            hint = "a picture such as \u240a stands for a line break in the name: give the name as it is in `path` of a result"
        return NotFound(f"no file {_printable(text)} in the project", hint=hint)
    return Unreadable(f"{_printable(text)} cannot be read: {error.strerror}", hint="check its permissions")
