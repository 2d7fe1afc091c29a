"""What can go wrong with the database. Callers get these sentences; the library's own message and the file's path go to the log."""

from cellwright.core.errors import CellwrightError, ConfigError, Conflict, InvalidArgument, Unavailable


class StorageFull(Unavailable):
    """There is no room for what was to be written."""

    code = "STORAGE_FULL"
    meaning = "The disk that holds the database is full. Nothing was changed; once there is room, the same call works."


class StorageReadOnly(Unavailable):
    """The database can be read but not written."""

    code = "STORAGE_READ_ONLY"
    meaning = "The database can be read but not changed: its file, its disk or its server is read-only."
    retryable = False


class StorageCorrupt(CellwrightError):
    """The file on disk is not an intact database."""

    code = "STORAGE_CORRUPT"
    meaning = "The database on disk is damaged or not a database. The operator checks it and restores a backup."
    rpc_code = -32603


class StorageBusy(Unavailable):
    """Others used the database for too long."""


class StorageLost(Unavailable):
    """The disk or the database server does not work."""


class CommitUnknown(CellwrightError):
    """The connection was lost after the commit was sent and before it was confirmed."""

    code = "COMMIT_UNKNOWN"
    meaning = (
        "The change was sent, but the connection to the database was lost before it was acknowledged: read what it was about "
        "before you repeat it."
    )
    rpc_code = -32603


class NewerDatabase(ConfigError):
    """The database was written by a later version of this program."""


def full() -> StorageFull:
    return StorageFull(
        "the disk that holds the database is full; nothing was changed",
        hint="free some room on it, then make the same call again",
    )


def read_only() -> StorageReadOnly:
    return StorageReadOnly(
        "the database cannot be changed: its file, its disk or its server is read-only",
        hint="the operator makes it writable, or names another place with --database or --state-dir",
    )


def corrupt() -> StorageCorrupt:
    return StorageCorrupt(
        "the database on disk is damaged, or is no database",
        hint="the operator runs `cellwright doctor`, then `cellwright restore FILE` with a backup",
    )


def busy() -> StorageBusy:
    return StorageBusy(
        "the database was in use by others for too long; nothing was changed", hint="make the same call again"
    )


def failing_disk() -> StorageLost:
    return StorageLost(
        "the disk that holds the database reported an error; nothing was changed",
        hint="make the same call again; if it stays, the operator's log names the fault",
    )


def duplicate() -> Conflict:
    return Conflict("this exists already", hint="read it, then change it or choose another name")


def broken_reference() -> Conflict:
    return Conflict("what this belongs to does not exist, or is still needed", hint="look at what there is")


def too_big() -> InvalidArgument:
    return InvalidArgument("a value is too large to be stored", hint="split it")


def closed() -> Unavailable:
    return Unavailable("the database is closed: the program is ending", hint="start it again")
