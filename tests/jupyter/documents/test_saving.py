"""What is on disk, and what is said of it: steady work, read-only files, full disks, files that other programs write."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pycrdt import Doc, Map

from cellwright.core.errors import Conflict, NotFound
from cellwright.core.types import Secret
from cellwright.jupyter.documents import saving, writing
from cellwright.jupyter.documents.open_document import OpenDocument
from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.rooms import Rooms
from cellwright.jupyter.edits.lost import LostEdits, UnsavedEdits
from cellwright.jupyter.edits.undo import undo
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.model import FileInfo, FileKind, JsonObject, NewCell, RoomKind
from cellwright.jupyter.notebooks.notebook import LiveNotebook, SourceChange
from cellwright.jupyter.remote.adapter import RemoteJupyter
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.notebook.addressing import at, by_id
from cellwright.notebook.model import Kind
from jupyter_support import (
    JupyterProcess,
    JupyterServer,
    eventually,
    read_only,
    sources_on_disk,
    write_notebook,
)
from requirements import requirement
from soak_support import Ballast, small_disk

pytestmark = pytest.mark.anyio

StartJupyter = Callable[..., JupyterProcess]
MOST_AT_RISK = 1.5
"""Seconds, beside what saves themselves take: the promise is about one, and this machine may be busy."""


@pytest.fixture
def path(jupyter_server: JupyterServer, folder: str) -> NotebookPath:
    write_notebook(jupyter_server.root, f"{folder}/n.ipynb", ["one", "two", "three"])
    return NotebookPath(f"{folder}/n.ipynb")


async def append(document: OpenDocument[LiveNotebook], source: str) -> tuple[bool, str]:
    _, known = await document.change(lambda notebook: notebook.insert(-1, [NewCell(source)]))
    return known.saved, known.not_saved


@requirement("saving:at-once")
async def test_an_edit_after_a_pause_is_on_disk_when_it_is_answered(
    rooms: Rooms, path: NotebookPath, jupyter_server: JupyterServer
) -> None:
    file = jupyter_server.root / path.text
    async with rooms.notebook(path) as document:
        saved = await append(document, "four")
        assert (saved, sources_on_disk(file)[-1]) == ((True, ""), "four")
        assert document.on_disk().saved


@requirement("saving:at-once")
async def test_an_edit_of_a_text_is_on_disk_when_it_is_answered(
    rooms: Rooms, jupyter_server: JupyterServer, folder: str
) -> None:
    file = jupyter_server.root / folder / "t.md"
    file.write_text("text\n", encoding="utf-8")
    async with rooms.document(DocPath(f"{folder}/t.md")) as document:
        _, known = await document.change(lambda text: text.insert(0, "more "))
        assert (known.saved, file.read_text(encoding="utf-8")) == (True, "more text\n")


@requirement("saving:steady")
async def test_steady_edits_are_on_disk_about_a_second_later_while_they_go_on(
    rooms: Rooms, path: NotebookPath, jupyter_server: JupyterServer
) -> None:
    file = jupyter_server.root / path.text
    made: dict[str, float] = {}
    seen: dict[str, float] = {}
    began = time.monotonic()

    def look() -> None:
        now = time.monotonic()
        for source in sources_on_disk(file):
            seen.setdefault(source, now)

    async with rooms.notebook(path) as document:
        settled: list[str] = []
        at_risk = 0.0
        while len(settled) <= 3 and time.monotonic() - began < 90:
            source = f"edit {len(made)}"
            saved, reason = await append(document, source)
            made[source] = time.monotonic()
            if saved:
                assert source in sources_on_disk(file)
            else:
                assert reason
            until = made[source] + 0.3
            while time.monotonic() < until:
                look()
                await asyncio.sleep(0.02)
            if len(made) % 20 == 0:
                last = time.monotonic()
                await document.save()
                # A save takes as long as the machine lets it.
                at_risk = MOST_AT_RISK + 4 * (time.monotonic() - last)
                settled = [source for source, when in made.items() if last - when > at_risk]
        assert len(settled) > 3
        late = {source: seen.get(source, 9e9) - made[source] for source in settled}
        assert {source: age for source, age in late.items() if age > at_risk} == {}


@requirement("saving:overtaken")
async def test_edits_without_any_pause_are_saved_all_the_same(
    rooms: Rooms, path: NotebookPath, jupyter_server: JupyterServer
) -> None:
    file = jupyter_server.root / path.text
    async with rooms.notebook(path) as document:
        await append(document, "first")
        on_disk, deadline = len(sources_on_disk(file)), time.monotonic() + 15
        while len(sources_on_disk(file)) <= on_disk + 1:
            assert time.monotonic() < deadline, "nothing was saved while edits went on"
            await append(document, "next")


@requirement("saving:read-only")
async def test_a_read_only_file_is_named_as_the_reason_and_saved_by_itself_later(
    rooms: Rooms, path: NotebookPath, jupyter_server: JupyterServer
) -> None:
    file = jupyter_server.root / path.text
    async with rooms.notebook(path) as document:
        with read_only(file):
            saved, reason = await append(document, "not yet")
            assert not saved
            assert "read-only" in reason
            assert not document.on_disk().saved
            assert "not yet" not in sources_on_disk(file)
        await eventually(lambda: "not yet" in sources_on_disk(file), "the edit on disk, without another one")
        await eventually(lambda: bool(document.on_disk().saved), "the word that it is saved")


@requirement("saving:foreign:merged")
@pytest.mark.parametrize("how", ["rename", "in place"])
async def test_what_another_program_writes_beneath_a_room_is_merged_with_the_next_edit(
    rooms: Rooms, path: NotebookPath, jupyter_server: JupyterServer, how: str
) -> None:
    file = jupyter_server.root / path.text
    async with rooms.notebook(path) as document:
        assert (await append(document, "agent"))[0]
        assert rooms.news(path, RoomKind.NOTEBOOK, "agent") == []
    await asyncio.sleep(1.1)  # The file is looked at again only then.
    write_like_vscode(file, 0, "typed in VS Code", how)
    async with rooms.notebook(path) as document:
        await append(document, "agent again")
        assert document.view.head(0).source == "typed in VS Code"
    expected = ["typed in VS Code", "two", "three", "agent", "agent again"]
    await eventually(lambda: sources_on_disk(file) == expected, "both on disk")
    assert "another program" in rooms.news(path, RoomKind.NOTEBOOK, "agent")[0]
    assert rooms.news(path, RoomKind.NOTEBOOK, "agent") == []


@requirement("saving:foreign:refused")
async def test_an_edit_that_jupyter_dropped_for_a_foreign_file_is_refused_and_can_be_made_again(
    rooms: Rooms, path: NotebookPath, jupyter_server: JupyterServer
) -> None:
    file = jupyter_server.root / path.text
    async with rooms.notebook(path) as document:
        assert (await append(document, "agent"))[0]
        await asyncio.sleep(saving.PAUSE_SECONDS)

        def edit_meanwhile(notebook: LiveNotebook) -> list[str]:
            write_like_vscode(file, 0, "typed in VS Code", "rename")
            return notebook.replace([SourceChange(at(1), "the agent's two")])

        with pytest.raises(Conflict, match="another program wrote"):
            await document.change(edit_meanwhile)
        assert sources_on_disk(file) == ["typed in VS Code", "two", "three", "agent"]
        (news, *_) = rooms.news(path, RoomKind.NOTEBOOK, "agent")
        assert "c1" in news
        await document.change(lambda notebook: rooms.lost.make_again(path.text, notebook, "agent"))
    await eventually(
        lambda: sources_on_disk(file) == ["typed in VS Code", "the agent's two", "three", "agent"], "both on disk"
    )


def write_like_vscode(file: Path, cell: int, source: str, how: str) -> None:
    """Write the notebook as VS Code does: the whole file, in place or by a new file that takes its name."""
    notebook = json.loads(file.read_text(encoding="utf-8"))
    notebook["cells"][cell]["source"] = [source]
    text = json.dumps(notebook, indent=1) + "\n"
    if how == "rename":
        other = file.with_suffix(".ipynb.vsctmp")
        other.write_text(text, encoding="utf-8")
        other.replace(file)
    else:
        file.write_text(text, encoding="utf-8")


@pytest.fixture
def on_small_disk(tmp_path: Path) -> Iterator[JupyterProcess]:
    """A server whose files are on a disk that can be filled."""
    home = tmp_path / "jupyter"
    home.mkdir()
    with small_disk(home / "root"), JupyterProcess(home) as process:
        yield process


@requirement("saving:full")
async def test_a_full_disk_is_named_and_the_file_is_written_when_there_is_room_again(
    on_small_disk: JupyterProcess,
) -> None:
    root = on_small_disk.root
    file = write_notebook(root, "n.ipynb", ["one"])
    path = NotebookPath("n.ipynb")
    address = JupyterAddress.parse(on_small_disk.url, token=Secret(on_small_disk.token))
    async with RemoteJupyter(address) as remote:
        rooms = Rooms(remote.documents, Collaborator(), root=root)
        async with rooms.notebook(path) as document:
            ballast = Ballast(root)
            ballast.top_up()
            saved, reason = await append(document, "x = 1" * 20_000)
            assert not saved
            assert "disk is full" in reason
            assert not document.on_disk().saved
            assert sources_on_disk(file) == ["one"]
            ballast.drop()
            await eventually(lambda: len(sources_on_disk(file)) == 2, "the edit on disk, without another one", 40)
            await eventually(lambda: bool(document.on_disk().saved), "the word that it is saved")
        await rooms.close()


@requirement("saving:lost")
def test_lost_edits_are_made_again_as_they_were() -> None:
    before, unsaved, lost = notebook_of(5), UnsavedEdits(), LostEdits()
    notebook = notebook_of(5)
    notebook.replace([SourceChange(at(0), "changed", Kind.MARKDOWN, metadata={"tags": ["a"]})], author="ada")
    notebook.insert(2, [NewCell("new")], author="ada")
    notebook.delete([at(3)], author="ada")
    notebook.move([by_id("c4")], 0, author="ada")
    notebook.replace([SourceChange(by_id("c3"), "taken back")], author="ada")
    undo(notebook, "ada")
    notebook.replace([SourceChange(by_id("c1"), "Bob's")], author="bob")
    unsaved.note(1, notebook)
    lost.suspect("n.ipynb", unsaved)
    lost.compare("n.ipynb", before)
    told = lost.news("n.ipynb", "ada")
    assert all(cell_id in told for cell_id in ("c0", "c2", "c4", "1 removal"))
    assert re.search(r"\bc[13]\b", told) is None
    assert lost.news("n.ipynb", "ada") == ""
    lost.make_again("n.ipynb", before, "ada")
    wanted = [(head.id, head.source if head.id != "c1" else "v1", head.cell_type) for head in notebook.outline()]
    assert [(head.id, head.source, head.cell_type) for head in before.outline()] == wanted
    with pytest.raises(NotFound, match="known to be lost"):
        lost.make_again("n.ipynb", before, "ada")


@requirement("saving:lost")
def test_what_is_in_the_file_is_not_lost() -> None:
    notebook, unsaved, lost = notebook_of(3), UnsavedEdits(), LostEdits()
    notebook.replace([SourceChange(at(0), "changed")], author="ada")
    unsaved.note(1, notebook)
    unsaved.confirm(1)
    lost.suspect("n.ipynb", unsaved)
    lost.compare("n.ipynb", notebook_of(3))
    assert lost.news("n.ipynb", "ada") == ""
    notebook.replace([SourceChange(at(1), "changed too")], author="ada")
    unsaved.note(2, notebook)
    lost.suspect("n.ipynb", unsaved)
    lost.compare("n.ipynb", notebook)
    assert lost.news("n.ipynb", "ada") == ""


def notebook_of(cells: int) -> LiveNotebook:
    notebook = LiveNotebook(Doc())
    content: list[JsonObject] = [
        {"cell_type": "code", "id": f"c{n}", "metadata": {}, "source": f"v{n}", "outputs": [], "execution_count": None}
        for n in range(cells)
    ]
    notebook.fill({"cells": content, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    return notebook


class _FileBeingWritten:
    """A file that is looked at when its server has written half of it: the moment cannot be met with a real one."""

    def __init__(self, doc: Doc[Any]) -> None:
        self._state: Map[Any] = doc.get("state", type=Map)
        self._sizes = iter([10, 50, 100, 100, 100])
        self.looked = 0

    async def stat(self, path: DocPath, *, with_hash: bool = False) -> FileInfo:
        del with_hash
        self.looked += 1
        size = next(self._sizes)
        if size == 50:
            asyncio.get_running_loop().call_later(0.05, self._state.update, {"hash": "new"})
        written = datetime.fromtimestamp(size, UTC)
        return FileInfo(path.text, FileKind.NOTEBOOK, written, written, size)


@requirement("saving:foreign:merged")
async def test_a_file_that_was_looked_at_while_it_was_written_is_not_waited_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "LOAD_SECONDS", 3_600)
    doc: Doc[Any] = Doc()
    room = SimpleNamespace(doc=doc, size=writing.SMALL_BYTES, acknowledged=1, is_open=True, answers_saves=True)
    file = _FileBeingWritten(doc)
    writes = writing.FileWrites(cast("Any", room), cast("Any", file), DocPath("n.ipynb"))
    async with asyncio.timeout(60):
        assert [(await writes.look()).size for _ in range(3)] == [10, 100, 100]
    assert file.looked == 4
