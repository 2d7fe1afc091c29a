"""Writes everything in docs/ that follows from the code, the snapshots of the tools, and the manifests. Run by `make docs`.

python docs/generate.py           write
python docs/generate.py --check   exit 1 if something is not up to date
"""

import json
import os
import sys
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, cast

from arguments import meaning_of
from diagrams import DIAGRAMS
from manifests import manifests
from pages import llms_txt, messages_page, skill

from cellwright.app.cli.main import make_parser
from cellwright.app.offers.catalogue import (
    ALL,
    COMPACT,
    CORE,
    CORE_TOOLS,
    DEFAULT,
    DEFAULT_TOOLSETS,
    TWINS,
    Catalogue,
    OfferedTool,
    Selection,
)
from cellwright.app.protocol.convert import describe
from cellwright.app.resources import FIXED as WORKSPACE_ADDRESSES
from cellwright.app.resources import all_codes
from cellwright.app.setting_spec import Spec
from cellwright.app.settings import SPECS, Settings
from cellwright.app.workspace import Workspace, local_user, make_workspace
from cellwright.context.resources import FIXED as CONTEXT_ADDRESSES
from cellwright.core.errors import INTERNAL_ERROR
from cellwright.core.resources import NOTEBOOK_VIEW, VIEW_MIME
from cellwright.core.text.budget import estimate_tokens
from cellwright.core.toolset import Effect, Toolset
from cellwright.scratch.model import CODES
from cellwright.scratch.resources import FIXED as PAD_ADDRESSES
from cellwright.system.folders import config_file, state_folder
from cellwright.thinking.resources import FIXED as THINKING_ADDRESSES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SNAPSHOTS = ROOT / "tests" / "snapshots"
NOTE = "<!-- Written by `make docs`. Change the code, not this page. -->\n"


def everything() -> Workspace:
    return make_workspace(Settings(toolsets=("all",)), "stdio")


def tool_json(offered: OfferedTool) -> dict[str, Any]:
    return describe(offered).model_dump(by_alias=True, exclude_none=True, mode="json")


def tool_text(offered: OfferedTool) -> str:
    return json.dumps(tool_json(offered), indent=1, ensure_ascii=False)


def settings_page() -> str:
    rows: list[str] = []
    for group in dict.fromkeys(spec.group for spec in SPECS):
        rows += [f"\n## {group}\n", "| flag, variable, file key | default | meaning |", "|---|---|---|"]
        rows += [_setting_row(spec) for spec in SPECS if spec.group == group]
    intro = (
        "# Settings\n\nDefaults are overridden by the configuration file, the file by the environment, the environment by flags.\n"
        "The file is TOML: the one named by `--config` or `CELLWRIGHT_CONFIG`, else the one below. A file in the workspace is never\n"
        "read: a cloned repository must not configure the server that works in it.\n"
        "Each setting has a flag, a variable and a key in that file.\n\n"
        "| | configuration file | state folder |\n|---|---|---|\n"
    )
    return NOTE + intro + "\n".join(_folder_rows()) + "\n" + "\n".join(rows) + "\n"


def _folder_rows() -> list[str]:
    """Where each system keeps things by default."""
    systems: list[tuple[str, str, PurePath, dict[str, str]]] = [
        ("Linux", "linux", PurePosixPath("~"), {}),
        ("macOS", "darwin", PurePosixPath("~"), {}),
        ("Windows", "win32", PureWindowsPath("~"), {"LOCALAPPDATA": "%LOCALAPPDATA%"}),
    ]
    return [
        f"| {name} | `{config_file(environ, home, platform)}` | `{state_folder(environ, home, platform)}` |"
        for name, platform, home, environ in systems
    ]


def _setting_row(spec: Spec) -> str:
    default = {
        "root": "the working directory; `~/notebooks` where that is [no workspace](systems.md#the-workspace-when-nobody-names-one)",
        "state_dir": "as above",
    }.get(spec.name)
    default = default or (f"`{spec.text_of(spec.default)}`" if spec.text_of(spec.default) else "none")
    choices = f" ({', '.join(spec.choices)})" if spec.choices else ""
    flag = f"{spec.flag}`, `--no-{spec.flag[2:]}" if spec.is_switch else spec.flag
    return f"| `{flag}`<br>`{spec.env}`<br>`{spec.name}` | {default} | {spec.help}{choices} |"


