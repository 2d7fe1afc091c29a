"""The database as a SQLite file: one thread writes, a few read, and any number of processes share it."""

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import apsw

from cellwright.core.errors import CellwrightError
from cellwright.storage.database import Engine, Transaction
from cellwright.storage.errors import StorageReadOnly
from cellwright.storage.migrations import Migration, PerEngine, checked, migrate, pending
from cellwright.storage.sqlite import file as sqlite_file
from cellwright.storage.sqlite.errors import LOST, explained, explaining
from cellwright.storage.sqlite.file import execute
from cellwright.storage.values import Row, Value, storable
from cellwright.storage.workers import DatabaseJob, Workers

READERS = 4
STEPS_BETWEEN_LOOKS = 50_000
"""SQLite instructions, about a millisecond, after which work that nobody wants any more is stopped."""

FORCED = "PRAGMA synchronous = FULL"
UNFORCED = "PRAGMA synchronous = NORMAL"

OWN = Migration(
    "storage",
    1,
    (
        PerEngine(
            sqlite=(
                f"PRAGMA application_id = {sqlite_file.APPLICATION_ID}",
                "CREATE TABLE cellwright_store (id TEXT NOT NULL, commits INTEGER NOT NULL) STRICT",
                "INSERT INTO cellwright_store VALUES (lower(hex(randomblob(16))), 0)",
            )
        ),
    ),
)
"""Which database this is and how often it was changed: what tells a backup of an older state from one of a newer."""

# By its rowid, though there is one row only: for an UPDATE of all rows SQLite makes a temporary table.
COUNT_COMMIT = "UPDATE cellwright_store SET commits = commits + 1 WHERE rowid = 1"

T = TypeVar("T")


class SqliteTransaction:
    """Statements of one transaction. The first failure is kept: a transaction that had one is never committed."""

    __slots__ = ("_connection", "failure")

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.failure: Exception | None = None

    def run(self, sql: str, *values: Value) -> int:
        self._execute(sql, values)
        return self._connection.changes()

    def rows(self, sql: str, *values: Value) -> list[Row]:
        return self._execute(sql, values)

    def row(self, sql: str, *values: Value) -> Row | None:
        found = self._execute(sql, values)
        return found[0] if found else None

    def _execute(self, sql: str, values: tuple[Value, ...]) -> list[Row]:
        if self.failure:
            raise self.failure
        try:
            return execute(self._connection, sql, storable(values))
        except apsw.Error as error:
            self.failure = known = explained(error) or error
            if known is error:
                raise
            raise known from error


class SqliteConnection:
    """A thread's connection: the file it is open on, and the work it is doing now."""

    def __init__(self, connection: apsw.Connection, identity: tuple[int, int]) -> None:
        self.connection = connection
        self.identity = identity
        self.job: DatabaseJob | None = None
        self._commits = FORCED
        connection.set_progress_handler(self._unwanted, STEPS_BETWEEN_LOOKS)

    def _unwanted(self) -> bool:
        return self.job is not None and self.job.over

    def transact(self, begin: str, job: DatabaseJob, work: Callable[[apsw.Connection], T], commits: str) -> T:
        """Run work between `begin` and COMMIT; whatever goes wrong, nothing of it stays."""
        connection = self.connection
        self.job = job
        try:
            if self._commits != commits:
                execute(connection, commits)
                self._commits = commits
            execute(connection, begin)
            result = work(connection)
            job.check()
            execute(connection, "COMMIT")
        finally:
            self.job = None
            if connection.in_transaction:
                execute(connection, "ROLLBACK")
        return result

    def close(self) -> None:
        self.connection.close()


def identity(file: Path) -> tuple[int, int]:
    found = os.stat(file)  # noqa: PTH116 - on the path of every transaction, and twice as fast
    return found.st_dev, found.st_ino


