"""Entries in the configuration files of other programs, on real files below a home folder of the test's own."""

import base64
import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from cellwright.app.clients import jsonc
from cellwright.app.clients.catalogue import CLIENTS, Client, ClientEntry, example, links, locate, server, snippet
from cellwright.app.clients.entry import Plan, apply, describe, plan, plan_removal, warning
from cellwright.core.errors import ConfigError, Conflict
from cellwright.core.types import Secret
from locations import DOCS
from requirements import requirement

PAGES = DOCS / "clients"
URL = "https://notebooks.example.com/mcp"
COMMAND = ClientEntry(command="uvx", args=("cellwright",))
TOKEN = Secret("cw_abc-123")

SETTINGS_OF_OTHERS = """// settings
{
  "theme": "One Dark", // dark
  "KEY": {
    /* the one we all use */
    "github": { "command": "docker", "args": ["run",] },
  },
  "list": [1, 2,],
}
"""
CONFIG_OF_OTHERS = """# settings
model = "m"   # fast

[mcp_servers.github]
command = "docker"
args = [
  "run", # it
]
"""

each_client = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)


def text_of_others(client: Client) -> str:
    return CONFIG_OF_OTHERS if client.id == "codex" else SETTINGS_OF_OTHERS.replace("KEY", client.servers)


def value_of(client: Client, text: str | None) -> dict[str, Any]:
    assert text is not None
    value = tomllib.loads(text) if client.id == "codex" else jsonc.loads(text)
    assert isinstance(value, dict)
    return value


def entry_of(client: Client, text: str | None) -> Any:
    return value_of(client, text)[client.servers]["cellwright"]


def planned(client: Client, entry: ClientEntry, home: Path, **more: Path) -> Plan:
    return plan(client, entry, home=home, platform="linux", environ={}, **more)


def removal(client: Client, home: Path) -> Plan:
    return plan_removal(client, home=home, platform="linux", environ={})


def write(made: Path, text: str) -> Path:
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_bytes(text.encode())
    return made


def user_file(client: Client, home: Path) -> Path:
    return locate(client, home=home, platform="linux", environ={})


def remote(client: Client) -> ClientEntry:
    """The safest entry with a URL that the client can take."""
    named = client.variable_key or client.variable_in_header
    return (
        ClientEntry(url=URL, token_env="CELLWRIGHT_TOKEN")
        if named
        else ClientEntry(url=URL, token=Secret("YOUR_TOKEN"))
    )


@requirement("clients:install:places")
@pytest.mark.parametrize(
    ("name", "linux", "darwin", "win32"),
    [
        ("claude-code", ".claude.json", ".claude.json", ".claude.json"),
        (
            "claude-desktop",
            ".config/Claude/claude_desktop_config.json",
            "Library/Application Support/Claude/claude_desktop_config.json",
            "AppData/Roaming/Claude/claude_desktop_config.json",
        ),
        ("cursor", ".cursor/mcp.json", ".cursor/mcp.json", ".cursor/mcp.json"),
        (
            "vscode",
            ".config/Code/User/mcp.json",
            "Library/Application Support/Code/User/mcp.json",
            "AppData/Roaming/Code/User/mcp.json",
        ),
        ("codex", ".codex/config.toml", ".codex/config.toml", ".codex/config.toml"),
        ("gemini", ".gemini/settings.json", ".gemini/settings.json", ".gemini/settings.json"),
        ("zed", ".config/zed/settings.json", ".config/zed/settings.json", "AppData/Roaming/Zed/settings.json"),
    ],
)
def test_the_users_file_lies_where_the_client_looks(name: str, linux: str, darwin: str, win32: str) -> None:
    home = Path("/home/ada")
    for platform, expected in {"linux": linux, "darwin": darwin, "win32": win32, "freebsd14": linux}.items():
        assert locate(CLIENTS[name], home=home, platform=platform, environ={}) == home / expected


