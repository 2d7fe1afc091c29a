"""What every database does, whichever engine it is."""

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from cellwright.core.errors import CellwrightError, Conflict, InvalidArgument, Unavailable
from cellwright.core.types import Secret
from cellwright.storage.database import Database, Engine, Transaction
from cellwright.storage.location import Location
from cellwright.storage.values import Value
from requirements import requirement
from support import until

pytestmark = pytest.mark.anyio
OpenDatabase = Callable[..., Database]
INSERT = "INSERT INTO cells (id, name, number, ratio, data) VALUES (?, ?, ?, ?, ?)"
# A query that needs seconds, in a form both engines take.
LONG = (
    "WITH RECURSIVE steps (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM steps WHERE n < {}) "
    "SELECT count(*), sum(n) FROM steps"
)


def add(id_: int, name: str | None = None, number: int = 0) -> Callable[[Transaction], int]:
    return lambda tx: tx.run(INSERT, id_, name, number, None, None)


async def names(database: Database) -> list[Value]:
    return [name for (name,) in await database.read(lambda tx: tx.rows("SELECT name FROM cells ORDER BY id"))]


@requirement("storage:values:round-trip")
@pytest.mark.parametrize(
    "row",
    [
        (1, "plain", 0, 0.0, b""),
        (2, "", -(2**63), -1.5e300, bytes(range(256))),
        (3, "日本 🎉 o'brien ? % %s \\ \" \u202e \x01\x7f", 2**63 - 1, 5e-324, b"\0"),
        (4, None, None, None, None),
        (5, '{"a": [1, 2.50, null], "z": "é"}', 1, 1.0, "é".encode()),
    ],
    ids=["plain", "smallest", "strange", "nothing", "json"],
)
async def test_values_come_back_as_they_were_stored(database: Database, row: tuple[Value, ...]) -> None:
    assert await database.write(lambda tx: tx.run(INSERT, *row)) == 1
    (found,) = await database.read(lambda tx: tx.rows("SELECT id, name, number, ratio, data FROM cells"))
    assert found == row
    assert [type(value) for value in found] == [type(value) for value in row]


@requirement("storage:values:round-trip")
async def test_large_values_come_back_as_they_were_stored(database: Database) -> None:
    text, data = "日x" * 1_000_000, bytes(range(256)) * 8_000
    await database.write(lambda tx: tx.run("INSERT INTO cells (body, data) VALUES (?, ?)", text, data))
    assert await database.read(lambda tx: tx.row("SELECT body, data FROM cells")) == (text, data)


@requirement("storage:values:round-trip")
async def test_what_engines_compute_is_alike(database: Database) -> None:
    def work(tx: Transaction) -> list[tuple[Value, ...] | None]:
        tx.run(INSERT, 1, "a", 2**40, 0.5, None)
        tx.run(INSERT, 2, "b", 2**41, 1.5, None)
        return [
            tx.row("SELECT count(*), sum(number), sum(ratio), max(name), min(data) FROM cells"),
            tx.row("SELECT EXISTS (SELECT 1 FROM cells WHERE id = ?), 1 = 2", 1),
            tx.row("SELECT ? + ?, ? || ?", 30_000, 30_000, "a%", "?"),
            tx.row("SELECT id FROM cells WHERE name = ? LIMIT ?", "nobody", 5),
            tx.row("SELECT coalesce(sum(number), 0) FROM cells WHERE id > ?", 10),
        ]

    expected = [(2, 2**40 + 2**41, 2.0, "b", None), (1, 0), (60_000, "a%?"), None, (0,)]
    found = await database.write(work)
    assert found == expected
    assert not any(isinstance(value, bool) for row in found if row for value in row)


@requirement("storage:values:round-trip")
async def test_changes_are_counted_and_returned(database: Database) -> None:
    def work(tx: Transaction) -> None:
        assert tx.rows("INSERT INTO cells (name) VALUES (?), (?) RETURNING id", "a", "b") == [(1,), (2,)]
        assert tx.run("UPDATE cells SET number = ?", True) == 2
        assert tx.run("DELETE FROM cells WHERE name = ?", "x") == 0
        upsert = "INSERT INTO cells (id, name) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name"
        assert tx.run(upsert, 1, "c") == 1
        assert tx.rows("SELECT name, number FROM cells ORDER BY id") == [("c", 1), ("b", 1)]

    await database.write(work)


@requirement("storage:values:refused")
@pytest.mark.parametrize(
    "row",
    [(1, "a\0b", 0), (1, "half \ud83c", 0), (1, "a", 2**63), (1, "a", -(2**63) - 1)],
    ids=["nul", "surrogate", "large", "small"],
)
async def test_values_that_would_change_are_refused(database: Database, row: tuple[int, str, int]) -> None:
    with pytest.raises(InvalidArgument, match="stored"):
        await database.write(add(*row))
    with pytest.raises(InvalidArgument, match="not a number"):
        await database.write(lambda tx: tx.run(INSERT, 1, "a", 0, float("nan"), None))
    assert await names(database) == []


