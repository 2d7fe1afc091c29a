"""The largest request to every tool, on the largest things that are stored: memory has a ceiling above idle, and comes back.

One large argument of every tool; `CELLWRIGHT_TEST_COSTS=all` gives every argument of every tool its turn.
"""

import json
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from mcp import MCPError

from cellwright.app.http.refusal import REFUSED
from cellwright.jupyter.files.rules import MAX_READ_BYTES
from cellwright.jupyter.kernels.channel import CONTENT_BOUNDS, MAX_MESSAGE_BYTES
from cellwright.scratch.model import PadLimits
from cost_support import KNOWN, Probe, in_order, probes_of
from jupyter_support import JupyterServer, write_notebook
from memory_support import BACK, Memory
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import HttpServer

pytestmark = [pytest.mark.anyio, pytest.mark.more]
log = logging.getLogger(__name__)

EVERY = os.environ.get("CELLWRIGHT_TEST_COSTS", "") == "all"
CEILING = 300_000_000
REQUEST = 3_500_000
"""Letters of a text that is about as long as a request may be."""
WIDE = "\N{GRINNING FACE}"
# What ends other things than its own, or needs a person's server; and what runs code, which has a test of its own below.
NOT_TRIED = {
    "lab", "end_nb_session", "shutdown_nb_kernel", "restart_nb_kernel", "restart_notebook", "unuse_notebook", "execute_ipython",
    "insert_execute_code_cell", "execute_nb_cells", "execute_cell_simple_timeout", "execute_cell_streaming",
    "execute_cell_with_progress", "notebook_run_cell", "notebook_run_all", "complete_code", "inspect_variables", "kernel_environment",
    "interrupt_nb_kernel", "assign_nb_kernel",
}  # fmt: skip
# After these the large things are smaller or gone.
LAST = (
    "clear_nb_outputs", "delete_nb_cells", "delete_cell", "overwrite_cell_source", "overwrite_document", "scratch_replace_cell",
    "scratch_delete_cell", "notebook_update_cell", "notebook_delete_cell", "rename_document", "delete_document", "scratch_delete",
    "scratch_namespace_delete", "notebook_close",
)  # fmt: skip
RESOURCES = {
    "files": (
        "jupyter://large.ipynb",
        "jupyter://large.ipynb/cells/c0",
        "jupyter://large.ipynb/cells/c0/outputs/0",
        "context://file/large.md",
    ),
    "pads": ("scratchpad://large", "scratchpad://large/cells/c1", "scratchpad://large/ipynb"),
}
PAD_BYTES = PadLimits().pad_bytes
ONE_OF_EACH = frozenset({"wide letters", "many items", "nesting"})


