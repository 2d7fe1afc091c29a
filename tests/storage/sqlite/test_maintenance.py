"""Copies while in use, going back, giving room back, finding damage."""

import asyncio
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from cellwright.core.errors import CellwrightError, Conflict, InvalidArgument, NotFound
from cellwright.core.types import Secret
from cellwright.storage import maintenance
from cellwright.storage.database import Database, Transaction
from cellwright.storage.errors import NewerDatabase, StorageCorrupt
from cellwright.storage.maintenance import backup, inspect, problems, restore, vacuum
from cellwright.storage.migrations import Migration
from cellwright.storage.sqlite.file import execute
from cellwright.system import windows
from cellwright.system.windows import WindowsMachine
from requirements import requirement
from storage_support import TABLES
from windows_fake import FakeWindows

OpenDatabase = Callable[..., Database]


def add(*names: str) -> Callable[[Transaction], None]:
    def work(tx: Transaction) -> None:
        for name in names:
            tx.run("INSERT INTO cells (name, body) VALUES (?, ?)", name, "x" * 2_000)

    return work


async def names(database: Database) -> list[object]:
    return [name for (name,) in await database.read(lambda tx: tx.rows("SELECT name FROM cells ORDER BY id"))]


def read(file: Path) -> bytes:
    return file.read_bytes()


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def damage(file: Path) -> None:
    """Overwrite a few pages in its midst."""
    whole = bytearray(file.read_bytes())
    whole[-20_000:-8_000] = b"\x5a" * 12_000
    file.write_bytes(whole)


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: size(file) // 2])


def write(file: Path, data: bytes) -> bytes:
    file.write_bytes(data)
    return data


def size(file: Path) -> int:
    return file.stat().st_size


def beside(file: Path) -> set[str]:
    return {one.name for one in file.parent.iterdir()}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "cellwright.db"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy.db"


