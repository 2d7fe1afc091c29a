"""Random and malformed requests over all tools, resources, prompts and completions: each is answered, nothing fails inside, hangs or dies.

`CELLWRIGHT_TEST_FUZZ` says how many requests (10,000 without it), `CELLWRIGHT_TEST_SEED` which ones. A fault is told with its seed, its
number and the body as it was sent.

A long run goes in parts of `CELLWRIGHT_TEST_FUZZ_PART` requests, each with servers of its own: what is wrong in one does not end the
others, and `CELLWRIGHT_TEST_FUZZ_FIRST` sends one again, or the second half in a second process.

Nine of ten requests are calls of tools, each tool as often as the others; of a million, each gets about 1,000 valid, 2,000 hostile and
4,000 malformed ones. Bounded is only what costs as much as hundreds of others: how often a call reaches a kernel (`RUN_SHARE`) or looks at
all that there is (`COSTLY_SHARE`), and the texts of the first part alone are embedded for search by meaning.
"""

import asyncio
import math
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from fuzz_findings import LONGEST_SECONDS, Findings, outcome_of, say
from fuzz_support import COSTLY, KINDS, Line, Offer, Request, Requests, Things
from fuzz_workspace import Workspace
from jupyter_support import JupyterProcess
from notebook_agent import in_front_of
from requirements import requirement
from support import HttpServer

pytestmark = [pytest.mark.anyio, pytest.mark.more]

