"""Limits of a real server, as real clients meet them."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from mcp import Client, MCPError

from cellwright.app.http.serving import MAX_CONNECTIONS
from cellwright.app.http.tokens import TokenStore
from cellwright.core.types import ALL_SCOPES
from extension_support import ExtensionProcess, agent
from jupyter_support import write_notebook
from requirements import requirement
from support import HttpServer, http_client, http_server, until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

CLIENTS = 50
NOTEBOOKS = 2
ERAS = ["auto", "legacy"]


# -- fifty clients ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fifty")


@pytest.fixture(scope="module")
def server(folder: Path) -> Generator[HttpServer]:
    """With the default settings, and a Jupyter server of its own behind it."""
    jupyter = {f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    with http_server(folder, environ=jupyter) as running:
        yield running


@dataclass
class Visitor:
    """One of the fifty."""

    number: int
    client: Client
    path: str
    heard: list[str] = field(default_factory=list[str])

    async def call(self, tool: str, **arguments: Any) -> Any:
        result = await self.client.call_tool(tool, {"path": self.path, **arguments})
        assert not result.is_error, result.content
        return result.structured_content

    async def work(self) -> str:
        """Read, add a cell, run it, change it, read it again: all of it as this client's own. The id of the cell."""
        before = await self.call("read_nb_cells", ranges=[{"start": 0}])
        assert before["cells"][0]["source"] == "# shared"
        source = f"import time; time.sleep(0.05); print({self.number} * 7)"
        ran = await self.call("insert_nb_cells", position=-1, cells=[{"content": source}], timeout=120)
        assert f"{self.number * 7}\n" in json.dumps(ran["execution_results"]).encode().decode("unicode_escape")
        (cell,) = ran["cells"]
        changed = f"# changed by {self.number}"
        await asyncio.gather(
            self.call("edit_nb_cell", cell=cell["id"], old="import time", new=changed),
            *(self.call("get_nb_stat") for _ in range(2)),
        )
        after = await self.call("read_nb_cells", ranges=[{"id": cell["id"]}])
        assert after["cells"][0]["source"] == source.replace("import time", changed)
        return str(cell["id"])


