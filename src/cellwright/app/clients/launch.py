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
# The flags of uvx that decide what is installed. Others (--quiet, --refresh, an index with its password) are not repeated.
_REPEATED_FLAGS = ("--from", "--with", "-w", "--python", "-p")


@dataclass(frozen=True, slots=True)
class Running:
    """The facts about the running process that decide how to start another."""

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
    """The facts about this process."""
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
    """The command by which this user starts the program again, even after caches were emptied and tools upgraded."""
    runner = _runner(running)
    if runner:
        return runner
    for script in (*_tool_scripts(running), running.script, *(folder / _SCRIPT for folder in running.script_folders)):
        if script.name.lower() == _SCRIPT and script.is_file():
            return (str(script),)
    return (str(running.executable), "-m", "cellwright")


def everyones_command(running: Running) -> tuple[str, ...]:
    """The command by which anybody starts this program. It contains no path of this machine."""
    runner = _runner(running)
    if runner and not any(Path(word).is_absolute() or "file:" in word for word in runner):
        return runner
    return UVX if shutil.which("uvx") or not shutil.which("cellwright") else ("cellwright",)


def _runner(running: Running) -> tuple[str, ...]:
    """The command of the tool that made this environment for one run only; empty if the environment lasts."""
    prefixes = (running.prefix.as_posix(), running.prefix.resolve().as_posix())
    is_pipx_run = (running.prefix / _PIPX_NOTE).is_file() and running.prefix.resolve().parent.name != _PIPX_INSTALLED
    if is_pipx_run or any(_PIPX_CACHE.search(prefix) for prefix in prefixes):
        return ("pipx", "run", "cellwright")
    if any(_UV_CACHE.fullmatch(part) for prefix in prefixes for part in prefix.split("/")):
        return _uvx_again(running.started_by)
    return ()


def _uvx_again(words: Sequence[str]) -> tuple[str, ...]:
    """The same command for uvx; the plain one if it is unknown or holds a password."""
    request = list(_request(words))
    arguments: list[str] = []
    while request:
        word = request.pop(0)
        if _PACKAGE.fullmatch(word):
            return ("uvx", *arguments, word) if not any(_has_password(argument) for argument in arguments) else UVX
        flag, equals, value = word.partition("=")
        if flag in _REPEATED_FLAGS:
            value = value if equals else request.pop(0) if request else ""
            arguments += [flag, _absolute_if_path(value)]
    return UVX


def _request(words: Sequence[str]) -> Sequence[str]:
    """What follows `uvx` or `uv tool run`."""
    for index, word in enumerate(words):
        if Path(word).stem == "uvx" or (word == "run" and words[index - 1] == "tool"):
            return words[index + 1 :]
    return ()


def _has_password(word: str) -> bool:
    return "://" in word and without_credentials(word) != word


def _absolute_if_path(value: str) -> str:
    """A path made absolute; a value that is no path is returned as it is."""
    is_path = (os.sep in value or value.startswith(".")) and Path(value).exists()
    return str(Path(value).absolute()) if is_path else value


def _tool_scripts(running: Running) -> Iterator[Path]:
    """Scripts that `uv tool install` or `pipx install` put among the user's programs: they outlive the environment."""
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
