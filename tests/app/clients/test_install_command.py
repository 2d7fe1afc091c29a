"""`cellwright install` with settings, for one's own file and for a project's, on real files below a home of the test's own."""

import contextlib
import io
import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cellwright.app.cli.main import SERVER_GROUPS, main, make_parser, settings_from
from cellwright.app.clients import jsonc
from cellwright.app.clients.catalogue import CLIENTS, Client, ClientMachine
from cellwright.app.setting_spec import Spec
from cellwright.app.settings import SPECS
from requirements import requirement

each_with_project = pytest.mark.parametrize(
    "client", [client for client in CLIENTS.values() if client.project_file], ids=lambda client: client.id
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home, which is the current folder too."""
    place = tmp_path / "home"
    place.mkdir()
    for name in [name for name in os.environ if name.startswith("CELLWRIGHT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / ".config"))
    monkeypatch.chdir(place)
    return place


@dataclass(frozen=True)
class Ended:
    returncode: int
    stdout: str
    stderr: str


def run(*arguments: str, cwd: Path | None = None) -> Ended:
    """The program, in this process: a start of Python for each of these cases would take minutes."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
        contextlib.chdir(cwd or Path.cwd()),
    ):
        try:
            code = main(arguments)
        except SystemExit as left:
            code = int(str(left.code))
    return Ended(code, out.getvalue(), err.getvalue())


def entry_of(client: Client, file: Path) -> Any:
    text = file.read_text(encoding="utf-8")
    value: Any = tomllib.loads(text) if client.id == "codex" else jsonc.loads(text)
    return value[client.servers]["cellwright"]


def codex_arguments(home: Path) -> list[str]:
    return entry_of(CLIENTS["codex"], home / ".codex" / "config.toml")["args"]


def value_for(spec: Spec, home: Path) -> list[str]:
    """A flag with a value that is not the default, as a person would give it."""
    if spec.is_switch:
        return [f"--no-{spec.flag.removeprefix('--')}" if spec.default else spec.flag]
    known = {
        "root": str(home),
        "toolsets": "workspace,context",
        "tools": "list_nbs",
        "exclude_tools": "undo_nb_edit",
        "database": str(home / "pads.db"),
        "jupyter_url": "http://127.0.0.1:8888",
        "embedding_url": "https://models.example.org/v1",
        "lance_uri": "s3://bucket/index",
        "document_id": "-odd name.ipynb",
    }
    if spec.name in known:
        value = known[spec.name]
    elif spec.choices:
        value = next(choice for choice in spec.choices if choice != spec.default)
    elif "number" in spec.kind:
        value = str(spec.default + 1)
    else:
        value = str(home / spec.name) if spec.kind == "a path" else f"some-{spec.name}"
    return [f"{spec.flag}={value}"]


@requirement("install:settings")
def test_every_setting_becomes_an_argument_with_the_same_meaning(home: Path) -> None:
    specs = [
        spec for spec in SPECS if spec.group in SERVER_GROUPS and (spec.kind != "a secret" or spec.name == "database")
    ]
    config = home / "more.toml"
    config.write_text('agent_name = "from the file"\n', encoding="utf-8")
    flags = [word for spec in specs for word in value_for(spec, home)]
    ended = run("--config", str(config), *flags[: len(flags) // 2], "install", "codex", *flags[len(flags) // 2 :])
    assert ended.returncode == 0, ended.stderr
    arguments = codex_arguments(home)
    assert arguments[:2] == ["--config", str(config)]
    started = settings_from(make_parser().parse_args(arguments))
    wanted = settings_from(make_parser().parse_args(["--config", str(config), *flags]))
    assert {spec.name for spec in specs if getattr(started, spec.name) != getattr(wanted, spec.name)} == set()
    assert {spec.name for spec in specs if spec.text_of(getattr(started, spec.name)) == spec.text_of(spec.default)} <= {
        "database"  # shown as ***, given or not
    }


@requirement("install:settings")
def test_a_setting_before_the_command_counts_and_one_after_it_wins(home: Path) -> None:
    assert run("--toolsets", "all", "--read-only", "install", "codex", "--no-read-only").returncode == 0
    assert codex_arguments(home) == ["--toolsets", "all", "--no-read-only"]


@requirement("install:settings")
def test_paths_are_written_whole(home: Path) -> None:
    (home / "work").mkdir()
    ended = run("install", "codex", "--root", "work", "--state-dir", "~/state", "--lance-uri", "s3://b/index")
    assert ended.returncode == 0, ended.stderr
    expected = ["--root", str(home / "work"), "--state-dir", str(home / "state"), "--lance-uri", "s3://b/index"]
    assert codex_arguments(home) == expected


@requirement("install:settings:refused")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--toolsets", "all", "--url", "https://h/mcp"], "--toolsets is for a server that the client starts"),
        (["--remove", "--read-only"], "--remove takes no --read-only"),
        (["--remove", "--url", "https://h/mcp"], "--remove takes no --url"),
        (["--remove", "--token-env", "X"], "--remove takes no --token-env"),
        (["--port", "4040"], "--port belongs to cellwright serve"),
        (["--toolsets", "nonsens"], "no toolset 'nonsens'"),
        (["--tools", "list_nb"], "did you mean 'list_nbs'"),
        (["--result-tokens", "7"], "below its least value"),
        (["--result-tokens", "many"], "takes a whole number"),
        (["--root", "nowhere"], "the workspace nowhere is not a folder"),
        (["--config", "nowhere.toml"], "nowhere.toml cannot be read"),
    ],
)
def test_what_cannot_be_passed_on_is_refused(arguments: list[str], reason: str, home: Path) -> None:
    ended = run("install", "codex", *arguments)
    assert ended.returncode == 2
    assert reason in ended.stderr
    assert list(home.iterdir()) == [], "nothing was written"


