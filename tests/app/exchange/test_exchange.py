"""export_notebook and import_notebook, through the official client, a real server and a real Jupyter."""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from pycrdt import Map, Text

from cellwright.app.http.tokens import TokenStore, parse_scopes
from cellwright.app.protocol.results import TRUNCATED
from cellwright.core.text.budget import estimate_tokens
from cellwright.notebook.formats import ipynb, md, native, srcmd
from jupyter_support import JupyterProcess, JupyterServer, person_in, write_notebook
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import PATIENT_SECONDS, HttpServer, http_client

pytestmark = pytest.mark.anyio

FLAGS = ("--toolsets", "default,scratch,scratch_plus,thinking", "--embedding-model", "none")
OUTPUT = {"output_type": "stream", "name": "stdout", "text": "\x1b[31mred\x1b[0m\u200b\n"}
INTRO = "# Tides\n\n![p](attachment:a.png)"
HALF = r'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "raw", "metadata": {}, "source": "\ud800"}]}'
PICTURE = {"a.png": {"image/png": "iVBORw0KGgo="}}


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Generator[JupyterServer]:
    with JupyterProcess(tmp_path_factory.mktemp("exchange-jupyter")) as process:
        yield process.address


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exchange")


@pytest.fixture(scope="module")
def tokens(home: Path) -> dict[str, str]:
    """Ann may only read; Bob may write too."""
    store = TokenStore(home / "state")
    scopes = {"ann": "read", "bob": "read,write"}
    return {name: store.create(name, parse_scopes(scope), None)[1].reveal() for name, scope in scopes.items()}


@pytest.fixture(scope="module")
def server(jupyter: JupyterServer, home: Path, tokens: dict[str, str]) -> Generator[HttpServer]:
    assert tokens
    with in_front_of(jupyter, home, *FLAGS) as started:
        yield started


@pytest.fixture
async def agent(server: HttpServer) -> AsyncGenerator[Agent]:
    async with agent_of(server) as agent:
        yield agent


def rich_notebook(jupyter: JupyterServer, path: str) -> None:
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": INTRO, "attachments": PICTURE},
        {"cell_type": "code", "id": "work", "metadata": {"tags": ["keep"]}, "source": "print(1)", "outputs": [OUTPUT],
         "execution_count": 3},
        {"cell_type": "raw", "id": "rest", "metadata": {}, "source": "raw"},
    ]  # fmt: skip
    write_notebook(jupyter.root, path, [], cells=cells, metadata={"mood": "calm", "language_info": {"name": "python"}})


@requirement("exchange:sources")
async def test_a_live_notebook_is_exported_as_people_see_it_now(agent: Agent, jupyter: JupyterServer) -> None:
    write_notebook(jupyter.root, "live.ipynb", ["x = 1"])
    async with person_in(jupyter, "live.ipynb") as person:
        person.text_of(0).insert(0, "typed = 2\n")
        await person.settle()
        for source in ("live.ipynb", "jupyter://live.ipynb"):
            made = await agent("export_notebook", source=source, to="md")
            assert "typed = 2\nx = 1" in made["text"]
            assert (made["source"], made["cells"], made["next"]) == ("jupyter://live.ipynb", 1, None)


@requirement("exchange:sources")
async def test_what_is_no_cell_spoils_only_itself(agent: Agent, jupyter: JupyterServer) -> None:
    write_notebook(jupyter.root, "odd.ipynb", ["x = 1"])
    async with person_in(jupyter, "odd.ipynb") as person:
        cast("Any", person.cells).append("junk")
        person.cells.append(Map({"cell_type": "strange", "source": Text("y"), "id": "s"}))
        await person.settle()
        made = await agent("export_notebook", source="odd.ipynb", to="json")
        notebook = native.decode(made["text"])
        assert notebook.cells[0].source == "x = 1"
        assert [cell.kind.value for cell in notebook.cells] == ["code", "raw", "raw"]
        assert made["losses"] == ["cell 2 is no proper cell; it is taken as raw text"]
        # What no server can save must not stay.
        del person.cells[1:]
        await person.settle()


