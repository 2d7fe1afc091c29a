"""Rules for files, in whichever way the server is reached: nothing is overwritten unasked, nothing endless is read or listed."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from cellwright.core.errors import Conflict, InvalidArgument, LimitReached, NotFound
from cellwright.jupyter.files.on_disk import leads_outside, walk_local
from cellwright.jupyter.files.paths import DocPath, is_path
from cellwright.jupyter.model import FileInfo, FileKind, FoundFile, FoundFiles, RoomKind

MAX_LISTED = 100_000
MAX_READ_BYTES = 24 * 1024 * 1024
LARGE_BYTES = 200_000
"""More than this is not decoded on the event loop: it takes too long."""


def check_size(path: DocPath, info: FileInfo) -> int:
    """The size of the file in bytes. Raises LimitReached if that is too much to read."""
    size = info.size or 0
    if size > MAX_READ_BYTES:
        raise LimitReached(
            f"{path} has {size} bytes; at most {MAX_READ_BYTES} are read",
            hint="read it in another way, or make it smaller: clear outputs, split the file",
        )
    return size


def check_joinable(path: DocPath, info: FileInfo, kind: RoomKind) -> None:
    """Raise if the file cannot be shared as this kind of document."""
    if info.kind is FileKind.DIRECTORY:
        raise InvalidArgument(f"{path} is a folder", hint="list_documents shows what is in it")
    if (info.size or 0) > MAX_READ_BYTES:
        raise LimitReached(
            f"{path} has {info.size} bytes; at most {MAX_READ_BYTES} are opened",
            hint="make it smaller: clear its outputs in JupyterLab, or split it",
        )
    if (info.kind is FileKind.NOTEBOOK) != (kind is RoomKind.NOTEBOOK):
        raise InvalidArgument(f"{path} is a {info.kind}", hint="Use the notebook tools for .ipynb files only")


def check_unchanged(path: DocPath, now: FileInfo, expect: FileInfo) -> None:
    same = now.hash == expect.hash if expect.hash is not None else now.last_modified == expect.last_modified
    if not same:
        raise Conflict(
            f"{path} was changed on disk since it was read; nothing was written",
            hint="Read it again, then repeat the edit",
            details={"last_modified": now.last_modified.isoformat()},
        )


class Claims:
    """Locks for paths at which a file is being made. Checking that a path is free and making the file are two requests: without a
    lock, several callers at the same moment would all find it free, and the last would overwrite the others."""

    def __init__(self) -> None:
        self._paths: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, path: DocPath) -> AsyncGenerator[None]:
        """One caller at a time: the next one sees the file that this one made."""
        async with self._paths.setdefault(path.text, asyncio.Lock()):
            yield


def taken(path: DocPath) -> Conflict:
    return Conflict(f"{path} exists already", hint="Choose another path, or overwrite_document to replace it")


def taken_for_rename(path: DocPath, new_path: DocPath) -> Conflict:
    return Conflict(f"{new_path} exists already; {path} was not renamed", hint="Choose another path")


def taken_for_copy(copy_path: DocPath) -> Conflict:
    return Conflict(f"{copy_path} exists already; nothing was copied", hint="Choose another path")


def no_parent(folder: DocPath) -> NotFound:
    return NotFound(f"no folder {folder} on the Jupyter server", hint="Create the folder first")


def check_copyable(path: DocPath, info: FileInfo) -> None:
    if info.kind is FileKind.DIRECTORY:
        raise InvalidArgument(f"{path} is a folder; only files can be copied", hint="copy the files in it one by one")


def check_shown(folder: DocPath | None) -> None:
    if folder is not None and folder.is_hidden:
        raise NotFound(f"no folder {folder} on the Jupyter server", hint="Hidden folders are not shown")


def check_listed(files: Sequence[FoundFile], folder: DocPath | None) -> None:
    if len(files) > MAX_LISTED:
        raise LimitReached(f"more than {MAX_LISTED} files below {folder or '/'}", hint="List a folder further down")


def empty(kind: FileKind) -> object:
    """The content of a new file for which the caller gives none."""
    if kind is FileKind.NOTEBOOK:
        return {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return ""


def format_of(kind: FileKind) -> str:
    return "json" if kind is FileKind.NOTEBOOK else "text"


def find_here(root: Path, folder: DocPath | None, suffix: str) -> FoundFiles | None:
    """The files below a folder, read from the disk; None where only the server may list them."""
    return None if leads_outside(root, folder) else walk_local(root, folder, suffix, MAX_LISTED)


def enterable(infos: Sequence[FileInfo]) -> list[DocPath]:
    """The folders among these whose paths our tools accept: an odd name must not end the walk through all the others."""
    return [DocPath(info.path) for info in infos if info.kind is FileKind.DIRECTORY and is_path(info.path)]


def matching(infos: Sequence[FileInfo], suffix: str) -> list[FoundFile]:
    """The files that end with `suffix` (with an empty one, all files and folders) and whose paths our tools accept."""
    return [
        FoundFile(info.path, info.kind, info)
        for info in infos
        if (not suffix or (info.kind is not FileKind.DIRECTORY and info.path.endswith(suffix))) and is_path(info.path)
    ]
