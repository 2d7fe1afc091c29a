"""Finds the Python environments of a workspace by their files alone, without ever running them.

A workspace may be a repository that somebody else wrote, with a `.venv` in which `python` is any program at all. It runs only when
a person or an agent starts a kernel in it, not when kernels are listed.
"""

import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

WORKSPACE_FOLDERS = (".venv", "venv", "env")
"""Where tools put the environment of a project, in order of preference."""
OWN_ORIGIN = "the environment cellwright is installed in"
CONFIG_FILE = "pyvenv.cfg"
MAX_CONFIG_BYTES = 64 * 1024
MAX_ENTRIES = 10_000
LIBRARY = re.compile(r"(?:python|pypy)(\d+\.\d+)t?")
CONDA_PYTHON = re.compile(r"python-(\d+(?:\.\d+)+)-\w+\.json")
PYTHON_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python of this process, with which environments are compared."""

    prefix: Path
    executable: Path
    version: str
    implementation: str
    library: str
    """The folder name of its standard library, like `python3.13t`. Builds that share no compiled modules differ in it."""

    @classmethod
    def own(cls) -> "Interpreter":
        import sysconfig  # noqa: PLC0415 - only where kernels are listed

        version = ".".join(map(str, sys.version_info[:3]))
        library = Path(sysconfig.get_path("stdlib")).name
        return cls(Path(sys.prefix), Path(sys.executable), version, sys.implementation.name, library)


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python environment that kernels may run in."""

    prefix: Path
    python: Path
    label: str
    """What people call it: `.venv`, `active: data`, `conda: base`."""
    origin: str
    """Where it was found, as a phrase."""
    version: str = ""
    """Empty if its files do not say."""
    implementation: str = ""
    library: str = ""
    conda: bool = False
    by_uv: bool = False
    has_ipykernel: bool = False
    is_own: bool = False
    """Whether this process runs in it."""

    def lends_to(self, own: Interpreter) -> bool:
        """Whether this environment can load modules that were compiled for our own Python."""
        return (
            _minor(self.version) == _minor(own.version)
            and self.implementation.lower() in ("", own.implementation)
            and (self.library in ("", own.library))
        )

    def to_install(self, package: str) -> str:
        """The command that installs a package in it."""
        if self.conda:
            return command_line("conda", "install", "--prefix", str(self.prefix), package)
        if self.by_uv:
            return command_line("uv", "pip", "install", "--python", str(self.python), package)
        return command_line(str(self.python), "-m", "pip", "install", package)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which environments can run kernels, and which of them runs notebooks that name no kernel."""

    default: Environment | None
    """None for the Python of this process."""
    others: tuple[Environment, ...] = ()
    unusable: Mapping[Path, str] = field(default_factory=dict[Path, str])
    """Environments in which no kernel can be started, each with what to do about it."""


def command_line(*words: str) -> str:
    """A command as it is typed on this system."""
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


def choose(root: Path, environment: Mapping[str, str], own: Interpreter) -> Choice:
    """The environments of a workspace and the active ones. The first that can run kernels is the default."""
    usable: list[Environment] = []
    unusable: dict[Path, str] = {}
    for candidate in find(root, environment, own):
        if problem := why_unusable(candidate, own):
            unusable[candidate.prefix] = problem
        else:
            usable.append(candidate)
    default = usable[0] if usable and not usable[0].is_own else None
    others = tuple(candidate for candidate in usable if candidate is not default and not candidate.is_own)
    return Choice(default, others, unusable)


def why_unusable(candidate: Environment, own: Interpreter) -> str:
    """What has to be done before a kernel can be started there; empty if nothing."""
    if not candidate.python.is_file():
        return f"{candidate.origin} has no interpreter at {candidate.python}: make the environment again"
    if candidate.is_own or candidate.has_ipykernel or candidate.lends_to(own):
        return ""
    version = f"Python {candidate.version}" if candidate.version else "a Python of unknown version"
    return (
        f"{candidate.origin} has {version} and no ipykernel, and ours is for Python {_minor(own.version)}: "
        f"{candidate.to_install('ipykernel')}"
    )


def find(root: Path, environment: Mapping[str, str], own: Interpreter) -> list[Environment]:
    """The environments in the usual folders of the workspace, then the active ones, without duplicates."""
    environments: list[Environment] = []
    for prefix, label, origin in _places(root, environment):
        candidate = look_at(prefix, label, origin, own)
        if candidate is not None and not any(_same(candidate.prefix, other.prefix) for other in environments):
            environments.append(candidate)
    return environments


def _places(root: Path, environment: Mapping[str, str]) -> Iterator[tuple[Path, str, str]]:
    for name in WORKSPACE_FOLDERS:
        yield root / name, name, f"{name} of the workspace"
    if active := environment.get("VIRTUAL_ENV"):
        yield Path(active), f"active: {Path(active).name}", "the active virtual environment (VIRTUAL_ENV)"
    if active := environment.get("CONDA_PREFIX"):
        name = environment.get("CONDA_DEFAULT_ENV") or Path(active).name
        yield Path(active), f"conda: {Path(name).name}", "the active conda environment (CONDA_PREFIX)"


def look_at(prefix: Path, label: str, origin: str, own: Interpreter) -> Environment | None:
    """The environment in this folder; None if there is none."""
    config = _config(prefix / CONFIG_FILE)
    conda = (prefix / "conda-meta").is_dir()
    if config is None and not conda:
        return None
    config = config or {}
    version = config.get("version_info") or config.get("version") or (_conda_version(prefix) if conda else "")
    library, packages = _library(prefix, version)
    version_match = PYTHON_VERSION.match(version) or PYTHON_VERSION.search(library)
    return Environment(
        prefix,
        interpreter_of(prefix, conda=conda),
        label,
        origin,
        version_match[0] if version_match else "",
        config.get("implementation", ""),
        library,
        conda,
        "uv" in config,
        packages is not None and (packages / "ipykernel").is_dir(),
        _same(prefix, own.prefix),
    )


def interpreter_of(prefix: Path, platform: str = sys.platform, *, conda: bool = False) -> Path:
    """The path of an environment's interpreter on this system."""
    if platform != "win32":
        return prefix / "bin" / "python"
    return prefix / "python.exe" if conda else prefix / "Scripts" / "python.exe"


