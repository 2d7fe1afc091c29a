"""What happens when servers die, connections are cut, or nothing is shared: on real servers, with real cuts."""

import asyncio
import json
from collections.abc import Callable

import pytest

from cellwright.core.errors import CellwrightError, Conflict, NotFound, Unavailable
from cellwright.core.types import Secret
from cellwright.jupyter.documents.open_document import OpenDocument
from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.room import Room
from cellwright.jupyter.documents.rooms import Rooms
from cellwright.jupyter.edits.undo import undo
from cellwright.jupyter.errors import JupyterDenied, UnknownOutcome
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.model import FileInfo, NewCell, RoomKind
from cellwright.jupyter.notebooks.notebook import LiveNotebook, SourceChange
from cellwright.jupyter.port import RoomAccess, RoomChannel
from cellwright.jupyter.remote.adapter import RemoteDocuments, RemoteJupyter
from cellwright.jupyter.remote.rest import Rest
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.notebook.addressing import at, by_id
from jupyter_support import (
    JupyterProcess,
    JupyterServer,
    eventually,
    person_in,
    read_only,
    sources_on_disk,
    write_notebook,
)
from requirements import requirement

pytestmark = pytest.mark.anyio

StartJupyter = Callable[..., JupyterProcess]


def address(server: JupyterProcess | JupyterServer) -> JupyterAddress:
    return JupyterAddress.parse(server.url, token=Secret(server.token))


def sources(opened: OpenDocument[LiveNotebook]) -> list[str]:
    return [head.source for head in opened.view.outline()]


async def append(rooms: Rooms, path: NotebookPath, text: str) -> None:
    async with rooms.notebook(path) as opened:
        await opened.change(lambda notebook: notebook.insert(-1, [NewCell(text)]))


@requirement("documents:faults:restart")
@pytest.mark.parametrize("between", ["nothing", "store deleted", "file changed"])
async def test_after_jupyter_was_killed_and_restarted_no_cell_is_doubled(
    start_jupyter: StartJupyter, between: str
) -> None:
    process = await asyncio.to_thread(start_jupyter)
    file = write_notebook(process.root, "n.ipynb", ["one", "two"])
    path = NotebookPath("n.ipynb")
    async with RemoteJupyter(address(process)) as remote:
        rooms = Rooms(remote.documents, Collaborator())
        async with rooms.notebook(path) as opened:
            _, known = await opened.change(lambda n: n.insert(-1, [NewCell("saved")]), save=True)
            assert known.saved
            await asyncio.to_thread(process.kill)
            with pytest.raises((UnknownOutcome, Unavailable)):
                await opened.change(lambda n: n.insert(-1, [NewCell("into the void")]))
        with pytest.raises(Unavailable):
            await append(rooms, path, "nobody there")
        expected = ["one", "two", "saved"]
        if between == "store deleted":
            for store in process.home.glob(".jupyter_ystore.db*"):
                store.unlink()
        if between == "file changed":
            expected = ["one", "changed meanwhile", "saved"]
            content = json.loads(file.read_text(encoding="utf-8"))
            content["cells"][1]["source"] = expected[1]
            file.write_text(json.dumps(content), encoding="utf-8")
        await asyncio.to_thread(process.start)
        async with rooms.notebook(path) as opened:
            assert [text for text in sources(opened) if text != "into the void"] == expected
            assert sources(opened).count("into the void") <= 1
            await opened.change(lambda n: n.insert(-1, [NewCell("after")]), save=True)
            assert len(set(opened.view.ids)) == opened.view.cell_count
            async with person_in(process.address, "n.ipynb") as them:
                assert them.sources == sources(opened) == sources_on_disk(file)
        await rooms.close()


class CutChannel:
    """A channel whose connection breaks, for real, when the n-th message is to be sent."""

    def __init__(self, inner: RoomChannel, messages: int) -> None:
        self._inner, self._left = inner, messages

    async def send(self, message: bytes) -> None:
        self._left -= 1
        if self._left < 0:
            self._inner._connection.transport.abort()  # type: ignore[attr-defined]
        await self._inner.send(message)

    async def receive(self) -> bytes:
        return await self._inner.receive()

    async def close(self) -> None:
        await self._inner.close()


class CutDocuments(RemoteDocuments):
    """Every connection to a room breaks after some messages."""

    messages = 1_000_000

    async def join(self, path: DocPath, kind: RoomKind) -> RoomAccess:
        access = await super().join(path, kind)
        return RoomAccess(access.id, CutChannel(access.channel, self.messages))


