"""The database port: whole transactions, run off the event loop, in SQL that both engines understand.

    async def rename(database: Database, tenant: str, pad: str, title: str) -> None:
        def work(tx: Transaction) -> None:
            if not tx.run("UPDATE pads SET title = ? WHERE tenant = ? AND id = ?", title, tenant, pad):
                raise NotFound(...)
        await database.write(work)

A transaction's work is a plain function. It has no effects except through `tx`, because it is run again if the engine asks for that. An
exception rolls everything back; so does a failed statement, even if the work swallows its error. The SQL is the common subset of SQLite
and PostgreSQL (`?` for values, `ON CONFLICT`, `RETURNING`, but no `LIKE`, which treats case differently). Where the two differ, a part
asks for `database.engine` once and chooses. Both compare and sort text by code point.
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
    """One transaction, as the work that runs in it sees it.

    InvalidArgument for a value that cannot be stored unchanged; Conflict for a row that is a duplicate or refers to nothing.
    """

    def run(self, sql: str, *values: Value) -> int:
        """Run a statement that changes rows. Returns how many it changed."""
        ...

    def rows(self, sql: str, *values: Value) -> list[Row]: ...

    def row(self, sql: str, *values: Value) -> Row | None:
        """The first row, if there is one."""
        ...


class Database(Protocol):
    """Where everything durable is stored. Nothing is opened before the first use."""

    @property
    def engine(self) -> Engine: ...

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run work that only reads. It sees one consistent state."""
        ...

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run work that changes things. When this returns, the changes are on disk; if it raises, nothing has changed.

        If the caller is cancelled, the work is rolled back, unless its commit had already started.
        """
        ...

    async def write_soon(self, work: Callable[[Transaction], T]) -> T:
        """Like `write`, but not forced to the disk: a power cut may lose the changes, the end of this process does not.

        A later `write` brings them to the disk as well.
        """
        ...

    async def change_mark(self) -> str:
        """A text that is different after any change, by this process or another. It is only good for comparing."""
        ...

    async def close(self) -> None:
        """Wait for running work, then close all connections."""
        ...
