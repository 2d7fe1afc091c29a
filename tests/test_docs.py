"""Documentation as a test: what there is, is written down, and what is written down, is."""

import json
import re
import runpy
import subprocess
import sys
import threading
import tomllib
from collections.abc import Generator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from cellwright import __version__
from cellwright.app.cli.main import make_parser
from cellwright.app.protocol.convert import describe
from cellwright.app.settings import SPECS, Settings
from cellwright.app.workspace import INSTRUCTIONS, local_user, make_workspace
from cellwright.core.errors import INTERNAL_ERROR, error_types
from cellwright.core.text.budget import estimate_tokens
from cellwright.core.text.fitting import compact_json
from cellwright.scratch.validation.languages import LANGUAGES
from locations import ROOT
from requirements import requirement
from support import clean_environ

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


LINK = re.compile(r'\]\(([^)\s]+)|\b(?:src|srcset|href)="([^"\s]+)')
ELSEWHERE = re.compile(r"https?:|mailto:|cursor:|vscode:")
FENCED = re.compile(r"^(```+).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)


def written_pages() -> list[Path]:
    others = (ROOT / "bench" / "README.md", *(ROOT / "skills").rglob("*.md"))
    return [*ROOT.glob("*.md"), *others, *(page for page in DOCS.rglob("*.md") if not page.name.endswith(".src.md"))]


def anchors(page: Path) -> set[str]:
    """The headings of a page as addresses, as the readers of Markdown make them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


@requirement("docs:links")
@pytest.mark.parametrize("page", written_pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_and_picture_leads_somewhere(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    targets = [markdown or html for markdown, html in LINK.findall(text)]
    for target in targets:
        if ELSEWHERE.match(target):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), f"{target} is not there"
        assert not anchor or anchor in anchors(file), f"{name} has no heading {anchor}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does: a link or an anchor that leads nowhere ends it."""
    folder = tmp_path_factory.mktemp("site")
    command = [Path(sys.executable).with_name("mkdocs"), "build", "--strict", "--quiet", "--site-dir", folder]
    environ = clean_environ(NO_MKDOCS_2_WARNING="1", PYTHONPATH=str(DOCS))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150, cwd=ROOT, env=environ)
    assert done.returncode == 0, done.stderr
    return folder


