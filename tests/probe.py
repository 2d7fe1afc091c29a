"""A toolset that misbehaves on request, and a program that serves it over both transports. Used by tests only.

python tests/probe.py [flags of cellwright serve]     over HTTP
python tests/probe.py --stdio [flags of cellwright]   over stdio
"""

import asyncio
import sys
from dataclasses import dataclass, field

from cellwright.app import workspace
from cellwright.app.cli import commands
from cellwright.app.cli.main import make_parser, settings_from
from cellwright.app.settings import Settings
from cellwright.core.errors import Unavailable
from cellwright.core.toolset import Image, Reply, Toolset, read, run, write
from cellwright.core.types import Call


@dataclass
class Probe:
    """What happened, for tests to look at."""

    cancelled: list[str] = field(default_factory=list[str])
    written: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Echo:
    text: str
    numbers: list[int] = field(default_factory=list[int])


async def probe_echo(_probe: Probe, text: str, repeat: int = 1, numbers: int = 0) -> Echo:
    """Give the text back, repeated, with some numbers."""
    return Echo(text * repeat, list(range(numbers)))


async def probe_picture(_probe: Probe) -> Reply[Echo]:
    """A picture and its caption."""
    return Reply(Echo("a dot"), ("a dot", Image(b"\x89PNG\r\n\x1a\n", "image/png")))


async def probe_fail(_probe: Probe) -> Echo:
    """Fail in a way that the caller can act on."""
    raise Unavailable("the kettle does not answer", hint="wait until it boils")


async def probe_crash(_probe: Probe) -> Echo:
    """Fail in a way that nobody expected."""
    raise RuntimeError("secret-detail-of-the-crash")


async def probe_slow(probe: Probe, call: Call, tag: str, steps: int = 100, delay: float = 0.05) -> Echo:
    """Work for a while, telling how far it is."""
    try:
        for step in range(steps):
            await call.progress(step + 1, steps, f"step {step + 1}")
            await asyncio.sleep(delay)
    except asyncio.CancelledError:
        probe.cancelled.append(tag)
        raise
    return Echo(tag)


async def probe_cancelled(probe: Probe) -> Echo:
    """The tags of the calls that were cancelled."""
    return Echo(",".join(probe.cancelled))


async def probe_write(probe: Probe, text: str) -> Echo:
    """Write something."""
    probe.written.append(text)
    return Echo(text)


def probe_toolset(probe: Probe) -> Toolset:
    tools = (
        read(probe_echo, aliases=("probe_parrot",)),
        read(probe_picture),
        read(probe_fail),
        read(probe_crash),
        run(probe_slow),
        read(probe_cancelled),
        write(probe_write, destructive=True),
    )
    return Toolset("probe", "misbehaves on request", tools, probe)


def make_probed(settings: Settings, transport: str) -> workspace.Workspace:
    return workspace.make_workspace(settings, transport, [probe_toolset(Probe())])


if __name__ == "__main__":
    over_stdio = sys.argv[1:2] == ["--stdio"]
    given = make_parser().parse_args(sys.argv[2:] if over_stdio else ["serve", *sys.argv[1:]])
    if over_stdio:
        commands.serve_stdio(settings_from(given), make_probed)
    sys.exit(commands.serve_http(settings_from(given), make_probed))
