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
"""After so many SQLite instructions, about a millisecond, it is checked whether the work must stop."""

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
"""The database's id and how often it was changed, by which an older backup is told from a newer one."""

# By rowid, although there is only one row: for an UPDATE of all rows SQLite makes a temporary table.
COUNT_COMMIT = "UPDATE cellwright_store SET commits = commits + 1 WHERE rowid = 1"

T = TypeVar("T")


class SqliteTransaction:
    """Statements of one transaction. It remembers its first failure: a transaction that had one is never committed."""

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
        rows = self._execute(sql, values)
        return rows[0] if rows else None

    def _execute(self, sql: str, values: tuple[Value, ...]) -> list[Row]:
        if self.failure:
            raise self.failure
        try:
            return execute(self._connection, sql, storable(values))
        except apsw.Error as error:
            explanation = explained(error)
            self.failure = explanation or error
            if explanation is None:
                raise
            raise explanation from error


class SqliteConnection:
    """A thread's connection, with the identity of its file and the job that runs on it now."""

    def __init__(self, raw: apsw.Connection, identity: tuple[int, int]) -> None:
        self.raw = raw
        self.identity = identity
        self.job: DatabaseJob | None = None
        self._commits = FORCED
        raw.set_progress_handler(lambda: self.job is not None and self.job.is_over, STEPS_BETWEEN_LOOKS)

    def transact(self, begin: str, job: DatabaseJob, work: Callable[[apsw.Connection], T], commits: str) -> T:
        """Run work between `begin` and COMMIT. Whatever goes wrong, everything is rolled back."""
        connection = self.raw
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
        self.raw.close()


def identity(file: Path) -> tuple[int, int]:
    status = os.stat(file)  # noqa: PTH116 - called for every transaction, and twice as fast
    return status.st_dev, status.st_ino


class SqliteDatabase:
    """A SQLite file that is created, migrated and opened at its first use."""

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
                return _run_work(SqliteTransaction(connection), work)
            except StorageReadOnly as error:
                raise RuntimeError("work that writes was given to `read`") from error

        return await self._readers.run(
            lambda connection, job: self._transact(self._readers, connection, "BEGIN", job, run)
        )

    async def write(self, work: Callable[[Transaction], T]) -> T:
        return await self._write(FORCED, work)

    async def write_soon(self, work: Callable[[Transaction], T]) -> T:
        # Without a WAL a power cut could damage the file.
        return await self._write(UNFORCED if self._uses_wal else FORCED, work)

    async def _write(self, commits: str, work: Callable[[Transaction], T]) -> T:
        def run(connection: apsw.Connection) -> T:
            before = connection.total_changes()
            result = _run_work(SqliteTransaction(connection), work)
            if connection.total_changes() != before:
                execute(connection, COUNT_COMMIT)
            return result

        return await self._writer.run(
            lambda connection, job: self._transact(self._writer, connection, "BEGIN IMMEDIATE", job, run, commits)
        )

    async def change_mark(self) -> str:
        def run(connection: apsw.Connection) -> str:
            return "-".join(map(str, execute(connection, "SELECT id, commits FROM cellwright_store")[0]))

        return await self._readers.run(
            lambda connection, job: self._transact(self._readers, connection, "BEGIN", job, run)
        )

    async def close(self) -> None:
        await self._readers.close()
        await self._writer.close()

    def _transact(
        self,
        workers: Workers[SqliteConnection],
        connection: SqliteConnection,
        begin: str,
        job: DatabaseJob,
        work: Callable[[apsw.Connection], T],
        commits: str = FORCED,
    ) -> T:
        try:
            if not self._is_current(connection):
                workers.discard()
                connection = workers.connection()
            return connection.transact(begin, job, work, commits)
        except (apsw.Error, CellwrightError) as error:
            cause = error.__cause__ if isinstance(error, CellwrightError) else error
            if isinstance(cause, LOST):
                workers.discard()
            explanation = explained(error) if isinstance(error, apsw.Error) else None
            if explanation is None:
                raise
            raise explanation from error

    def _is_current(self, connection: SqliteConnection) -> bool:
        """False if the file was removed or replaced: what is written to the old one would be lost."""
        try:
            return identity(self.file) == connection.identity
        except OSError:
            return False

    def _open(self) -> SqliteConnection:
        sqlite_file.prepare(self.file)
        with ExitStack() as undo, explaining():
            connection = SqliteConnection(sqlite_file.connect(self.file), identity(self.file))
            undo.callback(connection.close)
            bring_up_to_date(connection.raw, self._migrations)
            undo.pop_all()
        return connection

    def _open_reader(self) -> SqliteConnection:
        connection = self._open()
        execute(connection.raw, "PRAGMA query_only = ON")
        return connection


def _run_work(tx: SqliteTransaction, work: Callable[[Transaction], T]) -> T:
    result = work(tx)
    if tx.failure:
        raise tx.failure
    return result


def bring_up_to_date(connection: apsw.Connection, migrations: tuple[Migration, ...]) -> None:
    """Apply missing migrations in one transaction; if there are none, only read. Of two processes only one applies them."""
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
