"""The tools of the current notebook, through real clients, a real Jupyter, a real kernel and a person in the same notebook."""

import ast
import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.core.errors import Forbidden, InvalidArgument, LimitReached, NotFound
from cellwright.core.text.budget import DEFAULT_TOKENS, estimate_tokens
from cellwright.core.text.tables import escaped, table
from cellwright.core.toolset import Image
from cellwright.core.types import ALL_SCOPES, Call, Principal, Scope, Secret
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.remote.snapshots import QUICK_FILES
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.jupyter.server.connect import to_named
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.current.choosing import list_files, restart_notebook, use_notebook
from cellwright.jupyter.tools.current.common import CurrentCells, output_blocks
from cellwright.jupyter.tools.current.notebooks import CurrentNotebooks
from cellwright.jupyter.tools.current.reading import list_cells, read_cell
from cellwright.jupyter.tools.current.running import execute_cell_simple_timeout
from cellwright.jupyter.tools.current.streaming import NEWS_CHARACTERS, news
from cellwright.jupyter.tools.current.writing import overwrite_cell_source
from cellwright.notebook.shown import ShownOutput
from jupyter_support import JupyterProcess, JupyterServer, PersonIn, eventually, write_notebook
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import HttpServer, stdio_client

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

StartJupyter = Callable[..., JupyterProcess]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SHOW_PIXEL = (
    "import base64\nfrom IPython.display import Image, display\n"
    f"print('before')\ndisplay(Image(base64.b64decode('{PIXEL}')))\nprint('after')\n'the end'"
)


