"""Listing a Jupyter server's files straight from the disk, when its root is on this machine.

Folders are opened name by name from the root, and never through a link: if somebody swaps a folder for a link while it is listed,
the folder is missing from the list, and nothing worse happens.
"""

import os
import time
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import overload

from cellwright.core.errors import LimitReached, NotFound
from cellwright.jupyter.files.paths import DocPath, is_path
from cellwright.jupyter.model import MOST_FOLDERS, WALK_SECONDS, FileInfo, FileKind, FoundFile, FoundFiles
from cellwright.system import machine
from cellwright.system.port import Beneath


class Names(FoundFiles):
    """Found files of which only the paths are stored, in order: of ten thousand perhaps a hundred are shown."""

    def __init__(self, paths: list[str], folders: frozenset[str], *, complete: bool = True) -> None:
        self._paths = paths
        self._folders = folders
        self.complete = complete

    def __len__(self) -> int:
        return len(self._paths)

    @overload
    def __getitem__(self, index: int) -> FoundFile: ...
    @overload
    def __getitem__(self, index: slice) -> "Names": ...
    def __getitem__(self, index: int | slice) -> "FoundFile | Names":
        if isinstance(index, slice):
            return Names(self._paths[index], self._folders, complete=self.complete)
        path = self._paths[index]
        if path in self._folders:
            return FoundFile(path, FileKind.DIRECTORY)
        return FoundFile(path, FileKind.NOTEBOOK if path.endswith(".ipynb") else FileKind.FILE)


def is_root(folder: Path, last_modified: datetime) -> bool:
    """Whether `folder` is the root of a server, given when that root was last modified according to the server.

    No two folders share that to the microsecond.
    """
    try:
        return _moment(folder.stat().st_mtime) == last_modified
    except OSError:
        return False


def leads_outside(root: Path, folder: DocPath | None) -> bool:
    """Whether a link takes `folder` out of the root. Then only the server may say what is there."""
    return _resolved(root, folder) is None


def walk_local(root: Path, folder: DocPath | None, suffix: str, at_most: int) -> FoundFiles:
    """Files below `folder` whose names end with `suffix`, by path; with an empty suffix all files, and folders too."""
    start = _resolved(root, folder)
    prefix = f"{folder}/" if folder else ""
    paths, folders, complete = None, list[str](), True
    if start is not None:
        with _opened(root) as base:
            paths, folders, complete = _walk(base, start, suffix, at_most)
    if start is None or paths is None:
        raise NotFound(f"no folder {folder or '/'} on the Jupyter server", hint="list_documents shows what there is")
    if len(paths) > at_most:
        raise LimitReached(f"more than {at_most} files below {folder or '/'}", hint="List a folder further down")
    if prefix != start:
        paths = [prefix + path.removeprefix(start) for path in paths]
        folders = [prefix + path.removeprefix(start) for path in folders]
    # A path that our tools do not accept must not spoil the list of all the others.
    paths = [path for path in paths if is_path(path)]
    paths.sort()
    return Names(paths, frozenset(() if suffix else folders), complete=complete)


def _resolved(root: Path, folder: DocPath | None) -> str | None:
    """Where the folder is below the root, with a slash at its end, once links are followed; None if outside."""
    if folder is None:
        return ""
    try:
        base, place = root.resolve(), (root / folder.text).resolve()
    except (OSError, RuntimeError):
        # A loop of links, or one that went while it was followed.
        return None
    if not place.is_relative_to(base):
        return None
    inside = place.relative_to(base).as_posix()
    return "" if inside == "." else f"{inside}/"


def _walk(base: Beneath, start: str, suffix: str, at_most: int) -> tuple[list[str] | None, list[str], bool]:
    """Paths below `start`, which of them are folders, and whether they are complete. The paths are None if there is no such folder.

    The walk goes level by level, because on a large disk it ends before it has seen everything.
    """
    paths: list[str] = []
    folders: list[str] = []
    pending = deque([start])
    looked = 0
    end = time.monotonic() + WALK_SECONDS
    while pending and len(paths) <= at_most:
        if looked == MOST_FOLDERS or time.monotonic() > end:
            return paths, folders, False
        looked += 1
        prefix = pending.popleft()
        names = _names_in(base, prefix, suffix)
        if names is None:
            if prefix == start:
                return None, [], True
            # The folder is gone, or a link by now, or the server cannot read it either.
            continue
        file_names, folder_names = names
        file_names.sort()
        folder_names.sort()
        paths += [prefix + name for name in file_names]
        folders += [prefix + name for name in folder_names]
        pending += [f"{prefix}{name}/" for name in folder_names]
        if not suffix:
            paths += folders[len(folders) - len(folder_names) :]
    return paths, folders, True


def _names_in(base: Beneath, prefix: str, suffix: str) -> tuple[list[str], list[str]] | None:
    """Names of the files and of the folders in one folder, without hidden names, pipes and linked folders."""
    files: list[str] = []
    folders: list[str] = []
    try:
        with base.folder(prefix.rstrip("/")) as place, os.scandir(place) as entries:
            for entry in entries:
                name = entry.name
                if name[0] == ".":
                    continue
                if name.endswith(suffix) and entry.is_file():
                    files.append(name)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(name)
    except OSError:
        return None
    return files, folders


@contextmanager
def _opened(root: Path) -> Generator[Beneath]:
    try:
        base = machine.beneath(str(root))
    except OSError as error:
        raise NotFound(
            f"the Jupyter server's root folder cannot be read: {error.strerror}",
            hint="the operator looks whether it still exists and may be read",
        ) from error
    with base:
        yield base


def describe_local(root: Path, file: FoundFile) -> FileInfo | None:
    """What the server would say of the file; None if it is gone by now."""
    return next(iter(describe_all(root, [file])), None)


def describe_all(root: Path, files: Sequence[FoundFile]) -> list[FileInfo]:
    """What the server would say of these files. Files that are gone by now are left out."""
    infos: list[FileInfo] = []
    with _opened(root) as base:
        for parent, siblings in groupby(files, lambda file: file.path.rpartition("/")[0]):
            start = _resolved(root, DocPath(parent) if parent else None)
            if start is not None:
                infos += _described(base, start, list(siblings))
    return infos


def _described(base: Beneath, prefix: str, files: Sequence[FoundFile]) -> list[FileInfo]:
    infos: list[FileInfo] = []
    try:
        with base.folder(prefix.rstrip("/")) as place:
            for file in files:
                status = _status(place, file.path.rpartition("/")[2])
                if status is not None:
                    infos.append(_info(file, status))
    except OSError:
        return infos
    return infos


def _status(place: int | str, name: str) -> os.stat_result | None:
    try:
        if isinstance(place, int):
            return os.stat(name, dir_fd=place, follow_symlinks=False)
        return (Path(place) / name).lstat()
    except OSError:
        return None


def _info(file: FoundFile, status: os.stat_result) -> FileInfo:
    return FileInfo(
        path=file.path,
        kind=file.kind,
        created=_moment(status.st_ctime),
        last_modified=_moment(status.st_mtime),
        size=status.st_size if file.kind is not FileKind.DIRECTORY else None,
        writable=machine.may_write(status),
    )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
