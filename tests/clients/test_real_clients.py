"""The real Claude Code, Gemini CLI and Codex, after `cellwright install`: what each of them says of the server.

None of them has an account here, so no model is asked: Claude Code and Gemini connect when they list their servers, Codex when a session
begins.
"""

import json
import tomllib
from pathlib import Path

import pytest

from clients.conftest import CELLWRIGHT, CODEX_CONFIG, Desk
from requirements import requirement

pytestmark = pytest.mark.timeout(600)


@requirement("install:real:claude-code")
def test_claude_code_connects(desk: Desk) -> None:
    assert "No MCP servers configured" in desk.claude("mcp", "list")
    desk.cellwright("install", "claude-code", "--toolsets", "all", "--read-only")
    listed = desk.claude("mcp", "list")
    assert f"cellwright: {CELLWRIGHT} --toolsets all --read-only - ✔ Connected" in listed
    assert "Scope: User config" in desk.claude("mcp", "get", "cellwright")
    desk.cellwright("install", "claude-code", "--remove")
    assert "No MCP servers configured" in desk.claude("mcp", "list")


@requirement("install:real:claude-code", "install:shared")
def test_claude_code_connects_in_a_project_that_was_approved(desk: Desk) -> None:
    desk.cellwright("install", "claude-code", "--project", ".")
    assert "Pending approval" in desk.claude("mcp", "list")
    approval = desk.project / ".claude" / "settings.local.json"
    approval.parent.mkdir()
    approval.write_text(json.dumps({"enabledMcpjsonServers": ["cellwright"]}), encoding="utf-8")
    state = desk.home / ".claude.json"
    known = json.loads(state.read_text(encoding="utf-8"))
    known.setdefault("projects", {}).setdefault(str(desk.project), {})["hasTrustDialogAccepted"] = True
    state.write_text(json.dumps(known), encoding="utf-8")
    assert "cellwright: uvx cellwright - ✔ Connected" in desk.claude("mcp", "list")
    assert desk.started_in == [str(desk.project)]


def be_patient(settings: Path) -> None:
    """Gemini's list gives a server five seconds, which a busy machine may need; its own setting makes it wait longer."""
    value = json.loads(settings.read_text(encoding="utf-8"))
    value["mcpServers"]["cellwright"]["timeout"] = 60_000
    settings.write_text(json.dumps(value), encoding="utf-8")


@requirement("install:real:gemini")
def test_gemini_connects_in_a_trusted_folder_only(desk: Desk) -> None:
    assert "No MCP servers configured" in desk.gemini("mcp", "list")
    said = desk.cellwright("install", "gemini")
    assert "in a folder that you trust" in said
    elsewhere = desk.gemini("mcp", "list")
    assert "this folder is untrusted" in elsewhere
    assert f"cellwright: {CELLWRIGHT}  (stdio) - Disabled" in elsewhere
    desk.trust(desk.project)
    be_patient(desk.home / ".gemini" / "settings.json")
    assert f"cellwright: {CELLWRIGHT}  (stdio) - Connected" in desk.gemini("mcp", "list")


@requirement("install:real:gemini", "install:shared")
def test_gemini_connects_in_a_project(desk: Desk) -> None:
    desk.trust(desk.project)
    desk.cellwright("install", "gemini", "--project", ".")
    be_patient(desk.project / ".gemini" / "settings.json")
    assert "cellwright: uvx cellwright (stdio) - Connected" in desk.gemini("mcp", "list")
    assert desk.started_in == [str(desk.project)]


def wait_longer(config: Path) -> None:
    """Codex gives a server ten seconds; its own setting makes it wait longer."""
    text = config.read_text(encoding="utf-8").replace(
        "[mcp_servers.cellwright]\n", "[mcp_servers.cellwright]\nstartup_timeout_sec = 60\n"
    )
    assert tomllib.loads(text)["mcp_servers"]["cellwright"]["startup_timeout_sec"] == 60
    config.write_text(text, encoding="utf-8")


@requirement("install:real:codex")
def test_codex_shows_the_entry_and_starts_it(desk: Desk) -> None:
    desk.cellwright("install", "codex", "--read-only")
    assert (desk.home / ".codex" / "config.toml").read_text(encoding="utf-8").startswith(CODEX_CONFIG)
    said = desk.codex("mcp", "get", "cellwright", "--json")
    shown = json.loads(said[said.index("{") : said.rindex("\n}") + 2])
    assert (shown["enabled"], shown["transport"]["command"], shown["transport"]["args"]) == (
        True,
        str(CELLWRIGHT),
        ["--read-only"],
    )
    wait_longer(desk.home / ".codex" / "config.toml")
    with desk.codex_session() as session:
        session.call("thread/start", {"cwd": str(desk.project)})
        assert session.started() | {"threadId": ""} == {
            "threadId": "",
            "name": "cellwright",
            "status": "ready",
            "error": None,
            "failureReason": None,
        }
        (server,) = session.call("mcpServerStatus/list", {})["data"]
        assert server["serverInfo"]["title"] == "cellwright"
        assert "list_nbs" in server["tools"]
        assert "edit_nb_cell" not in server["tools"], "--read-only was passed on"


@requirement("install:real:codex", "install:shared")
def test_codex_starts_a_projects_server_in_the_project(desk: Desk) -> None:
    desk.cellwright("install", "codex", "--project", ".")
    config = desk.home / ".codex" / "config.toml"
    trusted = f'\n[projects."{desk.project}"]\ntrust_level = "trusted"\n'
    config.write_text(CODEX_CONFIG + trusted, encoding="utf-8")
    wait_longer(desk.project / ".codex" / "config.toml")
    with desk.codex_session() as session:
        session.call("thread/start", {"cwd": str(desk.project)})
        assert session.started()["status"] == "ready"
    assert desk.started_in == [str(desk.project)]
