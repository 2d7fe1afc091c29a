"""The file itself: whose it is, where it is, how it is opened."""

import os
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from cellwright.core.errors import ConfigError
from cellwright.storage.database import Database
from cellwright.storage.sqlite.file import connect, execute, refuse_network, wal_is_safe
from cellwright.system.posix import file_system_in
from requirements import requirement

OpenDatabase = Callable[..., Database]
MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /home/ann/my\\040state rw,relatime shared:9 master:1 - nfs4 server:/export rw
31 22 0:26 / /home/ann/my\\040state/local rw - xfs /dev/vdb rw
32 22 0:27 / /mnt rw - cifs //server/share rw
33 22 0:28 / /mnt rw - tmpfs none rw
34 22 0:29 / /far rw - fuse.sshfs host:/ rw
"""


@requirement("storage:sqlite:private")
@pytest.mark.anyio
async def test_file_and_folder_are_private_from_the_start(tmp_path: Path, opened: OpenDatabase) -> None:
    file = tmp_path / "state" / "deep" / "cellwright.db"
    old = os.umask(0)
    try:
        await opened(file).write(lambda tx: tx.run("INSERT INTO cells (name) VALUES ('secret')"))
    finally:
        os.umask(old)
    found = {one.name: stat.S_IMODE(one.stat().st_mode) for one in file.parent.iterdir()}
    assert found == {"cellwright.db": 0o600, "cellwright.db-wal": 0o600, "cellwright.db-shm": 0o600}
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@requirement("storage:sqlite:private")
@pytest.mark.anyio
async def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path, opened: OpenDatabase) -> None:
    file = tmp_path / "cellwright.db"
    first = opened(file)
    await first.write(lambda tx: tx.run("INSERT INTO cells (name) VALUES ('secret')"))
    file.chmod(0o644)
    await opened(file).read(lambda tx: tx.rows("SELECT 1"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@requirement("storage:sqlite:durable")
@pytest.mark.anyio
async def test_every_connection_is_durable(tmp_path: Path, opened: OpenDatabase) -> None:
    database = opened(tmp_path / "cellwright.db")
    wanted = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "fullfsync": 1, "query_only": 0}
    for call, more in ((database.write, {}), (database.read, {"query_only": 1})):
        found = await call(lambda tx: {name: tx.rows(f"PRAGMA {name}")[0][0] for name in wanted})
        assert found == wanted | more


@requirement("storage:sqlite:durable")
@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ((3, 54, 1), True),
        ((3, 51, 3), True),
        ((3, 51, 2), False),
        ((3, 50, 7), True),
        ((3, 50, 6), False),
        ((3, 45, 0), False),
        ((3, 44, 6), True),
        ((3, 40, 1), False),
    ],
)
def test_the_log_is_used_only_where_it_is_safe(version: tuple[int, ...], safe: bool) -> None:
    assert wal_is_safe(version) == safe


@requirement("storage:sqlite:durable")
@pytest.mark.anyio
async def test_the_older_journal_works_as_well(
    tmp_path: Path, opened: OpenDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cellwright.db"
    database = opened(file)
    await database.write(lambda tx: tx.run("INSERT INTO cells (name) VALUES ('in the log')"))
    await database.close()
    # The version of a library that is too old is the one thing that cannot be had here.
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.40.1")
    again = opened(file)
    assert await again.write(lambda tx: tx.rows("PRAGMA journal_mode")) == [("delete",)]
    assert await again.write_soon(lambda tx: tx.rows("PRAGMA synchronous")) == [(2,)]
    await again.write(lambda tx: tx.run("INSERT INTO cells (name) VALUES ('in the journal')"))
    assert len(await again.read(lambda tx: tx.rows("SELECT name FROM cells"))) == 2
    assert not file.with_name("cellwright.db-wal").exists()


@requirement("storage:sqlite:foreign")
@pytest.mark.anyio
async def test_a_database_of_another_program_is_left_alone(tmp_path: Path, opened: OpenDatabase) -> None:
    file = tmp_path / "history.db"
    with closing(apsw.Connection(str(file))) as other:
        execute(other, "CREATE TABLE urls (url TEXT)")
    before = file.read_bytes()
    with pytest.raises(ConfigError, match="of another program"):
        await opened(file).write(lambda tx: tx.rows("SELECT 1"))
    assert file.read_bytes() == before


@requirement("storage:sqlite:foreign")
@pytest.mark.anyio
async def test_a_folder_in_its_place_is_refused(tmp_path: Path, opened: OpenDatabase) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot be used"):
        await opened(tmp_path / "file" / "cellwright.db").read(lambda tx: tx.rows("SELECT 1"))


@requirement("storage:sqlite:foreign")
@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/home/ann/state", "ext4"),
        ("/home/ann/my state/x", "nfs4"),
        ("/home/ann/my state/local/x", "xfs"),
        ("/mnt/x", "tmpfs"),
        ("/far", "fuse.sshfs"),
        ("/farther", "ext4"),
    ],
)
def test_filesystems_are_told_apart(place: str, kind: str) -> None:
    assert file_system_in(Path(place), MOUNTS) == kind


@requirement("storage:sqlite:foreign")
def test_a_network_filesystem_is_refused_with_what_to_do() -> None:
    refuse_network(file_system_in(Path("/home/ann"), MOUNTS))
    with pytest.raises(ConfigError, match=r"network filesystem \(nfs4\)") as met:
        refuse_network(file_system_in(Path("/home/ann/my state"), MOUNTS))
    assert "--state-dir" in met.value.hint
    assert "--database postgresql://" in met.value.hint


@requirement("storage:sqlite:durable")
def test_a_misspelled_name_is_an_error_and_not_a_text(tmp_path: Path) -> None:
    (tmp_path / "x.db").touch(mode=0o600)
    with closing(connect(tmp_path / "x.db")) as connection, pytest.raises(apsw.SQLError):
        execute(connection, 'SELECT "no such name"')
