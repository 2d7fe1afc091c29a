"""The command line, as a person meets it: real processes, real exit codes."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

import copies
from cellwright.app.cli.main import CLIENTS, make_parser
from cellwright.app.clients import catalogue as clients
from cellwright.app.settings import SPECS
from requirements import requirement
from support import PATIENT_SECONDS, TOKEN, clean_environ, free_port, http_client, http_server, stop


def cellwright(
    *arguments: str, environ: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return copies.run(*arguments, env=clean_environ(**(environ or {})), cwd=cwd)


@requirement("cli:help")
def test_help_lists_commands_and_settings() -> None:
    text = cellwright("--help").stdout
    for command in ("serve", "start", "doctor", "install", "token"):
        assert command in text
    http = cellwright("serve", "--help").stdout
    for spec in SPECS:
        assert spec.flag in http
    assert "examples:" in text


@requirement("cli:nearest")
@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["--rot", "x"], "--root"),
        (["--rot=x"], "--root"),
        (["serv"], "serve"),
        (["serve", "--prot", "1"], "--port"),
        (["start", "--transport", "stdo"], "stdio"),
        (["install", "claude-cod"], "claude-code"),
        (["token", "creat", "x"], "create"),
        (["token", "create", "x", "--scopes", "reed"], "read"),
        (["--toolsets", "workspce"], "workspace"),
        (["--tools", "workspace_statu"], "workspace_status"),
        (["--log-level", "infos"], "info"),
        (["serve", "--tokn", "x"], "--token"),
    ],
)
def test_a_typo_exits_2_with_the_nearest_name(arguments: list[str], meant: str) -> None:
    done = cellwright(*arguments)
    assert done.returncode == 2
    assert f"did you mean {meant!r}" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@requirement("cli:doctor")
def test_doctor_prints_a_line_a_check_and_json(tmp_path: Path) -> None:
    # Other tests have servers of their own meanwhile, which come and go.
    alone = {"JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")}
    done = cellwright("doctor", "--root", str(tmp_path), "--state-dir", str(tmp_path / "s"), environ=alone)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^✔ cellwright: ", done.stdout, re.MULTILINE)
    report = json.loads(
        cellwright(
            "doctor", "--json", "--root", str(tmp_path), "--state-dir", str(tmp_path / "s"), environ=alone
        ).stdout
    )
    assert report["ok"] is True
    assert {check["state"] for check in report["checks"]} <= {"ok", "failed", "absent"}
    assert report["settings"]["root"] == str(tmp_path)


@requirement("cli:doctor")
def test_doctor_finds_a_fault_and_names_the_remedy(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o755)
    alone = {"JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")}
    done = cellwright("doctor", "--root", str(tmp_path), "--state-dir", str(state), environ=alone)
    assert done.returncode == 1
    assert "✘ state folder" in done.stdout
    assert "→ chmod 700" in done.stdout


@requirement("cli:token")
def test_tokens_are_made_listed_and_revoked(tmp_path: Path) -> None:
    where = ["--state-dir", str(tmp_path / "state")]
    made = cellwright("token", "create", "laptop", "--scopes", "read,write", "--expires", "30d", *where)
    token = made.stdout.split()[0]
    assert token.startswith("cw_")
    file = tmp_path / "state" / "tokens.json"
    assert token not in file.read_text(encoding="utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (listed,) = json.loads(cellwright("token", "list", "--json", *where).stdout)
    assert listed["name"] == "laptop"
    assert listed["scopes"] == ["read", "write"]
    assert token not in str(listed)
    assert "revoked" in cellwright("token", "revoke", "laptop", *where).stdout
    assert json.loads(cellwright("token", "list", "--json", *where).stdout) == []
    missing = cellwright("token", "revoke", "laptop", *where)
    assert missing.returncode == 1
    assert "no token has" in missing.stderr
    assert cellwright("token", "create", "x", "--expires", "soon", *where).returncode == 2


@requirement("cli:token")
def test_a_damaged_token_file_is_said_and_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text("{", encoding="utf-8")
    done = cellwright("token", "create", "x", "--state-dir", str(tmp_path))
    assert done.returncode == 2
    assert "is damaged" in done.stderr
    assert (tmp_path / "tokens.json").read_text(encoding="utf-8") == "{"


@requirement("cli:bind")
@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_public_address_needs_a_token(host: str, tmp_path: Path) -> None:
    done = cellwright("serve", "--host", host, "--port", "0", "--state-dir", str(tmp_path))
    assert done.returncode == 2
    assert "without a token" in done.stderr
    assert not (tmp_path / "serve-token").exists()


@requirement("cli:bind")
def test_a_public_address_with_a_token_of_its_own_serves(tmp_path: Path) -> None:
    cellwright("token", "create", "x", "--state-dir", str(tmp_path / "state"))
    with http_server(tmp_path, "--host", "0.0.0.0", token="") as server:
        assert httpx2.get(f"{server.base}/health", timeout=PATIENT_SECONDS).status_code == 200


@requirement("cli:serve-token")
def test_a_loopback_server_keeps_the_token_it_made(tmp_path: Path) -> None:
    statuses: list[int] = []
    kept = ""
    for _ in range(2):
        with http_server(tmp_path, token="") as server:
            kept = (tmp_path / "state" / "serve-token").read_text(encoding="utf-8").strip()
            answer = httpx2.get(
                f"{server.base}/metrics", headers={"Authorization": f"Bearer {kept}"}, timeout=PATIENT_SECONDS
            )
            statuses.append(answer.status_code)
            assert httpx2.get(f"{server.base}/metrics", timeout=PATIENT_SECONDS).status_code == 401
    assert statuses == [200, 200]
    assert stat.S_IMODE((tmp_path / "state" / "serve-token").stat().st_mode) == 0o600
    assert all(kept not in log.read_text(encoding="utf-8") for log in tmp_path.glob("*.log"))


@requirement("cli:start")
@pytest.mark.anyio
async def test_start_takes_the_flags_of_the_original_server(tmp_path: Path) -> None:
    flags = ["--document-url", "http://localhost:8888", "--runtime-url", "http://localhost:8888"]
    flags += ["--document-token", "MY_TOKEN", "--runtime-token", "MY_TOKEN"]
    program = ("-m", "cellwright", "start", "--transport", "streamable-http")
    with http_server(tmp_path, *flags, program=program) as server:
        async with http_client(server) as client:
            assert (await client.list_tools()).tools


@requirement("cli:install")
def test_install_writes_shows_and_removes_one_entry(tmp_path: Path) -> None:
    file = tmp_path / ".cursor" / "mcp.json"
    home = {"HOME": str(tmp_path)}
    shown = cellwright("install", "cursor", "--print", "--root", str(tmp_path), environ=home)
    assert str(file) in shown.stdout
    assert not file.exists()
    first = cellwright("install", "cursor", "--root", str(tmp_path), environ=home)
    assert first.returncode == 0, first.stderr
    entry = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]["cellwright"]
    done = subprocess.run([entry["command"], "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("cellwright")
    assert entry["args"] == ["--root", str(tmp_path)]
    before = file.read_bytes()
    assert "already" in cellwright("install", "cursor", "--root", str(tmp_path), environ=home).stdout
    assert file.read_bytes() == before
    assert cellwright("install", "cursor", "--remove", environ=home).returncode == 0
    assert "cellwright" not in file.read_text(encoding="utf-8")
    wrong = cellwright("install", "cursor", "--token", "abc", environ=home)
    assert wrong.returncode == 2


def test_the_parser_knows_the_clients_there_are() -> None:
    assert set(CLIENTS) == set(clients.CLIENTS)


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    with http_server(tmp_path) as server:
        done = cellwright("serve", "--port", str(server.port), environ={"CELLWRIGHT_TOKEN": TOKEN}, cwd=tmp_path)
        assert done.returncode == 2
        assert "cannot listen" in done.stderr


def test_the_parser_offers_no_abbreviations() -> None:
    with pytest.raises(SystemExit) as caught:
        make_parser().parse_args(["serve", "--por", "1"])
    assert caught.value.code == 2


def test_python_m_and_the_script_are_the_same(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("cellwright")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == cellwright("--version").stdout


def test_serving_prints_a_snippet_that_works(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "cellwright",
            "serve",
            "--port",
            str(free_port()),
            "--state-dir",
            str(tmp_path / "state"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path / "root",
        env=clean_environ(),
    )
    try:
        assert process.stdout is not None
        text = ""
        for line in process.stdout:
            text += line
            if line.startswith("Ctrl-C"):
                break
        entry = json.loads(text[text.index("{") : text.rindex("}") + 1])["mcpServers"]["cellwright"]
        metrics = entry["url"].removesuffix("/mcp") + "/metrics"
        assert httpx2.get(metrics, headers=entry["headers"], timeout=PATIENT_SECONDS).status_code == 200
        assert os.fspath(tmp_path / "root") in text
    finally:
        stop(process)


STILL_EMBEDDING = """
import sys, threading, time
from cellwright.app.cli import entry
from cellwright.storage.search.embeddings.models import open_model
from cellwright.storage.search.embeddings.port import BUILTIN, EmbeddingChoice

def embed() -> None:
    while True:
        model = open_model(EmbeddingChoice(BUILTIN))
        begun.set()
        model.embed(["a text that takes a while"] * 20)

begun = threading.Event()
threading.Thread(target=embed, daemon=True).start()
begun.wait()
time.sleep(float(sys.argv.pop()))
sys.exit(entry.main())
"""


@requirement("cli:ends-beside-work")
@pytest.mark.parametrize("moment", ["0.05", "0.2", "0.35", "0.5"])
def test_a_command_ends_well_while_a_thread_is_inside_a_library(moment: str) -> None:
    command = [sys.executable, "-c", STILL_EMBEDDING, "help", moment]
    ended = subprocess.run(command, env=clean_environ(), capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "usage: cellwright" in ended.stdout


@requirement("cli:ends-beside-work")
def test_so_does_one_that_was_started_without_a_stdout() -> None:
    # A thread that opens nothing: the first file that is opened would be given the number of the missing stdout.
    sleeping = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    program = f"import sys, threading, time; from cellwright.app.cli import entry; {sleeping}; sys.exit(entry.main())"
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", program, "help"]
    ended = subprocess.run(command, env=clean_environ(), capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