@requirement("storage:backup")
@pytest.mark.anyio
async def test_a_backup_holds_one_moment_while_others_write(file: Path, copy: Path, opened: OpenDatabase) -> None:
    database = opened(file)
    # Larger than what is copied at once, so that writes fall between the steps.
    await database.write(lambda tx: tx.run("INSERT INTO cells (data) VALUES (zeroblob(20000000))"))
    seen: list[tuple[int, int]] = []
    loop = asyncio.get_running_loop()

    def progress(done: int, total: int) -> None:
        pair = add(f"{len(seen)} a", f"{len(seen)} b")
        asyncio.run_coroutine_threadsafe(database.write(pair), loop).result(20)
        seen.append((done, total))

    made = await asyncio.to_thread(backup, file, copy, progress)
    assert len(seen) > 2
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]
    assert mode(copy) == 0o600
    assert beside(copy) == {copy.name, file.parent.name}
    with closing(apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        assert execute(connection, "PRAGMA integrity_check") == [("ok",)]
        assert execute(connection, "SELECT count(*) FROM cells") == [(1,)]
    assert made == inspect(copy)
    assert made.commits == 1
    assert len(await names(database)) == 1 + 2 * len(seen)


@requirement("storage:backup")
@pytest.mark.anyio
async def test_a_backup_overwrites_nothing(file: Path, copy: Path, opened: OpenDatabase) -> None:
    with pytest.raises(NotFound, match="no database yet"):
        backup(file, copy)
    await opened(file).write(add("a"))
    write(copy, b"mine")
    with pytest.raises(Conflict, match="exists already"):
        backup(file, copy)
    assert size(copy) == 4


@requirement("storage:restore")
@pytest.mark.anyio
async def test_restoring_goes_back_also_for_those_who_have_it_open(
    file: Path, copy: Path, opened: OpenDatabase
) -> None:
    database = opened(file)
    await database.write(add("a", "b"))
    backup(file, copy)
    await database.write(add("c"))
    await database.write(lambda tx: tx.run("DELETE FROM cells WHERE name = 'a'"))
    mark = await database.change_mark()
    with pytest.raises(Conflict, match="has 2 changes that the backup does not have"):
        restore(file, copy, TABLES)
    assert await names(database) == ["b", "c"]
    assert await database.change_mark() == mark
    kept = restore(file, copy, TABLES, force=True)
    assert await names(database) == ["a", "b"]
    assert await database.change_mark() != mark
    await database.write(add("d"))
    assert await names(opened(file)) == ["a", "b", "d"]
    assert kept
    assert kept == file.with_name("cellwright.db.bak")
    assert mode(kept) == 0o600
    restore(file, kept, TABLES, force=True)
    assert await names(database) == ["b", "c"]


@requirement("storage:restore")
@pytest.mark.anyio
async def test_restoring_to_a_new_place_and_from_an_older_program(
    file: Path, copy: Path, tmp_path: Path, opened: OpenDatabase
) -> None:
    database = opened(file)
    await database.write(add("a"))
    backup(file, copy)
    elsewhere = tmp_path / "elsewhere" / "cellwright.db"
    newer = (*TABLES, Migration("test", 2, ("ALTER TABLE cells ADD COLUMN more TEXT",)))
    assert restore(elsewhere, copy, newer) is None
    found = opened(elsewhere, newer)
    assert await found.read(lambda tx: tx.rows("SELECT name, more FROM cells")) == [("a", None)]
    assert mode(elsewhere) == 0o600


@requirement("storage:restore")
@pytest.mark.anyio
async def test_restoring_replaces_a_damaged_database(file: Path, copy: Path, opened: OpenDatabase) -> None:
    database = opened(file)
    await database.write(add("a"))
    await database.close()
    backup(file, copy)
    rubbish = write(file, b"rubbish " * 2_000)
    assert problems(file)
    kept = restore(file, copy, TABLES)
    assert kept
    assert kept.read_bytes() == rubbish
    assert await names(opened(file)) == ["a"]
    assert problems(file) == ()


@requirement("storage:restore:open")
@pytest.mark.anyio
async def test_on_windows_a_damaged_database_in_use_is_left_and_that_is_said(
    file: Path, copy: Path, opened: OpenDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = opened(file)
    await database.write(add("a"))
    await database.close()
    backup(file, copy)
    rubbish = write(file, b"rubbish " * 2_000)
    monkeypatch.setattr(maintenance, "machine", WindowsMachine(FakeWindows()))
    monkeypatch.setattr(windows, "REPLACE_SECONDS", 0.0)
    kept = file.with_name(f"{file.name}.bak")
    kept.touch()
    with kept.open("rb"), pytest.raises(Conflict, match="while a program has it open") as caught:
        restore(file, copy, TABLES)
    assert "end the cellwright servers" in caught.value.hint
    assert read(file) == rubbish
    restore(file, copy, TABLES)
    assert read(kept) == rubbish


@requirement("storage:restore:checked")
@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["missing", "text", "foreign", "damaged", "newer", "another"])
async def test_what_is_no_backup_of_ours_is_refused(
    file: Path, copy: Path, tmp_path: Path, opened: OpenDatabase, kind: str
) -> None:
    database = opened(file)
    await database.write(add("kept"))
    if kind == "text":
        write(copy, b"hello " * 1_000)
    elif kind == "foreign":
        with closing(apsw.Connection(str(copy))) as other:
            execute(other, "CREATE TABLE t (a)")
    elif kind != "missing":
        more = (
            (Migration("test", 2, ("CREATE TABLE later (id INTEGER PRIMARY KEY) STRICT",)),) if kind == "newer" else ()
        )
        other_file = tmp_path / "other" / "cellwright.db"
        await opened(other_file, (*TABLES, *more)).write(add(*map(str, range(20))))
        backup(other_file, copy)
        if kind == "damaged":
            damage(copy)
    expected: dict[str, type[CellwrightError]] = {
        "missing": NotFound,
        "damaged": StorageCorrupt,
        "newer": NewerDatabase,
        "another": Conflict,
    }
    with pytest.raises(expected.get(kind, InvalidArgument)):
        restore(file, copy, TABLES)
    assert await names(database) == ["kept"]
    assert not file.with_name("cellwright.db.bak").exists()


@requirement("storage:vacuum")
@pytest.mark.anyio
async def test_vacuum_gives_room_back(file: Path, opened: OpenDatabase) -> None:
    database = opened(file)
    await database.write(lambda tx: tx.run("INSERT INTO cells (data) VALUES (zeroblob(3000000)), (zeroblob(10))"))
    await database.write(lambda tx: tx.run("DELETE FROM cells WHERE id = 1"))
    seen: list[tuple[int, int]] = []
    freed = await asyncio.to_thread(vacuum, file, lambda done, total: seen.append((done, total)))
    assert freed > 2_900_000
    assert size(file) < 200_000
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1]
    assert await database.read(lambda tx: tx.rows("SELECT id FROM cells")) == [(2,)]


