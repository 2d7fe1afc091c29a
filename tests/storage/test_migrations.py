"""How tables come to be, and that an older program does not touch what it does not know."""

import asyncio
from collections.abc import Callable

import pytest

from cellwright.storage.database import Database, Engine, Transaction
from cellwright.storage.dialect import postgres_ddl, postgres_sql
from cellwright.storage.errors import NewerDatabase
from cellwright.storage.location import Location
from cellwright.storage.migrations import Migration, PerEngine, checked
from requirements import requirement

OpenDatabase = Callable[..., Database]
APPLIED = "SELECT part, version FROM cellwright_migrations WHERE part <> 'storage' ORDER BY part, version"
FIRST = Migration("notes", 1, ("CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT NOT NULL) STRICT",))


def fill(tx: Transaction) -> None:
    for number, title in tx.rows("SELECT id, title FROM notes"):
        tx.run("UPDATE notes SET length = ? WHERE id = ?", len(str(title)), number)


SECOND = Migration("notes", 2, ("ALTER TABLE notes ADD COLUMN length INTEGER", fill))
THIRD = Migration(
    "notes",
    3,
    (
        PerEngine(
            sqlite=("CREATE VIRTUAL TABLE notes_words USING fts5(title)", "INSERT INTO notes_words VALUES ('sqlite')"),
            postgresql=("CREATE TABLE notes_words (title text)", "INSERT INTO notes_words VALUES ('postgresql')"),
        ),
    ),
)


@requirement("storage:migrations:forward")
@pytest.mark.anyio
async def test_an_older_database_is_brought_forward_and_keeps_its_data(where: Location, opened: OpenDatabase) -> None:
    old = opened(where, [FIRST])
    await old.write(lambda tx: tx.run("INSERT INTO notes (title) VALUES (?)", "four"))
    assert await old.read(lambda tx: tx.rows(APPLIED)) == [("notes", 1)]
    new = opened(where, [FIRST, SECOND, THIRD])
    assert await new.read(lambda tx: tx.rows("SELECT * FROM notes")) == [(1, "four", 4)]
    assert await new.read(lambda tx: tx.rows("SELECT title FROM notes_words")) == [(new.engine.value,)]
    again = opened(where, [FIRST, SECOND, THIRD])
    assert await again.read(lambda tx: tx.rows(APPLIED)) == [("notes", 1), ("notes", 2), ("notes", 3)]


@requirement("storage:migrations:newer")
@pytest.mark.anyio
async def test_an_older_program_refuses_a_newer_database(where: Location, opened: OpenDatabase) -> None:
    newer = opened(where, [FIRST, SECOND])
    await newer.write(lambda tx: tx.run("INSERT INTO notes (title) VALUES ('kept')"))
    older = opened(where, [FIRST])
    for call in (older.read, older.write):
        with pytest.raises(NewerDatabase, match=r"written by a newer cellwright \(notes 2, this one knows 1\)"):
            await call(lambda tx: tx.run("DELETE FROM notes"))
    without = opened(where, [])
    assert await without.read(lambda tx: tx.rows(APPLIED)) == [("notes", 1), ("notes", 2)]
    assert await newer.read(lambda tx: tx.rows("SELECT title FROM notes")) == [("kept",)]


@requirement("storage:migrations:whole")
@pytest.mark.anyio
async def test_a_migration_that_fails_leaves_nothing_behind(where: Location, opened: OpenDatabase) -> None:
    def fail(tx: Transaction) -> None:
        tx.run("INSERT INTO notes (title) VALUES ('half')")
        raise LookupError("on purpose")

    for _ in range(2):
        with pytest.raises(LookupError, match="on purpose"):
            await opened(where, [FIRST, Migration("notes", 2, (fail,))]).read(lambda tx: tx.rows("SELECT 1"))
    mended = opened(where, [FIRST, SECOND])
    assert await mended.read(lambda tx: tx.rows("SELECT * FROM notes")) == []
    assert await mended.read(lambda tx: tx.rows(APPLIED)) == [("notes", 1), ("notes", 2)]


@requirement("storage:migrations:at-once")
@pytest.mark.anyio
async def test_many_at_once_make_the_tables_once(where: Location, opened: OpenDatabase) -> None:
    many = [opened(where, [FIRST, SECOND, THIRD]) for _ in range(6)]
    both = [call for database in many for call in (database.read, database.write)]
    assert await asyncio.gather(*(call(lambda tx: tx.rows(APPLIED)) for call in both)) == [
        [("notes", 1), ("notes", 2), ("notes", 3)]
    ] * len(both)


@requirement("storage:migrations:forward")
def test_versions_out_of_order_are_a_mistake() -> None:
    other = Migration("other", 1, ())
    assert checked([FIRST, other, SECOND]) == (FIRST, other, SECOND)
    for wrong in ([SECOND], [FIRST, THIRD], [FIRST, FIRST]):
        with pytest.raises(ValueError, match="out of order"):
            checked(wrong)


@requirement("storage:dialect")
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("SELECT ?, ?", "SELECT %s, %s"),
        ("SELECT '?', ?, 'it''s ?'", "SELECT '?', %s, 'it''s ?'"),
        ('SELECT "?" FROM t WHERE a = ?', 'SELECT "?" FROM t WHERE a = %s'),
        ("SELECT ? -- why?\n, ?", "SELECT %s -- why?\n, %s"),
        ("SELECT /* ? ' */ ?", "SELECT /* ? ' */ %s"),
        ("SELECT $$ ? $$, $q$ $$ ? $q$, ?", "SELECT $$ ? $$, $q$ $$ ? $q$, %s"),
        ("SELECT 10 % 3, '%s', ?", "SELECT 10 %% 3, '%%s', %s"),
    ],
)
def test_placeholders_are_translated_outside_quotes(ours: str, theirs: str) -> None:
    assert postgres_sql(ours) == theirs


@requirement("storage:dialect")
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'TEXT', \"REAL\" REAL, b blob) STRICT, WITHOUT ROWID",
            (
                "CREATE TABLE t (id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, "
                'a TEXT COLLATE "C" DEFAULT \'TEXT\', "REAL" DOUBLE PRECISION, b BYTEA)'
            ),
        ),
        ("ALTER TABLE t ADD COLUMN n INTEGER", "ALTER TABLE t ADD COLUMN n BIGINT"),
        ("CREATE TABLE t (context TEXT)", 'CREATE TABLE t (context TEXT COLLATE "C")'),
        ("INSERT INTO text VALUES (1)", "INSERT INTO text VALUES (1)"),
    ],
)
def test_types_are_translated_where_tables_are_made(ours: str, theirs: str) -> None:
    assert postgres_ddl(ours) == theirs


@requirement("storage:dialect")
@pytest.mark.anyio
async def test_signs_in_literals_reach_the_engine_unchanged(database: Database) -> None:
    sql = "SELECT '?%s%%', ?, 17 % 5"
    assert await database.read(lambda tx: tx.row(sql, "%s ?")) == ("?%s%%", "%s ?", 2)
    assert await database.read(lambda tx: tx.row("SELECT '100%'")) == ("100%",)
    assert database.engine in set(Engine)
