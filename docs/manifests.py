"""Every manifest by which cellwright is distributed, from pyproject.toml, the settings and the clients. Written by generate.py."""

import json
import tomllib
from pathlib import Path
from typing import Any

from cellwright import __version__
from cellwright.app.clients.catalogue import CLIENTS, NAME, example, server
from cellwright.app.setting_spec import Spec
from cellwright.app.settings import SPECS

ROOT = Path(__file__).parent.parent
PLUGIN = ROOT / "plugins" / NAME
BUNDLE = ROOT / "distribution" / "mcpb"
REGISTRY_NAME = "io.github.cellwright/cellwright"
REGISTRY_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
SHORT = "A whole notebook workspace for an AI agent: live Jupyter, scratch and thinking notebooks."
"""For places that show a hundred characters at most."""
IN_REGISTRY = ("root", "toolsets", "read_only", "jupyter_url", "jupyter_token")
"""The settings that a client should offer when it installs from a registry."""
FORMATS = {"a path": "filepath", "true or false": "boolean", "a whole number": "number", "a number": "number"}
CATEGORY = "Developer Tools"

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY: str = PROJECT["urls"]["Repository"]
RAW = REPOSITORY.replace("https://github.com/", "https://raw.githubusercontent.com/")
AUTHOR = {"name": PROJECT["authors"][0]["name"], "url": REPOSITORY}


def manifests(skill: str, instructions: str) -> dict[Path, str]:
    """Each file with its text. `skill` and `instructions` are what agents are told."""
    documents: dict[Path, object] = {
        ROOT / "server.json": registry(),
        ROOT / "gemini-extension.json": gemini_extension(),
        ROOT / ".claude-plugin" / "marketplace.json": claude_marketplace(),
        ROOT / ".agents" / "plugins" / "marketplace.json": codex_marketplace(),
        PLUGIN / ".claude-plugin" / "plugin.json": plugin(),
        PLUGIN / ".codex-plugin" / "plugin.json": codex_plugin(),
        PLUGIN / ".mcp.json": {"mcpServers": {NAME: _command("claude-code")}},
        BUNDLE / "manifest.json": bundle(),
    }
    return {
        **{path: json.dumps(value, indent=2, ensure_ascii=False) + "\n" for path, value in documents.items()},
        PLUGIN / "skills" / NAME / "SKILL.md": skill,
        PLUGIN / "GEMINI.md": f"# {NAME}\n\n{instructions}\n",
        BUNDLE / "pyproject.toml": _bundle_project(),
    }


def _command(client: str) -> dict[str, Any]:
    """How everybody starts cellwright, as this client reads it."""
    shape = server(CLIENTS[client], example(CLIENTS[client]))
    return {"command": shape["command"], "args": shape["args"]}


def registry() -> dict[str, Any]:
    """The entry in the registry of MCP servers."""
    package = {
        "registryType": "pypi",
        "identifier": PROJECT["name"],
        "version": __version__,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "environmentVariables": [_variable(spec) for spec in SPECS if spec.name in IN_REGISTRY],
    }
    return {
        "$schema": REGISTRY_SCHEMA,
        "name": REGISTRY_NAME,
        "title": NAME,
        "description": SHORT,
        "version": __version__,
        "repository": {"url": REPOSITORY, "source": "github"},
        "websiteUrl": PROJECT["urls"]["Homepage"],
        "icons": [
            {"src": f"{RAW}/v{__version__}/src/cellwright/icon.svg", "mimeType": "image/svg+xml", "sizes": ["any"]},
            {"src": f"{RAW}/v{__version__}/distribution/mcpb/icon.png", "mimeType": "image/png", "sizes": ["512x512"]},
        ],
        "packages": [package],
    }


def _variable(spec: Spec) -> dict[str, Any]:
    return {
        "name": spec.env,
        "description": spec.help,
        **({"format": FORMATS[spec.kind]} if spec.kind in FORMATS else {}),
        **({"isSecret": True} if spec.kind == "a secret" else {}),
    }


