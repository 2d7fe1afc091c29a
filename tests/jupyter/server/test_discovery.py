"""Running servers are found by their files; stale ones, strangers and wrong tokens are passed over."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_core.paths import jupyter_runtime_dir

from cellwright.core.types import Secret
from cellwright.jupyter.server.discovery import (
    LocalServer,
    accepts_token,
    running_servers,
    runtime_dir,
    server_holding,
)
from jupyter_support import JupyterServer
from requirements import requirement

HOME = Path("/home/ada")


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, "/home/ada/.local/share/jupyter/runtime"),
        ("linux", {"XDG_DATA_HOME": "/data"}, "/data/jupyter/runtime"),
        ("linux", {"JUPYTER_DATA_DIR": "/jd", "XDG_DATA_HOME": "/data"}, "/jd/runtime"),
        ("linux", {"JUPYTER_RUNTIME_DIR": "/run/jupyter", "JUPYTER_DATA_DIR": "/jd"}, "/run/jupyter"),
        ("darwin", {}, "/home/ada/Library/Jupyter/runtime"),
        ("darwin", {"JUPYTER_PLATFORM_DIRS": "1"}, "/home/ada/Library/Application Support/Jupyter/runtime"),
        ("win32", {"APPDATA": "/roaming"}, "/roaming/jupyter/runtime"),
        ("win32", {"LOCALAPPDATA": "/local", "JUPYTER_PLATFORM_DIRS": "true"}, "/local/Jupyter/runtime"),
    ],
)
@requirement("discovery:files:where")
def test_the_runtime_folder_follows_jupyters_rules(platform: str, environment: dict[str, str], expected: str) -> None:
    assert runtime_dir(environment, HOME, platform) == Path(expected)


@requirement("discovery:files:where")
@pytest.mark.parametrize("name", ["JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "XDG_DATA_HOME", "NONE"])
def test_jupyter_itself_agrees(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "XDG_DATA_HOME", "JUPYTER_PLATFORM_DIRS"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, str(tmp_path))
    assert runtime_dir(os.environ, Path.home()) == Path(jupyter_runtime_dir())


def write_file(folder: Path, number: int, **about: Any) -> None:
    whole = {"url": "http://127.0.0.1:1/", "token": "secret-token", "root_dir": "/", "pid": os.getpid()} | about
    (folder / f"jpserver-{number}.json").write_text(json.dumps(whole), encoding="utf-8")


@requirement("discovery:files:stale")
def test_files_of_the_dead_and_broken_files_are_passed_over(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    write_file(tmp_path, 1, pid=ended.pid)
    write_file(tmp_path, 2, pid=0)
    write_file(tmp_path, 3, pid="many")
    write_file(tmp_path, 4, url="ftp://127.0.0.1")
    write_file(tmp_path, 5, root_dir=None)
    (tmp_path / "jpserver-6.json").write_text('{"url": "http', encoding="utf-8")
    (tmp_path / "jpserver-7.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "jpserver-8.json").write_text("[]", encoding="utf-8")
    (tmp_path / "jpserver-9.json").write_text(" " * 100_000, encoding="utf-8")
    (tmp_path / "jpserver-10.json").mkdir()
    (tmp_path / "nbserver-11.json").write_text("{}", encoding="utf-8")
    write_file(tmp_path, 12, url="http://127.0.0.1:8888/user/ada/")
    assert [server.url for server in running_servers(tmp_path)] == ["http://127.0.0.1:8888/user/ada"]
    assert running_servers(tmp_path / "missing") == []


@requirement("discovery:files:stale")
def test_files_of_other_people_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path, 1)
    assert len(running_servers(tmp_path)) == 1
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    assert running_servers(tmp_path) == []


@requirement("discovery:secret:hidden")
def test_the_token_is_not_shown(tmp_path: Path) -> None:
    write_file(tmp_path, 1)
    (server,) = running_servers(tmp_path)
    assert server.token.reveal() == "secret-token"
    assert "secret-token" not in f"{server} {server!r} {server.address!r}"


@requirement("discovery:choice:nearest")
@pytest.mark.anyio
async def test_the_nearest_root_wins_if_its_token_works(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "c"
    make(folder)
    roots = [tmp_path, tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "bb", tmp_path / "other"]
    servers = [LocalServer(f"http://127.0.0.1:{i}", Secret(""), root.resolve(), 1) for i, root in enumerate(roots)]
    asked: list[str] = []

    async def lets_us_in(server: LocalServer) -> bool:
        asked.append(server.url[-1])
        return server.url[-1] in allowed

    allowed = "012"
    assert await server_holding(folder, servers, lets_us_in) == servers[2]
    allowed = "0"
    assert await server_holding(folder, servers, lets_us_in) == servers[0]
    allowed = ""
    assert await server_holding(folder, servers, lets_us_in) is None
    assert set(asked) == {"0", "1", "2"}, "servers that do not hold the folder are never asked"


@contextmanager
def waiting_process() -> Generator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.communicate(b"\n")


@requirement("secrecy:found-server")
@pytest.mark.anyio
async def test_who_holds_the_port_of_a_dead_server_now_is_not_told_its_token(tmp_path: Path) -> None:
    """Its file is still there, and another process has its number."""
    heard: list[bytes] = []

    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        body = b'{"type": "directory"}'
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(stranger, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        with waiting_process() as other:
            write_file(tmp_path, 1, url=f"http://127.0.0.1:{port}/", pid=other.pid, root_dir=str(tmp_path))
            (server,) = running_servers(tmp_path)
            assert not await accepts_token(server)
        assert heard == []
        write_file(tmp_path, 1, url=f"http://127.0.0.1:{port}/", root_dir=str(tmp_path))
        (own,) = running_servers(tmp_path)
        assert await accepts_token(own), "the process that listens there is told"
        assert b"token secret-token" in heard[0]


@requirement("secrecy:found-server")
def test_a_pipe_or_a_link_in_the_place_of_a_runtime_file_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "jpserver-1.json")
    write_file(tmp_path, 2)
    (tmp_path / "jpserver-2.json").rename(tmp_path / "elsewhere")
    (tmp_path / "jpserver-2.json").symlink_to("elsewhere")
    (tmp_path / "jpserver-3.json").symlink_to("/dev/zero")
    write_file(tmp_path, 4)
    assert [server.pid for server in running_servers(tmp_path)] == [os.getpid()]


def make(folder: Path) -> None:
    folder.mkdir(parents=True)


@requirement("discovery:choice:real")
@pytest.mark.anyio
async def test_a_real_server_is_found_and_lets_us_in(jupyter_server: JupyterServer) -> None:
    folder = jupyter_server.root.parent / "runtime_dir"
    found = await server_holding(jupyter_server.root, running_servers(folder), accepts_token)
    assert found is not None
    assert (found.token.reveal(), found.root) == (jupyter_server.token, jupyter_server.root.resolve())
    assert found.address.root == found.root
    wrong = LocalServer(found.url, Secret("wrong"), found.root, found.pid)
    nobody = LocalServer("http://127.0.0.1:9", found.token, found.root, found.pid)
    assert not await accepts_token(wrong)
    assert not await accepts_token(nobody)
    assert await server_holding(jupyter_server.root, [wrong, nobody], accepts_token) is None
