"""Default folders: the user's home, our state and configuration, Jupyter's runtime files, the workspace.

Where they depend on the system, the functions take its environment, home and name, so that each can be tested on every system.
"""

import os
import sys
import tempfile
from collections.abc import Mapping, MutableMapping
from pathlib import Path, PurePath
from typing import TypeVar

from cellwright.core.errors import ConfigError
from cellwright.system import machine

NAME = "cellwright"
WORKSPACE = "notebooks"
SHARED_SETTINGS = ("/etc/jupyter", "/usr/local/etc/jupyter")
"""Jupyter's settings for all users of a machine."""
TRUE_WORDS = ("1", "true", "yes", "on", "y")

P = TypeVar("P", bound=PurePath)


def state_folder(environ: Mapping[str, str], home: P, platform: str) -> P:
    """The folder of tokens, the database and other state."""
    if platform == "win32":
        return type(home)(environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / NAME
    if platform == "darwin":
        return home / "Library" / "Application Support" / NAME
    return type(home)(environ.get("XDG_STATE_HOME") or home / ".local" / "state") / NAME


def config_file(environ: Mapping[str, str], home: P, platform: str) -> P:
    """The user's own configuration file."""
    if platform in {"win32", "darwin"}:
        return state_folder(environ, home, platform) / "config.toml"
    return type(home)(environ.get("XDG_CONFIG_HOME") or home / ".config") / NAME / "config.toml"


def jupyter_runtime_folder(environ: Mapping[str, str], home: P, platform: str) -> P:
    """Jupyter's runtime folder, by its own rules."""
    if folder := environ.get("JUPYTER_RUNTIME_DIR"):
        return type(home)(folder)
    return _jupyter_data_folder(environ, home, platform) / "runtime"


def jupyter_private_places(environ: Mapping[str, str], home: P, platform: str) -> list[P]:
    """Where Jupyter keeps secrets: tokens and keys of running servers, the key of trusted notebooks, passwords and settings."""
    data = _jupyter_data_folder(environ, home, platform)
    config = environ.get("JUPYTER_CONFIG_DIR")
    return [
        jupyter_runtime_folder(environ, home, platform),
        data / "runtime",
        data / "notebook_secret",
        data / "nbsignatures.db",
        *((type(home)(config),) if config else ()),
        home / ".jupyter",
        *([home / ".config" / "jupyter", *map(type(home), SHARED_SETTINGS)] if platform != "win32" else []),
        type(home)(sys.prefix) / "etc" / "jupyter",
    ]


def _jupyter_data_folder(environ: Mapping[str, str], home: P, platform: str) -> P:
    if folder := environ.get("JUPYTER_DATA_DIR"):
        return type(home)(folder)
    platform_dirs = environ.get("JUPYTER_PLATFORM_DIRS", "").lower() in TRUE_WORDS
    if platform == "darwin":
        return home / "Library" / ("Application Support/Jupyter" if platform_dirs else "Jupyter")
    if platform == "win32":
        if platform_dirs:
            return type(home)(environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "Jupyter"
        return type(home)(environ.get("APPDATA", home / "AppData" / "Roaming")) / "jupyter"
    return type(home)(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "jupyter"


def expanded(text: str) -> Path:
    """A path as a person writes it, with `~` for a home. ConfigError if there is no such user."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"nobody knows the home folder in {text!r}", hint="write the path without ~, or set HOME"
        ) from error


def user_home() -> Path | None:
    """The user's home. None if HOME is not set and the user is unknown, or if the home is `/` and we may not write to it.

    Containers give that home to users they do not know.
    """
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return None if home == home.parent and not os.access(home, os.W_OK) else home


def temporary_home() -> Path:
    """The substitute for a missing home: the same folder at every start, for this user only."""
    user = f"-{os.getuid()}" if sys.platform != "win32" else ""
    return Path(tempfile.gettempdir()) / f"{NAME}{user}"


def home_folder() -> Path:
    """The user's home, or its substitute."""
    return user_home() or temporary_home()


def give_home(environ: MutableMapping[str, str]) -> str:
    """If the user has no home, create the substitute, and make it the home of this process and its children.

    Returns a sentence about it; empty if there is a home. Others may write to the folder for temporary files, so ConfigError
    if somebody else has created the substitute.
    """
    if user_home() is not None:
        return ""
    home = temporary_home()
    remedy = "set HOME to a folder that you may write to"
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        status = home.lstat()
        if home.is_symlink() or not machine.is_own(status):
            raise ConfigError(f"there is no home folder, and {home} belongs to somebody else", hint=remedy)
        machine.keep_private(home)
    except OSError as error:
        raise ConfigError(
            f"there is no home folder, and {home} cannot be used instead: {error.strerror}", hint=remedy
        ) from error
    environ["USERPROFILE" if sys.platform == "win32" else "HOME"] = str(home)
    return (
        f"there is no home folder, so {home} is used, which may not last; set HOME, or --state-dir and --root, "
        "to folders that do"
    )


def choose_workspace(folder: Path | None, home: Path, environ: Mapping[str, str]) -> tuple[Path, str]:
    """The workspace of a program that was started in `folder` without naming one, and a sentence if it is another folder.

    Clients start their servers anywhere: in `/`, in the home, in a folder of the system. None of these is meant as a workspace.
    """
    if folder is not None and not is_too_wide(folder, home, environ):
        return folder, ""
    workspace = home / WORKSPACE
    where = f"started in {folder}, which is no workspace" if folder else "started in a folder that is gone"
    return workspace, f"{where}, so {workspace} is used; --root names another"


def is_too_wide(folder: PurePath, home: PurePath, environ: Mapping[str, str]) -> bool:
    """Whether the folder is a whole disk, the home or a folder around it, or belongs to Windows itself."""
    windows = environ.get("SYSTEMROOT")
    return (
        is_whole_disk(folder)
        or home.is_relative_to(folder)
        or (windows is not None and folder.is_relative_to(type(folder)(windows)))
    )


def is_whole_disk(folder: PurePath) -> bool:
    return folder == folder.parent


def working_folder() -> Path | None:
    """The current folder; None if it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None