@requirement("storage:problems")
@pytest.mark.anyio
async def test_damage_is_found_and_said(file: Path, opened: OpenDatabase) -> None:
    assert problems(file) == ()
    database = opened(file)
    await database.write(add(*map(str, range(20))))
    assert problems(file) == ()
    await database.close()
    with closing(apsw.Connection(str(file))) as connection:
        execute(connection, "INSERT INTO tags VALUES (999, 'orphan')")
    assert problems(file) == ("pointing at something that does not exist: 1 row",)
    damage(file)
    assert problems(file)


@requirement("storage:maintenance:postgres")
@pytest.mark.parametrize("call", [backup, restore])
def test_for_a_server_its_own_tools_are_named(copy: Path, call: Callable[..., object]) -> None:
    with pytest.raises(InvalidArgument, match="PostgreSQL") as met:
        call(Secret("postgresql://u:p@h/d"), copy)
    assert "pg_dump" in met.value.hint
    with pytest.raises(InvalidArgument, match="PostgreSQL"):
        vacuum(Secret("postgresql://u:p@h/d"))
    assert problems(Secret("postgresql://u:p@h/d")) == ()


@requirement("storage:restore:checked")
@pytest.mark.anyio
async def test_a_database_is_no_backup_of_itself(file: Path, copy: Path, opened: OpenDatabase) -> None:
    database = opened(file)
    await database.write(add("a"))
    backup(file, copy)
    await database.write(add("b"))
    kept = restore(file, copy, TABLES, force=True)
    assert kept
    before = kept.read_bytes()
    with pytest.raises(InvalidArgument, match="the database itself"):
        restore(file, file, TABLES, force=True)
    assert kept.read_bytes() == before


@requirement("storage:restore:checked")
@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["pages", "half"])
async def test_it_is_the_backup_that_is_called_damaged(file: Path, copy: Path, opened: OpenDatabase, kind: str) -> None:
    await opened(file).write(add(*map(str, range(40))))
    backup(file, copy)
    if kind == "pages":
        damage(copy)
    else:
        halve(copy)
    with pytest.raises(StorageCorrupt, match=r"the backup copy\.db is damaged"):
        restore(file, copy, TABLES)


@requirement("storage:restore")
@pytest.mark.anyio
async def test_the_kept_state_is_not_mixed_with_what_an_earlier_one_left(
    file: Path, copy: Path, opened: OpenDatabase
) -> None:
    database = opened(file)
    await database.write(add(*map(str, range(20))))
    backup(file, copy)
    await database.write(lambda tx: tx.run("UPDATE cells SET body = 'y'"))
    kept = file.with_name("cellwright.db.bak")
    # As when a damaged database was moved aside while a process had it open.
    write(kept.with_name(kept.name + "-wal"), file.with_name(file.name + "-wal").read_bytes())
    await database.write(add(*map(str, range(20, 60))))
    assert restore(file, copy, TABLES, force=True) == kept
    restore(file, kept, TABLES, force=True)
    assert await names(database) == [str(number) for number in range(60)]
