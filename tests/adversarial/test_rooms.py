"""Shared notebooks under attack and in bad weather: hostile peers, cut wires, dying servers, vanishing files."""

import asyncio
import json
import math
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pycrdt import Array, Doc, Map, Text, XmlElement, XmlFragment, XmlText, create_awareness_message

from jupyter_support import (
    JupyterProcess,
    JupyterServer,
    Person,
    PersonIn,
    eventually,
    person_in,
    read_only,
    sources_on_disk,
    write_notebook,
)
from kernel_support import rest
from notebook_agent import Agent, Relay, agent_of, in_front_of
from requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[JupyterProcess]:
    """A Jupyter of the test's own, that may be killed."""
    home = tmp_path / "jupyter"
    home.mkdir()
    with JupyterProcess(home) as process:
        yield process


@requirement("adversarial:R1")
@pytest.mark.parametrize("between", ["store deleted", "file changed"])
async def test_jupyter_killed_and_restarted_under_an_open_room(
    mortal: JupyterProcess, tmp_path: Path, between: str
) -> None:
    file = write_notebook(mortal.root, "n.ipynb", ["one", "two"])
    with in_front_of(mortal.address, tmp_path) as ours:
        async with agent_of(ours) as do:
            added = [{"content": "saved"}]
            await do("insert_nb_cells", path="n.ipynb", position=-1, cells=added, exec=False)
            expected = ["one", "two", "saved"]
            await eventually(lambda: sources_on_disk(file) == expected, "the edit on disk")
            await asyncio.to_thread(mortal.kill)
            dead = await do.error("insert_nb_cells", path="n.ipynb", position=-1, cells=added, exec=False)
            assert dead["code"] in {"UNAVAILABLE", "UNKNOWN_OUTCOME"}
            if between == "store deleted":
                for store in mortal.home.glob(".jupyter_ystore.db*"):
                    store.unlink()
            else:
                content = json.loads(file.read_text(encoding="utf-8"))
                expected[1] = content["cells"][1]["source"] = "changed meanwhile"
                file.write_text(json.dumps(content), encoding="utf-8")
            await asyncio.to_thread(mortal.start)
            assert await do.sources("n.ipynb") == expected
            await do("edit_nb_cell", path="n.ipynb", cell=0, old="one", new="after")
            expected[0] = "after"
            async with person_in(mortal.address, "n.ipynb") as them:
                assert them.sources == expected
                assert len({str(cell["id"]) for cell in them.cells}) == len(expected)


@requirement("adversarial:R2")
async def test_each_acknowledged_edit_is_there_once_however_often_the_wire_is_cut(
    jupyter_server: JupyterServer, nb_folder: str, tmp_path: Path
) -> None:
    path = f"{nb_folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["start"])
    acknowledged: list[str] = []
    unknown: list[str] = []
    refused: list[str] = []
    chance = random.Random(7)
    async with Relay(jupyter_server) as relay:
        with in_front_of(relay.address, tmp_path) as ours:
            async with agent_of(ours) as do:
                await do("read_nb_cells", path=path)
                for number in range(60):
                    cells = [{"content": f"edit {number}"}]
                    call = asyncio.create_task(
                        do.whole("insert_nb_cells", path=path, position=-1, cells=cells, exec=False)
                    )
                    if number % 2:
                        await asyncio.sleep(chance.random() * 0.02)
                        relay.cut()
                    data = (await call).structured_content
                    code = data["error"]["code"] if "error" in data else ""
                    assert code in {"", "UNKNOWN_OUTCOME", "UNAVAILABLE"}, data
                    (unknown if code == "UNKNOWN_OUTCOME" else refused if code else acknowledged).append(
                        cells[0]["content"]
                    )
    async with person_in(jupyter_server, path) as them:
        there = them.sources
    assert len(acknowledged) >= 30
    assert len(unknown) + len(refused) >= 3
    assert [text for text in acknowledged if there.count(text) != 1] == []
    assert [text for text in unknown if there.count(text) > 1] == []
    assert [text for text in refused if text in there] == []


def a_cell(cell_id: str, source: str) -> Map[Any]:
    made: dict[str, Any] = {"id": cell_id, "cell_type": "code", "source": Text(source)}
    return Map({**made, "metadata": Map({}), "outputs": Array([]), "execution_count": None})


