"""A worker process, as seen from the server: how it is started, asked and killed."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from cellwright.core.errors import Unavailable
from cellwright.system import machine
from cellwright.workers.frames import LENGTH, Head, encode

WORKER = "cellwright.workers.worker"
START_SECONDS = 20.0
END_SECONDS = 2.0
# The rest of our environment may hold secrets, and the worker reads foreign content.
INHERITED = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "TEMP")

T = TypeVar("T")


class WorkerDied(Exception):
    """The process ended while it was working."""

    def __init__(self, status: int | None) -> None:
        super().__init__(status)
        self.status = status

    @property
    def reason(self) -> str:
        if self.status is None or self.status >= 0:
            return f"exit status {self.status}"
        names = {number.value: number.name for number in signal.Signals}
        return names.get(-self.status, f"signal {-self.status}")

    @property
    def was_its_own_alarm(self) -> bool:
        return self.status is not None and machine.is_time_up(self.status)


class Worker:
    """A process that answers one question at a time.

    A thread waits for its pipes. That works on every system, but not on every event loop: on Windows, not on the one inside
    Jupyter.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "worker-pipe")
        self._process: subprocess.Popen[bytes] | None = None
        self._busy = False
        self._given_up = False
        self._closing: asyncio.Future[None] | None = None
        self.spent = False
        """Whether it asked not to be used again."""

    @staticmethod
    async def start(memory_bytes: int) -> "Worker":
        worker = Worker()
        async with contextlib.AsyncExitStack() as on_failure:
            on_failure.push_async_callback(worker.kill)
            try:
                async with asyncio.timeout(START_SECONDS):
                    await worker._in_thread(lambda: worker._begin(memory_bytes))
            except TimeoutError as error:
                raise _did_not_start(f"it said nothing for {START_SECONDS:g} s") from error
            except EOFError as error:
                raise _did_not_start("it ended at once; the log has its last words") from error
            except OSError as error:
                raise _did_not_start(str(error)) from error
            on_failure.pop_all()
        return worker

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _begin(self, memory_bytes: int) -> None:
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
        self._process = subprocess.Popen(  # noqa: S603 - our own module, run by our own interpreter
            # Without -P Python looks for modules in the current folder first, which may be anybody's.
            [sys.executable, "-P", "-m", WORKER, str(memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environment, "PYTHONUTF8": "1"},
            # Ctrl-C at our terminal must not reach the worker, which ends when its input ends.
            **machine.apart,
        )
        if self._given_up:
            self._process.kill()
        self._read_answer(self._process)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Whether it is alive, idle, and may be used again."""
        alive = self._process is not None and self._process.poll() is None
        return alive and not self._given_up and not self._busy and not self.spent

    async def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Send a question and wait for the answer. If the wait is cancelled, the worker cannot be used again."""
        assert self._process is not None
        process = self._process
        self._busy = True
        try:
            answer = await self._in_thread(lambda: self._exchange(process, question))
        except (OSError, EOFError) as error:
            raise WorkerDied(await self._exit_status()) from error
        self._busy = False
        self.spent = bool(answer.pop("spent", False))
        return answer

    def _exchange(self, process: subprocess.Popen[bytes], question: Mapping[str, Any]) -> dict[str, Any]:
        assert process.stdin is not None
        process.stdin.writelines(encode(question))
        process.stdin.flush()
        return self._read_answer(process)

    def _read_answer(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        assert process.stdout is not None
        answers = process.stdout

        def read(size: int) -> bytes:
            data = answers.read(size)
            if len(data) < size:
                raise EOFError
            return data

        head = Head.read(read(*LENGTH.unpack(read(LENGTH.size))))
        return head.with_values(read(size) for _name, _kind, size in head.beside)

    async def _exit_status(self) -> int | None:
        """The status with which it ends by itself. A kill would replace that status."""
        await self.end()
        return self._process.returncode if self._process else None

    async def kill(self) -> None:
        """End it now. A kill cannot be ignored, so the wait is short."""
        self._given_up = True
        if self._process is not None:
            self._process.kill()
        await self._close()

    async def end(self) -> None:
        """Let it end by itself; kill it if it does not."""
        if not await self._close():
            await self.kill()

    async def _close(self) -> bool:
        """Close its pipes, which ends it, and wait a little for that. False if it is still alive."""
        self._given_up = True
        if self._closing is None:
            # In the same thread, after its current read: closing a pipe while it is read would block both.
            self._closing = asyncio.get_running_loop().run_in_executor(self._thread, self._close_pipes)
            self._thread.shutdown(wait=False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await asyncio.shield(self._closing)
        return self._process is None or self._process.poll() is not None

    def _close_pipes(self) -> None:
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        process.stdout.close()


def _did_not_start(why: str) -> Unavailable:
    return Unavailable(
        f"a worker process did not start: {why}", hint="make the same call again; cellwright doctor finds causes"
    )
