"""Documentation as a test: what there is, is written down, and what is written down, is."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from cellwright import __version__
from cellwright.app.cli import make_parser
from cellwright.app.clients import CLIENTS
from cellwright.app.settings import SPECS, Settings
from cellwright.app.workspace import INSTRUCTIONS, local_user, make_workspace
from cellwright.core.errors import INTERNAL_ERROR, error_types
from requirements import requirement

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LONGEST_SKILL = 70
MOST_OF_A_SKILL = 1_024


def documentation() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))


@requirement("docs:complete")
def test_everything_public_is_in_the_documentation() -> None:
    text = documentation()
    workspace = make_workspace(Settings(toolsets=("all",)), "stdio")
    tools = [tool for toolset in workspace.catalogue.toolsets for tool in toolset.tools]
    wanted = {
        *(f"`{toolset.name}`" for toolset in workspace.catalogue.toolsets),
        *(f"`{name}`" for tool in tools for name in (tool.name, *tool.aliases)),
        *(f"`{spec.flag}`" for spec in SPECS),
        *(f"`{spec.env}`" for spec in SPECS),
        *(f"`{kind.code}`" for kind in error_types()),
        f"`{INTERNAL_ERROR}`",
        *(f"`{template.uri_template}`" for provider in workspace.resources for template in provider.templates()),
        "`cellwright://status`",
    }
    assert {name for name in wanted if name not in text} == set()


@requirement("docs:complete")
def test_every_flag_of_every_command_is_in_the_documentation() -> None:
    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    parser = make_parser()
    for command in parser.commands():
        usage = parser.command(command).format_help()
        for flag in re.findall(r"--[a-z][a-z-]+", usage):
            assert flag in page, f"{command} {flag}"


@requirement("docs:generated")
def test_generated_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, DOCS / "generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*DOCS.rglob("*.md"), ROOT / "README.md"]:
        for target in re.findall(r"\]\((?!https?:|#|cursor:|vscode:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@requirement("docs:site")
def test_everything_in_the_site_leads_somewhere(tmp_path: Path) -> None:
    site = tmp_path / "site"
    subprocess.run([sys.executable, DOCS / "site.py", site], check=True, timeout=60)
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    for page, text in pages.items():
        for target in re.findall(r'(?:href|src)="([^"]+)"', text):
            address, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            found = (page.parent / address).resolve() if address else page
            assert found.is_file(), f"{page.name}: {target}"
            assert not anchor or f'id="{anchor}"' in pages[found], f"{page.name}: {target}"
    toolsets = make_workspace(Settings(toolsets=("all",)), "stdio").catalogue.toolsets
    wanted = {
        *(f"tools/{toolset.name}.html" for toolset in toolsets),
        *(f"clients/{client}.html" for client in CLIENTS),
    }
    wanted |= {f"running/{way}.html" for way in ("stdio", "http", "extension", "hub")}
    linked = set(re.findall(r'href="([^"#]+)"', pages[site / "index.html"]))
    assert wanted - linked == set()
    assert {page.relative_to(site).as_posix() for page in pages} - linked == set()


@requirement("docs:messages")
@pytest.mark.parametrize(
    "message",
    [
        "unknown tool …",
        "the token lacks the scope … that … needs",
        "listening on … without a token would let everyone on the network in",
        "cannot listen on …:…: …",
    ],
)
def test_a_message_is_found_by_its_words(message: str) -> None:
    assert f"| `{message}` |" in (DOCS / "messages.md").read_text(encoding="utf-8")


@requirement("docs:skill")
def test_the_skill_and_llms_txt_are_made_from_the_same_source() -> None:
    skill = (ROOT / "skills" / "cellwright" / "SKILL.md").read_text(encoding="utf-8")
    _, head, body = skill.split("---\n", 2)
    fields = yaml.safe_load(head)
    assert fields["name"] == "cellwright"
    assert len(fields["description"]) <= MOST_OF_A_SKILL
    assert len(skill.splitlines()) <= LONGEST_SKILL
    assert INSTRUCTIONS in " ".join(body.split())
    listed = (DOCS / "llms.txt").read_text(encoding="utf-8")
    assert [
        page for page in DOCS.rglob("*.md") if f"]({page.relative_to(DOCS)})" not in listed and ".src" not in page.name
    ] == []


@requirement("registry:server-json")
def test_server_json_agrees_with_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    made = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    assert made["version"] == made["packages"][0]["version"] == __version__
    assert made["packages"][0]["identifier"] == project["name"]
    assert len(made["description"]) <= 100
    assert f"mcp-name: {made['name']}" in (ROOT / "README.md").read_text(encoding="utf-8")
    secret = {one["name"] for one in made["packages"][0]["environmentVariables"] if one.get("isSecret")}
    assert secret == {"CELLWRIGHT_JUPYTER_TOKEN"}


@requirement("readme:two-commands")
def test_the_readme_shows_the_two_commands() -> None:
    first_screen = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:45])
    assert "make run" in first_screen
    assert "make test" in first_screen
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("run", "test", "install", "lint", "bench", "docs"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@requirement("package:constraints")
def test_pinned_versions_are_plain() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!_-]+", line) for line in lines)
    assert not [line for line in lines if line.lower().startswith("torch")]
    lock = (ROOT / "tests" / "conformance" / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock


def test_the_tokens_of_instructions_name_a_tool_that_exists() -> None:
    workspace = make_workspace(Settings(), "stdio")
    names = {tool.name for tool in workspace.catalogue.offered(local_user())}
    assert {"workspace_status", "workspace_doctor"} <= names