def plugin() -> dict[str, Any]:
    """The plugin for Claude Code: the server and the skill."""
    return {
        "name": NAME,
        "version": __version__,
        "description": PROJECT["description"],
        "author": AUTHOR,
        "homepage": PROJECT["urls"]["Homepage"],
        "repository": REPOSITORY,
        "license": PROJECT["license"],
        "keywords": PROJECT["keywords"],
    }


def codex_plugin() -> dict[str, Any]:
    """The same for Codex, which wants its parts named."""
    return {
        **plugin(),
        "skills": "./skills/",
        "mcpServers": "./.mcp.json",
        "interface": {
            "displayName": NAME,
            "shortDescription": SHORT,
            "longDescription": PROJECT["description"],
            "developerName": AUTHOR["name"],
            "category": CATEGORY,
            "websiteURL": PROJECT["urls"]["Homepage"],
        },
    }


def claude_marketplace() -> dict[str, Any]:
    """What makes this repository one that Claude Code can install the plugin from."""
    return {
        "name": NAME,
        "owner": AUTHOR,
        "metadata": {"description": SHORT},
        "plugins": [
            {"name": NAME, "source": f"./plugins/{NAME}", "description": PROJECT["description"], "version": __version__}
        ],
    }


def codex_marketplace() -> dict[str, Any]:
    """The same for Codex."""
    return {
        "name": NAME,
        "interface": {"displayName": NAME},
        "plugins": [
            {
                "name": NAME,
                "source": {"source": "local", "path": f"./plugins/{NAME}"},
                "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
                "category": CATEGORY,
            }
        ],
    }


def gemini_extension() -> dict[str, Any]:
    """The extension for Gemini CLI, which is installed from the repository as a whole and finds skills/ by itself."""
    return {
        "name": NAME,
        "version": __version__,
        "description": PROJECT["description"],
        "contextFileName": f"plugins/{NAME}/GEMINI.md",
        # The first start fetches the package, and Gemini's list of servers would wait for five seconds only.
        "mcpServers": {NAME: {**_command("gemini"), "timeout": 600_000}},
    }


def bundle() -> dict[str, Any]:
    """The bundle that desktop programs install with a click (MCPB). They bring uv; it fetches the rest."""
    settings = {spec.name: spec for spec in SPECS}
    arguments = ["run", "--directory", "${__dirname}", "server.py", "--root", "${user_config.root}"]
    return {
        "manifest_version": "0.4",
        "name": NAME,
        "display_name": NAME,
        "version": __version__,
        "description": SHORT,
        "long_description": PROJECT["description"],
        "author": AUTHOR,
        "repository": {"type": "git", "url": REPOSITORY},
        "homepage": PROJECT["urls"]["Homepage"],
        "documentation": PROJECT["urls"]["Documentation"],
        "support": PROJECT["urls"]["Issues"],
        "icon": "icon.png",
        "license": PROJECT["license"],
        "keywords": PROJECT["keywords"],
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {"command": "uv", "args": [*arguments, "--toolsets", "${user_config.toolsets}"]},
        },
        "tools_generated": True,
        "prompts_generated": True,
        "compatibility": {
            "platforms": ["darwin", "linux", "win32"],
            "runtimes": {"python": PROJECT["requires-python"]},
        },
        "user_config": {
            "root": {
                "type": "directory",
                "title": "Workspace",
                "description": _sentence(settings["root"].help),
                "required": True,
                "default": "${DOCUMENTS}",
            },
            "toolsets": {
                "type": "string",
                "title": "Toolsets",
                "description": _sentence(settings["toolsets"].help),
                "default": settings["toolsets"].text_of(settings["toolsets"].default),
            },
        },
    }


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _bundle_project() -> str:
    """What uv reads in the bundle."""
    return (
        "# Written by `make docs`.\n"
        "[project]\n"
        f'name = "{NAME}-bundle"\n'
        f'version = "{__version__}"\n'
        f'requires-python = "{PROJECT["requires-python"]}"\n'
        f'dependencies = ["{NAME}=={__version__}"]\n'
    )
