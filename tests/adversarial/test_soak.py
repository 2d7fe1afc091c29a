"""Mixed work by ten clients while something breaks every few seconds: nothing is lost, nothing doubled, nothing left, nothing grows.

It takes five minutes, or as many seconds as CELLWRIGHT_TEST_SOAK_SECONDS says; `-s` shows its figures, and calls.txt in its folder has
every call. An hour is `CELLWRIGHT_TEST_SOAK_SECONDS=3600 CELLWRIGHT_TEST_SOAK_FAULT_EVERY=30`. Other tests may run beside it: all it says
about time is that a call is answered within 50 s, of which Jupyter is stopped for 20.

What it does not claim: an edit is acknowledged when Jupyter has it, and Jupyter writes it to disk about a second later. A Jupyter that
dies in between takes it along. So before Jupyter is ended here, clients rest until their files are written. Where no disk may be mounted,
as by anybody but root, none is full.

An hour of it on two cores with other work, too (19,113 calls, 105 faults, 21 of each kind): nothing lost, nothing doubled, nothing left;
memory by fifths 274.5, 289.9, 294.1, 295.7 and 293.2 MB; descriptors 54.1, 54.9, 55.3, 55.0 and 55.7, and 27 at rest after 7 at the start.
"""

import asyncio
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from jupyter_support import JupyterProcess, person_in
from notebook_agent import agent_of
from requirements import requirement
from soak_support import (
    Faults,
    Figures,
    Meter,
    Pause,
    RunLedger,
    Wire,
    Worker,
    all_saved,
    asked,
    children_of,
    command_of,
    processes_naming,
    small_disk,
)
from support import HttpServer, http_server, stop

SECONDS = float(os.environ.get("CELLWRIGHT_TEST_SOAK_SECONDS", "300"))
FAULT_EVERY = float(os.environ.get("CELLWRIGHT_TEST_SOAK_FAULT_EVERY", "20"))
CLIENTS = 10
REST_SECONDS = (0.6, 2.0)
"""What a client rests between two calls: together they take about a third of a processor."""
MEMORY_BYTES = 25 * 2**20
DESCRIPTORS = 15
KEPT = Counter(
    {
        # A connection of each thread of the database: four that read, one that writes.
        "cellwright.db": 5,
        "cellwright.db-wal": 5,
        "cellwright.db-shm": 1,
        # The event loop of the thread that indexes.
        "anon_inode:[eventpoll]": 1,
        "pair": 2,
        # What the HTTP library keeps open for the next request at most, until one comes.
        "Jupyter connected": 20,
    }
)
"""The descriptors that may be there when all is over and were not before anything began. Not one of another kind."""


@requirement(
    "soak:nothing-lost",
    "soak:nothing-doubled",
    "soak:memory",
    "soak:descriptors",
    "soak:answers",
    "soak:nothing-left",
)
@pytest.mark.anyio
@pytest.mark.long(SECONDS)
@pytest.mark.more
@pytest.mark.timeout(SECONDS + 300)
async def test_long_mixed_work_with_faults_loses_doubles_and_leaves_nothing(tmp_path: Path) -> None:
    chance = random.Random(20)
    figures, pause = Figures(journal=tmp_path / "calls.txt"), Pause()
    runs = RunLedger(tmp_path / "ran.txt")
    workers = [Worker(f"c{number}", runs, figures, pause, random.Random(chance.random())) for number in range(CLIENTS)]
    with small_disk(tmp_path / "disk") as disk:
        jupyter = JupyterProcess(disk / "jupyter")
        # What it says is kept where there is room.
        (jupyter.home / "server.log").symlink_to(tmp_path / "jupyter.log")
        with jupyter:
            async with Wire(jupyter.address) as wire:
                flags = (
                    "--toolsets",
                    "all",
                    "--rate",
                    "0",
                    "--root",
                    str(jupyter.root),
                    "--state-dir",
                    str(disk / "state"),
                )
                environ = {"CELLWRIGHT_JUPYTER_TOKEN": jupyter.token}
                with http_server(tmp_path, "--jupyter-url", wire.address.url, *flags, environ=environ) as server:
                    ports = {urlsplit(wire.address.url).port: "Jupyter", urlsplit(server.url).port: "client"}
                    meter = Meter(server.process.pid, {port: name for port, name in ports.items() if port})
                    before, opened = meter.look(), meter.descriptors()
                    faults = Faults(jupyter, wire, disk, pause, figures, chance)
                    faults.saved = lambda: all_saved(workers, jupyter.root)
                    wrong = ["it was given up"]
                    try:
                        wrong = await _work(server, workers, faults, meter, figures)
                    except* AssertionError as failures:
                        figures.complain("soak", f"given up: {failures.exceptions!r}")
                    sys.stdout.write(
                        "\n".join(["", *figures.timeline, *figures.lines(meter), *figures.complaints, *wrong, ""])
                    )
                    assert figures.complaints == []
                    assert wrong == []
                    assert runs.wrong() == []
                    assert asked(jupyter, "kernels") == asked(jupyter, "sessions") == []
                    assert faults.kernels() == []
                    assert await _left(server) == []
                    left_over = await meter.at_rest(opened, KEPT)
                    sys.stdout.write(
                        f"before all: {before}, {opened}\nafter all: {meter.look()}, {meter.descriptors()}\n"
                    )
                    assert left_over == Counter()
                    assert meter.growth(lambda sample: sample.descriptors) <= DESCRIPTORS
                    assert meter.growth(lambda sample: sample.memory) <= MEMORY_BYTES
                    helpers = children_of(server.process.pid)
                    assert await asyncio.to_thread(stop, server.process) == 0
                    assert [pid for pid in helpers if command_of(pid)] == []
            await asyncio.to_thread(jupyter.stop)
        assert processes_naming(str(disk)) == []


async def _work(
    server: HttpServer, workers: Sequence[Worker], faults: Faults, meter: Meter, figures: Figures
) -> list[str]:
    """Let all clients work while things break, then read and leave everything. What is wrong at the end."""
    begun, over = asyncio.Barrier(len(workers) + 1), asyncio.Barrier(len(workers) + 1)
    wrong: list[str] = []

    async def life(worker: Worker, mode: str) -> None:
        async with worker.connected(server, mode):
            await worker.begin()
            await begun.wait()
            await worker.work(time.monotonic() + SECONDS, REST_SECONDS)
            await over.wait()
            wrong.extend(await _ended(worker, faults))

    async with asyncio.TaskGroup() as group:
        for number, worker in enumerate(workers):
            group.create_task(life(worker, "legacy" if number % 2 else "auto"))
        await begun.wait()
        figures.began = time.monotonic()
        watching = group.create_task(meter.watch())
        await faults.keep_coming(FAULT_EVERY, time.monotonic() + SECONDS)
        await over.wait()
        watching.cancel()
    return wrong


async def _ended(worker: Worker, faults: Faults) -> list[str]:
    async with person_in(faults.jupyter.address, worker.path) as them:
        seen = worker.notebook.wrong(them.sources)
    return [*seen, *await worker.end(), *worker.wrong_on_disk(faults.jupyter.root)]


async def _left(server: HttpServer) -> list[str]:
    """What our server still has: documents that are open, and work that goes on."""
    async with agent_of(server) as do:
        sessions = (await do("query_nb_sessions"))["sessions"]
        status = await do("workspace_status")
    left = [session["path"] for session in sessions if session["status"] == "connected"]
    return [*left, *(what for part in status["parts"] for what in part["running"])]
