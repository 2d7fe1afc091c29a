"""Maintenance of the database: backing it up while it is in use, restoring a backup, giving room back, finding damage.

These functions block and may take long: the command line calls them directly, a server in a thread.
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
"""Called with the number of pages done and the number of all pages."""


def quiet(_done: int, _total: int) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Copy:
    """A backup: the id of the database it was made from, how many commits that had by then, and the size in bytes."""

    store: str
    commits: int
    size: int


def existing(where: Location, doing: str) -> Path:
    """The SQLite file at this location. InvalidArgument for PostgreSQL, which has its own tools for all of this."""
    if isinstance(where, Secret):
        raise InvalidArgument(
            f"cellwright does not {doing} a PostgreSQL database",
            hint="use PostgreSQL's own tools with the same address: pg_dump, pg_restore, vacuumdb, pg_amcheck",
        )
    if not where.is_file():
        raise NotFound("there is no database yet", hint="it is made when something is first stored")
    return where


def backup(where: Location, to: Path, progress: Progress = quiet) -> Copy:
    """Write a consistent copy to a new file. Others can use the database meanwhile."""
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
    # The open read transaction holds one state: without it every change by others would restart the copy.
    execute(source, "BEGIN")
    execute(source, "SELECT count(*) FROM sqlite_schema")
    with target.backup("main", source, "main") as copying:
        while not copying.done:
            copying.step(PAGES_AT_ONCE)
            progress(copying.page_count - copying.remaining, copying.page_count)
    execute(source, "COMMIT")


def inspect(file: Path) -> Copy:
    """What a backup holds. StorageCorrupt or InvalidArgument if it is not an intact database of ours."""
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
    """Go back to a backup; other processes see it at once. Returns the file that holds the previous state, if there was one.

    The backup is checked first: it must be ours, intact, and not from a newer version. Conflict if the database has changes
    that the backup does not have, unless `force`.
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
        copy = _check_backup(source, file)
        pending(SqliteTransaction(source), steps)
        previous = _keep_previous(where, copy, force=force, progress=progress) if where.is_file() else None
        prepare(where)
        with closing(connect(where)) as target:
            _copy_pages(source, target, progress)
            _continue_from(target, copy, previous, steps)
    return previous


def _check_backup(source: apsw.Connection, file: Path) -> Copy:
    """What the backup holds. StorageCorrupt names the backup, because the database itself may be fine."""
    damaged = errors.StorageCorrupt(
        f"the backup {file.name} is damaged; the database was left as it is", hint="restore another backup"
    )
    try:
        copy = _inspect(source, file)
        problems_found = _problems(source)
    except apsw.CorruptError as error:
        raise damaged from error
    if problems_found:
        raise damaged from ValueError(problems_found[0])
    return copy


def _continue_from(
    target: apsw.Connection, copy: Copy, previous: Path | None, migrations: tuple[Migration, ...]
) -> None:
    """Migrate an older backup, and continue the larger of both commit counts, so that no change mark is ever used twice."""
    bring_up_to_date(target, migrations)
    try:
        commits = inspect(previous).commits if previous else 0
    except (errors.StorageCorrupt, InvalidArgument):
        commits = 0
    execute(target, "UPDATE cellwright_store SET commits = ?", (max(commits, copy.commits) + 1,))


def _keep_previous(file: Path, copy: Copy, *, force: bool, progress: Progress) -> Path:
    """Copy the present state to a file beside the database. One that is too damaged to be copied is moved there."""
    previous = file.with_name(file.name + ".bak")
    try:
        with closing(connect(file)) as present:
            _refuse_newer(present, file, copy, force=force)
            _write_copy(present, previous, progress)
            # Left by a damaged database that was moved here before: SQLite would read them as changes of the copy.
            for end in ("-wal", "-shm"):
                previous.with_name(previous.name + end).unlink(missing_ok=True)
    except (apsw.CorruptError, apsw.NotADBError):
        _move_aside(file, previous)
    return previous


def _move_aside(file: Path, previous: Path) -> None:
    try:
        for end in ("", "-wal", "-shm"):
            part = file.with_name(file.name + end)
            if part.exists():
                machine.replace(part, file.with_name(previous.name + end))
    except PermissionError as error:
        raise Conflict(
            "the damaged database cannot be moved away while a program has it open",
            hint="end the cellwright servers that use it, then restore again",
        ) from error


def _refuse_newer(present: apsw.Connection, file: Path, copy: Copy, *, force: bool) -> None:
    if force or not present.table_exists(None, "cellwright_store"):
        return
    current = _inspect(present, file)
    if current.store != copy.store:
        raise Conflict("the backup is of another database than this one", hint="--force replaces this one all the same")
    if current.commits > copy.commits:
        raise Conflict(
            f"the database has {counted(current.commits - copy.commits, 'change')} that the backup does not have",
            hint="--force goes back all the same; the present state is kept beside it with the ending .bak",
        )


def vacuum(where: Location, progress: Progress = quiet) -> int:
    """Give unused room back to the disk. Returns how many bytes. StorageBusy if others write all the time."""
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
    """What is wrong with the database, in sentences; empty if it is intact or does not exist yet. Reads the whole file."""
    if isinstance(where, Secret) or not where.is_file():
        return ()
    try:
        with explaining(), closing(connect(where)) as connection:
            return _problems(connection)
    except (errors.StorageCorrupt, ConfigError, Unavailable) as error:
        return (str(error),)


def _problems(connection: apsw.Connection) -> tuple[str, ...]:
    sentences = [str(text) for (text,) in execute(connection, "PRAGMA integrity_check(20)") if text != "ok"]
    orphans = len(execute(connection, "PRAGMA foreign_key_check"))
    if orphans:
        sentences.append(f"pointing at something that does not exist: {counted(orphans, 'row')}")
    return tuple(sentences)
