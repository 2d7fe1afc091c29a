"""Long calls as tasks."""

import asyncio
import json
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import anyio
import httpx2
import pytest
from starlette.types import Receive

from cellwright.app.protocol import transport
from cellwright.app.protocol.tasks import Task, Tasks
from cellwright.app.settings import Settings
from cellwright.app.workspace import make_workspace
from cellwright.core.errors import LimitReached, NotFound
from cellwright.core.types import ALL_SCOPES, PRINCIPAL_KEY, Principal
from locations import PROBE
from requirements import requirement
from support import HttpServer, http_server, until

pytestmark = pytest.mark.anyio
ANNE, BOB = Principal("anne", ALL_SCOPES), Principal("bob", ALL_SCOPES)
TASKS = "io.modelcontextprotocol/tasks"


class Now:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


async def quick(_task: Task) -> dict[str, Any]:
    return {"result": 1}


async def endless(_task: Task) -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


@requirement("tasks:owner")
async def test_a_task_is_its_owners_alone() -> None:
    tasks = Tasks(ttl=10, limit=5)
    task = await tasks.start(ANNE, endless)
    assert tasks.find(ANNE, task.id) is task
    with pytest.raises(NotFound) as others:
        tasks.find(BOB, task.id)
    with pytest.raises(NotFound) as unknown:
        tasks.find(BOB, "x" * len(task.id))
    assert others.value.message == unknown.value.message
    await tasks.close()


@requirement("tasks:bounded")
async def test_tasks_are_limited_and_forgotten() -> None:
    now = Now()
    tasks = Tasks(ttl=10, limit=2, clock=now)
    done = await tasks.start(ANNE, quick)
    await tasks.start(ANNE, endless)
    with pytest.raises(LimitReached, match="--max-tasks"):
        await tasks.start(ANNE, quick)
    await tasks.start(BOB, quick)
    now.seconds += 11
    with pytest.raises(NotFound):
        tasks.find(ANNE, done.id)
    await tasks.start(ANNE, quick)
    assert tasks.count("anne") == 1
    await tasks.close()


async def test_cancelling_ends_the_work_and_the_owner_is_told_of_each_change() -> None:
    told: list[str] = []
    tasks = Tasks(ttl=10, limit=2, on_change=told.append)
    task = await tasks.start(ANNE, endless)
    tasks.cancel(task)
    assert task.job is not None
    await asyncio.wait({task.job}, timeout=5)
    assert task.job.cancelled()
    assert task.status == "cancelled"
    assert told == ["anne", "anne"]


async def test_a_caller_that_leaves_before_it_has_the_task_takes_the_work_along() -> None:
    tasks = Tasks(ttl=10, limit=2)
    begun = asyncio.create_task(tasks.start(ANNE, endless))
    await until(lambda: tasks.count() == 1, "begun")
    begun.cancel()
    await asyncio.wait({begun})
    assert tasks.count() == 0


async def post(
    server: HttpServer, method: str, params: dict[str, Any], name: str, *, knows: bool = True
) -> dict[str, Any]:
    """One raw request of the 2026-07-28 protocol, from a client that knows tasks or not."""
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}} if knows else {},
    }
    headers = {
        **server.headers,
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        "Mcp-Name": name,
    }
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    async with httpx2.AsyncClient(timeout=20) as client:
        answer = (await client.post(server.url, json=body, headers=headers)).json()
    assert isinstance(answer, dict)
    return answer  # pyright: ignore[reportUnknownVariableType]


