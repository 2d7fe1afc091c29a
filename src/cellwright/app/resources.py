"""`cellwright://`: the status of the workspace, and what each error code means."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from cellwright.app.results import compact_json
from cellwright.app.status import WorkspaceInfo
from cellwright.core.errors import NotFound, error_types
from cellwright.core.resources import Content, ResourceInfo, ResourceTemplate
from cellwright.core.types import Call

STATUS_URI = "cellwright://status"
ERRORS_PREFIX = "cellwright://errors/"
ERRORS_TEMPLATE = "cellwright://errors/{code}"


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
        return [ResourceInfo(STATUS_URI, "status", "What is connected, offered and running", "application/json")]

    async def read(self, call: Call, uri: str) -> Sequence[Content]:
        if uri == STATUS_URI:
            return [Content(compact_json(self._info.status(call)), "application/json")]
        code = uri.removeprefix(ERRORS_PREFIX)
        kind = next((kind for kind in error_types() if kind.code == code and uri.startswith(ERRORS_PREFIX)), None)
        if kind is None:
            raise NotFound(f"no resource {uri[:200]}", hint=f"there are {STATUS_URI} and {ERRORS_TEMPLATE}")
        return [
            Content(
                compact_json({"code": code, "meaning": kind.meaning, "retryable": kind.retryable}), "application/json"
            )
        ]

    async def watch(self, call: Call, uri: str) -> AbstractAsyncContextManager[object] | None:
        del call
        return nullcontext() if uri == STATUS_URI else None

    async def complete(self, call: Call, template: str, argument: str, prefix: str) -> Sequence[str]:
        del call
        if (template, argument) != (ERRORS_TEMPLATE, "code"):
            return []
        return sorted({kind.code for kind in error_types() if kind.code.startswith(prefix.upper())})
