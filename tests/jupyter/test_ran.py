"""What ran in a kernel is known from the kernel itself: our runs, people's, and those from before we listened."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from cellwright.jupyter import ran as module
from cellwright.jupyter.kernels.channel import Message
from cellwright.jupyter.ran import KernelRuns, RunEnd
from jupyter_support import JupyterServer
from kernel_support import KernelOnServer, kernel_on, until
from requirements import requirement

pytestmark = pytest.mark.anyio


@pytest.fixture
async def kernel(jupyter_server: JupyterServer) -> AsyncGenerator[KernelOnServer]:
    async with kernel_on(jupyter_server) as started:
        yield started


def seen(runs: KernelRuns) -> list[tuple[int, str, str]]:
    return [(run.number, run.source, run.ended.value) for run in runs.latest()]


@requirement("stale:ran")
async def test_runs_of_everybody_are_seen_with_their_source_number_and_end(kernel: KernelOnServer) -> None:
    async with kernel.person() as other:
        await other.execute("before = 1\n\n")
        runs = await kernel.connection.all_that_ran(20)
        assert seen(runs) == [(1, "before = 1", "unknown")]
        assert runs.latest()[0].ran("before = 1\n")
        await kernel.connection.execute("mine = 2")
        await other.execute("theirs = 3")
        await other.execute("1 / 0")
        # What looks at the kernel without a number is no run.
        await kernel.connection.execute("look = 5", store_history=False)
        await other.execute("silent = 4", silent=True)
        await until(lambda: len(runs) == 4 and runs.latest()[-1].ended is RunEnd.ERROR, "the last run of the person")
        assert seen(runs)[1:] == [(2, "mine = 2", "ok"), (3, "theirs = 3", "ok"), (4, "1 / 0", "error")]
        assert [run.by_agent for run in runs.latest()] == [None, True, True, True]


@requirement("stale:ran")
async def test_a_new_life_begins_with_nothing_and_a_busy_kernel_is_not_waited_for(kernel: KernelOnServer) -> None:
    await kernel.connection.execute("x = 1")
    assert seen(await kernel.connection.all_that_ran(20)) == [(1, "x = 1", "ok")]
    await kernel.restart()
    await kernel.connection.ready()
    assert seen(await kernel.connection.all_that_ran(20)) == []
    async with kernel.person() as other:
        busy = asyncio.create_task(other.execute("import time; time.sleep(1.5)"))
        await until(lambda: bool(kernel.connection.ran.latest()), "the person's run")
        late = kernel.connect("who-comes-late")
        try:
            assert not (await late.all_that_ran(0.1)).whole
            await busy
            assert seen(await late.all_that_ran(20)) == [(1, "import time; time.sleep(1.5)", "unknown")]
        finally:
            await late.close()
        assert (await kernel.connection.all_that_ran(20)).whole


def message(kind: str, parent: str = "1", **content: object) -> Message:
    return Message("iopub", {"msg_type": kind}, content, {"msg_id": parent})


@requirement("stale:ran")
def test_what_is_remembered_of_runs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RUNS", 3)
    monkeypatch.setattr(module, "MOST_CHARACTERS", 100)
    monkeypatch.setattr(module, "UNDER_WAY", 2)
    runs = KernelRuns()
    runs.begin_life()
    for number in range(5):
        runs.receive(message("execute_input", str(number), execution_count=number, code="x" * 10))
    assert len(runs) == 3
    assert not runs.whole
    runs.receive(message("execute_input", "9", execution_count=9, code="x" * 200))
    assert [run.number for run in runs.latest()] == [9]
    # What no kernel says is not believed.
    runs.receive(message("execute_input", "10", execution_count="10", code=None))
    assert not runs.complete({"status": "ok", "history": "none"})
    assert runs.complete({"status": "ok", "history": [[0, 0, "zero"], ["a", "b"], 3, [0, 7, "seven"]]})