@requirement("exchange:sources")
async def test_every_source_in_every_format(agent: Agent, jupyter: JupyterServer) -> None:
    rich_notebook(jupyter, "rich.ipynb")
    pad = (await agent("import_notebook", source="rich.ipynb", into="scratchpad://rich"))["uri"]
    thought = (await agent("import_notebook", source="rich.ipynb", into="notebook://"))["uri"]
    for name in ("rich.md", "rich.src.md", "rich.json"):
        await agent("import_notebook", source="rich.ipynb", into=name)
    short = f"notebook://{thought.rpartition('/')[2]}"
    for source in ("rich.ipynb", pad, thought, short, "rich.md", "rich.src.md", "rich.json"):
        for name, form in {"ipynb": ipynb, "json": native, "srcmd": srcmd, "md": md}.items():
            made = await agent("export_notebook", source=source, to=name)
            notebook = form.decode(made["text"])
            assert "print(1)" in [cell.source for cell in notebook.cells], (source, name)
            assert isinstance(made["losses"], list)
            assert notebook.title == made["title"] == "Tides"
        page = await agent("export_notebook", source=source, to="html")
        assert page["text"].startswith("<!doctype html>")
        assert page["mimeType"] == "text/html"
        assert "cannot be imported again" in page["losses"][-1]
    current = await agent("export_notebook", source="notebook://current", to="json")
    assert current["source"] == thought
    template = await agent("export_notebook", source="notebook://templates/mcts")
    assert template["text"].startswith("<!-- srcbook:")


@requirement("exchange:clean")
async def test_a_text_is_clean_and_a_place_gets_everything(agent: Agent, jupyter: JupyterServer) -> None:
    rich_notebook(jupyter, "clean.ipynb")
    made = await agent("export_notebook", source="clean.ipynb", to="json")
    assert native.decode(made["text"]).cells[1].outputs[0]["text"] == "red\n"
    (loss,) = made["losses"]
    assert "of 1 cell are not in this text (1 hidden character)" in loss
    copied = await agent("import_notebook", source="clean.ipynb", into="clean copy.ipynb")
    assert copied["losses"] == copied["notes"] == []
    assert copied["uri"] == "jupyter://clean%20copy.ipynb"
    original, copy = (
        json.loads((jupyter.root / name).read_text(encoding="utf-8")) for name in ("clean.ipynb", "clean copy.ipynb")
    )
    assert copy["cells"][1]["outputs"][0]["text"] == [OUTPUT["text"]]
    for before, after in zip(original["cells"], copy["cells"], strict=True):
        kept = {key: value for key, value in before.items() if key not in ("outputs", "source")}
        assert {key: after[key] for key in kept} == kept
    assert copy["metadata"]["mood"] == "calm"


@requirement("exchange:import")
async def test_what_a_place_cannot_hold_is_named(agent: Agent, jupyter: JupyterServer) -> None:
    rich_notebook(jupyter, "named.ipynb")
    pad = await agent("import_notebook", source="named.ipynb", into="scratchpad://named")
    assert pad["losses"] == [
        "a pad does not keep the outputs of 1 cell",
        "a pad does not keep the execution counts of 1 cell",
        "a pad does not keep the metadata of 1 cell",
    ]
    shown = (await agent("scratch_read", scratch_id="named"))["scratchpad"]
    assert [(cell["cell_id"], cell["language"]) for cell in shown["cells"]] == [
        ("intro", "md"),
        ("work", "python"),
        ("rest", "txt"),
    ]
    assert shown["cells"][1]["tags"] == ["keep"]
    thought = await agent("import_notebook", source="named.ipynb", into="notebook://")
    assert thought["losses"] == []
    file = await agent("import_notebook", source=thought["uri"], into="named.src.md")
    assert "the outputs of 1 cell are not in srcmd" in file["losses"]
    assert srcmd.decode((jupyter.root / "named.src.md").read_text(encoding="utf-8")).title == "Tides"


