"""Paths and addresses that mean harm, given to every tool and resource that takes one."""

import os
import socket
import threading
import time
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cellwright.core.errors import NotFound
from cellwright.jupyter.files.on_disk import describe_all, walk_local
from cellwright.jupyter.files.paths import DocPath
from jupyter_support import JupyterProcess, JupyterServer, eventually, write_notebook
from kernel_support import rest
from notebook_agent import Agent, agent_of
from requirements import requirement
from support import http_server, stdio_client

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

ESCAPES = (
    "../outside.ipynb",
    "a/../../outside.ipynb",
    "..\\outside.ipynb",
    "%2e%2e/outside.ipynb",
    "%252e%252e/outside.ipynb",
    "..%2foutside.ipynb",
    "\uff0f\uff0e\uff0e\uff0foutside.ipynb",
    "\uff0e\uff0e/outside.ipynb",
    "C:outside.ipynb",
    "\\\\host\\share.ipynb",
    "a\0b.ipynb",
    "x" * 5_000 + ".ipynb",
    "a//b.ipynb",
    "./a.ipynb",
    "folder./a.ipynb",
    "folder /a.ipynb",
    "//etc/a.ipynb",
)
BY_PATH: dict[str, dict[str, Any]] = {
    "get_nb_stat": {},
    "read_nb_cells": {},
    "modify_nb_cells": {"modifications": [{"range": {"start": 0}, "content": "1"}]},
    "insert_nb_cells": {"position": 0, "cells": [{"content": "1"}]},
    "delete_nb_cells": {"ranges": [{"start": 0}]},
    "execute_nb_cells": {"ranges": [{"start": 0}]},
    "restart_nb_kernel": {},
    "assign_nb_kernel": {"kernel_name": "python3"},
    "edit_nb_cell": {"cell": 0, "old": "1", "new": "2"},
    "move_nb_cells": {"ranges": [{"start": 0}], "position": 0},
    "undo_nb_edit": {},
    "interrupt_nb_kernel": {},
    "inspect_variables": {},
    "complete_code": {"code": "x"},
    "search_nbs": {"query": "x"},
}


@requirement("adversarial:P1")
async def test_a_path_out_of_the_root_is_refused_by_every_tool_with_one_message(
    agent: Any, jupyter_server: JupyterServer
) -> None:
    outside = write_notebook(jupyter_server.root.parent, "outside.ipynb", ["the secret"])
    before = outside.stat()
    sentences: set[str] = set()
    async with agent() as do:
        for path in ESCAPES:
            for tool, more in BY_PATH.items():
                error = await do.error(tool, path=path, **more)
                assert error["code"] == "INVALID_ARGUMENT", (tool, path)
                sentences.add(error["message"].rpartition("'")[2] + error["hint"])
            await do.refused_resource(f"jupyter://{path}")
            assert (await do.error("list_nbs", path=path))["code"] == "INVALID_ARGUMENT"
        for nothing in ("", "."):
            assert (await do.error("read_nb_cells", path=nothing))["code"] == "INVALID_ARGUMENT"
    assert len(sentences) == 1
    assert outside.stat().st_mtime_ns == before.st_mtime_ns
    assert [one["path"] for one in rest(jupyter_server, "GET", "/api/sessions") if "outside" in one["path"]] == []


@requirement("adversarial:P1")
@pytest.mark.parametrize("uri", ["jupyter://%ff.ipynb", "jupyter://a%2f..%2fb.ipynb", "jupyter://%00.ipynb"])
async def test_an_address_that_is_no_text_is_refused_as_such(agent: Any, uri: str) -> None:
    async with agent() as do:
        await do.refused_resource(uri)


