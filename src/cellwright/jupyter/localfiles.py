"""Listing a Jupyter server's files straight from the disk, when its root is on this machine."""

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

from cellwright.core.errors import LimitReached, NotFound
from cellwright.jupyter.model import FileInfo, FileKind, Found
from cellwright.jupyter.paths import DocPath

_USER = os.geteuid() if hasattr(os, "geteuid") else 0
_GROUPS = frozenset(os.getgroups()) if hasattr(os, "getgroups") else frozenset[int]()


def is_root(place: Path, told: datetime) -> bool:
    """Whether `place` is the folder that a server has as its root, which it says was last changed at `told`.

    Two folders do not share that to the microsecond.
    """
    try:
        return _moment(place.stat().st_mtime) == told
    except OSError:
        return False


def leads_outside(root: Path, folder: DocPath | None) -> bool:
    """Whether a link takes `folder` out of the root. Then only the server may say what is there."""
    return folder is not None and not (root / folder.text).resolve().is_relative_to(root.resolve())


def walk_local(root: Path, folder: DocPath | None, suffix: str, at_most: int) -> list[Found]:
    """Files below `folder` whose names end with `suffix`, by path; with an empty suffix all, and folders too."""
    start = root / folder.text if folder else root
    if not start.is_dir():
        raise NotFound(f"no folder {folder} on the Jupyter server")
    found: list[Found] = []
    pending = [(str(start), f"{folder}/" if folder else "")]
    while pending:
        place, prefix = pending.pop()
        folders = _look(place, prefix, suffix, found)
        pending += [(f"{place}/{name}", f"{prefix}{name}/") for name in folders]
        if not suffix:
            found += [Found(prefix + name, FileKind.DIRECTORY) for name in folders]
        if len(found) > at_most:
            raise LimitReached(f"more than {at_most} files below {folder or '/'}", hint="List a folder further down")
    found.sort()
    return found


def _look(place: str, prefix: str, suffix: str, found: list[Found]) -> list[str]:
    """Add the files of one folder to `found`; the names of its folders. Hidden ones, pipes and linked folders are left out."""
    folders: list[str] = []
    notebook, file = FileKind.NOTEBOOK, FileKind.FILE
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                name = entry.name
                if name[0] == ".":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif name.endswith(suffix) and entry.is_file():
                    found.append(Found(prefix + name, notebook if name.endswith(".ipynb") else file))
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        # It went, or the server cannot read it either: it would list nothing there.
        return folders
    return folders


def describe_local(root: Path, found: Found) -> FileInfo | None:
    """What the server would say of the file; None if it is gone by now."""
    try:
        status = (root / found.path).lstat()
    except OSError:
        return None
    return FileInfo(
        path=found.path,
        kind=found.kind,
        created=_moment(status.st_ctime),
        last_modified=_moment(status.st_mtime),
        size=status.st_size if found.kind is not FileKind.DIRECTORY else None,
        writable=_writable(status),
    )


def _writable(status: os.stat_result) -> bool:
    """From the mode alone: asking the system for each of many files takes longer than all the rest."""
    if _USER == 0:
        return True
    if status.st_uid == _USER:
        return bool(status.st_mode & stat.S_IWUSR)
    return bool(status.st_mode & (stat.S_IWGRP if status.st_gid in _GROUPS else stat.S_IWOTH))


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