def announce(them: Person, state: Any) -> None:
    them.awareness.set_local_state(state)
    update = them.awareness.encode_awareness_update([them.awareness.client_id])
    them._outgoing.put_nowait(create_awareness_message(update))  # pyright: ignore[reportPrivateUsage]


@requirement("adversarial:R3")
@pytest.mark.parametrize(
    "state", [{"user": "Ada"}, {"user": ["Ada"]}, {"user": {"name": {"deep": 1}}}, {"user": 5}, {}]
)
async def test_whatever_a_peer_announces_the_notebook_is_told_about(
    agent: Any, jupyter_server: JupyterServer, nb_folder: str, person: PersonIn, state: dict[str, Any]
) -> None:
    path, other = f"{nb_folder}/n.ipynb", f"{nb_folder}/other.ipynb"
    for one in (path, other):
        write_notebook(jupyter_server.root, one, ["x"])
    async with agent() as do, person(path) as them:
        await do("get_nb_stat", path=path)
        announce(them, state)
        await them.settle()
        stat = await do.whole("get_nb_stat", path=path)
        elsewhere = [await do.whole("workspace_status"), await do.whole("search_nbs", query="x", path=other)]
        # Nothing of this is to stay behind for the next test.
        announce(them, None)
        await them.settle()
        assert stat.structured_content.get("cell_count") == 1
        assert [result.structured_content for result in elsewhere if result.is_error] == []


def deep(levels: int) -> Any:
    inside: Any = 1
    for _ in range(levels):
        inside = {"a": inside}
    return inside


def deep_maps(levels: int) -> Map[Any]:
    inside: Map[Any] = Map({})
    for _ in range(levels):
        inside = Map({"a": inside})
    return inside


def code(**parts: Any) -> Map[Any]:
    made: dict[str, Any] = {"id": "junk", "cell_type": "code", "source": Text("1"), "metadata": Map({})}
    return Map({**made, "outputs": Array([]), "execution_count": None, **parts})


ODD_OUTPUTS = (
    1,
    None,
    "x",
    {"output_type": None},
    {"output_type": "stream", "text": 5},
    {"output_type": "display_data"},
)
NO_CELLS: dict[str, Callable[[], Any]] = {
    "text": lambda: "text",
    "number": lambda: 5,
    "not a number": lambda: math.nan,
    "nothing": lambda: None,
    "yes": lambda: True,
    "plain object": lambda: {"cell_type": "code", "source": "1", "id": "plain"},
    "plain list": lambda: [1, [2]],
    "bytes": lambda: b"\xff\x00",
    "shared text": lambda: Text("shared"),
    "shared list": lambda: Array([1, Map({"a": Text("b")})]),
    "document": Doc,
    "xml": lambda: XmlFragment([XmlElement("p", {}, [XmlText("text")])]),
    "empty": lambda: deep_maps(0),
    "no type": lambda: code(cell_type=None),
    "wrong types": lambda: Map({"id": 5, "cell_type": 7, "source": "plain", "metadata": "x", "outputs": "no"}),
    "outputs no list": lambda: code(outputs="no"),
    "outputs a map": lambda: code(outputs=Map({"0": "x"})),
    "source a map": lambda: code(source=Map({"a": 1})),
    "source a list": lambda: code(source=["a", "b"]),
}
ODD_CELLS: dict[str, Callable[[], Any]] = {
    "odd outputs": lambda: code(outputs=Array(list(ODD_OUTPUTS))),
    "count no number": lambda: code(execution_count=math.nan),
    "count infinite": lambda: code(
        execution_count=math.inf, outputs=Array([{"output_type": "execute_result", "execution_count": math.inf}])
    ),
    "bytes inside": lambda: code(metadata=Map({"a": b"\xff", "b": [math.nan, b"\x00"]})),
    "metadata no map": lambda: code(metadata=7),
    "deep metadata": lambda: code(metadata=deep(600)),
    "deep maps": lambda: code(metadata=deep_maps(150)),
    "id a map": lambda: code(id=Map({"a": 1})),
    "id very long": lambda: code(id="x" * 10_000),
    "no outputs": lambda: Map({"id": "junk", "cell_type": "code", "source": Text("1")}),
    "source plain": lambda: code(source="plain"),
    "type unknown": lambda: code(cell_type="video"),
}


