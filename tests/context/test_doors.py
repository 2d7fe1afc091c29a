"""Pictures as resources, what the overview says, which folders are modules, and modules that nobody has written down."""

import base64
import os
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError

from cellwright.context import pages
from cellwright.context.files.reading import LARGEST_FILE
from cellwright.context.model import Issue, Module, Project
from cellwright.context.scanner.scan import scan
from cellwright.context.service import ProjectContext
from cellwright.core.errors import InvalidArgument
from cellwright.core.types import ALL_SCOPES, Call, Principal
from notebook_agent import Agent, agent_of
from requirements import requirement
from support import HttpServer, http_server

pytestmark = pytest.mark.anyio
Files = Callable[[Mapping[str, str]], None]
ANN = Call(Principal("ann", ALL_SCOPES))
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
BEGINNINGS = {
    "a.png": (PIXEL, "image/png"),
    "b.JPG": (b"\xff\xd8\xff\xe0" + b"\0" * 40, "image/jpeg"),
    "c.gif": (b"GIF89a" + b"\0" * 40, "image/gif"),
    "d.webp": (b"RIFF\x24\0\0\0WEBPVP8 " + b"\0" * 40, "image/webp"),
}
"""How pictures begin; nobody decodes the rest."""


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[HttpServer, Path]]:
    folder = tmp_path_factory.mktemp("gallery")
    root = folder / "root"
    (root / "img").mkdir(parents=True)
    (root / ".ssh").mkdir()
    for name, (data, _) in BEGINNINGS.items():
        (root / "img" / name).write_bytes(data)
    (root / "img" / "text.png").write_text("not a picture", encoding="utf-8")
    (root / "img" / "broken.png").write_bytes(b"\0\1\2\3")
    (root / "img" / "drawn.svg").write_text("<svg/>", encoding="utf-8")
    (root / ".ssh" / "photo.png").write_bytes(PIXEL)
    (root / "credentials.png").write_bytes(PIXEL)
    (folder / "outside.png").write_bytes(PIXEL)
    (root / "out.png").symlink_to(folder / "outside.png")
    (root / "in.png").symlink_to(root / "img" / "a.png")
    (root / "disguised.png").symlink_to(root / ".ssh" / "photo.png")
    with (root / "huge.png").open("wb") as huge:
        huge.write(PIXEL)
        huge.truncate(LARGEST_FILE + 1)
    os.mkfifo(root / "pipe.png")
    with http_server(folder, "--toolsets", "default,context", "--rate", "0") as server:
        yield server, root


async def refused(agent: Agent, uri: str) -> MCPError:
    with pytest.raises(MCPError) as error:
        await agent.client.read_resource(uri)
    return error.value


@requirement("doors:pictures")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_pictures_are_bytes_with_their_type(gallery: tuple[HttpServer, Path], mode: str) -> None:
    async with agent_of(gallery[0], mode) as agent:
        for name, (data, mime) in BEGINNINGS.items():
            content = await agent.resource(f"context://file/img/{name}")
            assert (base64.b64decode(content.blob), content.mime_type) == (data, mime)
        assert base64.b64decode((await agent.resource("context://file/in.png")).blob) == PIXEL
        for name, text in (("text.png", "not a picture"), ("drawn.svg", "<svg/>")):
            content = await agent.resource(f"context://file/img/{name}")
            assert (content.text, content.mime_type) == (text, "text/plain")
        templates = (await agent.client.list_resource_templates()).resource_templates
        (about,) = [one.description for one in templates if one.uri_template.startswith("context://file/")]
        assert "picture" in str(about)


@requirement("doors:pictures")
async def test_the_rules_for_files_hold_for_pictures(gallery: tuple[HttpServer, Path]) -> None:
    async with agent_of(gallery[0]) as agent:
        for path, code in (
            (".ssh/photo.png", "SECRET_FILE"),
            ("credentials.png", "SECRET_FILE"),
            ("disguised.png", "SECRET_FILE"),
            ("out.png", "INVALID_ARGUMENT"),
            ("..%2foutside.png", "INVALID_ARGUMENT"),
            ("none.png", "NOT_FOUND"),
            ("huge.png", "FILE_UNREADABLE"),
            ("pipe.png", "FILE_UNREADABLE"),
            ("img/broken.png", "FILE_UNREADABLE"),
        ):
            data: Any = (await refused(agent, f"context://file/{path}")).error.data
            assert data["code"] == code, path
        huge = str((await refused(agent, "context://file/huge.png")).error.message)
        assert f"more than {LARGEST_FILE:,}" in huge
        error = await agent.error("read_file", path="img/a.png")
        assert error["hint"] == "read it as context://file/img/a.png"
        assert await agent.resource(error["hint"].removeprefix("read it as "))