def _price(workspace: Workspace, group: str) -> str:
    """What every conversation pays for a group of tools, rounded so that a word more or less does not change the page."""
    catalogue = Catalogue(workspace.catalogue.toolsets, Selection((group,)))
    offered = catalogue.offered(local_user())
    listed = [describe(tool).model_dump(by_alias=True, exclude_none=True, mode="json") for tool in offered]
    tokens = estimate_tokens(json.dumps(listed, ensure_ascii=False, separators=(",", ":")))
    return f"| `{group}` | {len(offered)} | {round(tokens, -2):,} |\n"


def tools_page(workspace: Workspace) -> str:
    parts = [
        NOTE
        + "# Tools\n\nA toolset is switched on as a whole (`--toolsets`), a single tool with `--tools`. `default` is "
        + ", ".join(f"`{name}`" for name in DEFAULT_TOOLSETS)
        + "; `core` is "
        + ", ".join(f"`{name}`" for name in CORE_TOOLS)
        + "; `all` is everything, and `compact` everything but the tools whose work another one does: "
        + ", ".join(f"`{name}` (`{other}`)" for name, other in TWINS.items())
        + ".\n\n| `--toolsets` | tools | tokens of the catalogue, about |\n|---|--:|--:|\n"
        + "".join(_price(workspace, group) for group in (CORE, DEFAULT, COMPACT, ALL))
    ]
    for toolset, offered in _toolsets(workspace):
        parts.append(f"\n## [Toolset `{toolset.name}`](tools/{toolset.name}.md)\n\n{_sentence(toolset.summary)}\n\n")
        parts += ["| tool | effect | what it does |\n|---|---|---|\n"]
        parts += [f"| `{tool.name}` | {tool.tool.effect.value} | {tool.description} |\n" for tool in offered]
    return "".join(parts)


def toolset_pages(workspace: Workspace) -> dict[Path, str]:
    """A page for each toolset, with every argument."""
    return {
        DOCS / "tools" / f"{toolset.name}.md": NOTE
        + f"# Toolset `{toolset.name}`\n\n{_sentence(toolset.summary)} [All toolsets](../tools.md).\n"
        + "".join(_tool_section(tool) for tool in offered)
        for toolset, offered in _toolsets(workspace)
    }


def _toolsets(workspace: Workspace) -> list[tuple[Toolset, list[OfferedTool]]]:
    # One toolset may come in several pieces, each on a service of its own: the first says what it is for.
    named = {toolset.name: toolset for toolset in reversed(workspace.catalogue.toolsets)}
    everything = workspace.catalogue.offered(local_user())
    return [(one, [tool for tool in everything if tool.toolset == one.name]) for one in reversed(named.values())]


def _sentence(summary: str) -> str:
    return f"{summary[:1].upper()}{summary[1:]}."


def _tool_section(offered: OfferedTool) -> str:
    tool = offered.tool
    marks = [f"effect {tool.effect.value}", f"{estimate_tokens(tool_text(offered))} tokens"]
    marks += ["replaces or removes what was there"] if tool.destructive and tool.effect is Effect.WRITE else []
    marks += ["may become a task"] if tool.long else []
    marks += [f"also called {', '.join(f'`{alias}`' for alias in tool.aliases)}"] if tool.aliases else []
    lines = [f"\n## `{offered.name}`\n\n{offered.description}\n\n*{'; '.join(marks)}*\n"]
    properties: dict[str, Any] = offered.signature.input_schema.get("properties", {})
    required: list[str] = offered.signature.input_schema.get("required", [])
    if properties:
        lines.append("\n| argument | type | default | meaning |\n|---|---|---|---|\n")
        for name, schema in properties.items():
            default = "required" if name in required else f"`{json.dumps(schema.get('default'))}`"
            meaning = schema.get("description") or meaning_of(offered.name, name)
            lines.append(f"| `{name}` | {_kind(schema)} | {default} | {meaning} |\n")
    return "".join(lines)


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"] if value is not None)
    if "anyOf" in schema:
        return " or ".join(kind for option in schema["anyOf"] if (kind := _kind(option)))
    found: object = schema.get("type", "object")
    kinds = [kind for kind in (cast("list[str]", found) if isinstance(found, list) else [str(found)]) if kind != "null"]
    if kinds == ["array"]:
        return f"list of {_kind(schema.get('items', {}))}"
    return " or ".join(kinds)