@requirement("adversarial:R3")
@pytest.mark.parametrize("shape", [*NO_CELLS, *ODD_CELLS])
async def test_what_a_peer_puts_in_the_place_of_a_cell_spoils_that_cell_only(
    agent: Any, jupyter_server: JupyterServer, nb_folder: str, person: PersonIn, shape: str
) -> None:
    path = f"{nb_folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["one", "two"])
    async with agent() as do, person(path) as them:
        await do("get_nb_stat", path=path)
        them.cells.insert(1, {**NO_CELLS, **ODD_CELLS}[shape]())
        await them.settle()
        lines = (await do("get_nb_stat", path=path, outline=True))["outline"]
        assert [line.split()[0] for line in lines] == ["0", "1", "2"]
        assert (" unreadable " in lines[1]) is (shape in NO_CELLS)
        cells = (await do("read_nb_cells", path=path))["cells"]
        assert [cells[0]["source"], cells[2]["source"]] == ["one", "two"]
        if shape in NO_CELLS:
            assert cells[1]["cell_type"] == "raw"
            assert "can be deleted" in cells[1]["note"]
        assert len((await do("search_nbs", query="two", path=path))["hits"]) == 1
        await do.resource(f"jupyter://{path}")
        await do("move_nb_cells", path=path, ranges=[{"id": "c0"}], position=-1)
        await do("edit_nb_cell", path=path, cell="c1", old="two", new="2")
        await do("delete_nb_cells", path=path, ranges=[{"start": 0}])
        assert await do.sources(path) == ["2", "one"]
        await do("undo_nb_edit", path=path)
        await do("move_nb_cells", path=path, ranges=[{"start": 0}], position=2)
        assert [(await do.sources(path))[index] for index in (0, 2)] == ["2", "one"]
        await them.settle()
        assert isinstance(them.cells[1], Map)


@requirement("adversarial:R3")
async def test_cells_around_what_is_no_cell_are_run(
    agent: Any, jupyter_server: JupyterServer, nb_folder: str, person: PersonIn
) -> None:
    path = f"{nb_folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["x = 20", "x + 1"])
    async with agent() as do, person(path) as them:
        for make in NO_CELLS.values():
            them.cells.insert(1, make())
        await them.settle()
        every = {"start": 0, "end": len(NO_CELLS) + 2}
        ran = await do("execute_nb_cells", path=path, ranges=[every])
        assert [one["id"] for one in ran["execution_results"]] == ["c0", "c1"]
        assert ran["execution_results"][1]["outputs"][0]["data"]["text/plain"] == "21"
        again = await do("restart_nb_kernel", path=path, clear_outputs=True)
        assert [one["status"] for one in again["execution_results"]] == ["done", "done"]
        nothing = await do.error("execute_nb_cells", path=path, ranges=[{"start": 1}])
        assert "none of these cells is a code cell" in nothing["message"]
        refused = {"range": {"start": 1}, "content": "new"}
        assert (await do.error("modify_nb_cells", path=path, modifications=[refused], exec=False))["hint"]
        await do("delete_nb_cells", path=path, ranges=[{"start": 1, "end": len(NO_CELLS) + 1}])
        assert await do.sources(path) == ["x = 20", "x + 1"]


@requirement("adversarial:R3")
async def test_two_cells_with_one_id_are_edited_by_index_and_truly_reported(
    agent: Any, jupyter_server: JupyterServer, nb_folder: str, person: PersonIn
) -> None:
    path = f"{nb_folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["first"])
    async with agent() as do, person(path) as them:
        for source in ("1", "2"):
            them.cells.append(a_cell("twin", source))
        await them.settle()
        change = {"range": {"start": 2}, "content": "40 + 2"}
        result = await do.whole("modify_nb_cells", path=path, modifications=[change], exec=False)
        await them.settle()
        assert result.is_error is (them.sources[2] == "2"), "reported as failed, and done all the same"