@requirement("exchange:import")
async def test_text_becomes_whatever_is_wanted(agent: Agent, jupyter: JupyterServer) -> None:
    text = "# Plan\n\nFirst.\n\n```python\nx = 1\n```\n\n```output\n1\n```\n"
    made = await agent("import_notebook", content=text, into="plan.ipynb")
    assert (made["title"], made["cells"]) == ("Plan", 2)
    assert made["losses"] == ["left out of the text: 1 output block, because nothing was run here"]
    assert await agent.sources("plan.ipynb") == ["# Plan\n\nFirst.", "x = 1"]
    page = await agent("import_notebook", content=text, format="md", into="plan.html")
    assert page["path"] == "plan.html"
    assert (jupyter.root / "plan.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    pad = await agent("import_notebook", content=native.encode(md.decode(text)).text, into="scratchpad://")
    assert (await agent.resource(pad["uri"])).mime_type == "application/json"


@requirement("exchange:overwrite")
@pytest.mark.parametrize("into", ["race.ipynb", "race.md", "scratchpad://race"])
async def test_of_many_who_write_to_a_new_place_at_once_one_does(agent: Agent, into: str) -> None:
    async def write(number: int) -> int | None:
        result = await agent.client.call_tool("import_notebook", {"content": f"# T\n\nby {number}", "into": into})
        return None if result.is_error else number

    wrote = [number for number in await asyncio.gather(*map(write, range(6))) if number is not None]
    assert len(wrote) == 1, "the others were told that there is something already"
    assert f"by {wrote[0]}\n" in (await agent("export_notebook", source=into, to="md"))["text"]


@requirement("exchange:overwrite")
async def test_nothing_is_overwritten_unless_told(agent: Agent, jupyter: JupyterServer) -> None:
    write_notebook(jupyter.root, "mine.ipynb", ["a", "b", "c"])
    (jupyter.root / "mine.md").write_text("mine", encoding="utf-8")
    await agent("import_notebook", content="# P\n\none", into="scratchpad://mine")
    for into in ("mine.ipynb", "mine.md", "scratchpad://mine"):
        error = await agent.error("import_notebook", content="# T\n\nnew", into=into)
        assert error["code"] == "CONFLICT"
        assert "overwrite: true" in error["hint"]
    assert (jupyter.root / "mine.md").read_text(encoding="utf-8") == "mine"
    for into in ("mine.md", "scratchpad://mine"):
        await agent("import_notebook", content="# T\n\nnew", into=into, overwrite=True)
        assert "new" in (await agent("export_notebook", source=into, to="md"))["text"]


@requirement("exchange:overwrite")
async def test_people_in_the_notebook_see_it_change_and_it_can_be_taken_back(
    agent: Agent, jupyter: JupyterServer
) -> None:
    write_notebook(jupyter.root, "shared.ipynb", ["same", "old", "older"])
    async with person_in(jupyter, "shared.ipynb") as person:
        first = person.cells[0]
        wanted = json.loads((jupyter.root / "shared.ipynb").read_text(encoding="utf-8"))
        wanted["cells"] = [wanted["cells"][0], {**wanted["cells"][1], "id": "fresh", "source": "new"}]
        done = await agent("import_notebook", content=json.dumps(wanted), into="shared.ipynb", overwrite=True)
        assert done["notes"] == ["3 cells went, came or changed; undo_nb_edit takes it back"]
        await person.settle()
        assert person.sources == ["same", "new"]
        assert str(first["source"]) == "same"
        again = await agent("import_notebook", content=json.dumps(wanted), into="shared.ipynb", overwrite=True)
        assert again["notes"] == []
        await agent("undo_nb_edit", path="shared.ipynb")
        await person.settle()
        assert person.sources == ["same", "old", "older"]


@requirement("exchange:pages")
async def test_a_long_notebook_comes_in_pages(agent: Agent, jupyter: JupyterServer) -> None:
    sources = [f"# cell {number}\nprint({'x' * 300!r})" for number in range(80)]
    write_notebook(jupyter.root, "long.ipynb", sources)
    parts: list[str] = []
    characters = 0
    offset: int | None = 0
    while offset is not None:
        result = await agent.whole("export_notebook", source="long.ipynb", to="json", offset=offset, max_tokens=2_000)
        page = result.structured_content
        assert estimate_tokens(result.content[0].text) < 4_000
        assert TRUNCATED not in result.meta
        parts.append(page["text"])
        offset, characters = page["next"], page["characters"]
    assert len(parts) > 2
    assert len("".join(parts)) == characters
    assert [cell.source for cell in native.decode("".join(parts)).cells] == sources
    error = await agent.error("export_notebook", source="long.ipynb", to="json", offset=10_000_000)
    assert "no position" in error["message"]


@requirement("exchange:pages")
async def test_a_long_title_costs_nothing_of_the_text(agent: Agent, jupyter: JupyterServer) -> None:
    title: dict[str, Any] = {"cell_type": "markdown", "id": "t", "metadata": {}, "source": f"# {'T' * 30_000}"}
    named: dict[str, Any] = {"cell_type": "raw", "id": "n", "metadata": {"filename": "n" * 9_000}, "source": "x"}
    write_notebook(jupyter.root, "titled.ipynb", [], cells=[title, named])
    parts: list[str] = []
    characters = 0
    offset: int | None = 0
    while offset is not None:
        result = await agent.whole("export_notebook", source="titled.ipynb", offset=offset)
        assert TRUNCATED not in result.meta
        page = result.structured_content
        parts.append(page["text"])
        offset, characters = page["next"], page["characters"]
    assert len("".join(parts)) == characters > 30_000
    assert "T" * 30_000 in "".join(parts)


@requirement("exchange:part")
async def test_nothing_is_written_to_a_part_of_a_pad(agent: Agent) -> None:
    await agent("import_notebook", content="# Kept\n\nwhole", into="scratchpad://kept")
    before = await agent("export_notebook", source="scratchpad://kept", to="md")
    for part in ("cells/c1", "md"):
        error = await agent.error("import_notebook", content="# New", into=f"scratchpad://kept/{part}", overwrite=True)
        assert error["code"] == "INVALID_ARGUMENT"
    assert (await agent("export_notebook", source="scratchpad://kept", to="md")) == before
    assert (await agent("export_notebook", source="scratchpad://kept/md", to="md")) == before


@requirement("exchange:refused")
@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("export_notebook", {"source": "none.ipynb"}, "NOT_FOUND"),
        ("export_notebook", {"source": "scratchpad://none"}, "NOT_FOUND"),
        ("export_notebook", {"source": "notebook://nb-00000000000000000000"}, "NOT_FOUND"),
        ("export_notebook", {"source": "notebook://templates/none"}, "INVALID_ARGUMENT"),
        ("export_notebook", {"source": "http://x.test/a.ipynb"}, "INVALID_ARGUMENT"),
        ("export_notebook", {"source": "../a.ipynb"}, "INVALID_ARGUMENT"),
        ("export_notebook", {"source": ".hidden/a.ipynb"}, "INVALID_ARGUMENT"),
        ("export_notebook", {"source": "jupyter://%ff.ipynb"}, "INVALID_ARGUMENT"),
        ("export_notebook", {"source": "program.py"}, "INVALID_ARGUMENT"),
        ("export_notebook", {"source": ""}, "INVALID_ARGUMENT"),
        ("import_notebook", {"into": "a.ipynb"}, "INVALID_ARGUMENT"),
        ("import_notebook", {"into": "a.ipynb", "source": "b.ipynb", "content": "x"}, "INVALID_ARGUMENT"),
        ("import_notebook", {"into": "a.py", "content": "x"}, "INVALID_ARGUMENT"),
        ("import_notebook", {"into": "notebook://nb-00000000000000000000", "content": "x"}, "INVALID_ARGUMENT"),
        ("import_notebook", {"into": "scratchpad://not an id", "content": "x"}, "INVALID_ID"),
        ("import_notebook", {"into": "scratchpad:///a", "content": "x"}, "INVALID_ARGUMENT"),
        ("import_notebook", {"into": "a.ipynb", "content": "{", "format": "json"}, "INVALID_FORMAT"),
        ("import_notebook", {"into": "a.ipynb", "content": "x", "format": "html"}, "INVALID_FORMAT"),
        ("import_notebook", {"into": ".a.ipynb", "content": "x"}, "INVALID_ARGUMENT"),
        ("import_notebook", {"into": "a.html", "content": HALF}, "INVALID_FORMAT"),
        ("import_notebook", {"into": "a.ipynb", "content": HALF}, "INVALID_FORMAT"),
    ],
)  # fmt: skip
async def test_what_is_no_notebook_is_refused(
    agent: Agent, jupyter: JupyterServer, tool: str, arguments: dict[str, Any], code: str
) -> None:
    error = await agent.error(tool, **arguments)
    assert error["code"] == code
    assert error["hint"]
    assert not (jupyter.root / "a.ipynb").exists()


