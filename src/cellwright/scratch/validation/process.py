"""One worker process, seen from our side: started, asked, killed."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from cellwright.core.errors import Unavailable

WORKER = "cellwright.scratch.validation.worker"
START_SECONDS = 20.0
END_SECONDS = 2.0
REPLY_BYTES = 64 * 1024 * 1024
# Content is foreign: what is in our environment is not for the process that reads it.
INHERITED = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "TEMP")


class WorkerDied(Exception):
    """The process ended in the middle of a check."""

    def __init__(self, status: int | None) -> None:
        super().__init__(status)
        self.status = status

    @property
    def reason(self) -> str:
        if self.status is None or self.status >= 0:
            return f"exit status {self.status}"
        known = {number.value: number.name for number in signal.Signals}
        return known.get(-self.status, f"signal {-self.status}")

    @property
    def was_its_own_alarm(self) -> bool:
        return sys.platform != "win32" and self.status == -signal.SIGALRM


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {**kept, "PYTHONUTF8": "1"}


class Worker:
    """A process that answers one question at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._questions = process.stdin
        self._answers = process.stdout
        self._busy = False
        self.spent = False
        """It asked not to be used again."""

    @staticmethod
    async def start(memory_bytes: int) -> "Worker":
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                # Without this the current folder is searched for modules first, and that may be anybody's.
                "-P",
                "-m",
                WORKER,
                str(memory_bytes),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=_environment(),
                limit=REPLY_BYTES,
                # A Ctrl-C at our terminal is for us; this one ends when its input does.
                start_new_session=True,
            )
        except OSError as error:
            raise _did_not_start(str(error)) from error
        worker = Worker(process)
        async with contextlib.AsyncExitStack() as unless_it_greets:
            unless_it_greets.push_async_callback(worker.kill)
            await worker._greeting()
            unless_it_greets.pop_all()
        return worker

    async def _greeting(self) -> None:
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await self._answers.readline()
        except TimeoutError as error:
            raise _did_not_start(f"it said nothing for {START_SECONDS:g} s") from error
        if not line:
            raise _did_not_start("it ended at once; the log has its last words")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Alive, idle, and willing."""
        return self._process.returncode is None and not self._busy and not self.spent

    async def tell(self, message: Mapping[str, Any]) -> None:
        """Say something that has no answer."""
        try:
            self._questions.write(json.dumps(message).encode() + b"\n")
            await self._questions.drain()
        except (ConnectionError, RuntimeError) as error:
            raise WorkerDied(await self._status()) from error

    async def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Say something and wait for the answer. If the wait is given up, the worker is of no more use."""
        self._busy = True
        await self.tell(question)
        line = await self._answers.readline()
        if not line.endswith(b"\n"):
            raise WorkerDied(await self._status())
        answer: dict[str, Any] = json.loads(line)
        self._busy = False
        self.spent = bool(answer.pop("spent", False))
        return answer

    async def _status(self) -> int | None:
        """How it ended. It is ending by itself: a kill now would only take its status away."""
        await self.end()
        return self._process.returncode

    async def kill(self) -> None:
        """End it now. It gets no chance to object, so the wait is short."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._questions.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self._process.wait()

    async def end(self) -> None:
        """Let it end by itself; kill it if it does not."""
        self._questions.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self._process.wait()
                return
        await self.kill()


def _did_not_start(why: str) -> Unavailable:
    return Unavailable(
        f"the process that validates cells did not start: {why}", hint="the cells are stored all the same"
    )
