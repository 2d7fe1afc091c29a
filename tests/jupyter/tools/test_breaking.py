"""What broke the notebook and document tools once: a real client, our server as a process, a real Jupyter."""

import os
from collections.abc import AsyncGenerator, Generator
from http import HTTPStatus

import httpx2
import pytest

from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.port import Jupyter
from extension_support import USERS, ExtensionProcess, bearer
from extension_support import agent as agent_inside
from jupyter_support import JupyterServer, write_notebook
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import HttpServer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

TOOLS = ("--toolsets", "notebooks,editing,documents,cells,proposals")


@pytest.fixture(scope="module")
def ours(jupyter_server: JupyterServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    with in_front_of(jupyter_server, tmp_path_factory.mktemp("ours"), *TOOLS) as server:
        yield server


@pytest.fixture
async def do(ours: HttpServer) -> AsyncGenerator[Agent]:
    async with agent_of(ours) as agent:
        yield agent


HIDING = {
    "carriage-return": "evil()\rprint('ok')  # nothing to see",
    "backspace": "evil()" + "\b" * 6 + "print('ok')",
    "escape": "'\x1b]0;'; evil(); '\x07'",
}


@requirement("breaking:source:hidden")
@pytest.mark.parametrize("source", HIDING.values(), ids=HIDING.keys())
async def test_no_code_is_hidden(do: Agent, jupyter_server: JupyterServer, folder: str, source: str) -> None:
    path = f"{folder}/hiding.ipynb"
    write_notebook(jupyter_server.root, path, [source])
    (cell,) = (await do("read_nb_cells", path=path))["cells"]
    assert "evil()" in cell["source"]
    assert "control" in cell["note"]
    assert "evil()" in str(await do.whole("read_cell", cell_index=0, notebook=path))
    assert "evil()" in (await do("list_cells", notebook=path))["cells"][0]["first_line"]
    assert "evil()" in (await do("search_nbs", query="evil", path=folder))["hits"][0]["snippet"]
    assert "evil()" in (await do.resource(f"jupyter://{path}/cells/c0")).text
    changed = await do("edit_nb_cell", path=path, cell="c0", old="evil()", new="evil(1)", propose=True)
    assert "+" in changed["diff"]
    assert "evil(1)" in changed["diff"]
    shown = await do("show_nb_proposal", proposal=changed["proposal"])
    assert "evil(1)" in shown["changes"][0]["diff"]
    await do("drop_nb_proposal", proposal=changed["proposal"])
    assert "evil()" in (await do("delete_cell", cell_index=0, notebook=path))["deleted"]["source"]


@requirement("breaking:names:not-utf8")
async def test_a_name_that_is_not_utf8_hides_no_other(do: Agent, jupyter_server: JupyterServer, folder: str) -> None:
    inside = os.fsencode(jupyter_server.root / folder)
    for name in (b"b\xff.txt", b"good.txt", b"d\xfe.ipynb"):
        with open(inside + b"/" + name, "wb") as file:  # noqa: PTH123, ASYNC230 - a Path would be the same text again
            file.write(b"{}")
    os.mkdir(inside + b"/f\xff")  # noqa: PTH102
    listed = (await do("list_documents", path=folder))["documents"]
    assert {one["name"] for one in listed} == {"b\ufffd.txt", "good.txt", "d\ufffd.ipynb", "f\ufffd"}
    files = (await do("list_files", path=folder))["files"]
    assert f"{folder}/good.txt" in {one["path"] for one in files}
    assert len(files) == len(listed)


@requirement("breaking:names:not-utf8")
async def test_notebooks_with_names_that_no_tool_takes_end_no_list(
    jupyter: Jupyter, jupyter_server: JupyterServer, folder: str
) -> None:
    inside = os.fsencode(jupyter_server.root / folder)
    write_notebook(jupyter_server.root, f"{folder}/good one: 50% (ü).ipynb", ["1"])
    for name in (b"d\xfe.ipynb", b"back\\slash.ipynb", b"f\xff/inner.ipynb", b"ends. /inner.ipynb"):
        os.makedirs(os.path.dirname(inside + b"/" + name), exist_ok=True)  # noqa: PTH103, PTH120
        with open(inside + b"/" + name, "wb") as file:  # noqa: PTH123, ASYNC230
            file.write(b"{}")
    found = await jupyter.documents.find(DocPath(folder), ".ipynb")
    names = [one.path for one in found]
    assert f"{folder}/good one: 50% (ü).ipynb" in names
    assert all(DocPath(name) for name in names)
    assert len(await jupyter.documents.describe(found)) == len(names)


NO_NOTEBOOKS = {
    "deep": "[" * 100_000,
    "empty-cell": '{"cells": [{}]}',
    "source": '{"cells": [{"cell_type": "code", "source": 1}]}',
    "kind": '{"cells": [{"cell_type": "heading", "source": ""}]}',
    "metadata": '{"cells": [], "metadata": []}',
    "format": '{"cells": [], "nbformat": "x"}',
    "old-format": '{"cells": [], "nbformat": 3}',
}


@requirement("breaking:create:content")
@pytest.mark.parametrize("content", NO_NOTEBOOKS.values(), ids=NO_NOTEBOOKS.keys())
async def test_what_is_no_notebook_is_refused(
    do: Agent, jupyter_server: JupyterServer, folder: str, content: str
) -> None:
    error = await do.error("create_document", path=f"{folder}/new.ipynb", content=content)
    assert error["code"] == "INVALID_ARGUMENT"
    assert list((jupyter_server.root / folder).iterdir()) == []


@requirement("breaking:create:content")
async def test_the_least_of_a_notebook_is_taken(do: Agent, folder: str) -> None:
    path = f"{folder}/new.ipynb"
    content = '{"cells": [{"cell_type": "code", "source": ["a\\n", "b"]}, {"cell_type": "markdown", "source": "c"}]}'
    await do("create_document", path=path, content=content)
    assert await do.sources(path) == ["a\nb", "c"]


@requirement("breaking:create:below-file")
async def test_nothing_is_created_below_a_file(do: Agent, jupyter_server: JupyterServer, folder: str) -> None:
    (jupyter_server.root / folder / "file.txt").write_text("x", encoding="utf-8")
    error = await do.error("create_document", path=f"{folder}/file.txt/new.txt", type="file")
    assert error["code"] == "INVALID_ARGUMENT"
    assert error["message"] == f"{folder}/file.txt is not a folder"


@requirement("breaking:proposals:same")
async def test_an_edit_that_changes_nothing_gives_a_proposal_that_is_there(
    do: Agent, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/same.ipynb"
    write_notebook(jupyter_server.root, path, ["x = 1"])
    made = await do("edit_nb_cell", path=path, cell="c0", old="x", new="x", propose=True)
    assert (await do("show_nb_proposal", proposal=made["proposal"]))["changes"] == []
    again = await do("edit_nb_cell", path=path, cell="c0", old="1", new="2", propose=True)
    assert again["proposal"] == made["proposal"]
    await do("merge_nb_proposal", proposal=made["proposal"])
    assert await do.sources(path) == ["x = 2"]


@requirement("breaking:proposals:renamed")
@pytest.mark.parametrize("what", ["notebook", "folder"])
async def test_a_proposal_goes_with_its_notebook(
    do: Agent, jupyter_server: JupyterServer, folder: str, what: str
) -> None:
    write_notebook(jupyter_server.root, f"{folder}/in/old.ipynb", ["x = 1"])
    made = await do("edit_nb_cell", path=f"{folder}/in/old.ipynb", cell="c0", old="1", new="2", propose=True)
    old, new = ("in/old.ipynb", "in/new.ipynb") if what == "notebook" else ("in", "out")
    now = f"{folder}/in/new.ipynb" if what == "notebook" else f"{folder}/out/old.ipynb"
    await do("rename_document", path=f"{folder}/{old}", newPath=f"{folder}/{new}")
    listed = (await do("list_nb_proposals"))["proposals"]
    assert [one["path"] for one in listed if one["proposal"] == made["proposal"]] == [now]
    assert (await do("merge_nb_proposal", proposal=made["proposal"]))["path"] == now
    assert await do.sources(now) == ["x = 2"]


@requirement("breaking:proposals:no-notebook")
async def test_a_proposal_without_its_notebook_says_so(do: Agent, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/gone.ipynb"
    write_notebook(jupyter_server.root, path, ["x = 1"])
    made = await do("edit_nb_cell", path=path, cell="c0", old="1", new="2", propose=True)
    await do("delete_document", path=path)
    for tool in ("show_nb_proposal", "merge_nb_proposal"):
        error = await do.error(tool, proposal=made["proposal"])
        assert error["code"] == "NOT_FOUND"
        assert made["proposal"] in error["message"]
        assert "drop_nb_proposal" in error["hint"]
    await do("drop_nb_proposal", proposal=made["proposal"])


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Generator[ExtensionProcess]:
    """Jupyter with cellwright inside and people who have tokens of their own: no token is good for the server itself."""
    options = "--CellwrightExtension.options={'max_body': 100000, 'rate': 0}"
    with ExtensionProcess(tmp_path_factory.mktemp("people"), options, config=USERS) as process:
        yield process


@requirement("breaking:extension:proposals")
async def test_proposals_where_people_have_tokens_of_their_own(people: ExtensionProcess) -> None:
    write_notebook(people.root, "n.ipynb", ["x = 1"])
    async with agent_inside(people.mcp, "token-ann") as ann, agent_inside(people.mcp, "token-bob") as bob:
        do, other = Agent(ann), Agent(bob)
        made = await do("edit_nb_cell", path="n.ipynb", cell="c0", old="1", new="2", propose=True)
        assert await do.sources("n.ipynb") == ["x = 1"]
        dropped = await other("edit_nb_cell", path="n.ipynb", cell="c0", old="x", new="y", propose=True)
        assert (await other.error("merge_nb_proposal", proposal=made["proposal"]))["code"] == "NOT_FOUND"
        assert [one["proposal"] for one in (await do("list_nb_proposals", path="n.ipynb"))["proposals"]] == [
            made["proposal"]
        ]
        await do("merge_nb_proposal", proposal=made["proposal"])
        shown = await other("show_nb_proposal", proposal=dropped["proposal"])
        assert "+y = 2" in shown["changes"][0]["diff"]
        await other("drop_nb_proposal", proposal=dropped["proposal"])
        assert await do.sources("n.ipynb") == ["x = 2"]


@requirement("breaking:extension:closing")
@pytest.mark.parametrize("request_line", ["PUT /mcp", "GET /mcp/tools/call", "DELETE /mcp/tools/list"])
async def test_a_refusal_that_ends_the_connection_says_so(people: ExtensionProcess, request_line: str) -> None:
    method, place = request_line.split()
    async with httpx2.AsyncClient(headers=bearer("token-ann"), timeout=20) as http:
        answer = await http.request(method, f"{people.url}{place}")
    assert answer.status_code == HTTPStatus.METHOD_NOT_ALLOWED
    assert answer.headers["connection"] == "close"


@requirement("breaking:extension:too-large")
@pytest.mark.parametrize("place", ["/mcp", "/mcp/tools/call"])
async def test_a_body_of_unknown_length_is_too_large(people: ExtensionProcess, place: str) -> None:
    async def body() -> AsyncGenerator[bytes]:
        for _ in range(3):
            yield b" " * 60_000

    headers = {**bearer("token-ann"), "Content-Type": "application/json"}
    async with httpx2.AsyncClient(headers=headers, timeout=20) as http:
        answer = await http.post(f"{people.url}{place}", content=body())
    assert answer.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    error = answer.json()["error"]
    assert "100000 bytes" in (error["message"] if place == "/mcp" else error)
