"""`cellwright://`: the status of the workspace, and what each error code means."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import asdict

from cellwright.app.protocol.results import compact_json
from cellwright.app.status import WorkspaceInfo
from cellwright.core.errors import ErrorCode, NotFound, error_codes
from cellwright.core.resources import Content, ResourceInfo, ResourceTemplate
from cellwright.core.types import Call
from cellwright.scratch.model import ENVELOPE_CODES

STATUS_URI = "cellwright://status"
ERRORS_PREFIX = "cellwright://errors/"
ERRORS_TEMPLATE = "cellwright://errors/{code}"


FIXED = (
    ResourceInfo(STATUS_URI, "status", "What is connected, offered and running; can be watched", "application/json"),
)
"""The resources whose addresses never change."""


def all_codes() -> dict[str, ErrorCode]:
    """Every error code that a tool can answer with."""
    return error_codes() | {code.code: code for code in ENVELOPE_CODES}


class WorkspaceResources:
    """The resources of the program itself."""

    scheme = "cellwright"

    def __init__(self, info: WorkspaceInfo) -> None:
        self._info = info

    def templates(self) -> Sequence[ResourceTemplate]:
        return [
            ResourceTemplate(
                ERRORS_TEMPLATE, "error", "What an error code means and whether to retry", "application/json"
            )
        ]

    async def list(self, call: Call) -> Sequence[ResourceInfo]:
        del call
        return FIXED

    async def read(self, call: Call, uri: str) -> Sequence[Content]:
        if uri == STATUS_URI:
            return [Content(compact_json(await self._info.status(call)), "application/json")]
        code = all_codes().get(uri.removeprefix(ERRORS_PREFIX)) if uri.startswith(ERRORS_PREFIX) else None
        if code is None:
            raise NotFound(f"no resource {uri[:200]}", hint=f"there are {STATUS_URI} and {ERRORS_TEMPLATE}")
        return [Content(compact_json(asdict(code)), "application/json")]

    async def watch(self, call: Call, uri: str) -> AbstractAsyncContextManager[object] | None:
        del call
        return nullcontext() if uri == STATUS_URI else None

    async def complete(self, call: Call, template: str, argument: str, prefix: str) -> Sequence[str]:
        del call
        if (template, argument) != (ERRORS_TEMPLATE, "code"):
            return []
        return sorted(code for code in all_codes() if code.startswith(prefix.upper()))