@pytest.fixture(scope="module")
def ours(jupyter_server: JupyterServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    """Our server in front of the shared Jupyter, with these tools beside the usual ones."""
    with in_front_of(jupyter_server, tmp_path_factory.mktemp("ours"), "--toolsets", "default,cells") as server:
        yield server


def jupyter_api(server: JupyterServer, method: str, path: str, body: object = None) -> Any:
    headers = {"Authorization": f"token {server.token}"}
    answer = httpx2.request(method, f"{server.url}/api/{path}", headers=headers, json=body, timeout=30)
    answer.raise_for_status()
    return answer.json() if answer.content else None


@pytest.fixture(scope="module")
def kernel(jupyter_server: JupyterServer) -> str:
    """One kernel for the notebooks of these tests: starting one for each would take longer than all of them."""
    return str(jupyter_api(jupyter_server, "POST", "kernels", {})["id"])


@pytest.fixture
def agent(ours: HttpServer) -> Any:
    return lambda mode="auto": agent_of(ours, mode)


@pytest.fixture
def notebook(jupyter_server: JupyterServer, folder: str) -> Any:
    """Writes a notebook in this test's folder and gives its path."""

    def write(*sources: str, name: str = "n") -> str:
        path = f"{folder}/{name}.ipynb"
        write_notebook(jupyter_server.root, path, list(sources))
        return path

    return write


def read_back(text: str) -> list[list[str]]:
    """A table as a reader who knows the rule takes it apart."""
    return [[_unescaped(cell) for cell in line.split("\t")] for line in text.split("\n")]


def _unescaped(cell: str) -> str:
    quoted = cell.replace('"', '\\"')
    return str(ast.literal_eval(f'"{quoted}"'))


def as_cells(row: dict[str, Any]) -> list[str]:
    shown = {"None": "", "True": "yes", "False": "no"}
    return [shown.get(str(value), str(value)) for value in row.values()]


def blocks(result: Any) -> list[str]:
    return [block.text if block.type == "text" else block.mime_type for block in result.content]


# -- tables --------------------------------------------------------------------------------------------------------------------


@requirement("cells:tables")
@given(st.lists(st.tuples(st.text(st.characters()), st.text("\t\n\r\\x \u2028\u202e\x00\x1b")), max_size=5))
def test_a_table_can_be_read_back_whatever_stands_in_it(rows: list[tuple[str, str]]) -> None:
    made = table(("One", "Two"), rows)
    assert read_back(made) == [["One", "Two"], *[list(row) for row in rows]]
    assert len(made.splitlines()) == len(rows) + 1
    assert all(character in "\t\n" or character.isprintable() for character in made)


@requirement("cells:tables")
def test_plain_text_stays_as_it_is() -> None:
    assert escaped("a b/ä 日本 😀.ipynb") == "a b/ä 日本 😀.ipynb"
    assert table(("A", "B", "C"), [(None, True, 3)]) == "A\tB\tC\n\tyes\t3"


# -- choosing ------------------------------------------------------------------------------------------------------------------


@requirement("cells:names")
async def test_the_names_and_parameters_of_the_contract(agent: Any) -> None:
    wanted = {
        "list_notebook": {},
        "use_notebook": {"notebook_name": ..., "notebook_path": None, "mode": "connect", "kernel_id": None},
        "unuse_notebook": {"notebook_name": ...},
        "restart_notebook": {"notebook_name": ...},
        "read_cells": {},
        "list_cells": {},
        "read_cell": {"cell_index": ...},
        "insert_cell": {"cell_index": ..., "cell_type": ..., "cell_source": ...},
        "insert_execute_code_cell": {"cell_index": ..., "cell_source": ...},
        "overwrite_cell_source": {"cell_index": ..., "cell_source": ...},
        "delete_cell": {"cell_index": ...},
        "execute_cell_simple_timeout": {"cell_index": ..., "timeout_seconds": 300},
        "execute_cell_streaming": {"cell_index": ..., "timeout_seconds": 300, "progress_interval": 5},
        "execute_cell_with_progress": {"cell_index": ..., "timeout_seconds": 300},
        "execute_ipython": {"code": ..., "timeout": 60},
        "list_files": {"path": "", "max_depth": 3},
        "list_kernels": {},
    }
    async with agent() as do:
        schemas = {tool.name: tool.input_schema for tool in (await do.client.list_tools()).tools}
        for name, parameters in wanted.items():
            properties, required = schemas[name]["properties"], schemas[name].get("required", [])
            assert set(required) == {key for key, default in parameters.items() if default is ...}, name
            for key, default in parameters.items():
                if default is not ...:
                    assert properties[key].get("default") == default, (name, key)
        by_alias, by_name = [await do(name) for name in ("list_notebooks", "list_notebook")]
        # A long list is remembered, and the second answer says so.
        for answer in (by_alias, by_name):
            answer.pop("age_seconds", None)
            answer.pop("note", None)
        assert by_alias == by_name
    assert len(wanted) + len(["list_notebooks"]) == 18


@requirement("cells:use", "cells:unuse", "cells:use:none")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_choosing_switching_and_letting_go(
    agent: Any, jupyter_server: JupyterServer, folder: str, notebook: Any, mode: str
) -> None:
    first, second = notebook("'first'", name="first"), f"{folder}/second.ipynb"
    async with agent(mode) as do:
        one, two = f"one-{folder}", f"two-{folder}"
        missing = await do.error("use_notebook", notebook_name=two, notebook_path=second)
        assert missing["code"] == "NOT_FOUND"
        assert "create" in missing["hint"]
        used = await do("use_notebook", notebook_name=one, notebook_path="/" + first)
        assert (used["path"], used["cell_count"], used["kernel"], used["live"]) == (first, 1, None, True)
        made = await do("use_notebook", notebook_name=two, notebook_path=second, mode="create")
        assert made["message"].startswith(f"Created {second}")
        on_disk = json.loads((jupyter_server.root / second).read_text(encoding="utf-8"))["cells"]
        assert ["".join(cell["source"]) for cell in on_disk] == [""]
        assert made["cell_count"] == 1
        new_cell = {"cell_index": 0, "cell_type": "markdown", "cell_source": "kept"}
        if mode == "auto":
            # Without a connection, it could be another client that has chosen the second.
            refused = await do.error("insert_cell", **new_cell)
            assert (refused["code"], second in refused["hint"]) == ("INVALID_ARGUMENT", True)
            new_cell["notebook"] = two
        await do("insert_cell", **new_cell)
        assert (await do.error("use_notebook", notebook_name="x", notebook_path=second, mode="create"))[
            "code"
        ] == "CONFLICT"
        assert (await do("list_cells"))["cells"][0]["first_line"] == "kept"
        await do("use_notebook", notebook_name=one)
        assert (await do("list_cells"))["cells"][0]["first_line"] == "'first'"
        assert (await do("list_cells", notebook=two))["cells"][0]["first_line"] == "kept"
        assert (await do("unuse_notebook", notebook_name=one))["current"] == second
        assert (await do("list_cells"))["path"] == second
        assert (await do("unuse_notebook", notebook_name=two))["current"] is None
        for tool, arguments in (
            ("list_cells", {}),
            ("delete_cell", {"cell_index": 0}),
            ("execute_ipython", {"code": "1"}),
        ):
            none = await do.error(tool, **arguments)
            assert none["code"] == "NOT_FOUND"
            assert "use_notebook" in none["hint"]
        assert (await do("list_cells", notebook=first))["path"] == first
        assert (await do.error("list_cells", notebook=two))["code"] == "NOT_FOUND"
        assert (await do.error("unuse_notebook", notebook_name=two))["code"] == "NOT_FOUND"
        assert (await do.error("use_notebook", notebook_name=two))["code"] == "NOT_FOUND"
        for wrong in ({"notebook_name": " "}, {"notebook_name": "x", "mode": "create"}):
            assert (await do.error("use_notebook", **wrong))["code"] == "INVALID_ARGUMENT"


@requirement("cells:use:kernel", "cells:use:kernel-shared", "cells:list-kernels", "cells:unuse", "cells:restart")
async def test_binding_to_a_running_kernel(
    agent: Any, jupyter_server: JupyterServer, folder: str, notebook: Any, kernel: str
) -> None:
    one, two, fresh = notebook("x = 41", name="one"), notebook("x + 1", name="two"), f"{folder}/fresh.ipynb"

    def running() -> set[str]:
        return {entry["id"] for entry in jupyter_api(jupyter_server, "GET", "kernels")}

    async with agent("legacy") as do:
        unknown = await do.error(
            "use_notebook", notebook_name="f", notebook_path=fresh, mode="create", kernel_id="no-such-kernel"
        )
        assert (unknown["code"], "list_kernels" in unknown["hint"]) == ("NOT_FOUND", True)
        assert not (jupyter_server.root / fresh).exists()
        for name, path in (("one", one), ("two", two)):
            bound = await do("use_notebook", notebook_name=name, notebook_path=path, kernel_id=kernel)
            assert bound["kernel"]["id"] == kernel
            assert "kernel_ended" not in bound
        await do("execute_cell_simple_timeout", cell_index=0, notebook="one")
        assert blocks(await do.whole("execute_cell_simple_timeout", cell_index=0)) == ["42"]

        listed = await do.whole("list_kernels")
        (row,) = [row for row in listed.structured_content["kernels"] if row["id"] == kernel]
        assert {one, two} <= set(row["notebooks"].split(", "))
        tables = [read_back(block.text) for block in listed.content]
        assert as_cells(row) in tables[0]
        assert [[cells[0], cells[3]] for cells in tables[1] if cells[0] == "python3"] == [["python3", "yes"]]

        started = str(jupyter_api(jupyter_server, "POST", "kernels", {})["id"])
        shared = await do.error("use_notebook", notebook_name="one", kernel_id=started)
        assert shared["code"] == "CONFLICT"
        assert kernel in running()
        alone = notebook("1", name="alone")
        await do("use_notebook", notebook_name="alone", notebook_path=alone, kernel_id=started)
        moved = await do("use_notebook", notebook_name="alone", kernel_id=kernel)
        assert (moved["kernel_ended"], moved["kernel"]["id"]) == (started, kernel)
        await eventually(lambda: started not in running(), "the kernel that it had has ended")

        await do("unuse_notebook", notebook_name="alone")
        assert kernel in running()
        restarted = await do("restart_notebook", notebook_name="two")
        assert (restarted["kernel_id"], restarted["restarted"]) == (kernel, True)
        result = await do.whole("execute_cell_simple_timeout", cell_index=0, notebook="two")
        assert result.is_error
        assert "name 'x' is not defined" in blocks(result)[0]
        assert result.structured_content["execution_results"][0]["error"]["ename"] == "NameError"


@requirement("cells:list-notebook", "cells:tables")
async def test_notebooks_as_a_table(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    # A server of its own: on the shared one are so many notebooks that the list of them is remembered for a while.
    jupyter = start_jupyter().address
    kernel = str(jupyter_api(jupyter, "POST", "kernels", {})["id"])
    odd, other = "folder/tab\tand\nline.ipynb", "folder/other.ipynb"
    for path in (odd, other):
        write_notebook(jupyter.root, path, ["1"])
    with in_front_of(jupyter, tmp_path, "--toolsets", "cells") as server:
        await table_of_notebooks(server, kernel, odd, other)


async def table_of_notebooks(server: HttpServer, kernel: str, odd: str, other: str) -> None:
    async with agent_of(server, "legacy") as do:
        await do("use_notebook", notebook_name="odd one", notebook_path=odd, kernel_id=kernel)
        rows: list[dict[str, Any]] = []
        page: dict[str, Any] = {}
        offset: int | None = 0
        while offset is not None:
            result = await do.whole("list_notebook", offset=offset)
            page = result.structured_content
            assert read_back(result.content[0].text)[1:] == [as_cells(row) for row in page["notebooks"]]
            assert estimate_tokens(result.content[0].text) <= DEFAULT_TOKENS
            rows += page["notebooks"]
            offset = page["next_offset"]
        mine = rows[0]
        assert (mine["path"], mine["name"], mine["current"], mine["kernel_id"]) == (odd, "odd one", True, kernel)
        assert [row["name"] for row in rows if row["path"] == other] == [None]
        assert len(rows) == page["total"] == len({row["path"] for row in rows})
        assert "age_seconds" not in page
        assert "note" not in page


@requirement("cells:list-notebook")
async def test_a_list_that_is_remembered_says_how_old_it_is(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    jupyter = start_jupyter().address
    for number in range(QUICK_FILES + 1):
        write_notebook(jupyter.root, f"{number}.ipynb", ["1"])
    with in_front_of(jupyter, tmp_path, "--toolsets", "cells") as server:
        async with agent_of(server) as do:
            assert "age_seconds" not in (await do("list_notebook"))
            write_notebook(jupyter.root, "new.ipynb", ["1"])
            again = await do.whole("list_notebook")
    page = again.structured_content
    assert page["total"] == QUICK_FILES + 1
    assert page["note"] == f"this list is {page['age_seconds']:g} s old; list_nbs with refresh asks the server anew"
    assert again.content[-1].text == page["note"]


@requirement("cells:list-files", "cells:tables")
async def test_files_to_the_asked_depth(agent: Any, jupyter_server: JupyterServer, folder: str) -> None:
    root = jupyter_server.root / folder
    for place in ("a/b/c/deep.txt", ".hidden/x.txt", "a/.secret", "new\nline.txt"):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text("12345", encoding="utf-8")
    async with agent() as do:

        async def paths(**more: Any) -> list[str]:
            return [
                row["path"].removeprefix(folder + "/") for row in (await do("list_files", path=folder, **more))["files"]
            ]

        assert await paths(max_depth=1) == ["a", "new\nline.txt"]
        assert await paths() == ["a", "a/b", "a/b/c", "new\nline.txt"]
        assert "a/b/c/deep.txt" in await paths(max_depth=4)
        result = await do.whole("list_files", path=folder, max_depth=4)
        assert read_back(result.content[0].text)[0] == ["Path", "Type", "Size", "Last_Modified"]
        assert read_back(result.content[0].text)[1:] == [as_cells(row) for row in result.structured_content["files"]]
        (deep,) = [row for row in result.structured_content["files"] if row["path"].endswith("deep.txt")]
        assert (deep["type"], deep["size"]) == ("file", 5)
        for path in (f"{folder}/.hidden", f"{folder}/nowhere"):
            assert (await do.error("list_files", path=path))["code"] == "NOT_FOUND"
        for number in range(300):
            (root / "a" / f"file-{number:03}.txt").touch()
        first = await do.whole("list_files", path=f"{folder}/a")
        following = first.structured_content["next_offset"]
        assert f"offset={following}" in first.content[1].text
        seen = list(first.structured_content["files"])
        while following is not None:
            page = await do("list_files", path=f"{folder}/a", offset=following)
            seen, following = seen + page["files"], page["next_offset"]
        assert len({row["path"] for row in seen}) == len(seen) == 303


@requirement("cells:list-files")
async def test_more_files_than_anybody_waits_for_are_refused(
    jupyter_server: JupyterServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        (jupyter_server.root / folder / f"{number}.txt").touch()
    monkeypatch.setattr("cellwright.jupyter.tools.current.choosing.MAX_FILES", 3)
    async with engine(jupyter_server) as cells:
        with pytest.raises(LimitReached, match="more than 3 files"):
            await list_files(cells, call_of("ada"), folder)


# -- whose ---------------------------------------------------------------------------------------------------------------------


def call_of(principal: str, connection: str | None = None, scopes: frozenset[Scope] = ALL_SCOPES) -> Call:
    return Call(Principal(principal, scopes), connection)


@asynccontextmanager
async def engine(server: JupyterServer) -> AsyncGenerator[CurrentCells]:
    address = JupyterAddress.parse(server.url, token=Secret(server.token))
    notebooks = LiveNotebooks(to_named(address), lambda: datetime.now(UTC))
    try:
        yield CurrentCells(notebooks)
    finally:
        await notebooks.close()


@requirement("cells:callers")
async def test_callers_with_the_same_name_for_their_notebooks_never_meet(
    jupyter_server: JupyterServer, notebook: Any
) -> None:
    callers = [call_of("ada", "1"), call_of("ada", "2"), call_of("ada"), call_of("bob"), call_of("bob", "1")]
    async with engine(jupyter_server) as cells:

        async def work(number: int, call: Call) -> int:
            path = notebook(f"caller {number} step 0", name=f"of-{number}")
            await use_notebook(cells, call, "mine", path)
            for step in range(1, 68):
                expected = f"caller {number} step {step}"
                changed = await overwrite_cell_source(cells, call, 0, expected)
                assert changed.data["path"] == path
                assert (await read_cell(cells, call, 0)).data["cells"][0]["source"] == expected
                assert (await list_cells(cells, call, "mine")).data["path"] == path
            return 1 + 3 * 67

        calls = await asyncio.gather(*(work(number, call) for number, call in enumerate(callers)))
        assert sum(calls) >= 1_000
        with pytest.raises(NotFound, match="no current notebook"):
            await list_cells(cells, call_of("carol", "1"))


@requirement("cells:callers")
async def test_two_connections_of_one_token_have_each_their_own(agent: Any, notebook: Any) -> None:
    paths = [notebook(f"source {number}", name=f"n{number}") for number in range(2)]
    async with agent("legacy") as one, agent("legacy") as two:
        for do, path in zip((one, two), paths, strict=True):
            await do("use_notebook", notebook_name="mine", notebook_path=path)

        async def ask(do: Agent, path: str) -> None:
            for _ in range(10):
                assert (await do("list_cells"))["path"] == path

        # Three at a time for each: what one token may have under way at once is bounded.
        await asyncio.gather(*(ask(do, path) for do, path in [*zip((one, two), paths, strict=True)] * 3))


def insert(source: str, **more: Any) -> dict[str, Any]:
    return {"cell_index": 0, "cell_type": "raw", "cell_source": source, **more}


@requirement("cells:callers:no-connection")
@pytest.mark.parametrize("names", [("mine", "mine"), ("x", "y")])
async def test_two_clients_that_nothing_tells_apart_change_nothing_of_each_other(
    agent: Any, notebook: Any, names: tuple[str, str]
) -> None:
    paths = [notebook(f"source {number}", name=f"n{number}") for number in range(2)]
    async with agent("auto") as one, agent("auto") as two:
        await one("use_notebook", notebook_name=names[0], notebook_path=paths[0])
        await one("insert_cell", **insert("alone"))
        await two("use_notebook", notebook_name=names[1], notebook_path=paths[1])
        for tool, arguments in (
            ("insert_cell", insert("lost")),
            ("delete_cell", {"cell_index": 0}),
            ("overwrite_cell_source", {"cell_index": 0, "cell_source": "lost"}),
            ("execute_ipython", {"code": "1"}),
            ("execute_cell_simple_timeout", {"cell_index": 0}),
        ):
            refused = await one.error(tool, **arguments)
            assert refused["code"] == "INVALID_ARGUMENT"
            assert "another client with your token may have chosen it" in refused["message"]
            assert paths[1] in refused["hint"]
        if names[0] == names[1]:
            assert (await one.error("insert_cell", **insert("lost", notebook=names[0])))["code"] == "INVALID_ARGUMENT"
            assert (await one.error("restart_notebook", notebook_name=names[0]))["code"] == "INVALID_ARGUMENT"
        else:
            assert (await one("insert_cell", **insert("by its name", notebook=names[0])))["path"] == paths[0]
        assert (await one("insert_cell", **insert("by its path", notebook=paths[0])))["path"] == paths[0]
        for tool in ("list_cells", "read_cells"):
            result = await one.whole(tool)
            assert paths[1] in blocks(result)[-1], "whose cells these are is said"
        assert await one.sources(paths[1]) == ["source 1"]
        for name in set(names):
            await one("unuse_notebook", notebook_name=name)


@requirement("cells:callers:no-connection")
async def test_clients_of_other_names_are_told_apart_without_a_connection(
    jupyter_server: JupyterServer, notebook: Any
) -> None:
    paths = [notebook(f"source {number}", name=f"n{number}") for number in range(2)]
    async with engine(jupyter_server) as cells:
        callers = [replace(call_of("ada"), client=name, may_have_left=True) for name in ("one", "two")]
        for call, path in zip(callers, paths, strict=True):
            await use_notebook(cells, call, "mine", path)
        for call, path in zip(callers, paths, strict=True):
            assert (await overwrite_cell_source(cells, call, 0, "changed")).data["path"] == path


@requirement("cells:callers:bounded")
def test_what_is_remembered_is_bounded_by_principal() -> None:
    current = CurrentNotebooks(principals=2, sessions=3, names=2)
    path, other = NotebookPath("n.ipynb"), NotebookPath("o.ipynb")
    ada, bob = call_of("ada", "a"), call_of("bob", "b")
    current.use(ada, "n", path)
    current.use(bob, "n", other)
    for number in range(50):
        assert current.find(bob, "n") == other
        current.use(call_of("bob", str(number)), "n", path)
    assert current.find(ada, None) == path
    assert current.find(bob, None) == other, "looking counts as use"
    with pytest.raises(NotFound):
        current.find(call_of("bob", "0"), None)
    current.use(ada, "second", other)
    with pytest.raises(LimitReached, match="unuse_notebook"):
        current.use(ada, "third", other)
    assert current.use(ada, "n", other) == path
    assert [one.name for one in current.of(ada)] == ["second", "n"]
    current.use(call_of("carol"), "n", path)
    assert current.of(bob) == ()
    with pytest.raises(InvalidArgument):
        current.use(ada, "n" * 201, path)
    with pytest.raises(NotFound, match="did you mean 'second'"):
        current.named(ada, "secnd")


@requirement("cells:use:kernel")
async def test_binding_a_kernel_needs_the_scope_run(jupyter_server: JupyterServer, notebook: Any, kernel: str) -> None:
    path = notebook("1")
    writer = call_of("writer", scopes=frozenset({Scope.READ, Scope.WRITE}))
    async with engine(jupyter_server) as cells:
        with pytest.raises(Forbidden):
            await use_notebook(cells, writer, "n", path, kernel_id=kernel)
        assert (await use_notebook(cells, writer, "n", path))["kernel"] is None


# -- reading and writing -------------------------------------------------------------------------------------------------------


@requirement("cells:read:blocks", "cells:run:ipython")
async def test_pictures_stand_where_the_outputs_have_them(
    agent: Any, notebook: Any, kernel: str, person: PersonIn
) -> None:
    path = notebook(SHOW_PIXEL, "2 + 2")
    async with agent("legacy") as do, person(path) as them:
        await do("use_notebook", notebook_name="n", notebook_path=path, kernel_id=kernel)
        shown = ["before\n", "image/png", "after\n'the end'"]
        assert blocks(await do.whole("execute_cell_simple_timeout", cell_index=0)) == shown
        one = blocks(await do.whole("read_cell", cell_index=0))
        assert one[0].endswith(f" id=c0 ===\n{SHOW_PIXEL}")
        assert one[1:] == shown
        every = await do.whole("read_cells")
        assert blocks(every) == [*one, "=== cell 1 code id=c1 ===\n2 + 2"]
        assert [cell["id"] for cell in every.structured_content["cells"]] == ["c0", "c1"]
        await them.settle()
        count = them.cells[0]["execution_count"]

        assert blocks(await do.whole("execute_ipython", code=SHOW_PIXEL)) == shown
        assert blocks(await do.whole("execute_ipython", code="%who_ls complex")) == ["[]"]
        assert blocks(await do.whole("execute_ipython", code="!echo from the shell")) == ["from the shell\n"]
        assert blocks(await do.whole("execute_ipython", code="nothing = 1")) == ["[done, no output]"]
        await them.settle()
        assert them.sources == [SHOW_PIXEL, "2 + 2"]
        counted = await do("execute_cell_with_progress", cell_index=1)
        assert counted["execution_results"][0]["execution_count"] == int(count) + 1


@requirement("cells:read:blocks")
def test_every_kind_of_output_has_its_block() -> None:
    def display(data: dict[str, Any]) -> ShownOutput:
        return {"output_type": "display_data", "data": data, "metadata": {}, "execution_count": None}

    outputs: list[ShownOutput] = [
        {"output_type": "stream", "name": "stderr", "text": "careful\n"},
        {"output_type": "error", "ename": "E", "evalue": "v", "name": "E", "value": "v", "traceback": []},
        display({"application/json": {"shown": True}}),
        display({"image/png": {"omitted": "image/png", "size": 9}}),
        display({"text/html": {"omitted": "text/html"}, "text/plain": "frame"}),
        display({"image/png": {"shown": True}, "text/plain": "<Figure>"}),
        {"output_type": "novel", "omitted": True},
    ]
    picture = Image(b"png", "image/png")
    text = '[stderr]\ncareful\nE: v\n[application/json] {"shown":true}\n[image/png] {"omitted":"image/png","size":9}\nframe'
    assert output_blocks(outputs, iter([picture])) == [text, picture, "[novel left out]"]


@requirement("cells:write", "cells:write:refused", "cells:run:error")
async def test_a_person_sees_every_change(agent: Any, notebook: Any, kernel: str, person: PersonIn) -> None:
    path = notebook("a = 1\nb = 2\nc = 3", "1 / 0")
    async with agent("legacy") as do, person(path) as them:
        await do("use_notebook", notebook_name="n", notebook_path=path, kernel_id=kernel)
        inserted = await do("insert_cell", cell_index=1, cell_type="markdown", cell_source="# title")
        assert [place["index"] for place in inserted["cells"]] == [1]
        await do("insert_cell", cell_index=-1, cell_type="code", cell_source="last")
        changed = await do.whole("overwrite_cell_source", cell_index=0, cell_source="a = 1\nb = 22\nc = 3")
        assert "-b = 2\n+b = 22" in changed.content[1].text
        assert changed.structured_content["diff"] == changed.content[1].text
        ran = await do.whole("insert_execute_code_cell", cell_index=0, cell_source="print('ran')")
        assert blocks(ran) == [f"Inserted code cell 0 in {path}", "ran\n"]
        gone = await do("delete_cell", cell_index=4)
        assert (gone["deleted"]["source"], gone["cell_count"]) == ("last", 4)
        await them.settle()
        assert them.sources == ["print('ran')", "a = 1\nb = 22\nc = 3", "# title", "1 / 0"]
        assert str(them.cells[0]["outputs"][0]["text"]) == "ran\n"

        for tool, arguments in (
            ("read_cell", {}),
            ("delete_cell", {}),
            ("overwrite_cell_source", {"cell_source": "x"}),
            ("execute_cell_simple_timeout", {}),
            ("execute_cell_streaming", {}),
            ("insert_cell", {"cell_type": "code", "cell_source": "x"}),
            ("insert_execute_code_cell", {"cell_source": "x"}),
        ):
            for index in (-2, 5):
                error = await do.error(tool, cell_index=index, **arguments)
                assert (error["code"], "4 cells" in error["message"]) == ("INVALID_ARGUMENT", True), (tool, index)
        assert "not code" in (await do.error("execute_cell_with_progress", cell_index=2))["message"]
        for tool, arguments in (("delete_cell", {}), ("overwrite_cell_source", {"cell_source": "x"})):
            assert (await do.error(tool, cell_index=0, expect="0000000000", **arguments))["code"] == "CONFLICT"
        failed = await do.whole("execute_cell_simple_timeout", cell_index=3)
        assert failed.is_error
        assert "ZeroDivisionError" in blocks(failed)[0]
        await them.settle()
        assert them.sources == ["print('ran')", "a = 1\nb = 22\nc = 3", "# title", "1 / 0"]
        rows = (await do("list_cells"))["cells"]
        assert [(row["type"], row["outputs"], row["state"]) for row in rows] == [
            ("code", 1, None),
            ("code", 0, None),
            ("markdown", 0, None),
            ("code", 1, "failed"),
        ]


@requirement("cells:read:pages")
async def test_a_long_notebook_is_read_in_parts(agent: Any, notebook: Any) -> None:
    path = notebook(*[f"value_{number} = {'word ' * 60!r}" for number in range(120)])
    async with agent() as do:
        seen: list[int] = []
        start = 0
        while True:
            result = await do.whole("read_cells", notebook=path, start=start)
            assert sum(estimate_tokens(block.text) for block in result.content) <= DEFAULT_TOKENS
            seen += [cell["index"] for cell in result.structured_content["cells"]]
            following = result.structured_content.get("next")
            if following is None:
                break
            start = following["ranges"][0]["start"]
            assert f"start={start}" in result.content[-1].text
        assert seen == list(range(120))
        assert "120 cells" in (await do.error("read_cells", notebook=path, start=121))["message"]
        listed = await do("list_cells", notebook=path, offset=100)
        assert [row["index"] for row in listed["cells"]] == list(range(100, 120))


# -- running -------------------------------------------------------------------------------------------------------------------


@requirement("cells:run:streaming")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_streaming_tells_the_output_while_it_runs(
    agent: Any, jupyter_server: JupyterServer, folder: str, notebook: Any, kernel: str, person: PersonIn, mode: str
) -> None:
    """Each line is printed only after the one before it was told: a result that is sent at the end would never come."""
    gates = jupyter_server.root / folder
    path = notebook(
        "import pathlib, time\nfor n in range(5):\n    print('line', n, flush=True)\n    end = time.monotonic() + 20\n"
        f"    while not pathlib.Path({str(gates)!r}, f'told-{{n}}').exists():\n"
        "        assert time.monotonic() < end, 'never told'\n        time.sleep(0.01)"
    )
    async with agent(mode) as do, person(path) as them:
        await do("use_notebook", notebook_name=path, notebook_path=path, kernel_id=kernel)
        told: list[tuple[float, str]] = []

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            assert total == 60
            told.append((progress, message or ""))
            for line in (message or "").splitlines():
                if line.startswith("line "):
                    (gates / f"told-{line[5:]}").touch()

        arguments = {"cell_index": 0, "timeout_seconds": 60, "progress_interval": 0.2, "notebook": path}
        result = await do.client.call_tool("execute_cell_streaming", arguments, progress_callback=progress)
        whole = "".join(f"line {number}\n" for number in range(5))
        assert blocks(result) == [whole]
        assert "".join(message for _, message in told if message.startswith("line")) == whole
        assert [value for value, _ in told] == sorted({value for value, _ in told})
        await them.settle()
        assert str(them.cells[0]["outputs"][0]["text"]) == whole


@requirement("cells:run:streaming")
@given(st.lists(st.text("ab \n", max_size=20), max_size=8))
def test_the_pieces_that_are_told_make_up_the_whole(pieces: list[str]) -> None:
    told, said = "", ""
    for piece in pieces:
        now = told + piece
        said, told = said + news(told, now), now
    assert said == "".join(pieces)


@requirement("cells:run:streaming")
def test_what_was_overwritten_is_told_again_and_what_is_long_by_its_end() -> None:
    assert news("start\n 10%", "start\n 20%") == " 20%"
    assert news("old\n", "") == ""
    assert news("old\n", "new\n") == "new\n"
    long = news("", "x" * NEWS_CHARACTERS + "end")
    assert long.startswith("… 3 characters before …\n")
    assert long.endswith("xend")


@requirement("cells:run:timeout", "cells:run:progress")
async def test_a_run_over_its_time_goes_on_and_can_be_ended(agent: Any, notebook: Any, kernel: str) -> None:
    path = notebook("import time\nprint('begun', flush=True)\ntime.sleep(60)")
    async with agent("legacy") as do:
        await do("use_notebook", notebook_name="n", notebook_path=path, kernel_id=kernel)
        told: list[str] = []

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            del progress, total
            told.append(message or "")

        arguments = {"cell_index": 0, "timeout_seconds": 1.5}
        result = await do.client.call_tool("execute_cell_with_progress", arguments, progress_callback=progress)
        assert not result.is_error
        execution = result.structured_content["execution_id"]
        assert result.structured_content["status"] == "running"
        assert blocks(result)[0] == "begun\n"
        assert execution in blocks(result)[1]
        assert any("begun" in message for message in told)

        waiting = await do("execute_ipython", code="'queued'", timeout=0.2)
        assert waiting["status"] == "queued"
        streamed = await do("execute_cell_streaming", cell_index=0, timeout_seconds=0.3, progress_interval=0.1)
        assert streamed["status"] == "queued"
        await do("cancel_execution", execution_id=streamed["execution_id"])
        stopped = await do("cancel_execution", execution_id=execution)
        assert stopped["status"] == "interrupted"
        assert blocks(await do.whole("execute_ipython", code="'usable'")) == ["'usable'"]
        await do.error("execute_cell_simple_timeout", cell_index=0, timeout_seconds=-1)


@requirement("cells:run:cancel")
@pytest.mark.parametrize("tool", ["execute_cell_streaming", "execute_ipython"])
async def test_cancelling_interrupts_the_kernel(agent: Any, notebook: Any, kernel: str, tool: str) -> None:
    code = "import time\nfor n in range(6000):\n    print('step', n, flush=True)\n    time.sleep(0.01)"
    path = notebook(code)
    async with agent("legacy") as do:
        await do("use_notebook", notebook_name="n", notebook_path=path, kernel_id=kernel)
        begun = anyio.Event()

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            del progress, total
            if "step" in (message or ""):
                begun.set()

        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                arguments = {"code": code} if tool == "execute_ipython" else {"cell_index": 0, "progress_interval": 0.1}
                await do.client.call_tool(tool, arguments, progress_callback=progress)

            tasks.start_soon(call)
            with anyio.fail_after(20):
                await begun.wait()
            tasks.cancel_scope.cancel()
        assert blocks(await do.whole("execute_ipython", code="'usable'", timeout=20)) == ["'usable'"]


@requirement("cells:restart")
async def test_the_first_run_and_a_restart_start_the_kernel_that_is_missing(
    jupyter_server: JupyterServer, notebook: Any
) -> None:
    ada = call_of("ada")
    async with engine(jupyter_server) as cells:
        assert (await use_notebook(cells, ada, "n", notebook("6 * 7")))["kernel"] is None
        started = await restart_notebook(cells, ada, "n")
        assert started["restarted"] is False
        ran = await execute_cell_simple_timeout(cells, ada, 0)
        assert ran.content == ("42",)
        jupyter_api(jupyter_server, "DELETE", f"kernels/{started['kernel_id']}")


# -- stdio ---------------------------------------------------------------------------------------------------------------------


@requirement("cells:use", "cells:run:error")
async def test_the_whole_way_over_stdio(
    jupyter_server: JupyterServer, folder: str, kernel: str, tmp_path: Path, person: PersonIn
) -> None:
    path = f"{folder}/made.ipynb"
    flags = ("--jupyter-url", jupyter_server.url, "--jupyter-token", jupyter_server.token, "--toolsets", "cells")
    async with stdio_client(tmp_path, *flags) as client:
        do = Agent(client)
        assert len((await client.list_tools()).tools) == 17
        await do("use_notebook", notebook_name="mine", notebook_path=path, mode="create", kernel_id=kernel)
        async with person(path) as them:
            await do("insert_cell", cell_index=-1, cell_type="markdown", cell_source="# Made over stdio")
            ran = await do.whole("insert_execute_code_cell", cell_index=-1, cell_source="6 * 7")
            assert blocks(ran)[1:] == ["42"]
            assert (await do.failing("insert_execute_code_cell", cell_index=-1, cell_source="raise KeyError('k')"))[
                "status"
            ] == "error"
            await them.settle()
            assert them.sources == ["", "# Made over stdio", "6 * 7", "raise KeyError('k')"]
        assert [row["name"] for row in (await do("list_notebooks"))["notebooks"] if row["current"]] == ["mine"]
