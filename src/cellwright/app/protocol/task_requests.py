"""The tasks extension: calls of long tools that become tasks, and the requests about those tasks."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mcp import MCPError
from mcp import types as wire
from pydantic import Field

from cellwright.app.http.messages import MODERN
from cellwright.app.offers.catalogue import OfferedTool
from cellwright.app.protocol.calls import ToolCalls
from cellwright.app.protocol.convert import as_result, protocol_error
from cellwright.app.protocol.results import answer_error
from cellwright.app.protocol.tasks import Task, Tasks
from cellwright.app.protocol.watching import Context
from cellwright.core.errors import CellwrightError
from cellwright.core.text.clean import shown
from cellwright.core.types import Call, Principal

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"


class TaskParams(wire.RequestParams):
    """The parameters of `tasks/get`, `tasks/cancel` and `tasks/update`."""

    task_id: str = Field(alias="taskId")


def knows_tasks(ctx: Context) -> bool:
    """Whether the client declared the tasks extension."""
    declared = ctx.session.client_capabilities
    return ctx.protocol_version == MODERN and bool(declared and TASKS_EXTENSION in (declared.extensions or {}))


class TaskRequests:
    """Makes calls as tasks and answers requests about them. `principal_of` tells who sent a request."""

    def __init__(self, tasks: Tasks, calls: ToolCalls, principal_of: Callable[[Context], Principal]) -> None:
        self._tasks = tasks
        self._calls = calls
        self._principal_of = principal_of

    async def call(
        self, call: Call, offered: OfferedTool, arguments: Mapping[str, Any]
    ) -> wire.CallToolResult | dict[str, Any]:
        """The result of the call if it is there within a moment, or else a task."""

        async def work(task: Task) -> dict[str, Any]:
            async def note(_done: float, _total: float | None, message: str) -> None:
                self._tasks.note(task, shown(message))

            # A task goes on when its client leaves; it is cancelled only by a request that says so.
            task_call = replace(call, report=note, may_have_left=False)
            answer = await self._calls.run(task_call, offered, arguments)
            return {"result": as_result(answer).model_dump(by_alias=True, mode="json", exclude_none=True)}

        try:
            task = await self._tasks.start(call.principal, work)
        except CellwrightError as error:
            return as_result(answer_error(error))
        if task.status == "completed":
            self._tasks.forget(task)
            return wire.CallToolResult.model_validate(task.outcome["result"])
        return {"resultType": "task", **task.as_json(self._tasks.ttl)}

    async def get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        return {"resultType": "complete", **self._find(ctx, params).as_json(self._tasks.ttl)}

    async def cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        self._tasks.cancel(self._find(ctx, params))
        return {"resultType": "complete"}

    async def update(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        self._find(ctx, params)
        return {"resultType": "complete"}

    def _find(self, ctx: Context, params: TaskParams) -> Task:
        if ctx.protocol_version != MODERN:
            raise MCPError(wire.METHOD_NOT_FOUND, "Method not found")
        if not knows_tasks(ctx):
            data: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
            raise MCPError(
                wire.MISSING_REQUIRED_CLIENT_CAPABILITY, "the client did not declare the tasks extension", data
            )
        header_name = getattr(ctx.request, "headers", {}).get("mcp-name", params.task_id)
        if header_name != params.task_id:
            raise MCPError(wire.HEADER_MISMATCH, "the mcp-name header is not params.taskId")
        try:
            return self._tasks.find(self._principal_of(ctx), params.task_id)
        except CellwrightError as error:
            raise protocol_error(error) from None
