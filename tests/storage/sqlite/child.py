"""What tests of durability run in processes of their own.

child.py nursery FILE        for each line on stdin fork one that writes until it is killed; says `pid N`, then `ack N` after each commit
child.py count FILE TIMES    count to TIMES in the shared database
child.py crowd FOLDER ROUNDS so often, six at the same moment make one new file and write into it; says how each round ended
child.py limit FILE          meet a limit on file sizes, which is an I/O error to SQLite, and go on after it
"""

import asyncio
import json
import os
import resource
import sys
from pathlib import Path

from cellwright.core.errors import CellwrightError
from cellwright.storage.database import Transaction
from cellwright.storage.migrations import Migration
from cellwright.storage.sqlite.database import SqliteDatabase

KEPT = 5
TABLES = (
    Migration(
        "child",
        1,
        (
            "CREATE TABLE counter (number INTEGER NOT NULL) STRICT",
            "CREATE TABLE cells (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT",
            "CREATE TABLE tags (cell INTEGER NOT NULL REFERENCES cells (id) ON DELETE CASCADE, tag TEXT NOT NULL) STRICT",
            "CREATE VIRTUAL TABLE words USING fts5(body)",
            "INSERT INTO counter VALUES (0)",
        ),
    ),
)


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def step(tx: Transaction) -> int:
    """The next cell with its tags and words, the oldest one away, one in three changed: all or nothing."""
    ((last,),) = tx.rows("SELECT number FROM counter")
    assert isinstance(last, int)
    number = last + 1
    body = f"cell {number} " + "x" * (number * 37 % 6_000)
    tx.run("INSERT INTO cells VALUES (?, ?)", number, body)
    tx.run("INSERT INTO words (rowid, body) VALUES (?, ?)", number, body)
    tx.run("INSERT INTO tags VALUES (?, 'a'), (?, 'b')", number, number)
    tx.run("DELETE FROM cells WHERE id = ?", number - KEPT)
    tx.run("DELETE FROM words WHERE rowid = ?", number - KEPT)
    if number % 3 == 0:
        tx.run("UPDATE cells SET body = body || '!' WHERE id = ?", number)
    tx.run("UPDATE counter SET number = ?", number)
    return number


async def write_until_killed(file: Path) -> None:
    database = SqliteDatabase(file, TABLES)
    while True:
        say(f"ack {await database.write(step)}")


def nursery(file: Path) -> None:
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            asyncio.run(write_until_killed(file))
        say(f"pid {pid}")
        os.waitpid(pid, 0)
        say("dead")


async def count(file: Path, times: int) -> None:
    database = SqliteDatabase(file, TABLES)
    for _ in range(times):
        await database.write(step)
    await database.close()


def crowd(file: Path) -> list[int]:
    waiting, go = os.pipe()
    pids: list[int] = []
    for _ in range(6):
        pids.append(os.fork())
        if pids[-1] == 0:
            os.close(go)
            os.read(waiting, 1)
            asyncio.run(count(file, 1))
            # Not further: what follows is the parent's.
            os._exit(0)
    os.close(waiting)
    os.close(go)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


async def limit(file: Path) -> None:
    database = SqliteDatabase(file, TABLES)
    before = await database.write(step)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.with_name(file.name + "-wal").stat().st_size + 100, hard))
    met: dict[str, object] = {}
    try:
        await database.write(step)
    except CellwrightError as error:
        met = error.as_json()
    ((seen,),) = await database.read(lambda tx: tx.rows("SELECT number FROM counter"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    after = await database.write(step)
    await database.close()
    say(json.dumps({"before": before, "met": met, "seen": seen, "after": after}))


if __name__ == "__main__":
    kind, place, *more = sys.argv[1:]
    if kind == "nursery":
        nursery(Path(place))
    elif kind == "crowd":
        for number in range(int(more[0])):
            say(json.dumps(crowd(Path(place) / str(number) / "cellwright.db")))
    elif kind == "count":
        asyncio.run(count(Path(place), int(more[0])))
    else:
        asyncio.run(limit(Path(place)))