@requirement("adversarial:P2")
async def test_a_folder_whose_name_begins_like_the_root_is_outside(agent: Any, jupyter_server: JupyterServer) -> None:
    sibling = jupyter_server.root.parent / f"{jupyter_server.root.name}two"
    write_notebook(sibling, "s.ipynb", ["the secret"])
    paths = (f"../{sibling.name}/s.ipynb", f"..%2f{sibling.name}%2fs.ipynb", f"x/../../{sibling.name}/s.ipynb")
    async with agent() as do:
        for path in paths:
            assert (await do.error("read_nb_cells", path=path))["code"] == "INVALID_ARGUMENT"
            url = f"{jupyter_server.url}/tree/{path}"
            assert (await do.error("nb_path_from_url", url=url))["code"] == "INVALID_ARGUMENT"
        # From the file system's root it is a path below the server's root, where there is no such thing.
        assert (await do.error("read_nb_cells", path=f"{sibling}/s.ipynb"))["code"] == "NOT_FOUND"


@contextmanager
def swapping(folder: Path, outside: Path) -> Generator[None]:
    """Make `folder` a link to `outside` and a folder again, over and over, as fast as it goes."""
    ended = threading.Event()
    aside, link = folder.with_name("aside"), folder.with_name("link")

    def swap() -> None:
        while not ended.is_set():
            link.symlink_to(outside)
            folder.rename(aside)
            link.rename(folder)
            folder.unlink()
            aside.rename(folder)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        yield
    finally:
        ended.set()
        swapper.join(10)


def folder_and_outside(root: Path, outside: Path) -> tuple[Path, Path]:
    for number in range(20):
        write_notebook(root, f"folder/{number}/inside.ipynb", [])
        write_notebook(outside, f"{number}/secret.ipynb", ["needle"])
    return root / "folder", outside


@requirement("adversarial:P3")
@pytest.mark.parametrize("start", [None, "folder", "folder/7"])
def test_a_folder_swapped_for_a_link_while_it_is_listed_shows_nothing_outside(
    tmp_path: Path, start: str | None
) -> None:
    root = tmp_path / "root"
    seen: set[str] = set()
    looks = 0
    with swapping(*folder_and_outside(root, tmp_path / "outside")):
        began = time.monotonic()
        # On a busy machine one look after the other may fall into the moments in which the folder is not there.
        while (waited := time.monotonic() - began) < 2 or (not (seen and looks > 50) and waited < 60):
            looks += 1
            with suppress(NotFound):
                found = walk_local(root, DocPath(start) if start else None, ".ipynb", 1_000)
                seen |= {info.path for info in describe_all(root, found)} | {one.path for one in found}
    assert looks > 50
    assert {path.rpartition("/")[2] for path in seen} == {"inside.ipynb"}


@requirement("adversarial:P3")
def test_nothing_is_told_of_a_file_behind_a_folder_that_became_a_link(tmp_path: Path) -> None:
    root = tmp_path / "root"
    folder, outside = folder_and_outside(root, tmp_path / "outside")
    write_notebook(outside, "0/inside.ipynb", ["the one outside"])
    found = walk_local(root, None, ".ipynb", 1_000)
    assert len(describe_all(root, found)) == len(found) == 20
    folder.rename(root / "aside")
    folder.symlink_to(outside)
    assert describe_all(root, found) == []


@requirement("adversarial:P3")
async def test_the_tools_list_nothing_outside_while_a_folder_is_swapped(
    jupyter_process: JupyterProcess, nb_folder: str, tmp_path: Path
) -> None:
    """On a server that was found on this machine, which is listed from the disk."""
    folder, outside = folder_and_outside(jupyter_process.root / nb_folder, tmp_path / "outside")
    environ = {"JUPYTER_RUNTIME_DIR": str(jupyter_process.home / "runtime_dir")}
    flags = ("--root", str(jupyter_process.root), "--rate", "0")
    with http_server(tmp_path, *flags, environ=environ) as ours:
        async with agent_of(ours) as do:
            assert (await do("list_nbs", path=nb_folder))["total"] == 20
            listed: set[str] = set()
            with swapping(folder, outside):
                for _ in range(40):
                    listed |= {entry["name"] for entry in (await do("list_nbs", path=nb_folder))["notebooks"]}
            assert listed == {"inside.ipynb"}