class SqliteDatabase:
    """A file that is made, brought up to date and opened when it is first used."""

    engine = Engine.SQLITE

    def __init__(self, file: Path, migrations: Iterable[Migration] = ()) -> None:
        self.file = file
        self._migrations = checked((OWN, *migrations))
        self._uses_wal = sqlite_file.uses_wal()
        self._writer = Workers("cellwright-write", 1, self._open)
        self._readers = Workers("cellwright-read", READERS, self._open_reader)

    async def read(self, work: Callable[[Transaction], T]) -> T:
        def run(connection: apsw.Connection) -> T:
            try:
                return _finished(SqliteTransaction(connection), work)
            except StorageReadOnly as error:
                raise RuntimeError("work that writes was given to `read`") from error

        return await self._readers.run(lambda held, job: self._guarded(self._readers, held, "BEGIN", job, run))

    async def write(self, work: Callable[[Transaction], T]) -> T:
        return await self._write(FORCED, work)

    async def write_soon(self, work: Callable[[Transaction], T]) -> T:
        # Without a WAL a power cut could damage the file.
        return await self._write(UNFORCED if self._uses_wal else FORCED, work)

    async def _write(self, commits: str, work: Callable[[Transaction], T]) -> T:
        def run(connection: apsw.Connection) -> T:
            before = connection.total_changes()
            result = _finished(SqliteTransaction(connection), work)
            if connection.total_changes() != before:
                execute(connection, COUNT_COMMIT)
            return result

        return await self._writer.run(
            lambda held, job: self._guarded(self._writer, held, "BEGIN IMMEDIATE", job, run, commits)
        )

    async def change_mark(self) -> str:
        def run(connection: apsw.Connection) -> str:
            return "-".join(map(str, execute(connection, "SELECT id, commits FROM cellwright_store")[0]))

        return await self._readers.run(lambda held, job: self._guarded(self._readers, held, "BEGIN", job, run))

    async def close(self) -> None:
        await self._readers.close()
        await self._writer.close()

    def _guarded(
        self,
        workers: Workers[SqliteConnection],
        held: SqliteConnection,
        begin: str,
        job: DatabaseJob,
        work: Callable[[apsw.Connection], T],
        commits: str = FORCED,
    ) -> T:
        try:
            if not self._is_current(held):
                workers.discard()
                held = workers.connection()
            return held.transact(begin, job, work, commits)
        except (apsw.Error, CellwrightError) as error:
            cause = error.__cause__ if isinstance(error, CellwrightError) else error
            if isinstance(cause, LOST):
                workers.discard()
            known = explained(error) if isinstance(error, apsw.Error) else None
            if known is None:
                raise
            raise known from error

    def _is_current(self, held: SqliteConnection) -> bool:
        """False once the file was removed or replaced: what is written to the old one would be lost."""
        try:
            return identity(self.file) == held.identity
        except OSError:
            return False

    def _open(self) -> SqliteConnection:
        sqlite_file.prepare(self.file)
        with ExitStack() as undo, explaining():
            held = SqliteConnection(sqlite_file.connect(self.file), identity(self.file))
            undo.callback(held.close)
            bring_up_to_date(held.connection, self._migrations)
            undo.pop_all()
        return held

    def _open_reader(self) -> SqliteConnection:
        held = self._open()
        execute(held.connection, "PRAGMA query_only = ON")
        return held


def _finished(tx: SqliteTransaction, work: Callable[[Transaction], T]) -> T:
    result = work(tx)
    if tx.failure:
        raise tx.failure
    return result


def bring_up_to_date(connection: apsw.Connection, migrations: tuple[Migration, ...]) -> None:
    """Take missing migrations in one transaction; without any, only read. Two processes at once do it once."""
    tx = SqliteTransaction(connection)
    if connection.table_exists(None, "cellwright_migrations") and not pending(tx, migrations):
        return
    execute(connection, "BEGIN IMMEDIATE")
    try:
        migrate(tx, Engine.SQLITE, migrations)
        execute(connection, "COMMIT")
    finally:
        if connection.in_transaction:
            execute(connection, "ROLLBACK")
