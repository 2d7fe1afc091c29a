"""Whatever is sent to any tool or resource: the event loop is not held, the cost grows with the size and no faster, memory comes back.

It goes on for about a minute: every argument once, then whatever chance gives. `CELLWRIGHT_TEST_COSTS=all` is ten minutes of it, a
number so many seconds; `CELLWRIGHT_TEST_SEED` gives other chances.
"""

import asyncio
import logging
import math
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import MCPError

from cost_support import KNOWN, SIZES, Probe, ResourceProbe, grow_folders, in_order, probes_of, resource_probes
from jupyter_support import JupyterServer, write_notebook
from memory_support import BACK, Memory
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import PATIENT_SECONDS, HttpServer

pytestmark = [pytest.mark.anyio, pytest.mark.more]
log = logging.getLogger(__name__)

_ASKED = os.environ.get("CELLWRIGHT_TEST_COSTS", "")
SECONDS = 600.0 if _ASKED == "all" else float(_ASKED or 40)
SEED = int(os.environ.get("CELLWRIGHT_TEST_SEED", "15"))
LONGEST_TURN_MS = 250
STEEPEST = 1.35
"""The power with which the cost may grow with the size; 1 is linear, and what is measured is not exact."""
ROOM_SECONDS = 330.0
"""A document that nobody uses is closed after five minutes."""
NOTEWORTHY_SECONDS = 0.15
"""Processor time below which nothing is said about growth."""
HELD = re.compile(r"event=loop_held ms=([\d.]+) stack=(.*)")
# What runs code or waits for a person's server by design; what they do with texts, other tools do as well.
NOT_TRIED = {"execute_ipython", "complete_code", "lab"}
FOLDERS = (240, 2_400, 12_000) if _ASKED == "all" else (60, 600, 3_000)
IN_FOLDERS: Sequence[tuple[str, dict[str, Any]]] = (
    ("list_nbs", {"refresh": True}),
    ("list_documents", {"path": "chain0"}),
    ("list_files", {"max_depth": 3}),
    ("search_nbs", {"query": "word"}),
    ("list_notebook", {}),
    ("query_nb_sessions", {}),
    ("grep_codebase", {"pattern": "w.rd"}),
    ("context_scan", {}),
    ("context_search", {"query": "word"}),
    ("search_workspace", {"query": "word"}),
)


