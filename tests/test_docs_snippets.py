"""Every snippet of the documentation is run, or read by the very reader that would read it.

The language of a fence says what it is:

    tools     calls of tools, one a line: name, arguments in JSON, then words; called in order on a real workspace
    sh        commands: bash reads them all; ours are parsed by our parser, flags of Jupyter are looked up among its traits
    python    runs, all blocks of a page in one namespace; `c.` lines are a Jupyter configuration
    json      on the pages of clients their configuration, elsewhere what the tool called last on the page answers
    toml      on the pages of clients their configuration, elsewhere our configuration file
    yaml      project.yaml
    text      output, or what is no program: nothing in it is a call or a command
    mermaid   a picture
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from jupyter_server.serverapp import ServerApp
from pydantic import TypeAdapter
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from cellwright.app.cli.main import make_parser
from cellwright.app.clients.catalogue import CLIENTS
from cellwright.app.extension.app import CellwrightExtension, JupyterMCPServerExtensionApp
from cellwright.app.settings import SPECS, Settings
from cellwright.app.settings_loading import read_config
from cellwright.app.workspace import local_user, make_workspace
from cellwright.context.project.file import ProjectFile
from cellwright.notebook.model import Kind
from cellwright.thinking.templates import TEMPLATES
from jupyter_support import write_notebook
from locations import ROOT
from notebook_agent import agent_of
from requirements import requirement
from support import HttpServer, http_server

DOCS = ROOT / "docs"
LANGUAGES = {"tools", "sh", "python", "json", "toml", "yaml", "text", "mermaid"}
FENCE = re.compile(r"^(```+)([^\n`]*)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(cellwright [a-z][^`\n]*)`")
ABOUT_CLIENTS = ("docs/clients/", "docs/clients.md")
UNKNOWN = "…"
"""Stands for what an earlier call on the page answered: an id."""
PRELUDES = {"bench/README.md": "from measure import Plan, Row, alternating, row"}
"""What the Python of a page is a part of."""
WORLD = {
    "analysis.ipynb": ["# Analysis", "1 + 1"],
    "src/app/login.py": 'from app.tokens import refresh\n\n\ndef login():\n    """Refresh the tokens."""\n    return refresh()\n',
    "src/app/tokens.py": "def refresh():\n    return 1\n",
    "src/app/__init__.py": "",
}
"""What the workspace of the examples holds."""
BEFORE: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "docs/convert.md": [("scratch_create", {"scratch_id": "plan", "cells": [{"language": "md", "content": "A plan."}]})]
}
"""What was called before the calls of a page."""


@dataclass(frozen=True)
class Snippet:
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """All that people read. Notebooks in Markdown (`.src.md`) are run where their pages are made."""
    found = [ROOT / "README.md", ROOT / "bench" / "README.md", *sorted(DOCS.rglob("*.md"))]
    return [page for page in found if not page.name.endswith(".src.md")]


def all_snippets() -> Iterator[Snippet]:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for fence in FENCE.finditer(text):
            line = text.count("\n", 0, fence.start()) + 1
            yield Snippet(page.relative_to(ROOT).as_posix(), line, fence[2].strip(), fence[3])


SNIPPETS = list(all_snippets())


def snippets_in(*languages: str) -> list[Snippet]:
    return [snippet for snippet in SNIPPETS if snippet.language in languages]


def pages_with(*languages: str) -> list[str]:
    return list(dict.fromkeys(snippet.page for snippet in snippets_in(*languages)))


def tool_names() -> set[str]:
    made = make_workspace(Settings(toolsets=("all",)), "stdio")
    return {tool.name for tool in made.catalogue.offered(local_user())}


# -- what each block is ------------------------------------------------------------------------------------------------------


@requirement("docs:snippets")
def test_every_block_says_what_it_is() -> None:
    assert [str(snippet) for snippet in SNIPPETS if snippet.language not in LANGUAGES] == []
    assert len(SNIPPETS) > 50, "the pages are found"


@requirement("docs:snippets")
def test_output_holds_no_call_and_no_command() -> None:
    calls = re.compile(rf"^\s*(?:cellwright |(?:{'|'.join(sorted(tool_names()))})\s+\{{)", re.MULTILINE)
    generated = "docs/command-line.md"
    found = [snippet for snippet in snippets_in("text") if snippet.page != generated and calls.search(snippet.text)]
    assert [str(snippet) for snippet in found] == []


# -- commands ----------------------------------------------------------------------------------------------------------------


def commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a script: without comments, variables set for them, pipes and redirections."""
    for line in text.replace("\\\n", " ").splitlines():
        words: list[str] = []
        for word in [*shlex.split(line, comments=True), "|"]:
            if word in {"|", "&&", ";", ">"}:
                if words:
                    yield words
                words = []
            elif words or not re.fullmatch(r"[A-Z_]+=.*", word):
                words.append(word)


def parsed(arguments: list[str]) -> argparse.Namespace:
    """As the program itself reads its command line; a wrong one ends the test with its message."""
    parser = make_parser()
    parser.refuse_unknown_flags(arguments)
    return parser.parse_args(arguments)


