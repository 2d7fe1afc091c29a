"""Memory is given back while there is nothing to do, and not between requests."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from cellwright.app import resting
from cellwright.system.port import Machine
from requirements import requirement
from support import clean_environ, http_server, until, wait_until

LOOK_SECONDS = 0.02
PROGRAM = """
import sys
from pathlib import Path
from cellwright.app import resting
from cellwright.app.cli.entry import main
from cellwright.system import machine
resting.AT_REST = 100.0
resting.give_back_at_rest.__defaults__ = (0.05,)
type(machine).give_gaps_back = lambda _machine: Path({given!r}).touch()
sys.exit(main())
"""
"""The server, which notes when it gave memory back. It is at rest at once, however busy."""


class Clock:
    """Stands for the processor time of this process, which other tests use as well."""

    def __init__(self) -> None:
        self.used = 0.0
        self.per_look = 0.0

    def process_time(self) -> float:
        self.used += self.per_look
        return self.used


@asynccontextmanager
async def looking(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> AsyncGenerator[list[float]]:
    """While a task looks: when it gave memory back."""
    given: list[float] = []

    def give(_machine: Machine) -> None:
        given.append(time.monotonic())

    monkeypatch.setattr(resting, "time", clock)
    monkeypatch.setattr(type(resting.machine), "give_gaps_back", give)
    task = asyncio.create_task(resting.give_back_at_rest(LOOK_SECONDS))
    try:
        yield given
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@requirement("memory:returned")
@pytest.mark.anyio
async def test_memory_is_given_back_when_nothing_is_done_and_again_after_more_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    clock.per_look = LOOK_SECONDS / 2
    async with looking(monkeypatch, clock) as given:
        await asyncio.sleep(LOOK_SECONDS * 10)
        assert given == []
        clock.per_look = LOOK_SECONDS / 1_000
        await until(lambda: bool(given), "memory given back")
        clock.per_look = LOOK_SECONDS / 2
        await asyncio.sleep(LOOK_SECONDS * 5)
        count = len(given)
        await asyncio.sleep(LOOK_SECONDS * 5)
        assert len(given) == count
        clock.per_look = 0.0
        await until(lambda: len(given) > count, "memory given back again")


@requirement("memory:returned")
def test_a_server_over_http_gives_memory_back(tmp_path: Path) -> None:
    given = tmp_path / "given"
    with http_server(tmp_path, program=("-c", PROGRAM.format(given=str(given)), "serve")):
        wait_until(given.exists, "memory given back")


@requirement("memory:returned")
def test_a_server_over_stdio_gives_memory_back(tmp_path: Path) -> None:
    given = tmp_path / "given"
    command = [sys.executable, "-c", PROGRAM.format(given=str(given)), "--root", str(tmp_path)]
    command += ["--state-dir", str(tmp_path / "state")]
    with subprocess.Popen(
        command, env=clean_environ(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_until(given.exists, "memory given back")
        finally:
            process.kill()