@requirement("clients:install:places")
@pytest.mark.parametrize(
    ("name", "platform", "variable", "expected"),
    [
        ("claude-code", "darwin", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("claude-desktop", "linux", "XDG_CONFIG_HOME", "Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", "APPDATA", "Claude/claude_desktop_config.json"),
        ("vscode", "linux", "XDG_CONFIG_HOME", "Code/User/mcp.json"),
        ("vscode", "win32", "APPDATA", "Code/User/mcp.json"),
        ("codex", "linux", "CODEX_HOME", "config.toml"),
        ("gemini", "linux", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("zed", "linux", "XDG_CONFIG_HOME", "zed/settings.json"),
        ("zed", "linux", "FLATPAK_XDG_CONFIG_HOME", "zed/settings.json"),
        ("zed", "win32", "APPDATA", "Zed/settings.json"),
    ],
)
def test_the_variables_that_move_a_clients_files_are_followed(
    name: str, platform: str, variable: str, expected: str
) -> None:
    where = locate(CLIENTS[name], home=Path("/home/ada"), platform=platform, environ={variable: "/elsewhere"})
    assert where == Path("/elsewhere") / expected


@requirement("clients:install:places")
def test_the_packaged_claude_desktop_of_windows_is_found(tmp_path: Path) -> None:
    desktop = CLIENTS["claude-desktop"]
    local = tmp_path / "AppData" / "Local"
    first, second = (local / "Packages" / f"Claude_{n}" / "LocalCache" / "Roaming" / "Claude" for n in "ab")
    second.mkdir(parents=True)
    assert locate(desktop, home=tmp_path, platform="win32", environ={}).parent == second
    first.mkdir(parents=True)
    write(second / "claude_desktop_config.json", "{}")
    environ = {"LOCALAPPDATA": str(local)}
    assert locate(desktop, home=Path("/nobody"), platform="win32", environ=environ).parent == second


@requirement("clients:install:places")
def test_a_projects_file_lies_in_the_project() -> None:
    files = {
        name: locate(client, home=Path("/home/ada"), platform="linux", environ={}, project=Path("/p")).as_posix()
        for name, client in CLIENTS.items()
        if client.project_file
    }
    assert files == {
        "claude-code": "/p/.mcp.json",
        "cursor": "/p/.cursor/mcp.json",
        "vscode": "/p/.vscode/mcp.json",
        "codex": "/p/.codex/config.toml",
        "gemini": "/p/.gemini/settings.json",
        "zed": "/p/.zed/settings.json",
    }
    with pytest.raises(ConfigError, match="Claude Desktop has no settings for a project"):
        planned(CLIENTS["claude-desktop"], COMMAND, Path("/home/ada"), project=Path("/p"))


@requirement("clients:install:shapes")
def test_a_command_has_the_shape_that_the_client_reads(tmp_path: Path) -> None:
    entry = ClientEntry(command=r"C:\bin\cellwright.exe", args=("--root", 'a "b"'), env={"A": "ü"})
    plain = {"command": r"C:\bin\cellwright.exe", "args": ["--root", 'a "b"'], "env": {"A": "ü"}}
    shapes = {name: entry_of(client, planned(client, entry, tmp_path).new) for name, client in CLIENTS.items()}
    assert shapes == {
        "claude-code": {"type": "stdio", **plain},
        "claude-desktop": plain,
        "cursor": plain,
        "vscode": {"type": "stdio", **plain},
        "codex": plain,
        "gemini": plain,
        "zed": plain,
    }


@requirement("clients:install:shapes")
def test_a_url_has_the_shape_that_the_client_reads(tmp_path: Path) -> None:
    entry = ClientEntry(url=URL, token=TOKEN)
    headers = {"Authorization": "Bearer cw_abc-123"}
    remotes = {name: client for name, client in CLIENTS.items() if client.url_key}
    shapes = {name: entry_of(client, planned(client, entry, tmp_path).new) for name, client in remotes.items()}
    assert shapes == {
        "claude-code": {"type": "http", "url": URL, "headers": headers},
        "cursor": {"url": URL, "headers": headers},
        "vscode": {"type": "http", "url": URL, "headers": headers},
        "codex": {"url": URL, "http_headers": headers},
        "gemini": {"httpUrl": URL, "headers": headers},
        "zed": {"url": URL, "headers": headers},
    }
    with pytest.raises(ConfigError, match="Claude Desktop takes no URL"):
        planned(CLIENTS["claude-desktop"], entry, tmp_path)


@requirement("clients:install:token")
def test_a_token_can_stay_in_a_variable_where_the_client_knows_that() -> None:
    entry = ClientEntry(url=URL, token_env="CW_TOKEN")
    named = {
        name: server(client, entry).get(client.headers_key) or server(client, entry).get("bearer_token_env_var")
        for name, client in CLIENTS.items()
        if name not in {"claude-desktop", "zed"}
    }
    assert named == {
        "claude-code": {"Authorization": "Bearer ${CW_TOKEN}"},
        "cursor": {"Authorization": "Bearer ${env:CW_TOKEN}"},
        "vscode": {"Authorization": "Bearer ${env:CW_TOKEN}"},
        "codex": "CW_TOKEN",
        "gemini": {"Authorization": "Bearer ${CW_TOKEN}"},
    }
    with pytest.raises(ConfigError, match="Zed cannot take a token from an environment variable"):
        server(CLIENTS["zed"], entry)


@requirement("clients:install:token")
@each_client
def test_a_token_never_goes_into_a_projects_file(client: Client, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not belong into a project's file"):
        planned(client, ClientEntry(url=URL, token=TOKEN), tmp_path, project=tmp_path)


@requirement("clients:install:token")
def test_a_plan_does_not_show_what_may_be_secret(tmp_path: Path) -> None:
    made = planned(CLIENTS["cursor"], ClientEntry(url=URL, token=TOKEN), tmp_path)
    assert TOKEN.reveal() in str(made.new)
    assert TOKEN.reveal() not in repr(made) + describe(made)


@requirement("clients:install:token")
@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (ClientEntry(), "either a command or a URL"),
        (ClientEntry(command="c", url=URL), "either a command or a URL"),
        (ClientEntry(command="c", token=TOKEN), "a token is for a URL"),
        (ClientEntry(command="c", token_env="X"), "a token is for a URL"),
        (ClientEntry(command="c\udcff"), "cannot be written as UTF-8"),
        (ClientEntry(url="ftp://x/"), "not an http or https address"),
        (ClientEntry(url="https:///mcp"), "not an http or https address"),
        (ClientEntry(url="https://x/ y"), "not an http or https address"),
        (ClientEntry(url=URL, token=TOKEN, token_env="X"), "not both"),
        (ClientEntry(url=URL, token=Secret("")), "a bearer token has only"),
        (ClientEntry(url=URL, token=Secret("a\r\nX: y")), "a bearer token has only"),
        (ClientEntry(url=URL, token=Secret("${HOME}")), "a bearer token has only"),
        (ClientEntry(url=URL, token_env="A}B"), "cannot be the name of an environment variable"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused(entry: ClientEntry, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=reason):
        planned(CLIENTS["cursor"], entry, tmp_path)


@requirement("clients:install:token")
def test_a_new_way_to_give_the_token_replaces_the_old_one(tmp_path: Path) -> None:
    codex = CLIENTS["codex"]
    apply(planned(codex, ClientEntry(url=URL, token=TOKEN), tmp_path))
    apply(planned(codex, ClientEntry(url=URL, token_env="T"), tmp_path))
    assert entry_of(codex, user_file(codex, tmp_path).read_text()) == {"url": URL, "bearer_token_env_var": "T"}
    apply(planned(codex, ClientEntry(url=URL, token=TOKEN), tmp_path))
    headers = {"Authorization": "Bearer cw_abc-123"}
    assert entry_of(codex, user_file(codex, tmp_path).read_text()) == {"url": URL, "http_headers": headers}


@requirement("clients:install:create")
@each_client
def test_a_missing_file_is_made_with_its_folders(client: Client, tmp_path: Path) -> None:
    made = planned(client, COMMAND, tmp_path / "new home")
    assert (made.change, made.old, made.path.exists()) == ("add", None, False), "planning writes nothing"
    apply(made)
    assert entry_of(client, made.path.read_text(encoding="utf-8")) == server(client, COMMAND)
    assert describe(made) == f"{client.name}: cellwright added to {made.path}"
    assert warning(made) == ""


@requirement("clients:install:create", "clients:install:atomic")
def test_a_new_file_with_a_token_is_private_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    previous = os.umask(0o022)
    try:
        open_file = planned(CLIENTS["zed"], COMMAND, tmp_path)
        private_file = planned(CLIENTS["cursor"], ClientEntry(url=URL, token=TOKEN), tmp_path)
        apply(open_file)
        apply(private_file)
        assert (open_file.path.stat().st_mode & 0o777, private_file.path.stat().st_mode & 0o777) == (0o644, 0o600)
        assert warning(private_file) == ""
        open_file.path.chmod(0o664)
        with_token = planned(CLIENTS["zed"], ClientEntry(url=URL, token=TOKEN), tmp_path)
        apply(with_token)
        assert with_token.path.stat().st_mode & 0o777 == 0o664
        assert f"chmod 600 {with_token.path}" in warning(with_token)
    finally:
        os.umask(previous)


@requirement("clients:install:twice", "clients:install:remove")
@each_client
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "marked"])
def test_install_twice_then_remove(client: Client, newline: str, mark: str, tmp_path: Path) -> None:
    before = mark + text_of_others(client).replace("\n", newline)
    file = write(user_file(client, tmp_path), before)
    first = planned(client, COMMAND, tmp_path)
    apply(first)
    written = file.read_bytes()
    assert first.change == "add"
    assert entry_of(client, written.decode().removeprefix(mark)) == server(client, COMMAND)
    assert written.count(b"\n") == written.count(newline.encode()), "one style of line ending"
    second = planned(client, COMMAND, tmp_path)
    apply(second)
    assert (second.change, second.new, file.read_bytes()) == ("none", second.old, written)
    assert describe(second) == f"{client.name}: cellwright is already there in {file}"
    gone = removal(client, tmp_path)
    apply(gone)
    assert (gone.change, file.read_bytes()) == ("remove", before.encode())
    assert describe(gone) == f"{client.name}: cellwright removed from {file}"


@requirement("clients:install:remove")
@each_client
def test_removing_what_is_not_there_writes_nothing(client: Client, tmp_path: Path) -> None:
    made = removal(client, tmp_path)
    apply(made)
    assert (made.change, made.old, made.new, made.path.exists()) == ("none", None, None, False)
    assert describe(made) == f"{client.name}: cellwright is not in {made.path}"
    file = write(user_file(client, tmp_path), text_of_others(client))
    assert removal(client, tmp_path).change == "none"
    apply(planned(client, COMMAND, tmp_path))
    apply(removal(client, tmp_path))
    assert value_of(client, file.read_text()) == value_of(client, text_of_others(client))


@requirement("clients:install:remove")
@each_client
def test_a_file_that_install_made_is_still_readable_after_removing(client: Client, tmp_path: Path) -> None:
    apply(planned(client, COMMAND, tmp_path))
    apply(removal(client, tmp_path))
    left = value_of(client, user_file(client, tmp_path).read_text())
    assert left.get(client.servers, {}) == {}


@requirement("clients:install:twice")
@each_client
def test_an_old_entry_is_updated_in_place_and_keeps_what_others_added(client: Client, tmp_path: Path) -> None:
    file = write(user_file(client, tmp_path), text_of_others(client))
    apply(planned(client, ClientEntry(command="/old/cellwright", args=("--x",), env={"MINE": "1"}), tmp_path))
    with_timeout = re.sub(r'(\n\s*)("?command"?)(\s*[:=]) "/old', r'\1"timeout"\3 5,\1\2\3 "/old', file.read_text())
    write(file, with_timeout.replace('"timeout" = 5,', "timeout = 5"))
    made = planned(client, ClientEntry(command="/new/cellwright", args=(), env={"OURS": "2"}), tmp_path)
    apply(made)
    assert made.change == "replace"
    assert describe(made) == f"{client.name}: cellwright updated in {file}"
    now = entry_of(client, file.read_text())
    assert (now["command"], now["args"]) == ("/new/cellwright", [])
    assert (now["timeout"], now["env"]) == (5, {"MINE": "1", "OURS": "2"})
    apply(removal(client, tmp_path))
    assert file.read_text() == text_of_others(client)


@requirement("clients:install:twice")
@pytest.mark.parametrize("client", [client for client in CLIENTS.values() if client.url_key], ids=lambda each: each.id)
def test_a_change_of_transport_leaves_nothing_of_the_old_entry(client: Client, tmp_path: Path) -> None:
    apply(planned(client, COMMAND, tmp_path))
    made = planned(client, remote(client), tmp_path)
    apply(made)
    assert made.change == "replace"
    assert entry_of(client, made.path.read_text()) == server(client, remote(client))


@requirement("clients:install:broken")
@each_client
def test_a_broken_file_is_named_and_not_touched(client: Client, tmp_path: Path) -> None:
    text = text_of_others(client).replace('"docker"', "docker")
    file = write(user_file(client, tmp_path), text)
    fault = text.index("docker")
    line, column = text[:fault].count("\n") + 1, fault - text.rfind("\n", 0, fault)
    with pytest.raises(ConfigError) as installing:
        planned(client, COMMAND, tmp_path)
    with pytest.raises(ConfigError) as removing:
        removal(client, tmp_path)
    assert str(installing.value) == str(removing.value)
    error = installing.value
    assert error.message.startswith(f"{file}, line {line}, column {column}: ")
    assert "not touched" in error.message
    assert f"cellwright install {client.id} --print" in error.hint
    assert error.details == {"path": str(file), "line": line, "column": column}
    assert file.read_bytes() == text.encode()
    assert list(file.parent.iterdir()) == [file]


@requirement("clients:install:broken")
def test_a_file_in_another_encoding_is_named_and_not_touched(tmp_path: Path) -> None:
    file = user_file(CLIENTS["cursor"], tmp_path)
    file.parent.mkdir(parents=True)
    data = '{\n  "name": "Zoë"\n}'.encode("latin-1")
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=r"mcp.json, line 2, column 14: not UTF-8"):
        planned(CLIENTS["cursor"], COMMAND, tmp_path)
    assert file.read_bytes() == data


@requirement("clients:install:broken")
def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    file = user_file(CLIENTS["cursor"], tmp_path)
    file.mkdir(parents=True)
    with pytest.raises(ConfigError, match=f"cannot read {file}: Is a directory"):
        planned(CLIENTS["cursor"], COMMAND, tmp_path)


@requirement("clients:install:atomic")
def test_a_link_stays_and_the_file_it_points_to_is_replaced(tmp_path: Path) -> None:
    client = CLIENTS["zed"]
    real = write(tmp_path / "dotfiles" / "zed.json", text_of_others(client))
    link = user_file(client, tmp_path)
    link.parent.mkdir(parents=True)
    link.symlink_to("../../dotfiles/zed.json")
    apply(planned(client, COMMAND, tmp_path))
    assert link.is_symlink()
    assert entry_of(client, real.read_text()) == server(client, COMMAND)
    real.unlink()
    apply(planned(client, COMMAND, tmp_path))
    assert link.is_symlink()
    assert entry_of(client, real.read_text()) == server(client, COMMAND)


@requirement("clients:install:atomic")
def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    client = CLIENTS["cursor"]
    file = write(user_file(client, tmp_path), '{"mcpServers": {}, "pad": "%s"}' % ("x" * 100_000))
    done, seen = threading.Event(), set[bytes]()
    old = new = file.read_bytes()

    def watch() -> None:
        while not done.is_set():
            seen.add(file.read_bytes())

    reader = threading.Thread(target=watch)
    reader.start()
    try:
        for _ in range(30):
            apply(planned(client, COMMAND, tmp_path))
            new = file.read_bytes()
            apply(removal(client, tmp_path))
    finally:
        done.set()
        reader.join(10)
    assert seen <= {old, new}
    assert list(file.parent.iterdir()) == [file]


FULL_DISK = """
import resource, sys
from pathlib import Path
from cellwright.app.clients.catalogue import CLIENTS, ClientEntry
from cellwright.app.clients.entry import apply, plan
from cellwright.core.errors import ConfigError

made = plan(CLIENTS["cursor"], ClientEntry(command="c"), home=Path(sys.argv[1]), platform="linux", environ={})
resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))
try:
    apply(made)
except ConfigError as error:
    sys.exit(str(error))
"""


@requirement("clients:install:atomic")
def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    file = write(user_file(CLIENTS["cursor"], tmp_path), '{"mcpServers": {}}')
    program = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"cannot write {file}: File too large" in ended.stderr
    assert "cellwright install cursor --print" in ended.stderr
    assert file.read_text() == '{"mcpServers": {}}'
    assert list(file.parent.iterdir()) == [file]


@requirement("clients:install:conflict")
@pytest.mark.parametrize("before", [None, "{}"], ids=["no file", "file"])
def test_a_file_that_changed_since_it_was_read_is_left_alone(before: str | None, tmp_path: Path) -> None:
    client = CLIENTS["claude-code"]
    if before is not None:
        write(user_file(client, tmp_path), before)
    made = planned(client, COMMAND, tmp_path)
    write(made.path, '{"numStartups": 2}')
    with pytest.raises(Conflict, match="changed by another program"):
        apply(made)
    assert made.path.read_text() == '{"numStartups": 2}'


@requirement("clients:install:print")
@each_client
def test_the_printed_text_is_what_install_writes_to_an_empty_file(client: Client, tmp_path: Path) -> None:
    for entry in [COMMAND, *([remote(client)] if client.url_key else [])]:
        assert snippet(client, entry) == planned(client, entry, tmp_path).new
    assert list(tmp_path.iterdir()) == []


@requirement("clients:install:links")
def test_links_decode_to_the_entry() -> None:
    made = links(COMMAND)
    vscode = urlsplit(made["vscode"])
    assert (vscode.scheme, vscode.path) == ("vscode", "mcp/install")
    assert json.loads(unquote(vscode.query)) == {
        "name": "cellwright",
        "type": "stdio",
        "command": "uvx",
        "args": ["cellwright"],
    }
    assert parse_qs(urlsplit(made["vscode-web"]).query) == {"url": [made["vscode"]]}
    cursor = urlsplit(made["cursor"])
    assert (cursor.scheme, cursor.netloc, cursor.path) == ("cursor", "anysphere.cursor-deeplink", "/mcp/install")
    query = parse_qs(cursor.query)
    assert query["name"] == ["cellwright"]
    assert json.loads(base64.b64decode(query["config"][0])) == {"command": "uvx", "args": ["cellwright"]}
    assert urlsplit(made["cursor-web"]).query == cursor.query
    open_folder = parse_qs(urlsplit(links()["cursor"]).query)["config"][0]
    assert json.loads(base64.b64decode(open_folder))["args"] == ["cellwright", "--root", "${workspaceFolder}"]
    assert "workspaceFolder" not in links()["vscode"], "VS Code replaces it in a project's file only"


@requirement("clients:install:links")
def test_a_link_never_carries_a_token() -> None:
    with pytest.raises(ConfigError, match="no place for a token"):
        links(ClientEntry(url=URL, token=TOKEN))
    made = links(ClientEntry(url=URL, token_env="CW"))
    config = parse_qs(urlsplit(made["cursor"]).query)["config"][0]
    assert json.loads(base64.b64decode(config))["headers"] == {"Authorization": "Bearer ${env:CW}"}


def documented_path(client: Client, platform: str) -> str:
    """The user's file as the page writes it."""
    home = Path("~") if platform != "win32" else Path("%USERPROFILE%")
    environ = {"APPDATA": "%APPDATA%"} if platform == "win32" else {}
    where = locate(client, home=home, platform=platform, environ=environ).as_posix()
    return where.replace("/", "\\") if platform == "win32" else where


@requirement("clients:install:docs")
@each_client
def test_the_page_shows_the_commands_the_files_and_the_exact_text(client: Client) -> None:
    section = (PAGES / f"{client.id}.md").read_text(encoding="utf-8")
    assert section.startswith(f"# {client.name}\n")
    assert f"[{client.name}](clients/{client.id}.md)" in PAGES.with_suffix(".md").read_text(encoding="utf-8")
    language = "toml" if client.id == "codex" else "json"
    assert f"```sh\ncellwright install {client.id}\n```" in section
    assert f"`cellwright install {client.id} --remove`" in section
    assert f"Afterwards: {client.afterwards}\n" in section
    for platform, label in (("linux", "Linux"), ("darwin", "macOS"), ("win32", "Windows")):
        row = next(line for line in section.splitlines() if line.startswith(f"| {label} |"))
        assert f"`{documented_path(client, platform)}`" in row
    assert (f"| project | `{client.project_file}` |" in section) == (client.project_file is not None)
    for project in (False, *([True] if client.folder_variable else [])):
        assert f"```{language}\n{snippet(client, example(client, project=project))}```" in section
    if client.url_key:
        assert f"```{language}\n{snippet(client, remote(client))}```" in section


@requirement("clients:install:docs")
def test_the_page_has_the_one_click_links() -> None:
    page = "".join(one.read_text(encoding="utf-8") for one in PAGES.glob("*.md"))
    assert [name for name, link in links().items() if link not in page] == []


@requirement("clients:install:docs", "install:root")
@each_client
def test_the_page_says_where_the_server_works(client: Client) -> None:
    section = " ".join((PAGES / f"{client.id}.md").read_text(encoding="utf-8").split())
    if client.starts_in:
        assert f"starts servers {'of the user' if client.project_file else 'in'}" in section
        assert "in which you run the command" in section
    elif not client.folder_variable:
        assert "no `--root`" in section
    else:
        assert client.folder_variable in section


@requirement("clients:install:docs")
def test_the_page_of_gemini_speaks_of_trust() -> None:
    section = (PAGES / "gemini.md").read_text(encoding="utf-8")
    assert "only in folders that you trust" in section
    assert "trust" in CLIENTS["gemini"].afterwards
