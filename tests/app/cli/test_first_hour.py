"""The command line as people meet it in their first hour: real processes, a real terminal where it matters."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import copies
from cellwright import __version__
from cellwright.app.http.tokens import TokenStore, parse_scopes
from cellwright.core.errors import Conflict
from requirements import requirement
from support import clean_environ, stdio_client, stop

SECONDS = 50


def cellwright(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return copies.run(*arguments, env=clean_environ(), cwd=cwd)


@requirement("cli:waiting")
def test_the_bare_command_in_a_terminal_says_what_it_waits_for(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "cellwright", "--root", str(tmp_path), "--state-dir", str(tmp_path / "state")]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs, env=clean_environ(), text=True
    )
    os.close(theirs)
    shown, end = b"", time.monotonic() + SECONDS
    try:
        while b"Ctrl-C stops" not in shown and time.monotonic() < end:
            if select.select([ours], [], [], 1)[0]:
                shown += os.read(ours, 4096)
        assert b"waits here for an MCP client" in shown
        assert b"cellwright install" in shown
    finally:
        stop(process)
        os.close(ours)


@requirement("cli:version")
def test_the_version_and_help_have_the_names_people_try() -> None:
    assert cellwright("-V").stdout == cellwright("--version").stdout == f"cellwright {__version__}\n"
    assert cellwright("help").stdout == cellwright("--help").stdout
    assert cellwright("help", "token", "create").stdout == cellwright("token", "create", "--help").stdout
    wrong = cellwright("help", "tokn")
    assert wrong.returncode == 2
    assert "did you mean 'token'" in wrong.stderr


@requirement("cli:required")
def test_what_is_missing_is_said_with_the_help_that_tells_more() -> None:
    done = cellwright("install")
    assert done.returncode == 2
    assert done.stderr == (
        "cellwright install: the following arguments are required: CLIENT\n"
        "cellwright install --help shows what there is\n"
    )


@requirement("cli:unknown-flag")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("token create --name me", "cellwright token create: unrecognized arguments: --name\n"),
        ("token create --scope read me", "--scope; did you mean '--scopes'?\n"),
        ("install claude-code --bogus", "cellwright install: unrecognized arguments: --bogus\n"),
        ("serve --prot 5", "cellwright serve: unrecognized arguments: --prot; did you mean '--port'?\n"),
        ("--toolset all", "cellwright: unrecognized arguments: --toolset; did you mean '--toolsets'?\n"),
    ],
)
def test_an_unknown_flag_is_refused_by_its_own_command(given: str, said: str) -> None:
    done = cellwright(*given.split())
    assert done.returncode == 2
    first, last = done.stderr.splitlines(keepends=True)
    assert first.endswith(said)
    assert last == f"{first.partition(':')[0]} --help shows what there is\n"


@requirement("hidden:terminal")
def test_the_name_of_a_folder_does_nothing_to_the_terminal(tmp_path: Path) -> None:
    odd = tmp_path / "a\x1b[2Jb\u202e"
    odd.mkdir()
    done = cellwright("show", "--root", str(odd), "--state-dir", str(tmp_path / "state"))
    assert "nothing is known of" in done.stderr
    command = [sys.executable, "-m", "cellwright", "serve", "--port", "0", "--root", str(odd)]
    environ = clean_environ(CELLWRIGHT_STATE_DIR=str(tmp_path / "state"))
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environ)
    assert server.stdout is not None
    greeting = server.stdout.readline()
    stop(server)
    for text in (done.stderr, greeting):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "[2Jb" in text


@requirement("cli:reader-left")
@pytest.mark.parametrize("command", [["help"], ["token", "list", "--json"]], ids=str)
def test_a_reader_that_leaves_is_no_fault(command: list[str], tmp_path: Path) -> None:
    program = [sys.executable, "-m", "cellwright", *command]
    environ = clean_environ(CELLWRIGHT_STATE_DIR=str(tmp_path / "state"))
    ours, theirs = os.pipe()
    os.close(ours)
    left = subprocess.run(program, stdout=theirs, stderr=subprocess.PIPE, timeout=SECONDS, check=False, env=environ)
    os.close(theirs)
    assert (left.returncode, left.stderr) == (141, b"")
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *program]
    done = subprocess.run(closed, stderr=subprocess.PIPE, timeout=SECONDS, check=False, env=environ)
    assert (done.returncode, done.stderr) == (0, b"")


@requirement("cli:list")
@pytest.mark.timeout(240)
def test_pads_and_thinking_notebooks_are_listed_by_the_addresses_that_export_takes(tmp_path: Path) -> None:
    where = ("--root", str(tmp_path), "--state-dir", str(tmp_path / "state"))
    nothing = cellwright("list", *where)
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "local has no pads" in nothing.stderr
    (tmp_path / "plan.md").write_text("# The plan\n\nFirst this.\n\n```python\n1\n```\n", encoding="utf-8")
    for into in ("scratchpad://plan", "scratchpad://list", "notebook://"):
        assert cellwright("import", str(tmp_path / "plan.md"), "--into", into, *where).returncode == 0
    listed = json.loads(cellwright("list", "--json", *where).stdout)
    addresses = [notebook["address"] for notebook in listed]
    assert addresses[1:] == ["scratchpad://list/", "scratchpad://plan"]
    assert addresses[0].startswith("notebook://")
    assert [(notebook["title"], notebook["cells"]) for notebook in listed] == [("The plan", 2)] * 3
    for address, line in zip(addresses, cellwright("list", *where).stdout.splitlines(), strict=True):
        assert re.fullmatch(rf"{re.escape(address)}  2 cells  \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ  The plan", line)
        assert "First this." in cellwright("export", address, "--to", "md", *where).stdout
    assert cellwright("list", "--as", "somebody", *where).stdout == ""


@requirement("cli:token-names")
def test_a_second_token_of_a_name_is_refused(tmp_path: Path) -> None:
    where = ("--state-dir", str(tmp_path / "state"))
    assert cellwright("token", "create", "laptop", *where).returncode == 0
    again = cellwright("token", "create", "laptop", *where)
    assert again.returncode == 1
    assert "laptop" in again.stderr
    assert len(json.loads(cellwright("token", "list", "--json", *where).stdout)) == 1


@requirement("cli:token-names")
def test_where_two_tokens_share_a_name_the_ids_are_named(tmp_path: Path) -> None:
    store = TokenStore(tmp_path)
    first, _ = store.create("laptop", parse_scopes("read"))
    second, _ = store.create("desk", parse_scopes("read"))
    tokens = {token.id: replace(token, name="laptop") for token in (first, second)}
    store._save(tokens)  # as a version before this one may have left them
    with pytest.raises(Conflict) as caught:
        store.revoke("laptop")
    assert first.id in caught.value.hint
    assert second.id in caught.value.hint
    assert store.revoke(second.id).id == second.id


@pytest.fixture
async def used(tmp_path: Path) -> tuple[str, ...]:
    """A workspace in which a client has called a tool, as flags."""
    async with stdio_client(tmp_path) as client:
        await client.call_tool("workspace_status", {})
    return ("--root", str(tmp_path / "root"), "--state-dir", str(tmp_path / "state"))


@requirement("cli:status-json")
@pytest.mark.anyio
async def test_numbers_are_numbers(used: tuple[str, ...]) -> None:
    status = json.loads(cellwright("status", "--json", *used).stdout)
    (session,) = status["sessions"]
    assert session["calls"] == 1
    assert session["files"] == 0
    assert session["topics"] == []
    assert "  1 call  0 files" in cellwright("status", *used).stdout


@requirement("cli:backup-folder")
@pytest.mark.anyio
async def test_a_backup_makes_no_folders(used: tuple[str, ...], tmp_path: Path) -> None:
    done = cellwright("backup", str(tmp_path / "missing" / "x.db"), *used)
    assert done.returncode == 1
    assert "there is no folder" in done.stderr
    assert not (tmp_path / "missing").exists()


@requirement("cli:show-before-init")
def test_what_is_not_known_yet_is_said(tmp_path: Path) -> None:
    done = cellwright("show", "--root", str(tmp_path), "--state-dir", str(tmp_path / "state"))
    assert done.returncode == 1
    assert "cellwright init" in done.stderr
    assert done.stdout == ""


@requirement("cli:lab-quiet")
@pytest.mark.timeout(150)
def test_lab_prints_an_address_and_no_log_lines(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cellwright", "lab", "--no-browser", "--root", str(tmp_path)]
    environ = clean_environ(JUPYTER_RUNTIME_DIR=str(tmp_path / "runtime"))
    process = subprocess.Popen(
        [*command, "--state-dir", str(tmp_path / "state")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        address = next(line for line in process.stdout if "http://127.0.0.1" in line)
        assert re.search(r"/lab\?token=\S+", address)
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=SECONDS)
    assert errors == ""
