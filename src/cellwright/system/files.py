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
    """The folder, created if missing and closed to other users. ConfigError if it cannot be created, or belongs to somebody else."""
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
    """Why the folder cannot be created or written to; empty if it can. Leaves nothing behind."""
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    try:
        # The mode does not show whether the disk is read-only, and means nothing to root. So this tries to write.
        Path(tempfile.mkdtemp(prefix=".cellwright-", dir=existing)).rmdir()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def trusted_file(file: Path) -> bool:
    """Whether nobody else can have read the file. One that others could read is made private now.

    ConfigError if it belongs to somebody else or others may write it: then its content cannot be trusted.
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
    """Replace the file's content. At any time, also after a power cut, it has either its old or its new content.

    The new file has `mode` from its first byte on; `before` may change the finished draft.
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
    """Write a new file. It is on the disk when this returns."""
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
