"""Putting cellwright's entry into the configuration file of another program, and taking it out.

    plan(client, entry, ...)      what would change, where; reads, writes nothing
    plan_removal(client, ...)     the same for taking the entry out
    apply(plan)                   writes it, whole or not at all

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
    """A change of one file, ready to be written. The texts are not shown: they may hold secrets, ours or others'."""

    client: Client
    path: Path
    old: str | None = field(repr=False)
    """None if there is no file."""
    new: str | None = field(repr=False)
    change: Change
    present: bool
    """Whether the file has our entry when the plan is carried out."""
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
    """What has to change so that the client knows this entry. Nothing is written."""
    if project is not None and entry.token is not None:
        raise ConfigError(
            f"a token does not belong into a project's file, which others may read ({client.project_file})",
            hint="name an environment variable that holds the token, or install for the user",
        )
    wanted = server(client, entry)
    path = locate(client, home=home, platform=platform, environ=environ, project=project)
    old = _read(path)
    with _named(client, path):
        before = _entry_in(client, old)
        new = client.editor.put(old or "", client.path, merged(client, before, wanted))
    change: Change = "none" if new == old else "add" if before is None else "replace"
    return Plan(client, path, old, new, change, present=True, holds_token=entry.token is not None)


def plan_removal(
    client: Client, *, home: Path, platform: str, environ: Mapping[str, str], project: Path | None = None
) -> Plan:
    """What has to change so that the client no longer knows cellwright. Nothing is written."""
    path = locate(client, home=home, platform=platform, environ=environ, project=project)
    old = _read(path)
    with _named(client, path):
        new = None if old is None else client.editor.drop(old, client.path)
    return Plan(client, path, old, new, "none" if new == old else "remove", present=False)


def describe(made: Plan) -> str:
    """One line about what a plan does, or why it does nothing."""
    nothing = "is already there in" if made.present else "is not in"
    done = {"add": "added to", "replace": "updated in", "remove": "removed from", "none": nothing}[made.change]
    return f"{made.client.name}: {NAME} {done} {made.path}"


def warning(made: Plan) -> str:
    """What the person should know after the write; empty if nothing."""
    if not made.holds_token or not made.path.exists() or not machine.open_to_others(made.path.stat()):
        return ""
    return f"Other users of this machine can read the token; `chmod 600 {made.path}` keeps it to you"


def apply(made: Plan) -> None:
    """Write the plan: the whole new file or none of it. Refuses if the file is not the one that was planned for."""
    if made.change == "none" or made.new is None:
        return
    # A dotfile is often a link into a repository: the file it points to is replaced, the link stays.
    target = Path(os.path.realpath(made.path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if _read(target) != made.old:
            raise Conflict(f"{made.path} was changed by another program just now", hint="run the same command again")
        _replace(target, made.new, private=made.holds_token)
    except OSError as error:
        raise ConfigError(
            f"cannot write {made.path}: {error.strerror}",
            hint=f"correct the permissions, or paste what `cellwright install {made.client.id} --print` shows",
        ) from error


def _entry_in(client: Client, text: str | None) -> Toml:
    """What the file has under our name; None if nothing."""
    node = client.editor.loads(text or "")
    for key in client.path:
        node = node.get(key) if isinstance(node, dict) else None
    return node


@contextlib.contextmanager
def _named(client: Client, path: Path) -> Generator[None, None, None]:
    """Faults in the text become errors that name the file and the way out."""
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