@requirement("exchange:scopes", "exchange:owner")
async def test_a_reader_exports_and_does_not_write_and_sees_only_their_own(
    server: HttpServer, jupyter: JupyterServer, tokens: dict[str, str]
) -> None:
    headers = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
    write_notebook(jupyter.root, "scopes.ipynb", ["x"])
    async with http_client(server, headers=headers["bob"]) as client:
        bob = Agent(client)
        pad = await bob("import_notebook", content="# B\n\nsecret", into="scratchpad://bobs")
        thought = await bob("import_notebook", content="# B\n\nsecret", into="notebook://")
    async with http_client(server, headers=headers["ann"]) as client:
        ann = Agent(client)
        assert (await ann("export_notebook", source="scopes.ipynb"))["cells"] == 1
        assert "import_notebook" not in {tool.name for tool in (await client.list_tools()).tools}
        for theirs, never in (
            (pad["uri"], "scratchpad://nope"),
            (thought["uri"], "notebook://nb-00000000000000000000"),
        ):
            errors = [await ann.error("export_notebook", source=one) for one in (theirs, never)]
            assert errors[0]["code"] == errors[1]["code"] == "NOT_FOUND"
            assert errors[0]["message"].replace("bobs", "nope") == errors[1]["message"]
    answer = httpx2.post(
        server.url,
        headers={
            **headers["ann"],
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25",
        },
        json={
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "import_notebook", "arguments": {"content": "x", "into": "refused.ipynb"}},
        },
        timeout=PATIENT_SECONDS,
    )
    assert answer.status_code == 403
    assert not (jupyter.root / "refused.ipynb").exists()


