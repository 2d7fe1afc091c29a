"""What can go wrong with the database. Callers get these sentences; what the library said and where the file is goes to the log."""

from cellwright.core.errors import CellwrightError, ConfigError, Unavailable


class StorageFull(Unavailable):
    """No room for what was to be written."""

    code = "STORAGE_FULL"
    meaning = "The disk that holds the database is full. Nothing was changed; once there is room, the same call works."


class StorageReadOnly(Unavailable):
    """The database can be read but not written."""

    code = "STORAGE_READ_ONLY"
    meaning = "The database can be read but not changed: its file, its disk or its server is read-only."
    retryable = False


class StorageCorrupt(CellwrightError):
    """What is on disk is not a sound database."""

    code = "STORAGE_CORRUPT"
    meaning = "The database on disk is damaged or not a database. The operator checks it and restores a backup."
    rpc_code = -32603


class StorageBusy(Unavailable):
    """Somebody else had the database for too long."""


class StorageLost(Unavailable):
    """The disk or the database server does not do its work."""


class CommitUnknown(CellwrightError):
    """The connection was lost between sending the commit and hearing of it."""

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


def closed() -> Unavailable:
    return Unavailable("the database is closed: the program is ending", hint="start it again")
