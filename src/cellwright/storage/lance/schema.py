"""What the database stores for a LanceDB index: which entries changed, and how far each index is.

Triggers record the changes, so those of processes without such an index count too. Each entry is listed once, with its last change. In
SQLite changes are numbered as they are committed. In PostgreSQL a change has the number of its transaction, and counts once no older
transaction is running.
"""

import secrets
from typing import cast

from cellwright.storage.database import Engine, Transaction
from cellwright.storage.migrations import Migration, PerEngine, migrate

SQLITE = (
    """CREATE TABLE lance_changes (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        entry INTEGER NOT NULL UNIQUE,
        tenant TEXT NOT NULL
    ) STRICT""",
    *(
        f"CREATE TRIGGER lance_{table}_{event} AFTER {event} ON {table} BEGIN "  # noqa: S608 - our own names
        f"INSERT OR REPLACE INTO lance_changes (entry, tenant) VALUES ({row}.{column}, {row}.tenant); END"
        for table, column in (("search_entries", "id"), ("search_vectors", "entry"))
        for event, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD"))
    ),
)
NOTE = """CREATE FUNCTION lance_note_{column}() RETURNS trigger LANGUAGE plpgsql AS $note$
DECLARE changed record;
BEGIN
    IF TG_OP = 'DELETE' THEN changed := OLD; ELSE changed := NEW; END IF;
    INSERT INTO lance_changes (entry, tenant, number)
    VALUES (changed.{column}, changed.tenant, pg_current_xact_id()::text::bigint)
    ON CONFLICT (entry) DO UPDATE SET tenant = excluded.tenant, number = excluded.number;
    RETURN NULL;
END $note$"""
TRIGGER = (
    "CREATE OR REPLACE TRIGGER lance_{table} AFTER INSERT OR UPDATE OR DELETE ON {table} "
    "FOR EACH ROW EXECUTE FUNCTION lance_note_{column}()"
)
POSTGRESQL = (
    'CREATE TABLE lance_changes (entry BIGINT PRIMARY KEY, tenant TEXT COLLATE "C" NOT NULL, number BIGINT NOT NULL)',
    "CREATE INDEX lance_changes_number ON lance_changes (number)",
    NOTE.format(column="id"),
    NOTE.format(column="entry"),
    TRIGGER.format(table="search_entries", column="id"),
)


def _name_owner(tx: Transaction) -> None:
    tx.run("INSERT INTO lance_owner VALUES (?)", secrets.token_hex(6))


LOCK = "LOCK TABLE cellwright_migrations IN EXCLUSIVE MODE"
MIGRATIONS = (
    Migration(
        "lance",
        1,
        (
            PerEngine(SQLITE, POSTGRESQL),
            "CREATE INDEX lance_changes_tenant ON lance_changes (tenant, number)",
            # `stamp` is in the index as well, `next_stamp` while a batch is being written. An index that was replaced has another one.
            """CREATE TABLE lance_indexes (
                place TEXT NOT NULL PRIMARY KEY,
                name TEXT NOT NULL,
                dimensions INTEGER NOT NULL,
                stamp TEXT NOT NULL,
                next_stamp TEXT NOT NULL,
                applied INTEGER NOT NULL,
                copied INTEGER NOT NULL,
                holder TEXT NOT NULL,
                held_until REAL NOT NULL
            ) STRICT""",
            # Part of the names of tables: several databases may have their indexes in one place.
            "CREATE TABLE lance_owner (id TEXT NOT NULL) STRICT",
            _name_owner,
        ),
    ),
)


def prepare(tx: Transaction, engine: Engine) -> None:
    """Create the tables if they are missing. Only databases with such an index have them."""
    if engine is Engine.POSTGRESQL:
        tx.run(LOCK)
    migrate(tx, engine, MIGRATIONS)
    watch_vectors(tx, engine)


def watch_vectors(tx: Transaction, engine: Engine) -> None:
    """Create the trigger on the vectors in PostgreSQL, whose table comes with the first model. All its rows then count as changed."""
    if engine is not Engine.POSTGRESQL:
        return
    unwatched = tx.row(
        "SELECT 1 WHERE to_regclass('search_vectors') IS NOT NULL AND to_regproc('lance_note_entry') IS NOT NULL AND NOT EXISTS "
        "(SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass('search_vectors') AND tgname = 'lance_search_vectors')"
    )
    if unwatched is None:
        return
    # Without the lock, two processes could create it at the same time.
    tx.run(LOCK)
    tx.run(TRIGGER.format(table="search_vectors", column="entry"))
    tx.run("UPDATE search_vectors SET model = model")


def last_settled_change(tx: Transaction, engine: Engine) -> int:
    """All changes up to this number are visible, and none with a smaller number will follow."""
    if engine is Engine.POSTGRESQL:
        row = tx.row("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1")
    else:
        row = tx.row("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'lance_changes'")
    assert row is not None
    return cast("int", row[0])


def owner(tx: Transaction) -> str:
    """The id of this database in the names of tables."""
    row = tx.row("SELECT id FROM lance_owner")
    assert row is not None
    return cast("str", row[0])
