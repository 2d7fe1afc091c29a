"""How this copy of cellwright was installed, and which command extends or repairs it."""

import shlex
import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "cellwright"


class Way(StrEnum):
    """What created the environment that we run in, in the words that messages use."""

    UVX = "by uvx"
    UV_TOOL = "by uv tool"
    PIPX = "by pipx"
    CONDA = "in a conda environment"
    VENV = "in a virtual environment"
    SYSTEM = "in Python itself"


@dataclass(frozen=True, slots=True)
class Installation:
    """The environment that this program runs in."""

    way: Way
    python: str
    """Its interpreter."""
    has_pip: bool = True

    def add(self, extra: str) -> str:
        """The command that installs an optional part."""
        package = shlex.quote(f"{PACKAGE}[{extra}]")
        match self.way:
            case Way.UVX:
                # Nothing is added to this environment: uv creates one for every set of packages.
                return f"uvx --from {package} {PACKAGE}"
            case Way.UV_TOOL:
                return f"uv tool install {package}"
            case Way.PIPX:
                return f"pipx install --force {package}"
            case _:
                return f"{self._pip_install} {package}"

    def mend(self) -> str:
        """The command that installs what every installation should have and this one lacks."""
        match self.way:
            case Way.UVX:
                return f"uvx --refresh {PACKAGE}"
            case Way.UV_TOOL:
                return f"uv tool install --reinstall {PACKAGE}"
            case Way.PIPX:
                return f"pipx reinstall {PACKAGE}"
            case _:
                return f"{self._pip_install} {PACKAGE}"

    @property
    def _pip_install(self) -> str:
        python = shlex.quote(self.python)
        return f"{python} -m pip install" if self.has_pip else f"uv pip install --python {python}"


@cache
def this_installation() -> Installation:
    """The installation that this process runs from."""
    return installation_of(Path(sys.prefix), sys.executable, has_pip=find_spec("pip") is not None)


def installation_of(prefix: Path, python: str, *, has_pip: bool = True) -> Installation:
    """Recognized by the files that each program leaves in the environments it creates; nothing is run."""
    configuration = prefix / "pyvenv.cfg"
    if (prefix / "uv-receipt.toml").is_file():
        way = Way.UV_TOOL
    elif (prefix / "pipx_metadata.json").is_file():
        way = Way.PIPX
    elif (prefix / "conda-meta").is_dir():
        way = Way.CONDA
    elif not configuration.is_file():
        way = Way.SYSTEM
    elif _is_in_cache_of_uv(prefix):
        way = Way.UVX
    else:
        way = Way.VENV
    return Installation(way, python, has_pip)


def _is_in_cache_of_uv(prefix: Path) -> bool:
    """uv keeps what `uvx` runs in folders of its cache that are called `archive-v0` or `environments-v2`."""
    return any(name.startswith(("archive-v", "environments-v")) for name in prefix.parts)