@requirement("storage:order:code-points")
async def test_text_sorts_by_code_point(database: Database) -> None:
    words = ["b", "a", "B", "A", "ä", "_", "é", "Z", "z", "🎉", "\uffff", "a b", "a_b", "ab"]
    await database.write(lambda tx: [add(number, word)(tx) for number, word in enumerate(words)])
    found = await database.read(lambda tx: tx.rows("SELECT name FROM cells ORDER BY name"))
    assert [name for (name,) in found] == sorted(words)
    between = await database.read(lambda tx: tx.rows("SELECT name FROM cells WHERE name >= ? AND name < ?", "a", "b"))
    assert {name for (name,) in between} == {"a", "a b", "a_b", "ab"}
    if database.engine is Engine.POSTGRESQL:
        # The server of these tests has no other locale: that ours is asked for is seen in the catalogue.
        sql = "SELECT DISTINCT collation_name FROM information_schema.columns WHERE table_name = ? AND data_type = ?"
        assert await database.read(lambda tx: tx.rows(sql, "cells", "text")) == [("C",)]


@requirement("storage:transaction:all-or-nothing")
async def test_what_raises_undoes_everything(database: Database) -> None:
    def work(tx: Transaction) -> None:
        add(1, "gone")(tx)
        raise LookupError("on purpose")

    with pytest.raises(LookupError, match="on purpose"):
        await database.write(work)
    assert await names(database) == []
    await database.write(add(1, "stays"))
    assert await names(database) == ["stays"]


@requirement("storage:transaction:all-or-nothing", "storage:transaction:conflict")
async def test_a_swallowed_failure_is_not_committed(database: Database) -> None:
    await database.write(add(1, "one"))

    def work(tx: Transaction) -> str:
        add(2, "two")(tx)
        for _ in range(2):
            with pytest.raises(Conflict, match="exists already"):
                add(3, "one")(tx)
        return "as if nothing had been"

    with pytest.raises(Conflict, match="exists already"):
        await database.write(work)
    assert await names(database) == ["one"]


@requirement("storage:transaction:conflict")
async def test_a_row_that_points_at_nothing_is_a_conflict(database: Database) -> None:
    with pytest.raises(Conflict, match="does not exist"):
        await database.write(lambda tx: tx.run("INSERT INTO tags VALUES (?, ?)", 7, "x"))
    await database.write(lambda tx: (add(7)(tx), tx.run("INSERT INTO tags VALUES (?, ?)", 7, "x")))
    await database.write(lambda tx: tx.run("DELETE FROM cells WHERE id = ?", 7))
    assert await database.read(lambda tx: tx.rows("SELECT * FROM tags")) == []


@requirement("storage:transaction:serial")
async def test_no_update_is_lost_between_connections(where: Location, opened: OpenDatabase) -> None:
    both = [opened(where), opened(where)]
    await both[0].write(add(1, "counter"))

    def increment(tx: Transaction) -> int:
        ((number,),) = tx.rows("SELECT number FROM cells WHERE id = 1")
        assert isinstance(number, int)
        tx.run("UPDATE cells SET number = ? WHERE id = 1", number + 1)
        return number + 1

    seen = await asyncio.gather(*(both[turn % 2].write(increment) for turn in range(40)))
    assert sorted(seen) == list(range(1, 41))


@requirement("storage:transaction:serial")
async def test_two_that_look_before_they_leap_do_not_both_leap(where: Location, opened: OpenDatabase) -> None:
    """Each takes a place if fewer than five are taken: a rule over rows that neither of them changes."""
    both = [opened(where), opened(where)]

    def take(tx: Transaction) -> bool:
        ((taken,),) = tx.rows("SELECT count(*) FROM cells")
        assert isinstance(taken, int)
        if taken < 5:
            tx.run("INSERT INTO cells (name) VALUES (?)", f"{threading.get_ident()}-{time.monotonic_ns()}")
        return taken < 5

    got = await asyncio.gather(*(both[turn % 2].write(take) for turn in range(16)))
    assert sum(got) == 5
    assert len(await names(both[0])) == 5


@requirement("storage:read:consistent")
async def test_one_read_sees_one_moment(database: Database) -> None:
    await database.write(add(1, "before"))
    begun, written = threading.Event(), threading.Event()

    def look_twice(tx: Transaction) -> tuple[int, int]:
        first = len(tx.rows("SELECT * FROM cells"))
        begun.set()
        assert written.wait(20)
        return first, len(tx.rows("SELECT * FROM cells"))

    reading = asyncio.create_task(database.read(look_twice))
    await until(begun.is_set, "the read has begun")
    await database.write(add(2, "after"))
    written.set()
    assert await reading == (1, 1)
    assert len(await names(database)) == 2


