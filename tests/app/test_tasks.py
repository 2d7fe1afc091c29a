"""Long calls as tasks."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cellwright.app.tasks import Task, Tasks
from cellwright.core.errors import LimitReached, NotFound
from cellwright.core.types import ALL_SCOPES, Principal
from requirements import requirement
from support import HttpServer, http_server, until

pytestmark = pytest.mark.anyio
PROBE = Path(__file__).parent.parent / "probe.py"
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
    tasks = Tasks(ttl=10, most=5)
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
    tasks = Tasks(ttl=10, most=2, clock=now)
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
    tasks = Tasks(ttl=10, most=2, on_change=told.append)
    task = await tasks.start(ANNE, endless)
    tasks.cancel(task)
    assert task.job is not None
    await asyncio.wait({task.job}, timeout=5)
    assert task.job.cancelled()
    assert task.status == "cancelled"
    assert told == ["anne", "anne"]


async def test_a_caller_that_leaves_before_it_has_the_task_takes_the_work_along() -> None:
    tasks = Tasks(ttl=10, most=2)
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
