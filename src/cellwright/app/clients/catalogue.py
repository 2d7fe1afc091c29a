"""The programs that can use cellwright, and the one entry each of them needs in its configuration file.

    CLIENTS["cursor"]             where a client's files lie, how it reads an entry
    example(client)               the entry for everybody who has uv
    snippet(client, entry)        the text for doing it by hand
    links()                       the same with one click, for the clients that know such links

Where files lie and how entries look was read from the clients' documentation and sources in November 2026.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import quote

from cellwright.app.clients import jsonc, tomledit
from cellwright.app.clients.tomledit import Toml
from cellwright.core.errors import ConfigError
from cellwright.core.types import Secret

NAME = "cellwright"
"""The name of our entry. Nothing else in those files is ours."""

_BEARER = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _Editor(Protocol):
    def loads(self, text: str, /) -> Toml: ...
    def put(self, text: str, path: tuple[str, ...], value: dict[str, Any], /) -> str: ...
    def drop(self, text: str, path: tuple[str, ...], /) -> str: ...


@dataclass(frozen=True, slots=True)
class ClientEntry:
    """How a client reaches cellwright: a command it starts, or a URL it calls."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    url: str = ""
    token: Secret | None = None
    """Written into the file as it is."""
    token_env: str = ""
    """The environment variable from which the client takes the token; the file holds only its name."""


@dataclass(frozen=True, slots=True)
class ClientMachine:
    """What decides where the files of clients are."""

    home: Path
    platform: str
    """As in `sys.platform`."""
    environ: Mapping[str, str]

    def folder(self, variable: str, otherwise: Path) -> Path:
        return Path(self.environ[variable]) if self.environ.get(variable) else otherwise

    @property
    def config(self) -> Path:
        """Where desktop programs keep their settings."""
        if self.platform == "win32":
            return self.folder("APPDATA", self.home / "AppData" / "Roaming")
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        return self.folder("XDG_CONFIG_HOME", self.home / ".config")


@dataclass(frozen=True, slots=True)
class Client:
    """One program: its files, and the shape in which it reads an entry."""

    id: str
    name: str
    user_file: Callable[[ClientMachine], Path]
    project_file: str | None
    """Below the project's folder; None if the program has no settings for projects."""
    servers: str
    """The key under which servers are listed."""
    afterwards: str
    """What the person does next."""
    editor: _Editor = jsonc
    typed: bool = False
    """Whether an entry says its transport as `type`."""
    url_key: str | None = "url"
    """None if the file can hold no URL."""
    headers_key: str = "headers"
    variable_in_header: str | None = None
    """How a header names an environment variable, with `{}` for the name; None if it cannot."""
    variable_key: str | None = None
    """A key of its own for the name of the environment variable that holds the token."""
    starts_in: str = ""
    """Where servers of the user's file are started, in words; empty if in the folder that is open."""
    folder_variable: str = ""
    """What stands for the folder that is open in arguments of a project's file; empty if servers are started there."""
    folder_variable_for_user: bool = False
    """Whether the user's file knows it too."""

    @property
    def path(self) -> tuple[str, str]:
        return self.servers, NAME


def _claude_desktop_file(machine: ClientMachine) -> Path:
    name = "claude_desktop_config.json"
    if machine.platform == "win32":
        # The Windows app is an MSIX package: it sees a copy of AppData in its own folder.
        packages = machine.folder("LOCALAPPDATA", machine.home / "AppData" / "Local") / "Packages"
        folders = sorted(packages.glob("Claude_*/LocalCache/Roaming/Claude"))
        if folders:
            return next((folder / name for folder in folders if (folder / name).exists()), folders[0] / name)
    return machine.config / "Claude" / name


def _zed_file(machine: ClientMachine) -> Path:
    if machine.platform == "win32":
        return machine.config / "Zed" / "settings.json"
    if machine.platform == "darwin":
        return machine.home / ".config" / "zed" / "settings.json"
    return machine.folder("FLATPAK_XDG_CONFIG_HOME", machine.config) / "zed" / "settings.json"