@asynccontextmanager
async def connected(server: HttpServer, number: int, mode: str, path: str) -> AsyncGenerator[Visitor]:
    """A client that listens to changes of its notebook."""
    heard: list[str] = []

    def note(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            heard.append(str(message.params.uri))

    uri = f"jupyter://{path}"
    async with http_client(server, mode, on_message=note) as client:
        if mode == "legacy":
            await client.subscribe_resource(uri)  # pyright: ignore[reportDeprecated] - serving the older era is the point
            yield Visitor(number, client, path, heard)
            return
        async with client.listen(resource_subscriptions=[uri]) as events:

            async def listen() -> None:
                while True:
                    heard.append(str(getattr(await anext(events), "uri", "")))

            listening = asyncio.create_task(listen())
            yield Visitor(number, client, path, heard)
            assert not listening.done(), "the stream was lost"
            listening.cancel()


class Meeting:
    """Fifty clients that wait for each other after each part of their work."""

    def __init__(self) -> None:
        self.visitors: list[Visitor] = []
        self.ids: list[str] = []
        self._barrier = asyncio.Barrier(CLIENTS)

    async def attend(self, server: HttpServer, number: int, mode: str, path: str) -> None:
        async with connected(server, number, mode, path) as visitor:
            self.visitors.append(visitor)
            await self._barrier.wait()
            self.ids.append(await visitor.work())
            await self._barrier.wait()
            # Every stream is open still: a change that is made now is heard by all.
            visitor.heard.clear()
            await self._barrier.wait()
            if number < NOTEBOOKS:
                await visitor.call("insert_nb_cells", position=-1, cells=[{"content": "# last"}], exec=False)
            await until(lambda: f"jupyter://{path}" in visitor.heard, f"stream {number} hears of it", 60)
            await self._barrier.wait()


@requirement("limits:fifty")
@pytest.mark.parametrize("mode", ERAS)
async def test_fifty_clients_with_one_token_work_at_once(server: HttpServer, folder: Path, mode: str) -> None:
    paths = [f"{mode}-{number}.ipynb" for number in range(NOTEBOOKS)]
    for path in paths:
        write_notebook(folder / "root", path, ["# shared"])
    meeting = Meeting()
    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(meeting.attend(server, number, mode, paths[number % NOTEBOOKS]))
    assert len(set(meeting.ids)) == CLIENTS
    async with http_client(server, mode) as client:
        for path in paths:
            told = await client.call_tool("read_nb_cells", {"path": path, "outputs": "none", "maxCellData": 60})
            assert told.structured_content is not None
            sources = [cell["source"] for cell in told.structured_content["cells"]]
            own = [visitor.number for visitor in meeting.visitors if visitor.path == path]
            changed = sorted(int(source.split()[3].rstrip(";")) for source in sources[1:-1])
            assert (sources[0], changed, sources[-1]) == ("# shared", sorted(own), "# last")
    log = server.log.read_text(encoding="utf-8")
    assert "event=refused" not in log
    assert "level=error" not in log


@requirement("limits:first-opens")
async def test_fifty_notebooks_opened_at_once_are_all_opened(tmp_path: Path) -> None:
    """Jupyter makes the store of its documents when the first one is opened; two at once broke each other's."""
    jupyter = {f"JUPYTER_{name}_DIR": str(tmp_path / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    paths = [f"own-{number}.ipynb" for number in range(CLIENTS)]
    with http_server(tmp_path, environ=jupyter) as server:
        for path in paths:
            write_notebook(tmp_path / "root", path, [f"# {path}"])
        async with http_client(server, "auto") as client:
            told = await asyncio.gather(*(client.call_tool("read_nb_cells", {"path": path}) for path in paths))
    assert [result.content for result in told if result.is_error] == []
    assert [(result.structured_content or {})["cells"][0]["source"] for result in told] == [f"# {p}" for p in paths]
    log = (tmp_path / "state" / "embedded-jupyter.log").read_text(encoding="utf-8")
    assert "table yupdates already exists" not in log
    assert "no such table" not in log


# -- what is refused -----------------------------------------------------------------------------------------------------------


def made_token(state: Path, name: str) -> str:
    return TokenStore(state).create(name, ALL_SCOPES)[1].reveal()


@requirement("limits:words", "limits:wait")
@pytest.mark.parametrize("mode", ERAS)
async def test_who_is_over_the_rate_waits_and_is_then_told_in_words(tmp_path: Path, mode: str) -> None:
    with http_server(tmp_path, "--rate", "0.001", "--burst", "8", "--max-wait", "0.5") as server:
        async with http_client(server, mode) as client:
            refusals: list[MCPError] = []
            for _ in range(10):
                try:
                    await client.call_tool("workspace_status", {})
                except MCPError as refused:
                    refusals.append(refused)
    assert refusals, "the burst is spent"
    for refused in refusals:
        assert "too many requests: this token may send 0.001 requests a second" in refused.error.message
        assert "try again in a moment" in refused.error.message
        assert "cellwright token create NAME" in refused.error.message
        assert refused.error.data == {"status": 429, "retry_after_seconds": 5}


@requirement("limits:words")
@pytest.mark.parametrize("mode", ERAS)
async def test_a_body_that_is_too_large_is_told_in_words(tmp_path: Path, mode: str) -> None:
    with http_server(tmp_path, "--max-body", "4096") as server:
        async with http_client(server, mode) as client:
            with pytest.raises(MCPError, match="the body is larger than 4096 bytes; send it in parts"):
                await client.call_tool("workspace_status", {"x": "x" * 5000})
            assert not (await client.call_tool("workspace_status", {})).is_error, "the client can go on"


@requirement("limits:words")
@pytest.mark.parametrize("mode", ERAS)
async def test_a_wrong_token_is_told_in_words_that_reach_the_log_as_they_are(tmp_path: Path, mode: str) -> None:
    with http_server(tmp_path) as server:
        with pytest.raises(BaseExceptionGroup) as raised:
            async with http_client(server, mode, {"Authorization": "Bearer wrong"}):
                pass
        assert "this one is unknown, revoked or out of date" in str(leaf(raised.value))
        assert "cellwright token create NAME" in str(leaf(raised.value))
        assert 'reason="a valid bearer token is needed: this one is' in server.log.read_text(encoding="utf-8")


def leaf(raised: "BaseExceptionGroup[BaseException] | BaseException") -> BaseException:
    while isinstance(raised, BaseExceptionGroup):
        raised = cast("BaseExceptionGroup[BaseException]", raised).exceptions[0]
    return raised


@requirement("limits:words", "limits:streams")
async def test_one_stream_too_many_is_told_in_words(tmp_path: Path) -> None:
    with http_server(tmp_path, "--max-streams", "2") as server:
        async with http_client(server) as client, AsyncExitStack() as streams:
            for _ in range(2):
                await streams.enter_async_context(client.listen(resources_list_changed=True))
            with pytest.raises(MCPError, match="this token has 2 streams and long calls open") as refused:
                await streams.enter_async_context(client.listen(resources_list_changed=True))
            assert "--max-streams" in refused.value.error.message
            assert not (await client.call_tool("workspace_status", {})).is_error, "calls are not streams"


@requirement("limits:fair")
async def test_a_caller_who_waits_does_not_slow_down_another(tmp_path: Path) -> None:
    with http_server(tmp_path, "--rate", "0.001", "--burst", "20", "--max-wait", "120") as server:
        other = made_token(tmp_path / "state", "other")
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        async with httpx2.AsyncClient(timeout=100) as http:
            flood = [asyncio.create_task(http.post(server.url, json=body, headers=server.headers)) for _ in range(60)]
            await until(lambda: sum(task.done() for task in flood) >= 20, "the burst is answered")
            async with http_client(server, headers={"Authorization": f"Bearer {other}"}) as client:
                for _ in range(10):
                    assert not (await client.call_tool("workspace_status", {})).is_error
            assert sum(task.done() for task in flood) == 20, "the others of the first caller wait all the while"
            for task in flood:
                task.cancel()
            await asyncio.gather(*flood, return_exceptions=True)


@requirement("limits:bounded")
async def test_a_client_that_leaves_is_taken_out_of_the_line(tmp_path: Path) -> None:
    with http_server(tmp_path, "--rate", "0.001", "--burst", "1", "--max-wait", "200") as server:
        async with httpx2.AsyncClient(headers=server.headers, timeout=60) as http:
            assert (await http.get(f"{server.base}/metrics")).status_code == 200
            waiting = asyncio.create_task(http.post(server.url, json={}))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        log = server.log
        await until(lambda: "the client left before its turn" in log.read_text(encoding="utf-8"), "it was noticed")


# -- connections ---------------------------------------------------------------------------------------------------------------


@requirement("limits:health")
async def test_health_answers_whatever_is_connected(tmp_path: Path) -> None:
    """More silent connections than are served: they make room for those who speak."""
    silent: list[socket.socket] = []
    with http_server(tmp_path) as server:
        try:
            while len(silent) < MAX_CONNECTIONS + 300:
                silent.append(socket.create_connection(("127.0.0.1", server.port), 20))
            async with httpx2.AsyncClient(timeout=30) as http:
                assert (await http.get(f"{server.base}/health")).json() == {"status": "ok"}
            async with http_client(server) as client:
                assert not (await client.call_tool("workspace_status", {})).is_error
        finally:
            for connection in silent:
                connection.close()


@requirement("limits:health")
async def test_where_every_connection_is_in_use_health_answers_and_others_are_told(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from cellwright.app.http import serving as http\n"
        "from cellwright.app.cli.entry import main\n"
        "http.MAX_CONNECTIONS = 6\n"
        "sys.exit(main())"
    )
    with http_server(tmp_path, program=("-c", program, "serve")) as server:
        other = {"Authorization": f"Bearer {made_token(tmp_path / 'state', 'other')}"}
        async with (
            http_client(server) as client,
            http_client(server, headers=other) as second,
            AsyncExitStack() as streams,
        ):
            for listening in (client, client, second, second):
                await streams.enter_async_context(listening.listen(resources_list_changed=True))
            async with httpx2.AsyncClient(timeout=30) as http:
                assert (await http.get(f"{server.base}/health")).json() == {"status": "ok"}
                full = await http.get(f"{server.base}/metrics", headers=server.headers)
                assert full.status_code == 503
                assert "close clients that are not used any more" in full.json()["error"]


# -- inside Jupyter ------------------------------------------------------------------------------------------------------------


@requirement("limits:rate", "limits:words", "limits:wait")
async def test_inside_jupyter_the_same_holds(tmp_path: Path) -> None:
    """No rate on loopback; a long line is waited through; what is refused is told in words."""
    options = "--CellwrightExtension.options={'max_in_flight': 2, 'max_body': 4096}"
    with ExtensionProcess(tmp_path, options, collaboration=False) as process:
        for mode in ERAS:
            async with agent(process.mcp, process.token, mode) as client:
                calls = [client.call_tool("workspace_status", {}) for _ in range(100)]
                assert not any(result.is_error for result in await asyncio.gather(*calls))
                with pytest.raises(MCPError, match="the body is larger than 4096 bytes; send it in parts"):
                    await client.call_tool("workspace_status", {"x": "x" * 5000})
            with pytest.raises(BaseExceptionGroup) as raised:
                async with agent(process.mcp, "wrong", mode):
                    pass
            assert "a valid Jupyter token is needed; `jupyter server list` shows" in str(leaf(raised.value))