@requirement("storage:read:only")
async def test_a_read_cannot_write(database: Database) -> None:
    with pytest.raises(RuntimeError, match="given to `read`"):
        await database.read(add(1, "sneaky"))
    assert await names(database) == []


@requirement("storage:change-mark")
async def test_the_mark_tells_changes_by_others(where: Location, opened: OpenDatabase) -> None:
    mine, other = opened(where), opened(where)
    await other.write(add(1, "one"))
    mark = await mine.change_mark()
    assert await names(mine) == ["one"]
    assert await mine.change_mark() == mark
    await other.write(lambda tx: tx.rows("SELECT * FROM cells"))
    assert await mine.change_mark() == mark
    await other.write(add(2, "two"))
    changed = await mine.change_mark()
    assert changed != mark
    with pytest.raises(Conflict):
        await other.write(add(2, "two"))
    await mine.write(add(3, "three"))
    assert await mine.change_mark() not in {mark, changed}


@requirement("storage:loop:free")
@pytest.mark.parametrize("kind", ["read", "write"])
async def test_the_loop_goes_on_while_the_database_works(database: Database, kind: str) -> None:
    await names(database)
    # Chosen so that it lasts about a second on a slow machine; how long it really took is looked at.
    sql = LONG.format(1_500_000 if database.engine is Engine.SQLITE else 700_000)
    began = time.monotonic()
    run = database.read if kind == "read" else database.write
    working = asyncio.create_task(run(lambda tx: tx.row(sql)))
    gaps: list[float] = []
    while not working.done():
        last = time.monotonic()
        await asyncio.sleep(0.005)
        gaps.append(time.monotonic() - last)
    took = time.monotonic() - began
    assert working.result() is not None
    assert took > 0.1
    assert max(gaps) < took / 2
    assert len(gaps) > 5


@requirement("storage:cancel")
async def test_a_write_whose_caller_has_gone_is_not_committed(database: Database) -> None:
    begun, cancelled, ended = threading.Event(), threading.Event(), threading.Event()

    def work(tx: Transaction) -> None:
        add(1, "unwanted")(tx)
        begun.set()
        assert cancelled.wait(20)
        ended.set()

    writing = asyncio.create_task(database.write(work))
    await until(begun.is_set, "the write has begun")
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    cancelled.set()
    await until(ended.is_set, "the write has ended")
    # SQLite has one writer, so this comes after it; PostgreSQL would have it wait for the same row.
    await database.write(add(1, "wanted"))
    assert await names(database) == ["wanted"]


@requirement("storage:cancel")
@pytest.mark.parametrize("kind", ["read", "write"])
async def test_a_long_query_ends_soon_after_its_caller_has_gone(
    where: Location, opened: OpenDatabase, kind: str
) -> None:
    database = opened(where)
    await database.write(lambda tx: tx.rows("SELECT 1"))
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    endless = "SELECT pg_sleep(50)"
    if database.engine is Engine.SQLITE:
        endless = "WITH RECURSIVE steps (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM steps) SELECT count(*) FROM steps"
    call = database.read if kind == "read" else database.write
    working = asyncio.create_task(call(lambda tx: (loop.call_soon_threadsafe(begun.set), tx.rows(endless))))
    async with asyncio.timeout(20):
        await begun.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        began = time.monotonic()
        # Closing waits for all work, so it ends only because the query did.
        await database.close()
    assert time.monotonic() - began < 5


@requirement("storage:close")
async def test_closing_waits_for_what_is_being_written(where: Location, opened: OpenDatabase) -> None:
    database = opened(where)
    begun, go_on = threading.Event(), threading.Event()

    def work(tx: Transaction) -> None:
        begun.set()
        assert go_on.wait(20)
        add(1, "written")(tx)

    writing = asyncio.create_task(database.write(work))
    await until(begun.is_set, "the write has begun")
    closing = asyncio.create_task(database.close())
    await asyncio.sleep(0)
    assert not closing.done()
    go_on.set()
    await closing
    await writing
    for call in (database.read, database.write):
        with pytest.raises(Unavailable, match="closed"):
            await call(add(2, "late"))
    await database.close()
    assert await names(opened(where)) == ["written"]


@requirement("storage:lazy")
async def test_nothing_is_touched_before_the_first_use(where: Location, opened: OpenDatabase) -> None:
    database = opened(where)
    await database.close()
    assert isinstance(where, Secret) or not where.parent.exists()
    unreachable = opened(Secret("postgresql://nobody@127.0.0.1:1/none"))
    with pytest.raises(CellwrightError):
        await unreachable.read(lambda tx: tx.row("SELECT 1"))
