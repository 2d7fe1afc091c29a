"""The event loop is watched: what holds it is named, what only waits is not."""

import asyncio
import time
import weakref
from types import SimpleNamespace

import pytest

from cellwright.app.loopwatch import HeldLoop, LoopWatch
from requirements import requirement

pytestmark = pytest.mark.anyio


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def held_by(work: float, sleep: float) -> list[HeldLoop]:
    reports: list[HeldLoop] = []
    watch = LoopWatch(reports.append)
    watch.start()
    try:
        await asyncio.sleep(0.01)
        burn(work)
        time.sleep(sleep)  # noqa: ASYNC251 - held, but by nothing of ours: as on a machine that is busy with others
        await asyncio.sleep(0.01)
    finally:
        watch.stop()
    return reports


@requirement("loop-watch:held")
async def test_work_that_holds_the_loop_is_reported_with_its_place() -> None:
    (report,) = await held_by(work=0.4, sleep=0)
    assert report.seconds > 0.3
    assert report.stack.startswith("test_loopwatch.py:")
    assert "burn" in report.stack


@requirement("loop-watch:held")
async def test_waiting_is_not_work() -> None:
    assert await held_by(work=0.01, sleep=0.4) == []


@requirement("loop-watch:held")
async def test_short_turns_do_not_each_read_the_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0

    def counted() -> float:
        nonlocal read
        read += 1
        return 0.0

    monkeypatch.setattr("cellwright.app.loopwatch.time", SimpleNamespace(monotonic=lambda: 1.0, process_time=counted))
    watch = LoopWatch()
    watch.start()
    try:
        for _ in range(1_000):
            await asyncio.sleep(0)
    finally:
        watch.stop()
    assert read == 1


@requirement("loop-watch:held")
async def test_a_turn_after_many_short_ones_is_measured_as_it_is() -> None:
    reports: list[HeldLoop] = []
    watch = LoopWatch(reports.append)
    watch.start()
    try:
        for _ in range(1_000):
            await asyncio.sleep(0)
        burn(0.4)
        await asyncio.sleep(0.01)
    finally:
        watch.stop()
    (report,) = reports
    assert report.seconds > 0.3


class Held:
    """Something that work has in hand."""


@requirement("loop-watch:held", "costs:memory")
async def test_what_the_work_had_in_hand_is_let_go() -> None:
    reports: list[HeldLoop] = []
    watch = LoopWatch(reports.append)
    watch.start()

    def work() -> "weakref.ref[Held]":
        held = Held()
        burn(0.4)
        return weakref.ref(held)

    try:
        await asyncio.sleep(0.01)
        held = work()
        await asyncio.sleep(0.01)
        assert "work" in reports[0].stack
        assert held() is None
    finally:
        watch.stop()
