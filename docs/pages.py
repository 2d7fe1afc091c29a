"""The pages that follow from the code, beyond plain tables: messages, llms.txt, the skill for agents."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

from messages import messages

from cellwright.app.offers.catalogue import DEFAULT_TOOLSETS
from cellwright.app.workspace import Workspace

SUMMARY = (
    "One MCP server that gives an AI agent a whole notebook workspace: live Jupyter notebooks edited together with people, durable scratch "
    "pads, thinking notebooks from reasoning templates, and what is known of a project."
)
WHEN = (
    "Work in notebooks through the cellwright MCP server: live Jupyter notebooks with people in them, durable pads, thinking notebooks, "
    "project memory. Use when tools named workspace_status, read_nb_cells, scratch_create, notebook_create or context_search are there."
)
SECTIONS = {
    "Start": (
        "index.md",
        "clients.md",
        "clients",
        "running.md",
        "running",
        "systems.md",
        "command-line.md",
        "settings.md",
    ),
    "What it does": (
        "notebooks.md",
        "saving.md",
        "python.md",
        "proposals.md",
        "stale.md",
        "reproducing.md",
        "scratch.md",
        "thinking.md",
        "thinking",
        "context.md",
        "search.md",
        "convert.md",
        "prompts.md",
        "page.md",
    ),
    "Reference": ("tools.md", "tools", "resources.md", "errors.md", "messages.md"),
    "Trust and design": ("security.md", "design.md", "releasing.md"),
}
"""The order of the site and of llms.txt: pages, and folders for all pages in them."""


SAID_THEN = "the message goes on with what fits this case"
"""For a remedy that is put together when it is needed."""


def messages_page(source: Path) -> str:
    """Every refusal by its words."""
    intro = (
        "# By exact message\n\nEvery sentence with which cellwright refuses something, and what to do. `…` stands for what differs each\n"
        "time: a name, a path, a number. The [code](errors.md) before a message says of what kind it is.\n"
    )
    parts = [intro]
    code = ""
    for one in messages(source):
        if one.code != code:
            code = one.code
            parts.append(f"\n## `{code}`\n\n| message | what to do |\n|---|---|\n")
        parts.append(f"| {_exact(one.text)} | {_plain(one.hint or SAID_THEN)} |\n")
    return "".join(parts)


def _exact(text: str) -> str:
    """Words as they are, in a table."""
    return "`" + " ".join(text.split()).replace("`", "'").replace("|", "\\|") + "`"


def _plain(text: str) -> str:
    """Words to be read: what Markdown would take for its own is escaped."""
    return re.sub(r"([\\*_\[\]<>|])", r"\\\1", " ".join(text.split()))


def pages(docs: Path) -> list[Path]:
    """Every page. Notebooks in Markdown are what some of them show, not pages."""
    return sorted(page for page in docs.rglob("*.md") if not page.name.endswith(".src.md"))


def pages_in_order(docs: Path, known: Iterable[Path]) -> dict[str, list[Path]]:
    """The pages of each section."""
    there = sorted(known)
    return {
        section: [page for name in names for page in there if docs / name in (page, page.parent)]
        for section, names in SECTIONS.items()
    }


def title_of(text: str) -> str:
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    return heading[1].replace("`", "") if heading else ""


def first_sentence(text: str) -> str:
    """What a page says of itself: the first sentence of its prose."""
    body = re.sub(r"<!--.*?-->|^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    body = re.sub(r"^[#|>!].*$", "", body, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", body):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
        if " " in plain and not plain.startswith(("- ", "* ", "1.")):
            return re.split(r"(?<=\.)\s(?=[A-Z`])", plain)[0].rstrip(":")
    return ""


def llms_txt(docs: Path, generated: dict[Path, str]) -> str:
    """The site for a model: what there is to read, a line each."""
    lines = ["# cellwright", "", f"> {SUMMARY}", ""]
    texts = {page: page.read_text(encoding="utf-8") for page in pages(docs)}
    texts |= {page: text for page, text in generated.items() if page.is_relative_to(docs)}
    for section, listed in pages_in_order(docs, texts).items():
        lines += [f"## {section}", ""]
        for page in listed:
            said = first_sentence(texts[page])
            lines.append(f"- [{title_of(texts[page])}]({page.relative_to(docs)}){f': {said}' if said else ''}")
        lines.append("")
    return "\n".join(lines)


def skill(workspace: Workspace) -> str:
    """How an agent works here, in one page: from the same sentences that a client gets when it connects."""
    toolsets = {toolset.name: toolset for toolset in reversed(workspace.catalogue.toolsets)}
    rows = [
        f"| `{toolset.name}`{'' if toolset.name in DEFAULT_TOOLSETS else ' (`--toolsets`)'} | {toolset.summary} |"
        for toolset in reversed(toolsets.values())
    ]
    prompts = [f"- `{prompt.name}`: {prompt.description}" for prompt in workspace.prompts]
    return "\n".join(
        [
            "---",
            "name: cellwright",
            f"description: {json.dumps(WHEN)}",
            "---",
            "",
            "# Working in notebooks with cellwright",
            "",
            *re.split(r"(?<=\.) (?=[A-Z])", workspace.instructions),
            "",
            "## Habits",
            "",
            "- Look before you read, read before you write: an outline costs a tenth of the cells.",
            "- Name cells by id or index; both mean what you were last shown. On CONFLICT look at the diff and keep what the person wrote.",
            "- A new notebook: `create_nb` with its first cells, then `execute_nb_cells` with `cells: all`; `keep_going` runs past errors.",
            "- Outputs may be stale: the outline says which; `execute_nb_cells` with `cells: stale` runs what has to be run.",
            "- Done with a notebook for good? `shutdown_nb_kernel`: a kernel keeps its memory until somebody ends it.",
            "- A cell that raised is `isError: true`, whatever else the result says. Do not report success then.",
            "- Long runs: the result says `running` and has an `execution_id`. `get_execution` for the rest; do not run it twice.",
            "- Not sure whether a change is wanted? `propose: true` makes it a proposal that a person merges.",
            "- Keep what you will need again: facts about the project with `context_record`, working notes in a pad.",
            "- Results are short and name what was left out. Ask for the rest only if you need it.",
            "",
            "## Toolsets",
            "",
            "| toolset | for |",
            "|---|---|",
            *rows,
            "",
            "## Prompts",
            "",
            *prompts,
            "",
        ]
    )
