"""The plugin, the extension and the bundle, as the real programs see them: installed from this repository, and started."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import uv
from mcp import Client, StdioServerParameters

from cellwright import __version__
from clients.conftest import Desk
from locations import ROOT
from requirements import requirement

pytestmark = [pytest.mark.timeout(600), pytest.mark.long(10)]

BUNDLE = ROOT / "distribution" / "mcpb"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """What of this repository the programs look at, as they would clone it."""
    clone = tmp_path / "repository"
    for name in (".claude-plugin", ".agents", "plugins", "skills"):
        shutil.copytree(ROOT / name, clone / name)
    shutil.copy(ROOT / "gemini-extension.json", clone)
    return clone


@requirement("package:claude-plugin")
def test_claude_code_installs_the_plugin_and_connects(desk: Desk, repository: Path) -> None:
    assert "Validation passed" in desk.claude("plugin", "validate", "--strict", str(repository))
    plugin = repository / "plugins" / "cellwright"
    assert "Validation passed" in desk.claude("plugin", "validate", "--strict", str(plugin))
    desk.claude("plugin", "marketplace", "add", str(repository))
    desk.claude("plugin", "install", "cellwright@cellwright")
    details = desk.claude("plugin", "details", "cellwright@cellwright")
    assert f"cellwright {__version__}" in details
    assert "Skills (1)  cellwright" in details
    assert "MCP servers (1)  cellwright" in details
    assert "plugin:cellwright:cellwright: uvx cellwright - ✔ Connected" in desk.claude("mcp", "list")
    assert desk.started_in == [str(desk.project)]


def started(desk: Desk) -> dict[str, Any]:
    with desk.codex_session() as session:
        session.call("thread/start", {"cwd": str(desk.project)})
        return session.started()


@requirement("package:codex-plugin")
def test_codex_installs_the_plugin_and_starts_it(desk: Desk, repository: Path) -> None:
    desk.codex("plugin", "marketplace", "add", str(repository))
    desk.codex("plugin", "add", "cellwright@cellwright")
    assert "installed, enabled" in desk.codex("plugin", "list")
    kept = desk.home / ".codex" / "plugins" / "cache" / "cellwright" / "cellwright" / __version__
    assert (kept / "skills" / "cellwright" / "SKILL.md").is_file()
    # Codex gives a plugin's server ten seconds, which a busy machine may need: then it is tried again, in a new session.
    states = (started(desk) for _ in range(6))
    assert next((state for state in states if state["status"] == "ready"), None) is not None
    assert set(desk.started_in) == {str(desk.project)}


@requirement("package:gemini-extension")
def test_gemini_installs_the_extension_and_connects(desk: Desk, repository: Path) -> None:
    desk.trust(desk.project, repository)
    assert "successfully validated" in desk.gemini("extensions", "validate", str(repository))
    desk.gemini("extensions", "install", str(repository), "--consent")
    listed = desk.gemini("extensions", "list")
    assert f"cellwright ({__version__})" in listed
    assert "GEMINI.md" in listed
    assert "cellwright (from cellwright): uvx cellwright (stdio) - Connected" in desk.gemini("mcp", "list")
    assert set(desk.started_in) == {str(desk.project)}


@requirement("package:mcpb")
def test_the_bundle_is_valid_and_packed(desk: Desk, tmp_path: Path) -> None:
    assert "Manifest schema validation passes" in desk.mcpb("validate", str(BUNDLE / "manifest.json"))
    packed = tmp_path / "cellwright.mcpb"
    desk.mcpb("pack", str(BUNDLE), str(packed))
    with zipfile.ZipFile(packed) as archive:
        assert sorted(archive.namelist()) == ["icon.png", "manifest.json", "pyproject.toml", "server.py"]


@requirement("package:mcpb")
@pytest.mark.anyio
async def test_what_the_bundle_starts_is_this_server(tmp_path: Path) -> None:
    """Without uv, which would fetch the package that the bundle names: the same file, the same arguments."""
    parameters = StdioServerParameters(
        command=sys.executable, args=[str(BUNDLE / "server.py"), "--root", str(tmp_path), "--toolsets", "default"]
    )
    async with Client(parameters, cache=None) as client:
        assert "list_nbs" in {tool.name for tool in (await client.list_tools()).tools}


@requirement("package:mcpb")
def test_uv_runs_the_bundle_with_the_package_that_it_names(wheel: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(BUNDLE, tmp_path / "bundle")
    command = [uv.find_uv_bin(), "run", "--quiet", "--find-links", wheel.parent, "--directory", copied, "server.py"]
    ended = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout.strip() == f"cellwright {__version__}"
