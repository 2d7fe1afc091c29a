"""The command that `install` writes, by every way in which people have cellwright: real uv, real pipx, real environments."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import uv

from cellwright.app.clients.launch import Running, everyones_command, own_command
from locations import ROOT
from requirements import requirement
from support import clean_environ

UV = uv.find_uv_bin()
UVX = str(Path(UV).with_name("uvx.exe" if sys.platform == "win32" else "uvx"))


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """An environment with a home of its own, in which uv's and pipx's things go below it."""
    names = ("UV_TOOL_DIR", "UV_TOOL_BIN_DIR", "XDG_DATA_HOME", "XDG_BIN_HOME", "VIRTUAL_ENV", "PIPX_HOME")
    environ = {name: value for name, value in clean_environ().items() if name not in names}
    path = f"{Path(UV).parent}{os.pathsep}{environ['PATH']}"
    cache = str(ROOT / ".cache" / "uv")
    return {**environ, "HOME": str(tmp_path / "home"), "UV_CACHE_DIR": cache, "UV_PYTHON": sys.executable, "PATH": path}


def entry(command: list[str], environ: Mapping[str, str], *more: str, cwd: Path | None = None) -> list[str]:
    """The whole command of the entry that this way of running cellwright prints."""
    ended = subprocess.run(
        [*command, "install", "claude-code", "--print", *more],
        env=dict(environ),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    shown = json.loads(ended.stdout[ended.stdout.index("{") : ended.stdout.rindex("}") + 1])["mcpServers"]["cellwright"]
    return [shown["command"], *shown["args"]]


@requirement("install:lasts:uvx")
@pytest.mark.timeout(180)
def test_uvx_is_written_with_what_it_was_asked_for(wheel: Path, machine: dict[str, str], tmp_path: Path) -> None:
    index = ["--find-links", str(wheel.parent)]
    plain = entry([UVX, *index, "cellwright"], machine)
    assert plain == ["uvx", "cellwright"]
    pinned = entry([UVX, *index, "cellwright@0.1.0"], machine)
    assert pinned == ["uvx", "cellwright@0.1.0"]
    extras = entry([UV, "tool", "run", *index, "--from", "cellwright[all]", "cellwright"], machine)
    assert extras == ["uvx", "--from", "cellwright[all]", "cellwright"]
    local = entry([UVX, "--from", os.path.relpath(wheel, tmp_path), "cellwright"], machine, cwd=tmp_path)
    assert local == ["uvx", "--from", str(tmp_path / os.path.relpath(wheel, tmp_path)), "cellwright"]
    shared = entry([UVX, "--from", str(wheel), "cellwright"], machine, "--project", str(tmp_path))
    assert shared == ["uvx", "cellwright"], "a shared file has no path of one's own"


@requirement("install:lasts:uvx")
def test_a_run_without_a_cache_is_a_run_of_uvx_too(wheel: Path, machine: dict[str, str]) -> None:
    found = entry([UVX, "--no-cache", "--find-links", str(wheel.parent), "cellwright"], machine)
    assert found == ["uvx", "cellwright"]


@requirement("install:lasts:tools", "install:shared")
def test_an_installed_tool_is_written_by_its_script(wheel: Path, machine: dict[str, str], tmp_path: Path) -> None:
    subprocess.run([UV, "tool", "install", "--quiet", wheel], env=machine, check=True, timeout=120)
    script = str(Path(machine["HOME"]) / ".local" / "bin" / "cellwright")
    python = Path(script).resolve().with_name("python")
    assert entry([script], machine) == [script]
    assert entry([str(python), "-m", "cellwright"], machine) == [script], "also when its own Python is run"
    assert entry([str(Path(script).resolve())], machine) == [script], "also when the script inside is run"
    assert entry([script], machine, "--project", str(tmp_path)) == ["uvx", "cellwright"]


@requirement("install:lasts:tools", "install:lasts:pipx-run")
@pytest.mark.timeout(240)
def test_pipx_is_written_by_its_script_or_by_its_run(wheel: Path, machine: dict[str, str]) -> None:
    pipx = [UVX, "--quiet", "pipx"]
    subprocess.run([*pipx, "install", wheel], env=machine, check=True, capture_output=True, timeout=120)
    script = str(Path(machine["HOME"]) / ".local" / "bin" / "cellwright")
    assert entry([script], machine) == [script]
    assert entry([str(Path(script).resolve())], machine) == [script]
    run = [*pipx, "run", "--spec", str(wheel), "cellwright"]
    assert entry(run, machine) == ["pipx", "run", "cellwright"]
    elsewhere = {**machine, "PIPX_HOME": str(Path(machine["HOME"]) / "programs")}
    assert entry(run, elsewhere) == ["pipx", "run", "cellwright"], "wherever its cache is"


@requirement("install:lasts:venv")
def test_an_environment_that_lasts_is_written_by_its_script(tmp_path: Path) -> None:
    environ = clean_environ(HOME=str(tmp_path))
    script = Path(sys.executable).with_name("cellwright")
    assert entry([str(script)], environ) == [str(script)]
    assert entry([sys.executable, "-m", "cellwright"], environ) == [str(script)]
    relative = os.path.relpath(script, tmp_path)
    assert entry([relative], environ, cwd=tmp_path) == [str(tmp_path / relative)]


def running(tmp_path: Path, **more: object) -> Running:
    known: dict[str, object] = {
        "prefix": tmp_path,
        "executable": tmp_path / "bin" / "python",
        "script": tmp_path / "__main__.py",
        "script_folders": (tmp_path / "bin",),
        "path_folders": (),
        "started_by": (),
    }
    return Running(**{**known, **more})  # type: ignore[arg-type]


@requirement("install:lasts:venv")
def test_without_a_script_the_module_is_run(tmp_path: Path) -> None:
    assert own_command(running(tmp_path)) == (str(tmp_path / "bin" / "python"), "-m", "cellwright")


@requirement("install:lasts:uvx")
@pytest.mark.parametrize(
    ("started_by", "expected"),
    [
        ("", "uvx cellwright"),
        ("bash -c cellwright", "uvx cellwright"),
        ("uv run --with cellwright cellwright install zed", "uvx cellwright"),
        ("uv tool uvx --from=cellwright[all] cellwright install zed", "uvx --from cellwright[all] cellwright"),
        (
            "uvx -p 3.13 --with pandas --quiet cellwright[all]@0.2 install",
            "uvx -p 3.13 --with pandas cellwright[all]@0.2",
        ),
        ("uvx --from git+https://h/cellwright@v1 cellwright", "uvx --from git+https://h/cellwright@v1 cellwright"),
        ("uvx --from git+https://TOKEN@h/cellwright cellwright", "uvx cellwright"),
        ("uvx --index https://u:p@h/simple cellwright==0.1.0 install zed", "uvx cellwright==0.1.0"),
        ("uvx --from", "uvx cellwright"),
    ],
)
def test_a_request_to_uvx_is_repeated_without_passwords(started_by: str, expected: str, tmp_path: Path) -> None:
    prefix = tmp_path / "archive-v0" / "abc"
    found = running(tmp_path, prefix=prefix, started_by=tuple(started_by.split()))
    assert " ".join(own_command(found)) == expected
    assert " ".join(everyones_command(found)) == expected


@requirement("system:started-by")
def test_the_request_is_found_behind_launchers(tmp_path: Path) -> None:
    start = "import subprocess, sys; print(subprocess.check_output(sys.argv[1:], text=True))"
    (tmp_path / "uvx").write_text(start.replace("argv[1:]", "argv[4:]"), encoding="utf-8")
    look = "from cellwright.app.clients.launch import this_process; print(*this_process().started_by, sep='|')"
    launched = [sys.executable, "-c", start, sys.executable, "-c", look]
    asked = [str(tmp_path / "uvx"), "--with", "two words", "cellwright"]
    told = subprocess.run([sys.executable, *asked, *launched], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.strip().split("|")[1:5] == asked


@requirement("install:shared")
def test_without_uv_a_shared_file_names_the_program_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert everyones_command(running(tmp_path)) == ("uvx", "cellwright")
    shutil.copy(sys.executable, tmp_path / "cellwright")
    assert everyones_command(running(tmp_path)) == ("cellwright",)