@requirement("exchange:losses:markdown")
async def test_markdown_says_what_it_shows_and_what_does_not_come_back(agent: Agent, jupyter: JupyterServer) -> None:
    del jupyter
    cells = [
        {"content": "# Tides", "type": "markdown"},
        {"content": "High and low.", "type": "markdown"},
        {"content": "print(1)"},
    ]
    await agent("create_nb", path="tides.ipynb", cells=cells)
    await agent("execute_nb_cells", path="tides.ipynb", cells="all")
    made = await agent("export_notebook", source="tides.ipynb", to="md")
    assert made["text"] == "# Tides\n\nHigh and low.\n\n```python\nprint(1)\n```\n\n```output\n1\n```\n"
    losses = [loss for loss in made["losses"] if "notebook's metadata" not in loss]
    assert losses == [
        "cell 1: joined to the text before when md is read back",
        "the outputs of 1 cell are text in md, and are left out when that is read back",
        "md makes 2 cells of 3",
        "md does not keep the ids of 3 cells",
        "md does not keep the execution counts of 1 cell",
    ]
    await agent("import_notebook", content=made["text"], into="tides again.ipynb")
    assert await agent.sources("tides again.ipynb") == ["# Tides\n\nHigh and low.", "print(1)"]


SRCBOOK = '<!-- srcbook:{"language":"typescript"} -->\n\n# Folder\n\n###### package.json\n\n[package.json](./package.json)\n\n'


def notebook_with(rest: str) -> str:
    return SRCBOOK + rest


@requirement("formats:srcmd:folder", "formats:pad:language")
async def test_a_srcbook_folder_becomes_a_pad_and_a_file_again(agent: Agent, jupyter: JupyterServer) -> None:
    notebook = jupyter.root / "book"
    (notebook / "src").mkdir(parents=True)
    (notebook / "package.json").write_text('{"type": "module"}\n', encoding="utf-8")
    (notebook / "src" / "a.ts").write_text("const a = 1\n", encoding="utf-8")
    (notebook / "README.md").write_text(notebook_with("###### a.ts\n\n[a.ts](./src/a.ts)\n"), encoding="utf-8")
    (jupyter.root / "secret.ts").write_text("outside", encoding="utf-8")
    made = await agent("import_notebook", source="book/README.md", into="scratchpad://srcbook")
    assert made["losses"] == []
    told = await agent("export_notebook", source="scratchpad://srcbook", to="srcmd")
    again = srcmd.decode(told["text"])
    assert again.language == "typescript"
    assert [(cell.filename, cell.source) for cell in again.cells] == [
        ("package.json", '{"type": "module"}'),
        ("a.ts", "const a = 1"),
    ]
    assert not any("metadata" in loss for loss in told["losses"])
    await agent("import_notebook", content=notebook_with("").replace("[package.json](./package.json)", "```json\n{}\n```"),
                   into="scratchpad://only-package")  # fmt: skip
    alone = await agent("export_notebook", source="scratchpad://only-package", to="srcmd")
    assert srcmd.decode(alone["text"]).language == "typescript"
    (notebook / "outside.md").write_text(notebook_with("###### b.ts\n\n[b.ts](../secret.ts)\n"), encoding="utf-8")
    refused = await agent.error("export_notebook", source="book/outside.md")
    assert refused["code"] == "INVALID_FORMAT"
    assert "not in its folder" in refused["message"]
