"""What random requests found, each with the least that shows it."""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from cellwright.context.model import BrokenProjectFile
from cellwright.context.project.yaml_text import parse
from cellwright.core.errors import InvalidArgument, NotFound
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.files.unreadable import what_is_wrong
from cellwright.jupyter.inside.calls import ServerCalls
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebooks.notebookjson import notebook_json
from cellwright.notebook.formats.ipynb import decode
from cellwright.notebook.model import InvalidFormat
from jupyter_support import JupyterProcess, JupyterServer, PersonIn, write_notebook
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import http_server, until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

ROUNDS = 4


@requirement("fuzz:kernel-changes")
async def test_changes_of_one_kernel_are_made_one_after_the_other(
    agent: Callable[..., AbstractAsyncContextManager[Agent]], jupyter_server: JupyterServer, nb_folder: str
) -> None:
    path = f"{nb_folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["print(6 * 7)"])
    async with agent() as do:
        for _ in range(ROUNDS):
            # Each of these must work, whatever the others made of the kernel before.
            await asyncio.gather(
                do("restart_nb_kernel", path=path, exec=False),
                do("restart_nb_kernel", path=path, exec=False),
                do("assign_nb_kernel", path=path, kernel_name="python3"),
                do("shutdown_nb_kernel", path=path),
                do("restart_nb_kernel", path=path, exec=False),
            )
            ran = await do("execute_nb_cells", path=path, cells="all")
            assert "42" in str(ran["execution_results"]), ran


@requirement("fuzz:kernel-changes")
async def test_callers_who_need_a_kernel_at_the_same_moment_get_the_same_one(
    agent: Callable[..., AbstractAsyncContextManager[Agent]], jupyter_server: JupyterServer, nb_folder: str
) -> None:
    path = f"{nb_folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["import os; print(os.getpid())"])
    async with agent() as do:
        runs = await asyncio.gather(*(do("execute_nb_cells", path=path, cells="all") for _ in range(6)))
    printed = {str(run["execution_results"][0]["outputs"]) for run in runs}
    assert len(printed) == 1, printed


@requirement("fuzz:below-a-file")
async def test_what_is_below_a_file_is_not_there(
    agent: Callable[..., AbstractAsyncContextManager[Agent]], jupyter_server: JupyterServer, nb_folder: str
) -> None:
    write_notebook(jupyter_server.root, f"{nb_folder}/n.ipynb", ["1"])
    async with agent() as do:
        for below in ("x.ipynb", "cells/c0/outputs/x.ipynb"):
            path = f"{nb_folder}/n.ipynb/{below}"
            for tool in ("read_nb_cells", "get_nb_stat"):
                error = await do.error(tool, path=path)
                assert (error["code"], error["retryable"]) == ("NOT_FOUND", False), error
            await do.refused_resource(f"jupyter://{path}")
        # A folder that does not exist, and a file that does, are told as before.
        assert (await do.error("get_nb_stat", path=f"{nb_folder}/none/x.ipynb"))["code"] == "NOT_FOUND"
        assert (await do("get_nb_stat", path=f"{nb_folder}/n.ipynb"))["path"] == f"{nb_folder}/n.ipynb"


@requirement("fuzz:below-a-file")
async def test_inside_jupyter_what_is_below_a_file_is_not_there_either(tmp_path: Path) -> None:
    (tmp_path / "n.ipynb").write_text("{}", encoding="utf-8")
    with pytest.raises(NotFound, match=r"no file n\.ipynb/x"):
        await ServerCalls("http://here").look("file n.ipynb/x", (tmp_path / "n.ipynb" / "x").stat)


@requirement("fuzz:brackets")
async def test_brackets_in_what_is_recorded_do_not_break_the_project_file(tmp_path: Path) -> None:
    snippets = [f"call f([{{ number {number}" for number in range(60)]
    with http_server(tmp_path, "--toolsets", "context") as server:
        async with agent_of(server) as do:
            for content in ("[" * 400, "{" * 400, *snippets):
                await do("context_record", type="pattern", content=content, module="m")
            await do("context_enrich", apply=True)
            assert "[" * 400 in (tmp_path / "root" / ".cellwright" / "project.yaml").read_text(encoding="utf-8")
            await do("context_scan")
            await do("context_record", type="rule", content="the file can still be changed", module="m")
            await do("context_enrich", apply=True)


@requirement("fuzz:brackets")
@pytest.mark.parametrize("deep", ["[" * 5_000, "{a: " * 5_000, "[\n " * 5_000, "[" * 101 + "]" * 101])
@pytest.mark.parametrize("before", ["", "b: it's\n", 'b: x, "\n', "b: '[['\n", "# '\n"])
def test_lists_that_are_really_nested_too_deep_are_refused_at_once(before: str, deep: str) -> None:
    with pytest.raises(BrokenProjectFile, match="100 deep"):
        parse(f"{before}a: {deep}\nc: 1 '", "project.yaml")


UNSHARED = (1 << 63, -(1 << 63) - 1, 10**30, "\ud800")
"""What makes the library of shared documents panic."""


