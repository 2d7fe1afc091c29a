"""The two servers that are compared, as processes: ours, and a bare SDK server that answers the same bytes."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wire import MODERN, BenchError, HttpWire, Lines, Session, StdioWire, Wire, result_of

STDIO = "stdio"
HTTP = "HTTP"
TRANSPORTS = (STDIO, HTTP)

TOKEN = "bench-token-0123456789-abcdefghijklmnopqrstuvwxyz"
STOP_SECONDS = 15.0
SHOWN_LOG_CHARS = 2000


@dataclass(frozen=True)
class Program:
    """A server that can be started, and the tool of it that is called."""

    name: str
    transport: str
    command: tuple[str, ...]
    tool: str
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


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
                env={**kept, **own, **program.environment},
                cwd=work,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._url = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    def connect(self, era: str) -> Session:
        """A client that may ask at once."""
        session = Session(self._wire(), era)
        session.begin()
        return session

    def last_words(self) -> str:
        said = self._log.read_text(encoding="utf-8", errors="replace")[-SHOWN_LOG_CHARS:]
        return f"{self.program.name} on {self.program.transport} said: {said or 'nothing'}"

    def _wire(self) -> Wire:
        if self.program.transport == STDIO:
            return StdioWire(self._stdin.fileno(), self._stdout.fileno())
        lines = Lines(self._stdout.fileno())
        while not self._url:
            found = re.search(rb"MCP\s+(http\S+)", lines.next())
            self._url = found[1].decode("ascii") if found else ""
        return HttpWire(self._url, TOKEN)

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
    except (BenchError, OSError) as error:
        raise BenchError(f"{error}\n{server.last_words()}") from error
    finally:
        server.stop()


class Caller:
    """A client of one server that has had its first answer, and calls one tool again and again."""

    def __init__(self, server: Running, era: str) -> None:
        self.pid = server.pid
        self._tool = server.program.tool
        self._session = server.connect(era)
        self._listed = self._session.ask("tools/list", {})

    def first_call(self) -> bytes:
        """The answer of the tool. Both this and the list must be what they should be."""
        result_of(self._listed)
        answer = self.call()
        result_of(answer)
        return answer

    def call(self) -> bytes:
        return self._session.call(self._tool)

    def close(self) -> None:
        self._session.close()


def prepare(transport: str, work: Path) -> tuple[Program, Program]:
    """Ours, and the bare one made to answer what ours answered.

    Both run once before they are measured, so the byte code of every module is there.
    """
    file = work / f"answer-{transport}.json"
    file.write_text('{"content": []}', encoding="utf-8")
    mine, floor = ours(transport), bare(transport, file)
    with (
        running(mine, work) as one,
        running(floor, work) as other,
        closing(Caller(one, MODERN)) as caller,
        closing(Caller(other, MODERN)),
    ):
        found = result_of(caller.first_call())
    write_answer(file, found)
    return mine, floor


def write_answer(file: Path, result: dict[str, Any]) -> None:
    """What the bare server is to answer: a result, as far as the tool made it."""
    file.write_text(json.dumps({key: result[key] for key in ("content", "structuredContent")}), encoding="utf-8")