@requirement("tasks:long")
async def test_a_long_call_becomes_a_task_and_a_short_one_answers_in_place(tmp_path: Path) -> None:
    with http_server(tmp_path, "--toolsets", "all", program=(str(PROBE),)) as server:
        short = {"name": "probe_slow", "arguments": {"tag": "s", "steps": 1, "delay": 0.01}}
        long = {"name": "probe_slow", "arguments": {"tag": "l", "steps": 30, "delay": 0.05}}
        answered = (await post(server, "tools/call", short, "probe_slow"))["result"]
        assert answered["structuredContent"]["text"] == "s"
        begun = (await post(server, "tools/call", long, "probe_slow"))["result"]
        assert begun["resultType"] == "task"
        assert begun["status"] == "working"
        identity = begun["taskId"]
        state: dict[str, Any] = {}
        for _ in range(100):
            state = (await post(server, "tasks/get", {"taskId": identity}, identity))["result"]
            if state["status"] != "working":
                break
            assert state["statusMessage"].startswith("step ")
            await asyncio.sleep(0.05)
        assert state["status"] == "completed"
        assert state["result"]["structuredContent"]["text"] == "l"
        endless_call = {"name": "probe_slow", "arguments": {"tag": "e", "steps": 100_000}}
        begun = (await post(server, "tools/call", endless_call, "probe_slow"))["result"]
        await post(server, "tasks/cancel", {"taskId": begun["taskId"]}, begun["taskId"])
        seen = (await post(server, "tools/call", {"name": "probe_cancelled"}, "probe_cancelled"))["result"]
        assert seen["structuredContent"]["text"] == "e"
        refused = (await post(server, "tasks/get", {"taskId": identity}, identity, knows=False))["error"]
        assert refused["code"] == -32021
        unknown = (await post(server, "tasks/get", {"taskId": "none"}, "none"))["error"]
        assert unknown["code"] == -32602


class Taken:
    """Stands for one of the SDK's managers, and notes which one was given a request."""

    def __init__(self, kind: str, taken: list[str]) -> None:
        self._kind, self._taken = kind, taken

    async def handle_request(self, _scope: object, receive: Receive, _send: object) -> None:
        self._taken.append(self._kind)
        # Whoever looked at the body has left it where it was.
        assert (await receive())["body"]


@requirement("tasks:long")
@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("edit_nb_cell", {"path": "a.ipynb", "old": "exec(a)", "new": "b"}, "plain"),
        ("edit_nb_cell", {"path": "a.ipynb", "old": "a", "new": "b", "exec": True}, "streamed"),
        ("modify_nb_cells", {"path": "a.ipynb", "modifications": []}, "streamed"),
        ("read_nb_cells", {"path": "a.ipynb"}, "plain"),
        ("nobody_knows", {}, "streamed"),
    ],
)
async def test_only_a_call_that_may_take_long_is_streamed_or_a_task(
    monkeypatch: pytest.MonkeyPatch, tool: str, arguments: dict[str, Any], expected: str
) -> None:
    taken: list[str] = []

    def manager(*_: object, json_response: bool) -> Taken:
        return Taken("plain" if json_response else "streamed", taken)

    monkeypatch.setattr(transport, "_manager", manager)
    catalogue = make_workspace(Settings(toolsets=("all",)), "stdio").catalogue
    endpoint = transport.HttpEndpoint(MagicMock(), catalogue.is_long, 1_000_000)
    body = json.dumps({"method": "tools/call", "params": {"name": tool, "arguments": arguments}}).encode()
    version = (b"mcp-protocol-version", b"2026-07-28")
    headers = [version, (b"mcp-method", b"tools/call"), (b"mcp-name", tool.encode())]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(_message: object) -> None:
        raise AssertionError

    await endpoint({"headers": headers, PRINCIPAL_KEY: ANNE}, receive, send)
    assert taken == [expected]
    known = {one.name: one for toolset in catalogue.toolsets for one in toolset.tools}.get(tool)
    assert known is None or known.may_take_long(arguments) == (expected == "streamed")


@requirement("http:session-end")
async def test_a_message_that_meets_the_end_of_its_session_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    # The moment between the SDK's answer and its delivery to the session cannot be met with a real client.
    session_manager = MagicMock()
    session_manager.handle_request = AsyncMock(side_effect=anyio.ClosedResourceError)
    monkeypatch.setattr(transport, "_manager", MagicMock(return_value=session_manager))
    endpoint = transport.HttpEndpoint(MagicMock(), MagicMock(), 1_000_000)
    await endpoint({"headers": [], PRINCIPAL_KEY: ANNE}, AsyncMock(), AsyncMock())
    session_manager.handle_request.assert_awaited_once()
