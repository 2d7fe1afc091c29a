"""Shared documents, against a real server and a second Y client as the person. These hold for every adapter of the port."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import pytest
from pycrdt import (
    Decoder,
    Doc,
    Text,
    YMessageType,
    handle_sync_message,  # pyright: ignore[reportUnknownVariableType] - its Doc has no parameter
    write_message,
)

from cellwright.core.errors import CellwrightError, Conflict, InvalidArgument, NotFound, Unavailable
from cellwright.jupyter.documents.open_document import DocumentChanged, OpenDocument
from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.room import RAW, Room, Saved
from cellwright.jupyter.documents.rooms import Rooms
from cellwright.jupyter.edits.undo import undo
from cellwright.jupyter.errors import UnknownOutcome
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.model import NewCell, RoomKind
from cellwright.jupyter.notebooks.notebook import LiveNotebook, SourceChange
from cellwright.jupyter.port import Jupyter, RoomAccess, RoomChannel, RoomClosed
from cellwright.notebook.addressing import at, by_id
from cellwright.notebook.model import InvalidFormat, Kind
from jupyter_support import JupyterServer, PersonIn, eventually, person_in, read_only, sources_on_disk, write_notebook
from requirements import requirement

pytestmark = pytest.mark.anyio


def sources(opened: OpenDocument[LiveNotebook]) -> list[str]:
    return [head.source for head in opened.view.outline()]


@pytest.fixture
def path(jupyter_server: JupyterServer, folder: str) -> NotebookPath:
    """A notebook of three cells on the shared server."""
    write_notebook(jupyter_server.root, f"{folder}/n.ipynb", ["one", "two", "three"])
    return NotebookPath(f"{folder}/n.ipynb")


@pytest.fixture
async def other_rooms(jupyter: Jupyter) -> AsyncGenerator[Rooms]:
    """A second agent."""
    opened = Rooms(jupyter.documents, Collaborator("Second Agent"))
    try:
        yield opened
    finally:
        await opened.close()


@requirement("documents:room:join")
async def test_joining_gives_what_people_typed_and_did_not_save(
    rooms: Rooms, path: NotebookPath, person: PersonIn
) -> None:
    async with person(path.text) as them:
        them.text_of(1).insert(0, "typed just now: ")
        await them.settle()
        async with rooms.notebook(path) as opened:
            assert sources(opened) == ["one", "typed just now: two", "three"]
            assert opened.live


@requirement("documents:room:acknowledged")
async def test_whoever_joins_after_an_acknowledged_edit_sees_it(
    rooms: Rooms, path: NotebookPath, person: PersonIn
) -> None:
    async with rooms.notebook(path) as opened:
        for turn in range(5):
            ids, known = await opened.change(lambda notebook: notebook.insert(-1, [NewCell(f"turn {turn}")]))  # noqa: B023
            assert (known.live, known.saved, len(ids)) == (True, not known.not_saved, 1)
            async with person(path.text) as them:
                assert them.sources[-1] == f"turn {turn}"


@requirement("documents:room:live")
async def test_person_and_agent_see_each_other_at_once(rooms: Rooms, path: NotebookPath, person: PersonIn) -> None:
    async with rooms.notebook(path) as opened, person(path.text) as them:
        await opened.change(lambda notebook: notebook.replace([SourceChange(at(0), "one, by the agent")]))
        await eventually(lambda: them.sources[0] == "one, by the agent", "the agent's edit")
        them.text_of(2).insert(0, "é😀 ")
        await eventually(lambda: sources(opened)[2] == "é😀 three", "the person's edit")


@requirement("documents:notebook:minimal", "documents:room:live")
async def test_person_and_agent_type_in_the_same_cell_and_nothing_is_lost(
    rooms: Rooms, jupyter_server: JupyterServer, folder: str
) -> None:
    path = NotebookPath(f"{folder}/same.ipynb")
    write_notebook(jupyter_server.root, path.text, ["top\nmiddle\nbottom\n"])
    typed = "".join(f"k{i};" for i in range(60))
    async with rooms.notebook(path) as opened, person_in(jupyter_server, path.text) as them:

        async def type_slowly() -> None:
            for key in typed:
                text = them.text_of(0)
                text.insert(str(text).encode().index(b"bottom"), key)
                await asyncio.sleep(0.002)

        typing = asyncio.create_task(type_slowly())
        for turn in range(25):

            def add_a_line(notebook: LiveNotebook, turn: int = turn) -> None:
                source = notebook.head(0).source
                notebook.replace([SourceChange(at(0), f"agent {turn} é\n{source}")])

            await opened.change(add_a_line)
        await typing
        await them.settle()
        expected = "".join(f"agent {turn} é\n" for turn in reversed(range(25))) + f"top\nmiddle\n{typed}bottom\n"
        await eventually(lambda: sources(opened) == them.sources == [expected], "the same text on both sides")


@requirement("documents:notebook:undo")
async def test_undo_takes_back_only_the_agents_own_work(rooms: Rooms, path: NotebookPath, person: PersonIn) -> None:
    async with rooms.notebook(path) as opened, person(path.text) as them:
        await opened.change(lambda notebook: notebook.replace([SourceChange(at(0), "one by agent")]))
        await eventually(lambda: them.sources[0] == "one by agent", "the agent's edit")
        them.text_of(0).insert(0, "# person\n")
        them.text_of(1).insert(0, "person ")
        await eventually(lambda: sources(opened)[1] == "person two", "the person's edits")
        await opened.change(undo)
        await eventually(lambda: them.sources == ["# person\none", "person two", "three"], "the undo")


@requirement("documents:notebook:ids", "documents:notebook:expect")
async def test_a_cell_inserted_above_by_a_person_does_not_shift_the_agents_edit(
    rooms: Rooms, path: NotebookPath, person: PersonIn
) -> None:
    async with rooms.notebook(path) as opened, person(path.text) as them:
        seen = opened.view.head(1)
        moved = them.cells[0]["source"]
        moved.insert(0, "x")
        del them.cells[0]
        await eventually(lambda: opened.view.cell_count == 2, "the deletion")
        with pytest.raises(Conflict) as conflict:
            await opened.change(lambda n: n.replace([SourceChange(at(1), "wrong cell", expect=seen.revision)]))
        assert conflict.value.details["cell_id"] == "c2"
        await opened.change(lambda n: n.replace([SourceChange(by_id(seen.id), "right cell", expect=seen.revision)]))
        await eventually(lambda: them.sources == ["right cell", "three"], "the edit")


@requirement("documents:room:presence")
async def test_people_see_the_agent_where_it_works_and_see_it_leave(
    jupyter: Jupyter, path: NotebookPath, person: PersonIn
) -> None:
    agent = Rooms(jupyter.documents, Collaborator("Ada's Agent", color="#00aa55"))
    async with person(path.text) as them:
        try:
            async with agent.notebook(path) as opened:

                def users() -> list[dict[str, str]]:
                    return [s["user"] for s in them.awareness.states.values() if "user" in s]

                await eventually(lambda: [u["name"] for u in users()] == ["Ada's Agent"], "the agent's name")
                assert users()[0]["color"] == "#00aa55"
                assert users()[0]["initials"] == "AA"
                await opened.change(lambda notebook: notebook.replace([SourceChange(at(1), "two!")]))
                await eventually(
                    lambda: any(state.get("cursors") for state in them.awareness.states.values()), "the agent's cursor"
                )
                them.announce("Grace")
                await eventually(lambda: opened.others == ("Grace",), "the person's name")
        finally:
            await agent.close()
        await eventually(lambda: users() == [{"name": "Grace", "username": "Grace"}], "the agent leaving")


@requirement("documents:room:presence")
async def test_a_newcomer_is_told_of_the_agent_without_waiting(
    rooms: Rooms, path: NotebookPath, person: PersonIn
) -> None:
    async with rooms.notebook(path), person(path.text) as newcomer:
        newcomer.announce("Newcomer")
        await eventually(
            lambda: any(s.get("user", {}).get("name") == "Test Agent" for s in newcomer.awareness.states.values()),
            "the agent's name",
            seconds=5,
        )


@requirement("documents:room:client-id")
async def test_client_ids_fit_into_32_bits(jupyter: Jupyter, path: NotebookPath) -> None:
    for _ in range(3):
        room = Room(await jupyter.documents.join(path, RoomKind.NOTEBOOK), Collaborator())
        await room.join()
        assert 0 < room.doc.client_id < 2**32
        await room.leave()


@requirement("documents:room:save")
async def test_a_save_is_on_disk_when_it_is_reported(
    rooms: Rooms, path: NotebookPath, jupyter_server: JupyterServer
) -> None:
    file = jupyter_server.root / path.text
    async with rooms.notebook(path) as opened:
        _, known = await opened.change(lambda n: n.replace([SourceChange(at(0), "saved now")]), save=True)
        assert known.saved
        assert sources_on_disk(file) == ["saved now", "two", "three"]
        saved = json.loads(file.read_text(encoding="utf-8"))
        assert [cell["id"] for cell in saved["cells"]] == ["c0", "c1", "c2"]
        _, known = await opened.change(lambda n: n.insert(1, [NewCell("# Title", Kind.MARKDOWN)]), save=True)
        assert known.saved
        assert sources_on_disk(file) == ["saved now", "# Title", "two", "three"]


@requirement("documents:faults:read-only")
async def test_a_read_only_file_is_never_reported_as_saved(
    rooms: Rooms, path: NotebookPath, jupyter_server: JupyterServer, person: PersonIn
) -> None:
    file = jupyter_server.root / path.text
    before = file.read_bytes()
    with read_only(file):
        async with rooms.notebook(path) as opened, person(path.text) as them:
            _, known = await opened.change(lambda n: n.replace([SourceChange(at(0), "not on disk")]), save=True)
            assert not known.saved
            await eventually(lambda: them.sources[0] == "not on disk", "the edit in the room")
            assert file.read_bytes() == before


@requirement("documents:room:missing")
async def test_opening_a_missing_file_harms_nobody(
    rooms: Rooms, path: NotebookPath, person: PersonIn, folder: str
) -> None:
    async with person(path.text) as first, person(path.text) as second, rooms.notebook(path) as opened:
        for _ in range(3):
            with pytest.raises(NotFound, match=r"missing\.ipynb"):
                async with rooms.notebook(NotebookPath(f"{folder}/missing.ipynb")):
                    pass
        first.text_of(0).insert(0, "still live ")
        await eventually(lambda: second.sources[0] == "still live one", "the first person's edit at the second")
        await opened.change(lambda n: n.replace([SourceChange(at(1), "agent too")]))
        await eventually(lambda: first.sources[1] == second.sources[1] == "agent too", "the agent's edit")


@requirement("documents:faults:unreadable")
async def test_what_is_no_notebook_is_said_to_be_none(rooms: Rooms, jupyter_server: JupyterServer, folder: str) -> None:
    (jupyter_server.root / folder / "broken.ipynb").write_text("{not json", encoding="utf-8")
    (jupyter_server.root / folder / "folder.ipynb").mkdir()
    (jupyter_server.root / folder / "text.txt").write_text("x", encoding="utf-8")
    with pytest.raises(InvalidFormat, match="it is not JSON, line 1 column 2"):
        async with rooms.notebook(NotebookPath(f"{folder}/broken.ipynb")):
            pass
    with pytest.raises(InvalidArgument, match="is a folder"):
        async with rooms.notebook(NotebookPath(f"{folder}/folder.ipynb")):
            pass
    with pytest.raises(InvalidArgument, match="is a notebook"):
        async with rooms.document(DocPath(f"{folder}/broken.ipynb")):
            pass


class SpoilingChannel:
    """A channel over which, at one moment, something comes that is not of the protocol."""

    def __init__(self, inner: RoomChannel) -> None:
        self._inner = inner
        self._messages: asyncio.Queue[bytes] = asyncio.Queue()
        self._pump = asyncio.create_task(self._take_from_inner())

    async def _take_from_inner(self) -> None:
        with contextlib.suppress(RoomClosed):
            while True:
                self._messages.put_nowait(await self._inner.receive())

    def spoil(self, message: bytes) -> None:
        self._messages.put_nowait(message)

    async def send(self, message: bytes) -> None:
        await self._inner.send(message)

    async def receive(self) -> bytes:
        return await self._messages.get()

    async def close(self) -> None:
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)
        await self._inner.close()


@requirement("documents:room:hostile")
@pytest.mark.parametrize(
    "message",
    [
        b"\x00\x02\x05\xff\xff\xff\xff\xff",
        b"\x00\x01",
        b"\x01\xff\xff\xff",
        b"\x02\x05{bad}",
        b"\x00\x02\xff\xff\xff\xff\x7f",
    ],
    ids=["update", "cut", "awareness", "raw", "length"],
)
async def test_a_message_that_is_not_of_the_protocol_ends_that_room_only(
    jupyter: Jupyter, rooms: Rooms, path: NotebookPath, message: bytes
) -> None:
    access = await jupyter.documents.join(path, RoomKind.NOTEBOOK)
    channel = SpoilingChannel(access.channel)
    room = Room(RoomAccess(access.id, channel), Collaborator())
    lost = asyncio.Event()
    room.when_lost(lost.set)
    await room.join()
    async with rooms.notebook(path) as opened:
        channel.spoil(message)
        await asyncio.wait_for(lost.wait(), 5)
        with pytest.raises(CellwrightError) as error:
            await room.flush()
        assert isinstance(error.value, Unavailable)
        await room.leave()
        await opened.change(lambda n: n.replace([SourceChange(at(0), "unharmed")]))
        assert sources(opened) == ["unharmed", "two", "three"]


class DeafChannel(SpoilingChannel):
    """A server that answers but no longer passes changes on: the updates are taken out of what it sends."""

    async def receive(self) -> bytes:
        while (message := await super().receive())[:2] == b"\x00\x02":
            pass
        return message


@requirement("documents:room:silent")
async def test_a_server_that_stops_passing_changes_on_is_noticed(
    jupyter: Jupyter, path: NotebookPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellwright.jupyter.documents.room.ECHO_SECONDS", 0.2)
    access = await jupyter.documents.join(path, RoomKind.NOTEBOOK)
    room = Room(RoomAccess(access.id, DeafChannel(access.channel)), Collaborator())
    notebook = LiveNotebook(room.doc)
    await room.join()
    assert room.reaches_others
    notebook.replace([SourceChange(at(0), "into the void")])
    await room.flush()
    await eventually(lambda: not room.reaches_others, "the silence being noticed", seconds=3)
    await room.leave()


class SavingChannel:
    """A server in memory. Like Jupyter it reads nothing more over a connection that asked it to save until it has saved."""

    def __init__(self) -> None:
        self.doc: Doc[Any] = Doc()
        self.asked, self.saved = asyncio.Event(), asyncio.Event()
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(self, message: bytes) -> None:
        if message[0] == RAW:
            decoder = Decoder(message[1:])
            assert decoder.read_var_string() == "save"
            self.asked.set()
            await self.saved.wait()
            answer = {"type": "save", "responseTo": decoder.read_var_uint(), "status": "success"}
            self._answers.put_nowait(bytes([RAW]) + write_message(json.dumps(answer).encode()))
        elif message[0] == YMessageType.SYNC and (reply := handle_sync_message(message[1:], self.doc)) is not None:
            self._answers.put_nowait(reply)

    async def receive(self) -> bytes:
        return await self._answers.get()

    async def close(self) -> None:
        pass


@requirement("saving:in-line")
async def test_a_change_behind_a_slow_save_waits_for_it() -> None:
    channel = SavingChannel()
    room = Room(RoomAccess("memory", channel), Collaborator())
    await room.join()
    saving = asyncio.create_task(room.save())
    await channel.asked.wait()
    room.doc.get("note", type=Text).insert(0, "behind the save")
    flushed = asyncio.create_task(room.flush(0.05))
    await asyncio.wait([flushed], timeout=0.5)
    channel.saved.set()
    await flushed
    assert await saving is Saved.SUCCESS
    assert str(channel.doc.get("note", type=Text)) == "behind the save"
    await room.leave()


@requirement("documents:rooms:shared")
async def test_many_who_ask_at_once_share_one_room(rooms: Rooms, path: NotebookPath) -> None:
    async def use() -> int:
        async with rooms.notebook(path) as opened:
            await opened.change(lambda n: n.insert(-1, [NewCell("x")]))
            return id(opened.view)

    giving_up = asyncio.create_task(use())
    await asyncio.sleep(0)
    others = [asyncio.create_task(use()) for _ in range(20)]
    await asyncio.sleep(0)
    giving_up.cancel()
    assert len(set(await asyncio.gather(*others))) == 1
    assert [(room.path, room.connected, room.in_use) for room in rooms.open_rooms()] == [(path.text, True, 0)]
    async with rooms.notebook(path) as opened:
        assert opened.view.cell_count == 23


@requirement("documents:rooms:idle", "documents:rooms:ended")
async def test_a_document_is_left_when_idle_but_never_while_in_use(jupyter: Jupyter, path: NotebookPath) -> None:
    clock = [datetime(2026, 1, 1, 12, tzinfo=UTC)]
    rooms = Rooms(jupyter.documents, Collaborator(), idle_seconds=0.1, now=lambda: clock[0])
    try:
        async with rooms.notebook(path) as opened:
            first = opened.view
            await asyncio.sleep(0.3)
            assert rooms.open_rooms()[0].connected
            await opened.change(lambda n: n.replace([SourceChange(at(0), "in use")]))
            with pytest.raises(Conflict, match="in use"):
                await rooms.end(path, RoomKind.NOTEBOOK)
        clock[0] = datetime(2026, 1, 1, 12, 5, tzinfo=UTC)
        await eventually(lambda: not rooms.open_rooms()[0].connected, "the room being left")
        left = rooms.open_rooms()[0]
        assert (left.path, left.last_activity) == (path.text, datetime(2026, 1, 1, 12, tzinfo=UTC))
        async with rooms.notebook(path) as opened:
            assert opened.view is not first
            assert sources(opened)[0] == "in use"
    finally:
        await rooms.close()
    # As long as rooms are kept by default, so that nothing but the call ends this one.
    rooms = Rooms(jupyter.documents, Collaborator(), now=lambda: clock[0])
    try:
        async with rooms.notebook(path) as opened:
            assert sources(opened)[0] == "in use"
        assert await rooms.end(path, RoomKind.NOTEBOOK) is True
        assert await rooms.end(path, RoomKind.NOTEBOOK) is False
        clock[0] = datetime(2026, 1, 1, 13, 6, tzinfo=UTC)
        assert rooms.open_rooms() == []
    finally:
        await rooms.close()


@requirement("documents:rooms:changes")
async def test_subscribers_hear_of_every_change(rooms: Rooms, path: NotebookPath, person: PersonIn) -> None:
    heard: list[DocumentChanged] = []
    stop = rooms.subscribe(heard.append)
    async with rooms.notebook(path) as opened, person(path.text) as them:
        await opened.change(lambda n: n.replace([SourceChange(at(0), "mine")]))
        assert heard == [DocumentChanged(path.text, RoomKind.NOTEBOOK, frozenset({"c0"}), order=False, ours=True)]
        heard.clear()
        del them.cells[1]
        await eventually(lambda: len(heard) > 0, "the person's change")
        assert heard == [DocumentChanged(path.text, RoomKind.NOTEBOOK, frozenset({"c1"}), order=True, ours=False)]
        heard.clear()
        stop()
        await opened.change(lambda n: n.replace([SourceChange(at(0), "unheard")]))
        assert heard == []


@requirement("documents:faults:changed-on-disk")
async def test_a_change_by_another_program_is_seen(
    rooms: Rooms, path: NotebookPath, jupyter_server: JupyterServer
) -> None:
    async with rooms.notebook(path) as opened:
        assert sources(opened)[0] == "one"
        write_notebook(jupyter_server.root, path.text, ["one", "two", "by git", "four"])
        await eventually(lambda: sources(opened) == ["one", "two", "by git", "four"], "the change on disk")
        assert opened.view.ids == ("c0", "c1", "c2", "c3")
        await opened.change(lambda n: n.delete([by_id("c3")]))
        assert sources(opened) == ["one", "two", "by git"]


@requirement("documents:faults:renamed")
async def test_a_renamed_notebook_is_noticed(
    rooms: Rooms, jupyter: Jupyter, path: NotebookPath, jupyter_server: JupyterServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellwright.jupyter.documents.backing.TRUST_SECONDS", 0.0)
    new = NotebookPath(path.text.replace("n.ipynb", "new name.ipynb"))
    async with rooms.notebook(path) as opened:
        await opened.change(lambda n: n.replace([SourceChange(at(0), "before")]), save=True)
    await jupyter.documents.rename(path, new)
    with pytest.raises(NotFound):
        async with rooms.notebook(path):
            pass
    async with rooms.notebook(new) as opened:
        _, known = await opened.change(lambda n: n.replace([SourceChange(at(1), "after")]), save=True)
        assert known.saved
        assert sources(opened) == ["before", "after", "three"]
    assert not (jupyter_server.root / path.text).exists()
    assert sources_on_disk(jupyter_server.root / new.text) == ["before", "after", "three"]


@requirement("documents:faults:deleted")
async def test_a_deleted_notebook_is_noticed_and_not_written_again(
    rooms: Rooms, path: NotebookPath, jupyter_server: JupyterServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellwright.jupyter.documents.backing.TRUST_SECONDS", 0.0)
    async with rooms.notebook(path) as opened:
        await opened.change(lambda n: n.replace([SourceChange(at(0), "still there")]))
        (jupyter_server.root / path.text).unlink()
        with pytest.raises(NotFound, match="no such file any more"):
            await opened.change(lambda n: n.replace([SourceChange(at(0), "nowhere to go")]))
    for _ in range(2):
        with pytest.raises(NotFound):
            async with rooms.notebook(path):
                pass
    assert [room.connected for room in rooms.open_rooms()] == [False]
    assert not (jupyter_server.root / path.text).exists()


@requirement("documents:format:old")
async def test_a_notebook_of_format_4_2_stays_one(rooms: Rooms, jupyter_server: JupyterServer, folder: str) -> None:
    path = NotebookPath(f"{folder}/old.ipynb")
    file = write_notebook(jupyter_server.root, path.text, ["a", "b"], nbformat_minor=2)
    raw = json.loads(file.read_text(encoding="utf-8"))
    for cell in raw["cells"]:
        del cell["id"]
    file.write_text(json.dumps(raw), encoding="utf-8")
    async with rooms.notebook(path) as opened:
        assert opened.view.format == (4, 2)
        assert not opened.view.ids_are_stable
        _, known = await opened.change(lambda n: n.replace([SourceChange(at(1), "b!")]), save=True)
        assert known.saved
        kept = json.loads(file.read_text(encoding="utf-8"))
        assert (kept["nbformat"], kept["nbformat_minor"]) == (4, 2)
        assert [("id" in cell) for cell in kept["cells"]] == [False, False]
        await opened.change(lambda n: n.keep_ids(), save=True)
        kept = json.loads(file.read_text(encoding="utf-8"))
        assert [cell["id"] for cell in kept["cells"]] == list(opened.view.ids)


@requirement("documents:format:old")
async def test_a_notebook_of_format_3_is_read_and_not_written_until_it_is_edited(
    rooms: Rooms, jupyter_server: JupyterServer, folder: str
) -> None:
    path = NotebookPath(f"{folder}/ancient.ipynb")
    cells: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "input": ["x = 1\n", "x"],
            "language": "python",
            "metadata": {},
            "outputs": [],
            "collapsed": False,
        },
        {"cell_type": "heading", "level": 2, "source": ["Title"], "metadata": {}},
    ]
    content: dict[str, Any] = {
        "metadata": {"name": ""},
        "nbformat": 3,
        "nbformat_minor": 0,
        "worksheets": [{"cells": cells, "metadata": {}}],
    }
    file = jupyter_server.root / path.text
    file.write_text(json.dumps(content), encoding="utf-8")
    before = file.read_bytes()
    async with rooms.notebook(path) as opened:
        assert sources(opened) == ["x = 1\nx", "## Title"]
        assert not opened.view.ids_are_stable
        assert opened.view.converted_from == 3
    await rooms.end(path, RoomKind.NOTEBOOK)
    assert file.read_bytes() == before
    async with rooms.notebook(path) as opened:
        await opened.change(lambda n: n.replace([SourceChange(at(0), "x = 2")]), save=True)
    assert sources_on_disk(file) == ["x = 2", "## Title"]


@requirement("documents:rest:odd-names")
@pytest.mark.parametrize(
    "name", ["a b.ipynb", "é😀.ipynb", "a#b?c=d.ipynb", "100%.ipynb", "50%25.ipynb", "new\nline.ipynb"]
)
async def test_notebooks_with_odd_names_are_shared(
    rooms: Rooms, jupyter_server: JupyterServer, folder: str, name: str
) -> None:
    file = write_notebook(jupyter_server.root, f"{folder}/{name}", ["a"])
    async with rooms.notebook(NotebookPath(f"{folder}/{name}")) as opened:
        _, known = await opened.change(lambda n: n.replace([SourceChange(at(0), "edited")]), save=True)
        assert known.saved
    assert sources_on_disk(file) == ["edited"]


@requirement("documents:rooms:shared")
async def test_two_agents_on_two_notebooks_never_cross(
    rooms: Rooms, other_rooms: Rooms, jupyter_server: JupyterServer, folder: str
) -> None:
    paths = [NotebookPath(f"{folder}/{name}.ipynb") for name in ("left", "right")]
    for path in paths:
        write_notebook(jupyter_server.root, path.text, ["start"])

    async def work(agent: Rooms, path: NotebookPath, word: str) -> None:
        for turn in range(60):
            async with agent.notebook(path) as opened:
                await opened.change(lambda n, turn=turn: n.insert(-1, [NewCell(f"{word} {turn}")]))

    await asyncio.gather(
        work(rooms, paths[0], "left"), work(other_rooms, paths[1], "right"), work(other_rooms, paths[0], "guest")
    )
    async with rooms.notebook(paths[0]) as left, rooms.notebook(paths[1]) as right:
        assert sorted(sources(left)) == sorted(
            ["start", *(f"left {i}" for i in range(60)), *(f"guest {i}" for i in range(60))]
        )
        assert sources(right) == ["start", *(f"right {i}" for i in range(60))]


@requirement("documents:room:acknowledged")
async def test_an_edit_in_a_room_that_was_left_is_refused_before_it_is_made(rooms: Rooms, path: NotebookPath) -> None:
    async with rooms.notebook(path) as opened:
        pass
    await rooms.end(path, RoomKind.NOTEBOOK)
    with pytest.raises(Unavailable):
        await opened.change(lambda n: n.replace([SourceChange(at(0), "too late")]))
    assert sources(opened)[0] == "one"
    assert not issubclass(Unavailable, UnknownOutcome)