CLIENTS: Mapping[str, Client] = MappingProxyType(
    {
        client.id: client
        for client in (
            Client(
                id="claude-code",
                name="Claude Code",
                user_file=lambda machine: machine.folder("CLAUDE_CONFIG_DIR", machine.home) / ".claude.json",
                project_file=".mcp.json",
                servers="mcpServers",
                typed=True,
                variable_in_header="${{{}}}",
                afterwards="Start a new session; /mcp shows the server. A project's file has to be approved once.",
            ),
            Client(
                id="claude-desktop",
                name="Claude Desktop",
                user_file=_claude_desktop_file,
                project_file=None,
                servers="mcpServers",
                url_key=None,
                starts_in="/",
                afterwards="Quit Claude Desktop and start it again.",
            ),
            Client(
                id="cursor",
                name="Cursor",
                user_file=lambda machine: machine.home / ".cursor" / "mcp.json",
                project_file=".cursor/mcp.json",
                servers="mcpServers",
                variable_in_header="${{env:{}}}",
                folder_variable="${workspaceFolder}",
                folder_variable_for_user=True,
                afterwards="Switch the server on in Cursor's settings, under MCP.",
            ),
            Client(
                id="vscode",
                name="VS Code",
                user_file=lambda machine: machine.config / "Code" / "User" / "mcp.json",
                project_file=".vscode/mcp.json",
                servers="servers",
                typed=True,
                variable_in_header="${{env:{}}}",
                starts_in="your home folder",
                folder_variable="${workspaceFolder}",
                afterwards="Run 'MCP: List Servers' from the command palette and start it.",
            ),
            Client(
                id="codex",
                name="Codex",
                user_file=lambda machine: machine.folder("CODEX_HOME", machine.home / ".codex") / "config.toml",
                project_file=".codex/config.toml",
                servers="mcp_servers",
                editor=tomledit,
                headers_key="http_headers",
                variable_key="bearer_token_env_var",
                afterwards="Start a new session; /mcp shows the server. A project's file counts only in a trusted project.",
            ),
            Client(
                id="gemini",
                name="Gemini CLI",
                user_file=lambda machine: machine.folder("GEMINI_CLI_HOME", machine.home) / ".gemini" / "settings.json",
                project_file=".gemini/settings.json",
                servers="mcpServers",
                url_key="httpUrl",
                variable_in_header="${{{}}}",
                afterwards="Start a new session in a folder that you trust (Gemini asks; /permissions changes it): in others "
                "no server is started. /mcp shows it.",
            ),
            Client(
                id="zed",
                name="Zed",
                user_file=_zed_file,
                project_file=".zed/settings.json",
                servers="context_servers",
                afterwards="Zed takes it up at once. A project's file counts only in a trusted worktree.",
            ),
        )
    }
)


def locate(
    client: Client, *, home: Path, platform: str, environ: Mapping[str, str], project: Path | None = None
) -> Path:
    """The file that holds the client's servers, for the user or for one project."""
    if project is None:
        return client.user_file(ClientMachine(home, platform, environ))
    if client.project_file is None:
        raise ConfigError(f"{client.name} has no settings for a project", hint="install it for the user instead")
    return project / client.project_file


def server(client: Client, entry: ClientEntry) -> dict[str, Toml]:
    """The entry in the client's shape."""
    _check(client, entry)
    if not entry.url:
        env: dict[str, Toml] = {**entry.env}
        kind: dict[str, Toml] = {"type": "stdio"} if client.typed else {}
        return {**kind, "command": entry.command, "args": [*entry.args], **({"env": env} if env else {})}
    shape: dict[str, Toml] = {"type": "http"} if client.typed else {}
    shape[client.url_key or "url"] = entry.url
    if entry.token is not None:
        shape[client.headers_key] = {"Authorization": f"Bearer {entry.token.reveal()}"}
    elif entry.token_env and client.variable_key:
        shape[client.variable_key] = entry.token_env
    elif entry.token_env and client.variable_in_header:
        shape[client.headers_key] = {"Authorization": f"Bearer {client.variable_in_header.format(entry.token_env)}"}
    return shape


def merged(client: Client, before: Toml, shape: dict[str, Toml]) -> dict[str, Toml]:
    """The new entry, with what others have added to the old one: timeouts, approvals, variables, headers."""
    if not isinstance(before, dict) or ("command" in before) != ("command" in shape):
        return shape
    combined: dict[str, Toml] = {**before}
    if client.headers_key in shape or client.variable_key in shape:
        # The token must be given in one way only.
        combined.pop(client.variable_key or "", None)
        combined[client.headers_key] = _without_authorization(combined.get(client.headers_key))
    for key, part in shape.items():
        old = combined.get(key)
        combined[key] = {**old, **part} if isinstance(old, dict) and isinstance(part, dict) else part
    return {key: part for key, part in combined.items() if key != client.headers_key or part}


