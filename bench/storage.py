"""The database port beside plain apsw in a thread: the same statements on a file with the same settings."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import apsw
from measure import Pair, Plan, Row, row

from cellwright.storage.database import Database, Transaction
from cellwright.storage.migrations import Migration
from cellwright.storage.sqlite.database import SqliteDatabase
from cellwright.storage.sqlite.file import connect, execute, prepare

COMMIT_TARGET = 1.3
READ_TARGET = 1.5
OPEN_TARGET = 1.2
MANY = 300_000
CELLS_OF_A_PAD = 100
WARM_CALLS = 20

PADS = "CREATE TABLE pads (id INTEGER PRIMARY KEY, version INTEGER NOT NULL) STRICT"
CELLS = "CREATE TABLE cells (pad INTEGER NOT NULL, position INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (pad, position)) STRICT"
FILL = (
    "WITH RECURSIVE steps (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM steps WHERE n < {} - 1) "
    "INSERT INTO cells SELECT n / 100, n % 100, printf('%0300d', n) FROM steps"
)
APPEND = "INSERT INTO cells SELECT ?, count(*), ? FROM cells WHERE pad = ?"
TOUCH = "UPDATE pads SET version = version + 1 WHERE id = ?"
READ = "SELECT position, body FROM cells WHERE pad = ? ORDER BY position"
TABLES = (Migration("bench", 1, (PADS, CELLS, "INSERT INTO pads VALUES (0, 0)", FILL.format(CELLS_OF_A_PAD))),)
BODY = "x" * 300
PAD = -1

Act = Callable[[], Awaitable[object]]


def append(tx: Transaction) -> None:
    tx.run(APPEND, PAD, BODY, PAD)
    tx.run(TOUCH, 0)


def plain_append(connection: apsw.Connection) -> None:
    execute(connection, "BEGIN IMMEDIATE")
    execute(connection, APPEND, (PAD, BODY, PAD))
    execute(connection, TOUCH, (0,))
    execute(connection, "COMMIT")


def plain_read(connection: apsw.Connection) -> None:
    assert len(execute(connection, READ, (0,))) == CELLS_OF_A_PAD


@contextmanager
def plain(file: Path) -> Generator[apsw.Connection]:
    """The floor: our settings, no more."""
    prepare(file)
    with closing(connect(file)) as connection:
        for statement in (PADS, CELLS, "INSERT INTO pads VALUES (0, 0)", FILL.format(CELLS_OF_A_PAD)):
            execute(connection, statement)
        yield connection


async def milliseconds(act: Act, calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        await act()
    return (time.perf_counter() - began) * 1000 / calls


async def pairs(ours: Act, floor: Act, plan: Plan) -> list[Pair]:
    """Rounds of both, the first one changing every round."""
    for act in (ours, floor):
        await milliseconds(act, WARM_CALLS)
    found: list[Pair] = []
    for number in range(plan.lives * plan.rounds):
        if number % 2:
            below = await milliseconds(floor, plan.calls)
            found.append((await milliseconds(ours, plan.calls), below))
        else:
            above = await milliseconds(ours, plan.calls)
            found.append((above, await milliseconds(floor, plan.calls)))
    return found


async def in_use(plan: Plan) -> list[Row]:
    database: Database = SqliteDatabase(plan.work / "ours.db", TABLES)
    loop = asyncio.get_running_loop()
    with plain(plan.work / "plain.db") as connection, ThreadPoolExecutor(1) as thread:
        commits = await pairs(
            partial(database.write, append), lambda: loop.run_in_executor(thread, plain_append, connection), plan
        )
        reads = await pairs(
            lambda: database.read(lambda tx: tx.rows(READ, 0)),
            lambda: loop.run_in_executor(thread, plain_read, connection),
            plan,
        )
    await database.close()
    return [
        row("storage: durable commit, beside plain apsw in a thread", "ms", commits, COMMIT_TARGET),
        row("storage: read 100 cells, beside plain apsw in a thread", "ms", reads, READ_TARGET),
    ]


async def first_read(file: Path) -> float:
    """From nothing to the first answer, as at the first use after a start."""
    began = time.perf_counter()
    database = SqliteDatabase(file, TABLES)
    await database.read(lambda tx: tx.rows(READ, 0))
    took = (time.perf_counter() - began) * 1000
    await database.close()
    return took


async def opening(plan: Plan) -> list[Row]:
    large, small = plan.work / "large.db", plan.work / "small.db"
    for file in (large, small):
        await first_read(file)
    with closing(connect(large)) as connection:
        execute(connection, "DELETE FROM cells")
        execute(connection, FILL.format(MANY))
    found: list[Pair] = []
    for _ in range(plan.lives * plan.rounds):
        sides = [(await first_read(large), await first_read(small)) for _ in range(3)]
        found.append((statistics.median(one for one, _ in sides), statistics.median(one for _, one in sides)))
    return [row(f"storage: first read, {MANY:,} cells beside 100", "ms", found, OPEN_TARGET)]


def storage(plan: Plan) -> list[Row]:
    # In a folder of its own: other benchmarks have files of these names.
    own = replace(plan, work=plan.work / "storage")
    own.work.mkdir()
    return asyncio.run(in_use(own)) + asyncio.run(opening(own))