@requirement("adversarial:P4")
async def test_what_is_no_file_is_refused_quickly(agent: Any, jupyter_server: JupyterServer, nb_folder: str) -> None:
    place = jupyter_server.root / nb_folder
    os.mkfifo(place / "pipe.ipynb")
    (place / "folder.ipynb").mkdir()
    with (place / "sparse.ipynb").open("wb") as file:
        file.truncate(10 * 2**30)
    (place / "device.ipynb").symlink_to("/dev/zero")
    (place / "loop.ipynb").symlink_to("loop.ipynb")
    write_notebook(place, "good.ipynb", ["needle"])
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("read_nb_cells", {}),
        ("get_nb_stat", {}),
        ("execute_nb_cells", {"ranges": [{"start": 0}]}),
    )
    async with agent() as do:
        for name in ("pipe", "folder", "sparse", "device", "loop"):
            for tool, more in calls:
                began = time.monotonic()
                error = await do.error(tool, path=f"{nb_folder}/{name}.ipynb", **more)
                assert f"{nb_folder}/{name}.ipynb" in error["message"]
                assert "json:notebook" not in error["message"]
                assert time.monotonic() - began < 10, (name, tool)
        found = await do("search_nbs", query="needle", path=nb_folder)
        assert [hit["path"] for hit in found["hits"]] == [f"{nb_folder}/good.ipynb"]
        assert await do.sources(f"{nb_folder}/good.ipynb") == ["needle"]
    sessions = rest(jupyter_server, "GET", "/api/sessions")
    assert [session["path"] for session in sessions if nb_folder in session["path"]] == []


COMPOSED = unicodedata.normalize("NFC", "é")
DECOMPOSED = unicodedata.normalize("NFD", "é")
ODD = (
    COMPOSED,
    DECOMPOSED,
    "case",
    "CASE",
    "line\nbreak",
    "tab\there",
    "🏴‍☠️",
    "a#b",
    "a?b",
    "a%b",
    "a&b=c;d",
    "cells",
    "'\"`$x",
)


@requirement("adversarial:P5")
async def test_odd_names_are_kept_to_the_letter(agent: Any, jupyter_server: JupyterServer, nb_folder: str) -> None:
    paths = sorted(f"{nb_folder}/{name}/{name}.ipynb" for name in ODD)
    for number, path in enumerate(paths):
        write_notebook(jupyter_server.root, path, [f"needle {number}"])
    async with agent() as do:
        listed = (await do("list_nbs", path=nb_folder))["notebooks"]
        assert [entry["path"] for entry in listed] == paths
        for entry in listed:
            # As it is copied from a browser: this server itself shows no pages.
            url = f"{jupyter_server.url}/lab/tree/{quote(entry['path'])}"
            assert (await do("nb_path_from_url", url=url))["notebook_path"] == entry["path"]
        hits = (await do("search_nbs", query="needle", path=nb_folder))["hits"]
        assert [hit["path"] for hit in hits] == paths
        for number, hit in enumerate(hits):
            uri = f"jupyter://{quote(hit['path'])}/cells/{hit['cell_id']}"
            assert (await do.resource(uri)).text == f"needle {number}"
            assert await do.sources(hit["path"]) == [f"needle {number}"]


@requirement("adversarial:P6")
async def test_hidden_files_are_not_for_the_tools(agent: Any, jupyter_server: JupyterServer, nb_folder: str) -> None:
    for hidden in (".secret", ".ipynb_checkpoints", ".cellwright"):
        write_notebook(jupyter_server.root, f"{nb_folder}/{hidden}/x.ipynb", ["needle"])
    async with agent() as do:
        await _hidden_is_refused(do, nb_folder, (".secret", ".ipynb_checkpoints", ".cellwright"))