def check_command(words: list[str]) -> None:
    program, *rest = words
    match Path(program).name:
        case "cellwright":
            parsed(rest)
        case "make":
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            assert re.search(rf"^{re.escape(rest[0])}:", makefile, re.MULTILINE), rest
        case "jupyter":
            for flag in rest[1:]:
                check_trait(*flag.removeprefix("--").partition("=")[0].split("."))
        case "run.py":
            script = (ROOT / program).read_text(encoding="utf-8")
            assert all(f'"{flag}"' in script for flag in rest if flag.startswith("--")), rest
        case "pip":
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
            wanted = re.fullmatch(r"cellwright(?:\[([\w,]+)\])?", rest[-1])
            assert wanted is not None, rest
            assert set((wanted[1] or "").split(",")) - {""} <= extras["optional-dependencies"].keys()
        case "docker" if rest[0] == "build":
            assert rest[-1] == "."
            assert (ROOT / "Dockerfile").is_file()
        case _ if "cellwright" in rest:
            # Somebody else's program that starts ours: uvx, docker, …
            parsed(rest[len(rest) - rest[::-1].index("cellwright") :])
        case _:
            pass


def check_trait(owner: str, trait: str) -> None:
    owners = {kind.__name__: kind for kind in (ServerApp, CellwrightExtension, JupyterMCPServerExtensionApp)}
    assert owners[owner].class_traits(config=True).get(trait) is not None, f"{owner} has no trait {trait}"


@requirement("docs:snippets")
@pytest.mark.parametrize("snippet", snippets_in("sh"), ids=str)
def test_commands_are_read_by_their_programs(snippet: Snippet) -> None:
    read = subprocess.run(["bash", "-n"], input=snippet.text, capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr
    found = list(commands(snippet.text))
    assert found, "a block of commands without one"
    for words in found:
        check_command(words)


def inline_commands() -> list[tuple[str, str]]:
    generated = DOCS / "messages.md"
    return [
        (page.relative_to(ROOT).as_posix(), command)
        for page in pages()
        if page != generated
        for command in INLINE.findall(page.read_text(encoding="utf-8"))
    ]


@requirement("docs:snippets")
@pytest.mark.parametrize(("page", "command"), sorted(set(inline_commands())))
def test_commands_in_sentences_are_commands(page: str, command: str) -> None:
    """What may be left out stands in brackets; a bare name is no call, but the name of a command."""
    del page
    words = shlex.split(re.sub(r"\[[^\]]*\]", "", command))[1:]
    known = [name.split() for name in make_parser().commands()]
    if any(name[: len(words)] == words for name in known):
        return
    parsed(["zed" if word == UNKNOWN else word for word in words])


# -- calls of tools ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def workspace(tmp_path: Path) -> Generator[HttpServer]:
    """Every tool, in a folder with what the examples speak of; Jupyter and kernels are real."""
    folder = tmp_path / "examples"
    for path, content in WORLD.items():
        if isinstance(content, list):
            write_notebook(folder / "root", path, content)
        else:
            (folder / "root" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "root" / path).write_text(content, encoding="utf-8")
    with http_server(folder, "--toolsets", "all", "--rate", "0") as server:
        yield server


def calls(snippet: Snippet) -> Iterator[tuple[str, dict[str, Any]]]:
    """The calls of a block: a name, JSON, and after two blanks what it is for."""
    for line in snippet.text.splitlines():
        found = re.match(r"(\w+)\s+(?=\{)", line)
        assert found is not None, f"{snippet}: {line!r} is no call"
        arguments, end = json.JSONDecoder().raw_decode(line, found.end())
        assert re.match(r"$|\s{2,}\S", line[end:]), f"{snippet}: two blanks before what a call is for: {line!r}"
        yield found[1], arguments


def filled(arguments: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, Any]:
    return {name: known[name] if value == UNKNOWN and name in known else value for name, value in arguments.items()}


def ids_in(answer: Mapping[str, Any]) -> dict[str, str]:
    """The ids that later calls of the page may mean."""
    found = {key: value for key, value in answer.items() if isinstance(value, str)}
    cell: Any = answer.get("cell")
    return {**found, **({"cellId": cell["id"], "cell_id": cell["id"]} if isinstance(cell, dict) else {})}


@requirement("docs:snippets")
@pytest.mark.anyio
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", pages_with("tools"))
async def test_calls_of_a_page_are_answered(workspace: HttpServer, page: str) -> None:
    known: dict[str, str] = {}
    async with agent_of(workspace, "legacy") as agent:
        offered = {tool.name for tool in (await agent.client.list_tools()).tools}
        for tool, arguments in BEFORE.get(page, ()):
            await agent(tool, **arguments)
        for snippet in snippets_in("tools"):
            if snippet.page != page:
                continue
            for tool, arguments in calls(snippet):
                assert tool in offered, f"{snippet}: there is no tool {tool}"
                answer = await agent.whole(tool, **filled(arguments, known))
                assert not answer.is_error, f"{snippet}: {tool} {answer.content}"
                known |= ids_in(answer.structured_content or {})


def answers() -> list[tuple[Snippet, str]]:
    """What tools answer, each with the tool that was called last before it on its page."""
    found: list[tuple[Snippet, str]] = []
    last: dict[str, str] = {}
    for snippet in SNIPPETS:
        if snippet.language == "tools":
            last[snippet.page] = [tool for tool, _ in calls(snippet)][-1]
        elif snippet.language == "json" and not snippet.page.startswith(ABOUT_CLIENTS):
            found.append((snippet, last.get(snippet.page, "")))
    return found


@requirement("docs:snippets")
@pytest.mark.parametrize(("snippet", "tool"), answers(), ids=str)
def test_answers_look_as_the_tool_gives_them(snippet: Snippet, tool: str) -> None:
    made = make_workspace(Settings(toolsets=("all",)), "stdio")
    (offered,) = [one for one in made.catalogue.offered(local_user()) if one.name == tool]
    shown = json.loads(snippet.text)
    TypeAdapter(offered.signature.returns).validate_json(json.dumps(shown), strict=True)
    whole = TypeAdapter(offered.signature.returns).json_schema(mode="serialization")
    assert unknown_keys(shown, whole, whole.get("$defs", {})) == []


def unknown_keys(value: Any, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[str]:
    """The keys of an answer that its schema does not know."""
    options = [schema, *schema.get("anyOf", ())]
    options = [definitions[one["$ref"].rpartition("/")[2]] if "$ref" in one else one for one in options]
    if isinstance(value, list):
        items: dict[str, Any] = next((one["items"] for one in options if "items" in one), dict[str, Any]())
        return [key for item in cast("list[Any]", value) for key in unknown_keys(item, items, definitions)]
    known: dict[str, Any] = next((one["properties"] for one in options if "properties" in one), dict[str, Any]())
    if not isinstance(value, dict) or not known:
        return []
    found = cast("dict[str, Any]", value)
    return [
        *(key for key in found if key not in known),
        *(key for name in found.keys() & known.keys() for key in unknown_keys(found[name], known[name], definitions)),
    ]


# -- programs and files ------------------------------------------------------------------------------------------------------


@requirement("docs:snippets")
@pytest.mark.parametrize("page", pages_with("python"))
def test_python_runs(page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "bench"), *sys.path])
    namespace: dict[str, Any] = {}
    exec(PRELUDES.get(page, ""), namespace)
    template = TEMPLATES.get(Path(page).stem)
    if template is not None:
        for cell in template.notebook.cells:
            if cell.kind is Kind.CODE:
                exec(cell.source, namespace)
    for snippet in snippets_in("python"):
        if snippet.page != page:
            continue
        if snippet.text.startswith("c."):
            check_jupyter_configuration(snippet.text, tmp_path)
        else:
            exec(compile(snippet.text, str(snippet), "exec"), namespace)


