"""What the page shows besides documents: who asks, what runs, what is known of the project."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TypedDict

from cellwright import __version__
from cellwright.app.page.states import StatesOnPage
from cellwright.app.workspace import Workspace
from cellwright.context.model import Discovery, Module, Session
from cellwright.core.errors import CellwrightError
from cellwright.core.text.clean import clean
from cellwright.core.text.names import on_one_line
from cellwright.core.types import Call
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.kernels.executions import Execution
from cellwright.jupyter.kernels.images import FittedImage
from cellwright.jupyter.shelf import PREFIX, path_of
from cellwright.jupyter.variables.inspecting import inspect_kernel
from cellwright.notebook.shelf import Card
from cellwright.web.mirror import MOST_CELLS
from cellwright.web.ports import RunningCode, SessionEntry, ShownStates

PARTS = ("notebooks", "pads", "thinking", "project")
MOST_SESSIONS = 20
MOST_DISCOVERIES = 200
CELLS = "/cells/"


class KeyFileEntry(TypedDict):
    path: str
    role: str
    description: str


class IssueEntry(TypedDict):
    description: str
    solution: str


class ModuleEntry(TypedDict):
    name: str
    description: str
    files: list[KeyFileEntry]
    patterns: list[str]
    rules: list[str]
    issues: list[IssueEntry]
    dependencies: list[str]


class DiscoveryEntry(TypedDict):
    id: str
    type: str
    content: str
    module: str
    solution: str
    created: str
    times: int


class WorkspaceFacts:
    """The facts of one workspace. Runs and sessions are those of the caller."""

    def __init__(self, workspace: Workspace, *, enter: bool) -> None:
        """`enter` says whether people log in with a token of ours; inside Jupyter they have logged in there."""
        self._workspace = workspace
        self._enter = enter
        self._states = StatesOnPage(workspace.notebooks)

    def state(self, call: Call) -> Mapping[str, object]:
        status = self._workspace.notebooks.status()
        connected = status.state.startswith("connected")
        return {
            "version": __version__,
            "you": call.principal.id,
            "scopes": sorted(scope.value for scope in call.principal.scopes),
            "workspace": self._workspace.settings.root.name,
            "jupyter": {"url": status.detail if connected else None},
            "parts": PARTS,
            "limits": {"cells": MOST_CELLS, "result_tokens": self._workspace.settings.result_tokens},
            "enter": self._enter,
        }

    # -- what runs -----------------------------------------------------------------------------------------------------------

    def running(self, owner: str) -> Sequence[RunningCode]:
        executions = self._workspace.notebooks.executions.of(owner)
        return [_running_code(execution) for execution in executions if not execution.ended]

    async def cancel(self, call: Call, execution: str) -> None:
        await self._workspace.notebooks.cancel(call, execution)

    def open_documents(self) -> frozenset[str]:
        return frozenset(path.text for path in self._workspace.notebooks.open_notebooks())

    async def lab(self, call: Call, uri: str) -> str:
        return await self._workspace.notebook_shelf.lab(call, uri)

    async def variables(self, call: Call, uri: str, name: str) -> Mapping[str, object]:
        inspection = await inspect_kernel(self._workspace.notebooks, call, path_of(uri), [name] if name else [])
        for key, picture in inspection.pictures.items():
            if isinstance(picture, FittedImage):
                image = f"data:{picture.mime_type};base64,{b64encode(picture.data).decode('ascii')}"
                (inspection.variables[key] or {})["image"] = image
        note = "There was no time to look at everything" if inspection.is_late else ""
        return {"variables": inspection.variables, "missing": inspection.missing, "more": inspection.more, "note": note}

    async def states(self, call: Call, uri: str) -> ShownStates | None:
        return await self._states.states(call, uri) if uri.startswith(PREFIX) else None

    async def graph(self, call: Call, uri: str, cell: str) -> Mapping[str, object]:
        return await self._states.graph(call, uri, cell)

    async def search(self, call: Call, query: str, limit: int) -> Sequence[Card]:
        kinds = [kind for shelf in self._workspace.exchange.shelves for kind in shelf.kinds]
        answer = await self._workspace.finder.search(call, query, kinds, limit)
        # A notebook may be found by several cells, of which the first is the best.
        cards: dict[str, Card] = {}
        for hit in answer.results:
            uri = (hit.uri or "").partition(CELLS)[0]
            if uri:
                cards.setdefault(uri, Card(hit.kind.value, uri, hit.title, hit.path or "", snippet=hit.snippet))
        return list(cards.values())

    # -- the project ---------------------------------------------------------------------------------------------------------

    async def sessions(self, call: Call) -> Sequence[SessionEntry]:
        return [_session(session) for session in await self._workspace.context.recent(call, MOST_SESSIONS)]

    async def project(self, call: Call) -> Mapping[str, object]:
        context = self._workspace.context
        facts: dict[str, object] = {"overview": None, "modules": [], "error": ""}
        try:
            project = await context.project()
        except CellwrightError as error:
            facts["error"] = str(error)
        else:
            facts["overview"] = {
                name: clean(value).text
                for name, value in (
                    ("name", project.name),
                    ("type", project.type),
                    ("runtime", project.runtime),
                    ("package_manager", project.package_manager),
                    ("pattern", project.pattern),
                    ("description", project.description),
                )
            } | {"stack": [clean(technology).text for technology in project.stack]}
            facts["modules"] = [_module(module) for module in project.modules.values()]
        discoveries = await context.discoveries()
        facts["discoveries"] = [_discovery(discovery) for discovery in discoveries[:MOST_DISCOVERIES]]
        facts["sessions"] = await self.sessions(call)
        return facts


def _running_code(execution: Execution) -> RunningCode:
    path = execution.checkpoint.document if execution.checkpoint else ""
    uri = f"{PREFIX}{DocPath(path).quoted}" if path else None
    current = next((cell for cell in execution.cells if not cell.state.ended), None)
    began = (current.started if current else None) or execution.created
    cell_id = current.job.cell_id if current else ""
    return RunningCode(execution.id, uri, cell_id, began.isoformat(timespec="milliseconds"), execution.state.value)


def _session(session: Session) -> SessionEntry:
    return {
        "id": session.id,
        "status": session.status.value,
        "client": on_one_line(session.client),
        "began": _moment(session.started),
        "last": _moment(session.last),
        "calls": session.calls,
        "failures": session.failures,
        "discoveries": session.discoveries,
        "topics": [on_one_line(topic) for topic in session.topics],
        "touched": [
            {"kind": place.kind, "path": on_one_line(place.path), "uri": place.uri} for place in session.touched[:10]
        ],
    }


def _module(module: Module) -> ModuleEntry:
    return {
        "name": on_one_line(module.name),
        "description": clean(module.description).text,
        "files": [
            {"path": on_one_line(file.path), "role": clean(file.role).text, "description": clean(file.description).text}
            for file in module.key_files
        ],
        "patterns": [clean(pattern).text for pattern in module.patterns],
        "rules": [clean(rule).text for rule in module.business_rules],
        "issues": [
            {"description": clean(issue.description).text, "solution": clean(issue.solution).text}
            for issue in module.common_issues
        ],
        "dependencies": [on_one_line(dependency) for dependency in module.dependencies],
    }


def _discovery(discovery: Discovery) -> DiscoveryEntry:
    return {
        "id": discovery.id,
        "type": discovery.type.value,
        "content": clean(discovery.content).text,
        "module": on_one_line(discovery.module),
        "solution": clean(discovery.solution).text,
        "created": _moment(discovery.created),
        "times": discovery.times,
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