SCRATCH_ERRORS = """
## The scratch tools

Their answers have one envelope with a closed list of codes, and the text is the envelope itself:
`{"ok": false, "error": {"code", "message", "error", "hint", "retryable", "details"}}`. `error` repeats `message`; `hint` says what
to do next; `retryable` says whether the same call may succeed later. Where the list has no name for what happened, `reason` is its
code in the table above, and the message says what happened: a database that does not answer is `INTERNAL_ERROR` with the reason
`UNAVAILABLE` and `retryable: true`; a full disk is `CAPACITY_LIMIT_REACHED` with the reason `STORAGE_FULL` and `retryable: true`.

The list: ENVELOPE.
"""


def _envelope_codes() -> str:
    return ", ".join(f"`{code}`" for code in sorted({*CODES, INTERNAL_ERROR}))


def errors_page() -> str:
    rows = [f"| `{one.code}` | {'yes' if one.retryable else 'no'} | {one.meaning} |" for one in all_codes().values()]
    intro = (
        "# Errors\n\nEvery failure of a tool has `isError: true`, a text `CODE: what happened; what to do next`, and as structured\n"
        'content `{"ok": false, "error": {"code", "message", "hint", "retryable", "details"}}`. A failure of a resource is a JSON-RPC\n'
        "error with the same in `data`. `cellwright://errors/{code}` gives the row of a code to an agent.\n\n"
        "| code | retry unchanged | meaning |\n|---|---|---|\n"
    )
    return NOTE + intro + "\n".join(rows) + "\n" + SCRATCH_ERRORS.replace("ENVELOPE", _envelope_codes())


FIXED = (*WORKSPACE_ADDRESSES, *PAD_ADDRESSES, *THINKING_ADDRESSES, *CONTEXT_ADDRESSES)
"""Every resource whose address is always the same."""


def resources_page(workspace: Workspace) -> str:
    rows = [f"| `{info.uri}` | {info.mime_type} | {info.description} |" for info in FIXED]
    rows += [
        f"| `{template.uri_template}` | {template.mime_type} | {template.description} |"
        for provider in workspace.resources
        for template in provider.templates()
    ]
    intro = (
        "# Resources\n\nListed from live state, read without side effects. Clients of 2026-07-28 watch them with\n"
        "`subscriptions/listen`, older ones with `resources/subscribe`; at most one notification a second goes out for each. A live\n"
        "notebook is told of when anybody changes it, people included.\n\n"
        "| address | type | what it is |\n|---|---|---|\n"
        f"| `{NOTEBOOK_VIEW}` | {VIEW_MIME} | A notebook, for hosts that show views (MCP Apps); named by tools, not listed |\n"
    )
    return NOTE + intro + "\n".join(rows) + "\n"


def command_line_page() -> str:
    os.environ["COLUMNS"] = "110"  # argparse wraps to the terminal's width, which must not matter here
    parser = make_parser()
    sections = [f"{NOTE}# Command line\n\n```text\n{parser.format_help().rstrip()}\n```\n"]
    for command in parser.commands():
        one = parser.command(command)
        sections.append(f"\n## cellwright {command}\n\n```text\n{one.format_help().rstrip()}\n```\n")
    return "".join(sections)


def generated() -> dict[Path, str]:
    workspace = everything()
    files = {
        DOCS / "settings.md": settings_page(),
        DOCS / "tools.md": tools_page(workspace),
        **toolset_pages(workspace),
        DOCS / "errors.md": errors_page(),
        DOCS / "messages.md": NOTE + messages_page(ROOT / "src" / "cellwright"),
        DOCS / "resources.md": resources_page(workspace),
        DOCS / "command-line.md": command_line_page(),
        **{DOCS / "img" / f"way-{way}.svg": diagram.svg() for way, diagram in DIAGRAMS.items()},
        ROOT / "skills" / "cellwright" / "SKILL.md": skill(workspace),
        **manifests(skill(workspace), workspace.instructions),
    }
    files[DOCS / "llms.txt"] = llms_txt(DOCS, files)
    for offered in workspace.catalogue.offered(local_user()):
        body = {"tokens": estimate_tokens(tool_text(offered)), "tool": tool_json(offered)}
        files[SNAPSHOTS / f"{offered.name}.json"] = json.dumps(body, indent=1, ensure_ascii=False) + "\n"
    return files


def main() -> int:
    wanted = generated()
    stale = [path for path in (*SNAPSHOTS.glob("*.json"), *(DOCS / "tools").glob("*.md")) if path not in wanted]
    changed = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        for path in (*changed, *stale):
            sys.stderr.write(f"not up to date: {path.relative_to(ROOT)}; run make docs\n")
        return 1 if changed or stale else 0
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
    for path in stale:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
