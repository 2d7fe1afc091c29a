"""The database as a PostgreSQL server that several machines share. It gives the same rows and behaves like the SQLite file."""

import logging
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from itertools import count
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import TextLoader

from cellwright.core.errors import CellwrightError, ConfigError
from cellwright.core.types import Secret
from cellwright.storage.database import Engine, Transaction
from cellwright.storage.dialect import postgres_sql
from cellwright.storage.errors import CommitUnknown, StorageReadOnly
from cellwright.storage.migrations import Migration, checked, migrate, pending
from cellwright.storage.postgres.errors import explained, lost, unreachable
from cellwright.storage.values import Row, Value, storable
from cellwright.storage.workers import QUEUE_SECONDS, WORK_SECONDS, DatabaseJob, Workers

log = logging.getLogger(__name__)

READERS = 4
WRITERS = 4
CONNECT_SECONDS = 10
CANCEL_SECONDS = 5.0
LOCK_SECONDS = 30
MIGRATION_LOCK = 0x63656C6C  # any number, the same in every cellwright
LONGEST_PAUSE = 0.25
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# As if all transactions ran one after the other: SQLite's single writer gives the same.
WRITE = "BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE"
WRITE_SOON = f"{WRITE}; SET LOCAL synchronous_commit = off"
CONFIGURE = (
    "SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false), "
    "set_config('idle_in_transaction_session_timeout', %s, false), "
    # A commit must reach the disk, so 'off' becomes 'on'; stronger settings stay.
    "set_config('synchronous_commit', "
    "CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)"
)

T = TypeVar("T")
Connection = psycopg.Connection[Row]


class NumberLoader(Loader):
    """NUMERIC, the type of sums of integers, as SQLite returns it: whole numbers are int."""

    def load(self, data: Any) -> int | float:  # noqa: ANN401 - psycopg's buffer types
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


class BoolLoader(Loader):
    """Booleans as SQLite returns them: 0 or 1."""

    def load(self, data: Any) -> int:  # noqa: ANN401 - psycopg's buffer types
        return int(bytes(data) == b"t")


class PostgresTransaction:
    """Statements of one transaction. It remembers its first failure: a transaction that had one is never committed."""

    __slots__ = ("_connection", "failure")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.failure: Exception | None = None

    def run(self, sql: str, *values: Value) -> int:
        return max(0, self._execute(sql, values).rowcount)

    def rows(self, sql: str, *values: Value) -> list[Row]:
        return self._execute(sql, values).fetchall()

    def row(self, sql: str, *values: Value) -> Row | None:
        return self._execute(sql, values).fetchone()

    def _execute(self, sql: str, values: tuple[Value, ...]) -> psycopg.Cursor[Row]:
        if self.failure:
            raise self.failure
        try:
            return self._connection.execute(postgres_sql(sql).encode(), storable(values))
        except psycopg.Error as error:
            explanation = explained(error)
            self.failure = explanation or error
            if explanation is None:
                raise
            raise explanation from error


def connect(url: Secret) -> Connection:
    """A connection that returns rows as SQLite does, on which every wait is bounded. Transactions begin explicitly."""
    connection: Connection = psycopg.connect(
        url.reveal(),
        autocommit=True,
        connect_timeout=CONNECT_SECONDS,
        application_name="cellwright",
        tcp_user_timeout=int(QUEUE_SECONDS * 1000),
    )
    adapters = connection.adapters
    adapters.register_loader("numeric", NumberLoader)
    adapters.register_loader("bool", BoolLoader)
    adapters.register_loader("json", TextLoader)
    adapters.register_loader("jsonb", TextLoader)
    # One type for whole numbers, whatever their size, so that sums do not overflow a smaller one.
    adapters.register_dumper(int, Int8Dumper)
    connection.execute(CONFIGURE, (f"{WORK_SECONDS:.0f}s", f"{LOCK_SECONDS}s", f"{WORK_SECONDS * 2:.0f}s"))
    return connection


class PostgresConnection:
    """A thread's connection."""

    def __init__(self, raw: Connection) -> None:
        self.raw = raw

    def transact(self, begin: str, job: DatabaseJob, work: Callable[[Transaction], T]) -> T:
        """Run work between `begin` and COMMIT. Whatever goes wrong before the commit, everything is rolled back."""
        connection = self.raw
        committing = False
        try:
            connection.execute(begin.encode())
            tx = PostgresTransaction(connection)
            result = work(tx)
            if tx.failure:
                raise tx.failure
            job.check()
            committing = True
            connection.execute("COMMIT")
        except psycopg.OperationalError as error:
            if committing and begin != READ and lost(connection):
                raise CommitUnknown(
                    "the connection to the database was lost while a change was being committed",
                    hint="read what it was about before you make it again",
                ) from error
            raise
        finally:
            if not lost(connection) and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        return result

    def interrupt(self) -> None:
        """Ask the server to stop what it does for this connection. If it does not answer, its own time limit ends the work."""
        with suppress(psycopg.Error):
            self.raw.cancel_safe(timeout=CANCEL_SECONDS)

    def close(self) -> None:
        self.raw.close()


