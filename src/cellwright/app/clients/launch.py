"""How a client starts this program again: a command that lasts for this user, or one that everybody can run.

own_command(this_process())         for a file of one's own
everyones_command(this_process())   for a file that is shared
"""

import os
import re
import shutil
import sys
import sysconfig
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from cellwright.app.log import without_credentials
from cellwright.system.folders import home_folder
from cellwright.system.trees import commands_above

UVX = ("uvx", "cellwright")
_SCRIPT = "cellwright.exe" if sys.platform == "win32" else "cellwright"
# The folders of uv's cache that hold environments; the number is that of the cache's format.
_UV_CACHE = re.compile(r"(archive|environments|builds)-v\d+")
# Where `pipx run` keeps environments unless it is told otherwise; those of new versions also have its note in them.
_PIPX_CACHE = re.compile(r"/pipx/\.?cache/|/\.?caches?/pipx/", re.IGNORECASE)
_PIPX_NOTE, _PIPX_INSTALLED = "pipx_metadata.json", "venvs"
"""What pipx writes into each environment it makes, and the folder that holds those which it keeps."""
_PACKAGE = re.compile(r"cellwright(\[[\w\s,.-]*\])?(@.+|[=<>~!].+)?")
# What uvx was told that decides what is installed. The rest (--quiet, --refresh, an index with its password) is not repeated.
_KEPT = ("--from", "--with", "-w", "--python", "-p")


@dataclass(frozen=True, slots=True)
class Running:
    """What is known of the process that runs, as far as it decides how to start another."""

    prefix: Path
    """The environment, as in `sys.prefix`."""
    executable: Path
    script: Path
    """What was run, as in `sys.argv[0]`."""
    script_folders: tuple[Path, ...]
    """Where this Python keeps the scripts of packages."""
    path_folders: tuple[Path, ...]
    """Where a shell looks for programs, and where uv and pipx put theirs."""
    started_by: tuple[str, ...]
    """The command line of the `uvx` or `uv tool run` that started this one; empty if none did, or if it is unknown."""


def this_process(environ: Mapping[str, str] = os.environ, home: Path | None = None) -> Running:
    """The process that runs, looked at."""
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    bins = [environ[name] for name in ("UV_TOOL_BIN_DIR", "PIPX_BIN_DIR") if environ.get(name)]
    usual = str((home or home_folder()) / ".local" / "bin")
    return Running(
        prefix=Path(sys.prefix),
        executable=Path(sys.executable),
        script=Path(sys.argv[0]).absolute(),
        script_folders=tuple(Path(sysconfig.get_path("scripts", scheme)) for scheme in schemes),
        path_folders=tuple(
            Path(entry) for entry in (*bins, usual, *environ.get("PATH", "").split(os.pathsep)) if entry
        ),
        started_by=next((words for words in commands_above() if _request(words)), ()),
    )


def own_command(running: Running) -> tuple[str, ...]:
    """How this user starts this program again, also after caches were emptied and tools upgraded."""
    runner = _runner(running)
    if runner:
        return runner
    for script in (*_tool_scripts(running), running.script, *(folder / _SCRIPT for folder in running.script_folders)):
        if script.name.lower() == _SCRIPT and script.is_file():
            return (str(script),)
    return (str(running.executable), "-m", "cellwright")


def everyones_command(running: Running) -> tuple[str, ...]:
    """How anybody starts this program: nothing in it is a path of this machine."""
    runner = _runner(running)
    if runner and not any(Path(word).is_absolute() or "file:" in word for word in runner):
        return runner
    return UVX if shutil.which("uvx") or not shutil.which("cellwright") else ("cellwright",)


def _runner(running: Running) -> tuple[str, ...]:
    """The command of the program that made this environment for one run only; empty if the environment lasts."""
    places = (running.prefix.as_posix(), running.prefix.resolve().as_posix())
    noted = (running.prefix / _PIPX_NOTE).is_file() and running.prefix.resolve().parent.name != _PIPX_INSTALLED
    if noted or any(_PIPX_CACHE.search(place) for place in places):
        return ("pipx", "run", "cellwright")
    if any(_UV_CACHE.fullmatch(part) for place in places for part in place.split("/")):
        return _uvx_again(running.started_by)
    return ()


def _uvx_again(words: Sequence[str]) -> tuple[str, ...]:
    """The same request to uvx; without anything special if it is not known, or holds a password."""
    request = list(_request(words))
    kept: list[str] = []
    while request:
        word = request.pop(0)
        if _PACKAGE.fullmatch(word):
            return ("uvx", *kept, word) if not any(_has_password(each) for each in kept) else UVX
        flag, equals, value = word.partition("=")
        if flag in _KEPT:
            value = value if equals else request.pop(0) if request else ""
            kept += [flag, _lasting(value)]
    return UVX


def _request(words: Sequence[str]) -> Sequence[str]:
    """What follows `uvx` or `uv tool run`."""
    for at, word in enumerate(words):
        if Path(word).stem == "uvx" or (word == "run" and words[at - 1] == "tool"):
            return words[at + 1 :]
    return ()


def _has_password(word: str) -> bool:
    return "://" in word and without_credentials(word) != word


def _lasting(value: str) -> str:
    """A path that is good from anywhere; what is no path as it is."""
    is_path = (os.sep in value or value.startswith(".")) and Path(value).exists()
    return str(Path(value).absolute()) if is_path else value


def _tool_scripts(running: Running) -> Iterator[Path]:
    """The script that `uv tool install` or `pipx install` put among the user's programs: it outlives the environment."""
    receipt = running.prefix / "uv-receipt.toml"
    if not receipt.is_file() and not (running.prefix / _PIPX_NOTE).is_file():
        return
    if receipt.is_file():
        tool = cast("dict[str, Any]", tomllib.loads(receipt.read_text(encoding="utf-8")).get("tool", {}))
        entries = cast("list[dict[str, str]]", tool.get("entrypoints", []))
        yield from (Path(entry["install-path"]) for entry in entries if entry.get("name") == "cellwright")
    for folder in running.path_folders:
        script = folder / _SCRIPT
        inside = script.is_relative_to(running.prefix)
        if not inside and script.resolve().is_relative_to(running.prefix.resolve()):
            yield script
