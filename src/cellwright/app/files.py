"""Private files: written whole or not at all, readable by their owner alone."""

import os
import secrets
import stat
from pathlib import Path

from cellwright.core.errors import ConfigError


def private_folder(folder: Path) -> Path:
    """The folder, made if missing, mode 0700; refused if it belongs to somebody else."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if os.name == "posix":
            if found.st_uid != os.getuid():
                raise ConfigError(
                    f"{folder} belongs to another user", hint="name a folder of your own with --state-dir"
                )
            if stat.S_IMODE(found.st_mode) & 0o077:
                folder.chmod(0o700)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be used: {error.strerror}", hint="name another folder with --state-dir"
        ) from error
    return folder


def trusted_file(file: Path) -> bool:
    """Whether nobody else can have written the file. One that others could only read is closed to them now.

    ConfigError if it belongs to somebody else or others may write it: then what it says is not ours.
    """
    if os.name != "posix":
        return True
    found = file.stat()
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise ConfigError(
            f"{file} belongs to another user, or others may write it",
            hint="look at what it holds, then make it yours: chown and chmod 600",
        )
    was_readable = bool(stat.S_IMODE(found.st_mode) & 0o044)
    if was_readable:
        file.chmod(0o600)
    return not was_readable


def write_private(file: Path, text: str) -> None:
    """Replace the file's contents at once: temporary file, fsync, rename. Mode 0600 from the first byte on."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        draft.replace(file)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
