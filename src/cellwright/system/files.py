"""Private files and folders, and files that are replaced whole or not at all."""

import os
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path

from cellwright.core.errors import ConfigError
from cellwright.system import machine

PRIVATE = 0o600
_BINARY: int = getattr(os, "O_BINARY", 0)


def private_folder(folder: Path) -> Path:
    """The folder, made if missing and closed to everybody else; ConfigError if it cannot be made, or is somebody else's."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if not machine.is_own(status):
            raise ConfigError(f"{folder} belongs to another user", hint="name a folder of your own with --state-dir")
        if machine.open_to_others(status):
            machine.keep_private(folder)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be used: {error.strerror}", hint="name another folder with --state-dir"
        ) from error
    return folder


def why_not_writable(folder: Path) -> str:
    """Why nothing can be put into the folder, or why it cannot be made; empty if it can. Leaves nothing behind."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        # Tried, not asked for: modes do not know of disks that are read-only, and to root they say nothing.
        Path(tempfile.mkdtemp(prefix=".cellwright-", dir=place)).rmdir()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def trusted_file(file: Path) -> bool:
    """Whether nobody else can have read the file. One that others could read is closed to them now.

    ConfigError if it belongs to somebody else or others may write it: then what it says is not ours.
    """
    status = file.stat()
    if not machine.is_own(status) or machine.others_may_write(status):
        raise ConfigError(
            f"{file} belongs to another user, or others may write it",
            hint="look at what it holds, then make it yours: chown and chmod 600",
        )
    was_open = machine.open_to_others(status)
    if was_open:
        machine.keep_private(file)
    return not was_open


def replace_file(
    file: Path, data: bytes, *, mode: int = PRIVATE, before: Callable[[Path], None] = lambda _draft: None
) -> None:
    """Put `data` in place of the file, which has its old or its new content at any time, also after a power cut.

    `mode` is that of the new file, from its first byte on; `before` may change the finished draft.
    """
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}.tmp")
    try:
        write_draft(draft, data, mode)
        before(draft)
        machine.replace(draft, file)
        machine.sync_folder(file.parent)
    finally:
        draft.unlink(missing_ok=True)


def write_draft(draft: Path, data: bytes, mode: int = PRIVATE) -> None:
    """A new file with this content, on the disk when this returns."""
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())
