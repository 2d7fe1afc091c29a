"""A whole job in live notebooks, over every way to reach Jupyter: a real server, real kernels, a person in the same notebook."""

import asyncio
import json
import os
import resource
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cellwright.core.errors import Conflict, InvalidArgument, LimitReached, Unavailable
from cellwright.core.types import ALL_SCOPES, Call, Principal, Secret
from cellwright.jupyter.files.creating import create, make_folders
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.inside.adapter import LocalJupyter
from cellwright.jupyter.model import FileKind, NewCell, RoomKind
from cellwright.jupyter.port import Jupyter
from cellwright.jupyter.remote.adapter import RemoteJupyter
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.jupyter.server.connect import FoundServer
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools import creating, editing, kernels, notebooks, proposals, rearranging, running, sessions
from cellwright.jupyter.tools.common import Insertion, Range
from cellwright.jupyter.tools.documents.common import DocumentFiles
from cellwright.jupyter.tools.documents.files import delete_document
from cellwright.notebook.run import RunStatus
from jupyter_support import JupyterProcess, JupyterServer, PersonIn, eventually, write_notebook
from local_support import address_of, server_in_loop
from requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

CALL = Call(Principal("test", ALL_SCOPES))
SLEEP = "import time\nprint('begun', flush=True)\ntime.sleep(600)"


@pytest.fixture
async def live(jupyter: Jupyter) -> AsyncGenerator[LiveNotebooks]:
    async def connect() -> FoundServer:
        return FoundServer(jupyter, "named")

    service = LiveNotebooks(connect, lambda: datetime.now(UTC), instance="here")
    try:
        yield service
    finally:
        await service.close()