COUNT = int(os.environ.get("CELLWRIGHT_TEST_FUZZ", "10000"))
SEED = int(os.environ.get("CELLWRIGHT_TEST_SEED", "17"))
FIRST = int(os.environ.get("CELLWRIGHT_TEST_FUZZ_FIRST", "0"))
"""The number of the first request, to send a part of a long run again."""
PART = int(os.environ.get("CELLWRIGHT_TEST_FUZZ_PART", "50000"))
PARTS = [range(first, min(first + PART, FIRST + COUNT)) for first in range(FIRST, FIRST + COUNT, PART)]
"""The numbers of the requests of each part."""
TOLD_EVERY = max(1, min(COUNT // 10, 5_000))
"""Requests after which it is said how far the run is, and how much memory the server has."""
LINES = 8
"""Connections at once."""
GIVEN_UP_SECONDS = 60.0
TRIES = 3
"""How often what took too long is sent again: an argument that hangs does so each time, a busy machine does not."""
ENOUGH = 5_000
"""In so many requests every tool has its turn."""
KEPT_EVERY = 1_000
"""Requests after which what was deleted is made anew, and what piled up is put away."""
HEALTH_EVERY_SECONDS = 0.2
MOST_FAULTS = 100
MOST_MEMORY = 800_000_000
"""Bytes of the server and its worker processes at the end."""
STORE = "--YDocExtension.ystore_class=jupyter_server_ydoc.stores.TempFileYStore"
"""Jupyter's usual store of shared documents can be left in the middle of a transaction when a room ends. Every document then waits 5 s
for it, in the one thread of that server, and every call with them: what is tried here is ours, not that."""
QUIET = "--ServerApp.log_level=ERROR"
"""A third of the requests is about what is not there, and Jupyter tells of each at length."""
OWN = (
    r"faults\.txt|temporary|ours|ours/(server-\d+\.log|state|root)|"
    r"jupyter|jupyter/(root|outside|outside/kept\.txt|(config|data|runtime)_dir|profile_default|server\.log|\.jupyter_ystore\.db.*)"
)
"""What stands beside the workspace, as it should."""
ELSEWHERE = (
    Path("/etc/hostname.ipynb"),
    Path.home() / "x.ipynb",
    Path.cwd() / "new.ipynb",
    Path.cwd() / "renamed.ipynb",
)
"""Where the paths in the requests lead, for who reads them wrongly."""


@pytest.fixture(params=PARTS, ids=lambda part: f"from-{part[0]}")
def part(request: pytest.FixtureRequest) -> range:
    """The numbers of the requests that are sent to the same servers."""
    return request.param


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    for name in ("jupyter", "ours", "temporary", "jupyter/outside"):
        (folder / name).mkdir()
    (folder / "jupyter" / "outside" / "kept.txt").write_text("untouched", encoding="utf-8")
    return folder


@pytest.fixture
def jupyter(place: Path) -> Iterator[JupyterProcess]:
    """A Jupyter of its own: the others must not meet what is made here."""
    with ExitStack() as running:
        with pytest.MonkeyPatch.context() as environ:
            environ.setenv("TMPDIR", str(place / "temporary"))
            process = running.enter_context(JupyterProcess(place / "jupyter", options=(STORE, QUIET)))
        yield process


@pytest.fixture
def server(jupyter: JupyterProcess, place: Path, part: range) -> Iterator[HttpServer]:
    flags = ("--toolsets", "all", "--root", str(jupyter.root), "--log-level", "warning")
    model = () if part[0] == 0 else ("--embedding-model", "none")
    with in_front_of(jupyter.address, place / "ours", *flags, *model) as running:
        yield running


class Run:
    """Sends requests over several connections at once."""

    def __init__(self, server: HttpServer, workspace: Workspace, requests: Requests, part: range) -> None:
        self._server = server
        self._workspace = workspace
        self._requests = requests
        self._part = part
        self._next = part[0]
        self._over = asyncio.Event()
        self._process = psutil.Process(server.process.pid)
        self.findings = Findings(SEED)
        self.memory: list[int] = []

    async def all(self) -> None:
        watching = asyncio.create_task(self._watch())
        await asyncio.gather(*(self._send_on() for _ in range(LINES)))
        self._over.set()
        await watching

    async def _send_on(self) -> None:
        findings = self.findings
        async with Line(self._server.port, self._server.token) as line:
            while self._next < self._part.stop and len(findings.faults) < MOST_FAULTS:
                number, self._next = self._next, self._next + 1
                if number % KEPT_EVERY == 0 and number > self._part[0]:
                    await self._workspace.keep()
                if (number - self._part[0]) % TOLD_EVERY == 0:
                    self.memory.append(self.bytes_used())
                    say(f"{findings.sent} answered, {len(findings.faults)} faults, {self.memory[-1] // 1_000_000} MB")
                await self._send(line, self._requests.make(number))

    async def _send(self, line: Line, request: Request) -> None:
        try:
            async with asyncio.timeout(GIVEN_UP_SECONDS):
                reply = await line.send(request)
        except TimeoutError:
            self.findings.fault(f"no answer within {GIVEN_UP_SECONDS} s", request)
            line.close()
        except (OSError, asyncio.IncompleteReadError) as error:
            self.findings.fault(f"the connection broke: {error!r}", request)
            line.close()
        else:
            self.findings.take(request, reply)

    async def _watch(self) -> None:
        """Whether others are answered meanwhile."""
        async with Line(self._server.port, self._server.token) as line:
            while not self._over.is_set():
                try:
                    self.findings.health = max(self.findings.health, (await line.get("/health")).seconds)
                except (OSError, asyncio.IncompleteReadError):
                    self.findings.health = math.inf
                    return
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._over.wait(), HEALTH_EVERY_SECONDS)

    async def alone(self) -> list[str]:
        """What took too long among others, once more with nobody else there."""
        hanging: list[str] = []
        async with Line(self._server.port, self._server.token) as line:
            for before, request in self.findings.slow:
                spent: list[float] = []
                while len(spent) < TRIES and all(one > LONGEST_SECONDS for one in spent):
                    spent.append(await self._time(line, request))
                told = f"{before:.1f} s, alone {[round(one, 1) for one in spent]} s; {request.told(SEED)}"
                say(told)
                if min(spent) > LONGEST_SECONDS:
                    hanging.append(told)
        return hanging

    async def _time(self, line: Line, request: Request) -> float:
        began = time.monotonic()
        try:
            async with asyncio.timeout(GIVEN_UP_SECONDS):
                await line.send(request)
        except TimeoutError:
            line.close()
        return time.monotonic() - began

    def bytes_used(self) -> int:
        used = 0
        for process in (self._process, *self._process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                used += process.memory_info().rss
        return used


def complaints(log: Path) -> list[str]:
    """Lines of the log that tell of a crash."""
    words = ("Traceback", "traceback=", "level=error", "level=critical", "event=crash")
    with log.open(encoding="utf-8", errors="replace") as lines:
        return [line[:3_000] for line in lines if any(word in line for word in words)]


@requirement("fuzz:answers", "fuzz:no-hang", "fuzz:no-death")
@pytest.mark.timeout(max(400, min(COUNT, PART) // 15))
@pytest.mark.long(80)
async def test_whatever_is_sent_is_answered(
    server: HttpServer, jupyter: JupyterProcess, place: Path, part: range
) -> None:
    workspace = Workspace(server, jupyter)
    offer = await workspace.offer()
    await workspace.keep()
    run = Run(server, workspace, Requests(offer, workspace.things, SEED), part)
    began = time.monotonic()
    await run.all()
    spent = time.monotonic() - began
    hanging = await run.alone()
    workspace.close()
    run.memory.append(run.bytes_used())
    tools = [str(tool["name"]) for tool in offer.tools]
    say(run.findings.report(tools, spent, run.memory))
    (place / "faults.txt").write_text("\n\n".join([*run.findings.faults, *hanging]), encoding="utf-8")
    logged = complaints(server.log)
    assert run.findings.faults == []
    assert hanging == []
    assert run.findings.sent == len(part)
    kinds = {tool: {"malformed"} if tool in COSTLY else KINDS.keys() for tool in tools}
    untried = [(tool, kind) for tool in tools for kind in kinds[tool] if not run.findings.kinds[tool][kind]]
    assert len(part) < ENOUGH or untried == []
    assert run.findings.health < LONGEST_SECONDS
    assert logged == []
    assert server.process.poll() is None, "the server ended"
    assert workspace.jupyter_answers("GET", "/api/status"), "Jupyter ended"
    assert run.memory[-1] < MOST_MEMORY
    assert strangers(place) == []
    assert (place / "jupyter" / "outside" / "kept.txt").read_text(encoding="utf-8") == "untouched"
    assert [path for path in ELSEWHERE if path.exists()] == []


@requirement("fuzz:answers")
def test_the_same_seed_makes_the_same_requests() -> None:
    properties = {"path": {"type": "string"}, "schema": {"type": "object"}, "content": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": ["schema"]}
    offer = Offer([{"name": "tool", "inputSchema": schema}], [{"name": "prompt"}], ["jupyter://{+path}"])
    things = Things({"path": ["n.ipynb"]})
    first, again, other = (Requests(offer, things, seed) for seed in (1, 1, 2))
    made = [first.make(number) for number in range(2_000)]
    # Also when a part of them is made again, from the middle on: none leaves a trace in the next.
    assert made[1_500:] == [again.make(number) for number in range(1_500, 2_000)]
    assert made[:100] != [other.make(number) for number in range(100)]
    assert {one.kind for one in made} >= {*KINDS, "odd bytes", "odd envelope", "address"}


@requirement("fuzz:answers")
def test_a_failure_inside_is_told_from_what_does_not_answer() -> None:
    def failed(number: int, **data: str) -> str:
        return outcome_of({"error": {"code": number, "message": "x", "data": data}})

    assert failed(-32603, code="UNAVAILABLE", reason="UNAVAILABLE") == "UNAVAILABLE"
    assert failed(-32603, resource="jupyter://n.ipynb", reason="INTERNAL_ERROR") == "-32603"
    assert (
        failed(-32603, code="INTERNAL_ERROR") == failed(-32603) == outcome_of({"error": {"code": -32603}}) == "-32603"
    )
    assert failed(-32602, code="UNAVAILABLE") == "-32602"
    assert outcome_of({"error": {"code": -32603, "data": "UNAVAILABLE"}}) == "-32603"


def strangers(place: Path) -> list[str]:
    """What is there beside the workspace and what the two servers keep for themselves."""
    around = [*place.iterdir(), *(place / "ours").iterdir(), *(place / "jupyter").iterdir()]
    around += (place / "jupyter" / "outside").rglob("*")
    names = [one.relative_to(place).as_posix() for one in around]
    return [name for name in names if not re.fullmatch(OWN, name)]
