"""The session tools through a real client, a real server of ours and a real Jupyter."""

import json
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Protocol

import pytest

from cellwright.app.workspace import local_user
from cellwright.core.errors import Conflict
from cellwright.core.types import Call, Secret
from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.rooms import REMEMBER_SECONDS, Rooms
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.model import RoomKind
from cellwright.jupyter.notebooks.notebook import SourceChange
from cellwright.jupyter.port import Jupyter
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.jupyter.server.connect import to_named
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.documents.common import DocumentFiles
from cellwright.jupyter.tools.documents.toolset import get_document_content, insert_document_text
from cellwright.jupyter.tools.sessions import query_document_session
from cellwright.notebook.addressing import CellRange
from jupyter_support import JupyterServer, PersonIn, eventually, read_only, write_notebook
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import HttpServer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

TOOLS = ("--toolsets", "notebooks,documents,sessions")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Connect(Protocol):
    def __call__(self) -> AbstractAsyncContextManager[Agent]: ...


@pytest.fixture(scope="module")
def ours(jupyter_server: JupyterServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    with in_front_of(jupyter_server, tmp_path_factory.mktemp("ours"), *TOOLS) as server:
        yield server


@pytest.fixture
def agent(ours: HttpServer) -> Connect:
    @asynccontextmanager
    async def connect() -> AsyncGenerator[Agent]:
        async with agent_of(ours) as one:
            yield one

    return connect


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@requirement("sessions:query", "sessions:end")
async def test_notebook_sessions_from_open_to_ended(
    agent: Connect, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    one, two = f"{folder}/a/one.ipynb", f"{folder}/two.ipynb"
    file = write_notebook(jupyter_server.root, one, ["1", "2", "3"])
    write_notebook(jupyter_server.root, two, ["1"])
    async with agent() as do, person(one) as them:
        them.announce("Ada")
        await them.settle()
        empty = await do("query_nb_sessions", root_path=folder)
        assert empty == {"root_path": folder, "sessions": [], "total_sessions": 0, "active_sessions": 0}
        before = datetime.now(UTC)
        await do("get_nb_stat", path=two)
        await do("modify_nb_cells", path=one, modifications=[{"range": {"start": 0}, "content": "x"}], exec=False)
        after = datetime.now(UTC)
        found = await do("query_nb_sessions", root_path=f"/{folder}")
        assert (found["root_path"], found["total_sessions"], found["active_sessions"]) == (folder, 2, 2)
        first, second = found["sessions"]
        assert set(first) == {
            *("path", "session_id", "file_id", "status", "cell_count", "last_activity", "message", "live", "people")
        }
        assert (first["path"], first["status"], first["cell_count"]) == (one, "connected", 3)
        assert first["session_id"] == f"json:notebook:{first['file_id']}"
        assert before <= moment(first["last_activity"]) <= after
        assert second["cell_count"] == 1
        # Asking is no activity, and a folder further down shows less.
        again = await do("query_nb_sessions", root_path=f"{folder}/a")
        assert [session["last_activity"] for session in again["sessions"]] == [first["last_activity"]]
        ended = await do("end_nb_session", path=one)
        assert ended == {"path": one, "status": "disconnected", "message": "Saved and left", "saved": True}
        assert json.loads(file.read_text(encoding="utf-8"))["cells"][0]["source"] == ["x"]
        untouched = (jupyter_server.root / two).stat().st_mtime_ns
        assert (await do("end_nb_session", path=two))["message"] == "Left; there was nothing to save"
        assert (jupyter_server.root / two).stat().st_mtime_ns == untouched
        found = await do("query_nb_sessions", root_path=folder)
        assert (found["total_sessions"], found["active_sessions"]) == (2, 0)
        gone = found["sessions"][0]
        assert (gone["status"], gone["cell_count"], gone["last_activity"]) == (
            *("disconnected", 3),
            first["last_activity"],
        )
        assert (await do("end_nb_session", path=one))["status"] == "disconnected"
        assert await do.sources(one) == ["x", "2", "3"]
        assert (await do("query_nb_sessions", root_path=folder))["active_sessions"] == 1


@requirement("sessions:query", "sessions:end", "sessions:unknown")
async def test_document_sessions_from_open_to_ended(agent: Connect, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/d.md"
    file = jupyter_server.root / path
    file.write_text("text", encoding="utf-8")
    keys = {"path", "session_id", "file_id", "status", "last_activity", "message", "live", "people"}
    async with agent() as do:
        unknown = await do("query_document_session", path=f"/{path}")
        assert set(unknown) == keys
        assert (unknown["path"], unknown["status"], unknown["session_id"]) == (path, "not_found", None)
        for tool in ("end_document_session", "end_nb_session"):
            never = await do(tool, path=f"{folder}/never.ipynb")
            assert (never["status"], never["saved"]) == ("not_found", None)
        made = await do("insert_document_text", path=path, position=0, text="more ")
        session = await do("query_document_session", path=path)
        assert set(session) == keys
        assert (session["status"], session["session_id"]) == ("connected", f"text:file:{session['file_id']}")
        ended = await do("end_document_session", path=path)
        assert (ended["status"], ended["saved"]) == ("disconnected", True)
        assert file.read_text(encoding="utf-8") == "more text"
        left = await do("query_document_session", path=path)
        assert (left["status"], left["last_activity"]) == ("disconnected", session["last_activity"])
        assert (await do("get_document_content", path=path))["revision"] == made["revision"]
        assert (await do("query_document_session", path=path))["status"] == "connected"
        for tool, arguments in (
            ("query_document_session", {"path": "../x"}),
            ("end_document_session", {"path": ""}),
            ("end_nb_session", {"path": path}),
            ("query_nb_sessions", {"root_path": path}),
        ):
            assert (await do.error(tool, **arguments))["code"] == "INVALID_ARGUMENT"
        assert (await do.error("query_nb_sessions", root_path=f"{folder}/none"))["code"] == "NOT_FOUND"


@requirement("sessions:end")
async def test_what_cannot_be_saved_is_said(agent: Connect, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/ro.md"
    file = jupyter_server.root / path
    file.write_text("text", encoding="utf-8")
    async with agent() as do:
        with read_only(file):
            await do("insert_document_text", path=path, position=0, text="more ")
            ended = await do("end_document_session", path=path)
        assert (ended["status"], ended["saved"]) == ("disconnected", False)
        assert "not on disk" in ended["message"]


@requirement("sessions:idle")
async def test_a_document_is_left_when_nobody_uses_it(jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/idle.md"
    (jupyter_server.root / path).write_text("text", encoding="utf-8")
    address = JupyterAddress.parse(jupyter_server.url, token=Secret(jupyter_server.token))
    notebooks = LiveNotebooks(to_named(address, None), lambda: datetime.now(UTC), idle_seconds=0.3)
    call = Call(local_user())
    try:
        files = DocumentFiles(notebooks)
        await insert_document_text(files, call, path, position=0, text="more ")
        session = await query_document_session(notebooks, call, path)
        assert session["status"] == "connected"
        rooms = (await notebooks.connected(call)).rooms
        await eventually(lambda: not rooms.open_rooms()[0].connected, "the document being left")
        session = await query_document_session(notebooks, call, path)
        assert session["status"] == "disconnected"
        assert session["last_activity"] is not None
        assert moment(session["last_activity"]) < datetime.now(UTC) - timedelta(seconds=0.3)
        assert (await get_document_content(files, call, path)).data["content"] == "more text"
        assert (await query_document_session(notebooks, call, path))["status"] == "connected"
    finally:
        await notebooks.close()


@requirement("sessions:end")
async def test_it_is_remembered_for_an_hour_however_long_it_was_idle(
    jupyter: Jupyter, jupyter_server: JupyterServer, folder: str
) -> None:
    clock = [NOON]
    rooms = Rooms(jupyter.documents, Collaborator(), now=lambda: clock[0])
    path = NotebookPath(f"{folder}/n.ipynb")
    write_notebook(jupyter_server.root, path.text, ["1", "2"])
    try:
        async with rooms.notebook(path) as opened:
            clock[0] = NOON + timedelta(minutes=1)
            in_use = rooms.find(path, RoomKind.NOTEBOOK)
            assert in_use is not None
            assert (in_use.in_use, in_use.last_activity) == (1, clock[0])
            await opened.change(lambda view: view.replace([SourceChange(CellRange(start=0), "new")]))
        clock[0] = left = NOON + timedelta(hours=3)
        await rooms.end(path, RoomKind.NOTEBOOK)
        clock[0] = left + timedelta(seconds=REMEMBER_SECONDS - 1)
        room = rooms.find(path, RoomKind.NOTEBOOK)
        assert room is not None
        assert (room.connected, room.left, room.saved, room.cell_count) == (False, left, True, 2)
        assert room.last_activity == NOON + timedelta(minutes=1)
        clock[0] = left + timedelta(seconds=REMEMBER_SECONDS + 1)
        assert rooms.find(path, RoomKind.NOTEBOOK) is None
    finally:
        await rooms.close()


@requirement("memory:kept")
async def test_of_documents_that_were_left_so_many_are_remembered(
    rooms: Rooms, jupyter_server: JupyterServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellwright.jupyter.documents.rooms.MOST_REMEMBERED", 3, raising=False)
    for name in ("a.md", "b.md", "c.md", "a.md", "d.md"):
        path = DocPath(f"{folder}/{name}")
        (jupyter_server.root / path.text).write_text("text", encoding="utf-8")
        async with rooms.document(path):
            pass
        assert await rooms.end(path, RoomKind.TEXT)
    assert [room.path.rpartition("/")[2] for room in rooms.open_rooms()] == ["c.md", "a.md", "d.md"]


@requirement("sessions:end")
async def test_a_folder_is_let_go_as_a_whole_or_not_at_all(
    rooms: Rooms, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    for name in ("a/x.md", "a/y.md", "ab.md"):
        file = jupyter_server.root / folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("text", encoding="utf-8")
    paths = [DocPath(f"{folder}/{name}") for name in ("a/x.md", "a/y.md", "ab.md")]
    for path in paths:
        async with rooms.document(path) as opened:
            await opened.change(lambda view: view.insert(0, "new "))
    async with person(paths[0].text, "file") as them, rooms.document(paths[1]):
        them.announce("Ada")
        await eventually(lambda: any(room.others for room in rooms.open_rooms()), "Ada being seen")
        with pytest.raises(Conflict, match="in use"):
            await rooms.let_go(DocPath(f"{folder}/a"))
        assert [room.connected for room in rooms.open_rooms()] == [True, True, True]
    async with person(paths[0].text, "file") as them:
        them.announce("Ada")
        await eventually(lambda: any(room.others for room in rooms.open_rooms()), "Ada being seen")
        assert await rooms.let_go(DocPath(f"{folder}/a")) == ("Ada",)
    states = {room.path: (room.connected, room.saved) for room in rooms.open_rooms()}
    assert [states[path.text] for path in paths] == [(False, True), (False, True), (True, None)]
