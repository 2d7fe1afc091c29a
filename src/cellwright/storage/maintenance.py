"""Looking after the database: a copy while it is in use, going back to a copy, giving room back, finding damage.

These run where they are called and may take long: the command line calls them as they are, a server in a thread.
"""

import os
import secrets
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import apsw

from cellwright.core.errors import ConfigError, Conflict, InvalidArgument, NotFound, Unavailable
from cellwright.core.text.counting import counted
from cellwright.core.types import Secret
from cellwright.storage import errors
from cellwright.storage.location import Location
from cellwright.storage.migrations import Migration, pending
from cellwright.storage.sqlite.database import OWN, SqliteTransaction, bring_up_to_date
from cellwright.storage.sqlite.errors import explaining
from cellwright.storage.sqlite.file import APPLICATION_ID, connect, execute, prepare
from cellwright.system import machine

PAGES_AT_ONCE = 2_000

Progress = Callable[[int, int], None]
"""Told how many of how many pages are done."""


def quiet(_done: int, _total: int) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Copy:
    """A backup: which database it is of, and how many changes that had seen."""

    store: str
    commits: int
    size: int


def existing(where: Location, doing: str) -> Path:
    """The SQLite file there is. PostgreSQL brings its own tools for all of this."""
    if isinstance(where, Secret):
        raise InvalidArgument(
            f"cellwright does not {doing} a PostgreSQL database",
            hint="use PostgreSQL's own tools with the same address: pg_dump, pg_restore, vacuumdb, pg_amcheck",
        )
    if not where.is_file():
        raise NotFound("there is no database yet", hint="it is made when something is first stored")
    return where


def backup(where: Location, to: Path, progress: Progress = quiet) -> Copy:
    """Write a copy of one moment's state to a new file; whoever uses the database meanwhile goes on."""
    source = existing(where, "copy")
    if to.exists():
        raise Conflict(f"{to.name} exists already", hint="name a file that does not exist; nothing was overwritten")
    if not to.parent.is_dir():
        raise NotFound(f"there is no folder {to.parent}", hint="make it first, or name a file in one that exists")
    with explaining(), closing(connect(source)) as connection:
        _write_copy(connection, to, progress)
    return inspect(to)


def _write_copy(connection: apsw.Connection, to: Path, progress: Progress) -> None:
    draft = to.with_name(f".{to.name}.{secrets.token_hex(4)}")
    try:
        prepare(draft)
        with closing(apsw.Connection(str(draft))) as target:
            _copy_pages(connection, target, progress)
            execute(target, "PRAGMA journal_mode = DELETE")
        with draft.open("rb+") as written:
            os.fsync(written.fileno())
        machine.replace(draft, to)
        machine.sync_folder(to.parent)
    finally:
        draft.unlink(missing_ok=True)


def _copy_pages(source: apsw.Connection, target: apsw.Connection, progress: Progress) -> None:
    # The open read transaction keeps this moment's state: without it each change by others would start the copy anew.
    execute(source, "BEGIN")
    execute(source, "SELECT count(*) FROM sqlite_schema")
    with target.backup("main", source, "main") as copying:
        while not copying.done:
            copying.step(PAGES_AT_ONCE)
            progress(copying.page_count - copying.remaining, copying.page_count)
    execute(source, "COMMIT")


def inspect(file: Path) -> Copy:
    """What a backup holds. StorageCorrupt or InvalidArgument if it is not a sound database of ours."""
    with explaining(), closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return _inspect(connection, file)


def _inspect(connection: apsw.Connection, file: Path) -> Copy:
    try:
        ours = execute(connection, "PRAGMA application_id") == [(APPLICATION_ID,)]
    except apsw.NotADBError:
        ours = False
    if not ours:
        raise InvalidArgument(f"{file.name} is not a database of cellwright", hint="name a file that backup wrote")
    ((store, commits),) = execute(connection, "SELECT id, commits FROM cellwright_store")
    return Copy(str(store), int(commits or 0), file.stat().st_size)