@contextmanager
def files_of_at_most(size: int, pid: int) -> Generator[None]:
    """No file of this process can grow beyond this: to whoever writes, the disk is full."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def cells_on_disk(server: JupyterServer, path: str) -> list[dict[str, Any]]:
    return json.loads((server.root / path).read_text(encoding="utf-8"))["cells"]


def by_ids(*ids: str) -> list[Range]:
    return [Range(id=cell_id) for cell_id in ids]


async def kernels_for(jupyter: Jupyter, path: str) -> list[str]:
    return [one.kernel.id for one in await jupyter.kernels.sessions() if one.path == path and one.kernel]


@requirement("work:create", "work:create:folder")
async def test_a_notebook_and_its_folders_are_made(
    jupyter_server: JupyterServer, live: LiveNotebooks, folder: str
) -> None:
    path = f"{folder}/a/b/n.ipynb"
    cells = [Insertion("# Title", "markdown"), Insertion("6 * 7")]
    made: dict[str, Any] = {**await creating.create_nb(live, CALL, path, cells)}
    assert made["created_folders"] == [f"{folder}/a", f"{folder}/a/b"]
    assert made["kernel_name"] == "python3"
    on_disk = json.loads((jupyter_server.root / path).read_text(encoding="utf-8"))
    assert [(cell["cell_type"], "".join(cell["source"])) for cell in on_disk["cells"]] == [
        ("markdown", "# Title"),
        ("code", "6 * 7"),
    ]
    assert on_disk["metadata"]["kernelspec"]["name"] == "python3"
    async with live.open(CALL, NotebookPath(path)) as document:
        there = [(head.id, head.revision) for head in document.view.outline()]
    assert there == [(cell["id"], cell["revision"]) for cell in made["cells"]]
    with pytest.raises(Conflict, match="exists already") as taken:
        await creating.create_nb(live, CALL, path, cells)
    assert "insert_nb_cells" in taken.value.hint
    with pytest.raises(InvalidArgument, match="no kernel named 'cobol'"):
        await creating.create_nb(live, CALL, f"{folder}/c/n.ipynb", kernel_name="cobol")
    with pytest.raises(InvalidArgument, match=r"n\.ipynb is not a folder"):
        await creating.create_nb(live, CALL, f"{path}/x.ipynb")
    below = await creating.create_nb(live, CALL, f"{folder}/d/e/")
    assert (below["path"], below["created_folders"]) == (f"{folder}/d/e", [f"{folder}/d", f"{folder}/d/e"])
    with pytest.raises(Conflict, match="exists already"):
        await creating.create_nb(live, CALL, f"{folder}/d/")
    with pytest.raises(InvalidArgument, match="no cells"):
        await creating.create_nb(live, CALL, f"{folder}/f/", cells)
    with pytest.raises(LimitReached, match="20"):
        await creating.create_nb(live, CALL, f"{folder}/{'deep/' * 21}n.ipynb")
    assert sorted(place.name for place in (jupyter_server.root / folder).iterdir()) == ["a", "d"]


@asynccontextmanager
async def own_server(
    way: str, home: Path, start: Callable[..., JupyterProcess], *, trash: bool
) -> AsyncGenerator[tuple[Jupyter, Path, int]]:
    """A server that signs nothing on the disk: a way to it, its root, and the process that writes its files."""
    options = {"NotebookNotary": {"db_file": ":memory:"}, "FileContentsManager": {"delete_to_trash": trash}}
    if way == "local":
        async with server_in_loop(home, settings=options) as server, LocalJupyter(server) as inside:
            yield inside, address_of(server).root, os.getpid()
        return
    given = [f"--{name}.{key}={value}" for name, some in options.items() for key, value in some.items()]
    process = start(options=tuple(given))
    (about,) = (process.home / "runtime_dir").glob("jpserver-*.json")
    outside = RemoteJupyter(JupyterAddress.parse(process.url, token=Secret(process.token)))
    try:
        yield outside, process.root, int(json.loads(about.read_text(encoding="utf-8"))["pid"])
    finally:
        await outside.close()


# Jupyter itself, here in our process, does not close a file whose writing failed.
UNCLOSED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
LARGE: dict[str, Any] = {"cells": [], "metadata": {"x": "y" * 50_000}, "nbformat": 4, "nbformat_minor": 5}
NEW: tuple[tuple[str, FileKind, object], ...] = (
    ("old/n.ipynb", FileKind.NOTEBOOK, LARGE),
    ("old/t.md", FileKind.FILE, "text\n" * 10_000),
    ("made/on/the/way/n.ipynb", FileKind.NOTEBOOK, LARGE),
)


@requirement("work:create:half")
@UNCLOSED
@pytest.mark.parametrize("way", ["remote", "local"])
async def test_a_file_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, start_jupyter: Callable[..., JupyterProcess], way: str
) -> None:
    async with own_server(way, tmp_path / "local", start_jupyter, trash=False) as (jupyter, root, pid):
        (root / "old").mkdir()
        for room in (0, 4_096):
            for name, kind, content in NEW:
                with files_of_at_most(room, pid), pytest.raises(Unavailable, match="nothing is left"):
                    await create(jupyter.documents, DocPath(name), kind, content)
            seen = [place for place in root.rglob("*") if ".ipynb_checkpoints" not in place.parts]
            assert seen == [root / "old"]
        for name, kind, content in NEW:
            await create(jupyter.documents, DocPath(name), kind, content)
        assert (root / "old/t.md").read_text(encoding="utf-8") == "text\n" * 10_000


@requirement("work:create:half")
@UNCLOSED
@pytest.mark.parametrize("way", ["remote", "local"])
async def test_where_the_trash_has_no_room_either_the_same_call_works_later(
    tmp_path: Path, start_jupyter: Callable[..., JupyterProcess], way: str
) -> None:
    async with own_server(way, tmp_path / "local", start_jupyter, trash=True) as (jupyter, root, pid):
        (root / "old").mkdir()
        for name, kind, content in NEW:
            with files_of_at_most(0, pid), pytest.raises(Unavailable):
                await create(jupyter.documents, DocPath(name), kind, content)
            await create(jupyter.documents, DocPath(name), kind, content)
            with pytest.raises(Conflict):
                await create(jupyter.documents, DocPath(name), kind, content)
        with files_of_at_most(0, pid), pytest.raises(Unavailable):
            await create(jupyter.documents, DocPath("old/u.md"), FileKind.FILE, "ours")
        (root / "old/u.md").write_text("somebody else's", encoding="utf-8")
        with pytest.raises(Conflict):
            await create(jupyter.documents, DocPath("old/u.md"), FileKind.FILE, "ours")
        assert (root / "old/u.md").read_text(encoding="utf-8") == "somebody else's"


@requirement("work:create:parents")
async def test_folders_that_somebody_else_makes_or_that_are_none(
    jupyter: Jupyter, jupyter_server: JupyterServer, folder: str
) -> None:
    place = DocPath(f"{folder}/x/y")
    made = await asyncio.gather(*(make_folders(jupyter.documents, place) for _ in range(4)))
    assert sorted(one.text for some in made for one in some) == [f"{folder}/x", f"{folder}/x/y"], "each is made once"
    (jupyter_server.root / folder / "file.txt").write_text("x", encoding="utf-8")
    with pytest.raises(InvalidArgument, match=r"file\.txt is not a folder"):
        await create(jupyter.documents, DocPath(f"{folder}/file.txt/sub/a.md"), FileKind.FILE, "x")


@requirement("work:run:words", "work:run:keep-going", "work:run:rest")
async def test_all_above_below_past_errors_and_the_rest(live: LiveNotebooks, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    sources = ["log = ['a']", "log.append('b')", "1/0", "log.append('d')", "undefined", "print(log)"]
    cells = [Insertion("# T", "markdown"), *(Insertion(source) for source in sources)]
    made: dict[str, Any] = {**await creating.create_nb(live, CALL, path, cells)}
    ids = [str(cell["id"]) for cell in made["cells"]]

    async def run(**arguments: Any) -> tuple[list[str], dict[str, Any]]:
        reply = await running.execute_nb_cells(live, CALL, path, **arguments)
        assert reply.failed is bool(reply.data.get("failed_cells"))
        return [cell["status"] for cell in reply.data["execution_results"]], {**reply.data}

    states, data = await run(cells="above", ranges=by_ids(ids[3]))
    assert (states, data["executed_cells"]) == (["done"] * 2, 2)
    states, data = await run(cells="all")
    assert states == ["done", "done", "error", "not_run", "not_run", "not_run"]
    assert data["message"] == "error: of 6 code cells 2 done, 1 error, 3 not run"
    assert data["failed_cells"] == [ids[3]]
    arguments = json.loads(data["next"].partition("execute_nb_cells(")[2].removesuffix(")"))
    assert arguments == {"path": path, "cells": "below", "ranges": [{"id": ids[4]}]}
    states, data = await run(cells="below", ranges=[Range(**one) for one in arguments["ranges"]])
    assert states == ["done", "error", "not_run"]
    states, data = await run(cells="all", keep_going=True)
    assert states == ["done", "done", "error", "done", "error", "done"]
    assert (data["failed_cells"], data["status"], data["executed_cells"]) == ([ids[3], ids[5]], "error", 6)
    assert "next" not in data
    assert data["execution_results"][-1]["outputs"][0]["text"] == "['a', 'b', 'd']\n"
    states, data = await run(ranges=[*by_ids(ids[3], ids[1])])
    assert states == ["done", "error"]
    states, data = await run(ranges=by_ids(ids[3], ids[4]))
    assert json.loads(data["next"].partition("execute_nb_cells(")[2].removesuffix(")")) == {
        "path": path,
        "ranges": [{"id": ids[4]}],
    }
    for wrong in (
        {},
        {"cells": "below"},
        {"cells": "all", "ranges": by_ids(ids[1])},
        {"cells": "above", "ranges": by_ids(ids[1], ids[2])},
        {"cells": "above", "ranges": by_ids(ids[1])},
    ):
        with pytest.raises(InvalidArgument):
            await run(**wrong)


@requirement("work:run:keep-going")
async def test_going_on_ends_with_an_interrupt(live: LiveNotebooks, folder: str) -> None:
    path = NotebookPath(f"{folder}/n.ipynb")
    content, _ = await live.create(CALL, path, [NewCell("1/0"), NewCell(SLEEP), NewCell("print('after')")])
    ids = [str(cell["id"]) for cell in content["cells"]]
    waiting = asyncio.create_task(live.run(CALL, path, ids, 100, keep_going=True))
    async with live.open(CALL, path) as document:
        await eventually(lambda: document.view.head(1).output_count > 0, "the second cell running", seconds=60)
    (execution,) = live.executions.of(CALL.principal.id)
    await execution.cancel()
    ran = await waiting
    assert [cell.state for cell in ran.cells] == [RunStatus.ERROR, RunStatus.INTERRUPTED, RunStatus.NOT_RUN]


@requirement("work:end:after-run")
async def test_a_notebook_is_left_right_after_its_run(
    live: LiveNotebooks, jupyter_server: JupyterServer, folder: str
) -> None:
    path = NotebookPath(f"{folder}/n.ipynb")
    content, _ = await live.create(CALL, path, [NewCell("print('x' * 10_000)")])
    ids = [str(cell["id"]) for cell in content["cells"]]
    for turn in range(10):
        ran = await live.run(CALL, path, ids, 60)
        assert ran.state is RunStatus.DONE
        ended = await sessions.end_nb_session(live, CALL, path.text)
        assert (ended["status"], ended["saved"]) == ("disconnected", True), turn
        (cell,) = cells_on_disk(jupyter_server, path.text)
        assert cell["execution_count"] == turn + 1
        assert len("".join(cell["outputs"][0]["text"])) == 10_001


@requirement("work:end:after-run")
async def test_a_notebook_is_not_left_during_a_run(live: LiveNotebooks, folder: str) -> None:
    path = NotebookPath(f"{folder}/n.ipynb")
    content, _ = await live.create(CALL, path, [NewCell(SLEEP), NewCell("1")])
    ids = [str(cell["id"]) for cell in content["cells"]]
    assert (await live.run(CALL, path, ids[1:], 60)).state is RunStatus.DONE
    await live.run(CALL, path, ids[:1], 0)
    with pytest.raises(Conflict, match="in use"):
        await sessions.end_nb_session(live, CALL, path.text)
    room = (await live.connected(CALL)).rooms.find(path, RoomKind.NOTEBOOK)
    assert room is not None
    assert room.connected
    (_, execution) = live.executions.of(CALL.principal.id)
    await execution.cancel()


@requirement("work:kernel:shutdown")
async def test_a_kernel_is_shut_down_with_what_runs_in_it(live: LiveNotebooks, jupyter: Jupyter, folder: str) -> None:
    path = NotebookPath(f"{folder}/n.ipynb")
    content, _ = await live.create(CALL, path, [NewCell(SLEEP), NewCell("2")])
    ids = [str(cell["id"]) for cell in content["cells"]]
    none = await kernels.shutdown_nb_kernel(live, CALL, path.text)
    assert none == {"message": f"{path} has no running kernel", "kernel_id": None}
    waiting = asyncio.create_task(live.run(CALL, path, ids, 100))
    async with live.open(CALL, path) as document:
        await eventually(lambda: document.view.head(0).output_count > 0, "the cell running", seconds=60)
    later = await live.run(CALL, path, ids[1:], 0)
    (kernel_id,) = await kernels_for(jupyter, path.text)
    ended = await kernels.shutdown_nb_kernel(live, CALL, path.text)
    assert ended["kernel_id"] == kernel_id
    assert kernel_id not in [kernel.id for kernel in await jupyter.kernels.kernels()]
    assert await kernels_for(jupyter, path.text) == []
    ran = await waiting
    assert [cell.state for cell in ran.cells] == [RunStatus.DIED, RunStatus.NOT_RUN]
    assert ran.cells[0].error is not None
    assert "was shut down" in ran.cells[0].error.value
    waited = live.executions.get(CALL.principal.id, later.id).view()
    assert waited.cells[0].error is not None
    assert "shut down before its turn" in waited.cells[0].error.value
    assert (await live.run(CALL, path, ids[1:], 60)).state is RunStatus.DONE
    assert await kernels_for(jupyter, path.text) != [kernel_id]


@requirement("work:kernel:let-go")
async def test_who_lets_a_notebook_go_can_end_its_kernel(
    live: LiveNotebooks, jupyter: Jupyter, jupyter_server: JupyterServer, folder: str
) -> None:
    one, two = f"{folder}/one.ipynb", f"{folder}/two.ipynb"
    for path in (one, two):
        write_notebook(jupyter_server.root, path, ["1"])
        await live.run(CALL, NotebookPath(path), ["c0"], 60)
    (kernel_id,) = await kernels_for(jupyter, one)
    left = await sessions.end_nb_session(live, CALL, one)
    assert "kernel_ended" not in left
    assert left["kernel"] == {
        "id": kernel_id,
        "state": "idle",
        "note": "goes on; this call with shutdown_kernel ends it",
    }
    ended = await sessions.end_nb_session(live, CALL, one, shutdown_kernel=True)
    assert ended["kernel_ended"] == kernel_id
    assert await kernels_for(jupyter, one) == []
    assert "kernel" not in await sessions.end_nb_session(live, CALL, one)
    assert (await sessions.end_nb_session(live, CALL, one, shutdown_kernel=True))["kernel_ended"] is None
    files = DocumentFiles(live)
    (shared,) = await kernels_for(jupyter, two)
    await jupyter.kernels.start_session(NotebookPath(one), kernel_id=shared)
    gone = await delete_document(files, CALL, one)
    assert gone["kernel"]["ended"] is False
    assert two in gone["kernel"]["note"]
    assert await kernels_for(jupyter, two) == [shared]
    assert (await delete_document(files, CALL, two))["kernel"]["ended"] is False, "the other session is still there"
    write_notebook(jupyter_server.root, f"{folder}/three.ipynb", ["1"])
    await live.run(CALL, NotebookPath(f"{folder}/three.ipynb"), ["c0"], 60)
    gone = await delete_document(files, CALL, f"{folder}/three.ipynb")
    assert gone["kernel"]["ended"] is True
    assert gone["kernel"]["id"] not in [kernel.id for kernel in await jupyter.kernels.kernels()]
    await jupyter.kernels.shut_down(shared)


@requirement("work:type", "work:metadata", "work:undo")
async def test_a_person_sees_types_and_tags_change(
    live: LiveNotebooks, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["print(1)", "x = 1"])
    await live.run(CALL, NotebookPath(path), ["c0"], 60)
    changes = [
        notebooks.Modification(Range(id="c0"), type="markdown"),
        notebooks.Modification(Range(id="c1"), metadata={"tags": ["keep"], "slideshow": {"slide_type": "slide"}}),
    ]
    async with person(path) as them:
        typing = them.text_of(1)
        done = (await notebooks.modify_nb_cells(live, CALL, path, changes)).data
        assert (done["executed"], done["removed"]) == (False, ["1 outputs of cell c0"])
        typing.insert(0, "y = ")
        await them.settle()
        first, second = them.cells[0].to_py(), them.cells[1].to_py()
        assert first is not None
        assert second is not None
        assert (first["id"], first["cell_type"], first["source"]) == ("c0", "markdown", "print(1)")
        assert "outputs" not in first
        assert (second["source"], second["metadata"]["tags"]) == ("y = x = 1", ["keep"])
        await editing.undo_nb_edit(live, CALL, path)
        await them.settle()
        assert (them.cells[0]["cell_type"], len(them.cells[0]["outputs"])) == ("code", 1)
        assert "tags" not in them.cells[1]["metadata"]
        with pytest.raises(InvalidArgument, match="says nothing"):
            await notebooks.modify_nb_cells(live, CALL, path, [notebooks.Modification(Range(id="c0"))])


@requirement("work:clear", "work:copy", "work:undo")
async def test_outputs_are_cleared_and_cells_copied_elsewhere(
    live: LiveNotebooks, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    one, two = f"{folder}/one.ipynb", f"{folder}/two.ipynb"
    write_notebook(jupyter_server.root, one, ["print(0)", "print(1)", "print(2)"])
    write_notebook(jupyter_server.root, two, ["old"])
    await live.run(CALL, NotebookPath(one), ["c0", "c1", "c2"], 60)

    async def counts(path: str) -> list[int]:
        async with live.open(CALL, NotebookPath(path)) as document:
            return [head.output_count for head in document.view.outline()]

    async with person(two) as them:
        for outputs, expected in ((False, [0, 0, 0]), (True, [1, 1, 0])):
            made = await rearranging.move_nb_cells(
                live, CALL, one, [Range(0, 2)], 0, copy=True, to=two, outputs=outputs
            )
            await them.settle()
            assert them.sources == ["print(0)", "print(1)", "old"]
            assert await counts(two) == expected
            assert [str(cell["id"]) for cell in them.cells][:2] == [cell["id"] for cell in made["cells"]]
            assert not {"c0", "c1"}.intersection(cell["id"] for cell in made["cells"])
            await editing.undo_nb_edit(live, CALL, two)
        await them.settle()
        assert them.sources == ["old"]
    assert (await rearranging.clear_nb_outputs(live, CALL, one, by_ids("c1")))["ids"] == ["c1"]
    assert await counts(one) == [1, 0, 1]
    await editing.undo_nb_edit(live, CALL, one)
    assert await counts(one) == [1, 1, 1]
    assert (await rearranging.clear_nb_outputs(live, CALL, one))["ids"] == ["c0", "c1", "c2"]
    assert await counts(one) == [0, 0, 0]
    for wrong in ({"to": two}, {"outputs": True}, {"copy": True, "outputs": True, "propose": True}):
        with pytest.raises(InvalidArgument):
            await rearranging.move_nb_cells(live, CALL, one, [Range(0)], 0, **wrong)  # pyright: ignore[reportArgumentType]


@requirement("work:line-ends")
async def test_a_cell_with_crlf_is_edited_as_it_is_shown(
    live: LiveNotebooks, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a = 1\r\nb = 2\r\nc = 3"])
    shown = (await notebooks.read_nb_cells(live, CALL, path)).data["cells"][0]["source"]
    assert shown == "a = 1\nb = 2\nc = 3"
    await editing.edit_nb_cell(live, CALL, path, "a = 1\nb = 2", "a = 1\nb = 20\nd = 4", "c0")
    change = [notebooks.Modification(Range(id="c0"), "a = 1\nb = 20\nd = 4\nc = 30")]
    await notebooks.modify_nb_cells(live, CALL, path, change, exec=False)
    async with live.open(CALL, NotebookPath(path)) as document:
        assert document.view.head(0).source == "a = 1\r\nb = 20\r\nd = 4\r\nc = 30"


async def plain(live: LiveNotebooks, path: str) -> list[tuple[str, str, object]]:
    async with live.open(CALL, NotebookPath(path)) as document:
        cells: Sequence[Any] = document.view.cells()
    return [(cell.head.cell_type, cell.source, cell.metadata.get("tags")) for cell in cells]


@requirement("work:propose", "work:undo")
async def test_all_of_it_can_be_proposed(live: LiveNotebooks, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b\nc", "d", "e"])
    before = await plain(live, path)
    changes = [
        notebooks.Modification(Range(id="c0"), type="markdown"),
        notebooks.Modification(Range(id="c3"), metadata={"tags": ["t"]}),
    ]
    edited = (await notebooks.modify_nb_cells(live, CALL, path, changes, propose=True)).data
    await rearranging.split_join_nb_cells(live, CALL, path, by_ids("c1"), [2], propose=True)
    await rearranging.move_nb_cells(live, CALL, path, by_ids("c2"), -1, copy=True, propose=True)
    joined = await rearranging.split_join_nb_cells(live, CALL, path, by_ids("c2", "c3"), propose=True)
    assert joined["removed_ids"] == ["c3"]
    again = (
        await notebooks.modify_nb_cells(
            live, CALL, path, [notebooks.Modification(Range(id="c2"), metadata={"tags": ["u"]})], propose=True
        )
    ).data
    assert again["proposal"] == edited["proposal"]
    assert await plain(live, path) == before
    shown = await proposals.show_nb_proposal(live, CALL, edited["proposal"])
    (marked,) = [change for change in shown["changes"] if change["id"] == "c2"]
    assert (marked["change"], marked["metadata"]) == (["changed", "metadata"], {"tags": ["u"]})
    await proposals.merge_nb_proposal(live, CALL, edited["proposal"])
    assert await plain(live, path) == [
        ("markdown", "a", None),
        ("code", "b", None),
        ("code", "c", None),
        ("code", "d\ne", ["u"]),
        ("code", "d", None),
    ]
    pictured = {"p.png": {"image/png": "aGk="}}
    write_notebook(
        jupyter_server.root,
        f"{folder}/p.ipynb",
        [],
        cells=[{"cell_type": "markdown", "id": "p", "metadata": {}, "source": "a\nb", "attachments": pictured}],
    )
    with pytest.raises(InvalidArgument, match="attachments"):
        await rearranging.move_nb_cells(live, CALL, f"{folder}/p.ipynb", by_ids("p"), 0, copy=True, propose=True)
    with pytest.raises(InvalidArgument, match="attachments"):
        await rearranging.split_join_nb_cells(live, CALL, f"{folder}/p.ipynb", by_ids("p"), [2], propose=True)
    assert await proposals.list_nb_proposals(live, CALL, f"{folder}/p.ipynb") == {"proposals": []}
    async with live.open(CALL, NotebookPath(path)) as document:
        while document.view.history.last_of(CALL.principal.id) is not None:
            await editing.undo_nb_edit(live, CALL, path)
    assert await plain(live, path) == before
