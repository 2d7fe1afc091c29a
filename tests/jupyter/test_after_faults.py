"""What stands after something broke: edits that arrived, histories with holes, files that were not written."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pycrdt import Doc

from cellwright.core.errors import Unavailable
from cellwright.core.types import Secret
from cellwright.jupyter.documents import backing
from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.rooms import Rooms
from cellwright.jupyter.files import unreadable
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.model import FileContent, FileInfo, FileKind, NewCell, RoomKind
from cellwright.jupyter.notebooks.notebook import LiveNotebook, SourceChange
from cellwright.jupyter.remote.adapter import RemoteDocuments, RemoteJupyter
from cellwright.jupyter.remote.rest import Rest
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.notebook.addressing import at
from jupyter_support import JupyterProcess, JupyterServer, eventually, read_only, sources_on_disk, write_notebook
from notebook_agent import agent_of, in_front_of
from requirements import requirement
from support import free_port

pytestmark = pytest.mark.anyio

StartJupyter = Callable[..., JupyterProcess]
NEVER_BY_ITSELF = ("--YDocExtension.document_save_delay=3600",)


@requirement("soak:edit-stands")
async def test_an_edit_whose_run_cannot_begin_is_done_and_not_to_be_repeated(
    server_process: JupyterServer, folder: str, tmp_path: Path
) -> None:
    path = f"{folder}/no-kernels.ipynb"
    write_notebook(server_process.root, path, ["1"])
    nobody = f"http://127.0.0.1:{free_port()}"
    with in_front_of(server_process, tmp_path, "--runtime-url", nobody, "--toolsets", "default,cells") as server:
        async with agent_of(server) as do:
            inserted = await do.failing("insert_nb_cells", path=path, position=-1, cells=[{"content": "2"}])
            assert (inserted["message"], inserted["executed"], inserted["status"]) == (
                "Inserted 1 cell",
                False,
                "not_run",
            )
            assert (inserted["error"]["code"], inserted["error"]["retryable"]) == ("UNAVAILABLE", False)
            assert "do not repeat this call" in inserted["error"]["hint"]
            change = {"range": {"id": inserted["cells"][0]["id"]}, "content": "3"}
            modified = await do.failing("modify_nb_cells", path=path, modifications=[change])
            assert modified["cells"][0]["id"] == inserted["cells"][0]["id"]
            shown = await do.whole(
                "insert_execute_code_cell", notebook=path, cell_index=-1, cell_source="4", timeout_seconds=5
            )
            assert "[not_run] UNAVAILABLE" in shown.content[-1].text
            assert await do.sources(path) == ["1", "3", "4"]


class Unseen(RemoteDocuments):
    """Files that cannot be looked at, from some moment on."""

    unseen = False

    async def stat(self, path: DocPath, *, with_hash: bool = False) -> FileInfo:
        if self.unseen:
            raise Unavailable(f"{path} cannot be looked at")
        return await super().stat(path, with_hash=with_hash)


@requirement("soak:edit-stands")
async def test_an_edit_that_arrived_is_no_failure_when_its_file_cannot_be_looked_at(
    server_process: JupyterServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = NotebookPath(f"{folder}/unseen.ipynb")
    write_notebook(server_process.root, path.text, ["1"])
    rest = Rest(JupyterAddress.parse(server_process.url, token=Secret(server_process.token)))
    documents = Unseen(rest)
    rooms = Rooms(documents, Collaborator())
    async with rooms.notebook(path) as opened:
        monkeypatch.setattr(backing, "TRUST_SECONDS", -1.0)
        documents.unseen = True
        _, known = await opened.change(lambda notebook: notebook.insert(-1, [NewCell("2")]))
        assert known.live
        documents.unseen = False
    await rooms.close()
    await rest.close()


def history() -> list[bytes]:
    """The updates of a notebook that two agents made."""
    updates: list[bytes] = []
    first: Doc[Any] = Doc(client_id=1)
    first.observe(lambda event: updates.append(event.update))
    LiveNotebook(first).insert(0, [NewCell("one")])
    LiveNotebook(first).insert(0, [NewCell("two")])
    second: Doc[Any] = Doc(client_id=2)
    notebook = LiveNotebook(second)
    second.apply_update(first.get_update())
    second.observe(lambda event: updates.append(event.update))
    notebook.insert(0, [NewCell("three")])
    notebook.insert(-1, [NewCell("four")])
    notebook.move([at(0)], -1)
    return updates


@requirement("soak:holes")
@pytest.mark.parametrize("lost", range(5))
def test_cells_that_change_without_an_event_are_read_as_they_are(lost: int) -> None:
    document: Doc[Any] = Doc(client_id=3)
    notebook = LiveNotebook(document)
    for number, update in enumerate(history()):
        if number != lost:
            document.apply_update(update)
    told: list[str] = []
    notebook.on_change(lambda change: told.extend(change.cells))
    for index in range(notebook.cell_count):
        notebook.head(index)
        notebook.replace([SourceChange(at(index), f"changed {index}")])
        assert notebook.head(index).source == f"changed {index}"
        assert notebook.cell_at(index).head.source == f"changed {index}"
        assert told[-1] == notebook.id_at(index)
    # Of this history, those that follow on the one that was lost are such cells.
    assert notebook.unheard == (lost in {1, 2})


@requirement("soak:unwritten")
async def test_what_was_not_written_before_a_connection_was_lost_is_written_at_the_end(
    start_jupyter: StartJupyter,
) -> None:
    process = start_jupyter(options=NEVER_BY_ITSELF)
    file = write_notebook(process.root, "n.ipynb", ["one"])
    path = NotebookPath("n.ipynb")
    async with RemoteJupyter(JupyterAddress.parse(process.url, token=Secret(process.token))) as remote:
        rooms = Rooms(remote.documents, Collaborator())
        async with rooms.notebook(path) as opened:
            with read_only(file):
                await opened.change(lambda notebook: notebook.insert(-1, [NewCell("two")]))
                assert opened.room is not None
                await opened.room._access.channel.close()
                await eventually(lambda: not opened.is_open, "the loss being noticed")
        async with rooms.notebook(path) as opened:
            assert opened.view.cell_count == 2
        assert sources_on_disk(file) == ["one"]
        assert await rooms.end(path, RoomKind.NOTEBOOK)
        assert sources_on_disk(file) == ["one", "two"]
        written = file.stat().st_mtime_ns
        async with rooms.notebook(path):
            pass
        assert await rooms.end(path, RoomKind.NOTEBOOK)
        assert file.stat().st_mtime_ns == written
        await rooms.close()


@requirement("soak:unwritten")
async def test_what_was_not_written_is_written_when_an_idle_notebook_is_left(start_jupyter: StartJupyter) -> None:
    process = start_jupyter(options=NEVER_BY_ITSELF)
    file = write_notebook(process.root, "n.ipynb", ["one"])
    path = NotebookPath("n.ipynb")
    async with RemoteJupyter(JupyterAddress.parse(process.url, token=Secret(process.token))) as remote:
        rooms = Rooms(remote.documents, Collaborator(), idle_seconds=0.1)
        async with rooms.notebook(path) as opened:
            await opened.change(lambda notebook: notebook.insert(-1, [NewCell("two")]))
        await eventually(lambda: sources_on_disk(file) == ["one", "two"], "the file being written")
        await rooms.close()


class BeingWritten:
    """A file that is empty when it is first looked at."""

    def __init__(self, *texts: str) -> None:
        self._texts = list(texts)

    async def read(self, path: DocPath, _kind: FileKind) -> FileContent:
        now = datetime.now(UTC)
        return FileContent(FileInfo(path.text, FileKind.FILE, now, now), self._texts.pop(0), "text")


@requirement("soak:being-written")
@pytest.mark.parametrize(
    ("texts", "broken"),
    [
        (("", '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'), False),
        (("", ""), True),
    ],
)
async def test_a_file_that_is_empty_for_a_moment_is_not_broken(
    texts: tuple[str, ...], broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unreadable, "WRITING_SECONDS", 0.0)
    documents: Any = BeingWritten(*texts)
    assert (await unreadable._reason(documents, DocPath("n.ipynb")) is not None) == broken


@requirement("soak:being-written")
@pytest.mark.parametrize("whole", [True, False])
async def test_no_search_has_jupyter_move_a_notebook_away_that_is_being_written(
    server_process: JupyterServer, folder: str, tmp_path: Path, whole: bool
) -> None:
    file = write_notebook(server_process.root, f"{folder}/busy.ipynb", ["needle = 1"])
    text = file.read_bytes()
    # As it is while Jupyter writes it: a copy of what was there, and the file up to somewhere.
    before = file.with_name(".~busy.ipynb")
    before.write_bytes(text)
    file.write_bytes(text if whole else text[:40])
    with in_front_of(server_process, tmp_path) as server:
        async with agent_of(server) as do:
            found = await do("search_nbs", query="needle", path=folder)
            assert (len(found["hits"]), found.get("unread", [])) == (
                (1, []) if whole else (0, [f"{folder}/busy.ipynb"])
            )
            await do("search_workspace", query="needle")
    assert file.read_bytes() == (text if whole else text[:40])
    assert before.read_bytes() == text
    assert {one.name for one in file.parent.iterdir()} == {"busy.ipynb", ".~busy.ipynb"}