@requirement("documents:faults:cut")
async def test_wherever_the_connection_is_cut_each_acknowledged_edit_is_there_once(
    jupyter_server: JupyterServer, folder: str
) -> None:
    path = NotebookPath(f"{folder}/cut.ipynb")
    write_notebook(jupyter_server.root, path.text, ["start"])
    rest = Rest(address(jupyter_server))
    documents = CutDocuments(rest)
    rooms = Rooms(documents, Collaborator())
    acknowledged: list[str] = []
    unknown: list[str] = []
    for edit in range(60):
        # An edit takes up to four messages (change, cursor, barrier, presence), joining a few more: this walks through all.
        documents.messages = 3 + edit % 13
        text = f"edit {edit}"
        try:
            await append(rooms, path, text)
            acknowledged.append(text)
        except UnknownOutcome:
            unknown.append(text)
        except Unavailable:
            # Refused before it was made.
            pass
    await rooms.close()
    await rest.close()
    assert len(acknowledged) > 10
    assert len(unknown) > 5
    async with person_in(jupyter_server, path.text) as them:
        there = them.sources
    assert [text for text in acknowledged if there.count(text) != 1] == []
    assert [text for text in unknown if there.count(text) > 1] == []
    assert sorted(set(there) - {"start"} - set(acknowledged) - set(unknown)) == []


@requirement("documents:faults:cut")
async def test_an_edit_in_a_room_that_is_known_to_be_lost_is_refused_before_it_is_made(
    jupyter_server: JupyterServer, folder: str
) -> None:
    path = NotebookPath(f"{folder}/lost.ipynb")
    write_notebook(jupyter_server.root, path.text, ["start"])
    async with RemoteJupyter(address(jupyter_server)) as remote:
        rooms = Rooms(remote.documents, Collaborator())
        async with rooms.notebook(path) as opened:
            await rooms._entries[path.text, RoomKind.NOTEBOOK].backing.room._access.channel.close()  # type: ignore[attr-defined]
            await eventually(lambda: rooms.open_rooms()[0].connected is False, "the loss being noticed")
            with pytest.raises(Unavailable):
                await opened.change(lambda n: n.replace([SourceChange(at(0), "lost")]))
            assert sources(opened) == ["start"]
        await append(rooms, path, "in a new room")
        async with rooms.notebook(path) as again:
            assert sources(again) == ["start", "in a new room"]
            assert again.view is not opened.view
        await rooms.close()


@requirement("documents:faults:cut")
async def test_what_was_written_before_the_loss_and_not_acknowledged_is_reported_as_unknown(
    jupyter_server: JupyterServer, folder: str
) -> None:
    path = NotebookPath(f"{folder}/unknown.ipynb")
    write_notebook(jupyter_server.root, path.text, ["start"])
    async with RemoteJupyter(address(jupyter_server)) as remote:
        room = Room(await remote.documents.join(path, RoomKind.NOTEBOOK), Collaborator())
        notebook = LiveNotebook(room.doc)
        lost = asyncio.Event()
        room.when_lost(lost.set)
        await room.join()
        notebook.insert(-1, [NewCell("acknowledged")])
        await room.flush()
        notebook.insert(-1, [NewCell("who knows")])
        await room._access.channel.close()
        await asyncio.wait_for(lost.wait(), 5)
        with pytest.raises(UnknownOutcome):
            await room.flush()
        with pytest.raises(Unavailable):
            room.check_open()
        await room.leave()


@requirement("documents:notebook:undo")
async def test_undo_works_after_the_connection_was_lost(jupyter_server: JupyterServer, folder: str) -> None:
    path = NotebookPath(f"{folder}/undo.ipynb")
    write_notebook(jupyter_server.root, path.text, ["one", "two"])
    async with RemoteJupyter(address(jupyter_server)) as remote:
        rooms = Rooms(remote.documents, Collaborator())
        async with rooms.notebook(path) as opened:
            await opened.change(lambda n: n.delete([by_id("c0")]))
        await rooms.end(path, RoomKind.NOTEBOOK)
        async with rooms.notebook(path) as opened:
            await opened.change(undo)
            assert [(head.id, head.source) for head in opened.view.outline()] == [("c0", "one"), ("c1", "two")]
        await rooms.close()


@requirement("documents:files:not-live")
async def test_without_collaboration_everything_works_on_the_file_and_says_so(start_jupyter: StartJupyter) -> None:
    process = await asyncio.to_thread(start_jupyter, collaboration=False)
    file = write_notebook(process.root, "a b.ipynb", ["one", "two"])
    text = process.root / "t.md"
    text.write_text("é text", encoding="utf-8")
    path = NotebookPath("a b.ipynb")
    async with RemoteJupyter(address(process)) as remote:
        assert await remote.documents.live() is False
        rooms = Rooms(remote.documents, Collaborator())
        async with rooms.notebook(path) as opened:
            assert not opened.live
            _, known = await opened.change(lambda n: n.replace([SourceChange(by_id("c1"), "two!")]))
            assert (known.live, known.saved) == (False, True)
            assert sources_on_disk(file) == ["one", "two!"]
            await opened.change(lambda n: n.insert(0, [NewCell("zero")]))
        assert sources_on_disk(file) == ["zero", "one", "two!"]
        async with rooms.document(DocPath("t.md")) as document:
            await document.change(lambda d: d.insert(1, "!"))
        assert text.read_text(encoding="utf-8") == "é! text"
        await _another_program_writes(rooms, path, process)
        with pytest.raises(NotFound):
            async with rooms.notebook(NotebookPath("missing.ipynb")):
                pass
        await rooms.close()


