"""Pads under kills and on disks that are full or fail."""

import json
import os
import random
import resource
import secrets
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

import anyio
import psycopg
import pytest
from mcp import Client, MCPError

import pads_child
from pads_child import Change, changed, open_pads
from pads_support import FLAGS, ONE, call, cells_of, refused
from requirements import requirement
from storage_support import PostgresServer
from support import HttpServer, clean_environ, http_client, http_server, until

pytestmark = pytest.mark.anyio
KILLS = int(os.environ.get("CELLWRIGHT_TEST_PAD_KILLS", "10"))
ERRORS = (MCPError, BaseExceptionGroup, OSError)


async def append_until_lost(client: Client, name: str, acknowledged: list[str]) -> None:
    """Append to the shared pad until the server is gone."""
    number = 0
    while True:
        text = f"{name}.{number}"
        try:
            result = await client.call_tool(
                "scratch_append_cell", {"scratch_id": "s", "cell": {**ONE, "content": text}}
            )
        except ERRORS:
            return
        if result.is_error:
            return
        acknowledged.append(text)
        number += 1


@requirement("scratch:proof:replicas")
async def test_one_of_two_replicas_is_killed_under_load(tmp_path: Path, postgres_server: PostgresServer) -> None:
    schema = f"replicas_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_server.url().reveal(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    database = {"CELLWRIGHT_DATABASE": postgres_server.url(schema).reveal()}
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    with (
        http_server(folders[0], *FLAGS, "--scratch-max-cells", "0", environ=database) as one,
        http_server(folders[1], *FLAGS, "--scratch-max-cells", "0", environ=database) as two,
    ):
        acknowledged: dict[str, list[str]] = {name: [] for name in ("a", "b", "c", "d")}
        async with http_client(two) as survivor:
            await call(survivor, "scratch_create", scratch_id="s")
            with suppress(*ERRORS):
                async with http_client(one) as dying, anyio.create_task_group() as group:
                    for name in ("a", "b"):
                        group.start_soon(append_until_lost, dying, name, acknowledged[name])
                    for name in ("c", "d"):
                        group.start_soon(append_until_lost, survivor, name, acknowledged[name])
                    await until(lambda: min(map(len, acknowledged.values())) >= 5, "five of each are stored")
                    one.process.kill()
                    before = len(acknowledged["c"])
                    await until(lambda: len(acknowledged["c"]) >= before + 5, "the other goes on")
                    group.cancel_scope.cancel()
        async with http_client(two) as survivor:
            cells = await cells_of(survivor, "s")
        texts = [cell["content"] for cell in cells]
        assert [cell["index"] for cell in cells] == list(range(len(cells)))
        assert len(set(texts)) == len(texts)
        for name, known in acknowledged.items():
            stored = [text for text in texts if text.startswith(name)]
            # The last one may have been stored and not acknowledged.
            assert stored[: len(known)] == known
            assert len(stored) - len(known) in {0, 1}


async def pads_in(file: Path) -> dict[str, list[tuple[str, str]]]:
    pads = open_pads(file)
    page = await pads.page("ann", (), (), 50, None)
    found: dict[str, list[tuple[str, str]]] = {}
    for item in page.items:
        view = await pads.read("ann", item["scratch_id"])
        assert [cell.index for cell in view.cells] == list(range(item["cell_count"]))
        found[view.pad.id] = [(cell.id, cell.source) for cell in view.cells]
    await pads.close()
    return found


Model = dict[str, list[tuple[str, str]]]


@pytest.fixture
def nursery(tmp_path: Path) -> Generator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    command = [sys.executable, str(Path(pads_child.__file__)), str(tmp_path / "state" / "cellwright.db")]
    with subprocess.Popen(command, text=True, env=clean_environ(), stdin=pipe, stdout=pipe) as process:
        yield process
        assert process.stdin
        process.stdin.close()


def kill_one(nursery: subprocess.Popen[str], left: int, model: Model) -> tuple[Model, Change | None]:
    """Let a writer acknowledge so many changes, kill it; the pads as acknowledged, and the change it was at."""
    assert nursery.stdin
    assert nursery.stdout
    nursery.stdin.write("go\n")
    nursery.stdin.flush()
    pid, under_way = 0, None
    for line in nursery.stdout:
        word, _, rest = line.strip().partition(" ")
        if word == "dead":
            break
        if word == "pid":
            pid = int(rest)
        elif word == "try":
            under_way = cast("Change", tuple(json.loads(rest)))
        elif under_way is not None:
            model, under_way, left = changed(model, under_way), None, left - 1
        if pid and left <= 0:
            # Once: after that the number may belong to somebody else.
            os.kill(pid, signal.SIGKILL)
            pid = 0
    return model, under_way


@requirement("scratch:proof:kill")
@pytest.mark.timeout(60 + 3 * KILLS)
async def test_pads_are_whole_however_often_their_writer_is_killed(
    tmp_path: Path, nursery: subprocess.Popen[str]
) -> None:
    file = tmp_path / "state" / "cellwright.db"
    model = await pads_in(file)
    chosen = random.Random(4711)
    most = 0
    for _ in range(KILLS):
        known, under_way = kill_one(nursery, chosen.randrange(1, 40), model)
        model = await pads_in(file)
        assert model in ([known] if under_way is None else [known, changed(known, under_way)])
        most = max(most, len(model))
    # The last writer may have deleted them all.
    assert most > 0


@contextmanager
def cramped(kind: str, folder: Path, server: HttpServer) -> Generator[None]:
    """Make the disk full, or make writing fail, for as long as the block runs."""
    if kind == "small disk":
        stuffing = folder / "stuffing"
        with stuffing.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(b"x" * 4096):
                pass
        yield
        stuffing.unlink()
        return
    soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, hard))
    yield
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(params=["failing disk", *(["small disk"] if os.geteuid() == 0 else [])])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[tuple[str, Path]]:
    """A folder whose writes can be made to fail; where we may mount one, also a disk that is really small."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if request.param == "failing disk":
        yield request.param, folder
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(folder)], check=True)
    try:
        yield request.param, folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@requirement("scratch:proof:full")
async def test_a_disk_that_is_full_or_fails_is_told_and_survived(tmp_path: Path, disk: tuple[str, Path]) -> None:
    kind, folder = disk
    with http_server(tmp_path, *FLAGS, "--database", str(folder / "pads.db")) as server:
        async with http_client(server) as client:
            await call(client, "scratch_create", scratch_id="p", cells=[{**ONE, "content": "kept"}])
            assert len(await cells_of(client, "p")) == 1
            large = {**ONE, "content": "y" * 400_000}
            with cramped(kind, folder, server):
                error = await refused(client, "scratch_append_cell", scratch_id="p", cell=large)
                assert [cell["content"] for cell in await cells_of(client, "p")] == ["kept"]
            assert error["code"] == ("CAPACITY_LIMIT_REACHED" if kind == "small disk" else "INTERNAL_ERROR")
            assert error["retryable"] is True
            assert error["reason"] == ("STORAGE_FULL" if kind == "small disk" else "UNAVAILABLE")
            assert "same call again" in error["hint"]
            assert ("full" if kind == "small disk" else "disk") in error["message"]
            assert str(tmp_path) not in str(error)
            await call(client, "scratch_append_cell", scratch_id="p", cell=large)
            assert len(await cells_of(client, "p")) == 2