@pytest.fixture(scope="module")
def server(jupyter_server: JupyterServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    folder = tmp_path_factory.mktemp("ceiling")
    with in_front_of(jupyter_server, folder, "--toolsets", "all") as running:
        (folder / "root" / "large.md").write_text("a line of text\n" * (MAX_READ_BYTES // 15), encoding="utf-8")
        yield running


def large_notebook(wide: bool) -> str:
    """A notebook as large as is opened: many cells, long sources, a long output, a picture that is none."""
    size = MAX_READ_BYTES - 200_000
    letter = WIDE if wide else ""
    lines = "0123456789 abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ\n"
    outputs: list[dict[str, Any]] = [
        {"output_type": "stream", "name": "stdout", "text": letter + lines * (size // 2 // len(lines))},
        {"output_type": "display_data", "metadata": {}, "data": {"image/png": "iVBORw0KGgo" + "A" * (size // 8)}},
        {"output_type": "display_data", "metadata": {}, "data": {"application/json": [1.5] * 60_000}},
    ]
    cells = [_cell(0, "# first", outputs), *(_cell(n, f"{letter}x = {n}\n" * 400) for n in range(1, 1_000))]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, ensure_ascii=False)
    assert size * 0.7 < len(text.encode()) <= MAX_READ_BYTES
    return text


def _cell(number: int, source: str, outputs: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    about = {"cell_type": "code", "id": f"c{number}", "source": source}
    return {**about, "metadata": {}, "execution_count": None, "outputs": outputs or []}


async def large_files(do: Agent, jupyter: JupyterServer) -> dict[str, Any]:
    """Documents as large as they may be, for the tools to work on."""
    (jupyter.root / "large.ipynb").write_text(large_notebook(wide=False), encoding="utf-8")
    (jupyter.root / "wide.ipynb").write_text(large_notebook(wide=True), encoding="utf-8")
    (jupyter.root / "large.md").write_text("a line of text\n" * (MAX_READ_BYTES // 15 - 10), encoding="utf-8")
    await do("use_notebook", notebook_name="large", notebook_path="large.ipynb")
    return {
        "path": "large.ipynb",
        "notebook_path": "large.ipynb",
        "notebook": "large",
        "notebook_name": "large",
        "source": "large.ipynb",
        "cell_id": "c1",
        "cell": "c1",
        "exec": False,
        "query": "word",
        "pattern": "w.rd",
        "text": "x",
        "id": "c1",
    }


async def large_pad(do: Agent, _jupyter: JupyterServer) -> dict[str, Any]:
    await do("scratch_create", scratch_id="large")
    contents = [
        f"{number} {WIDE} " + f"word{number:02} and more\n" * ((PAD_BYTES // 16 - 1_000) // 16) for number in range(16)
    ]
    for number, content in enumerate(contents):
        cell = {"cell_id": f"c{number}", "language": "md", "content": content}
        await do("scratch_append_cell", scratch_id="large", cell=cell)
    more = {"cell_id": "more", "language": "md", "content": contents[0]}
    refused = await do.error("scratch_append_cell", scratch_id="large", cell=more)
    assert "--scratch-max-pad-bytes" in refused["message"]
    return {"scratch_id": "large", "cell_id": "c1", "query": "word"}


async def large_thought(do: Agent, _jupyter: JupyterServer) -> dict[str, Any]:
    created = await do("notebook_create", title="t", language="python")
    made = created["notebookId"]
    thought = {"notebookId": made, "cellType": "markdown", "source": WIDE + "some words\n" * 94_000}
    added = [await do("notebook_add_cell", **thought) for _ in range(16)]
    assert (await do.error("notebook_add_cell", **thought))["code"] == "CAPACITY_LIMIT_REACHED"
    return {"notebookId": made, "sessionId": created["sessionId"], "cellId": added[-1]["cell"]["id"], "query": "word"}


async def exported(do: Agent, peaks: "Peaks") -> None:
    """What is just small enough to be converted: it is done, in every format."""
    lines = "some words\n" * (1_000_000 // 11)
    made = (await do("notebook_create", title="n", language="python"))["notebookId"]
    await do("scratch_create", scratch_id="narrow")
    for number in range(16):
        cell = {"cell_id": f"c{number}", "language": "md", "content": lines}
        await do("scratch_append_cell", scratch_id="narrow", cell=cell)
        await do("notebook_add_cell", notebookId=made, cellType="markdown", source=lines)
    for to in ("md", "ipynb", "json"):
        pad = {"scratch_id": "narrow", "format": to}
        await peaks.call(f"scratch_export of as much as is converted to {to}", "scratch_export", pad, done=True)
        thought = {"notebookId": made, "format": to}
        await peaks.call(f"notebook_export of as much as is converted to {to}", "notebook_export", thought, done=True)
    await peaks.read("scratchpad://narrow/ipynb")
    await do("scratch_delete", scratch_id="narrow")
    await do("notebook_close", notebookId=made)


class Peaks:
    """What calls took at most, above what there was at rest."""

    def __init__(self, do: Agent, memory: Memory, idle: int) -> None:
        self._do, self._memory, self._idle = do, memory, idle
        self.found: dict[str, float] = {}

    async def call(self, what: str, tool: str, arguments: dict[str, Any], *, done: bool = False) -> None:
        self._memory.reset()
        try:
            result = await self._do.client.call_tool(tool, arguments)
        except MCPError as refused:
            if refused.code != REFUSED:
                raise
        else:
            assert not (result.is_error and "INTERNAL_ERROR" in str(result.structured_content)), (what, result)
            assert not (result.is_error and done), (what, result)
        self._note(what)

    async def read(self, uri: str) -> None:
        self._memory.reset()
        try:
            await self._do.client.read_resource(uri)
        except MCPError as refused:
            assert "more than" in refused.message or "at most" in refused.message, (uri, refused)  # noqa: PT017 - too large
        self._note(uri)

    def _note(self, what: str) -> None:
        self.found[what] = max((self._memory.peak() - self._idle) / 1e6, self.found.get(what, 0))
        now = (self._memory.now() - self._idle) / 1e6
        log.info("%.0f MB above idle at most, %.0f MB now, %s", self.found[what], now, what)

    @property
    def highest(self) -> dict[str, float]:
        return dict(sorted(self.found.items(), key=lambda item: -item[1]))

    @property
    def told(self) -> str:
        return ", ".join(f"{what}: {peak:.0f} MB" for what, peak in self.highest.items() if peak > 150)

    def check(self) -> None:
        assert {what: peak for what, peak in self.highest.items() if peak * 1e6 > CEILING} == {}


async def of_tool(peaks: Peaks, tool: Any, known: dict[str, Any]) -> None:
    probes: list[Probe] = [one for one in in_order(list(probes_of([tool], known)), 1) if one.shape in ONE_OF_EACH]
    given = dict(probes[0].arguments) if probes else dict[str, Any]()
    plain = {name: given[name] for name in tool.input_schema.get("required", ()) if name in given}
    await peaks.call(tool.name, tool.name, plain)
    for to in ("md", "ipynb", "json") if "export" in tool.name else ():
        name = "to" if "to" in tool.input_schema["properties"] else "format"
        await peaks.call(f"{tool.name} to {to}", tool.name, {**plain, name: to})
    for probe in probes if EVERY else probes[:1]:
        await peaks.call(f"{probe.tool}({probe.argument})", tool.name, probe.call(REQUEST))


async def of_tools(
    peaks: Peaks, tools: dict[str, Any], names: Sequence[str], known: dict[str, Any], resources: Sequence[str]
) -> None:
    """Each of these tools and resources; those after which the large things are smaller or gone come last."""
    for name in names:
        if name not in LAST:
            await of_tool(peaks, tools[name], known)
    for uri in resources:
        await peaks.read(uri)
    for name in LAST:
        if name in names:
            await of_tool(peaks, tools[name], known)


@requirement("costs:ceiling", "costs:memory")
@pytest.mark.proof
@pytest.mark.timeout(1_500 if EVERY else 600)
async def test_the_largest_request_on_the_largest_things_stays_under_the_ceiling(
    server: HttpServer, jupyter_server: JupyterServer
) -> None:
    memory = Memory(server)
    async with agent_of(server) as do:
        await warmed_up(do, jupyter_server)
        idle = await memory.at_rest()
        peaks = Peaks(do, memory, idle)
        tools = {tool.name: tool for tool in (await do.client.list_tools()).tools if tool.name not in NOT_TRIED}
        assert set(LAST) <= set(tools)
        pads = [name for name in tools if name.startswith("scratch_")]
        thoughts = [name for name in tools if name.startswith("notebook_")]
        others = [name for name in tools if name not in {*pads, *thoughts}]
        known = {**KNOWN, **await large_files(do, jupyter_server)}
        await of_tools(peaks, tools, others, known, RESOURCES["files"])
        # Its texts take more than is opened; that has to be found out.
        await peaks.call("read_nb_cells of wide letters", "read_nb_cells", {"path": "wide.ipynb"})
        await do.client.call_tool("end_nb_session", {"path": "large.ipynb"})
        known = {**KNOWN, **await large_pad(do, jupyter_server)}
        await of_tools(peaks, tools, [name for name in pads if name not in LAST], known, RESOURCES["pads"])
        version = (await do("scratch_history", scratch_id="large"))["version"]
        await peaks.call("scratch_history(diff)", "scratch_history", {"scratch_id": "large", "diff": version - 1})
        await peaks.call("scratch_history(restore)", "scratch_history", {"scratch_id": "large", "restore": version - 1})
        await peaks.call("scratch_create(reset)", "scratch_create", {"scratch_id": "large", "expect": "any"})
        await of_tools(peaks, tools, [name for name in pads if name in LAST], known, ())
        known = {**KNOWN, **await large_thought(do, jupyter_server)}
        await of_tools(peaks, tools, thoughts, known, (f"notebook://{known['sessionId']}/{known['notebookId']}",))
        await exported(do, peaks)
        after = await memory.back(idle)
    log.warning("%.0f MB at first, %.0f MB at the end; above idle %s", idle / 1e6, after / 1e6, peaks.told)
    peaks.check()
    assert after < idle * BACK


@requirement("costs:ceiling", "costs:memory")
@pytest.mark.timeout(400)
@pytest.mark.long(20)
@pytest.mark.parametrize("wide", [False, True], ids=["plain", "wide"])
async def test_the_largest_outputs_of_a_run_stay_under_the_ceiling(
    server: HttpServer, jupyter_server: JupyterServer, wide: bool
) -> None:
    letter = WIDE if wide else "x"
    largest, bound = MAX_MESSAGE_BYTES - 10_000, CONTENT_BOUNDS.size
    codes = {
        "a text": f"display({{'text/plain': '{letter}' + 'x' * {bound - 10_000}}}, raw=True)",
        "data": f"display({{'application/json': ['{letter}' + 'x' * {bound - 10_000}]}}, raw=True)",
        "a failure": f"raise ValueError('{letter}' + 'x' * {bound // 2 - 10_000})",
        "too much": f"display({{'text/plain': '{letter}' + 'x' * {bound + 10_000}}}, raw=True)",
        "the longest message": f"display({{'text/plain': '{letter}' + 'x' * {largest - 1_000}}}, raw=True)",
    }
    memory = Memory(server)
    async with agent_of(server) as do:
        await warmed_up(do, jupyter_server)
        write_notebook(jupyter_server.root, "runs.ipynb", ["1"])
        await do("execute_nb_cells", path="runs.ipynb", cells="all")
        await do("shutdown_nb_kernel", path="runs.ipynb")
        idle = await memory.at_rest()
        peaks = Peaks(do, memory, idle)
        for number, (what, code) in enumerate(codes.items()):
            path = f"run-{number}-{wide}.ipynb"
            write_notebook(jupyter_server.root, path, [f"from IPython.display import display\n{code}"])
            await peaks.call(what, "execute_nb_cells", {"path": path, "cells": "all", "timeout": 120})
            await do("shutdown_nb_kernel", path=path)
            await do("end_nb_session", path=path)
        after = await memory.back(idle)
    log.warning("%.0f MB at first, %.0f MB at the end; above idle %s", idle / 1e6, after / 1e6, peaks.highest)
    peaks.check()
    assert after < idle * BACK


async def warmed_up(do: Agent, jupyter: JupyterServer) -> None:
    """Everything that is loaded when it is first needed is there."""
    write_notebook(jupyter.root, "warm.ipynb", ["1"])
    await do("read_nb_cells", path="warm.ipynb")
    await do("search_workspace", query="word")
    cells = [{"cell_id": f"c{number}", "language": "md", "content": "a word " * 9_000} for number in range(8)]
    await do("scratch_create", scratch_id="warm", cells=cells)
    await do("scratch_search", query="word")
    await do("scratch_validate", scratch_id="warm")
    await do("scratch_export", scratch_id="warm", format="md")
    await do("scratch_delete", scratch_id="warm")
    await do("end_nb_session", path="warm.ipynb")
