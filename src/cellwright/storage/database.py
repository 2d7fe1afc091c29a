"""The database port: whole transactions, run off the event loop, in one SQL that both engines understand.

    async def rename(database: Database, tenant: str, pad: str, title: str) -> None:
        def work(tx: Transaction) -> None:
            if not tx.run("UPDATE pads SET title = ? WHERE tenant = ? AND id = ?", title, tenant, pad):
                raise NotFound(...)
        await database.write(work)

A transaction's work is a plain function: it reads and writes through `tx` and nothing else, and may be run again if the engine asks for
it. What it raises undoes everything; so does a failed statement, even if the work swallows it. The SQL is the common subset of SQLite
and PostgreSQL (`?` for values, `ON CONFLICT`, `RETURNING`, no `LIKE`: its idea of case differs); where the two differ, a part asks
`database.engine` once and chooses. Text compares and sorts by code point in both.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol, TypeVar

from cellwright.storage.values import Row, Value

T = TypeVar("T")


class Engine(StrEnum):
    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


class Transaction(Protocol):
    """One transaction, seen by the work that runs in it.

    InvalidArgument for a value that cannot be kept as it is; Conflict for a row that would stand twice or point at nothing.
    """

    def run(self, sql: str, *values: Value) -> int:
        """Change something. How many rows that were."""
        ...

    def rows(self, sql: str, *values: Value) -> list[Row]: ...

    def row(self, sql: str, *values: Value) -> Row | None:
        """The first row, if there is one."""
        ...


class Database(Protocol):
    """Where everything durable is. Nothing is opened before it is used."""

    @property
    def engine(self) -> Engine: ...

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run work that only reads, on one consistent state."""
        ...

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run work that changes things. When this returns, it is on disk; if it raises, nothing happened.

        A caller that is cancelled leaves the work undone, unless it was already being committed.
        """
        ...

    async def write_soon(self, work: Callable[[Transaction], T]) -> T:
        """As `write`, but not forced to the disk: for what may be lost with the power, though not with this process.

        A later `write` takes it to the disk with it.
        """
        ...

    async def change_mark(self) -> str:
        """A text that differs once anybody, here or in another process, has changed something. Compare it, nothing else."""
        ...

    async def close(self) -> None:
        """Wait for what is being written, then let go of everything."""
        ...
