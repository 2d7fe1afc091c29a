"""How the database's tables are created: each part brings its migrations in order, and each is applied once, forward only.

    MIGRATIONS = (
        Migration("scratch", 1, ("CREATE TABLE pads (tenant TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (tenant, id)) STRICT",)),
        Migration("scratch", 2, (PerEngine(sqlite=("CREATE VIRTUAL TABLE …",), postgresql=("CREATE INDEX … USING gin …",)),)),
    )

Tables are declared with SQLite's types (INTEGER, REAL, TEXT, BLOB; STRICT, so that SQLite checks them). dialect.py translates them for
PostgreSQL.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cellwright.storage.database import Engine, Transaction
from cellwright.storage.dialect import postgres_ddl
from cellwright.storage.errors import NewerDatabase


@dataclass(frozen=True, slots=True)
class PerEngine:
    """Statements that differ between the engines."""

    sqlite: tuple[str, ...] = ()
    postgresql: tuple[str, ...] = ()


Step = str | PerEngine | Callable[[Transaction], None]


@dataclass(frozen=True, slots=True)
class Migration:
    """One change of one part's tables. It is never edited after its release; a later version follows it."""

    part: str
    version: int
    statements: tuple[Step, ...]


RECORD = (
    "CREATE TABLE IF NOT EXISTS cellwright_migrations ("
    "part TEXT NOT NULL, version INTEGER NOT NULL, applied_at REAL NOT NULL, PRIMARY KEY (part, version)) STRICT"
)


def checked(migrations: Iterable[Migration]) -> tuple[Migration, ...]:
    """The migrations. ValueError unless the versions of each part are 1, 2, 3 … in this order."""
    last: dict[str, int] = {}
    steps = tuple(migrations)
    for migration in steps:
        if migration.version != last.get(migration.part, 0) + 1:
            raise ValueError(f"{migration.part}: version {migration.version} is out of order")
        last[migration.part] = migration.version
    return steps


def pending(tx: Transaction, migrations: Sequence[Migration]) -> list[Migration]:
    """The migrations that this database lacks. NewerDatabase if it has one that this program does not know.

    Migrations of a part that this program does not have at all are ignored: nothing here touches its tables.
    """
    applied = {(str(part), version) for part, version in tx.rows("SELECT part, version FROM cellwright_migrations")}
    latest: dict[str, int] = {}
    for migration in migrations:
        latest[migration.part] = migration.version
    for part, version in sorted(applied, key=str):
        if part in latest and isinstance(version, int) and version > latest[part]:
            raise NewerDatabase(
                f"the database was written by a newer cellwright ({part} {version}, this one knows {latest[part]})",
                hint="run that version again, or restore a backup that this one made",
            )
    return [migration for migration in migrations if (migration.part, migration.version) not in applied]


def migrate(tx: Transaction, engine: Engine, migrations: Sequence[Migration]) -> None:
    """Apply the missing migrations. The caller holds the lock that keeps others from doing the same."""
    tx.run(postgres_ddl(RECORD) if engine is Engine.POSTGRESQL else RECORD)
    for migration in pending(tx, migrations):
        for step in migration.statements:
            _run_step(tx, engine, step)
        tx.run("INSERT INTO cellwright_migrations VALUES (?, ?, ?)", migration.part, migration.version, time.time())


def _run_step(tx: Transaction, engine: Engine, step: Step) -> None:
    match step:
        case str():
            tx.run(postgres_ddl(step) if engine is Engine.POSTGRESQL else step)
        case PerEngine():
            for statement in step.postgresql if engine is Engine.POSTGRESQL else step.sqlite:
                tx.run(statement)
        case _:
            step(tx)