@requirement("adversarial:P6")
async def test_hidden_files_are_not_listed_from_the_disk_either(tmp_path: Path) -> None:
    """A server that we started is listed from the disk, past its own refusal."""
    root = tmp_path / "root"
    for hidden in (".secret", ".ipynb_checkpoints"):
        write_notebook(root, f"sub/{hidden}/x.ipynb", ["needle"])
    async with stdio_client(tmp_path) as client:
        await _hidden_is_refused(Agent(client), "sub", (".secret", ".ipynb_checkpoints"))


async def _hidden_is_refused(do: Agent, folder: str, names: tuple[str, ...]) -> None:
    assert (await do("list_nbs", path=folder))["notebooks"] == []
    for name in names:
        place = f"{folder}/{name}"
        for tool in ("read_nb_cells", "get_nb_stat", "restart_nb_kernel"):
            assert (await do.error(tool, path=f"{place}/x.ipynb"))["code"] in {"NOT_FOUND", "INVALID_ARGUMENT"}
        await do.refused_resource(f"jupyter://{place}/x.ipynb")
        for tool, more in (("list_nbs", {}), ("search_nbs", {"query": "needle"})):
            result = await do.whole(tool, path=place, **more)
            assert result.is_error, result.structured_content


@requirement("adversarial:P7")
@pytest.mark.parametrize(
    "name",
    ["x?token=stolen", "x#part", "x\r\nHost: evil\r\n\r\nGET ", "x;y", "x&content=1", "api kernels", "x HTTP_1.1"],
)
async def test_no_name_ends_the_path_of_the_request_to_jupyter(
    agent: Any, jupyter_process: JupyterProcess, nb_folder: str, name: str
) -> None:
    log = jupyter_process.home / "server.log"
    before = log.stat().st_size
    path = f"{nb_folder}/{name}.ipynb"
    async with agent() as do:
        assert (await do.error("read_nb_cells", path=path))["code"] == "NOT_FOUND"

    def asked() -> set[str]:
        with log.open(encoding="utf-8", errors="replace") as file:
            file.seek(before)
            return {line.split(" GET ")[1].split(" ")[0] for line in file if " 404 GET " in line}

    # Jupyter logs a request after it has answered it.
    await eventually(lambda: bool(asked()), "the line of the request")
    assert asked() == {f"/api/contents/{quote(path)}?content=0"}


@requirement("adversarial:P8")
async def test_an_address_of_another_server_is_refused_and_nobody_is_asked(
    agent: Any, jupyter_server: JupyterServer
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0.2)
        port = other.getsockname()[1]
        here = jupyter_server.url.removeprefix("http://")
        addresses = (
            f"http://127.0.0.1:{port}/tree/a.ipynb",
            f"http://{here}@127.0.0.1:{port}/tree/a.ipynb",
            f"http://user:word@{here}/tree/a.ipynb",
            f"http://{here}.evil.example/tree/a.ipynb",
            f"http://\uff11\uff12\uff17{here.removeprefix('127')}/tree/a.ipynb",
            f"http://127.0.0.1.:{here.rpartition(':')[2]}/tree/a.ipynb",
            f"http://127.0.0.1:{port}\\@{here}/tree/a.ipynb",
            f"//127.0.0.1:{port}/tree/a.ipynb",
            f"file://{here}/tree/a.ipynb",
            f"ftp://{here}/tree/a.ipynb",
            f"javascript://{here}/tree/a.ipynb",
            f"{jupyter_server.url}/tree/../../a.ipynb",
            f"{jupyter_server.url}/tree/a%2f..%2f..%2fb.ipynb",
            f"{jupyter_server.url}/api/contents/a.ipynb",
            f"{jupyter_server.url}/tree/a.ipynb/../b.txt",
            "http://[/tree/a.ipynb",
            "http://127.0.0.1:99999999/tree/a.ipynb",
            "",
        )
        async with agent() as do:
            for url in addresses:
                assert (await do.error("nb_path_from_url", url=url))["code"] == "INVALID_ARGUMENT", url
        with pytest.raises(TimeoutError):
            other.accept()