@requirement("fuzz:not-shared")
async def test_what_no_shared_document_can_hold_is_refused(
    jupyter_server: JupyterServer, nb_folder: str, tmp_path: Path
) -> None:
    path = f"{nb_folder}/n.ipynb"
    write_notebook(jupyter_server.root, path, ["1"])
    with in_front_of(jupyter_server, tmp_path, "--toolsets", "all") as server:
        async with agent_of(server) as do:
            for number, content in enumerate(json.dumps(one) for odd in UNSHARED for one in spoilt_by(odd)):
                other = f"{nb_folder}/new-{number}.ipynb"
                for tool, named in (("overwrite_document", path), ("create_document", other)):
                    error = await do.error(tool, path=named, content=content)
                    assert error["code"] == "INVALID_ARGUMENT", (tool, content, error)
                error = await do.error("import_notebook", content=content, into=other)
                assert error["code"] in {"INVALID_ARGUMENT", "INVALID_FORMAT"}, (content, error)
            change = {"range": {"start": 0}, "metadata": {"a": [UNSHARED[0]]}}
            error = await do.error("modify_nb_cells", path=path, modifications=[change], exec=False)
            assert (error["code"], "too large" in error["message"]) == ("INVALID_ARGUMENT", True), error
            assert await do.sources(path) == ["1"]
    assert [one.name for one in (jupyter_server.root / nb_folder).glob("*.ipynb")] == ["n.ipynb"]


def spoilt_by(odd: object) -> list[JsonObject]:
    """Notebooks with this in their metadata, in that of a cell, and in an output."""
    cell: JsonObject = {"cell_type": "code", "id": "b", "metadata": {}, "source": "2", "execution_count": None}
    cell |= {"outputs": []}
    notebook: JsonObject = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    output = {"output_type": "display_data", "data": {"application/json": {"a": odd}}, "metadata": {}}
    return [
        {**notebook, "metadata": {"a": odd}},
        {**notebook, "cells": [{**cell, "metadata": {"tags": [odd]}}]},
        {**notebook, "cells": [{**cell, "outputs": [output]}]},
    ]


@requirement("fuzz:not-shared")
async def test_without_shared_documents_too_the_answer_says_what_a_file_holds(tmp_path: Path) -> None:
    with JupyterProcess(tmp_path / "jupyter", collaboration=False) as process:
        (process.root / "n.ipynb").write_text(json.dumps(spoilt_by(10**30)[1]), encoding="utf-8")
        (tmp_path / "ours").mkdir()
        with in_front_of(process.address, tmp_path / "ours") as server:
            async with agent_of(server) as do:
                error = await do.error("read_nb_cells", path="n.ipynb")
    assert (error["code"], "too large" in error["message"]) == ("INVALID_FORMAT", True), error


@requirement("fuzz:not-shared")
@pytest.mark.parametrize("digits", [19, 400, 5_000])
async def test_a_number_of_any_size_in_an_output_does_not_end_the_run(
    agent: Callable[..., AbstractAsyncContextManager[Agent]],
    person: PersonIn,
    jupyter_server: JupyterServer,
    nb_folder: str,
    digits: int,
) -> None:
    path = f"{nb_folder}/n.ipynb"
    shown = f"display({{'application/json': {{'a': 10**{digits}}}, 'text/plain': 'shown'}}, raw=True, metadata={{'b': 10**{digits}}})"
    allowed = "import sys; sys.set_int_max_str_digits(0)"
    write_notebook(jupyter_server.root, path, [f"{allowed}; {shown}; print('after')"])
    async with agent() as do:
        ran = await do("execute_nb_cells", path=path, cells="all")
        assert "after" in str(ran["execution_results"]), ran
        assert ran["execution_results"][0]["outputs"], ran
        again = await do("execute_nb_cells", path=path, cells="all")
        assert "after" in str(again["execution_results"]), again
        async with person(path) as them:
            await until(lambda: "after" in str(them.cells[0]["outputs"].to_py()), "the output in the notebook")


@requirement("fuzz:answers")
@pytest.mark.parametrize("version", [True, 1, 2, 3, 1.0])
@pytest.mark.parametrize("field", ["cells", "worksheets"])
def test_a_notebook_that_only_says_it_is_an_old_one_is_no_notebook(version: float, field: str) -> None:
    cell: dict[str, Any] = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "text"}
    old: dict[str, Any] = {"nbformat": version, "nbformat_minor": 5, "metadata": {}, field: [cell]}
    with pytest.raises(InvalidFormat, match="nbformat"):
        decode(json.dumps(old))
    assert "nbformat" in what_is_wrong(json.dumps(old))


@requirement("fuzz:answers")
@pytest.mark.parametrize("kind", [[], {}, [[0]], None, 5])
def test_whatever_stands_for_the_kind_of_a_cell_is_looked_at(kind: object) -> None:
    (cell,) = spoilt_by("x")[0]["cells"]
    with pytest.raises(InvalidArgument, match="not the JSON of a notebook"):
        notebook_json(json.dumps({"cells": [{**cell, "cell_type": kind}]}))


@requirement("costs:loop")
def test_the_folders_of_a_deep_path_cost_little() -> None:
    path: DocPath | None = DocPath("a/" * 1_990 + "n")
    began = time.process_time()
    folders = 0
    while path is not None:
        path = path.parent
        folders += 1
    assert folders == 1_991
    assert time.process_time() - began < 0.25