class PostgresDatabase:
    """A server that is connected to, and migrated, at its first use."""

    engine = Engine.POSTGRESQL

    def __init__(self, url: Secret, migrations: Iterable[Migration] = ()) -> None:
        try:
            conninfo_to_dict(url.reveal())
        except psycopg.Error:
            raise ConfigError(
                "--database is not an address of a PostgreSQL server", hint="postgresql://user:password@host:5432/name"
            ) from None
        self._url = url
        self._migrations = checked(migrations)
        self._writers = Workers("cellwright-write", WRITERS, self._open)
        self._readers = Workers("cellwright-read", READERS, self._open)

    async def read(self, work: Callable[[Transaction], T]) -> T:
        def run(tx: Transaction) -> T:
            try:
                return work(tx)
            except StorageReadOnly as error:
                raise RuntimeError("work that writes was given to `read`") from error

        return await self._readers.run(lambda _, job: self._run(self._readers, READ, job, run))

    async def write(self, work: Callable[[Transaction], T]) -> T:
        return await self._writers.run(lambda _, job: self._run(self._writers, WRITE, job, work))

    async def write_soon(self, work: Callable[[Transaction], T]) -> T:
        return await self._writers.run(lambda _, job: self._run(self._writers, WRITE_SOON, job, work))

    async def change_mark(self) -> str:
        # The set of visible transactions: it is equal if and only if nobody has committed anything in between.
        return await self.read(lambda tx: str((tx.row("SELECT pg_current_snapshot()::text") or ("",))[0]))

    async def close(self) -> None:
        await self._readers.close()
        await self._writers.close()

    def _run(
        self, workers: Workers[PostgresConnection], begin: str, job: DatabaseJob, work: Callable[[Transaction], T]
    ) -> T:
        try:
            return self._run_with_retries(workers, begin, job, work)
        finally:
            if job.finish():
                # The interruption may reach the server only now, and must not hit the next job on this connection.
                workers.discard()

    def _run_with_retries(
        self, workers: Workers[PostgresConnection], begin: str, job: DatabaseJob, work: Callable[[Transaction], T]
    ) -> T:
        """Run the work, again if another transaction came first or if the connection was lost before the commit."""
        reconnected = False
        for attempt in count(1):
            connection = workers.connection()
            job.interrupt = connection.interrupt
            # Only after the line above: whoever abandons the job then calls `interrupt`.
            job.check()
            try:
                return connection.transact(begin, job, work)
            except (psycopg.Error, CellwrightError) as error:
                if lost(connection.raw):
                    workers.discard()
                    again = not reconnected and not isinstance(error, CommitUnknown)
                    reconnected = True
                else:
                    again = _lost_race(error) and time.monotonic() - job.started_at < QUEUE_SECONDS
                if not again:
                    explanation = explained(error) if isinstance(error, psycopg.Error) else None
                    if explanation is None:
                        raise
                    raise explanation from error
            time.sleep(secrets.SystemRandom().uniform(0, min(LONGEST_PAUSE, 0.002 * 2 ** min(attempt, 10))))
        raise AssertionError

    def _open(self) -> PostgresConnection:
        with ExitStack() as undo:
            try:
                connection = PostgresConnection(connect(self._url))
            except psycopg.Error as error:
                log.warning("postgres_does_not_let_us_in error=%s", type(error).__name__)
                # The library's message may quote the address, and the password in it.
                raise unreachable() from None
            undo.callback(connection.close)
            try:
                self._migrate(connection.raw)
            except psycopg.Error as error:
                if explanation := explained(error):
                    raise explanation from error
                raise
            undo.pop_all()
        return connection

    def _migrate(self, connection: Connection) -> None:
        tx = PostgresTransaction(connection)
        has_tables = connection.execute("SELECT to_regclass('cellwright_migrations') IS NOT NULL").fetchone()
        if has_tables == (1,) and not pending(tx, self._migrations):
            return
        # READ COMMITTED, so that after the lock we read what its previous holder committed.
        with connection.transaction():
            connection.execute("SET LOCAL statement_timeout = 0")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
            migrate(tx, Engine.POSTGRESQL, self._migrations)


def _lost_race(error: psycopg.Error | CellwrightError) -> bool:
    cause = error.__cause__ if isinstance(error, CellwrightError) else error
    return isinstance(cause, pg.SerializationFailure | pg.DeadlockDetected)