def restore(
    where: Location,
    file: Path,
    migrations: Iterable[Migration] = (),
    *,
    force: bool = False,
    progress: Progress = quiet,
) -> Path | None:
    """Go back to a backup; other processes see it at once. The previous state is kept in the file that is returned.

    The backup is checked first: ours, sound, not of a newer program. Conflict if the database has changes that the
    backup does not have, unless `force`.
    """
    steps = (OWN, *migrations)
    if isinstance(where, Secret):
        existing(where, "restore")
    if not file.is_file():
        raise NotFound(f"there is no file {file.name}", hint="name a file that backup wrote")
    assert isinstance(where, Path)
    if where.is_file() and file.samefile(where):
        raise InvalidArgument(f"{file.name} is the database itself", hint="name a file that backup wrote")
    with explaining(), closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as source:
        wanted = _sound(source, file)
        pending(SqliteTransaction(source), steps)
        kept = _keep_previous(where, wanted, force=force, progress=progress) if where.is_file() else None
        prepare(where)
        with closing(connect(where)) as target:
            _copy_pages(source, target, progress)
            _continue_from(target, wanted, kept, steps)
    return kept


def _sound(source: apsw.Connection, file: Path) -> Copy:
    """What the backup holds. StorageCorrupt that names it: the database itself may be well."""
    damaged = errors.StorageCorrupt(
        f"the backup {file.name} is damaged; the database was left as it is", hint="restore another backup"
    )
    try:
        wanted = _inspect(source, file)
        found = _problems(source)
    except apsw.CorruptError as error:
        raise damaged from error
    if found:
        raise damaged from ValueError(found[0])
    return wanted


def _continue_from(target: apsw.Connection, wanted: Copy, kept: Path | None, migrations: tuple[Migration, ...]) -> None:
    """Bring an older backup up to date, and count on from the larger number, so that no change mark is ever seen twice."""
    bring_up_to_date(target, migrations)
    try:
        before = inspect(kept).commits if kept else 0
    except (errors.StorageCorrupt, InvalidArgument):
        before = 0
    execute(target, "UPDATE cellwright_store SET commits = ?", (max(before, wanted.commits) + 1,))


def _keep_previous(file: Path, wanted: Copy, *, force: bool, progress: Progress) -> Path:
    """A copy of the present state beside it. One too damaged to be copied is moved there as it is."""
    kept = file.with_name(file.name + ".bak")
    try:
        with closing(connect(file)) as present:
            _refuse_newer(present, file, wanted, force=force)
            _write_copy(present, kept, progress)
            # Of a damaged one that was moved here before: SQLite would read them as the copy's own changes.
            for end in ("-wal", "-shm"):
                kept.with_name(kept.name + end).unlink(missing_ok=True)
    except (apsw.CorruptError, apsw.NotADBError):
        _move_aside(file, kept)
    return kept


def _move_aside(file: Path, kept: Path) -> None:
    try:
        for end in ("", "-wal", "-shm"):
            part = file.with_name(file.name + end)
            if part.exists():
                machine.replace(part, file.with_name(kept.name + end))
    except PermissionError as error:
        raise Conflict(
            "the damaged database cannot be moved away while a program has it open",
            hint="end the cellwright servers that use it, then restore again",
        ) from error


def _refuse_newer(present: apsw.Connection, file: Path, wanted: Copy, *, force: bool) -> None:
    if force or not present.table_exists(None, "cellwright_store"):
        return
    now = _inspect(present, file)
    if now.store != wanted.store:
        raise Conflict("the backup is of another database than this one", hint="--force replaces this one all the same")
    if now.commits > wanted.commits:
        raise Conflict(
            f"the database has {counted(now.commits - wanted.commits, 'change')} that the backup does not have",
            hint="--force goes back all the same; the present state is kept beside it with the ending .bak",
        )


def vacuum(where: Location, progress: Progress = quiet) -> int:
    """Give room back to the disk: how many bytes. StorageBusy if others write all the time."""
    file = existing(where, "vacuum")
    with explaining(), closing(connect(file)) as connection:
        execute(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        before = file.stat().st_size
        ((pages,),) = execute(connection, "PRAGMA page_count")
        total = int(pages or 0)
        progress(0, total)
        execute(connection, "VACUUM")
        execute(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        progress(total, total)
        return max(0, before - file.stat().st_size)


def problems(where: Location) -> tuple[str, ...]:
    """What is wrong with the database, in sentences; nothing if it is sound or does not exist yet. Reads all of it."""
    if isinstance(where, Secret) or not where.is_file():
        return ()
    try:
        with explaining(), closing(connect(where)) as connection:
            return _problems(connection)
    except (errors.StorageCorrupt, ConfigError, Unavailable) as error:
        return (str(error),)


def _problems(connection: apsw.Connection) -> tuple[str, ...]:
    found = [str(text) for (text,) in execute(connection, "PRAGMA integrity_check(20)") if text != "ok"]
    orphans = len(execute(connection, "PRAGMA foreign_key_check"))
    if orphans:
        found.append(f"pointing at something that does not exist: {counted(orphans, 'row')}")
    return tuple(found)
