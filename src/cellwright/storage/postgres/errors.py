"""What PostgreSQL says, as what our callers understand. Its own texts may quote addresses and values: they stay here."""

import logging
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import errors as pg

from cellwright.core.errors import CellwrightError, Conflict, InvalidArgument
from cellwright.storage import errors
from cellwright.storage.errors import StorageLost
from cellwright.storage.workers import too_long

log = logging.getLogger(__name__)


def lost(connection: psycopg.Connection[Any]) -> bool:
    return connection.closed or connection.broken


def unreachable() -> StorageLost:
    return StorageLost(
        "the PostgreSQL server does not answer, or does not let us in",
        hint="try again later; the operator checks the server and --database",
    )


def _twice() -> Conflict:
    return Conflict("this exists already", hint="read it, then change it or choose another name")


def _orphan() -> Conflict:
    return Conflict("what this belongs to does not exist, or is still needed", hint="look at what there is")


def _too_big() -> InvalidArgument:
    return InvalidArgument("a value is too large to be stored", hint="split it")


_EXPECTED = (pg.IntegrityError, pg.SerializationFailure, pg.DeadlockDetected, pg.QueryCanceled)
_MEANINGS: tuple[tuple[tuple[type[psycopg.Error], ...], Callable[[], CellwrightError]], ...] = (
    ((pg.UniqueViolation,), _twice),
    ((pg.ForeignKeyViolation, pg.RestrictViolation), _orphan),
    ((pg.SerializationFailure, pg.DeadlockDetected, pg.LockNotAvailable, pg.TooManyConnections), errors.busy),
    ((pg.QueryCanceled,), too_long),
    ((pg.ProgramLimitExceeded,), _too_big),
    ((pg.DiskFull,), errors.full),
    ((pg.ReadOnlySqlTransaction, pg.InsufficientPrivilege), errors.read_only),
    ((pg.DataCorrupted, pg.IndexCorrupted), errors.corrupt),
    # What is left of these two: the server went away, or takes nobody in.
    ((psycopg.OperationalError, psycopg.InterfaceError), unreachable),
)


def explained(error: psycopg.Error) -> CellwrightError | None:
    """The failure in our words; None for one that only a mistake in our own code can cause."""
    if not isinstance(error, _EXPECTED):
        log.error("postgres_failed error=%s state=%s", type(error).__name__, error.sqlstate)
    return next((make() for kinds, make in _MEANINGS if isinstance(error, kinds)), None)
