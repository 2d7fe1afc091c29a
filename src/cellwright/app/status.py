"""The `workspace` toolset: what the workspace is, what is connected, what may be used, and what is wrong."""

import os
import platform
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache

from cellwright import __version__
from cellwright.app.cli.doctor import Report, examine
from cellwright.app.installed import broken_parts
from cellwright.app.protocol.tasks import Tasks
from cellwright.app.settings import Settings
from cellwright.core.status import Part, PartStatus
from cellwright.core.text.budget import MAX_TOKENS
from cellwright.core.toolset import Toolset, read, run
from cellwright.core.types import Call, Principal
from cellwright.jupyter.inside.permitted import READ_KERNELS, WRITE_KERNELS, require
from cellwright.system.files import why_not_writable

OfferedNames = Callable[[Principal], dict[str, list[str]]]


@dataclass(frozen=True)
class Status:
    """What `workspace_status` answers."""

    version: str
    python: str
    cells_run_in: str
    root: str
    transport: str
    you: str
    scopes: list[str]
    toolsets: list[str]
    off: str
    read_only: bool
    parts: list[PartStatus]
    running_tasks: int
    limits: dict[str, int]
    notes: list[str]


@dataclass(frozen=True)
class WorkspaceInfo:
    """The service of this toolset: what can be said about the workspace without starting anything."""

    settings: Settings
    transport: str
    tasks: Tasks
    offered: OfferedNames
    which_python: Callable[[Call], Awaitable[str]]
    off: Callable[[Call], str]
    """One line that says what the caller is not offered, why, and how to get it."""
    parts: tuple[Part, ...] = field(default=())

    async def status(self, call: Call) -> Status:
        settings = self.settings
        notes = list(settings.notes)
        if reason := why_not_writable(settings.state_dir):
            notes.append(f"nothing can be kept in {settings.state_dir}: {reason}; name another folder with --state-dir")
        return Status(
            version=__version__,
            python=f"{platform.python_version()} on {sys.platform}, pid {os.getpid()}",
            cells_run_in=await self.which_python(call),
            root=str(settings.root),
            transport=self.transport,
            you=call.principal.id,
            scopes=sorted(scope.value for scope in call.principal.scopes),
            toolsets=list(self.offered(call.principal)),
            off=self.off(call),
            read_only=settings.read_only,
            parts=[*incomplete_installation(), *(part.status() for part in self.parts)],
            running_tasks=self.tasks.count(call.principal.id),
            limits={
                "result_tokens": settings.result_tokens,
                "max_result_tokens": MAX_TOKENS,
                "tasks": settings.max_tasks,
                "task_ttl_seconds": round(settings.task_ttl),
                "request_bytes": settings.max_body,
            },
            notes=notes,
        )


@cache
def incomplete_installation() -> tuple[PartStatus, ...]:
    """The required parts that this installation lacks, one line each; empty if it is complete."""
    return tuple(
        PartStatus(part.name, "not installed", f"{', '.join(part.missing)} missing: {part.remedy}")
        for part in broken_parts()
    )


async def workspace_status(info: WorkspaceInfo, call: Call) -> Status:
    """What this workspace is: root folder, which Python runs cells, what is connected, toolsets, what runs, limits. Call it first."""
    return await info.status(call)


async def workspace_doctor(info: WorkspaceInfo, call: Call) -> Report:
    """Check the installation: versions, Jupyter servers, collaboration, token, kernel start, database; each with a remedy."""

    require(call.principal, READ_KERNELS, WRITE_KERNELS)

    async def report_progress(finished: int, total: int, name: str) -> None:
        await call.progress(finished, total, name)

    return await examine(info.settings, report_progress)


def workspace_toolset(info: WorkspaceInfo) -> Toolset:
    # The doctor starts a kernel to see that it starts, so it needs the scope for running code.
    return Toolset(
        "workspace",
        "what is here and whether it works; one search over everything; anything like a notebook into anything else",
        (read(workspace_status), run(workspace_doctor)),
        info,
    )
