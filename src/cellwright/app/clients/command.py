"""`cellwright install`: the entry that a client gets, from how this program was started and from the given settings."""

import argparse
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict
from urllib.parse import urlsplit

from cellwright.app.cli.main import SERVER_GROUPS
from cellwright.app.clients import catalogue as clients
from cellwright.app.clients import entry as install
from cellwright.app.clients.catalogue import Client, ClientEntry
from cellwright.app.clients.launch import UVX, everyones_command, own_command, this_process
from cellwright.app.setting_spec import Spec
from cellwright.app.settings import SPECS, Settings
from cellwright.app.settings_loading import read_config
from cellwright.core.errors import ConfigError
from cellwright.core.types import Secret
from cellwright.system.folders import config_file, expanded, home_folder

say: Callable[[str], None] = print
# Settings that are texts and may be the path of a file or a folder.
_MAYBE_PATHS = frozenset({"database", "lance_uri", "embedding_model"})
_SECRET_IN_QUERY = re.compile(r"(token|key|pass|secret|auth)[^&]*=", re.IGNORECASE)
_SELECTING = ("toolsets", "tools", "exclude_tools")
UV_SITE = "https://docs.astral.sh/uv/"


class _Machine(TypedDict):
    home: Path
    platform: str
    environ: Mapping[str, str]
    project: Path | None


def run(options: argparse.Namespace) -> int:
    """Write, show or remove a client's entry."""
    client = clients.CLIENTS[options.client]
    project = Path(options.project).resolve() if options.project else None
    if options.no_home and project is None:
        raise ConfigError(
            "there is no home folder to look for the client's configuration in", hint="set HOME, or give --project DIR"
        )
    machine: _Machine = {"home": home_folder(), "platform": sys.platform, "environ": os.environ, "project": project}
    if options.remove:
        _refuse_with_remove(options)
        return _carry_out(install.plan_removal(client, **machine), show_only=options.print_only, notes=[])
    # First of all, so that the error for a client without project files names the client.
    file = clients.locate(client, **machine)
    entry, notes = _entry(client, options, project)
    if options.print_only:
        # Without a plan, which refuses a file that it cannot read: then people need this text.
        say("\n".join([f"{file}\n\n{clients.snippet(client, entry)}", *notes]))
        return 0
    return _carry_out(install.plan(client, entry, **machine), show_only=False, notes=notes)


def _carry_out(plan: install.Plan, *, show_only: bool, notes: list[str]) -> int:
    if show_only:
        say(f"{plan.path}: {install.describe(plan)}")
        return 0
    install.apply(plan)
    say(install.describe(plan))
    if warning := install.warning(plan):
        say(warning)
    for note in notes:
        say(note)
    if plan.present:
        say(plan.client.afterwards)
    return 0


def _refuse_with_remove(options: argparse.Namespace) -> None:
    extra = [*_given_flags(options), *(f"--{name}" for name in ("url", "token") if getattr(options, name))]
    if options.token_env:
        extra.append("--token-env")
    if extra:
        raise ConfigError(f"--remove takes no {extra[0]}", hint="the whole entry goes; name only the client")


def _entry(client: Client, options: argparse.Namespace, project: Path | None) -> tuple[ClientEntry, list[str]]:
    """The entry, and notes about it for the person."""
    if options.url:
        if flags := _given_flags(options):
            raise ConfigError(
                f"{next(iter(flags))} is for a server that the client starts; the one at --url has settings of its own",
                hint="leave the setting out, or leave --url out",
            )
        token = Secret(options.token) if options.token else None
        return ClientEntry(url=options.url, token=token, token_env=options.token_env or ""), []
    if options.token or options.token_env:
        raise ConfigError(
            "--token and --token-env are for --url", hint="a server that the client starts needs no token"
        )
    running = this_process()
    command = everyones_command(running) if project else own_command(running)
    if client.starts_in and project is None:
        # A desktop program may not have the PATH of a shell.
        command = (shutil.which(command[0]) or command[0], *command[1:])
    paths = _Paths(client, project)
    arguments = _arguments(_given_flags(options), paths)
    notes: list[str] = []
    if "--root" not in arguments:
        arguments = [*paths.default_root(), *arguments]
        if client.starts_in and project is None:
            notes.append(
                f"The workspace is this folder, {Path.cwd()}, because {client.name} starts servers in {client.starts_in}; "
                "--root names another."
            )
    if project is not None and command[0] == UVX[0]:
        notes.append(f"The file is for everybody who opens the project: they need uv, {UV_SITE}")
    entry = ClientEntry(command=command[0], args=(*command[1:], *arguments))
    return entry, [f"It starts: {shlex.join((entry.command, *entry.args))}", *notes]


