"""The `workspace` toolset: what is here, what is connected, what may be used, what is wrong."""

import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from cellwright import __version__
from cellwright.app.doctor import Report, examine
from cellwright.app.settings import Settings
from cellwright.app.tasks import Tasks
from cellwright.core.budget import MAX_TOKENS
from cellwright.core.status import Part, PartStatus
from cellwright.core.toolset import Toolset, read, run
from cellwright.core.types import Call, Principal

OfferedNames = Callable[[Principal], dict[str, list[str]]]


@dataclass(frozen=True)
class Status:
    """What `workspace_status` answers."""

    version: str
    python: str
    root: str
    transport: str
    you: str
    scopes: list[str]
    toolsets: dict[str, list[str]]
    read_only: bool
    parts: list[PartStatus]
    running_tasks: int
    limits: dict[str, int]


@dataclass(frozen=True)
class WorkspaceInfo:
    """The service of this toolset: everything that can be told without asking anybody."""

    settings: Settings
    transport: str
    tasks: Tasks
    offered: OfferedNames
    parts: tuple[Part, ...] = field(default=())

    def status(self, call: Call) -> Status:
        settings = self.settings
        return Status(
            version=__version__,
            python=f"{platform.python_version()} on {sys.platform}, pid {os.getpid()}",
            root=str(settings.root),
            transport=self.transport,
            you=call.principal.id,
            scopes=sorted(scope.value for scope in call.principal.scopes),
            toolsets=self.offered(call.principal),
            read_only=settings.read_only,
            parts=[part.status() for part in self.parts],
            running_tasks=self.tasks.count(call.principal.id),
            limits={
                "result_tokens": settings.result_tokens,
                "max_result_tokens": MAX_TOKENS,
                "tasks": settings.max_tasks,
                "task_ttl_seconds": round(settings.task_ttl),
                "request_bytes": settings.max_body,
            },
        )


async def workspace_status(info: WorkspaceInfo, call: Call) -> Status:
    """What this workspace is: root folder, what is connected, which tools you have, what is running, limits. Call it first."""
    return info.status(call)


async def workspace_doctor(info: WorkspaceInfo, call: Call) -> Report:
    """Check the installation: versions, Jupyter servers, collaboration, token, kernel start, database; each with a remedy."""

    async def told(done: int, total: int, name: str) -> None:
        await call.progress(done, total, name)

    return await examine(info.settings, told)


def workspace_toolset(info: WorkspaceInfo) -> Toolset:
    # The doctor starts a kernel to see that it starts, so it needs the scope for running code.
    return Toolset(
        "workspace",
        "what is here and whether it works; one search over everything; anything like a notebook into anything else",
        (read(workspace_status), run(workspace_doctor)),
        info,
    )
