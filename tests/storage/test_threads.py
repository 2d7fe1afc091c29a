"""The threads that do the database's work: nobody waits for one that works for somebody who has gone."""

import asyncio
import gc
import threading
import time
import weakref
from contextlib import suppress

import pytest

from cellwright.storage.errors import StorageBusy
from cellwright.storage.workers import DatabaseJob, Workers
from requirements import requirement

pytestmark = pytest.mark.anyio


class Nothing:
    def close(self) -> None: ...


async def cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@requirement("storage:threads")
async def test_a_thread_that_works_for_nobody_keeps_nobody_waiting() -> None:
    workers = Workers("test", 2, Nothing)
    begun, end = threading.Event(), threading.Event()

    def work(_held: Nothing, _job: DatabaseJob) -> None:
        begun.set()
        end.wait(20)

    first = asyncio.create_task(workers.run(work))
    await asyncio.to_thread(begun.wait, 20)
    await cancelled(first)
    assert await asyncio.wait_for(workers.run(lambda _held, _job: "done"), 10) == "done"
    end.set()
    await workers.close()


@requirement("storage:threads", "storage:cancel")
async def test_work_that_nobody_waits_for_any_more_is_not_begun() -> None:
    workers = Workers("test", 1, Nothing)
    begun, end = threading.Event(), threading.Event()
    done: list[int] = []

    def first(_held: Nothing, _job: DatabaseJob) -> None:
        begun.set()
        end.wait(20)

    def another(number: int) -> "asyncio.Task[None]":
        return asyncio.create_task(workers.run(lambda _held, _job: done.append(number)))

    running = asyncio.create_task(workers.run(first))
    await asyncio.to_thread(begun.wait, 20)
    waiting = [another(number) for number in range(3)]
    await asyncio.sleep(0)
    await cancelled(waiting[1])
    end.set()
    await asyncio.gather(running, waiting[0], waiting[2])
    assert done == [0, 2]
    await workers.close()


@requirement("storage:threads")
async def test_a_machine_without_threads_is_told_and_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers("test", 2, Nothing)

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(StorageBusy):
            await workers.run(lambda _held, _job: None)
    assert await asyncio.wait_for(workers.run(lambda _held, _job: 1), 10) == 1
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        both = asyncio.gather(
            workers.run(lambda _held, _job: time.sleep(0.05)), workers.run(lambda _held, _job: time.sleep(0.05))
        )
        await asyncio.wait_for(both, 10)
    await workers.close()


@requirement("storage:threads")
async def test_whatever_work_raises_reaches_its_caller() -> None:
    workers = Workers("test", 1, Nothing)
    for raised in (StopIteration, KeyError):

        def work(_held: Nothing, _job: DatabaseJob, raised: type[BaseException] = raised) -> None:
            raise raised

        with pytest.raises(RuntimeError if raised is StopIteration else raised):
            await asyncio.wait_for(workers.run(work), 10)
    await workers.close()


class Held:
    """Something that a caller has in hand."""


@requirement("costs:memory")
async def test_what_a_caller_held_goes_with_its_failure() -> None:
    workers = Workers("test", 1, Nothing)

    def work(_held: Nothing, _job: DatabaseJob) -> None:
        raise KeyError

    async def ask() -> None:
        held = Held()
        seen.append(weakref.ref(held))
        await workers.run(work)

    seen: list[weakref.ref[Held]] = []
    # The collector would find it some day. By then there may be much of it.
    gc.disable()
    try:
        with suppress(KeyError):
            await ask()
        await workers.close()
        assert [held() for held in seen] == [None]
    finally:
        gc.enable()
