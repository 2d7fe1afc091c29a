"""Listing a Jupyter server's files straight from the disk, when its root is on this machine."""

import os
from datetime import UTC, datetime
from pathlib import Path

from cellwright.core.errors import LimitReached, NotFound
from cellwright.jupyter.model import FileInfo, FileKind
from cellwright.jupyter.paths import DocPath


def list_local(root: Path, folder: DocPath | None, told: datetime, at_most: int) -> list[FileInfo] | None:
    """All files below `folder`, by path; None if `root` is not the folder that the server has as its root.

    `told` is when the server says its root was last changed: two folders do not share that to the microsecond.
    """
    try:
        if _moment(root.stat().st_mtime) != told:
            return None
    except OSError:
        return None
    start = root / folder.text if folder else root
    if not start.is_dir():
        raise NotFound(f"no folder {folder} on the Jupyter server")
    found: list[FileInfo] = []
    pending = [(str(start), f"{folder}/" if folder else "")]
    while pending:
        place, prefix = pending.pop()
        for info in _entries(place, prefix):
            found.append(info)
            if info.kind is FileKind.DIRECTORY:
                pending.append((f"{place}/{info.name}", f"{info.path}/"))
        if len(found) > at_most:
            raise LimitReached(f"more than {at_most} files below {folder or '/'}", hint="List a folder further down")
    found.sort(key=lambda info: info.path)
    return found


def _entries(place: str, prefix: str) -> list[FileInfo]:
    """What is in one folder. Hidden files, what is neither file nor folder, and folders behind links are left out."""
    try:
        with os.scandir(place) as entries:
            shown = (_info(entry, prefix) for entry in entries if not entry.name.startswith("."))
            return [info for info in shown if info is not None]
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        # It went, or the server cannot read it either: it would list nothing there.
        return []


def _info(entry: os.DirEntry[str], prefix: str) -> FileInfo | None:
    if entry.is_dir(follow_symlinks=False):
        kind = FileKind.DIRECTORY
    elif entry.is_file():
        kind = FileKind.NOTEBOOK if entry.name.endswith(".ipynb") else FileKind.FILE
    else:
        return None
    try:
        status = entry.stat()
    except OSError:
        return None
    return FileInfo(
        path=prefix + entry.name,
        kind=kind,
        created=_moment(status.st_ctime),
        last_modified=_moment(status.st_mtime),
        size=status.st_size if kind is not FileKind.DIRECTORY else None,
        writable=os.access(entry.path, os.W_OK),
    )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
