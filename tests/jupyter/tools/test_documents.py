"""The document tools through a real client, a real server of ours, a real Jupyter and a person in the same document."""

import asyncio
import base64
import json
import os
import secrets
import time
import unicodedata
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pytest
from mcp import Client
from playwright.async_api import Page, async_playwright, expect

from browser import FLAGS, chromium
from cellwright.app.settings import Settings
from cellwright.app.workspace import local_user, make_workspace
from cellwright.core.errors import InvalidArgument
from cellwright.core.text.budget import MAX_TOKENS, estimate_tokens
from cellwright.core.types import Call, Principal, Scope, Secret
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.jupyter.server.connect import to_named
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.documents.common import DocumentFiles
from cellwright.jupyter.tools.documents.files import list_documents
from cellwright.jupyter.tools.documents.toolset import get_document_content, insert_document_text
from jupyter_support import JupyterProcess, JupyterServer, PersonIn, eventually, person_in, write_notebook
from notebook_agent import Agent, agent_of, in_front_of
from requirements import requirement
from support import HttpServer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

TOOLS = ("--toolsets", "notebooks,documents,sessions,kernels")
# One code point each where one thinks of one: astral, combining, joined, flag, CJK.
TEXT = "Grüße 😀 e\u0301 👩\u200d🚀 🇩🇪 語\nzweite Zeile\n"
AUTOSAVE_SECONDS = 2.5
"""Longer than Jupyter waits before it writes a changed document."""
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Connect(Protocol):
    def __call__(self) -> AbstractAsyncContextManager[Agent]: ...


