"""The database port: whole transactions, run off the event loop, in one SQL that both engines understand.

    async def rename(database: Database, tenant: str, pad: str, title: str) -> None:
        def work(tx: Transaction) -> None:
            if not tx.run("UPDATE pads SET title = ? WHERE tenant = ? AND id = ?", title, tenant, pad):
                raise NotFound(...)
        await database.write(work)

A transaction's work is a plain function: it reads and writes through `tx` and nothing else, and may be run again if the engine asks for
it. What it raises undoes everything. The SQL is the common subset of SQLite and PostgreSQL (`?` for values, `ON CONFLICT`, `RETURNING`);
where the two differ, a part asks `database.engine` once and chooses.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol, TypeVar

T = TypeVar("T")
Value = str | int | float | bytes | None
Row = tuple[Value, ...]


class Engine(StrEnum):
    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


class Transaction(Protocol):
    """One transaction, seen by the work that runs in it."""

    def run(self, sql: str, *values: Value) -> int:
        """Change something. How many rows that were."""
        ...

    def rows(self, sql: str, *values: Value) -> list[Row]: ...

    def row(self, sql: str, *values: Value) -> Row | None:
        """The first row, if there is one."""
        ...


class Database(Protocol):
    """Where everything durable is."""

    @property
    def engine(self) -> Engine: ...

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run work that only reads, on one consistent state."""
        ...

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run work that changes things. When this returns, it is on disk; if it raises, nothing happened."""
        ...

    async def close(self) -> None: ...
