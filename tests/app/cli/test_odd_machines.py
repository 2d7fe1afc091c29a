"""Starting on odd machines: no home, a home that cannot be written, a cluster's variables, a client that starts us anywhere."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from cellwright.app.cli.commands import start_log
from cellwright.app.environment import is_of_cluster
from cellwright.app.settings import Settings
from cellwright.app.settings_loading import load_settings
from cellwright.core.errors import ConfigError
from cellwright.system.folders import give_home, temporary_home
from requirements import requirement
from support import clean_environ

pytestmark = pytest.mark.timeout(240)

# A user whom nobody knows cannot be had without being root: what the system answers about them can.
UNKNOWN_USER = """
import os, pwd, sys
def unknown(_number):
    raise KeyError("uid not found")
pwd.getpwuid = unknown
if os.environ.get("TEST_HOME"):
    os.environ["HOME"] = os.environ["TEST_HOME"]
else:
    os.environ.pop("HOME", None)
from cellwright.app.cli.entry import main
sys.exit(main())
"""
NOBODY = (sys.executable, "-c", UNKNOWN_USER)
PROGRAM = (sys.executable, "-m", "cellwright")
UNWRITABLE = "/sys"
"""Nobody can make a folder there, root neither."""


def odd_environ(tmp_path: Path, **more: str) -> dict[str, str]:
    """An environment that names no folder of ours; temporary files go where only this test looks."""
    kept = {name: value for name, value in clean_environ().items() if not name.startswith(("XDG_", "JUPYTER_"))}
    kept.pop("HOME", None)
    temporary = tmp_path / "temporary"
    temporary.mkdir(exist_ok=True)
    return kept | {"TMPDIR": str(temporary)} | more


def run(
    command: tuple[str, ...], *arguments: str, environ: dict[str, str], cwd: Path | str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=environ,
        cwd=cwd,
        input=stdin,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@asynccontextmanager
async def client(
    command: tuple[str, ...], *arguments: str, environ: dict[str, str], cwd: Path | str
) -> AsyncGenerator[Client]:
    program, *others = (*command, *arguments)
    parameters = StdioServerParameters(command=program, args=others, env=environ, cwd=str(cwd))
    async with Client(parameters, cache=None) as opened:
        yield opened


async def answer(opened: Client, tool: str, **arguments: Any) -> tuple[bool, dict[str, Any]]:
    result = await opened.call_tool(tool, arguments)
    assert result.structured_content is not None
    return bool(result.is_error), result.structured_content


# -- no home --------------------------------------------------------------------------------------------------------------------


@requirement("odd:no-home")
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["doctor", "--json"], 0),
        (["token", "list"], 0),
        (["token", "create", "x"], 0),
        (["init"], 0),
        (["show"], 1),
        (["list"], 0),
        (["status"], 0),
        (["import", "-", "--from", "md", "--into", "scratchpad://p"], 0),
        (["backup", "copy.db"], 1),
        (["vacuum"], 1),
        (["install", "cursor"], 2),
        (["install", "cursor", "--project", "."], 0),
        (["--root", "~nobody-of-this-name/x"], 2),
    ],
    ids=str,
)
def test_every_command_works_or_says_what_is_missing(arguments: list[str], status: int, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    done = run(NOBODY, *arguments, environ=odd_environ(tmp_path), cwd=project, stdin="# Title\n")
    assert done.returncode == status, done.stdout + done.stderr
    if arguments[0] == "doctor":
        notes = [check["detail"] for check in json.loads(done.stdout)["checks"] if check["name"] == "note"]
        assert any("there is no home folder" in note for note in notes)
    elif arguments[0] in {"token", "init", "show", "list", "status", "import"}:
        assert "note: there is no home folder, so " in done.stderr
        assert "--state-dir" in done.stderr
    elif arguments == ["install", "cursor"]:
        assert "there is no home folder" in done.stderr
        assert "--project" in done.stderr


@requirement("odd:no-home")
@pytest.mark.parametrize("named", ["flag", "variable", "xdg"])
def test_a_state_folder_that_is_named_is_used(named: str, tmp_path: Path) -> None:
    state = tmp_path / "state"
    environ = odd_environ(tmp_path)
    flags = ["--state-dir", str(state)] if named == "flag" else []
    environ |= {"variable": {"CELLWRIGHT_STATE_DIR": str(state)}, "xdg": {"XDG_STATE_HOME": str(tmp_path / "xdg")}}.get(
        named, {}
    )
    done = run(NOBODY, "token", "create", "x", *flags, environ=environ, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    where = tmp_path / "xdg" / "cellwright" if named == "xdg" else state
    assert (where / "tokens.json").is_file()


@requirement("odd:no-home", "odd:wide-folder")
@pytest.mark.anyio
async def test_without_a_home_an_agent_in_the_root_folder_gets_notebooks(tmp_path: Path) -> None:
    """As in a container that is started for a user whom it does not know."""
    async with client(NOBODY, environ=odd_environ(tmp_path), cwd="/") as opened:
        failed, listed = await answer(opened, "list_nbs")
        assert not failed, listed
        assert (listed["notebooks"], listed["total"]) == ([], 0)
        _, status = await answer(opened, "workspace_status")
    home = tmp_path / "temporary" / f"cellwright-{os.getuid()}"
    assert status["root"] == str(home / "notebooks")
    assert [note.partition(",")[0] for note in status["notes"]] == ["there is no home folder", "started in /"]
    assert home.stat().st_mode & 0o077 == 0


@requirement("odd:no-home")
def test_a_root_folder_that_cannot_be_written_is_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What containers give as HOME to a user whom they do not know. To root `/` is writable, so the answer is put in its place."""
    monkeypatch.setenv("HOME", "/")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def access(path: Path, _how: int) -> bool:
        return str(path) != "/"

    monkeypatch.setattr(os, "access", access)
    environ: dict[str, str] = {}
    assert "there is no home folder" in give_home(environ)
    assert environ == {"HOME": str(temporary_home())}
    assert temporary_home().is_relative_to(tmp_path)


