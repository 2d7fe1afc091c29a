"""An edit means what its caller was shown: through a real client, a real Jupyter, and a person who types meanwhile."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from pycrdt import Map, Text

from extension_support import ExtensionProcess
from extension_support import agent as agent_inside
from jupyter_support import JupyterServer, Person, PersonIn, person_in, write_notebook
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import HttpServer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

ROUNDS = int(os.environ.get("CELLWRIGHT_TEST_SIGHT", "120"))
LEGACY = "legacy"


@pytest.fixture(scope="module")
def ours(jupyter_server: JupyterServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    with in_front_of(jupyter_server, tmp_path_factory.mktemp("ours"), "--toolsets", "all") as server:
        yield server


@pytest.fixture
def agent(ours: HttpServer) -> Callable[..., AbstractAsyncContextManager[Agent]]:
    def connect(mode: str = LEGACY) -> AbstractAsyncContextManager[Agent]:
        return agent_of(ours, mode)

    return connect


def new_cell(cell_id: str, source: str) -> Map[Any]:
    return Map(
        {"id": cell_id, "cell_type": "markdown", "source": Text(source), "metadata": Map({}), "attachments": Map({})}
    )


async def puts_a_cell_above(them: Person, source: str = "from above") -> None:
    them.cells.insert(0, new_cell(f"above{random.getrandbits(30)}", source))
    await them.settle()


@requirement("sight:index")
@pytest.mark.parametrize("cell", [{"start": 1}, {"start": 1, "end": 2}, {"id": "c1"}], ids=["index", "range", "id"])
async def test_a_cell_is_the_one_that_was_shown(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn, cell: dict[str, Any]
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a = 1", "b = 2", "c = 3"])
    async with agent() as do, person(path) as them:
        shown = await do("read_nb_cells", path=path)
        await puts_a_cell_above(them)
        changed = await do(
            "modify_nb_cells", path=path, modifications=[{"range": cell, "content": "B = 2"}], exec=False
        )
        assert changed["cells"][0]["id"] == "c1"
        assert changed["cells"][0]["index"] == 2
        assert changed["view"] != shown["view"]
        assert changed["diff"].splitlines() == ["2 c1", "@@ -1 +1 @@", "-b = 2", "+B = 2"]
        assert (await do.sources(path)) == ["from above", "a = 1", "B = 2", "c = 3"]
        # From now on indexes count in what was shown last.
        read = await do("read_nb_cells", path=path, ranges=[{"start": 2}])
        assert [found["source"] for found in read["cells"]] == ["B = 2"]


@requirement("sight:index")
async def test_an_execution_count_is_the_one_that_was_shown(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a = 1", "b = 2"])
    async with agent() as do, person(path) as them:
        await do("execute_nb_cells", path=path, cells="all")
        await do("read_nb_cells", path=path)
        await them.settle()
        with them.doc.transaction():
            them.cells[0]["execution_count"] = 2.0
            them.cells[1]["execution_count"] = 3.0
        await them.settle()
        edited = await do("edit_nb_cell", path=path, cell="[2]", old="b", new="B")
        assert edited["cells"][0]["id"] == "c1"


@requirement("sight:gone")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("modify_nb_cells", {"modifications": [{"range": {"start": 1}, "content": "x"}]}),
        ("edit_nb_cell", {"cell": 1, "old": "b", "new": "x"}),
        ("delete_nb_cells", {"ranges": [{"start": 0, "end": 2}]}),
        ("move_nb_cells", {"ranges": [{"start": 1}], "position": 0}),
        ("execute_nb_cells", {"ranges": [{"start": 1}]}),
    ],
)
async def test_a_cell_that_is_gone_is_not_guessed(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn, tool: str, arguments: dict[str, Any]
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b", "c", "d"])
    async with agent() as do, person(path) as them:
        await do("get_nb_stat", path=path, outline=True)
        del them.cells[1]
        await them.settle()
        error = await do.error(tool, path=path, **arguments)
        assert error["code"] == "NOT_FOUND"
        assert "c1" in error["message"]
        assert [line.split(" | ")[1] for line in error["details"]["outline"]] == ["a", "c", "d"]
        # The outline was shown, so indexes count in it from now on.
        read = await do("read_nb_cells", path=path, ranges=[{"start": 1}], view=error["details"]["view"])
        assert [cell["source"] for cell in read["cells"]] == ["c"]
        assert await do.sources(path) == ["a", "c", "d"]


@requirement("sight:insert")
async def test_new_cells_follow_the_cell_that_they_were_to_follow(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b", "c"])
    async with agent() as do, person(path) as them:
        await do("read_nb_cells", path=path)
        await puts_a_cell_above(them)
        inserted = await do("insert_nb_cells", path=path, position=2, cells=[{"content": "after b"}], exec=False)
        assert inserted["cells"][0]["index"] == 3
        assert inserted["diff"] == f"+ 3 {inserted['cells'][0]['id'][:12]} code | after b"
        del them.cells[0]
        await them.settle()
        await do("insert_nb_cells", path=path, position=0, cells=[{"content": "first"}], exec=False)
        assert await do.sources(path) == ["first", "a", "b", "after b", "c"]


@requirement("sight:merge:cells")
async def test_what_others_changed_is_merged_or_refused_with_what_they_did(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["one\ntwo\nthree", "b"])

    def modification(content: str, **more: Any) -> dict[str, Any]:
        return {"path": path, "exec": False, "modifications": [{"range": {"start": 0}, "content": content, **more}]}

    async with agent() as do, person(path) as them:
        await do("read_nb_cells", path=path)
        them.text_of(0).insert(0, "their ")
        await them.settle()
        merged = await do("modify_nb_cells", **modification("one\ntwo\nmine"))
        assert await do.sources(path) == ["their one\ntwo\nmine", "b"]
        assert "+mine" in merged["diff"]
        them.text_of(0).insert(0, "again ")
        await them.settle()
        # The sources were shown by reading them: what is read last is what counts.
        refused = await do.error("modify_nb_cells", **modification("all\nmine"), view=merged["view"])
        assert refused["code"] == "CONFLICT"
        assert "+again their one" in refused["details"]["diff"]
        assert (await do.error("delete_nb_cells", path=path, ranges=[{"start": 0}], view=merged["view"]))["code"] == (
            "CONFLICT"
        )
        gone_text = await do.error("edit_nb_cell", path=path, cell=0, old="\ntheir one", new="x", view=merged["view"])
        assert gone_text["code"] == "NOT_FOUND"
        await do("modify_nb_cells", **modification("all mine", expect="any"), view=merged["view"])
        assert await do.sources(path) == ["all mine", "b"]
        them.text_of(0).insert(0, "x")
        await them.settle()
        await do("delete_nb_cells", path=path, ranges=[{"start": 0}], expect="any")
        assert await do.sources(path) == ["b"]


@requirement("sight:merge:cells")
async def test_text_that_somebody_changed_is_not_called_missing(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["value = 1"])
    async with agent() as do, person(path) as them:
        await do("read_nb_cells", path=path)
        del them.text_of(0)[0:5]
        await them.settle()
        error = await do.error("edit_nb_cell", path=path, cell=0, old="value", new="price")
        assert error["code"] == "CONFLICT"
        assert "-value = 1" in error["details"]["diff"]


@requirement("sight:merge:cells")
async def test_what_was_not_shown_was_not_seen(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b\nbb", "c"])

    def modification(cell: str, content: str) -> dict[str, Any]:
        return {"path": path, "exec": False, "modifications": [{"range": {"id": cell}, "content": content}]}

    async with agent() as do, person(path) as them:
        await do("read_nb_cells", path=path)
        them.text_of(1).insert(0, "their ")
        await them.settle()
        # None of these shows the text of the second cell.
        await do("get_nb_stat", path=path, outline=True)
        await do("modify_nb_cells", **modification("c0", "A"))
        await do("insert_nb_cells", path=path, position=-1, cells=[{"content": "new"}], exec=False)
        await do("move_nb_cells", path=path, ranges=[{"id": "c1"}], position=0)
        await do("undo_nb_edit", path=path)
        await do("read_nb_cells", path=path, ranges=[{"id": "c2"}])
        assert (await do.error("modify_nb_cells", **modification("c1", "mine\nbb")))["code"] == "CONFLICT"
        assert (await do.error("delete_nb_cells", path=path, ranges=[{"id": "c1"}]))["code"] == "CONFLICT"
        await do("modify_nb_cells", **modification("c1", "b\nBB"))
        # What was merged into it is not known either: the next change keeps it again.
        await do("modify_nb_cells", **modification("c1", "b\nBBB"))
        await do("edit_nb_cell", path=path, cell="c1", old="BBB", new="B")
        await do("modify_nb_cells", **modification("c1", "b\nfinal"))
        assert (await do.sources(path))[1] == "their b\nfinal"


@requirement("sight:merge:cells")
async def test_cells_that_others_added_and_nobody_showed_are_not_taken_away(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b"])
    async with agent() as do, person(path) as them:
        await do("read_nb_cells", path=path)
        them.cells.insert(1, new_cell("theirs", "their text"))
        await them.settle()
        await do("modify_nb_cells", path=path, modifications=[{"range": {"start": 0}, "content": "A"}], exec=False)
        refused = await do.error("delete_nb_cells", path=path, ranges=[{"start": 1}])
        assert refused["code"] == "CONFLICT"
        assert "was not shown to you" in refused["message"]
        # A look that shows no cells does not move what an index means.
        them.cells.insert(0, new_cell("first", "first"))
        await them.settle()
        await do("get_nb_stat", path=path)
        edited = await do("edit_nb_cell", path=path, cell=0, old="A", new="AA")
        assert edited["cells"][0]["id"] == "c0"
        await do("get_nb_stat", path=path, outline=True)
        await do("delete_nb_cells", path=path, ranges=[{"id": "theirs"}])
        assert await do.sources(path) == ["first", "AA", "b"]


@requirement("sight:merge:cells")
async def test_metadata_and_later_counts_show_no_text(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b"])
    async with agent() as do, person(path) as them:
        await do("read_nb_cells", path=path)
        them.text_of(1).insert(0, "their ")
        them.cells[1]["execution_count"] = 5.0
        await them.settle()
        tags = [{"range": {"id": "c1"}, "metadata": {"tags": ["x"]}}]
        await do("modify_nb_cells", path=path, modifications=tags, exec=False)
        for cell in ("c1", "[5]"):
            assert (await do.error("delete_nb_cells", path=path, ranges=[{"id": cell}]))["code"] == "CONFLICT"


@requirement("sight:merge:cells")
async def test_nothing_is_refused_that_only_the_caller_changed(
    agent: Any, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b", "c", "d"])
    async with agent() as do:
        cells = (await do("read_nb_cells", path=path))["cells"]
        await do("edit_nb_cell", path=path, old="a", new="A")
        await do("modify_nb_cells", path=path, modifications=[{"range": {"start": 0}, "content": "AA"}], exec=False)
        await do("split_join_nb_cells", path=path, ranges=[{"start": 0, "end": 2}])
        await do("modify_nb_cells", path=path, modifications=[{"range": {"start": 0}, "content": "ab"}], exec=False)
        await do("edit_nb_cell", path=path, cell="c2", old="c", new="C", expect=cells[2]["revision"])
        await do("delete_nb_cells", path=path, ranges=[{"id": "c2"}])
        await do("undo_nb_edit", path=path)
        await do("delete_nb_cells", path=path, ranges=[{"id": "c2"}])
        await do("move_nb_cells", path=path, ranges=[{"id": "c3"}], position=0, copy=True)
        await do("delete_nb_cells", path=path, ranges=[{"start": 0}])
        renamed = f"{folder}/m.ipynb"
        await do("rename_document", path=path, newPath=renamed)
        await do("delete_nb_cells", path=renamed, ranges=[{"start": 1}])
        assert await do.sources(renamed) == ["ab"]


@requirement("sight:proposals")
async def test_what_was_shown_of_a_proposal_does_not_count_for_the_notebook(
    agent: Any, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b"])
    async with agent() as do:
        await do("read_nb_cells", path=path)
        new = [{"content": "new"}]
        inserted = await do("insert_nb_cells", path=path, position=0, cells=new, exec=False, propose=True)
        changed = await do("edit_nb_cell", path=path, cell=1, old="a", new="A", propose=True)
        assert changed["proposal"] == inserted["proposal"]
        edited = await do("edit_nb_cell", path=path, cell=1, old="b", new="B")
        assert edited["cells"][0]["id"] == "c1"
        await do("delete_nb_cells", path=path, ranges=[{"start": 0}])
        assert await do.sources(path) == ["B"]
        await do("drop_nb_proposal", proposal=changed["proposal"])
        anew = await do("edit_nb_cell", path=path, cell=0, old="B", new="b", propose=True)
        assert anew["cells"][0]["id"] == "c1"
        # What was merged is the caller's own text.
        merged = await do("merge_nb_proposal", proposal=anew["proposal"])
        assert merged["saved"] or merged["not_saved"]
        await do("modify_nb_cells", path=path, modifications=[{"range": {"start": 0}, "content": "mine"}], exec=False)
        assert await do.sources(path) == ["mine"]


@requirement("sight:moved")
async def test_a_cell_that_somebody_moved_is_not_moved_back(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b", "c", "d"])
    async with agent() as do, person(path) as them:
        view = (await do("read_nb_cells", path=path))["view"]
        with them.doc.transaction():
            del them.cells[3]
            them.cells.insert(0, new_cell("c3", "d"))
        await them.settle()
        error = await do.error("move_nb_cells", path=path, ranges=[{"start": 3}], position=1, view=view)
        assert error["code"] == "CONFLICT"
        moved = await do("move_nb_cells", path=path, ranges=[{"start": 2}], position=1, view=view)
        assert await do.sources(path) == ["d", "a", "c", "b"]
        assert moved["diff"].startswith("3 → 2 c2")
        await do("move_nb_cells", path=path, ranges=[{"start": 3}], position=-1, view=view, expect="any")
        assert await do.sources(path) == ["a", "c", "b", "d"]


@requirement("sight:moved")
async def test_of_neighbours_that_changed_places_only_the_one_that_was_not_moved_is_moved(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b", "c", "d"])
    async with agent() as do, person(path) as them:
        view = (await do("read_nb_cells", path=path))["view"]
        with them.doc.transaction():
            del them.cells[1]
            them.cells.insert(0, new_cell("c1", "b"))
        await them.settle()
        assert await do.sources(path) == ["b", "a", "c", "d"]
        error = await do.error("move_nb_cells", path=path, ranges=[{"start": 1}], position=-1, view=view)
        assert error["code"] == "CONFLICT"
        await do("move_nb_cells", path=path, ranges=[{"start": 0}], position=-1, view=view)
        assert await do.sources(path) == ["b", "c", "d", "a"]


@requirement("sight:moved")
async def test_a_move_is_not_taken_back_after_somebody_else_moved_the_cell(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b", "c", "d"])
    async with agent() as do, person(path) as them:
        await do("move_nb_cells", path=path, ranges=[{"start": 0}], position=3)
        await puts_a_cell_above(them)
        await do("undo_nb_edit", path=path)
        assert await do.sources(path) == ["a", "from above", "b", "c", "d"]
        await do("move_nb_cells", path=path, ranges=[{"start": 0}], position=3)
        await them.settle()
        assert await do.sources(path) == ["from above", "b", "a", "c", "d"]
        with them.doc.transaction():
            del them.cells[2]
            them.cells.append(new_cell("c0", "a"))
        await them.settle()
        error = await do.error("undo_nb_edit", path=path)
        assert error["code"] == "CONFLICT"
        assert "moved" in error["message"]
        assert await do.sources(path) == ["from above", "b", "c", "d", "a"]


@requirement("sight:moved")
async def test_a_moved_block_is_not_taken_back_after_somebody_else_moved_it(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b", "c", "d", "e"])
    async with agent() as do, person(path) as them:
        await do("move_nb_cells", path=path, ranges=[{"start": 0, "end": 2}], position=4)
        assert await do.sources(path) == ["c", "d", "a", "b", "e"]
        await them.settle()
        with them.doc.transaction():
            del them.cells[2:4]
            them.cells.extend([new_cell("c0", "a"), new_cell("c1", "b")])
        await them.settle()
        assert (await do.error("undo_nb_edit", path=path))["code"] == "CONFLICT"
        assert await do.sources(path) == ["c", "d", "e", "a", "b"]


@requirement("sight:merge:cells")
@pytest.mark.parametrize("cell_id", ["twin", ""])
async def test_a_merged_text_of_a_cell_that_got_an_id_of_its_own_is_not_seen(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn, cell_id: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a"])

    def modification(content: str) -> dict[str, Any]:
        return {"path": path, "exec": False, "modifications": [{"range": {"start": 1}, "content": content}]}

    async with agent() as do, person(path) as them:
        them.cells.extend([new_cell(cell_id, "one\ntwo\nthree"), *(new_cell("twin", "text") for _ in range(2))])
        await them.settle()
        await do("read_nb_cells", path=path)
        them.text_of(1).insert(0, "their ")
        await them.settle()
        await do("modify_nb_cells", **modification("one\ntwo\nmine"))
        await puts_a_cell_above(them)
        assert (await do("get_nb_stat", path=path))["cell_count"] == 5
        # Written again as they believe it to be, it keeps what they never saw.
        await do("modify_nb_cells", **modification("one\nmy two\nmine"))
        assert (await do.sources(path))[2] == "their one\nmy two\nmine"


@requirement("sight:merge:cells")
async def test_of_cells_that_share_an_id_the_other_is_not_overwritten(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a"])
    async with agent() as do, person(path) as them:
        them.cells.extend([new_cell("twin", "first"), new_cell("twin", "second")])
        await them.settle()
        await do("read_nb_cells", path=path)
        them.text_of(2).insert(0, "a person's ")
        await them.settle()
        edited = await do("edit_nb_cell", path=path, cell=1, old="first", new="1st")
        assert edited["cells"][0]["id"] != "twin"
        change = {"range": {"start": 2}, "content": "2nd"}
        error = await do.error("modify_nb_cells", path=path, modifications=[change], exec=False)
        assert error["code"] == "CONFLICT"
        await do("edit_nb_cell", path=path, cell=1, old="1st", new="one")
        assert await do.sources(path) == ["a", "one", "a person's second"]
        await do("undo_nb_edit", path=path)
        await do("undo_nb_edit", path=path)
        assert await do.sources(path) == ["a", "first", "a person's second"]


@requirement("sight:merge:cells")
async def test_a_text_that_comes_back_was_not_seen_if_it_was_deleted_unseen(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b"])
    change = {"range": {"id": "c1"}, "content": "mine"}
    async with agent() as do, person(path) as them:
        await do("read_nb_cells", path=path)
        await do("delete_nb_cells", path=path, ranges=[{"start": 1}])
        await do("undo_nb_edit", path=path)
        await do("modify_nb_cells", path=path, modifications=[change], exec=False)
        await them.settle()
        them.text_of(1).insert(0, "theirs and ")
        await them.settle()
        await do("delete_nb_cells", path=path, ranges=[{"start": 1}], expect="any")
        await do("undo_nb_edit", path=path)
        error = await do.error("modify_nb_cells", path=path, modifications=[change], exec=False)
        assert error["code"] == "CONFLICT"
        assert await do.sources(path) == ["a", "theirs and mine"]


@requirement("sight:two-agents")
async def test_a_cell_that_only_another_client_was_shown_is_guarded_by_that(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a"])
    async with agent() as one, agent() as other, person(path) as them:
        await one("read_nb_cells", path=path)
        them.cells.append(new_cell("later", "text"))
        await them.settle()
        await other("read_nb_cells", path=path)
        them.text_of(1).insert(0, "a longer ")
        await them.settle()
        change: dict[str, Any] = {"range": {"id": "later"}, "content": "mine"}
        error = await one.error("modify_nb_cells", path=path, modifications=[change], exec=False)
        assert error["code"] == "CONFLICT"
        them.cells.append(new_cell("last", "shown to nobody"))
        await them.settle()
        change["range"] = {"id": "last"}
        error = await one.error("modify_nb_cells", path=path, modifications=[change], exec=False)
        assert error["code"] == "CONFLICT"
        assert "shown to nobody" in error["details"]["diff"]
        assert await one.sources(path) == ["a", "a longer text", "shown to nobody"]


@requirement("sight:merge:cells")
async def test_what_undo_brings_back_was_not_seen_if_it_was_overwritten_unseen(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a"])
    change: dict[str, Any] = {"range": {"start": 0}, "content": "mine"}
    async with agent() as do, person(path) as them:
        await do("read_nb_cells", path=path)
        them.text_of(0).insert(0, "\n".join(f"their line {number}" for number in range(60)))
        await them.settle()
        await do("modify_nb_cells", path=path, modifications=[{**change, "expect": "any"}], exec=False)
        await do("undo_nb_edit", path=path)
        change["content"] = "mine again"
        error = await do.error("modify_nb_cells", path=path, modifications=[change], exec=False)
        assert error["code"] == "CONFLICT"
        assert "their line 59" in (await do.sources(path))[0]


@requirement("sight:resources")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_resource_has_a_view_that_counts_where_it_is_named(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn, mode: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b"])
    change = {"range": {"id": "c1"}, "content": "mine"}
    async with agent(mode) as do, person(path) as them:
        await do("read_nb_cells", path=path)
        them.text_of(1).insert(0, "a person's ")
        await them.settle()
        outline = (await do.resource(f"jupyter://{path}")).meta["view"]
        cell = (await do.resource(f"jupyter://{path}/cells/c1")).meta["view"]
        # A program may have read it without showing it to anybody, and an outline shows no texts.
        for named in ({}, {"view": outline}):
            error = await do.error("modify_nb_cells", path=path, modifications=[change], exec=False, **named)
            assert error["code"] == "CONFLICT"
        await do("modify_nb_cells", path=path, modifications=[change], exec=False, view=cell)
        assert await do.sources(path) == ["a", "mine"]


@requirement("sight:order")
async def test_what_others_did_to_the_order_is_told_by_every_answer_that_renews_it(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["first\nand more", "b", "c"])
    async with agent() as do, person(path) as them:

        async def again() -> None:
            """The agent sees all, and then somebody puts a cell above."""
            await do("read_nb_cells", path=path)
            await puts_a_cell_above(them)

        looks: list[tuple[str, dict[str, Any]]] = [
            ("edit_nb_cell", {"cell": "c0", "old": "first", "new": "First"}),
            ("modify_nb_cells", {"modifications": [{"range": {"id": "c1"}, "content": "B"}], "exec": False}),
            ("insert_nb_cells", {"position": -1, "cells": [{"content": "new"}], "exec": False}),
            ("delete_nb_cells", {"ranges": [{"id": "c2"}]}),
            ("move_nb_cells", {"ranges": [{"id": "c1"}], "position": -1}),
            ("split_join_nb_cells", {"ranges": [{"id": "c0"}], "lines": [2]}),
            ("undo_nb_edit", {}),
            ("read_nb_cells", {"ranges": [{"id": "c0"}]}),
            ("read_nb_cells", {"ranges": [{"id": "c0"}], "outputs": "none"}),
            ("get_nb_stat", {"outline": True, "offset": 1}),
        ]
        for tool, arguments in looks:
            await again()
            answer = await do(tool, path=path, **arguments)
            assert answer["meanwhile"].startswith("others inserted 0"), tool
            answer = await do("read_nb_cells", path=path, ranges=[{"id": "c0"}])
            assert "meanwhile" not in answer
        await again()
        found = await do("search_nbs", query="from above", path=path)
        assert found["meanwhile"] == {path: "others inserted 0. Indexes now count in the new view"}
        # Whoever is shown everything sees the order.
        await again()
        assert "meanwhile" not in await do("read_nb_cells", path=path)
        await again()
        assert "meanwhile" not in await do("get_nb_stat", path=path, outline=True)


@requirement("sight:aside")
async def test_what_is_read_aside_is_not_what_the_agent_was_shown(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b"])
    change = {"range": {"start": 1}, "content": "mine"}
    async with agent() as do, person(path) as them:
        await do("read_nb_cells", path=path)
        them.text_of(1).insert(0, "a person's ")
        await puts_a_cell_above(them)
        await do("read_nb_cells", path=path, view="aside")
        error = await do.error("modify_nb_cells", path=path, modifications=[change], exec=False)
        assert error["code"] == "CONFLICT"
        assert error["details"]["cell_id"] == "c1"


@requirement("sight:proposals", "sight:diff")
async def test_a_merged_proposal_says_what_it_did_and_ends_nobody_elses(
    agent: Any, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b"])
    async with agent() as one, agent() as other:
        for do in (one, other):
            await do("read_nb_cells", path=path)
        first = [{"content": "first"}]
        own = await one("insert_nb_cells", path=path, position=0, cells=first, exec=False, propose=True)
        await other("insert_nb_cells", path=path, position=0, cells=[{"content": "x"}], exec=False, propose=True)
        merged = await one("merge_nb_proposal", proposal=own["proposal"])
        assert merged["diff"].startswith("+ 0 ")
        assert (await one("read_nb_cells", path=path))["view"] == merged["view"]
        # In the other's proposal an index still means what was shown of it.
        changed = await other("edit_nb_cell", path=path, cell=1, old="a", new="A", propose=True)
        assert changed["cells"][0]["id"] == "c0"


@requirement("sight:proposals", "sight:merge:cells")
async def test_a_merged_proposal_that_only_moved_or_tagged_a_cell_did_not_show_its_text(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b", "c"])
    tag = {"range": {"id": "c1"}, "metadata": {"tags": ["mine"]}}
    async with agent() as do, person(path) as them:
        await do("read_nb_cells", path=path)
        for index in (0, 1):
            them.text_of(index).insert(0, "a person's ")
        await them.settle()
        await do("move_nb_cells", path=path, ranges=[{"id": "c0"}], position=-1, propose=True)
        tagged = await do("modify_nb_cells", path=path, modifications=[tag], exec=False, propose=True)
        written = [{"range": {"id": "c2"}, "content": "written"}]
        await do("modify_nb_cells", path=path, modifications=written, exec=False, propose=True)
        await do("merge_nb_proposal", proposal=tagged["proposal"])
        for cell in ("c0", "c1"):
            change = {"range": {"id": cell}, "content": "mine"}
            error = await do.error("modify_nb_cells", path=path, modifications=[change], exec=False)
            assert (error["code"], error["details"]["cell_id"]) == ("CONFLICT", cell)
        written = [{"range": {"id": "c2"}, "content": "written again"}]
        await do("modify_nb_cells", path=path, modifications=written, exec=False)


@requirement("sight:nothing-shown")
async def test_who_was_shown_nothing_acts_on_the_notebook_as_it_is(
    agent: Any, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a = 1", "b = 2"])
    async with agent() as do:
        deleted = await do("delete_nb_cells", path=path, ranges=[{"start": 1}])
        assert deleted["diff"] == "- 1 c1 code | b = 2"
        assert deleted["view"]


@requirement("sight:two-agents")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_two_agents_with_one_token_each_have_their_own_view(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn, mode: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a", "b", "c"])
    async with agent(mode) as one, agent(mode) as other, person(path) as them:
        view = (await one("read_nb_cells", path=path))["view"]
        await puts_a_cell_above(them)
        await other("read_nb_cells", path=path)
        # Where the protocol has connections, each has its own last view; where it has none, the call names it.
        named = {} if mode == "legacy" else {"view": view}
        await one("edit_nb_cell", path=path, cell=1, old="b", new="B", **named)
        assert (await one.sources(path)) == ["from above", "a", "B", "c"]


@requirement("sight:forgotten")
async def test_a_view_that_is_not_remembered_is_refused(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a"])
    async with agent() as do:
        error = await do.error("delete_nb_cells", path=path, ranges=[{"start": 0}], view="none")
        assert error["code"] == "VIEW_FORGOTTEN"
        assert await do.sources(path) == ["a"]


@requirement("sight:diff")
async def test_every_edit_says_what_it_changed(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["a\nb", "c"])
    async with agent() as do:

        async def diff(tool: str, **arguments: Any) -> list[str]:
            answer = await do(tool, path=path, **arguments)
            assert answer["view"]
            return answer["diff"].splitlines()

        split = await diff("split_join_nb_cells", ranges=[{"start": 0}], lines=[2])
        assert split[:4] == ["0 c0", "@@ -1,2 +1 @@", " a", "-b"]
        assert split[4].startswith("+ 1 ")
        assert split[4].endswith(" code | b")
        undone = await diff("undo_nb_edit")
        assert undone == [split[4].replace("+", "-", 1), "0 c0", "@@ -1 +1,2 @@", " a", "+b"]
        assert (await diff("split_join_nb_cells", ranges=[{"start": 0, "end": 2}]))[0] == "- 1 c1 code | c"
        assert (await diff("undo_nb_edit"))[-1] == "+ 1 c1 code | c"
        retyped = await diff(
            "modify_nb_cells", modifications=[{"range": {"start": 1}, "type": "markdown", "content": "C"}], exec=False
        )
        assert retyped == ["1 c1 code → markdown", "1 c1", "@@ -1 +1 @@", "-c", "+C"]


# -- at random ---------------------------------------------------------------------------------------------------------------


class Watched:
    """One notebook with a person, and agents of whom each remembers what it was shown."""

    def __init__(self, path: str, them: Person, chance: random.Random) -> None:
        self.path = path
        self.them = them
        self.chance = chance
        self.words = 0
        self.unseen: dict[str, str] = {}
        """What the person typed: each word, and the cell it is in. It must not be lost."""

    def word(self, author: str) -> str:
        self.words += 1
        return f"{author}{self.words}."

    async def person_does_something(self) -> None:
        cells = self.them.cells
        match self.chance.randrange(5):
            case 0 if len(cells) < 12:
                cells.insert(
                    self.chance.randint(0, len(cells)), new_cell(f"p{self.words}", self.typed(f"p{self.words}"))
                )
            case 1 if len(cells) > 3:
                index = self.chance.randrange(len(cells))
                gone = str(cells[index]["id"])
                self.unseen = {word: cell for word, cell in self.unseen.items() if cell != gone}
                del cells[index]
            case 2:
                index = self.chance.randrange(len(cells))
                moved = new_cell(str(cells[index]["id"]), str(cells[index]["source"]))
                with self.them.doc.transaction():
                    del cells[index]
                    cells.insert(self.chance.randint(0, len(cells)), moved)
            case _:
                cell = self.chance.choice(list(cells))
                text: Text = cell["source"]
                lines = str(text).split("\n")
                line = self.chance.randrange(len(lines))
                offset = sum(len(before) + 1 for before in lines[:line])
                newline = "\n" if self.chance.random() < 0.5 else ""
                text.insert(offset, self.typed(str(cell["id"])) + newline)
        await self.them.settle()

    def typed(self, cell_id: str) -> str:
        word = self.word("person")
        self.unseen[word] = cell_id
        return word

    def check(self) -> None:
        sources = {str(cell["id"]): str(cell["source"]) for cell in self.them.cells}
        for word, cell_id in self.unseen.items():
            assert word in sources.get(cell_id, ""), f"{word} of cell {cell_id} was lost: {sources}"


class ScriptedAgent:
    """Reads, and later edits what it was shown: by index, range, id or execution count."""

    def __init__(self, do: Agent, world: Watched, *, names_views: bool) -> None:
        self.do, self.world, self.names_views = do, world, names_views
        self.view = ""
        self.cells: list[dict[str, Any]] = []
        self.knows_order = False
        """Not after an answer that told of others who changed it: then it names cells by their ids."""

    async def read(self) -> None:
        answer = await self.do("read_nb_cells", path=self.world.path, outputs="none", maxCellData=1_000_000)
        self.view, self.cells, self.knows_order = answer["view"], answer["cells"], True

    async def edit(self) -> str:
        """Edit a cell that was shown. Returns what came of it."""
        chance = self.world.chance
        index = chance.randrange(len(self.cells))
        seen = self.cells[index]
        by_index: list[dict[str, Any]] = (
            [{"start": index}, {"start": index, "end": index + 1}] if self.knows_order else []
        )
        cell = chance.choice([*by_index, {"id": seen["id"]}])
        expected = ""
        more: dict[str, Any] = {"path": self.world.path} | ({"view": self.view} if self.names_views else {})
        mine = self.world.word("agent")
        lines = seen["source"].split("\n")
        tool = chance.choice(["modify", "modify", "edit", "delete", "move", "insert"])
        place = index if tool == "insert" else chance.randint(0, len(self.cells))
        place = place if self.knows_order else -1
        if tool == "modify":
            line = chance.randrange(len(lines))
            lines[line] += mine
            arguments: dict[str, Any] = {"modifications": [{"range": cell, "content": "\n".join(lines)}], "exec": False}
            expected = "\n".join(lines)
            result = await self.do.whole("modify_nb_cells", **more, **arguments)
        elif tool == "edit":
            expected = seen["source"].replace(lines[0], lines[0] + mine)
            result = await self.do.whole(
                "edit_nb_cell", **more, cell=cell.get("id", index), old=lines[0], new=lines[0] + mine, replace_all=True
            )
        elif tool == "delete":
            result = await self.do.whole("delete_nb_cells", **more, ranges=[cell])
        elif tool == "move":
            result = await self.do.whole(
                "move_nb_cells",
                **more,
                ranges=[cell],
                position=place,
            )
        else:
            result = await self.do.whole(
                "insert_nb_cells",
                **more,
                position=place,
                cells=[{"content": mine, "type": "markdown"}],
                exec=False,
            )
        outcome = self._judge(tool, seen, result.structured_content, failed=result.is_error)
        if outcome == "done":
            answer = result.structured_content
            self.view, self.knows_order = answer["view"], self.knows_order and "meanwhile" not in answer
            # What it now takes for the text of the cell, whatever was merged into it.
            seen["source"] = expected or seen["source"]
            if tool in {"insert", "move"}:
                await self.world.them.settle()
                self._check_place(answer["cells"][0]["id"], place)
            self._follow(tool, seen, place, {"id": answer.get("cells", [{}])[0].get("id"), "source": mine})
        elif "view" in result.structured_content["error"].get("details", {}):
            # The refusal showed an outline, in which indexes count from now on.
            self.knows_order = False
        return outcome

    def _check_place(self, cell_id: str, place: int) -> None:
        """It follows the cell that it was to follow, or the nearest before that which is still there."""
        now = [str(cell["id"]) for cell in self.world.them.cells]
        before = (
            [cell["id"] for cell in self.cells[:place]] if place != -1 else [other for other in now if other != cell_id]
        )
        if before[-1:] == [cell_id]:
            return  # It was to stay where it is, whatever came in between.
        still_there = [other for other in before if other in now and other != cell_id]
        followed = now[: now.index(cell_id)]
        assert followed[-1:] == still_there[-1:], (cell_id, place, self.cells, now)

    def _follow(self, tool: str, seen: dict[str, Any], place: int, new: dict[str, Any]) -> None:
        """Do to the cells as they are remembered what the edit did."""
        at = len(self.cells) if place == -1 else place
        if tool == "insert":
            self.cells.insert(at, new)
        if tool == "move":
            following = [cell for cell in self.cells[at:] if cell is not seen]
            self.cells = [*(cell for cell in self.cells[:at] if cell is not seen), seen, *following]
        if tool == "delete":
            self.cells.remove(seen)

    def _judge(self, tool: str, seen: dict[str, Any], answer: Any, *, failed: bool) -> str:
        world = self.world
        now = {str(cell["id"]): str(cell["source"]) for cell in world.them.cells}
        if failed:
            code = answer["error"]["code"]
            # Refused only if somebody did something to this cell, or to the order, since it was shown.
            changed = now.get(seen["id"]) != seen["source"]
            reordered = list(now) != [cell["id"] for cell in self.cells]
            assert code in {"CONFLICT", "NOT_FOUND", "INVALID_ARGUMENT"}, answer
            assert changed or (reordered and tool == "move") or ("\n" not in seen["source"] and tool == "edit"), answer
            return code
        if tool in {"modify", "edit", "move"}:
            assert [cell["id"] for cell in answer["cells"]] == [seen["id"]], (tool, seen, answer)
        if tool == "delete":
            assert answer["ids"] == [seen["id"]]
            world.unseen = {word: cell for word, cell in world.unseen.items() if word not in seen["source"]}
        return "done"


class Place(Protocol):
    """A Jupyter server, and a way to connect an agent to it."""

    @property
    def jupyter(self) -> JupyterServer: ...
    def connect(self, mode: str) -> AbstractAsyncContextManager[Agent]: ...


@dataclass(frozen=True)
class InFront:
    jupyter: JupyterServer
    ours: HttpServer

    def connect(self, mode: str) -> AbstractAsyncContextManager[Agent]:
        return agent_of(self.ours, mode)


@dataclass(frozen=True)
class Inside:
    process: ExtensionProcess

    @property
    def jupyter(self) -> JupyterServer:
        return self.process.address

    @asynccontextmanager
    async def connect(self, mode: str) -> AsyncGenerator[Agent]:
        async with agent_inside(self.process.mcp, self.process.token, mode) as client:
            yield Agent(client)


@pytest.fixture(scope="module", params=["in front", "inside"])
def place(
    request: pytest.FixtureRequest,
    jupyter_server: JupyterServer,
    ours: HttpServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[Place]:
    if request.param == "in front":
        yield InFront(jupyter_server, ours)
        return
    unlimited = "c.CellwrightExtension.options = {'rate': 0}"
    with ExtensionProcess(tmp_path_factory.mktemp("inside"), config=unlimited) as process:
        yield Inside(process)


@requirement("sight:random")
@pytest.mark.more
@pytest.mark.long(60)
@pytest.mark.timeout(180 + ROUNDS)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_no_wrong_cell_no_lost_text_no_false_refusal(place: Place, mode: str) -> None:
    chance = random.Random(int(os.environ.get("CELLWRIGHT_TEST_SEED", "7")))
    path = f"{mode}.ipynb"
    write_notebook(place.jupyter.root, path, [f"cell{number}.\nline." for number in range(6)])
    outcomes: Counter[str] = Counter()
    async with place.connect(mode) as first, place.connect(mode) as second, person_in(place.jupyter, path) as them:
        world = Watched(path, them, chance)
        agents = [ScriptedAgent(do, world, names_views=mode == "auto") for do in (first, second)]
        for _ in range(ROUNDS):
            acting, other = chance.sample(agents, 2)
            if not acting.cells or chance.random() < 0.7:
                await acting.read()
            for _ in range(chance.randrange(3)):
                await world.person_does_something()
            if chance.random() < 0.3:
                await other.read()
                await other.edit()
                await them.settle()
            outcomes[await acting.edit()] += 1
            await them.settle()
            world.check()
            while len(them.cells) < 4:
                them.cells.append(new_cell(f"more{world.words}", world.word("again")))
                await them.settle()
    assert outcomes["done"] > ROUNDS // 3
    assert outcomes["CONFLICT"] > 0


@requirement("sight:together")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_calls_that_are_sent_together_change_the_cells_that_they_mean_or_none(
    agent: Any, jupyter_server: JupyterServer, folder: str, mode: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, [f"cell {number}" for number in range(40)])
    async with agent(mode) as do:
        view = (await do("read_nb_cells", path=path))["view"]

        async def delete(index: int, **named: str) -> bool:
            result = await do.whole("delete_nb_cells", path=path, ranges=[{"start": index}], **named)
            assert not result.is_error or result.structured_content["error"]["code"] == "CONFLICT", result.content
            return not result.is_error

        meant = range(0, 40, 2)
        deleted = await asyncio.gather(*map(delete, meant))
        assert deleted[0]
        gone = {index for index, done in zip(meant, deleted, strict=True) if done}
        assert await do.sources(path) == [f"cell {number}" for number in range(40) if number not in gone]
        # With the view that they mean, none has to be refused.
        assert all(await asyncio.gather(*(delete(index, view=view) for index in meant if index not in gone)))
        assert await do.sources(path) == [f"cell {number}" for number in range(1, 40, 2)]
