"""Worker processes: what goes in comes out, and whatever happens inside costs one piece of work."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from cellwright.core.errors import Conflict, DeadlineExceeded
from cellwright.workers.pool import SMALL, TooMuchWork, WorkerPool
from locations import TESTS
from odd_jobs import crash, die, eat, echo, nest, never, opens, process, refuse, text_of
from requirements import requirement

pytestmark = pytest.mark.anyio

LARGE = SMALL
TEXTS = ("", "a", "ä€🎉" * 20_000, "half \ud83d of one" * 2_000, '"\\\n\0' * 10_000)


@pytest.fixture
async def pool(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WorkerPool]:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    running = WorkerPool(processes=2, memory_bytes=400 << 20)
    yield running
    await running.close()


@requirement("workers:answers")
@pytest.mark.parametrize("text", TEXTS)
async def test_arguments_and_answers_travel_unchanged(pool: WorkerPool, text: str) -> None:
    tree: dict[str, Any] = {"list": [1, 2.5, None, True], "text": text[:100]}
    answer = await pool.run(echo, size=LARGE, text=text, tree=tree, data=b"\0\xff" * 300_000)
    (returned, pid), (returned_tree, _), size = answer["text"], answer["tree"], answer["data"]
    assert pid != os.getpid()
    assert returned == text
    assert returned_tree == tree
    assert size == {"bytes": 600_000}


@requirement("workers:answers")
async def test_a_long_text_is_answered_as_it_is(pool: WorkerPool) -> None:
    text = "größer\n" * 1_000_000
    assert await pool.run(text_of, size=LARGE, data=text.encode()) == text


class LoopInsideJupyterOnWindows(asyncio.SelectorEventLoop):
    """It waits for sockets only."""

    async def subprocess_exec(self, *_arguments: object, **_options: object) -> Any:
        raise NotImplementedError

    async def connect_read_pipe(self, *_arguments: object, **_options: object) -> Any:
        raise NotImplementedError

    async def connect_write_pipe(self, *_arguments: object, **_options: object) -> Any:
        raise NotImplementedError


@requirement("workers:every-loop")
def test_a_loop_that_knows_no_child_processes_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))

    async def work() -> object:
        pool = WorkerPool(processes=1, memory_bytes=400 << 20)
        try:
            return await pool.run(text_of, size=LARGE, data=b"x" * 1_000_000)
        finally:
            await pool.close()

    with asyncio.Runner(loop_factory=LoopInsideJupyterOnWindows) as runner:
        assert runner.run(work()) == "x" * 1_000_000


@requirement("workers:small-here")
async def test_small_work_needs_no_process(pool: WorkerPool) -> None:
    assert await pool.run(process, size=SMALL - 1) == os.getpid()
    assert pool.pids == ()
    assert await pool.run(process, size=SMALL) in pool.pids


@requirement("workers:errors")
@pytest.mark.parametrize("size", [1, LARGE])
async def test_a_failure_of_a_job_is_the_same_failure_outside(pool: WorkerPool, size: int) -> None:
    with pytest.raises(Conflict) as failure:
        await pool.run(refuse, size=size)
    assert failure.value.as_json() == {
        "code": "CONFLICT",
        "message": "it changed",
        "hint": "look again",
        "retryable": False,
        "details": {"place": 3},
    }


@requirement("workers:errors")
async def test_a_crash_of_a_job_is_a_crash_with_its_traceback(pool: WorkerPool) -> None:
    with pytest.raises(RuntimeError, match="nobody foresaw this") as failure:
        await pool.run(crash, size=LARGE)
    assert "odd_jobs.py" in str(failure.value)


@requirement("workers:ends")
@pytest.mark.parametrize(
    ("job", "error", "words"),
    [
        (never, DeadlineExceeded, "longer than 0.5 s"),
        (eat, TooMuchWork, "more memory"),
        (nest, TooMuchWork, "nested too deeply"),
        (die, TooMuchWork, "SIGSEGV"),
    ],
)
async def test_hostile_work_fails_alone(
    pool: WorkerPool, job: Callable[[], Any], error: type[Exception], words: str
) -> None:
    await pool.run(process, size=LARGE)
    with pytest.raises(error, match=words):
        await pool.run(job, size=LARGE, seconds=0.5 if job is never else 20.0)
    assert await pool.run(process, size=LARGE) in pool.pids


@requirement("workers:ends")
async def test_while_a_job_looks_at_content_no_file_can_be_opened(pool: WorkerPool) -> None:
    assert await pool.run(opens, size=LARGE) == "OSError"