@requirement("adversarial:R3")
async def test_two_cells_with_one_id_are_run_by_index(
    agent: Any, jupyter_server: JupyterServer, nb_folder: str, person: PersonIn
) -> None:
    path = f"{nb_folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["first"])
    async with agent() as do, person(path) as them:
        for source in ("'left'", "'right'"):
            them.cells.append(a_cell("twin", source))
        them.cells.append(a_cell("", "'nameless'"))
        await them.settle()
        assert (await do.error("execute_nb_cells", path=path, ranges=[{"id": "twin"}]))["code"] == "INVALID_ARGUMENT"
        for index, said in ((2, "'right'"), (3, "'nameless'")):
            ran = await do("execute_nb_cells", path=path, ranges=[{"start": index}])
            assert ran["execution_results"][0]["outputs"][0]["data"]["text/plain"] == said
            await them.settle()
            assert [len(cell["outputs"]) for cell in them.cells][index] == 1
        assert len(them.cells[1]["outputs"]) == 0
        assert len({str(cell["id"]) for cell in them.cells}) == 4
        them.cells.append(a_cell("twin", "'again'"))
        await them.settle()
        unknown = await do.error("modify_nb_cells", path=path, modifications=[{"range": {"start": 4}, "content": "x"}])
        assert "4 cells, index 0 to 3, as it was shown to you; by now it has 5 cells" in unknown["message"]
        change = {"range": {"start": 4}, "content": "'changed'"}
        ran = await do("modify_nb_cells", path=path, modifications=[change])
        assert ran["execution_results"][0]["outputs"][0]["data"]["text/plain"] == "'changed'"


@requirement("adversarial:R3")
async def test_a_flood_of_announcements_and_a_malformed_update_leave_others_alone(
    agent: Any, jupyter_server: JupyterServer, nb_folder: str, person: PersonIn
) -> None:
    path, other = f"{nb_folder}/n.ipynb", f"{nb_folder}/other.ipynb"
    for one in (path, other):
        write_notebook(jupyter_server.root, one, ["good"])
    async with agent() as do, person(other) as friend:
        await do.sources(path)
        async with person(path) as them:
            for number in range(300):
                announce(them, {"user": {"name": f"flood {number}"}})
            for garbage in (b"\x00\x02\xff\xff", b"\x00\x02\x05\x01\x02\x03", b"\x00\x09", b"\x01\xff", b"\x07junk"):
                them._outgoing.put_nowait(garbage)  # pyright: ignore[reportPrivateUsage]
            assert await do.sources(other) == ["good"]
            # Whoever sends such things is not answered any more: no goodbye is to be waited for.
            assert them._connection is not None  # pyright: ignore[reportPrivateUsage]
            them._connection.transport.abort()  # pyright: ignore[reportPrivateUsage]
        friend.text_of(0).insert(0, "still ")
        await friend.settle()
        assert await do.sources(other) == ["still good"]
        assert await do.sources(path) == ["good"]
        await do("edit_nb_cell", path=path, cell=0, old="good", new="unharmed")
        async with person(path) as them:
            assert them.sources == ["unharmed"]


@requirement("adversarial:R4")
async def test_an_edit_by_index_with_expect_after_a_person_inserted_above(
    agent: Any, jupyter_server: JupyterServer, nb_folder: str, person: PersonIn
) -> None:
    path = f"{nb_folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a = 1", "b = 2"])
    async with agent() as do, person(path) as them:
        revision = (await do("read_nb_cells", path=path))["cells"][1]["revision"]
        them.cells.insert(0, a_cell("new", "inserted"))
        await them.settle()
        # The index means the cell that was shown there, and the revision is of that cell.
        seen = {"range": {"start": 1}, "content": "b = 3", "expect": revision}
        changed = await do("modify_nb_cells", path=path, modifications=[seen], exec=False)
        assert [cell["id"] for cell in changed["cells"]] == ["c1"]
        await them.settle()
        assert them.sources == ["inserted", "a = 1", "b = 3"]
        calls: tuple[tuple[str, dict[str, Any]], ...] = (
            ("modify_nb_cells", {"modifications": [{**seen, "range": {"id": "c1"}}], "exec": False}),
            ("edit_nb_cell", {"cell": "c1", "old": "3", "new": "4", "expect": revision}),
            ("delete_nb_cells", {"ranges": [{"id": "c1"}], "expect": {"c1": revision}}),
            ("move_nb_cells", {"ranges": [{"id": "c1"}], "position": 0, "expect": {"c1": revision}}),
        )
        for tool, more in calls:
            error = await do.error(tool, path=path, **more)
            assert error["code"] == "CONFLICT", tool
            assert "+b = 3" in error["details"]["diff"]
        await them.settle()
        assert them.sources == ["inserted", "a = 1", "b = 3"]


