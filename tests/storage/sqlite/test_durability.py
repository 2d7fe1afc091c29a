"""Killed, crowded, full, failing, damaged: what happens to the SQLite file and to what was acknowledged."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

import apsw
import pytest

from cellwright.core.errors import CellwrightError, Unavailable
from cellwright.storage.database import Database, Transaction
from cellwright.storage.errors import StorageBusy, StorageCorrupt, StorageFull, StorageReadOnly
from cellwright.storage.sqlite import file as sqlite_file
from cellwright.storage.sqlite.file import execute
from requirements import requirement
from support import clean_environ

OpenDatabase = Callable[..., Database]
CHILD = Path(__file__).parent / "child.py"
KILLS = int(os.environ.get("CELLWRIGHT_TEST_KILLS", "50"))
KEPT = 5


def child(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(CHILD), *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, text=True, env=clean_environ(), stdin=pipe, stdout=pipe, stderr=pipe)


def check_whole(file: Path, acknowledged: int) -> int:
    """All that one transaction wrote is there or nothing of it, up to at least what was acknowledged."""
    with closing(apsw.Connection(str(file))) as connection:
        assert execute(connection, "PRAGMA integrity_check") == [("ok",)]
        if not connection.table_exists(None, "counter"):
            assert acknowledged == 0
            return 0
        ((last,),) = execute(connection, "SELECT number FROM counter")
        assert isinstance(last, int)
        # One more may have been committed when the kill came before its acknowledgement.
        assert acknowledged <= last <= acknowledged + 1
        expected = list(range(max(1, last - KEPT + 1), last + 1))
        assert [id_ for (id_,) in execute(connection, "SELECT id FROM cells ORDER BY id")] == expected
        assert [id_ for (id_,) in execute(connection, "SELECT rowid FROM words WHERE words MATCH 'cell'")] == expected
        assert execute(connection, "SELECT cell, count(*) FROM tags GROUP BY cell") == [(id_, 2) for id_ in expected]
        for id_, body in execute(connection, "SELECT id, body FROM cells"):
            assert str(body) == f"cell {id_} " + "x" * (int(id_ or 0) * 37 % 6_000) + "!" * (int(id_ or 0) % 3 == 0)
        return last


def kill_one(orders: IO[str], told: IO[str], acknowledgements: int, acknowledged: int) -> int:
    """Start a writer, let it acknowledge so many, kill it; the last it has acknowledged."""
    orders.write("go\n")
    orders.flush()
    pid, left = 0, acknowledgements
    for line in told:
        word, _, number = line.strip().partition(" ")
        if word == "dead":
            break
        if word == "pid":
            pid = int(number)
        else:
            acknowledged, left = int(number), left - 1
        if pid and left <= 0:
            os.kill(pid, signal.SIGKILL)
    return acknowledged


@requirement("storage:sqlite:kill")
@pytest.mark.timeout(60 + KILLS)
def test_nothing_acknowledged_is_lost_however_often_it_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "cellwright.db"
    chosen = random.Random(4711)
    acknowledged = 0
    with child("nursery", file) as nursery:
        assert nursery.stdin
        assert nursery.stdout
        for turn in range(KILLS):
            # The first ones die while the file is being made.
            wanted = 0 if turn < 3 else chosen.randrange(1, 25)
            acknowledged = kill_one(nursery.stdin, nursery.stdout, wanted, acknowledged)
            acknowledged = check_whole(file, acknowledged) if file.exists() else 0
        nursery.stdin.close()
    assert acknowledged > KILLS


@requirement("storage:sqlite:processes", "storage:migrations:at-once")
def test_four_processes_on_one_file_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "new" / "cellwright.db"
    running = [child("count", file, 40) for _ in range(4)]
    assert [(process.communicate(timeout=50)[1], process.returncode) for process in running] == [("", 0)] * 4
    assert check_whole(file, 160) == 160


@requirement("storage:migrations:at-once", "storage:sqlite:processes")
def test_six_processes_at_the_same_moment_make_one_new_file(tmp_path: Path) -> None:
    rounds = 8
    with child("crowd", tmp_path, rounds) as process:
        out, err = process.communicate(timeout=50)
    assert [json.loads(line) for line in out.splitlines()] == [[0] * 6] * rounds, err
    for number in range(rounds):
        assert check_whole(tmp_path / str(number) / "cellwright.db", 6) == 6


@requirement("storage:sqlite:io-error")
def test_a_failing_disk_is_said_and_survived(tmp_path: Path) -> None:
    file = tmp_path / "cellwright.db"
    with child("limit", file) as process:
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    told = json.loads(out)
    assert told["met"]["code"] == "UNAVAILABLE"
    assert told["met"]["retryable"]
    assert "disk that holds the database reported an error" in told["met"]["message"]
    assert (told["before"], told["seen"], told["after"]) == (1, 1, 2)
    assert "sqlite_failed error=IOError" in err
    assert check_whole(file, 2) == 2


@pytest.fixture(params=["page limit", *(["small disk"] if os.geteuid() == 0 and sys.platform == "linux" else [])])
def cramped(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A folder where little fits: SQLite's own limit, and where we may mount one, a disk that is really small."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if request.param == "page limit":
        yield request.param, folder
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)], check=True)
    try:
        yield request.param, folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


async def fill_up(database: Database) -> int:
    """Write until there is no room; how many were acknowledged."""
    for number in range(2_000):
        try:
            await database.write(lambda tx: tx.run("INSERT INTO cells (body) VALUES (?)", "x" * 3_000))
        except StorageFull:
            return number
    raise AssertionError("it never got full")


@requirement("storage:sqlite:full")
@pytest.mark.anyio
async def test_a_full_disk_is_said_and_survived(cramped: tuple[str, Path], opened: OpenDatabase) -> None:
    kind, folder = cramped
    database = opened(folder / "cellwright.db")
    if kind == "page limit":
        await database.write(lambda tx: tx.rows("PRAGMA max_page_count = 100"))
    stuffing = folder / "stuffing"
    stuffing.write_bytes(b"x" * 300_000)
    acknowledged = await fill_up(database)
    assert acknowledged > 0
    with pytest.raises(StorageFull, match="is full") as met:
        await database.write(lambda tx: tx.run("UPDATE cells SET body = body || ?", "y" * 3_000))
    assert met.value.retryable
    assert "free some room" in met.value.hint
    assert await database.read(lambda tx: tx.rows("SELECT count(*), max(length(body)) FROM cells")) == [
        (acknowledged, 3_000)
    ]
    stuffing.unlink()
    if kind == "page limit":
        await database.write(lambda tx: tx.rows("PRAGMA max_page_count = 100000"))
    await database.write(lambda tx: tx.run("INSERT INTO cells (body) VALUES ('room again')"))
    await database.close()
    with closing(apsw.Connection(str(folder / "cellwright.db"))) as connection:
        assert execute(connection, "PRAGMA integrity_check") == [("ok",)]
        assert execute(connection, "SELECT count(*) FROM cells") == [(acknowledged + 1,)]


@requirement("storage:sqlite:read-only")
@pytest.mark.anyio
async def test_a_database_that_cannot_be_written_is_said(tmp_path: Path, opened: OpenDatabase) -> None:
    database = opened(tmp_path / "cellwright.db")
    await database.write(lambda tx: tx.rows("PRAGMA query_only = ON"))
    with pytest.raises(StorageReadOnly, match="read-only") as met:
        await database.write(lambda tx: tx.run("INSERT INTO cells (name) VALUES ('a')"))
    assert not met.value.retryable
    assert await database.read(lambda tx: tx.rows("SELECT * FROM cells")) == []


def text_of(error: CellwrightError) -> str:
    return json.dumps(error.as_json()) + str(error)


@requirement("storage:sqlite:corrupt")
@pytest.mark.anyio
@pytest.mark.parametrize("damage", ["no database", "torn"])
async def test_a_damaged_file_is_said(tmp_path: Path, opened: OpenDatabase, damage: str) -> None:
    file = tmp_path / "cellwright.db"
    database = opened(file)
    await database.write(lambda tx: [tx.run("INSERT INTO cells (body) VALUES (?)", "x" * 3_000) for _ in range(50)])
    await database.close()
    whole = file.read_bytes()
    file.write_bytes(b"not a database " * 1_000 if damage == "no database" else whole[:4096] + b"\x5a" * 40_000)
    again = opened(file)
    with pytest.raises(StorageCorrupt, match="damaged") as met:
        await again.read(lambda tx: tx.rows("SELECT * FROM cells"))
    assert "cellwright restore" in met.value.hint
    assert str(tmp_path) not in text_of(met.value)
    assert "malformed" not in text_of(met.value)
    file.write_bytes(whole)
    assert len(await again.read(lambda tx: tx.rows("SELECT * FROM cells"))) == 50


@requirement("storage:sqlite:busy")
@pytest.mark.anyio
async def test_a_lock_that_is_held_too_long_is_said(
    tmp_path: Path, opened: OpenDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.2)
    file = tmp_path / "cellwright.db"
    database = opened(file)

    def insert(tx: Transaction) -> int:
        return tx.run("INSERT INTO cells (name) VALUES ('a')")

    await database.read(lambda tx: tx.rows("SELECT 1"))
    with closing(apsw.Connection(str(file))) as other:
        execute(other, "BEGIN IMMEDIATE")
        async with asyncio.timeout(10):
            with pytest.raises(StorageBusy, match="in use by others") as met:
                await database.write(insert)
        assert isinstance(met.value, Unavailable)
        assert met.value.retryable
        assert await database.read(lambda tx: tx.rows("SELECT * FROM cells")) == []
        execute(other, "ROLLBACK")
    assert await database.write(insert) == 1


def empty(folder: Path) -> None:
    for one in folder.iterdir():
        one.unlink()


@requirement("storage:sqlite:replaced")
@pytest.mark.anyio
async def test_a_file_that_was_removed_is_made_again_before_anything_is_written(
    tmp_path: Path, opened: OpenDatabase
) -> None:
    file = tmp_path / "cellwright.db"
    database = opened(file)
    await database.write(lambda tx: tx.run("INSERT INTO cells (name) VALUES ('old')"))
    empty(tmp_path)
    await database.write(lambda tx: tx.run("INSERT INTO cells (name) VALUES ('new')"))
    for reader in (database, opened(file)):
        assert await reader.read(lambda tx: tx.rows("SELECT name FROM cells")) == [("new",)]
