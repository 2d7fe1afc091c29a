"""Searching everything through the real client: over stdio and HTTP, in front of a real Jupyter server, as several callers."""

import json
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cellwright.app.extension.reach import reach
from cellwright.app.http.tokens import TokenStore, parse_scopes
from cellwright.app.settings import Settings
from cellwright.app.workspace import local_user, make_workspace
from cellwright.core.types import Call
from jupyter_support import JupyterProcess, write_notebook
from local_support import server_in_loop
from notebook_agent import Agent, in_front_of
from requirements import requirement
from support import HttpServer, http_client, stdio_client

pytestmark = pytest.mark.anyio
TOOLSETS = "workspace,connector,scratch"
WAIT_SECONDS = 20.0


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Generator[JupyterProcess]:
    process = JupyterProcess(tmp_path_factory.mktemp("jupyter"), collaboration=False)
    write_notebook(process.root, "there/far away.ipynb", ["x = 1", "okapi = 'on the server'"])
    write_notebook(process.root, ".hidden/secret.ipynb", ["okapi"])
    with process:
        yield process


@pytest.fixture(scope="module")
def server(jupyter: JupyterProcess, tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    folder = tmp_path_factory.mktemp("found")
    (folder / "root").mkdir()
    (folder / "root" / "here.md").write_text("an okapi in a file", encoding="utf-8")
    write_notebook(folder / "root", "not-there.ipynb", ["okapi = 'not on the server'"])
    with in_front_of(jupyter.address, folder, "--toolsets", TOOLSETS, "--embedding-model", "none") as made:
        yield made


@asynccontextmanager
async def agent(server: HttpServer, name: str = "", mode: str = "auto") -> AsyncGenerator[Agent]:
    """A client with the server's own token, or as somebody else who may read and write."""
    if name:
        store = TokenStore(server.log.parent / "state")
        server = replace(server, token=store.create(f"{name}-{mode}", parse_scopes("read,write"))[1].reveal())
    async with http_client(server, mode) as client:
        yield Agent(client)


async def found(agent: Agent, query: str) -> dict[str, Any]:
    """The results by title, once everything is indexed."""
    end = time.monotonic() + WAIT_SECONDS
    while "indexing" in (answer := await agent("search_workspace", query=query)):
        assert time.monotonic() < end, answer
        assert "problems" not in answer["indexing"], answer
    return {one["title"]: one for one in answer["results"]}


@requirement("finding:index:contents")
async def test_notebooks_of_another_server_are_found_by_its_paths(server: HttpServer, jupyter: JupyterProcess) -> None:
    async with agent(server) as anyone:
        results = await found(anyone, "okapi")
        assert results.keys() == {"there/far away.ipynb", "here.md"}
        uri = results["there/far away.ipynb"]["uri"]
        assert uri == "jupyter://there/far%20away.ipynb/cells/c1"
        assert (await anyone.resource(uri)).text == "okapi = 'on the server'"
        write_notebook(jupyter.root, "there/new.ipynb", ["an okapi came"])
        end = time.monotonic() + WAIT_SECONDS
        while "there/new.ipynb" not in await found(anyone, "okapi"):
            assert time.monotonic() < end, "the new notebook is not found"
        (jupyter.root / "there" / "new.ipynb").unlink()
        while "there/new.ipynb" in await found(anyone, "okapi"):
            assert time.monotonic() < end, "the deleted notebook is found"


@requirement("finding:connector")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_connector_answers_as_chat_applications_expect(server: HttpServer, mode: str) -> None:
    async with agent(server, "chat", mode) as chat:
        await chat("scratch_create", metadata={"title": "An okapi"}, cells=[{"language": "md", "content": "striped"}])
        await found(chat, "okapi")
        answer = await chat.whole("search", query="okapi")
        (text,) = answer.content
        assert json.loads(text.text) == answer.structured_content
        results = answer.structured_content["results"]
        assert all(one.keys() == {"id", "title", "url"} for one in results)
        assert {one["title"] for one in results} == {"there/far away.ipynb", "here.md", "An okapi"}
        for one in results:
            document = await chat.whole("fetch", id=one["id"])
            (text,) = document.content
            assert json.loads(text.text) == document.structured_content
            assert document.structured_content.keys() == {"id", "title", "text", "url", "metadata"}
            assert ("striped" if one["title"] == "An okapi" else "okapi") in document.structured_content["text"]
    async with agent(server, "other", mode) as other:
        assert "An okapi" not in await found(other, "okapi")
        pad = next(one["id"] for one in results if one["title"] == "An okapi")
        assert (await other.error("fetch", id=pad))["code"] == "NOT_FOUND"


@requirement("finding:search:everything", "finding:connector")
async def test_it_works_over_stdio(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "here.md").write_text("a tapir in a file\n" + "word " * 40_000, encoding="utf-8")
    async with stdio_client(tmp_path, "--toolsets", "default,connector", "--embedding-model", "none") as client:
        local = Agent(client)
        assert (await found(local, "tapir")).keys() == {"here.md"}
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        for name in ("search", "fetch", "search_workspace"):
            annotations = tools[name].annotations
            assert annotations is not None
            assert annotations.read_only_hint
        (one,) = (await local("search", query="tapir"))["results"]
        document = await local("fetch", id=one["id"])
        assert document["text"].startswith("a tapir in a file")
        assert len(document["text"]) < 100_000


@requirement("finding:index:folder")
async def test_a_server_that_serves_a_folder_above_names_notebooks_its_way(
    jupyter: JupyterProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(jupyter.home / "runtime_dir"))
    below = jupyter.root / "below"
    write_notebook(below, "mine.ipynb", ["x = 1", "a quokka"])
    settings = Settings(root=below, state_dir=tmp_path / "state", embedding_model="none")
    workspace = make_workspace(settings, "stdio")
    call = Call(local_user())
    try:
        (one,) = (await workspace.finder.search(call, "quokka", (), 10)).results
        assert (one.uri, one.path) == ("jupyter://below/mine.ipynb/cells/c1", "below/mine.ipynb")
        provider = next(provider for provider in workspace.resources if provider.scheme == "jupyter")
        (content,) = await provider.read(call, one.uri)
        assert content.body == "a quokka"
    finally:
        await workspace.close()
        (below / "mine.ipynb").unlink()


@requirement("finding:index:contents")
async def test_inside_jupyter_server_its_own_contents_are_asked(tmp_path: Path) -> None:
    async with server_in_loop(tmp_path / "jupyter", collaboration=False) as server:
        root = Path(str(server.root_dir))
        write_notebook(root, "inside/book.ipynb", ["x = 1", "a numbat"])
        (root / "notes.md").write_text("a numbat in a file", encoding="utf-8")
        settings = Settings(root=root, state_dir=tmp_path / "state", embedding_model="none")
        workspace = make_workspace(settings, "extension", (), reach(server, settings))
        try:
            answer = await workspace.finder.search(Call(local_user()), "numbat", (), 10)
            assert answer.indexing.problems == ()
            found = {one.title: one.uri for one in answer.results}
            book, notes = "jupyter://inside/book.ipynb/cells/c1", "context://file/notes.md?start=1"
            assert found == {"inside/book.ipynb": book, "notes.md": notes}
        finally:
            await workspace.close()
