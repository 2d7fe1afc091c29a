"""Our SQLite file: private, on a local disk, opened with the settings that make a commit durable."""

import os
import time
from contextlib import ExitStack
from pathlib import Path

import apsw

from cellwright.core.errors import ConfigError
from cellwright.storage import errors
from cellwright.storage.values import Row, Value
from cellwright.system import machine

BUSY_SECONDS = 30.0
APPLICATION_ID = 0x63656C77  # "celw", in the file's header: this file is ours
WAL_BYTES_KEPT = 64 * 1024 * 1024
SETTINGS = (
    "synchronous = FULL",
    "fullfsync = ON",  # macOS: fsync alone does not reach the disk there
    "checkpoint_fullfsync = ON",
    "foreign_keys = ON",
    "temp_store = MEMORY",
    f"journal_size_limit = {WAL_BYTES_KEPT}",
)
NETWORK = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "afs",
        "ceph",
        "lustre",
        "beegfs",
        "gpfs",
        "davfs",
        "ncpfs",
        "webdav",
        "afpfs",
        "network",
    }
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.davfs", "fuse.ceph"}
)


def wal_is_safe(version: tuple[int, ...]) -> bool:
    """Whether this version of SQLite lacks the bug by which two processes in WAL mode can damage a file."""
    return version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)


def refuse_network(kind: str) -> None:
    """ConfigError if this type of file system belongs to another machine."""
    if kind in NETWORK:
        raise ConfigError(
            f"the database's folder is on a network filesystem ({kind}), where locks do not keep SQLite files sound",
            hint="name a folder on a local disk with --state-dir, or share a server with --database postgresql://…",
        )


def prepare(file: Path) -> None:
    """Create the file if it is missing, readable only by its owner. Refuse one of another user."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_network(machine.file_system(file.parent.resolve()))
        _create(file)
        _check_owner(file)
    except PermissionError as error:
        raise errors.read_only() from error
    except OSError as error:
        raise ConfigError(
            f"the database's file cannot be used: {error.strerror}", hint="name another folder with --state-dir"
        ) from error


def _create(file: Path) -> None:
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    # The file's name must survive a power cut, and not only its content.
    machine.sync_folder(file.parent)


def _check_owner(file: Path) -> None:
    status = file.stat()
    if not machine.is_own(status):
        raise ConfigError("the database's file belongs to another user", hint="chown it, or name another --state-dir")
    if machine.open_to_others(status):
        for part in (file, *(file.with_name(file.name + end) for end in ("-wal", "-shm", "-journal"))):
            if part.exists():
                machine.keep_private(part)


def execute(connection: apsw.Connection, sql: str, values: tuple[Value, ...] = ()) -> list[Row]:
    """Run one statement to its end."""
    # apsw's types name Buffer, which Python 3.11 does not have.
    return connection.execute(sql, values).fetchall()  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]


def connect(file: Path) -> apsw.Connection:
    """A connection to an existing file, with all settings that each connection needs."""
    with ExitStack() as undo:
        connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)
        undo.callback(connection.close)
        connection.set_busy_timeout(int(BUSY_SECONDS * 1000))
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        # Without these two, a misspelled name in double quotes would be a string instead of an error.
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        # Without this, a database that was analysed plans every statement again for every value.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        _refuse_foreign(connection)
        _set_journal(connection)
        for setting in SETTINGS:
            execute(connection, f"PRAGMA {setting}")
        undo.pop_all()
    return connection


def _refuse_foreign(connection: apsw.Connection) -> None:
    # In one transaction, because another process may create our tables between the two queries.
    execute(connection, "BEGIN")
    ((tables,),) = execute(connection, "SELECT count(*) FROM sqlite_schema")
    ours = execute(connection, "PRAGMA application_id") == [(APPLICATION_ID,)]
    execute(connection, "COMMIT")
    if tables and not ours:
        raise ConfigError(
            "the database's file is a SQLite database of another program", hint="name another file or folder"
        )


def uses_wal() -> bool:
    return wal_is_safe(tuple(int(part) for part in apsw.sqlite_lib_version().split(".")))


def _set_journal(connection: apsw.Connection) -> None:
    mode = "wal" if uses_wal() else "delete"
    end = time.monotonic() + BUSY_SECONDS
    while execute(connection, "PRAGMA journal_mode") != [(mode,)]:
        # SQLite does not apply its busy timeout here.
        try:
            execute(connection, f"PRAGMA journal_mode = {mode}")
        except apsw.BusyError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