@pytest.fixture(scope="module")
def server(jupyter_server: JupyterServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    # Without a model for meaning: its threads do not stop the loop, but on a busy machine their time looks like the loop's.
    options = ("--toolsets", "all", "--embedding-model", "none")
    with in_front_of(jupyter_server, tmp_path_factory.mktemp("costs"), *options) as running:
        yield running


class Costs(Memory):
    """What the system says of the server, and what the server says of itself."""

    def __init__(self, server: HttpServer) -> None:
        super().__init__(server)
        self._log = server.log
        self._read = 0

    def held(self) -> list[tuple[float, str]]:
        """Turns of the loop that were too long, since this was last asked."""
        text = self._log.read_text(encoding="utf-8")
        new, self._read = text[self._read :], len(text)
        return [(float(ms), stack) for ms, stack in HELD.findall(new)]


async def prepared(do: Agent, jupyter: JupyterServer) -> dict[str, Any]:
    """Things that the tools can work on, by the names of arguments."""
    write_notebook(jupyter.root, "n.ipynb", ["print(1)", "x = 2"])
    await do("scratch_create", scratch_id="pad", cells=[{"cell_id": "c", "language": "md", "content": "one"}])
    notebook = await do("notebook_create", title="t", language="python")
    added = await do("notebook_add_cell", notebookId=notebook["notebookId"], cellType="markdown", source="one")
    await do("use_notebook", notebook_name="n", notebook_path="n.ipynb")
    return {**KNOWN, "notebookId": notebook["notebookId"], "cellId": added["cell"]["id"], "notebook_name": "n"}


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of sending one thing after the other, for so many seconds."""

    faults: list[str]
    before: int
    """Bytes of memory when everything had been used once."""
    after: int


_trials: dict[str, Trial] = {}
"""One for both tests of it, by the server."""


async def trial(server: HttpServer, jupyter_server: JupyterServer) -> Trial:
    if server.base not in _trials:
        _trials[server.base] = await _trial(server, jupyter_server)
    return _trials[server.base]


async def left(do: Agent) -> None:
    """The notebook is nobody's any more, and nothing of it runs: what it has grown to need not be at hand."""
    for tool, arguments in (("shutdown_nb_kernel", {"path": "n.ipynb"}), ("unuse_notebook", {"notebook_name": "n"})):
        await do.client.call_tool(tool, arguments)


async def _trial(server: HttpServer, jupyter_server: JupyterServer) -> Trial:
    costs = Costs(server)
    faults: list[str] = []
    async with agent_of(server) as do:
        known = await prepared(do, jupyter_server)
        tools = [tool for tool in (await do.client.list_tools()).tools if tool.name not in NOT_TRIED]
        every = in_order(list(probes_of(tools, known)), SEED)
        await warmed_up(do, every)
        before = await costs.at_rest()
        costs.held()
        places, end = len({(probe.tool, probe.argument) for probe in every}), time.monotonic() + SECONDS
        tried_count = 0
        while tried_count < len(every) and (tried_count < places or time.monotonic() < end):
            probe = every[tried_count]
            faults += await tried(server, costs, probe.name, SIZES, _calls(do, probe))
            tried_count += 1
        await left(do)
        after = await costs.back(before, ROOM_SECONDS)
    log.warning("%d of %d probes; %.0f MB before, %.0f MB after", tried_count, len(every), before / 1e6, after / 1e6)
    return Trial(faults, before, after)


@requirement("costs:loop", "costs:linear")
@pytest.mark.timeout(SECONDS * 2 + 700)
@pytest.mark.long(SECONDS * 2)
async def test_nothing_that_is_sent_holds_the_loop_or_costs_more_than_its_size(
    server: HttpServer, jupyter_server: JupyterServer
) -> None:
    assert (await trial(server, jupyter_server)).faults == []


@requirement("costs:memory")
@pytest.mark.timeout(SECONDS * 2 + 700)
@pytest.mark.long(1)
async def test_after_a_flood_memory_is_back(server: HttpServer, jupyter_server: JupyterServer) -> None:
    done = await trial(server, jupyter_server)
    assert done.after < done.before * BACK, f"{done.before / 1e6:.0f} MB before, {done.after / 1e6:.0f} MB after"


@requirement("costs:loop", "costs:linear")
@pytest.mark.timeout(400)
@pytest.mark.long(10)
async def test_no_address_of_a_resource_holds_the_loop_or_costs_more_than_its_size(server: HttpServer) -> None:
    costs = Costs(server)
    faults: list[str] = []
    # The newer era has the address in a header as well, and heads are shorter than bodies.
    async with agent_of(server, "legacy") as do:
        templates = [one.uri_template for one in (await do.client.list_resource_templates()).resource_templates]
        probes = resource_probes(templates)
        step = 1 if _ASKED == "all" else 11
        costs.held()
        for probe in probes[SEED % step :: step]:
            faults += await tried(server, costs, probe.name, SIZES, _reads(do, probe))
    assert faults == []


@requirement("costs:loop", "costs:linear")
@pytest.mark.timeout(900)
@pytest.mark.alone  # work of an earlier call that waits for a processor looks like none, and is counted with the next
async def test_no_deep_folders_hold_the_loop_or_cost_more_than_their_number(
    server: HttpServer, jupyter_server: JupyterServer
) -> None:
    """A call by itself, begun when the server is quiet: what goes on behind the scenes is an earlier one's. And all of it together."""
    costs = Costs(server)
    spent: dict[str, list[float]] = {tool: [] for tool, _ in IN_FOLDERS}
    together: list[float] = []
    faults: list[str] = []
    async with agent_of(server) as do:
        for count in FOLDERS:
            for root in (jupyter_server.root, _workspace(server)):
                await asyncio.to_thread(grow_folders, root, count)
            await costs.quiet()
            costs.held()
            began = costs.seconds()
            for tool, arguments in IN_FOLDERS:
                before = costs.seconds()
                result = await do.client.call_tool(tool, arguments)
                spent[tool].append(costs.seconds() - before)
                faults += _crash(f"{tool} in {count:,} folders", result)
                faults += _too_long(f"{tool} in {count:,} folders", costs)
                await costs.quiet()
            together.append(costs.seconds() - began)
    for tool, seconds in spent.items():
        faults += _too_steep(f"{tool} in deep folders", FOLDERS, seconds)
    faults += _too_steep("everything in deep folders", FOLDERS, together)
    assert faults == []


async def warmed_up(do: Agent, probes: Sequence[Probe]) -> None:
    """Everything was asked for once: what is loaded when it is needed is there, the model for search among it."""
    for probe in {probe.tool: probe for probe in probes}.values():
        await do.client.call_tool(probe.tool, probe.call(SIZES[0]))
    # The probes are too long for it.
    await do("search_nbs", query="word")
    await do(
        "scratch_create", scratch_id="warm", cells=[{"cell_id": "c", "language": "md", "content": "a word " * 9_000}]
    )
    await do("scratch_search", query="word")
    await do("scratch_validate", scratch_id="warm")
    await do("scratch_delete", scratch_id="warm")


async def tried(
    server: HttpServer, costs: Costs, what: str, sizes: Sequence[int], call: Callable[[int], Awaitable[Any]]
) -> list[str]:
    """What is wrong with the answers to one thing in all sizes.

    What looks too steep is measured once more when the server is quiet, for work behind the scenes that an earlier call began
    may have been counted with it.
    """
    faults, spent = await _sent(costs, what, sizes, call)
    if _too_steep(what, sizes, spent):
        await costs.quiet()
        again, spent = await _sent(costs, what, sizes, call)
        faults += again
    async with httpx2.AsyncClient(timeout=PATIENT_SECONDS) as http:
        assert (await http.get(f"{server.base}/health")).status_code == 200
    return [*faults, *_too_steep(what, sizes, spent)]


async def _sent(
    costs: Costs, what: str, sizes: Sequence[int], call: Callable[[int], Awaitable[Any]]
) -> tuple[list[str], list[float]]:
    """What is wrong with the answers, and the processor time of each size."""
    faults: list[str] = []
    spent: list[float] = []
    for size in sizes:
        before = costs.seconds()
        result = await call(size)
        spent.append(costs.seconds() - before)
        faults += _crash(f"{what} with {size:,}", result)
        faults += _too_long(f"{what} with {size:,}", costs)
    return faults, spent


def _calls(do: Agent, probe: Probe) -> Callable[[int], Awaitable[Any]]:
    return lambda size: do.client.call_tool(probe.tool, probe.call(size))


def _reads(do: Agent, probe: ResourceProbe) -> Callable[[int], Awaitable[Any]]:
    async def read(size: int) -> Any:
        try:
            return await do.client.read_resource(probe.uri(size))
        except MCPError as error:
            return error

    return read


def _crash(what: str, result: Any) -> list[str]:
    if isinstance(result, MCPError):
        return [f"{what}: {result}"] if result.code == -32603 else []
    crashed = getattr(result, "is_error", False) and "INTERNAL_ERROR" in str(result.structured_content)
    return [f"{what}: {result.structured_content}"] if crashed else []


def _too_long(what: str, costs: Costs) -> list[str]:
    return [f"{what}: held for {ms:.0f} ms in {stack}" for ms, stack in costs.held() if ms > LONGEST_TURN_MS]


def _too_steep(what: str, sizes: Sequence[int], spent: Sequence[float]) -> list[str]:
    """The power of the growth, fitted to the two largest: below them a call's own cost hides it."""
    if spent[-1] <= NOTEWORTHY_SECONDS:
        return []
    growth = math.log(spent[-1] / max(spent[-2], 0.01)) / math.log(sizes[-1] / sizes[-2])
    if growth <= STEEPEST:
        return []
    return [f"{what}: {' s, '.join(f'{one:.2f}' for one in spent)} s; it grows with the power {growth:.2f}"]


def _workspace(server: HttpServer) -> Path:
    return server.log.parent / "root"
