"""`cellwright doctor`: what works, what does not, and the remedies, one line each. Agents get the same report from a tool."""

import asyncio
import importlib.metadata
import os
import platform
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import apsw

from cellwright import __version__
from cellwright.app.installed import PARTS, InstalledPart
from cellwright.app.log import without_credentials
from cellwright.app.parts import MIGRATIONS, database_location
from cellwright.app.settings import Settings
from cellwright.core.errors import CellwrightError
from cellwright.core.installation import this_installation
from cellwright.core.text.names import on_one_line
from cellwright.storage.location import open_database
from cellwright.storage.maintenance import problems
from cellwright.system import machine
from cellwright.system.files import why_not_writable

OK = "ok"
FAILED = "failed"
ABSENT = "absent"
MARKS = {OK: "✔", FAILED: "✘", ABSENT: "·"}

ReportProgress = Callable[[int, int, str], Awaitable[None]]


@dataclass(frozen=True)
class DoctorCheck:
    """The result of one check. The state `absent` is an optional part that is not installed, which is no fault."""

    name: str
    state: str
    detail: str
    remedy: str = ""

    def line(self) -> str:
        return f"{MARKS[self.state]} {self.name}: {self.detail}" + (f"\n    → {self.remedy}" if self.remedy else "")


@dataclass(frozen=True)
class Report:
    """The results of all checks."""

    ok: bool
    checks: list[DoctorCheck]
    settings: dict[str, str]


async def _no_progress(_finished: int, _total: int, _name: str) -> None:
    return None


async def examine(settings: Settings, report_progress: ReportProgress = _no_progress) -> Report:
    """Run every check. A check reports faults as results; none of them raises."""
    steps: list[tuple[str, Callable[[Settings], Awaitable[list[DoctorCheck]]]]] = [
        ("versions", _versions),
        ("workspace", _folders),
        ("database", _database),
        ("Jupyter", _jupyter),
    ]
    checks: list[DoctorCheck] = []
    for number, (name, step) in enumerate(steps):
        await report_progress(number, len(steps), name)
        checks += await step(settings)
    await report_progress(len(steps), len(steps), "done")
    return Report(all(check.state != FAILED for check in checks), checks, settings.effective())


async def _versions(settings: Settings) -> list[DoctorCheck]:
    del settings
    sdk = importlib.metadata.version("mcp")
    checks = [
        DoctorCheck(
            "cellwright",
            OK,
            f"{__version__}, Python {platform.python_version()} on {sys.platform}, installed {this_installation().way}",
        ),
        DoctorCheck("MCP SDK", OK, f"mcp {sdk}, pycrdt {importlib.metadata.version('pycrdt')}"),
    ]
    return [*checks, *(_installed(part) for part in PARTS)]


def _installed(part: InstalledPart) -> DoctorCheck:
    if part.missing:
        state = ABSENT if part.extra else FAILED
        return DoctorCheck(part.name, state, f"not installed ({', '.join(part.missing)})", part.remedy)
    return DoctorCheck(part.name, OK, ", ".join(f"{package} {version}" for package, version in part.versions.items()))


async def _folders(settings: Settings) -> list[DoctorCheck]:
    return [
        *(DoctorCheck("note", ABSENT, note) for note in settings.notes),
        _root_folder(settings.root),
        _state_folder(settings.state_dir),
    ]


def _root_folder(root: Path) -> DoctorCheck:
    path_text, remedy = on_one_line(str(root)), "check its permissions, or give another with --root"
    if not root.exists():
        if reason := why_not_writable(root):
            return DoctorCheck("workspace", FAILED, f"{path_text} cannot be made: {reason}", remedy)
        return DoctorCheck("workspace", OK, f"{path_text} will be made when it is needed")
    # Only the permissions are asked for, nothing is written: people and programs watch this folder.
    if not os.access(root, os.W_OK):
        return DoctorCheck("workspace", FAILED, f"{path_text} is not writable", remedy)
    return DoctorCheck("workspace", OK, f"{path_text} is readable and writable")


def _state_folder(folder: Path) -> DoctorCheck:
    name = "state folder"
    remedy = "check its permissions, or name another folder with --state-dir"
    if not folder.exists():
        if reason := why_not_writable(folder):
            return DoctorCheck(name, FAILED, f"{folder} cannot be made: {reason}", remedy)
        return DoctorCheck(name, OK, f"{folder} will be made when it is needed")
    if machine.open_to_others(folder.stat()):
        return DoctorCheck(name, FAILED, f"{folder} can be read by others", f"chmod 700 '{folder}'")
    if reason := why_not_writable(folder):
        return DoctorCheck(name, FAILED, f"{folder} is not writable: {reason}", remedy)
    return DoctorCheck(name, OK, str(folder))


async def _database(settings: Settings) -> list[DoctorCheck]:
    location = database_location(settings)
    if isinstance(location, Path):
        detail = f"SQLite {apsw.sqlite_lib_version()}, {location}"
        if not location.exists() and (reason := why_not_writable(location.parent)):
            return [
                DoctorCheck(
                    "database",
                    FAILED,
                    f"{detail} cannot be made: {reason}",
                    "name another file with --database, or another folder with --state-dir",
                )
            ]
        if not location.exists():
            return [DoctorCheck("database", OK, f"{detail}, will be made when it is needed")]
        faults = await asyncio.to_thread(problems, location)
        if faults:
            return [
                DoctorCheck(
                    "database", FAILED, f"{detail}: {faults[0]}", "`cellwright restore FILE` goes back to a backup"
                )
            ]
        return [DoctorCheck("database", OK, f"{detail}, {location.stat().st_size:,} bytes, sound")]
    database = open_database(location, MIGRATIONS)
    try:
        await database.change_mark()
    except CellwrightError as error:
        return [DoctorCheck("database", FAILED, f"PostgreSQL: {error.message}", error.hint)]
    finally:
        await database.close()
    return [DoctorCheck("database", OK, f"PostgreSQL at {without_credentials(location.reveal())}")]


async def _jupyter(settings: Settings) -> list[DoctorCheck]:
    from cellwright.app.cli.doctor_jupyter import examine_jupyter  # noqa: PLC0415 - a server must start without importing this

    return await examine_jupyter(settings)