@requirement("docs:site")
@pytest.mark.timeout(200)
def test_every_page_is_in_the_site_and_leads_to_every_other(site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    linked = set(re.findall(r'href="([^"#]+\.html)"', start))
    pages = {page.relative_to(DOCS) for page in DOCS.rglob("*.md") if not page.name.endswith(".src.md")}
    assert {page.with_suffix(".html").as_posix() for page in pages} - linked == set()
    assert [page for page in pages if not (site / page).is_file()] == [], "the Markdown for agents is beside each page"


@requirement("docs:site")
@pytest.mark.timeout(200)
def test_the_site_can_be_searched_copied_from_and_read_without_the_network(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert any("execute_nb_cells" in entry["text"] for entry in index["docs"])
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "content.code.copy" in text
        assert 'class="mermaid"' not in text
        fetched = re.findall(
            r'<(?:script|img|iframe)[^>]+src="([^"]+)"|<link[^>]+rel="stylesheet"[^>]+href="([^"]+)"', text
        )
        assert [address for pair in fetched for address in pair if address.startswith(("http", "//"))] == []


@pytest.fixture(scope="module")
def served(site: Path) -> Generator[str]:
    """The site over HTTP, as people read it."""
    handler = partial(QuietHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        del format, args


@requirement("docs:site:phone", "docs:site")
@pytest.mark.timeout(300)
@pytest.mark.long(25)
def test_every_page_can_be_read_on_a_phone(site: Path, served: str) -> None:
    from browser import browser  # noqa: PLC0415 - a browser is not on every machine that runs this file

    with browser() as opened:
        page = opened.new_page(viewport={"width": 390, "height": 844})
        answers: list[tuple[int, str]] = []
        page.on("response", lambda response: answers.append((response.status, response.url)))
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        # Every page reads in what is searched, the same each time, which takes longer than all else of it; the last one really does.
        page.route("**/search_index.json", lambda route: route.fulfill(json=NOTHING_TO_FIND))
        for file in sorted(site.rglob("*.html")):
            if file.name == "404.html":  # its addresses are those of the place where the site is published
                continue
            page.goto(f"{served}/{file.relative_to(site).as_posix()}")
            page.wait_for_function(COPY_BUTTONS)
            assert page.evaluate(ON_A_PHONE) == {"beside": 0, "title": True, "missing": [], "broken": []}, file.name
        page.unroute_all()
        page.goto(f"{served}/index.html", wait_until="networkidle")
        assert [url for url in asked if not url.startswith((served, "data:", "blob:"))] == []
        assert [answer for answer in answers if answer[0] >= 400] == []


NOTHING_TO_FIND: dict[str, Any] = {
    "config": {"lang": ["en"], "separator": "[\\s\\-]+", "pipeline": [], "fields": {}},
    "docs": [],
}
COPY_BUTTONS = "document.querySelectorAll('pre > code').length === document.querySelectorAll('.md-code__button').length"
ON_A_PHONE = """() => {
  const root = document.documentElement;
  const title = document.querySelector("h1").getBoundingClientRect();
  const flags = [...document.querySelectorAll("p > code, li > code, td > code")].filter(
    code => /^-*[\\w.]+$/.test(code.textContent) && code.textContent.length < 30);
  return {
    beside: root.scrollWidth - root.clientWidth,
    title: title.top > 0 && title.bottom < innerHeight,
    missing: [...document.images].filter(image => image.complete && !image.naturalWidth).map(image => image.src),
    broken: flags.filter(code => code.getClientRects().length > 1).map(code => code.textContent),
  };
}"""
"""What a reader notices: anything beside the screen, the title in sight, pictures, names of one word broken in two."""


@requirement("docs:site")
@pytest.mark.timeout(120)
def test_the_search_of_the_site_finds(served: str) -> None:
    from browser import browser  # noqa: PLC0415

    with browser() as opened:
        page = opened.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{served}/index.html", wait_until="networkidle")
        page.locator("input.md-search__input").press_sequentially("KERNEL_NOT_STARTED")
        # Results come while the word is typed, and go again.
        page.locator('.md-search-result__link[href*="errors.html"]').first.wait_for()


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


@requirement("docs:numbers")
def test_numbers_that_are_told_are_those_of_the_code() -> None:
    readme, changes = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CHANGELOG.md"))
    assert re.search(rf"^## {re.escape(__version__)}\b", changes, re.MULTILINE)
    toolsets = make_workspace(Settings(toolsets=("all",)), "stdio").catalogue.toolsets
    told = {
        r"Live notebooks: (\d+) tools": ("notebooks", "editing", "proposals", "kernels"),
        r"Text documents and files: (\d+) tools": ("documents",),
        r"current notebook by their (\d+) names": ("cells",),
        r"Scratch pads: (\d+) tools": ("scratch", "scratch_plus"),
        r"Thinking notebooks: (\d+) tools": ("thinking",),
    }
    for sentence, names in told.items():
        tools = [tool for toolset in toolsets if toolset.name in names for tool in toolset.tools]
        aliases = sum(len(tool.aliases) for tool in tools) if names == ("cells",) else 0
        assert re.findall(sentence, changes) == [str(len(tools) + aliases)], sentence
    checked = [language for language in LANGUAGES if language.checker]
    assert f"validation in {len(checked)} languages" in changes
    assert f"{sum(1 for language in checked if language.checker == 'syntax')} more languages" in readme
    sizes = [catalogue_tokens(Settings(toolsets=(name,))) for name in ("all", "default")]
    assert "at three times the tokens of the default" in readme
    assert 2.5 < sizes[0] / sizes[1] < 3.5


def catalogue_tokens(settings: Settings) -> int:
    offered = make_workspace(settings, "stdio").catalogue.offered(local_user())
    return estimate_tokens(compact_json([describe(tool).model_dump(mode="json", by_alias=True) for tool in offered]))


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
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!_-]+( ; [^;]+)?", line) for line in lines)
    assert not [line for line in lines if line.lower().startswith("torch")]
    lock = (ROOT / "tests" / "conformance" / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock


def test_the_tokens_of_instructions_name_a_tool_that_exists() -> None:
    workspace = make_workspace(Settings(), "stdio")
    names = {tool.name for tool in workspace.catalogue.offered(local_user())}
    assert {"workspace_status", "workspace_doctor"} <= names


@requirement("docs:arguments")
def test_words_for_one_tool_are_about_an_argument_of_it() -> None:
    catalogue = make_workspace(Settings(toolsets=("all",)), "stdio").catalogue
    offered = {one.name: one.signature.input_schema.get("properties", {}) for one in catalogue.offered(local_user())}
    words = runpy.run_path(str(DOCS / "arguments.py"))["OF_TOOLS"]
    for key in words:
        tool, _, argument = key.partition(".")
        assert argument in offered[tool], key
        assert "description" not in offered[tool][argument], f"the schema of {key} has words of its own"
    pads = (DOCS / "tools" / "scratch.md").read_text(encoding="utf-8")
    (cells,) = re.findall(r"^\| `cells` \|.*$", pads, re.MULTILINE)
    assert "`language` and `content`" in cells
    assert "next_offset" not in pads


@requirement("docs:languages")
def test_the_page_about_pads_knows_what_each_language_is_told() -> None:
    page = (DOCS / "scratch.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| (`invalid`|a `warning`)(.*)\|$", page, re.MULTILINE)
    assert len(rows) == 3
    listed = [len(re.split(r", (?:and )?| and ", names)) for names, _, _ in rows]
    known = [language for language in LANGUAGES if language.checker]
    certain = [
        language
        for language in known
        if language.checker not in ("syntax", "markdown_text")
        or any(grammar.severity == "error" for grammar in language.grammars)
    ]
    partly = [
        language
        for language in known
        if language not in certain and any(grammar.brackets or grammar.endings for grammar in language.grammars)
    ]
    # JSON Schema is no language of its own.
    assert listed[:2] == [len(certain) + 1, len(partly)]
    assert f"Markdown, TSX, SQL and {len(known) - len(certain) - len(partly) - 3} more" in page
