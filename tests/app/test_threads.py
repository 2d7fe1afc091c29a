"""Threads beside the event loop: whoever fills their share waits for themselves alone."""

import asyncio
import contextvars
import threading

import pytest

from cellwright.app.threads import SHARE, THREADS, FairThreads, on_behalf_of, share_threads
from requirements import requirement

pytestmark = pytest.mark.anyio


async def asked_by(caller: str, work: "threading.Event | str") -> object:
    on_behalf_of(caller)
    return (
        await asyncio.to_thread(work.wait, 30.0)
        if isinstance(work, threading.Event)
        else await asyncio.to_thread(str, work)
    )


@requirement("threads:fair")
async def test_nobody_waits_for_the_slow_work_of_somebody_else() -> None:
    share_threads()
    slow = threading.Event()
    hers = [asyncio.ensure_future(asked_by("ann", slow)) for _ in range(10 * THREADS)]
    try:
        await asyncio.sleep(0)
        async with asyncio.timeout(20):
            assert await asked_by("bob", "answered") == "answered"
        assert not any(one.done() for one in hers)
    finally:
        slow.set()
    assert await asyncio.gather(*hers) == [True] * len(hers)


@requirement("threads:fair")
async def test_a_caller_has_its_share_and_all_of_its_work_is_done_in_order() -> None:
    share_threads()
    done: list[int] = []
    at_once = [0, 0]
    lock = threading.Lock()

    def work(number: int) -> None:
        with lock:
            at_once[0] += 1
            at_once[1] = max(at_once)
        with lock:
            at_once[0] -= 1
            done.append(number)

    async def all_of_it() -> None:
        on_behalf_of("ann")
        await asyncio.gather(*(asyncio.to_thread(work, number) for number in range(500)))

    await asyncio.create_task(all_of_it())
    assert sorted(done) == list(range(500))
    assert at_once[1] <= SHARE


@requirement("threads:fair")
async def test_failures_and_what_was_given_up_are_told_as_ever() -> None:
    share_threads()
    with pytest.raises(ValueError, match="no number"):
        await asyncio.to_thread(int_of, "x")
    slow = threading.Event()
    hers = [asyncio.ensure_future(asked_by("ann", slow)) for _ in range(SHARE)]
    waiting = asyncio.ensure_future(asked_by("ann", "never"))
    await asyncio.sleep(0.05)
    waiting.cancel()
    last = asyncio.ensure_future(asked_by("ann", "last"))
    await asyncio.sleep(0)
    slow.set()
    assert await last == "last"
    assert waiting.cancelled()
    await asyncio.gather(*hers)


def int_of(text: str) -> int:
    raise ValueError(f"no number: {text}")


@requirement("threads:fair")
def test_what_waits_when_the_program_ends_stops_nothing() -> None:
    threads = FairThreads(threads=2, share=1)
    slow = threading.Event()
    context = contextvars.copy_context()
    context.run(on_behalf_of, "ann")
    first = context.run(threads.submit, slow.wait, 30.0)
    second = context.run(threads.submit, str, "later")
    threads.shutdown(wait=False)
    slow.set()
    assert first.result(30)
    with pytest.raises(RuntimeError):
        second.result(30)
