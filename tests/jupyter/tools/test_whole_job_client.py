"""A whole job through a real client: a notebook made, run, reshaped and put away, with our server in front of a real Jupyter."""

import json
import re
from collections.abc import Generator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from mcp import MCPError

from cellwright.app.settings import Settings
from cellwright.app.workspace import local_user, make_workspace
from jupyter_support import JupyterServer, PersonIn, write_notebook
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import HttpServer, stdio_client

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def ours(jupyter_server: JupyterServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    with in_front_of(jupyter_server, tmp_path_factory.mktemp("ours"), "--toolsets", "all") as server:
        yield server


@requirement("work:create", "work:run:words", "work:run:rest", "work:split", "work:join", "work:kernel:shutdown")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_job_from_nothing_to_an_ended_kernel(ours: HttpServer, folder: str, mode: str) -> None:
    path = f"{folder}/new/job.ipynb"
    cells = [{"content": "# Job", "type": "markdown"}, {"content": "x = 2\nprint(x)"}, {"content": "print(y)"}]
    async with agent_of(ours, mode) as do:
        made = await do("create_nb", path=path, cells=cells, kernel_name="python3")
        assert made["created_folders"] == [f"{folder}/new"]
        ids = [cell["id"] for cell in made["cells"]]
        taken = await do.error("create_nb", path=path)
        assert (taken["code"], "insert_nb_cells" in taken["hint"]) == ("CONFLICT", True)
        parts = await do("split_join_nb_cells", path=path, ranges=[{"id": ids[1]}], lines=[2])
        assert [cell["index"] for cell in parts["cells"]] == [1, 2]
        failed = await do.failing("execute_nb_cells", path=path, cells="all")
        assert failed["failed_cells"] == [ids[2]]
        assert failed["message"] == "error: of 3 code cells 2 done, 1 error"
        assert "next" not in failed
        await do("modify_nb_cells", path=path, modifications=[{"range": {"id": ids[2]}, "content": "1/0"}], exec=False)
        both = {"id": ids[2]}, {"id": parts["cells"][1]["id"]}
        await do("move_nb_cells", path=path, ranges=[both[1]], position=-1)
        failed = await do.failing("execute_nb_cells", path=path, cells="below", ranges=[both[0]])
        following = json.loads(re.findall(r"execute_nb_cells\((.*)\)$", failed["next"])[0])
        rest = await do("execute_nb_cells", **following)
        assert [result["outputs"][0]["text"] for result in rest["execution_results"]] == ["2\n"]
        joined = await do("split_join_nb_cells", path=path, ranges=list(both))
        assert joined["removed_ids"] == [both[1]["id"]]
        assert await do.sources(path) == ["# Job", "x = 2", "1/0\nprint(x)"]
        ended = await do("shutdown_nb_kernel", path=path)
        assert ended["kernel_id"] is not None
        assert (await do("get_nb_stat", path=path))["kernel"] is None
        await do("end_nb_session", path=path)


@requirement("work:default")
@pytest.mark.parametrize("way", ["stdio", "auto", "legacy"])
async def test_the_default_tools_do_a_whole_job(jupyter_server: JupyterServer, tmp_path: Path, way: str) -> None:
    flags = ("--jupyter-url", jupyter_server.url, "--jupyter-token", jupyter_server.token)
    path, copy = (f"whole-{way}/deep/{name}.ipynb" for name in ("job", "copy"))
    async with AsyncExitStack() as stack:
        if way == "stdio":
            do = Agent(await stack.enter_async_context(stdio_client(tmp_path, *flags)))
        else:
            server = stack.enter_context(in_front_of(jupyter_server, tmp_path))
            do = await stack.enter_async_context(agent_of(server, way))
        cells = [{"content": source} for source in ("x = 1\nprint(x)", "1/0", "print('rest')", "a note")]
        made = await do("create_nb", path=path, cells=cells)
        assert made["created_folders"] == [f"whole-{way}", f"whole-{way}/deep"]
        ids = [cell["id"] for cell in made["cells"]]
        await do("modify_nb_cells", path=path, modifications=[{"range": {"id": ids[3]}, "type": "markdown"}])
        failed = await do.failing("execute_nb_cells", path=path, cells="all")
        assert (failed["executed_ranges"], failed["executed_cells"]) == (1, 2)
        rest = await do("execute_nb_cells", **json.loads(re.findall(r"execute_nb_cells\((.*)\)$", failed["next"])[0]))
        assert rest["execution_results"][0]["outputs"][0]["text"] == "rest\n"
        await do("clear_nb_outputs", path=path, ranges=[{"id": ids[1]}])
        await do("split_join_nb_cells", path=path, ranges=[{"id": ids[0]}], lines=[2])
        await do("create_nb", path=copy)
        await do("move_nb_cells", path=path, ranges=[{"start": 0, "end": 2}], position=0, copy=True, to=copy)
        assert (await do.sources(copy))[:2] == ["x = 1", "print(x)"]
        outline = (await do("get_nb_stat", path=path, outline=True))["outline"]
        assert [line.split()[2] for line in outline] == ["code", "code", "code", "code", "md"]
        assert "out" not in outline[2].partition("|")[0]
        await do("shutdown_nb_kernel", path=path)


@requirement("work:run:keep-going")
async def test_an_error_result_names_all_that_failed(
    ours: HttpServer, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["1/0", "print('on')", "a.b", "2"])
    async with agent_of(ours) as do:
        failed = await do.failing("execute_nb_cells", path=path, cells="all", keep_going=True)
        assert (failed["failed_cells"], failed["executed_cells"]) == (["c0", "c2"], 4)
        assert [result.get("error", {}).get("ename") for result in failed["execution_results"]] == [
            *("ZeroDivisionError", None, "NameError", None)
        ]
        await do("end_nb_session", path=path, shutdown_kernel=True)


@requirement("work:run:rest")
async def test_why_cells_were_not_run_is_said_once(
    ours: HttpServer, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["1/0", *("2" for _ in range(20))])
    async with agent_of(ours) as do:
        failed = await do.failing("execute_nb_cells", path=path, cells="all")
        assert failed["message"] == "error: of 21 code cells 1 error, 20 not run"
        assert [result["status"] for result in failed["execution_results"][1:]] == ["not_run"] * 20
        assert [result["error"]["ename"] for result in failed["execution_results"] if "error" in result] == [
            *("ZeroDivisionError", "NOT_RUN")
        ]


@requirement("work:run:rest")
async def test_cells_that_were_put_in_can_be_run_on_past_an_error(ours: HttpServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    async with agent_of(ours) as do:
        await do("create_nb", path=path)
        cells = [{"content": "input()"}, {"content": "print('rest')"}, {"content": "print('end')"}]
        failed = await do.failing("insert_nb_cells", path=path, position=-1, cells=cells)
        assert "input() cannot be answered here" in failed["execution_results"][0]["error"]["hint"]
        assert failed["failed_cells"] == [failed["cells"][0]["id"]]
        rest = await do("execute_nb_cells", **json.loads(re.findall(r"execute_nb_cells\((.*)\)$", failed["next"])[0]))
        assert [result["outputs"][0]["text"] for result in rest["execution_results"]] == ["rest\n", "end\n"]


@requirement("truth:lean:cell-errors")
async def test_a_long_message_of_a_cell_is_said_twice_at_most(
    ours: HttpServer, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["raise ValueError(''.join(f'<{i}>' for i in range(300)))"])
    async with agent_of(ours) as do:
        for tool, ran in (
            ("execute_nb_cells", await do.failing("execute_nb_cells", path=path, cells="all")),
            ("read_nb_cells", await do("read_nb_cells", path=path)),
        ):
            assert json.dumps(ran).count("<150>") == 2, tool
        (output,) = ran["cells"][0]["outputs"]
        assert output["value"].startswith("<0>")
        assert output["value"].endswith("<299>")
        assert output["evalue"].startswith("<0>")
        assert output["evalue"].endswith("<299>")
        assert "characters left out" in output["evalue"]
        said = await do.whole("execute_cell_simple_timeout", notebook=path, cell_index=0)
        assert "".join(getattr(block, "text", "") for block in said.content).count("<150>") == 1


@requirement("work:replace")
async def test_text_is_replaced_wherever_it_is_and_taken_back_at_once(
    ours: HttpServer, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    sources = ["rate = 1", "print(rate, rate)", "other = 2"]
    write_notebook(jupyter_server.root, path, sources)
    async with agent_of(ours) as do:
        refused = await do.error("edit_nb_cell", path=path, old="rate", new="tax")
        assert refused["message"] == "the text is 3 times in 2 cells: c0 (index 0), c1 (index 1); nothing was changed"
        assert "replace_all" in refused["hint"]
        assert (await do.error("edit_nb_cell", path=path, old="gone", new="x"))["code"] == "NOT_FOUND"
        wrong = await do.error("edit_nb_cell", path=path, old="rate", new="tax", replace_all=True, expect="1234567890")
        assert "revision of one cell" in wrong["message"]
        done = await do("edit_nb_cell", path=path, old="rate", new="tax", replace_all=True, exec=True)
        assert (done["message"], [cell["id"] for cell in done["cells"]]) == ("Replaced 3 occurrences", ["c0", "c1"])
        assert (
            done["diff"]
            == "0 c0\n@@ -1 +1 @@\n-rate = 1\n+tax = 1\n1 c1\n@@ -1 +1 @@\n-print(rate, rate)\n+print(tax, tax)"
        )
        assert done["execution_results"][1]["outputs"][0]["text"] == "1 1\n"
        assert await do.sources(path) == ["tax = 1", "print(tax, tax)", "other = 2"]
        once = await do("edit_nb_cell", path=path, old="other", new="another")
        assert [cell["id"] for cell in once["cells"]] == ["c2"]
        await do("undo_nb_edit", path=path)
        assert (await do("undo_nb_edit", path=path))["undone"] == "replace text in 2 cells"
        assert await do.sources(path) == sources


@requirement("work:called")
async def test_a_cell_is_named_by_its_count_as_people_see_it(
    ours: HttpServer, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["'a'", "'b'", "'c'"])
    async with agent_of(ours) as do:
        await do("execute_nb_cells", path=path, ranges=[{"start": 2}, {"start": 0}])
        ran = await do("execute_nb_cells", path=path, ranges=[{"id": "[2]"}])
        assert ran["execution_results"][0]["id"] == "c2"
        await do("edit_nb_cell", path=path, cell="[1]", old="a", new="A")
        assert await do.sources(path) == ["'A'", "'b'", "'c'"]
        missing = await do.error("read_nb_cells", path=path, ranges=[{"id": "[9]"}])
        assert (missing["code"], missing["message"]) == ("NOT_FOUND", "no cell shows [9]")
        await do("restart_nb_kernel", path=path, exec=False)
        await do("execute_nb_cells", path=path, ranges=[{"start": 1}])
        several = await do.error("execute_nb_cells", path=path, ranges=[{"id": "[1]"}])
        assert several["message"] == "[1] is shown by 2 cells: c0 (index 0), c1 (index 1)"
        quoted = await do.error("edit_nb_cell", path=path, cell="1", old="a", new="A")
        assert "give it as a number, 1, without quotes" in quoted["hint"]


@requirement("work:overwrite", "work:metadata:trust")
async def test_a_notebook_is_overwritten_by_its_json(
    ours: HttpServer, jupyter_server: JupyterServer, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/n.ipynb"
    file = write_notebook(jupyter_server.root, path, ["a = 1", "b = 2", "c = 3"])
    content = json.loads(file.read_text(encoding="utf-8"))
    content["cells"][1]["source"] = ["b = 20\n", "bb = 2"]
    content["cells"][2]["metadata"] = {"trusted": True, "tags": ["t"]}
    async with agent_of(ours) as do, person(path) as them:
        first, second = them.text_of(0), them.text_of(1)
        done = await do("overwrite_document", path=path, content=json.dumps(content))
        assert (done["changed_cells"], done["cell_count"], done["live"]) == (2, 3, True)
        first.insert(0, "# mine\n")
        second.insert(0, "# mine too\n")
        await them.settle()
        assert them.sources == ["# mine\na = 1", "# mine too\nb = 20\nbb = 2", "c = 3"]
        assert dict(them.cells[2]["metadata"]) == {"tags": ["t"]}
        assert (await do.error("overwrite_document", path=path, content=json.dumps(content)))["code"] == "CONFLICT"
        again = await do("overwrite_document", path=path, content=json.dumps(content), expect="any")
        assert again["changed_cells"] == 2, "what a person typed since is not what the JSON says"
        for wrong in ("", "[]", '{"cells": 1}', '{"cells": [], "nbformat": 3}'):
            assert (await do.error("overwrite_document", path=path, content=wrong))["code"] == "INVALID_ARGUMENT"
        missing = await do.error("overwrite_document", path=f"{folder}/none.ipynb", content=json.dumps(content))
        assert missing["code"] == "NOT_FOUND"


@requirement("work:create:parents", "work:kernel:let-go")
async def test_folders_are_made_wherever_files_are(
    ours: HttpServer, jupyter_server: JupyterServer, folder: str
) -> None:
    async with agent_of(ours) as do:
        put = await do("import_notebook", into=f"{folder}/i/n.ipynb", content="# Hi\n", format="md")
        assert put["notes"] == [f"made the folders {folder}/i"]
        text = await do("import_notebook", into=f"{folder}/i/j/n.md", source=f"{folder}/i/n.ipynb")
        assert text["notes"] == [f"made the folders {folder}/i/j"]
        await do("use_notebook", notebook_name="u", notebook_path=f"{folder}/u/n.ipynb", mode="create")
        assert (jupyter_server.root / folder / "u" / "n.ipynb").is_file()
        await do("insert_execute_code_cell", cell_index=0, cell_source="1")
        let_go = await do("unuse_notebook", notebook_name="u")
        assert let_go["kernel"]["note"] == "goes on; shutdown_nb_kernel ends it"
        await do("use_notebook", notebook_name="u", notebook_path=f"{folder}/u/n.ipynb")
        let_go = await do("unuse_notebook", notebook_name="u", shutdown_kernel=True)
        assert "kernel" not in let_go
        assert let_go["kernel_ended"] is not None
        assert (await do("get_nb_stat", path=f"{folder}/u/n.ipynb"))["kernel"] is None
        inside = await do.error("import_notebook", into=f"{folder}/i/n.ipynb/x.md", content="x", format="md")
        assert (inside["code"], "is not a folder" in inside["message"]) == ("INVALID_ARGUMENT", True)


@requirement("work:cite")
async def test_a_prompt_cites_the_cells_that_were_given(tmp_path: Path) -> None:
    workspace = make_workspace(Settings(root=tmp_path, state_dir=tmp_path / "s"), "stdio")
    (prompt,) = [prompt for prompt in workspace.prompts if prompt.name == "cite-cells"]
    asked = {"path": "a b.ipynb", "cells": "0, 3-5, ab12, id:12345678, [12]", "request": "Why {so}?"}
    tools = {tool.name for tool in workspace.catalogue.offered(local_user())}
    text = prompt.write(asked, tools)
    assert text.startswith("Why {so}?\n")
    ranges = json.loads(re.findall(r'read_nb_cells\(path="a b.ipynb", ranges=(\[.*?\])\)', text)[0])
    assert ranges == [{"start": 0}, {"start": 3, "end": 6}, {"id": "ab12"}, {"id": "12345678"}, {"id": "[12]"}]
    assert set(re.findall(r"\b([a-z]+(?:_[a-z]+)+)\(", text)) <= tools
    await workspace.close()


@requirement("work:cite")
@pytest.mark.parametrize(
    "wrong",
    [
        {"cells": ""},
        {"cells": "a b"},
        {"cells": '0"}]'},
        {"cells": ",".join(["1"] * 51)},
        {"request": " "},
        {"path": "../a.ipynb"},
        {"more": "x"},
    ],
)
async def test_what_names_no_cell_is_refused(ours: HttpServer, wrong: dict[str, str]) -> None:
    async with agent_of(ours) as do:
        with pytest.raises(MCPError) as refused:
            await do.client.get_prompt("cite-cells", {"path": "a.ipynb", "cells": "1", "request": "?", **wrong})
        assert refused.value.error.code == -32602