@pytest.fixture(scope="module")
def ours(jupyter_server: JupyterServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    with in_front_of(jupyter_server, tmp_path_factory.mktemp("ours"), *TOOLS) as server:
        yield server


@pytest.fixture
def agent(ours: HttpServer) -> Connect:
    @asynccontextmanager
    async def connect() -> AsyncGenerator[Agent]:
        async with agent_of(ours) as one:
            yield one

    return connect


@asynccontextmanager
async def agent_inside(jupyter: JupyterServer, root: Path) -> AsyncGenerator[Agent]:
    """An agent in front of another Jupyter, without a process of its own."""
    settings = Settings(
        root=root,
        jupyter_url=jupyter.url,
        jupyter_token=Secret(jupyter.token),
        toolsets=("documents", "sessions"),
        agent_name="Robin the Agent",
    )
    workspace = make_workspace(settings, "stdio")
    try:
        async with Client(workspace.server(local_user()), cache=None) as client:
            yield Agent(client)
    finally:
        await workspace.close()


@pytest.fixture
def place(jupyter_server: JupyterServer, folder: str) -> Path:
    """The folder of this test on disk."""
    return jupyter_server.root / folder


async def content(do: Agent, path: str) -> str:
    return (await do("get_document_content", path=path))["content"]


async def insert_before_nine(do: Agent, path: str, text: str) -> None:
    """As an agent does while somebody types: with the revision that it read, and again if the person was quicker."""
    async with asyncio.timeout(60):
        while True:
            seen = await do("get_document_content", path=path)
            place = {"position": seen["content"].index("9"), "expect": seen["revision"]}
            result = await do.whole("insert_document_text", path=path, text=text, **place)
            if not result.is_error:
                return
            assert result.structured_content["error"]["code"] == "CONFLICT"


def names_in(place: Path) -> list[str]:
    """What is in a folder, apart from the server's own checkpoints."""
    return sorted(file.name for file in place.iterdir() if not file.name.startswith("."))


def all_below(place: Path) -> list[str]:
    return sorted(file.as_posix() for file in place.rglob("*"))


# -- text --------------------------------------------------------------------------------------------------------------------


@requirement("doc:read", "doc:edit:shared")
async def test_both_see_what_the_other_wrote(agent: Connect, place: Path, folder: str, person: PersonIn) -> None:
    path = f"{folder}/notes é.md"
    (place / "notes é.md").write_text(TEXT, encoding="utf-8")
    async with agent() as do, person(path, "file") as them:
        them.document.insert(0, "typed ")
        await them.settle()
        seen = await do("get_document_content", path=f"/{path}")
        assert seen["content"] == "typed " + TEXT
        assert (seen["truncated"], seen["omitted"], seen["live"]) == (False, None, True)
        assert seen["content_length"] == len("typed " + TEXT)
        assert "unseen_characters" not in seen
        await do("insert_document_text", path=path, position=-1, text="by the agent")
        await eventually(lambda: str(them.document) == "typed " + TEXT + "by the agent", "the agent's edit")


@requirement("doc:edit:positions")
async def test_positions_are_code_points(agent: Connect, place: Path, folder: str, person: PersonIn) -> None:
    path = f"{folder}/p.txt"
    (place / "p.txt").write_text(TEXT, encoding="utf-8")
    model = TEXT
    async with agent() as do, person(path, "file") as them:
        for at in (model.index("😀"), model.index("\u0301") + 1, model.index("🚀"), model.index("語") + 1, 0):
            made = await do("insert_document_text", path=path, position=at, text="✂😀")
            assert made["message"] == f"Inserted 2 characters at position {at}"
            assert (made["position"], made["length"], made["content_length"]) == (at, 2, len(model) + 2)
            model = model[:at] + "✂😀" + model[at:]
        at = model.index("🇩🇪")
        replaced = await do("replace_document_text", path=path, position=at, length=2, text="DE")
        assert (replaced["length"], replaced["new_length"]) == (2, 2)
        model = model.replace("🇩🇪", "DE")
        deleted = await do("delete_document_text", path=path, position=model.index("zweite"), length=7)
        assert deleted["message"] == f"Deleted 7 characters from position {model.index('zweite')}"
        model = model.replace("zweite ", "")
        await eventually(lambda: str(them.document) == model, "the same text")
        assert await content(do, path) == model


async def rewritten(do: Agent, path: str, old: str, new: str) -> None:
    """Overwrite as an agent does it: with the revision that was read, again if a person was quicker."""
    for _ in range(100):
        seen = await do("get_document_content", path=path)
        result = await do.whole(
            "overwrite_document", path=path, content=seen["content"].replace(old, new), expect=seen["revision"]
        )
        if not result.is_error:
            return
        assert result.structured_content["error"]["code"] == "CONFLICT"
    raise AssertionError("never in time")


@requirement("doc:edit:shared", "doc:overwrite")
async def test_a_person_who_types_meanwhile_loses_nothing(
    agent: Connect, place: Path, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/t.py"
    (place / "t.py").write_text("alpha = 1\nbeta = 2\ngamma = 3\n", encoding="utf-8")
    async with agent() as do, person(path, "file") as them:

        async def type_at_the_end() -> None:
            for key in "# typed by a person":
                them.document.insert(len(them.document), key)
                await asyncio.sleep(0.01)

        typing = asyncio.create_task(type_at_the_end())
        for number in range(10):
            await do("insert_document_text", path=path, position=0, text=f"{number};")
            await rewritten(do, path, "beta", "BETA") if number == 5 else None
        await typing
        expected = "9;8;7;6;5;4;3;2;1;0;alpha = 1\nBETA = 2\ngamma = 3\n# typed by a person"
        await eventually(lambda: str(them.document) == expected, "all that both wrote")
        assert await content(do, path) == expected


@requirement("doc:overwrite")
async def test_overwriting_changes_only_what_differs(
    agent: Connect, place: Path, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/o.txt"
    (place / "o.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    async with agent() as do, person(path, "file") as them:
        changes: list[Any] = []
        text = them.document
        subscription = text.observe(lambda event: changes.append(event.delta))
        made = await do("overwrite_document", path=path, content="one\n2\nthree\n")
        assert (made["path"], made["content_length"], made["live"]) == (path, 12, True)
        await eventually(lambda: bool(changes), "the agent's edit")
        text.unobserve(subscription)
        touched = [part for delta in changes for part in delta if "retain" not in part]
        assert sorted(touched, key=str) == [{"delete": 3}, {"insert": "2"}]
        missing = await do.error("overwrite_document", path=f"{folder}/none.txt", content="x")
        assert missing["code"] == "NOT_FOUND"
        assert not (place / "none.txt").exists()


@requirement("doc:edit:expect")
async def test_an_outdated_revision_is_refused(agent: Connect, place: Path, folder: str, person: PersonIn) -> None:
    path = f"{folder}/e.md"
    (place / "e.md").write_text("text", encoding="utf-8")
    async with agent() as do, person(path, "file") as them:
        seen = (await do("get_document_content", path=path))["revision"]
        them.document.insert(0, "new ")
        await them.settle()
        edits: tuple[tuple[str, dict[str, Any]], ...] = (
            ("insert_document_text", {"position": 0, "text": "x"}),
            ("delete_document_text", {"position": 0, "length": 1}),
            ("replace_document_text", {"position": 0, "length": 1, "text": "x"}),
            ("overwrite_document", {"content": "x"}),
        )
        for tool, more in edits:
            refused = await do.error(tool, path=path, expect=seen, **more)
            assert (refused["code"], "diff" in refused["details"]) == ("CONFLICT", True)
        assert await content(do, path) == "new text"
        revision = (await do("get_document_content", path=path))["revision"]
        for tool, more in edits:
            made = await do(tool, path=path, expect=revision, **more)
            assert made["live"] is True
            assert made["saved"] in (True, False)
            revision = made["revision"]
        assert await content(do, path) == "x"
        assert (await do("get_document_content", path=path))["revision"] == revision


@requirement("doc:edit:wrong-span")
async def test_a_wrong_span_or_argument_changes_nothing(agent: Connect, place: Path, folder: str) -> None:
    path = f"{folder}/w.md"
    (place / "w.md").write_text("12345", encoding="utf-8")
    wrong: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("insert_document_text", {"position": 6, "text": "x"}, "5 characters"),
        ("insert_document_text", {"position": -2, "text": "x"}, "position"),
        ("delete_document_text", {"position": 3, "length": 3}, "5 characters"),
        ("delete_document_text", {"position": 0, "length": -1}, "length"),
        ("replace_document_text", {"position": True, "length": 0, "text": "x"}, "position"),
        ("get_document_content", {"position": 6}, "5 characters"),
        ("get_document_content", {"max_content": 0}, "max_content"),
        ("insert_document_text", {"position": 0, "txt": "x"}, "txt"),
    )
    async with agent() as do:
        for tool, more, said in wrong:
            refused = await do.error(tool, path=path, **more)
            assert refused["code"] == "INVALID_ARGUMENT"
            assert said in refused["message"], refused
        assert await content(do, path) == "12345"


@requirement("doc:read:span")
async def test_a_long_text_is_cut_exactly_and_read_in_spans(agent: Connect, place: Path, folder: str) -> None:
    path = f"{folder}/long.md"
    text = "".join(f"{number:05} é😀 line\n" for number in range(20_000))
    (place / "long.md").write_text(text, encoding="utf-8")
    async with agent() as do:
        cut = await do("get_document_content", path=path, max_content=1_000)
        assert (cut["truncated"], cut["content_length"]) == (True, len(text))
        at, missing = cut["omitted"]["position"], cut["omitted"]["length"]
        assert 990 < at <= 1_000
        assert (cut["content"], at + missing) == (text[:at], len(text))
        span = await do("get_document_content", path=path, position=at, length=500)
        assert (span["content"], span["truncated"], span["position"]) == (text[at : at + 500], False, at)
        assert (await do("get_document_content", path=path, position=len(text)))["content"] == ""
        result = await do.whole("get_document_content", path=path, max_content=1_000_000)
        assert result.structured_content["truncated"] is True
        assert "cellwright/truncated" not in (result.meta or {})
        assert estimate_tokens(result.content[0].text) <= MAX_TOKENS
        at, missing = result.structured_content["omitted"].values()
        assert (result.structured_content["content"], at + missing) == (text[:at], len(text))


@requirement("work:content")
async def test_content_has_as_many_characters_as_were_asked_for(agent: Connect, place: Path, folder: str) -> None:
    path = f"{folder}/prose.md"
    text = "".join(f"A line of prose, number {number}.\n" for number in range(1_000))[:31_090]
    (place / "prose.md").write_text(text, encoding="utf-8")
    async with agent() as do:
        for most in (1, 10, 31_089, 31_090, 32_768, 32_769):
            read = await do("get_document_content", path=path, max_content=most)
            assert (read["content"], read["truncated"]) == (text[:most], most < len(text))
            rest = {"position": most, "length": len(text) - most} if most < len(text) else None
            assert (read["omitted"], read["content_length"]) == (rest, len(text))
        assert (await do("get_document_content", path=path))["content"] == text, "32,768 is what is usual"
        (place / "family.txt").write_text("👩\u200d👩\u200d👧\u200d👦", encoding="utf-8")
        part = await do("get_document_content", path=f"{folder}/family.txt", max_content=3)
        assert len(part["content"]) == 3, "what cannot be split is split rather than never shown"


@requirement("doc:read:hidden-characters")
async def test_what_cannot_be_seen_is_shown_one_for_one(agent: Connect, place: Path, folder: str) -> None:
    path = f"{folder}/h.txt"
    text = "a\x1b[31mb\u202ec\u200bd 👩\u200d🚀 \U000e0041e\x08"
    (place / "h.txt").write_text(text, encoding="utf-8")
    async with agent() as do:
        seen = await do("get_document_content", path=path)
        assert seen["content"] == "a␛[31mb�c�d 👩\u200d🚀 �e␈"
        assert seen["unseen_characters"] == 5
        await do("delete_document_text", path=path, position=seen["content"].index("�"), length=1)
        assert await content(do, path) == "a␛[31mbc�d 👩\u200d🚀 �e␈"


@requirement("doc:notebook")
async def test_a_notebook_is_for_the_notebook_tools(agent: Connect, jupyter_server: JupyterServer, folder: str) -> None:
    path = f"{folder}/n.ipynb"
    file = write_notebook(jupyter_server.root, path, ["1"])
    before = file.read_bytes()
    calls: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("get_document_content", {}, "read_nb_cells"),
        ("insert_document_text", {"position": 0, "text": "x"}, "edit_nb_cell"),
        ("delete_document_text", {"position": 0, "length": 1}, "edit_nb_cell"),
        ("replace_document_text", {"position": 0, "length": 1, "text": "x"}, "edit_nb_cell"),
        ("overwrite_document", {"content": "x"}, "insert_nb_cells"),
        ("overwrite_document", {"content": '{"cells": []}', "expect": "0000000000"}, "modify_nb_cells"),
    )
    async with agent() as do:
        for tool, more, named in calls:
            refused = await do.error(tool, path=path, **more)
            assert (refused["code"], named in refused["hint"]) == ("INVALID_ARGUMENT", True)
    assert file.read_bytes() == before


@requirement("doc:line-ends")
async def test_line_ends_of_windows_are_told_and_kept_in_copies(
    agent: Connect, place: Path, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/w.txt"
    (place / "w.txt").write_bytes(b"one\r\ntwo\r\n")
    async with agent() as do, person(path, "file") as them:
        seen = await do("get_document_content", path=path)
        assert (seen["content"], seen["content_length"]) == ("one\ntwo\n", 8)
        assert "\\r\\n" in seen["line_ends"]
        await do("copy_document", path=path, copyPath=f"{folder}/c.txt")
        assert (place / "c.txt").read_bytes() == b"one\r\ntwo\r\n" == (place / "w.txt").read_bytes()
        # A person's editor counts a line end as one character: two would shift all that they type behind it.
        made = await do("insert_document_text", path=path, position=0, text="zero\r\n")
        assert (made["length"], made["content_length"]) == (5, 13)
        assert (await do("replace_document_text", path=path, position=0, length=5, text="\r\n"))["new_length"] == 1
        await do("overwrite_document", path=path, content="0\r\n1\r\n")
        await eventually(lambda: str(them.document) == "0\n1\n", "the agent's text")
        (place / "u.txt").write_bytes(b"one\n")
        assert "line_ends" not in await do("get_document_content", path=f"{folder}/u.txt")


# -- files -------------------------------------------------------------------------------------------------------------------


@requirement("doc:list")
async def test_a_folder_is_listed_as_the_contract_says(
    agent: Connect, jupyter_server: JupyterServer, place: Path, folder: str
) -> None:
    (place / "sub dir").mkdir()
    (place / "a#b.md").write_text("x" * 7, encoding="utf-8")
    (place / ".hidden").write_text("x", encoding="utf-8")
    write_notebook(jupyter_server.root, f"{folder}/n.ipynb", ["1"])
    async with agent() as do:
        result = await do.whole("list_documents", path=f"/{folder}/")
        listed = result.structured_content["documents"]
        assert json.loads(result.content[0].text) == listed
        assert len(result.content) == 1
        assert result.structured_content["next"] is None
        assert [(entry["path"], entry["type"]) for entry in listed] == [
            (f"{folder}/a#b.md", "file"),
            (f"{folder}/n.ipynb", "notebook"),
            (f"{folder}/sub dir", "directory"),
        ]
        keys = {"name", "path", "type", "created", "last_modified", "size", "writable", "url"}
        assert all(set(entry) == keys for entry in listed)
        # This server shows no pages.
        assert [entry["url"] for entry in listed] == [None, None, None]
        assert listed[0]["size"] == 7
        assert (await do.error("list_documents", path=f"{folder}/a#b.md"))["code"] == "INVALID_ARGUMENT"
        assert (await do.error("list_documents", path=f"{folder}/none"))["code"] == "NOT_FOUND"


@requirement("doc:list")
async def test_a_long_list_comes_in_pages(agent: Connect, place: Path, folder: str) -> None:
    names = [f"{number:03}.txt" for number in range(150)]
    for name in names:
        (place / name).touch()
    async with agent() as do:
        seen: list[str] = []
        offset = 0
        while True:
            result = await do.whole("list_documents", path=folder, offset=offset)
            page = result.structured_content
            seen += [entry["name"] for entry in page["documents"]]
            assert page["total"] == 150
            if page["next"] is None:
                break
            assert page["next"] == {"offset": len(seen), "left_out": 150 - len(seen)}
            assert f"offset {len(seen)}" in result.content[1].text
            offset = page["next"]["offset"]
        assert seen == names


@requirement("doc:create")
async def test_creating_never_overwrites(agent: Connect, place: Path, folder: str) -> None:
    async with agent() as do:
        made = await do("create_document", path=f"/{folder}/new.ipynb")
        assert (made["path"], made["type"]) == (f"{folder}/new.ipynb", "notebook")
        assert json.loads((place / "new.ipynb").read_text(encoding="utf-8"))["cells"] == []
        cells: list[dict[str, Any]] = [{"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# hi"}]
        await do("create_document", path=f"{folder}/full.ipynb", content=json.dumps({"cells": cells}))
        assert await do.sources(f"{folder}/full.ipynb") == ["# hi"]
        await do("create_document", path=f"{folder}/sub", type="directory")
        await do("create_document", path=f"{folder}/sub/notes.md", type="markdown", content="# 😀\n")
        assert (place / "sub" / "notes.md").read_text(encoding="utf-8") == "# 😀\n"
        await do("create_document", path=f"{folder}/empty.txt", type="file")
        assert (place / "empty.txt").read_bytes() == b""
        for path, kind in (("sub/notes.md", "markdown"), ("new.ipynb", "notebook"), ("sub", "directory")):
            assert (await do.error("create_document", path=f"{folder}/{path}", type=kind))["code"] == "CONFLICT"
        assert (place / "sub" / "notes.md").read_text(encoding="utf-8") == "# 😀\n"
        wrong: tuple[dict[str, Any], ...] = (
            {"path": "x.md"},
            {"path": "x.ipynb", "type": "file"},
            {"path": "x.ipynb", "content": "not JSON"},
            {"path": "x.ipynb", "content": '{"cells": [1]}'},
            {"path": "x", "type": "directory", "content": "x"},
            {"path": "x.md", "type": "text"},
        )
        for arguments in wrong:
            refused = await do.error("create_document", **{**arguments, "path": f"{folder}/{arguments['path']}"})
            assert refused["code"] == "INVALID_ARGUMENT"
        assert names_in(place) == [*("empty.txt", "full.ipynb", "new.ipynb", "sub")]
        deep = await do("create_document", path=f"{folder}/no/such/x.md", type="file", content="x")
        assert deep["created_folders"] == [f"{folder}/no", f"{folder}/no/such"]
        inside = await do.error("create_document", path=f"{folder}/empty.txt/x.md", type="file")
        assert inside["code"] == "INVALID_ARGUMENT"


@requirement("doc:info")
async def test_information_comes_in_up_to_three_blocks(
    agent: Connect, jupyter_server: JupyterServer, place: Path, folder: str, person: PersonIn
) -> None:
    path = f"{folder}/document.md"
    (place / "document.md").write_text("# Document Content", encoding="utf-8")
    async with agent() as do, person(path, "file") as them:
        result = await do.whole("get_document_info", path=path)
        assert len(result.content) == 1
        facts = json.loads(result.content[0].text)
        assert facts == result.structured_content
        assert set(facts) == {
            *("name", "path", "type", "format", "created", "last_modified", "size", "writable", "mimetype", "url")
        }
        assert (facts["type"], facts["format"], facts["mimetype"]) == ("file", "text", "text/markdown")
        assert facts["url"] is None
        them.document.insert(0, "unsaved ")
        await them.settle()
        result = await do.whole("get_document_info", path=path, include_content=True)
        assert [json.loads(block.text) for block in result.content[1:2]] == [{"content_length": 26, "truncated": False}]
        assert [block.text for block in result.content[2:]] == ["unsaved # Document Content"]
        result = await do.whole("get_document_info", path=path, include_content=True, max_content=10)
        cut = {"content_length": 26, "truncated": True, "omitted": {"position": 10, "length": 16}}
        assert json.loads(result.content[1].text) == cut
        assert result.content[2].text == "unsaved # "
        result = await do.whole("get_document_info", path=folder, include_content=True)
        assert result.structured_content["type"] == "directory"
        assert len(result.content) == 2
        write_notebook(jupyter_server.root, f"{folder}/n.ipynb", ["x = 1"])
        result = await do.whole("get_document_info", path=f"{folder}/n.ipynb", include_content=True)
        assert json.loads(result.content[2].text)["cells"][0]["source"] == "x = 1"
        assert (await do.error("get_document_info", path=f"{folder}/none"))["code"] == "NOT_FOUND"


@requirement("doc:info:binary")
async def test_a_binary_file_is_described_and_a_picture_shown(agent: Connect, place: Path, folder: str) -> None:
    data = bytes(range(256)) * 400
    (place / "b.bin").write_bytes(data)
    (place / "p.png").write_bytes(PNG)
    (place / "latin1.txt").write_bytes("Grüße".encode("latin-1"))
    async with agent() as do:
        for name, kind in (("b.bin", "octet-stream"), ("latin1.txt", "text/plain")):
            for tool, more in (("get_document_content", {}), ("overwrite_document", {"content": "x"})):
                refused = await do.error(tool, path=f"{folder}/{name}", **more)
                assert refused["code"] == "INVALID_ARGUMENT"
                assert "is not text" in refused["message"]
                assert kind in refused["message"]
        result = await do.whole("get_document_info", path=f"{folder}/b.bin", include_content=True)
        assert result.structured_content["format"] == "base64"
        assert [block.type for block in result.content] == ["text", "text"]
        assert json.loads(result.content[1].text)["note"] == "not text: 102,400 bytes of application/octet-stream"
        assert sum(len(block.text) for block in result.content) < 1_000
        result = await do.whole("get_document_info", path=f"{folder}/p.png", include_content=True)
        assert [block.type for block in result.content] == ["text", "text", "image"]
        assert base64.b64decode(result.content[2].data) == PNG
        await do("copy_document", path=f"{folder}/b.bin", copyPath=f"{folder}/c.bin")
        await do("rename_document", path=f"{folder}/c.bin", newPath=f"{folder}/d.bin")
        await do("delete_document", path=f"{folder}/latin1.txt")
    assert (place / "b.bin").read_bytes() == data == (place / "d.bin").read_bytes()
    assert not (place / "latin1.txt").exists()


@requirement("doc:rename")
async def test_a_person_in_a_renamed_file_goes_on_under_its_new_name(
    agent: Connect, place: Path, folder: str, person: PersonIn
) -> None:
    (place / "old.md").write_text("start\n", encoding="utf-8")
    (place / "taken.md").write_text("taken\n", encoding="utf-8")
    old, new = f"{folder}/old.md", f"{folder}/new.md"
    async with agent() as do, person(old, "file") as them:
        await do("insert_document_text", path=old, position=0, text="agent ")
        assert (await do.error("rename_document", path=old, newPath=f"{folder}/taken.md"))["code"] == "CONFLICT"
        made = await do("rename_document", path=f"/{old}", new_path=f"/{new}")
        assert (made["old_path"], made["new_path"]) == (old, new)
        # Nothing is lost on the way: what the agent wrote just before is in the file.
        assert (place / "new.md").read_text(encoding="utf-8") == "agent start\n"
        them.document.insert(0, "person ")
        await them.settle()
        await do("insert_document_text", path=new, position=-1, text="more\n")
        await eventually(lambda: str(them.document) == "person agent start\nmore\n", "the edit under the new name")
        await eventually(
            lambda: (place / "new.md").read_text(encoding="utf-8") == str(them.document), "Jupyter's own saving"
        )
        assert (await do.error("get_document_content", path=old))["code"] == "NOT_FOUND"
    assert not (place / "old.md").exists()
    assert (place / "taken.md").read_text(encoding="utf-8") == "taken\n"


@requirement("doc:rename")
async def test_folders_are_renamed_and_wrong_targets_refused(
    agent: Connect, jupyter_server: JupyterServer, place: Path, folder: str
) -> None:
    (place / "a").mkdir()
    (place / "a" / "x.md").write_text("x", encoding="utf-8")
    write_notebook(jupyter_server.root, f"{folder}/a/n.ipynb", ["1"])
    async with agent() as do:
        await do("insert_document_text", path=f"{folder}/a/x.md", position=1, text="y")
        for path, target, code in (
            ("a", "a/b", "INVALID_ARGUMENT"),
            ("a/n.ipynb", "a/n.json", "INVALID_ARGUMENT"),
            ("a/x.md", "a/x.ipynb", "INVALID_ARGUMENT"),
            ("a/x.md", "a/x.md", "CONFLICT"),
            ("a/x.md", "none/x.md", "NOT_FOUND"),
            ("none.md", "b.md", "NOT_FOUND"),
        ):
            refused = await do.error("rename_document", path=f"{folder}/{path}", newPath=f"{folder}/{target}")
            assert refused["code"] == code, (path, target, refused)
        await do("rename_document", path=f"{folder}/a", newPath=f"{folder}/b")
        assert await content(do, f"{folder}/b/x.md") == "xy"
        assert await do.sources(f"{folder}/b/n.ipynb") == ["1"]
    assert not (place / "a").exists()


@requirement("doc:copy")
async def test_a_copy_has_what_people_see(
    agent: Connect, jupyter_server: JupyterServer, place: Path, folder: str, person: PersonIn
) -> None:
    (place / "s.md").write_text("saved\n", encoding="utf-8")
    write_notebook(jupyter_server.root, f"{folder}/n.ipynb", ["1"])
    async with agent() as do, person(f"{folder}/s.md", "file") as them, person(f"{folder}/n.ipynb") as there:
        them.document.insert(0, "not yet ")
        there.text_of(0).insert(0, "4")
        await them.settle()
        await there.settle()
        made = await do("copy_document", path=f"{folder}/s.md", copyPath=f"/{folder}/c.md")
        assert (made["original_path"], made["copy_path"]) == (f"{folder}/s.md", f"{folder}/c.md")
        assert (place / "c.md").read_text(encoding="utf-8") == "not yet saved\n"
        await do("copy_document", path=f"{folder}/n.ipynb", copy_path=f"{folder}/m.ipynb")
        assert await do.sources(f"{folder}/m.ipynb") == ["41"]
        assert str(them.document) == "not yet saved\n"
        for target, code in (
            ("c.md", "CONFLICT"),
            ("s.md", "CONFLICT"),
            ("none/c.md", "NOT_FOUND"),
            ("c.ipynb", "INVALID_ARGUMENT"),
        ):
            refused = await do.error("copy_document", path=f"{folder}/s.md", copyPath=f"{folder}/{target}")
            assert refused["code"] == code
        assert (await do.error("copy_document", path=folder, copyPath=f"{folder}2"))["code"] == "INVALID_ARGUMENT"


@requirement("doc:delete")
async def test_a_deleted_file_does_not_come_back(agent: Connect, place: Path, folder: str, person: PersonIn) -> None:
    file, path = place / "d.md", f"{folder}/d.md"
    file.write_text("start\n", encoding="utf-8")
    async with agent() as do, person(path, "file") as them:
        await do("insert_document_text", path=path, position=0, text="agent ")
        stop = asyncio.Event()

        async def go_on_typing() -> None:
            while not stop.is_set():
                them.document.insert(0, "x")
                await asyncio.sleep(0.02)

        typing = asyncio.create_task(go_on_typing())
        assert (await do("delete_document", path=path))["path"] == path
        end = time.monotonic() + AUTOSAVE_SECONDS
        while time.monotonic() < end:
            assert not file.exists()
            await asyncio.sleep(0.05)
        assert (await do.error("get_document_content", path=path))["code"] == "NOT_FOUND"
        # A new file of that name is another document: what is still typed in the old tab does not reach it.
        await do("create_document", path=path, type="markdown", content="new\n")
        end = time.monotonic() + AUTOSAVE_SECONDS
        while time.monotonic() < end:
            assert file.read_text(encoding="utf-8") == "new\n"
            await asyncio.sleep(0.05)
        stop.set()
        await typing
        assert await content(do, path) == "new\n"


@requirement("doc:delete:careful", "sessions:end:running")
async def test_nothing_is_taken_away_while_it_runs_or_holds_something(
    agent: Connect, jupyter_server: JupyterServer, place: Path, folder: str
) -> None:
    path = f"{folder}/run/n.ipynb"
    begun, gate = place / "begun", place / "go"
    code = (
        f"import os, time\nopen({str(begun)!r}, 'w').close()\n"
        f"while not os.path.exists({str(gate)!r}):\n    time.sleep(0.02)\nprint('ended')"
    )
    write_notebook(jupyter_server.root, path, [code])
    async with agent() as do:
        full = await do.error("delete_document", path=f"{folder}/run")
        assert (full["code"], "1 entries" in full["message"]) == ("CONFLICT", True)
        running = await do("execute_nb_cells", path=path, ranges=[{"start": 0}], timeout=0)
        await eventually(begun.exists, "the beginning of the run")
        for tool, more in (
            ("end_nb_session", {}),
            ("end_document_session", {}),
            ("delete_document", {}),
            ("rename_document", {"newPath": f"{folder}/run/m.ipynb"}),
        ):
            refused = await do.error(tool, path=path, **more)
            assert (refused["code"], "in use" in refused["message"]) == ("CONFLICT", True), (tool, refused)
            assert "cancel_execution" in refused["hint"]
        refused = await do.error("rename_document", path=f"{folder}/run", newPath=f"{folder}/moved")
        assert refused["code"] == "CONFLICT"
        (session,) = (await do("query_nb_sessions", root_path=folder))["sessions"]
        assert (session["status"], session["message"]) == ("connected", "Open, in use now")
        gate.touch()
        done = await do("get_execution", execution_id=running["execution_id"], timeout=20)
        assert (done["status"], done["execution_results"][0]["outputs"][0]["text"]) == ("done", "ended\n")
        ended = await _ended(do, path)
        assert (ended["status"], ended["saved"]) == ("disconnected", True)
        assert "ended" in (place / "run" / "n.ipynb").read_text(encoding="utf-8")
        gone = await do("delete_document", path=path)
        assert "kernel" in gone
        await do("delete_document", path=f"{folder}/run")
    assert not (place / "run").exists()


@requirement("documents:tools:rename-kernel")
async def test_a_renamed_notebook_keeps_its_kernel(agent: Connect, jupyter_server: JupyterServer, folder: str) -> None:
    write_notebook(jupyter_server.root, f"{folder}/sub/n.ipynb", ["x = 41", "x + 1"])
    async with agent() as do:
        await do("execute_nb_cells", path=f"{folder}/sub/n.ipynb", ranges=[{"start": 0}])
        await _ended(do, f"{folder}/sub/n.ipynb")
        await do("rename_document", path=f"{folder}/sub/n.ipynb", newPath=f"{folder}/sub/m.ipynb")
        await do("rename_document", path=f"{folder}/sub", newPath=f"{folder}/other")
        done = await do("execute_nb_cells", path=f"{folder}/other/m.ipynb", ranges=[{"start": 1}])
        assert done["execution_results"][0]["outputs"][0]["data"]["text/plain"] == "42"


async def _ended(do: Agent, path: str) -> Any:
    """A run lets its notebook go a moment after it is reported as done."""
    for _ in range(100):
        result = await do.whole("end_nb_session", path=path)
        if not result.is_error:
            return result.structured_content
        assert result.structured_content["error"]["code"] == "CONFLICT"
        await asyncio.sleep(0.05)
    raise AssertionError("the notebook is never let go")


# -- paths -------------------------------------------------------------------------------------------------------------------

BAD = (
    "../x.md",
    "a/../../x.md",
    "..\\x.md",
    "%2e%2e/x.md",
    "%252e%252e/x.md",
    "\uff0f\uff0e\uff0e\uff0fx.md",
    "C:x.md",
    "\\\\host\\s",
    "a\0b.md",
    "a" * 5_000,
    "a/./x.md",
    "",
    "x.md.",
    "x.md ",
    "a//x.md",
)
HIDDEN = (".env", ".git/config", "{folder}/.ipynb_checkpoints/x.md", ".cellwright/x", "{folder}/.x.ipynb")


def every_call(path: str, other: str) -> list[tuple[str, dict[str, Any]]]:
    """Each tool with this path in each place that takes one."""
    return [
        ("get_document_content", {"path": path}),
        ("insert_document_text", {"path": path, "position": 0, "text": "x"}),
        ("delete_document_text", {"path": path, "position": 0, "length": 0}),
        ("replace_document_text", {"path": path, "position": 0, "length": 0, "text": "x"}),
        ("overwrite_document", {"path": path, "content": "x"}),
        ("create_document", {"path": path, "type": "file"}),
        ("get_document_info", {"path": path, "include_content": True}),
        ("delete_document", {"path": path}),
        ("rename_document", {"path": path, "newPath": f"{other}-renamed"}),
        ("rename_document", {"path": other, "newPath": path}),
        ("copy_document", {"path": path, "copyPath": f"{other}-copied"}),
        ("copy_document", {"path": other, "copyPath": path}),
    ]


@requirement("doc:paths")
async def test_no_path_leads_out_or_to_what_is_hidden(
    agent: Connect, jupyter_server: JupyterServer, place: Path, folder: str
) -> None:
    sibling = jupyter_server.root.parent / f"{jupyter_server.root.name}two"
    sibling.mkdir(exist_ok=True)
    secret = sibling / "secret.md"
    secret.write_text("the secret", encoding="utf-8")
    (place / ".ipynb_checkpoints").mkdir()
    (place / ".ipynb_checkpoints" / "x.md").write_text("the secret", encoding="utf-8")
    (place / "other.md").write_text("other", encoding="utf-8")
    hidden = [path.format(folder=folder) for path in HIDDEN]
    before = all_below(place)
    async with agent() as do:
        for path in (*BAD, f"../{sibling.name}/secret.md", *hidden):
            calls = every_call(path, f"{folder}/other.md")
            refusals = await asyncio.gather(*(do.error(tool, **arguments) for tool, arguments in calls))
            assert {refused["code"] for refused in refusals} == {"INVALID_ARGUMENT"}, (path, refusals)
        for path in ("../x", ".git", f"{folder}/.ipynb_checkpoints"):
            assert (await do.error("list_documents", path=path))["code"] == "INVALID_ARGUMENT"
        # From the file system's root it is a path below the server's root, where there is no such thing.
        assert (await do.error("get_document_content", path=str(secret)))["code"] == "NOT_FOUND"
    assert all_below(place) == before
    assert (place / "other.md").read_text(encoding="utf-8") == "other"
    assert secret.read_text(encoding="utf-8") == "the secret"


@requirement("doc:hidden")
async def test_hidden_files_are_for_the_tools_where_they_and_jupyter_allow_it(
    start_jupyter: Callable[..., JupyterProcess],
) -> None:
    jupyter = start_jupyter(options=("--ContentsManager.allow_hidden=True",))
    (jupyter.root / ".x.md").write_text("x", encoding="utf-8")
    address = JupyterAddress.parse(jupyter.url, token=Secret(jupyter.token))
    notebooks = LiveNotebooks(to_named(address, None), lambda: datetime.now(UTC))
    call = Call(local_user())
    try:
        for allowed in (True, False):
            files = DocumentFiles(notebooks, allow_hidden=allowed)
            listed = [entry["name"] for entry in (await list_documents(files, call)).data["documents"]]
            assert (".x.md" in listed) is allowed
            if allowed:
                await insert_document_text(files, call, ".x.md", position=0, text="y")
                assert (await get_document_content(files, call, ".x.md")).data["content"] == "yx"
            else:
                with pytest.raises(InvalidArgument, match="hidden"):
                    await get_document_content(files, call, ".x.md")
    finally:
        await notebooks.close()


@requirement("doc:paths")
async def test_what_is_no_file_is_refused_quickly(agent: Connect, place: Path, folder: str, person: PersonIn) -> None:
    os.mkfifo(place / "pipe.md")
    (place / "folder.md").mkdir()
    with (place / "sparse.md").open("wb") as file:
        file.truncate(10 * 2**30)
    (place / "device.md").symlink_to("/dev/zero")
    (place / "loop.md").symlink_to("loop.md")
    (place / "good.md").write_text("good", encoding="utf-8")
    async with agent() as do, person(f"{folder}/good.md", "file") as them:
        for name in ("pipe", "folder", "sparse", "device", "loop"):
            path = f"{folder}/{name}.md"
            for tool, more in (
                ("get_document_content", {}),
                ("insert_document_text", {"position": 0, "text": "x"}),
                ("overwrite_document", {"content": "x"}),
                ("copy_document", {"copyPath": f"{folder}/copy-of-{name}.md"}),
            ):
                began = time.monotonic()
                await do.error(tool, path=path, **more)
                assert time.monotonic() - began < 5, (tool, name)
        # None of it harmed the room of somebody else.
        await do("insert_document_text", path=f"{folder}/good.md", position=4, text="!")
        await eventually(lambda: str(them.document) == "good!", "the edit")
        await do("delete_document", path=f"{folder}/device.md")
    assert not (place / "device.md").is_symlink()
    assert not any(name.startswith("copy") for name in names_in(place))


@requirement("doc:names")
async def test_odd_names_are_kept_to_the_letter(agent: Connect, place: Path, folder: str) -> None:
    composed, decomposed = unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")
    names = sorted([composed, decomposed, "case", "CASE", "line\nbreak", "🏴‍☠️", "a#b?c&d=e%f;g", "x\r\nHost: evil"])
    async with agent() as do:
        for number, name in enumerate(names):
            await do("create_document", path=f"{folder}/{name}", type="file", content=str(number))
        assert [entry["name"] for entry in (await do("list_documents", path=folder))["documents"]] == names
        for number, name in enumerate(names):
            path = f"{folder}/{name}"
            await do("insert_document_text", path=path, position=-1, text="!")
            assert await content(do, path) == f"{number}!"
            await do("copy_document", path=path, copyPath=f"{path}2")
            await do("rename_document", path=f"{path}2", newPath=f"{path}3")
            await do("delete_document", path=f"{path}3")
    assert names_in(place) == names


# -- other servers -----------------------------------------------------------------------------------------------------------


@requirement("doc:not-live")
async def test_without_collaboration_the_file_itself_is_changed(
    start_jupyter: Callable[..., JupyterProcess], tmp_path: Path
) -> None:
    jupyter = start_jupyter(collaboration=False)
    file = jupyter.root / "n.md"
    file.write_text(TEXT, encoding="utf-8")
    (jupyter.root / "b.bin").write_bytes(b"\xff\xfe\x00")
    async with agent_inside(jupyter.address, tmp_path) as do:
        made = await do("insert_document_text", path="n.md", position=6, text="!")
        assert (made["live"], made["saved"]) == (False, True)
        assert file.read_text(encoding="utf-8") == TEXT[:6] + "!" + TEXT[6:]
        file.write_text("by another program", encoding="utf-8")
        assert await content(do, "n.md") == "by another program"
        stale = await do.error("overwrite_document", path="n.md", content="x", expect=made["revision"])
        assert stale["code"] == "CONFLICT"
        await do("overwrite_document", path="n.md", content="mine")
        await do("copy_document", path="n.md", copyPath="m.md")
        await do("rename_document", path="m.md", newPath="o.md")
        assert "is not text" in (await do.error("get_document_content", path="b.bin"))["message"]
        assert (await do.error("overwrite_document", path="b.bin", content="x"))["code"] == "INVALID_ARGUMENT"
        session = await do("query_document_session", path="n.md")
        assert (session["status"], session["live"], session["session_id"]) == ("connected", False, None)
        assert (await do("end_document_session", path="n.md"))["status"] == "disconnected"
        await do("delete_document", path="n.md")
    assert not file.exists()
    assert (jupyter.root / "o.md").read_text(encoding="utf-8") == "mine"
    assert (jupyter.root / "b.bin").read_bytes() == b"\xff\xfe\x00"


@requirement("doc:read-only")
def test_a_read_only_server_and_a_token_that_may_only_read_offer_no_way_to_change(tmp_path: Path) -> None:
    reading = {
        *("get_document_content", "list_documents", "get_document_info"),
        *("query_nb_sessions", "query_document_session"),
    }
    chosen = ("documents", "sessions")
    whole = make_workspace(Settings(root=tmp_path, toolsets=chosen), "stdio").catalogue
    reader = Principal("reader", frozenset({Scope.READ}))
    assert len(whole.offered(local_user())) == 15
    assert {tool.name for tool in whole.offered(reader)} == reading
    limited = make_workspace(Settings(root=tmp_path, toolsets=chosen, read_only=True), "stdio").catalogue
    assert {tool.name for tool in limited.offered(local_user())} == reading


# -- a person in a browser ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Generator[JupyterProcess]:
    with JupyterProcess(tmp_path_factory.mktemp("lab"), lab=True) as process:
        yield process


async def shown(page: Page) -> str:
    """The text in the editor in front, without what shows other people's cursors."""
    editor = page.locator(".jp-FileEditor:not(.lm-mod-hidden) .cm-content")
    return await editor.evaluate(
        """content => Array.from(content.querySelectorAll('.cm-line')).map(line => {
            const copy = line.cloneNode(true);
            copy.querySelectorAll('.cm-widgetBuffer, .jp-remote-cursor').forEach(one => one.remove());
            return copy.textContent.replace(/[\\u200b\\u2060]/g, '');
        }).join('\\n')"""
    )


@requirement("doc:browser")
@pytest.mark.timeout(240)
async def test_a_person_types_in_jupyterlab_while_the_agent_edits(lab: JupyterProcess, tmp_path: Path) -> None:
    patience = 60_000
    name, typed = f"script-{secrets.token_hex(3)}.py", "# a person types this"
    (lab.root / name).write_text("alpha = 1\nomega = 9\n", encoding="utf-8")
    async with agent_inside(lab.address, tmp_path) as do, async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        page = await launched.new_page(viewport={"width": 1000, "height": 700})
        await page.goto(f"{lab.url}/lab/tree/{name}?token={lab.token}", timeout=patience)
        editor = page.locator(".jp-FileEditor:not(.lm-mod-hidden) .cm-content")
        await expect(editor).to_contain_text("omega = 9", timeout=patience)
        await editor.locator(".cm-line").first.click()
        await page.keyboard.press("End")
        typing = asyncio.create_task(page.keyboard.type(typed, delay=60))
        for number in range(6):
            await insert_before_nine(do, name, str(number))
        await typing
        wanted = f"alpha = 1{typed}\nomega = 0123459\n"
        await expect(editor).to_contain_text("omega = 0123459", timeout=patience)
        assert await shown(page) == wanted
        assert await content(do, name) == wanted
        await expect(page.locator(".jp-remote-userFlag-name", has_text="Robin the Agent")).to_be_attached(
            timeout=patience
        )
        # Undo takes back what the person typed, and nothing of the agent's.
        await page.keyboard.press("Control+z")
        await expect(editor).not_to_contain_text(typed, timeout=patience)
        assert "omega = 0123459" in await content(do, name)
        await launched.close()
    async with person_in(lab.address, name, "file") as them:
        assert "omega = 0123459" in str(them.document)