def check_jupyter_configuration(text: str, folder: Path) -> None:
    file = folder / "jupyter_server_config.py"
    file.write_text(text, encoding="utf-8")
    config: Config = PyFileConfigLoader(file.name, str(folder)).load_config()
    found = cast("Mapping[str, Mapping[str, object]]", config)
    assert found
    for owner, traits in found.items():
        for trait in traits:
            check_trait(owner, trait)


@requirement("docs:snippets")
@pytest.mark.parametrize(
    "snippet", [one for one in snippets_in("json", "toml") if one.page.startswith(ABOUT_CLIENTS)], ids=str
)
def test_configurations_of_clients_start_or_reach_us(snippet: Snippet) -> None:
    client = CLIENTS.get(Path(snippet.page).stem, CLIENTS["claude-code"])
    entry: Any = client.editor.loads(snippet.text)
    for key in client.path:
        entry = entry[key]
    if "command" in entry:
        check_command([entry["command"], *entry["args"]])
        ours = {name for name in entry.get("env", {}) if name.startswith("CELLWRIGHT_")}
        assert ours <= {spec.env for spec in SPECS}
    else:
        assert client.url_key is not None
        assert str(entry[client.url_key]).endswith("/mcp")


@requirement("docs:snippets")
@pytest.mark.parametrize(
    "snippet", [one for one in snippets_in("toml") if not one.page.startswith(ABOUT_CLIENTS)], ids=str
)
def test_our_configuration_is_read_by_us(snippet: Snippet, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(snippet.text, encoding="utf-8")
    values: Any = read_config(file)
    assert values
    made = make_workspace(Settings(root=tmp_path, state_dir=tmp_path / "state", **values), "stdio")
    assert made.catalogue.offered(local_user())


@requirement("docs:snippets")
@pytest.mark.parametrize("snippet", snippets_in("yaml"), ids=str)
def test_project_files_are_read_by_us(snippet: Snippet, tmp_path: Path) -> None:
    folder = tmp_path / ".cellwright"
    folder.mkdir()
    (folder / "project.yaml").write_text(snippet.text, encoding="utf-8")
    project = ProjectFile(tmp_path).read()
    assert project is not None
    assert project.modules
    assert project.stack
