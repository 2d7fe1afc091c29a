"""Adds cellwright's entry to the configuration file of another program, and removes it.

    plan(client, entry, ...)      what would change, and where; writes nothing
    plan_removal(client, ...)     the same for removing the entry
    apply(plan)                   writes the whole file, or nothing

Everything else in the file stays as it is, byte for byte.
"""

import contextlib
import os
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cellwright.app.clients.catalogue import NAME, Client, ClientEntry, locate, merged, server
from cellwright.app.clients.jsonc import EditError, position
from cellwright.app.clients.tomledit import Toml
from cellwright.core.errors import ConfigError, Conflict
from cellwright.system import machine
from cellwright.system.files import PRIVATE, replace_file

Change = Literal["add", "replace", "remove", "none"]


@dataclass(frozen=True, slots=True)
class Plan:
    """A change of one file, ready to be written. Its repr hides the texts, which may hold secrets."""

    client: Client
    path: Path
    old: str | None = field(repr=False)
    """None if there is no file."""
    new: str | None = field(repr=False)
    change: Change
    present: bool
    """Whether the file has our entry after the change."""
    holds_token: bool = False


def plan(
    client: Client,
    entry: ClientEntry,
    *,
    home: Path,
    platform: str,
    environ: Mapping[str, str],
    project: Path | None = None,
) -> Plan:
    """The change that gives the client this entry. Nothing is written."""
    if project is not None and entry.token is not None:
        raise ConfigError(
            f"a token does not belong into a project's file, which others may read ({client.project_file})",
            hint="name an environment variable that holds the token, or install for the user",
        )
    entry_data = server(client, entry)
    path = locate(client, home=home, platform=platform, environ=environ, project=project)
    old = _read(path)
    with _faults_named(client, path):
        before = _entry_in(client, old)
        new = client.editor.put(old or "", client.path, merged(client, before, entry_data))
    change: Change = "none" if new == old else "add" if before is None else "replace"
    return Plan(client, path, old, new, change, present=True, holds_token=entry.token is not None)


def plan_removal(
    client: Client, *, home: Path, platform: str, environ: Mapping[str, str], project: Path | None = None
) -> Plan:
    """The change that removes cellwright from the client. Nothing is written."""
    path = locate(client, home=home, platform=platform, environ=environ, project=project)
    old = _read(path)
    with _faults_named(client, path):
        new = None if old is None else client.editor.drop(old, client.path)
    return Plan(client, path, old, new, "none" if new == old else "remove", present=False)


def describe(plan: Plan) -> str:
    """One line about what a plan does, or why it does nothing."""
    nothing = "is already there in" if plan.present else "is not in"
    action = {"add": "added to", "replace": "updated in", "remove": "removed from", "none": nothing}[plan.change]
    return f"{plan.client.name}: {NAME} {action} {plan.path}"


def warning(plan: Plan) -> str:
    """What the person should know after the write; empty if nothing."""
    if not plan.holds_token or not plan.path.exists() or not machine.open_to_others(plan.path.stat()):
        return ""
    return f"Other users of this machine can read the token; `chmod 600 {plan.path}` keeps it to you"


def apply(plan: Plan) -> None:
    """Write the whole new file, or nothing. Refuses if the file has changed since the plan was made."""
    if plan.change == "none" or plan.new is None:
        return
    # A dotfile is often a link into a repository: the file behind the link is replaced, and the link stays.
    target = Path(os.path.realpath(plan.path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if _read(target) != plan.old:
            raise Conflict(f"{plan.path} was changed by another program just now", hint="run the same command again")
        _replace(target, plan.new, private=plan.holds_token)
    except OSError as error:
        raise ConfigError(
            f"cannot write {plan.path}: {error.strerror}",
            hint=f"correct the permissions, or paste what `cellwright install {plan.client.id} --print` shows",
        ) from error


def _entry_in(client: Client, text: str | None) -> Toml:
    """The entry under our name in the file's text; None if there is none."""
    node = client.editor.loads(text or "")
    for key in client.path:
        node = node.get(key) if isinstance(node, dict) else None
    return node


@contextlib.contextmanager
def _faults_named(client: Client, path: Path) -> Generator[None, None, None]:
    """Turn faults in the text into errors that name the file and a remedy."""
    try:
        yield
    except EditError as error:
        raise ConfigError(
            f"{path}, line {error.line}, column {error.column}: {error.reason}; the file was not touched",
            hint=f"correct it there, or paste what `cellwright install {client.id} --print` shows",
            details={"path": str(path), "line": error.line, "column": error.column},
        ) from error


def _read(path: Path) -> str | None:
    """The text with its line endings and byte order mark; None if there is no file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="correct its permissions") from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        line, column = position(before, len(before))
        raise ConfigError(
            f"{path}, line {line}, column {column}: not UTF-8; the file was not touched",
            hint="save it as UTF-8 in an editor",
            details={"path": str(path), "line": line, "column": column},
        ) from error


def _replace(target: Path, text: str, *, private: bool) -> None:
    """Put the text in place of the file. An existing file keeps its mode and owner; a new one is `private` or follows the umask."""
    old = target.stat() if target.exists() else None

    def take_over(draft: Path) -> None:
        if old is not None:
            machine.take_after(draft, old)

    replace_file(target, text.encode("utf-8"), mode=PRIVATE if private or old else 0o666, before=take_over)