@requirement("adversarial:R5")
async def test_three_agents_and_two_people_end_with_the_same_notebook(
    agent: Any, jupyter_server: JupyterServer, nb_folder: str, person: PersonIn
) -> None:
    path = f"{nb_folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["start"])
    kept: set[str] = set()

    async def act(name: str, mode: str) -> None:
        chance = random.Random(name)
        async with agent(mode) as do:
            for number in range(20):
                text = f"{name} {number}"
                done = await do(
                    "insert_nb_cells", path=path, position=chance.choice([0, -1]), cells=[{"content": text}], exec=False
                )
                (made,) = done["cells"]
                kept.add(text)
                if number % 4 == 1:
                    await do("delete_nb_cells", path=path, ranges=[{"id": made["id"]}])
                    kept.remove(text)
                elif number % 4 == 2:
                    await do("move_nb_cells", path=path, ranges=[{"id": made["id"]}], position=0)
                elif number % 4 == 3:
                    await do("edit_nb_cell", path=path, cell=made["id"], old=text, new=f"{text} edited")
                    kept.remove(text)
                    kept.add(f"{text} edited")

    async def live(name: str) -> None:
        """Somebody who comes and goes, and works on without a connection's help in between."""
        for number in range(4):
            async with person(path) as them:
                for part in range(5):
                    text = f"{name} {number} {part}"
                    them.cells.insert(len(them.cells) // 2, a_cell(text.replace(" ", "-"), text))
                    kept.add(text)
                    await them.settle()

    await asyncio.gather(act("Ann", "auto"), act("Bob", "legacy"), act("Cid", "auto"), live("Dee"), live("Eve"))
    async with agent() as do, person(path) as one, person(path) as two:
        assert one.sources == two.sources
        assert sorted(one.sources) == sorted({"start", *kept})
        assert (await do("get_nb_stat", path=path))["cell_count"] == len(one.sources)
        ids = [str(cell["id"]) for cell in one.cells]
        assert len(set(ids)) == len(ids)


@requirement("adversarial:R6")
@pytest.mark.parametrize("what", ["renamed", "deleted", "replaced by a folder"])
@pytest.mark.parametrize("when", ["edit", "run"])
async def test_a_notebook_that_vanishes_in_use_is_not_resurrected(
    agent: Any, jupyter_server: JupyterServer, nb_folder: str, what: str, when: str
) -> None:
    path = f"{nb_folder}/n.ipynb"
    slow = "import time\nfor n in range(15):\n    print(n, flush=True)\n    time.sleep(0.1)"
    file = write_notebook(jupyter_server.root, path, [slow, "'alive'"])
    write_notebook(jupyter_server.root, f"{nb_folder}/other.ipynb", ["good"])
    async with agent() as do:
        # No run before: a save that is under way when the file goes would be Jupyter's to finish.
        await do.sources(path)
        running = None
        if when == "run":
            running = await do("execute_nb_cells", path=path, ranges=[{"start": 0}], timeout=0.5)
            while (
                running["status"] == "queued"
            ):  # a cold kernel takes longer to start than we waited; the test's own limit bounds this
                running = await do("get_execution", execution_id=running["execution_id"], timeout=0.1)
            assert running["status"] == "running"
        if what == "renamed":
            rest(jupyter_server, "PATCH", f"/api/contents/{path}", {"path": f"{nb_folder}/new.ipynb"})
        else:
            file.unlink()
        if what == "replaced by a folder":
            file.mkdir()
        change = {"range": {"start": 1}, "content": "changed"}

        async def refused() -> str:
            result = await do.whole("modify_nb_cells", path=path, modifications=[change], exec=False)
            return result.structured_content["error"]["code"] if result.is_error else ""

        # The file is looked at once a second at most; until then the people in the room still get the edit.
        deadline = time.monotonic() + 4
        codes = [await refused()]
        while codes[-1] == "" and time.monotonic() < deadline:
            codes.append(await refused())
        assert codes[-1] in {"NOT_FOUND", "INVALID_ARGUMENT", "UNAVAILABLE", "UNKNOWN_OUTCOME"}, codes
        if running is not None:
            ended = await do.whole("get_execution", execution_id=running["execution_id"], timeout=30)
            assert ended.structured_content["status"] in {"done", "error"}
        await do.error("read_nb_cells", path=path)
        assert await do.sources(f"{nb_folder}/other.ipynb") == ["good"]
        if what == "renamed":
            assert (await do.sources(f"{nb_folder}/new.ipynb"))[0] == slow
        assert not file.is_file()


@requirement("adversarial:R6")
async def test_a_notebook_made_read_only_in_use_is_never_said_to_be_saved(
    agent: Any, jupyter_server: JupyterServer, nb_folder: str, person: PersonIn
) -> None:
    path = f"{nb_folder}/n.ipynb"
    file = write_notebook(jupyter_server.root, path, ["print('ran')"])
    async with agent() as do, person(path) as them:
        await do("execute_nb_cells", path=path, ranges=[{"start": 0}])
        await eventually(lambda: "ran\\n" in file.read_text(encoding="utf-8"), "the output on disk")
        with read_only(file):
            ran = await do("execute_nb_cells", path=path, ranges=[{"start": 0}])
            assert ran["execution_results"][0]["outputs"][0]["text"] == "ran\n"
            edited = await do("edit_nb_cell", path=path, cell=0, old="ran", new="edited")
            assert edited["saved"] is False
            await them.settle()
            assert them.sources == ["print('edited')"]
            assert sources_on_disk(file) == ["print('ran')"]


async def change(do: Agent, path: str, model: list[str], action: str, at: int, text: str) -> list[str]:
    """Make one edit, and say what the notebook must hold then, by a plain list's account."""
    after = list(model)
    match action:
        case "modify":
            given = {"range": {"start": at}, "content": text}
            await do("modify_nb_cells", path=path, modifications=[given], exec=False)
            after[at] = text
        case "edit":
            await do("edit_nb_cell", path=path, cell=at, old=model[at], new=text)
            after[at] = text
        case "move":
            await do("move_nb_cells", path=path, ranges=[{"start": at}], position=-1)
            after.append(after.pop(at))
        case "delete" if len(model) > 1:
            await do("delete_nb_cells", path=path, ranges=[{"start": at}])
            del after[at]
        case _:
            await do("insert_nb_cells", path=path, position=at, cells=[{"content": text}], exec=False)
            after.insert(at, text)
    return after


@requirement("adversarial:T3")
async def test_mixed_edits_of_two_agents_stay_in_their_notebooks(
    agent: Any, jupyter_server: JupyterServer, nb_folder: str, person: PersonIn
) -> None:
    paths = {name: f"{nb_folder}/{name}.ipynb" for name in ("one", "two")}
    for path in paths.values():
        write_notebook(jupyter_server.root, path, ["start"])

    async def work(do: Agent, name: str) -> list[str]:
        chance = random.Random(name)
        path, model = paths[name], ["start"]
        undoable: list[str] | None = None
        for number in range(100):
            action = chance.choice(["insert", "insert", "modify", "edit", "move", "delete", "undo"])
            if action == "undo" and undoable is not None:
                await do("undo_nb_edit", path=path)
                model, undoable = undoable, None
                continue
            before = model
            model = await change(do, path, model, action, chance.randrange(len(model)), f"{name} {number}")
            # Moving the last cell to the end is no edit.
            undoable = before if model != before else undoable
            if number % 10 == 0:
                assert await do.sources(path) == model
        return model

    async with agent() as first, agent("legacy") as second:
        models = await asyncio.gather(work(first, "one"), work(second, "two"))
        for path, model in zip(paths.values(), models, strict=True):
            async with person(path) as them:
                assert them.sources == model
