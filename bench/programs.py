"""The two servers that are compared, as processes: ours, and a bare SDK server that answers the same bytes."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from measure import cpu_seconds
from wire import MODERN, BenchError, HttpWire, Lines, Session, StdioWire, Wire, result_of

STDIO = "stdio"
HTTP = "HTTP"
TRANSPORTS = (STDIO, HTTP)

TOKEN = "bench-token-0123456789-abcdefghijklmnopqrstuvwxyz"
STOP_SECONDS = 15.0


@dataclass(frozen=True)
class Program:
    """A server that can be started, and the tool of it that is called."""

    name: str
    transport: str
    command: tuple[str, ...]
    tool: str


def ours(transport: str) -> Program:
    """The real program, as a client starts it. No rate limit: it would refuse a benchmark, as it should."""
    more = ("serve", "--port", "0", "--rate", "0") if transport == HTTP else ()
    return Program("cellwright", transport, (sys.executable, "-m", "cellwright", *more), "workspace_status")


def bare(transport: str, answer: Path) -> Program:
    more = ("http",) if transport == HTTP else ()
    script = str(Path(__file__).with_name("echo.py"))
    return Program("echo", transport, (sys.executable, script, str(answer), *more), "echo")


class Running:
    """A server process. Everything it says besides the protocol is kept in a file."""

    def __init__(self, program: Program, work: Path) -> None:
        self.program = program
        self._log = work / f"{program.name}-{program.transport}-{time.monotonic_ns()}.log"
        # Settings and state of whoever runs this must not change what is measured.
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("CELLWRIGHT_", "PYTHON"))}
        own = {"XDG_CONFIG_HOME": str(work), "XDG_STATE_HOME": str(work), "CELLWRIGHT_TOKEN": TOKEN}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                program.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**kept, **own},
                cwd=work,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout

    @property
    def pid(self) -> int:
        return self._process.pid

    def connect(self, era: str) -> Session:
        """A client that may ask at once."""
        try:
            session = Session(self._wire(), era)
            session.begin()
        except (BenchError, OSError) as error:
            told = self._log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise BenchError(f"{self.program.name} on {self.program.transport} ({era}): {error}\n{told}") from error
        return session

    def _wire(self) -> Wire:
        if self.program.transport == STDIO:
            return StdioWire(self._stdin.fileno(), self._stdout.fileno())
        lines = Lines(self._stdout.fileno())
        while not (found := re.search(rb"MCP\s+(http\S+)", lines.next())):
            pass
        return HttpWire(found[1].decode("ascii"), TOKEN)

    def stop(self) -> None:
        self._stdin.close()
        if self.program.transport == HTTP:
            self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
        self._stdout.close()


@contextmanager
def running(program: Program, work: Path) -> Generator[Running]:
    server = Running(program, work)
    try:
        yield server
    finally:
        server.stop()


class Caller:
    """Calls one tool of one server again and again."""

    def __init__(self, server: Running, era: str) -> None:
        self._server = server
        self._session = server.connect(era)
        result_of(self._session.ask("tools/list", {}))
        self.answer = self._session.call(server.program.tool)
        result_of(self.answer)

    def call(self, calls: int) -> tuple[float, float]:
        """CPU milliseconds of the server for each call, and how long the client waited for each."""
        tool = self._server.program.tool
        began, spent = time.perf_counter(), cpu_seconds(self._server.pid)
        for _ in range(calls):
            self._session.call(tool)
        waited = time.perf_counter() - began
        return (cpu_seconds(self._server.pid) - spent) * 1000 / calls, waited * 1000 / calls

    def close(self) -> None:
        self._session.close()


@cache
def prepare(work: Path) -> dict[str, tuple[Program, Program]]:
    """Both programs on each transport, the bare one made to answer what ours answered.

    Each has run once before it is measured, so the byte code of every module is there.
    """
    answers = {name: work / f"answer-{name}.json" for name in TRANSPORTS}
    mine = {name: ours(name) for name in TRANSPORTS}
    for name, answer in _first_answers(mine, work).items():
        found = result_of(answer)
        kept = {key: found[key] for key in ("content", "structuredContent")}
        answers[name].write_text(json.dumps(kept), encoding="utf-8")
    floor = {name: bare(name, answers[name]) for name in TRANSPORTS}
    _first_answers(floor, work)
    return {name: (mine[name], floor[name]) for name in TRANSPORTS}


def _first_answers(programs: dict[str, Program], work: Path) -> dict[str, bytes]:
    with ExitStack() as stack:
        started = {name: stack.enter_context(running(program, work)) for name, program in programs.items()}
        callers = {name: stack.enter_context(closing(Caller(server, MODERN))) for name, server in started.items()}
        return {name: caller.answer for name, caller in callers.items()}