def programs_of(environment: Environment, platform: str = sys.platform) -> list[Path]:
    """The folders that activating the environment puts first on the path."""
    if platform != "win32":
        return [environment.prefix / "bin"]
    if not environment.conda:
        return [environment.prefix / "Scripts"]
    subfolders = ("Library/mingw-w64/bin", "Library/usr/bin", "Library/bin", "Scripts", "bin")
    return [environment.prefix, *(environment.prefix / name for name in subfolders)]


def _library(prefix: Path, version: str, platform: str = sys.platform) -> tuple[str, Path | None]:
    """The folder name of its library (like `python3.12`; empty where there is none), and the folder of its packages."""
    if platform == "win32":
        return "", prefix / "Lib" / "site-packages"
    names = sorted(name for name in _names_in(prefix / "lib") if LIBRARY.fullmatch(name))
    of_version = [name for name in names if (match := LIBRARY.fullmatch(name)) and match[1] == _minor(version)]
    library = next(iter(of_version or names), "")
    return library, prefix / "lib" / library / "site-packages" if library else None


def _config(file: Path) -> dict[str, str] | None:
    """The settings in a `pyvenv.cfg`; None if there is no such regular file."""
    try:
        # Without waiting: it may be a pipe that nobody writes to.
        handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    with os.fdopen(handle, "rb") as opened:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        text = opened.read(MAX_CONFIG_BYTES).decode("utf-8", "replace")
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _conda_version(prefix: Path) -> str:
    """The version in the name of conda's record of the package `python`."""
    for name in _names_in(prefix / "conda-meta"):
        if record := CONDA_PYTHON.fullmatch(name):
            return record[1]
    return ""


def _names_in(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry, _ in zip(entries, range(MAX_ENTRIES), strict=False)]
    except OSError:
        return []


def _same(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second)
    except OSError:
        return False


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