@requirement("odd:no-home:safe")
@pytest.mark.parametrize("put", ["link", "file"])
def test_a_substitute_that_somebody_put_there_is_refused(put: str, tmp_path: Path) -> None:
    environ = odd_environ(tmp_path)
    home = tmp_path / "temporary" / f"cellwright-{os.getuid()}"
    (tmp_path / "theirs").mkdir()
    home.symlink_to(tmp_path / "theirs") if put == "link" else home.touch()
    done = run(NOBODY, "token", "list", environ=environ, cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no home folder, and" in done.stderr
    assert "set HOME" in done.stderr
    assert list((tmp_path / "theirs").iterdir()) == []


# -- a home that cannot be written ---------------------------------------------------------------------------------------------


@requirement("odd:read-only-home")
def test_doctor_tries_whether_the_state_folder_can_be_made(tmp_path: Path) -> None:
    environ = odd_environ(tmp_path, HOME=UNWRITABLE, JUPYTER_RUNTIME_DIR=str(tmp_path / "runtime"))
    done = run(PROGRAM, "doctor", "--json", environ=environ, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["state folder"]["state"] == "failed"
    assert "cannot be made" in checks["state folder"]["detail"]
    assert "--state-dir" in checks["state folder"]["remedy"]
    assert checks["database"]["state"] == "failed"
    assert "cannot be made" in checks["database"]["detail"]
    done = run(PROGRAM, "doctor", "--json", "--state-dir", str(tmp_path / "s"), environ=environ, cwd=tmp_path)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["state folder"] == {
        "name": "state folder",
        "state": "ok",
        "detail": f"{tmp_path / 's'} will be made when it is needed",
        "remedy": "",
    }
    assert not (tmp_path / "s").exists()


@requirement("odd:read-only-home")
@pytest.mark.anyio
async def test_tools_answer_with_a_code_and_a_hint_and_the_hint_helps(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "n.ipynb").write_text(
        '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', encoding="utf-8"
    )
    environ = odd_environ(tmp_path, HOME=UNWRITABLE)
    everything = ("--toolsets", "all")
    async with client(PROGRAM, *everything, environ=environ, cwd=project) as opened:
        _, status = await answer(opened, "workspace_status")
        (note,) = status["notes"]
        assert note.startswith(f"nothing can be kept in {UNWRITABLE}/.local/state/cellwright: ")
        assert "--state-dir" in note
        attempts: dict[str, dict[str, Any]] = {
            "list_nbs": {},
            "notebook_create": {},
        }
        for tool, arguments in attempts.items():
            failed, told = await answer(opened, tool, **arguments)
            assert failed, tool
            text = json.dumps(told)
            assert "INTERNAL_ERROR" not in text, text
            assert "--state-dir" in text, text
    async with client(PROGRAM, "--state-dir", str(tmp_path / "state"), environ=environ, cwd=project) as opened:
        failed, listed = await answer(opened, "list_nbs")
        assert not failed, listed
        assert [one["path"] for one in listed["notebooks"]] == ["n.ipynb"]


# -- a cluster ------------------------------------------------------------------------------------------------------------------


@requirement("odd:cluster-variables")
@pytest.mark.parametrize(
    ("name", "value", "ours"),
    [
        ("CELLWRIGHT_SERVICE_HOST", "10.0.0.1", False),
        ("CELLWRIGHT_SERVICE_PORT", "4040", False),
        ("CELLWRIGHT_SERVICE_PORT_HTTP", "4040", False),
        ("CELLWRIGHT_PORT", "tcp://10.0.0.1:4040", False),
        ("CELLWRIGHT_PORT", "4040", True),
        ("CELLWRIGHT_PORT_4040_TCP", "tcp://10.0.0.1:4040", False),
        ("CELLWRIGHT_PORT_4040_TCP_ADDR", "10.0.0.1", False),
        ("CELLWRIGHT_PORT_4040_TCP_PORT", "4040", False),
        ("CELLWRIGHT_PORT_4040_TCP_PROTO", "tcp", False),
        ("CELLWRIGHT_WEB_SERVICE_HOST", "10.0.0.2", False),
        ("CELLWRIGHT_WEB_PORT", "tcp://10.0.0.2:80", False),
        ("CELLWRIGHT_WEB_PORT_80_UDP_ADDR", "10.0.0.2", False),
        ("CELLWRIGHT_SERVICE_HOSTS", "10.0.0.1", True),
        ("CELLWRIGHT_PROT", "4040", True),
        ("CELLWRIGHT_PORTS", "tcp://10.0.0.1:4040", True),
        ("CELLWRIGHT_PORT_TCP", "1", True),
    ],
)
def test_which_variables_are_of_a_cluster(name: str, value: str, ours: bool) -> None:
    assert is_of_cluster(name, value) is not ours


@requirement("odd:cluster-variables")
def test_variables_of_a_cluster_are_ignored_and_misspelled_ones_refused(tmp_path: Path) -> None:
    cluster = {
        "CELLWRIGHT_SERVICE_HOST": "10.0.0.1",
        "CELLWRIGHT_SERVICE_PORT": "4040",
        "CELLWRIGHT_SERVICE_PORT_HTTP": "4040",
        "CELLWRIGHT_PORT": "tcp://10.0.0.1:4040",
        "CELLWRIGHT_PORT_4040_TCP_ADDR": "10.0.0.1",
    }
    nothing = {"XDG_CONFIG_HOME": str(tmp_path)}
    settings = load_settings(
        {"root": str(tmp_path), "log_level": "debug"}, {**nothing, **cluster, "CELLWRIGHT_RATE": "7"}
    )
    assert (settings.port, settings.host, settings.rate) == (Settings().port, Settings().host, 7.0)
    assert settings.not_ours == tuple(cluster)
    assert settings.notes == ()
    with pytest.raises(ConfigError, match="CELLWRIGHT_PROT is no setting") as caught:
        load_settings({"root": str(tmp_path)}, {**nothing, **cluster, "CELLWRIGHT_PROT": "1"})
    assert "CELLWRIGHT_PORT" in caught.value.hint


@requirement("odd:cluster-variables")
def test_what_was_ignored_is_in_the_log_of_who_looks_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        for wanted, shown in (("debug", True), ("info", False)):
            start_log(Settings(root=tmp_path, log_level=wanted, not_ours=("CELLWRIGHT_SERVICE_HOST",)))
            assert ("CELLWRIGHT_SERVICE_HOST" in capsys.readouterr().err) is shown
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.captureWarnings(capture=False)


# -- started anywhere -----------------------------------------------------------------------------------------------------------


@requirement("odd:wide-folder")
@pytest.mark.anyio
@pytest.mark.parametrize("where", ["/", "home", "above"])
async def test_a_client_that_starts_it_anywhere_gets_a_workspace(where: str, tmp_path: Path) -> None:
    home = tmp_path / "people" / "x"
    home.mkdir(parents=True)
    cwd = {"/": Path("/"), "home": home, "above": home.parent}[where]
    environ = odd_environ(tmp_path, HOME=str(home))
    async with client(PROGRAM, environ=environ, cwd=cwd) as opened:
        _, status = await answer(opened, "workspace_status")
        assert status["root"] == str(home / "notebooks")
        assert status["notes"] == [
            f"started in {cwd}, which is no workspace, so {home / 'notebooks'} is used; --root names another"
        ]
    assert (home / "notebooks").is_dir()


@requirement("odd:wide-folder")
def test_a_workspace_that_was_chosen_is_made_only_when_it_is_needed(tmp_path: Path) -> None:
    environ = odd_environ(tmp_path, HOME=str(tmp_path), JUPYTER_RUNTIME_DIR=str(tmp_path / "runtime"))
    done = run(PROGRAM, "doctor", environ=environ, cwd="/")
    assert f"✔ workspace: {tmp_path / 'notebooks'} will be made when it is needed" in done.stdout
    assert "· note: started in /, which is no workspace" in done.stdout
    assert not (tmp_path / "notebooks").exists()
    done = run(PROGRAM, "init", environ=environ, cwd="/")
    assert done.returncode == 0
    assert "note: started in /" in done.stderr
    assert (tmp_path / "notebooks" / ".cellwright" / "project.yaml").is_file()
    done = run(PROGRAM, "init", environ=odd_environ(tmp_path, HOME=UNWRITABLE), cwd="/")
    assert done.returncode == 2
    assert "--root" in done.stderr


@requirement("odd:whole-disk")
@pytest.mark.anyio
async def test_a_whole_disk_that_is_named_is_obeyed_and_said(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    command = (sys.executable, "-c", f"import os\nos.dup2(os.open({str(errors)!r}, os.O_WRONLY | os.O_CREAT), 2)\nos.execv({sys.executable!r}, [{sys.executable!r}, '-m', 'cellwright', '--root', '/'])")  # fmt: skip  # noqa: E501
    async with client(command, environ=odd_environ(tmp_path, HOME=str(tmp_path)), cwd=tmp_path) as opened:
        _, status = await answer(opened, "workspace_status")
    assert status["root"] == "/"
    assert ["whole disk /" in note for note in status["notes"]] == [True]
    assert "the workspace is the whole disk /" in errors.read_text(encoding="utf-8")


@requirement("odd:gone-folder")
def test_a_working_folder_that_is_gone_is_no_reason_to_fail(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = f"import os, runpy, sys\nos.rmdir({str(gone)!r})\nsys.argv = ['cellwright', 'status']\n"
    program += "runpy.run_module('cellwright', run_name='__main__')\n"
    done = run((sys.executable, "-P", "-c", program), environ=odd_environ(tmp_path, HOME=str(tmp_path)), cwd=gone)
    assert done.returncode == 0, done.stderr
    assert "started in a folder that is gone" in done.stderr


# -- the command line -----------------------------------------------------------------------------------------------------------


@requirement("cli:token:state-dir")
def test_tokens_are_kept_where_the_server_looks_for_them(tmp_path: Path) -> None:
    environ = odd_environ(tmp_path, HOME=str(tmp_path), CELLWRIGHT_STATE_DIR=str(tmp_path / "elsewhere"))
    assert run(PROGRAM, "token", "create", "x", environ=environ, cwd=tmp_path).returncode == 0
    assert (tmp_path / "elsewhere" / "tokens.json").is_file()


@requirement("cli:encoding")
def test_a_terminal_that_cannot_show_a_letter_is_no_reason_to_fail(tmp_path: Path) -> None:
    environ = odd_environ(tmp_path, HOME=str(tmp_path), PYTHONIOENCODING="cp1252")
    done = run(PROGRAM, "doctor", "--root", str(tmp_path), environ=environ, cwd=tmp_path)
    assert "? cellwright: " in done.stdout


@requirement("cli:lab")
def test_lab_ends_by_a_signal_and_says_truly_when_its_server_ends(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    environ = odd_environ(tmp_path, HOME=str(tmp_path))
    command = [*PROGRAM, "lab", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ, cwd=project) as first:
        try:
            assert first.stdout is not None
            shown = ""
            for line in first.stdout:
                shown += line
                if "Ctrl-C" in line:
                    break
            assert "Ctrl-C stops it" in shown
            second = run((*PROGRAM, "lab", "--no-browser"), environ=environ, cwd=project)
            assert second.returncode == 0
            assert "It ends with the program that started it, not with this command." in second.stdout
            first.send_signal(signal.SIGTERM)
            assert first.wait(60) == 0
        finally:
            first.kill()
    third = run((*PROGRAM, "doctor"), environ=environ, cwd=project)
    assert "none is running" in third.stdout