def _given_flags(options: argparse.Namespace) -> dict[str, tuple[Spec | None, object]]:
    """The given settings by their flags. `--config` is no setting, but is passed on like one."""
    flags: dict[str, tuple[Spec | None, object]] = {}
    if getattr(options, "config", None):
        flags["--config"] = (None, options.config)
    for spec in SPECS:
        if spec.group in SERVER_GROUPS and (value := getattr(options, spec.name, None)) is not None:
            flags[spec.flag] = (spec, value)
    return flags


def _arguments(flags: Mapping[str, tuple[Spec | None, object]], paths: "_Paths") -> list[str]:
    """These settings as arguments for the server's command line, checked as the server would check them."""
    arguments: list[str] = []
    selection: dict[str, object] = {}
    for flag, (spec, value) in flags.items():
        if spec is None:
            file = expanded(str(value))
            read_config(file)
            arguments += [flag, paths.text_of(flag, file)]
            continue
        parsed = spec.parse(value, flag)
        spec.check(parsed)
        if spec.name in _SELECTING:
            selection[spec.name] = parsed
        arguments += _arguments_of(spec, parsed, paths)
    if selection:
        _check_selection(selection)
    return arguments


def _arguments_of(spec: Spec, value: object, paths: "_Paths") -> list[str]:
    if isinstance(value, bool):
        return [spec.flag if value else f"--no-{spec.flag.removeprefix('--')}"]
    # `text_of` would mask secrets, which have to be examined here.
    text = value.reveal() if isinstance(value, Secret) else value if isinstance(value, str) else spec.text_of(value)
    if (isinstance(value, Secret) and spec.name != "database") or _holds_credentials(text):
        file = config_file(os.environ, home_folder(), sys.platform)
        raise ConfigError(
            f"{spec.flag} would stand in the client's file, and in the list of processes, for others to read",
            hint=f"write {spec.name} into {file}, or set {spec.env} in the entry's environment",
        )
    if spec.name == "root" and not Path(text).is_dir():
        raise ConfigError(f"the workspace {text} is not a folder", hint="give an existing folder with --root")
    if isinstance(value, Path) or (spec.name in _MAYBE_PATHS and _is_path(spec, text)):
        text = paths.text_of(spec.flag, Path(text))
    return [f"{spec.flag}={text}"] if text.startswith("-") else [spec.flag, text]


def _holds_credentials(text: str) -> bool:
    """Whether an address holds credentials: a password, a token as its user, a key in its query."""
    if "://" not in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return True
    as_user = parts.scheme.endswith(("http", "https")) and parts.username is not None
    return parts.password is not None or as_user or bool(_SECRET_IN_QUERY.search(f"{parts.query}&{parts.fragment}"))


def _is_path(spec: Spec, text: str) -> bool:
    return "://" not in text and (spec.name != "embedding_model" or Path(text).is_dir())


def _check_selection(selection: Mapping[str, object]) -> None:
    """Refuse unknown toolsets and tools now, and not only when the client starts the server."""
    from cellwright.app.workspace import make_workspace  # noqa: PLC0415 - imports the whole server, which only this check needs

    make_workspace(Settings(**selection), "stdio")  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True, slots=True)
class _Paths:
    """How paths are written into the file: absolute in a user's file, relative to the project's folder in a shared one."""

    client: Client
    project: Path | None

    def text_of(self, flag: str, path: Path) -> str:
        absolute = path.resolve()
        if self.project is None:
            return str(absolute)
        if not absolute.is_relative_to(self.project):
            raise ConfigError(
                f"{flag} {path} lies outside the project, and its file is for everybody who opens it",
                hint=f"name a path in {self.project}, or install for yourself, without --project",
            )
        relative = absolute.relative_to(self.project).as_posix()
        variable = self.client.folder_variable
        if not variable:
            return relative
        return variable if relative == "." else f"{variable}/{relative}"

    def default_root(self) -> list[str]:
        """Arguments for the workspace when none was given, if the client does not start servers in it."""
        if self.client.folder_variable and (self.project is not None or self.client.folder_variable_for_user):
            return ["--root", self.client.folder_variable]
        if self.project is None and self.client.starts_in:
            return ["--root", str(Path.cwd())]
        return []