def example(client: Client, *, project: bool = False) -> ClientEntry:
    """The entry for everybody who has uv, as the client's page shows it for the user's file or a project's."""
    root: tuple[str, ...] = ()
    if client.folder_variable and (project or client.folder_variable_for_user):
        root = ("--root", client.folder_variable)
    elif client.starts_in and not project:
        root = ("--root", "/path/to/your/notebooks")
    return ClientEntry(command="uvx", args=("cellwright", *root))


def snippet(client: Client, entry: ClientEntry) -> str:
    """The exact text for an empty file, the token included if the entry has one."""
    return client.editor.put("", client.path, server(client, entry))


def links(entry: ClientEntry | None = None) -> Mapping[str, str]:
    """Links that install with one click: for VS Code and Cursor, and for each a web address where only those are allowed.

    Without an entry, they install the one for everybody who has uv.
    """
    if entry is not None and entry.token is not None:
        raise ConfigError("a link is no place for a token", hint="name an environment variable instead")
    # A link cannot know a path of the reader's machine, so VS Code's has none, and the server works in the home folder.
    vscode = {"name": NAME, **server(CLIENTS["vscode"], entry or ClientEntry(command="uvx", args=("cellwright",)))}
    vscode_link = f"vscode:mcp/install?{quote(_compact(vscode), safe='')}"
    cursor_entry = server(CLIENTS["cursor"], entry or example(CLIENTS["cursor"]))
    cursor = base64.b64encode(_compact(cursor_entry).encode()).decode()
    query = f"name={NAME}&config={quote(cursor, safe='')}"
    return {
        "vscode": vscode_link,
        "vscode-web": f"https://insiders.vscode.dev/redirect?url={quote(vscode_link, safe='')}",
        "cursor": f"cursor://anysphere.cursor-deeplink/mcp/install?{query}",
        "cursor-web": f"https://cursor.com/en/install-mcp?{query}",
    }


def _compact(value: Mapping[str, Toml]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _check(client: Client, entry: ClientEntry) -> None:
    if bool(entry.command) == bool(entry.url):
        raise ConfigError(
            "an entry needs either a command or a URL",
            hint="give --url for a server that runs, or a command that starts one",
        )
    words = (entry.command, entry.url, *entry.args, *entry.env.keys(), *entry.env.values())
    if any(not _is_utf8(word) for word in words):
        raise ConfigError(
            "the command, its arguments or its environment cannot be written as UTF-8",
            hint="name a command, folder and variables without half characters",
        )
    if not entry.url and (entry.token is not None or entry.token_env):
        raise ConfigError(
            "a token is for a URL; a command started by the client needs none",
            hint="leave the token out, or give --url",
        )
    if entry.url and client.url_key is None:
        raise ConfigError(
            f"{client.name} takes no URL in its configuration file, only commands that it starts",
            hint="install without a URL, or add the URL as a custom connector in the program's settings",
        )
    if entry.url and not re.fullmatch(r"https?://[^\s/]\S*", entry.url):
        raise ConfigError(f"{entry.url!r} is not an http or https address", hint="write it as http://HOST:PORT/mcp")
    _check_token(client, entry)


def _check_token(client: Client, entry: ClientEntry) -> None:
    if entry.token is not None and entry.token_env:
        raise ConfigError(
            "give the token or the name of its environment variable, not both", hint="leave one of the two out"
        )
    if entry.token is not None and not _BEARER.fullmatch(entry.token.reveal()):
        raise ConfigError(
            "a bearer token has only letters, digits and -._~+/ with = at its end",
            hint="copy the token again: cellwright token create makes one",
        )
    if entry.token_env and not _VARIABLE.fullmatch(entry.token_env):
        raise ConfigError(
            f"{entry.token_env!r} cannot be the name of an environment variable",
            hint="use letters, digits and _, not beginning with a digit",
        )
    if entry.token_env and not (client.variable_key or client.variable_in_header):
        raise ConfigError(
            f"{client.name} cannot take a token from an environment variable",
            hint="give the token itself, for the user's file",
        )


def _is_utf8(word: str) -> bool:
    try:
        word.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _without_authorization(headers: Toml) -> Toml:
    if not isinstance(headers, dict):
        return None
    return {name: value for name, value in headers.items() if name.lower() != "authorization"}
