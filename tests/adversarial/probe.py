"""The real program with one toolset more, whose tools an attacker would like to reach. Used by tests only.

    python tests/adversarial/probe.py [any arguments of cellwright]

Every tool notes its name in ROOT/ran before it does anything, so a test can see that nothing ran.
"""

import asyncio
import faulthandler
import logging
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from cellwright.app import workspace
from cellwright.app.cli import commands
from cellwright.app.cli import main as cli
from cellwright.app.resources import STATUS_URI
from cellwright.app.settings import Settings
from cellwright.core.resources import Changes, ResourceUpdated
from cellwright.core.toolset import Toolset, read, run, write
from cellwright.core.types import Call

SLEEP_SECONDS = 60.0


@dataclass(frozen=True)
class Probe:
    """The service of these tools: where they leave their trace, and how they announce a change."""

    ran: Path
    announces: list[Changes] = field(default_factory=list[Changes])

    def note(self, name: str) -> None:
        with self.ran.open("a", encoding="utf-8") as opened:
            opened.write(name + "\n")


@dataclass(frozen=True)
class Ran:
    """What a probe answers."""

    tool: str
    count: int = 0


async def probe_read(probe: Probe, count: int = 1, ratio: float = 1.0, text: str = "", timeout: int = 5) -> Ran:  # noqa: ASYNC109
    """Take a value of each simple type."""
    probe.note("probe_read")
    del ratio, text, timeout
    return Ran("probe_read", count)


async def probe_write(probe: Probe, text: str = "") -> Ran:
    """Stand for every tool that writes."""
    probe.note("probe_write")
    del text
    return Ran("probe_write")


async def probe_run(probe: Probe, text: str = "") -> Ran:
    """Stand for every tool that runs code."""
    probe.note("probe_run")
    del text
    return Ran("probe_run")


async def probe_crash(probe: Probe, text: str = "") -> Ran:
    """Fail in a way that nobody foresaw, with the text in the exception."""
    probe.note("probe_crash")
    raise RuntimeError(f"could not reach https://host.example/?token={text} with Authorization: Bearer {text}")


async def probe_publish(probe: Probe) -> Ran:
    """Announce a change of the status to everybody."""
    probe.note("probe_publish")
    for changes in probe.announces:
        changes.publish(ResourceUpdated(STATUS_URI))
    return Ran("probe_publish")


async def probe_sleep(probe: Probe) -> Ran:
    """Take long."""
    probe.note("probe_sleep")
    await asyncio.sleep(SLEEP_SECONDS)
    return Ran("probe_sleep")


async def probe_noise(probe: Probe, call: Call) -> Ran:
    """Print in every way a library has."""
    probe.note("probe_noise")
    print("noise: print")  # noqa: T201
    sys.stdout.write("noise: sys.stdout\n")
    sys.stdout.flush()
    assert sys.__stdout__ is not None
    print("noise: sys.__stdout__", file=sys.__stdout__, flush=True)
    os.write(1, b"noise: descriptor 1\n")
    warnings.warn("noise: warning", stacklevel=1)
    logging.getLogger("noisy").error("noise: logging")
    faulthandler.dump_traceback()
    child = await asyncio.create_subprocess_exec("sh", "-c", "echo noise: child; echo noise: child error >&2")
    await child.wait()
    # A child that is left behind must not hold the wire either.
    subprocess.Popen(["sh", "-c", "sleep 0.2; echo noise: late child"])  # noqa: ASYNC220
    await call.progress(1, 1, "noise: progress")
    return Ran("probe_noise")


def probe_toolset(probe: Probe) -> Toolset:
    return Toolset(
        "probe",
        "what an attacker would like to reach",
        (
            read(probe_read),
            write(probe_write, aliases=("old_write",)),
            run(probe_run, long=False, aliases=("old_run",)),
            read(probe_crash),
            read(probe_publish),
            read(probe_sleep),
            read(probe_noise),
        ),
        probe,
    )


def make_probed(settings: Settings, transport: str) -> workspace.Workspace:
    """The workspace as the program makes it, and the probe."""
    probe = Probe(settings.root / "ran")
    made = workspace.make_workspace(settings, transport, [probe_toolset(probe)])
    probe.announces.append(made.changes)
    return made


if __name__ == "__main__":
    given = cli.make_parser().parse_args(sys.argv[1:])
    serve = commands.serve_http if given.command == "serve" else commands.serve_stdio
    sys.exit(serve(cli.settings_from(given), make_probed))
