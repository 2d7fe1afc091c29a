"""Translates SQLite's errors to ours."""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager

import apsw

from cellwright.core.errors import CellwrightError
from cellwright.storage import errors
from cellwright.storage.workers import too_long

log = logging.getLogger(__name__)

_DUPLICATE = {
    apsw.SQLITE_CONSTRAINT_UNIQUE,
    apsw.SQLITE_CONSTRAINT_PRIMARYKEY,
    apsw.SQLITE_CONSTRAINT_ROWID,
}
LOST = (apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.CantOpenError, apsw.ReadOnlyError)
"""After one of these a connection is not used again."""

_MEANINGS: tuple[tuple[tuple[type[apsw.Error], ...], Callable[[], CellwrightError]], ...] = (
    ((apsw.BusyError, apsw.LockedError, apsw.ProtocolError), errors.busy),
    ((apsw.FullError,), errors.full),
    ((apsw.IOError, apsw.CantOpenError), errors.failing_disk),
    ((apsw.CorruptError, apsw.NotADBError), errors.corrupt),
    ((apsw.ReadOnlyError, apsw.PermissionsError), errors.read_only),
    ((apsw.InterruptError,), too_long),
    ((apsw.TooBigError,), errors.too_big),
)


def explained(error: apsw.Error) -> CellwrightError | None:
    """The failure as one of our errors; None for one that only a mistake in our own code can cause."""
    if isinstance(error, (*LOST, apsw.FullError)):
        log.error("sqlite_failed error=%s code=%s", type(error).__name__, getattr(error, "extendedresult", "?"))
    if isinstance(error, apsw.ConstraintError):
        extended = getattr(error, "extendedresult", 0)
        if extended in _DUPLICATE:
            return errors.duplicate()
        return errors.broken_reference() if extended == apsw.SQLITE_CONSTRAINT_FOREIGNKEY else None
    return next((make() for kinds, make in _MEANINGS if isinstance(error, kinds)), None)


@contextmanager
def explaining() -> Generator[None]:
    """Raise SQLite's errors as ours."""
    try:
        yield
    except apsw.Error as error:
        explanation = explained(error)
        if explanation is None:
            raise
        raise explanation from error