async def _another_program_writes(rooms: Rooms, path: NotebookPath, process: JupyterProcess) -> None:
    file = process.root / path.text
    async with rooms.notebook(path) as opened:
        assert sources(opened) == ["zero", "one", "two!"]
        write_notebook(process.root, path.text, ["by git"])
        with pytest.raises(Conflict, match="changed on disk"):
            await opened.change(lambda n: n.insert(-1, [NewCell("mine")]))
        assert sources_on_disk(file) == ["by git"]
        with pytest.raises(CellwrightError):
            await opened.change(lambda n: n.insert(-1, [NewCell("mine")]))
    async with rooms.notebook(path) as opened:
        assert sources(opened) == ["by git"]
        await asyncio.gather(*(opened.change(lambda n, i=i: n.insert(-1, [NewCell(f"at once {i}")])) for i in range(3)))
    assert sorted(sources_on_disk(file)) == ["at once 0", "at once 1", "at once 2", "by git"]
    write_notebook(process.root, path.text, ["by git again"])
    async with rooms.notebook(path) as opened:
        assert sources(opened) == ["by git again"]


@requirement("documents:files:not-live")
async def test_a_server_that_begins_or_ceases_to_share_documents_is_followed(start_jupyter: StartJupyter) -> None:
    process = await asyncio.to_thread(start_jupyter, collaboration=False)
    file = write_notebook(process.root, "n.ipynb", ["one"])
    path = NotebookPath("n.ipynb")
    async with RemoteJupyter(address(process)) as remote:
        rooms = Rooms(remote.documents, Collaborator())
        async with rooms.notebook(path) as opened:
            assert not opened.live
            await asyncio.to_thread(process.kill)
            process.collaboration = True
            await asyncio.to_thread(process.start)
            with pytest.raises(Unavailable, match="shared now"):
                await opened.change(lambda n: n.insert(-1, [NewCell("past the room")]))
        assert sources_on_disk(file) == ["one"]
        async with rooms.notebook(path) as opened:
            assert opened.live
            await opened.change(lambda n: n.insert(-1, [NewCell("in the room")]), save=True)
        await asyncio.to_thread(process.kill)
        process.collaboration = False
        await asyncio.to_thread(process.start)
        with pytest.raises(Unavailable, match="no longer shares"):
            await append(rooms, path, "refused")
        await append(rooms, path, "in the file")
        await rooms.close()
    assert sources_on_disk(file) == ["one", "in the room", "in the file"]


@requirement("documents:files:not-live")
async def test_a_file_that_may_not_be_written_is_an_error_and_the_edit_is_not_kept(start_jupyter: StartJupyter) -> None:
    process = await asyncio.to_thread(start_jupyter, collaboration=False)
    file = write_notebook(process.root, "n.ipynb", ["one"])
    path = NotebookPath("n.ipynb")
    with read_only(file):
        async with RemoteJupyter(address(process)) as remote:
            rooms = Rooms(remote.documents, Collaborator())
            async with rooms.notebook(path) as opened:
                with pytest.raises((JupyterDenied, Unavailable), match=r"n\.ipynb"):
                    await opened.change(lambda n: n.insert(-1, [NewCell("not kept")]))
            async with rooms.notebook(path) as opened:
                assert sources(opened) == ["one"]
            await rooms.close()


@requirement("documents:files:not-live")
async def test_rooms_that_peoples_jupyterlab_does_not_use_are_not_used(start_jupyter: StartJupyter) -> None:
    process = await asyncio.to_thread(start_jupyter, lab=True, options=("--YDocExtension.disable_rtc=True",))
    write_notebook(process.root, "n.ipynb", ["one"])
    async with RemoteJupyter(address(process)) as remote:
        assert (await remote.about())["sharing"] == "none"
        rooms = Rooms(remote.documents, Collaborator())
        async with rooms.notebook(NotebookPath("n.ipynb")) as opened:
            assert not opened.live
        await rooms.close()


@requirement("documents:room:missing")
async def test_a_room_closed_by_the_server_says_why(start_jupyter: StartJupyter) -> None:
    # On a server of its own: joining a missing file is what stops live updates in all of a server's rooms.
    process = await asyncio.to_thread(start_jupyter)

    class Deleting(RemoteDocuments):
        """The file goes away just after we looked."""

        async def stat(self, path: DocPath, *, with_hash: bool = False) -> FileInfo:
            found = await super().stat(path, with_hash=with_hash)
            (process.root / path.text).unlink()
            return found

    path = NotebookPath("gone.ipynb")
    write_notebook(process.root, path.text, ["x"])
    rest = Rest(address(process))
    rooms = Rooms(Deleting(rest), Collaborator())
    with pytest.raises(NotFound, match="finds no file"):
        async with rooms.notebook(path):
            pass
    await rooms.close()
    await rest.close()
    assert not (process.root / path.text).exists()
