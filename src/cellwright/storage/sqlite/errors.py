"""What SQLite says, as what our callers understand."""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager

import apsw

from cellwright.core.errors import CellwrightError, Conflict, InvalidArgument
from cellwright.storage import errors
from cellwright.storage.workers import too_long

log = logging.getLogger(__name__)

_TWICE = {
    apsw.SQLITE_CONSTRAINT_UNIQUE,
    apsw.SQLITE_CONSTRAINT_PRIMARYKEY,
    apsw.SQLITE_CONSTRAINT_ROWID,
}
LOST = (apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.CantOpenError, apsw.ReadOnlyError)
"""After one of these a connection is not used again."""


def _too_big() -> InvalidArgument:
    return InvalidArgument("a value is too large to be stored", hint="split it")


_MEANINGS: tuple[tuple[tuple[type[apsw.Error], ...], Callable[[], CellwrightError]], ...] = (
    ((apsw.BusyError, apsw.LockedError, apsw.ProtocolError), errors.busy),
    ((apsw.FullError,), errors.full),
    ((apsw.IOError, apsw.CantOpenError), errors.failing_disk),
    ((apsw.CorruptError, apsw.NotADBError), errors.corrupt),
    ((apsw.ReadOnlyError, apsw.PermissionsError), errors.read_only),
    ((apsw.InterruptError,), too_long),
    ((apsw.TooBigError,), _too_big),
)


def explained(error: apsw.Error) -> CellwrightError | None:
    """The failure in our words; None for one that only a mistake in our own code can cause."""
    if isinstance(error, (*LOST, apsw.FullError)):
        log.error("sqlite_failed error=%s code=%s", type(error).__name__, getattr(error, "extendedresult", "?"))
    if isinstance(error, apsw.ConstraintError):
        return _constraint(error)
    return next((make() for kinds, make in _MEANINGS if isinstance(error, kinds)), None)


@contextmanager
def explaining() -> Generator[None]:
    """What SQLite raises inside comes out in our words."""
    try:
        yield
    except apsw.Error as error:
        known = explained(error)
        if known is None:
            raise
        raise known from error


def _constraint(error: apsw.ConstraintError) -> Conflict | None:
    extended = getattr(error, "extendedresult", 0)
    if extended in _TWICE:
        return Conflict("this exists already", hint="read it, then change it or choose another name")
    if extended == apsw.SQLITE_CONSTRAINT_FOREIGNKEY:
        return Conflict("what this belongs to does not exist, or is still needed", hint="look at what there is")
    return None