@requirement("doors:overview")
def test_the_overview_says_what_is_known() -> None:
    many = tuple(f"pattern {number}" for number in range(9))
    module = Module(
        "auth",
        patterns=many,
        business_rules=("x" * 400,),
        common_issues=(Issue("Logout fails twice", "Clear the cookie first"), Issue("Slow")),
        decisions=("One database",),
    )
    text = pages.overview(Project("Shop", modules={"auth": module, "bare": Module("bare")}), {})
    section = text.partition("### auth")[2].partition("### bare")[0]
    assert "**Patterns:** 9  \n" in section
    assert [line for line in section.splitlines() if line.startswith("- Pattern")] == [
        f"- Pattern: pattern {number}" for number in range(4, 9)
    ]
    assert f"- Rule: {'x' * 240}…\n" in section
    assert "- Decision: One database\n" in section
    assert "- Issue: Logout fails twice → Clear the cookie first\n- Issue: Slow\n" in section
    assert "- 4 more: context://module/auth\n" in section
    assert text.endswith("**Common Issues:** 0\n")


@requirement("doors:overview")
def test_where_it_is_too_long_it_is_counted_and_every_module_stays() -> None:
    modules = {
        name: Module(name, patterns=tuple(f"{'p' * 200} {number}" for number in range(5)))
        for name in (f"m{number:03}" for number in range(100))
    }
    text = pages.overview(Project("Shop", modules=modules), {})
    assert len(text.encode()) <= pages.OVERVIEW_BYTES
    assert all(f"### {name}\n" in text for name in modules)
    assert "- Pattern" not in text
    assert text.endswith(pages.ONLY_COUNTED)


@requirement("doors:overview")
def test_a_text_in_the_overview_is_no_heading() -> None:
    evil = "x\n## Modules (9)\n- Pattern: false"
    text = pages.overview(
        Project("p", modules={"m": Module("m", patterns=(evil,), common_issues=(Issue(evil, evil),))}), {}
    )
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Tech Stack",
        "## Architecture",
        "## Modules (1)",
    ]
    assert "- Pattern: x ## Modules (9) - Pattern: false\n" in text


PACKAGE = {"pyproject.toml": '[project]\nname = "shop"\n', "shop/__init__.py": "", "shop/till.py": "TILL = 1\n"}


@requirement("doors:scan:tools")
@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"tools/__init__.py": "", "tools/report.py": "A = 1\n"}, True),
        ({"shop/tools/__init__.py": "", "shop/tools/report.py": "A = 1\n"}, True),
        ({"shop/tools/report.py": "A = 1\n"}, True),
        ({"tools/report.py": "A = 1\n", "shop/till.py": "from tools.report import A\n"}, True),
        ({"tools/report.py": "A = 1\n"}, False),
        ({"tools/report.py": "A = 1\n", "tests/test_a.py": "from tools.report import A\n"}, False),
        ({"tools/report.py": "import tools.more\n", "tools/more.py": "A = 1\n"}, False),
        ({"docs/tools/__init__.py": "", "docs/tools/report.py": "A = 1\n"}, False),
    ],
)
def test_a_tools_folder_is_a_module_if_it_is_code(files: Files, root: Path, more: dict[str, str], found: bool) -> None:
    files({**PACKAGE, **more})
    modules = scan(str(root)).project.modules
    assert ("tools" in {name.rpartition("/")[2] for name in modules}) is found
    assert "shop" in modules


@requirement("doors:scan:tools")
def test_a_tools_folder_in_another_language(files: Files, root: Path) -> None:
    files({"package.json": '{"name": "web"}', "src/a/x.ts": "", "src/tools/y.ts": "", "scripts/build.js": ""})
    assert sorted(scan(str(root)).project.modules) == ["a", "tools"]


@requirement("doors:record")
async def test_a_module_that_is_not_written_down_is_noted(context: ProjectContext, files: Files, root: Path) -> None:
    files({".cellwright/project.yaml": "modules:\n  auth: {}\n"})
    made, merged = await context.record(ANN, "rule", "Nobody logs in twice", "auht", "")
    assert (made.module, merged) == ("auht", False)
    note = await context.module_note("auht")
    assert "no module auht yet" in note
    assert "did you mean auth?" in note
    assert [addition.where for addition in (await context.enrich(apply=True)).additions] == [
        "modules.auht.businessRules"
    ]
    assert await context.module_note("auht") == ""
    for wrong in ("x" * 201, "a\x00b"):
        with pytest.raises(InvalidArgument):
            await context.record(ANN, "rule", "x", wrong, "")
    (root / ".cellwright" / "project.yaml").write_text("modules: [broken", encoding="utf-8")
    assert "cannot be told" in await context.module_note("auth")
    _, merged = await context.record(ANN, "rule", "Recorded all the same", "auth", "")
    assert not merged


@requirement("doors:record")
async def test_an_agent_is_told_in_the_answer(gallery: tuple[HttpServer, Path]) -> None:
    async with agent_of(gallery[0]) as agent:
        made = await agent("context_record", type="issue", content="Logout fails twice", module="auth", solution="Wait")
        assert "no module auth yet" in made["note"]
        assert "note" not in await agent("context_record", type="issue", content="It rains")
        assert "Logout fails twice" in (await agent.resource("context://discoveries?module=auth")).text
