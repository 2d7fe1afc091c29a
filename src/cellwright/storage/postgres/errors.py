"""Translates PostgreSQL's errors to ours. Its own messages may quote addresses and values, so they are not passed on."""

import logging
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import errors as pg

from cellwright.core.errors import CellwrightError
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


_EXPECTED = (pg.IntegrityError, pg.SerializationFailure, pg.DeadlockDetected, pg.QueryCanceled)
_MEANINGS: tuple[tuple[tuple[type[psycopg.Error], ...], Callable[[], CellwrightError]], ...] = (
    ((pg.UniqueViolation,), errors.duplicate),
    ((pg.ForeignKeyViolation, pg.RestrictViolation), errors.broken_reference),
    ((pg.SerializationFailure, pg.DeadlockDetected, pg.LockNotAvailable, pg.TooManyConnections), errors.busy),
    ((pg.QueryCanceled,), too_long),
    ((pg.ProgramLimitExceeded,), errors.too_big),
    ((pg.DiskFull,), errors.full),
    ((pg.ReadOnlySqlTransaction, pg.InsufficientPrivilege), errors.read_only),
    ((pg.DataCorrupted, pg.IndexCorrupted), errors.corrupt),
    # All others of these two kinds: the server went away, or refuses connections.
    ((psycopg.OperationalError, psycopg.InterfaceError), unreachable),
)


def explained(error: psycopg.Error) -> CellwrightError | None:
    """The failure as one of our errors; None for one that only a mistake in our own code can cause."""
    if not isinstance(error, _EXPECTED):
        log.error("postgres_failed error=%s state=%s", type(error).__name__, error.sqlstate)
    return next((make() for kinds, make in _MEANINGS if isinstance(error, kinds)), None)
