"""A position in a text document means the text that was shown: with a real Jupyter, and a person who types meanwhile."""

from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from jupyter_support import JupyterServer, PersonIn
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import HttpServer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def ours(jupyter_server: JupyterServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    with in_front_of(jupyter_server, tmp_path_factory.mktemp("ours"), "--toolsets", "documents,notebooks") as server:
        yield server


@pytest.fixture
def agent(ours: HttpServer) -> Callable[..., AbstractAsyncContextManager[Agent]]:
    def connect(mode: str = "legacy") -> AbstractAsyncContextManager[Agent]:
        return agent_of(ours, mode)

    return connect


def a_text(server: JupyterServer, folder: str, text: str) -> str:
    file = server.root / folder / "a.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return f"{folder}/a.txt"


async def text_of(do: Agent, path: str) -> str:
    return (await do("get_document_content", path=path))["content"]


@requirement("sight:documents")
async def test_a_position_is_the_one_that_was_shown(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = a_text(jupyter_server, folder, "one\ntwo\nthree\n")
    async with agent() as do, person(path, "file") as them:
        await text_of(do, path)
        them.document.insert(0, "zero\n")
        await them.settle()
        replaced = await do("replace_document_text", path=path, position=4, length=3, text="TWO")
        assert replaced["position"] == 9
        assert replaced["diff"].splitlines() == ["@@ -1,4 +1,4 @@", " zero", " one", "-two", "+TWO", " three"]
        them.document.insert(0, "and ")
        await them.settle()
        await do("insert_document_text", path=path, position=5, text="1: ")
        await do("delete_document_text", path=path, position=len("and zero\n1: one\nTWO"), length=6)
        assert await text_of(do, path) == "and zero\n1: one\nTWO\n"


@requirement("sight:documents")
async def test_what_others_changed_there_refuses_the_edit_and_is_shown(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = a_text(jupyter_server, folder, "one\ntwo\nthree\n")
    async with agent() as do, person(path, "file") as them:
        await text_of(do, path)
        them.document.insert(5, "X")
        await them.settle()
        for tool, arguments in (
            ("replace_document_text", {"position": 4, "length": 3, "text": "TWO"}),
            ("delete_document_text", {"position": 4, "length": 3}),
            ("overwrite_document", {"content": "one\nTWO\nthree\n"}),
        ):
            error = await do.error(tool, path=path, **arguments)
            assert error["code"] == "CONFLICT"
            assert "+tXwo" in error["details"]["diff"]
        await do("overwrite_document", path=path, content="ONE\ntwo\nthree\n")
        assert await text_of(do, path) == "ONE\ntXwo\nthree\n"
        them.document.insert(0, "Y")
        await them.settle()
        await do("overwrite_document", path=path, content="all mine\n", expect="any")
        assert await text_of(do, path) == "all mine\n"


@requirement("sight:documents")
@pytest.mark.parametrize("step", ["overwrite", "append", "span"])
async def test_what_was_not_shown_of_a_text_was_not_seen(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn, step: str
) -> None:
    path = a_text(jupyter_server, folder, "one\ntwo\nthree\n")
    async with agent() as do, person(path, "file") as them:
        await text_of(do, path)
        them.document.insert(0, "their ")
        await them.settle()
        if step == "overwrite":
            await do("overwrite_document", path=path, content="one\ntwo\nTHREE\n")
        elif step == "append":
            await do("insert_document_text", path=path, position=-1, text="end\n")
        else:
            await do("get_document_content", path=path, position=10, length=2)
        await do("overwrite_document", path=path, content="one\nTWO\nTHREE\n" + "end\n" * (step == "append"))
        assert (await text_of(do, path)).startswith("their one\nTWO\n")


@requirement("sight:documents")
async def test_a_revision_says_which_text_the_positions_are_from(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = a_text(jupyter_server, folder, "one\ntwo\n")
    async with agent("auto") as one, agent("auto") as other, person(path, "file") as them:
        seen = (await one("get_document_content", path=path))["revision"]
        them.document.insert(0, "zero\n")
        await them.settle()
        await text_of(other, path)
        await one("replace_document_text", path=path, position=0, length=3, text="ONE", view=seen)
        assert await text_of(one, path) == "zero\nONE\ntwo\n"
        error = await one.error("replace_document_text", path=path, position=0, length=1, text="x", view="00000000")
        assert error["code"] == "VIEW_FORGOTTEN"


@requirement("sight:documents")
async def test_a_notebook_that_changed_is_not_overwritten_as_a_whole(agent: Any, folder: str, person: PersonIn) -> None:
    async with agent() as do:
        path = f"{folder}/n.ipynb"
        await do("create_nb", path=path, cells=[{"content": "a"}, {"content": "b"}])
        whole = '{"cells": [{"cell_type": "code", "source": "mine", "metadata": {}, "outputs": [], "execution_count": null}], '
        whole += '"metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
        async with person(path) as them:
            them.text_of(1).insert(0, "their ")
            await them.settle()
            error = await do.error("overwrite_document", path=path, content=whole)
            assert error["code"] == "CONFLICT"
            assert [line.split(" | ")[1] for line in error["details"]["outline"]] == ["their b"]
            assert (await do.error("overwrite_document", path=path, content=whole))["code"] == "CONFLICT"
            done = await do("overwrite_document", path=path, content=whole, expect="any")
            assert done["diff"].splitlines()[0].startswith("- 0 ")
        assert await do.sources(path) == ["mine"]


@requirement("sight:documents")
async def test_a_text_that_came_back_unseen_was_not_seen(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = a_text(jupyter_server, folder, "one\ntwo\nthree\n")
    async with agent() as do, person(path, "file") as them:
        await text_of(do, path)
        them.document.insert(0, "P\n")
        await them.settle()
        await text_of(do, path)
        del them.document[0:2]
        await them.settle()
        await text_of(do, path)
        them.document.insert(0, "P\n")
        await them.settle()
        await do("get_document_content", path=path, position=6, length=3)
        await do("overwrite_document", path=path, content="one\ntwo\nTHREE\n")
        assert await text_of(do, path) == "P\none\ntwo\nTHREE\n"


@requirement("sight:documents", "sight:two-agents")
async def test_what_another_connection_was_shown_is_not_known_to_this_one(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = a_text(jupyter_server, folder, "one\ntwo\nthree\n")
    async with agent() as one, agent() as other, person(path, "file") as them:
        await text_of(one, path)
        them.document.insert(0, "from a person\n")
        await them.settle()
        await text_of(other, path)
        await one("get_document_content", path=path, position=18, length=3)
        await one("overwrite_document", path=path, content="one\ntwo\nTHREE\n")
        assert await text_of(other, path) == "from a person\none\ntwo\nTHREE\n"


@requirement("sight:documents")
async def test_a_text_that_was_shown_is_known_under_its_new_name(
    agent: Any, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = a_text(jupyter_server, folder, "one\ntwo\n")
    new_path = f"{folder}/b.txt"
    async with agent() as do, person(path, "file") as them:
        await text_of(do, path)
        them.document.insert(0, "zero\n")
        await them.settle()
        await do("rename_document", path=path, newPath=new_path)
        await do("overwrite_document", path=new_path, content="one\nTWO\n")
        assert await text_of(do, new_path) == "zero\none\nTWO\n"
        # And who wrote all of it knows all of it.
        await do("overwrite_document", path=new_path, content="mine\n", expect="any")
        await do("overwrite_document", path=new_path, content="mine again\n")
        assert await text_of(do, new_path) == "mine again\n"