@requirement("install:settings:secret")
@pytest.mark.parametrize(
    ("arguments", "variable"),
    [
        (["--jupyter-token", "s3cret"], "CELLWRIGHT_JUPYTER_TOKEN"),
        (["--document-token", "s3cret"], "CELLWRIGHT_DOCUMENT_TOKEN"),
        (["--runtime-token", "s3cret"], "CELLWRIGHT_RUNTIME_TOKEN"),
        (["--embedding-key", "s3cret"], "CELLWRIGHT_EMBEDDING_KEY"),
        (["--database", "postgresql://ada:s3cret@db/pads"], "CELLWRIGHT_DATABASE"),
        (["--database", "postgresql://db/pads?password=s3cret"], "CELLWRIGHT_DATABASE"),
        (["--jupyter-url", "http://127.0.0.1:8888/?token=s3cret"], "CELLWRIGHT_JUPYTER_URL"),
        (["--jupyter-url", "https://s3cret@host/"], "CELLWRIGHT_JUPYTER_URL"),
        (["--jupyter-url", "http://[s3cret/"], "CELLWRIGHT_JUPYTER_URL"),
    ],
)
def test_a_secret_never_becomes_an_argument(arguments: list[str], variable: str, home: Path) -> None:
    for ended in (
        run(*arguments, "install", "codex"),
        run("install", "codex", *arguments),
        run("install", "codex", "--print", *arguments),
    ):
        assert ended.returncode == 2
        assert variable in ended.stderr
        assert str(home / ".config" / "cellwright" / "config.toml") in ended.stderr
        assert "s3cret" not in ended.stdout + ended.stderr
    assert list(home.iterdir()) == []


@requirement("install:settings:secret")
def test_a_database_without_a_password_is_passed_on(home: Path) -> None:
    address = "postgresql://ada@db/pads?sslmode=require"
    assert run("install", "codex", "--database", address).returncode == 0
    assert codex_arguments(home) == ["--database", address]


@requirement("install:shared")
@each_with_project
def test_a_projects_file_holds_nothing_of_this_machine(client: Client, home: Path, tmp_path: Path) -> None:
    assert client.project_file is not None
    project = tmp_path / "project"
    (project / "notebooks").mkdir(parents=True)
    variable = {"cursor": "${workspaceFolder}", "vscode": "${workspaceFolder}"}.get(client.id)
    plain = run("install", client.id, "--project", str(project))
    assert plain.returncode == 0, plain.stderr
    entry = entry_of(client, project / client.project_file)
    assert (entry["command"], entry["args"]) == ("uvx", ["cellwright", *(["--root", variable] if variable else [])])
    assert "https://docs.astral.sh/uv/" in plain.stdout
    below = run("install", client.id, "--project", ".", "--root", "notebooks", "--read-only", cwd=project)
    assert below.returncode == 0, below.stderr
    root = f"{variable}/notebooks" if variable else "notebooks"
    assert entry_of(client, project / client.project_file)["args"] == ["cellwright", "--root", root, "--read-only"]
    text = (project / client.project_file).read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    outside = run("install", client.id, "--project", str(project), "--root", str(home))
    assert outside.returncode == 2
    assert f"--root {home} lies outside the project" in outside.stderr
    assert (project / client.project_file).read_text(encoding="utf-8") == text


@requirement("install:root")
@pytest.mark.parametrize(("name", "place"), [("claude-desktop", "/"), ("vscode", "your home folder")])
def test_a_client_that_starts_elsewhere_gets_this_folder(name: str, place: str, home: Path, tmp_path: Path) -> None:
    client = CLIENTS[name]
    ended = run("install", name, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert (
        f"The workspace is this folder, {tmp_path}, because {client.name} starts servers in {place}; --root"
        in ended.stdout
    )
    file = client.user_file(_machine(home))
    assert entry_of(client, file)["args"] == ["--root", str(tmp_path)]
    named = run("install", name, "--root", str(home), cwd=tmp_path)
    assert "The workspace is this folder" not in named.stdout
    assert entry_of(client, file)["args"] == ["--root", str(home)]


@requirement("install:root")
def test_cursor_names_the_folder_that_is_open(home: Path) -> None:
    assert run("install", "cursor").returncode == 0
    entry = json.loads((home / ".cursor" / "mcp.json").read_text(encoding="utf-8"))["mcpServers"]["cellwright"]
    assert entry["args"] == ["--root", "${workspaceFolder}"]


@requirement("install:root")
@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini", "zed"])
def test_a_client_that_starts_in_the_project_gets_no_root(name: str, home: Path) -> None:
    assert run("install", name).returncode == 0
    assert entry_of(CLIENTS[name], CLIENTS[name].user_file(_machine(home)))["args"] == []


def _machine(home: Path) -> ClientMachine:
    return ClientMachine(home, "linux", {})


@requirement("cli:errors-name-the-command")
def test_errors_of_commands_name_the_command() -> None:
    parser = make_parser()
    assert {name: parser.command(name).prog for name in parser.commands()} == {
        name: f"cellwright {name}" for name in parser.commands()
    }
    for arguments in (["install"], ["install", "nobody"], ["token"], ["token", "create"], ["export"], ["import", "x"]):
        ended = run(*arguments)
        assert ended.returncode == 2
        assert ended.stderr.startswith(
            f"cellwright {' '.join(arguments[:2] if arguments[0] == 'token' else arguments[:1])}: "
        )


@requirement("cli:errors-name-the-command")
def test_a_flag_of_another_command_is_said_to_belong_there() -> None:
    ended = run("vacuum", "--port", "1")
    assert ended.returncode == 2
    assert "--port belongs to cellwright serve, cellwright start, cellwright doctor" in ended.stderr
