"""Inside Jupyter nobody may do here what Jupyter's authorizer denies them there: every tool with every denial."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import psutil
import pytest

from cellwright.app.extension.admission import ASKED
from cellwright.app.settings import Settings
from cellwright.app.workspace import make_workspace
from cellwright.jupyter.documents.rooms import Rooms
from cellwright.jupyter.inside import permitted
from cellwright.jupyter.kernels.live import LiveKernels
from cellwright.jupyter.port import Documents, Forks, JupyterKernels
from extension_support import ExtensionProcess, bearer, modern
from jupyter_support import write_notebook
from requirements import requirement
from tour import ALL, MAIN, READ, TOUR, WRITE, Leaves, Step

# A token says itself who has it and what they may: token-NAME~action:resource~…; one without ~ may everything.
RULES = """
from jupyter_server.auth import Authorizer, IdentityProvider, User

class Users(IdentityProvider):
    async def get_user_token(self, handler):
        kind, _, rest = (self.get_token(handler) or "").partition("-")
        return User(username=rest.partition("~")[0]) if kind == "token" else None

class Rules(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        _, *granted = (self.identity_provider.get_token(handler) or "").split("~")
        return not granted or f"{action}:{resource}" in granted

c.ServerApp.identity_provider_class = Users
c.ServerApp.authorizer_class = Rules
"""
HTTP = httpx2.Client(timeout=120)
WHOLE_TOUR = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExtensionProcess]:
    options = "--CellwrightExtension.options={'toolsets': 'all', 'rate': 0}"
    with ExtensionProcess(tmp_path_factory.mktemp("authorizer"), options, config=RULES) as process:
        (process.root / "tide.py").write_text("tide = 1\n", encoding="utf-8")
        yield process


def token(granted: Leaves) -> str:
    return "~".join(["token-ada", *sorted(granted)])


def call(server: ExtensionProcess, tool: str, arguments: dict[str, Any], granted: Leaves = frozenset()) -> Any:
    """What a caller with just these leaves is answered; with none named, one who may everything. A refusal is its own words."""
    request = modern("tools/call", name=tool, arguments=arguments)
    headers = {**request["headers"], **bearer(token(granted))}
    answer = HTTP.post(server.mcp, json=request["json"], headers=headers)
    body = answer.json() if answer.text.startswith("{") else json.loads(answer.text.rpartition("data: ")[2])
    if answer.status_code == 403:
        return f"INSUFFICIENT_SCOPE: {body['error']}"
    result = body["result"]
    return result["content"][0]["text"] if result.get("isError") else result.get("structuredContent", {})


def jupyter(server: ExtensionProcess, what: str) -> Any:
    return HTTP.get(f"{server.url}/api/{what}", headers=bearer("token-operator")).json()


@dataclass(frozen=True)
class World:
    """All that a call could change: sessions, kernels, their processes, files, cells."""

    sessions: list[Any] = field(default_factory=list[Any])
    kernels: list[str] = field(default_factory=list[str])
    processes: set[int] = field(default_factory=set[int])
    files: set[str] = field(default_factory=set[str])
    cells: str = ""


def world(server: ExtensionProcess) -> World:
    process = psutil.Process(server.pid)
    is_kernel = [
        child for child in process.children(recursive=True) if "ipykernel_launcher" in " ".join(child.cmdline())
    ]
    made = (server.root / MAIN).exists()
    return World(
        sorted((one["id"], one["path"], one["kernel"]["id"]) for one in jupyter(server, "sessions")),
        sorted(one["id"] for one in jupyter(server, "kernels")),
        {child.pid for child in is_kernel},
        {
            name
            for path in server.root.rglob("*")
            if "/." not in (name := f"/{path.relative_to(server.root).as_posix()}")
        },
        json.dumps(call(server, "read_nb_cells", {"path": MAIN, "outputs": "full"})) if made else "",
    )


def settled(server: ExtensionProcess) -> World:
    """The world when the last call's late effects are over: each process has its kernel, and files are saved."""
    last = World()
    for _ in range(200):
        now = world(server)
        if now == last and len(now.processes) == len(now.kernels):
            return now
        last = now
    raise AssertionError(f"nothing was asked for, and it still changes: {last}")


@requirement("authorizer:matrix", "authorizer:needed-suffices")
@WHOLE_TOUR
def test_each_tool_is_refused_without_any_leave_it_needs_and_works_with_just_those(server: ExtensionProcess) -> None:
    answers: dict[str, Any] = {}
    wrong: list[str] = []
    for step in TOUR:
        arguments = step.made(answers)
        changes = step.needs > READ
        before = settled(server) if changes else World()
        for denied in sorted(step.needs):
            answer = call(server, step.tool, arguments, ALL - {denied})
            if not (isinstance(answer, str) and answer.startswith("INSUFFICIENT_SCOPE")):
                wrong.append(f"{step.tool} without {denied}: {answer}"[:300])
        if changes and (after := world(server)) != before:
            differing = [name for name, value in vars(before).items() if value != vars(after)[name]]
            told = {name: (vars(before)[name], vars(after)[name]) for name in differing}
            wrong.append(f"{step.tool} changed something while refused: {told}"[:3000])
        answer = call(server, step.tool, arguments, step.needs)
        assert not isinstance(answer, str), f"{step.tool} with all that it needs: {answer}"
        answers[step.tool] = answer
    assert wrong == []


def _tools(step: Step) -> str:
    return step.tool


@requirement("authorizer:matrix")
def test_the_matrix_has_every_tool(tmp_path: Any) -> None:
    made = make_workspace(Settings(root=tmp_path, state_dir=tmp_path / "state", toolsets=("all",)), "stdio")
    assert {tool.name for toolset in made.catalogue.toolsets for tool in toolset.tools} == set(map(_tools, TOUR))


@requirement("authorizer:port")
@pytest.mark.parametrize(
    ("port", "needed"),
    [
        (Documents, permitted.DOCUMENTS),
        (Forks, permitted.FORKS),
        (JupyterKernels, permitted.KERNELS),
    ],
)
def test_every_method_of_the_port_says_which_leave_it_needs(port: type, needed: dict[str, Any]) -> None:
    assert {name for name in vars(port) if not name.startswith("_")} == set(needed)


@requirement("authorizer:port")
@pytest.mark.parametrize(("kept", "needed"), [(Rooms, permitted.ROOMS), (LiveKernels, permitted.QUEUES)])
def test_what_all_callers_share_is_reached_by_named_methods_only(kept: type, needed: dict[str, Any]) -> None:
    assert set(needed) <= set(vars(kept))


@requirement("authorizer:port")
def test_all_leaves_that_are_needed_anywhere_are_asked_for() -> None:
    tables = (permitted.DOCUMENTS, permitted.FORKS, permitted.KERNELS, permitted.ROOMS, permitted.QUEUES)
    needed = {leave for table in tables for leaves in table.values() for leave in leaves} | set(permitted.RUNNING)
    assert needed <= set(ASKED)
    assert {f"{leave.action}:{leave.resource}" for leave in ASKED} == ALL


@requirement("authorizer:sessions-stay")
def test_who_may_not_touch_sessions_renames_files_and_moves_no_session(server: ExtensionProcess) -> None:
    write_notebook(server.root, "theirs.ipynb", ["1"])
    assert not isinstance(call(server, "execute_nb_cells", {"path": "theirs.ipynb", "cells": "all"}), str)
    before = jupyter(server, "sessions")
    for granted, (old, new) in (
        (WRITE, ("theirs.ipynb", "mine.ipynb")),
        (WRITE, ("mine.ipynb", "theirs.ipynb")),
        (WRITE | {"read:sessions"}, ("theirs.ipynb", "ours.ipynb")),
    ):
        told = call(server, "rename_document", {"path": old, "newPath": new}, granted)
        assert "does not let you" in told["kernels"]
    (bound,) = [one["path"] for one in before if one["path"] == "theirs.ipynb"]
    assert bound in [one["path"] for one in jupyter(server, "sessions")]
    told = call(server, "delete_document", {"path": "ours.ipynb"}, WRITE)
    assert told["kernel"]["ended"] is False
    assert len(jupyter(server, "sessions")) == len(before)
    call(server, "shutdown_nb_kernel", {"path": "theirs.ipynb"})


@requirement("authorizer:sessions-hidden")
def test_who_may_not_see_sessions_and_kernels_is_told_so_and_sees_none(server: ExtensionProcess) -> None:
    write_notebook(server.root, "seen.ipynb", ["1"])
    assert not isinstance(call(server, "execute_nb_cells", {"path": "seen.ipynb", "cells": "all"}), str)
    stat = call(server, "get_nb_stat", {"path": "seen.ipynb"}, READ)
    assert stat["kernel"] is None
    assert "does not let you read sessions" in stat["kernel_note"]
    assert call(server, "get_nb_stat", {"path": "seen.ipynb"})["kernel"]["name"] == "python3"
    status = call(server, "workspace_status", {}, READ)
    assert "does not let you read kernelspecs" in status["cells_run_in"]
    call(server, "shutdown_nb_kernel", {"path": "seen.ipynb"})
