"""The real programs that use cellwright, with a home of the test's own and no account."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from npm_support import NODE, installed

HERE = Path(__file__).parent
CELLWRIGHT = Path(sys.executable).with_name("cellwright")
# Where cellwright is not on a package index, this stands in for `uvx`: it runs what is tested and writes down where.
UVX = """#!/bin/sh
echo "$PWD" >> "{log}"
test "$1" = cellwright || exit 1
shift
exec "{program}" "$@"
"""
CODEX_CONFIG = """# No model is ever asked.
model_provider = "nobody"

[model_providers.nobody]
name = "nobody"
base_url = "http://127.0.0.1:9/v1"
"""


@dataclass(frozen=True)
class Desk:
    """A user's home, a project, and the programs that the user has."""

    home: Path
    project: Path
    modules: Path
    environ: dict[str, str]

    @property
    def started_in(self) -> list[str]:
        """Where servers were started by way of `uvx`."""
        log = self.home / "uvx.log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def cellwright(self, *arguments: str) -> str:
        return self._output([str(CELLWRIGHT), *arguments])

    def claude(self, *arguments: str) -> str:
        return self._output([NODE, str(self.modules / "@anthropic-ai/claude-code/cli-wrapper.cjs"), *arguments])

    def gemini(self, *arguments: str) -> str:
        return self._output([NODE, str(self.modules / "@google/gemini-cli/bundle/gemini.js"), *arguments])

    def codex(self, *arguments: str) -> str:
        return self._output([*self.codex_command, *arguments])

    def mcpb(self, *arguments: str) -> str:
        return self._output([NODE, str(self.modules / "@anthropic-ai/mcpb/dist/cli/cli.js"), *arguments])

    @property
    def codex_command(self) -> list[str]:
        return [NODE, str(self.modules / "@openai/codex/bin/codex.js")]

    def trust(self, *folders: Path) -> None:
        """As Gemini's dialogue does."""
        file = self.home / ".gemini" / "trustedFolders.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({str(folder): "TRUST_FOLDER" for folder in folders}), encoding="utf-8")

    @contextmanager
    def codex_session(self) -> Generator["CodexSession"]:
        """A session of Codex in the project, with its servers started, up to where a model would be asked."""
        (self.home / ".codex").mkdir(exist_ok=True)
        process = subprocess.Popen(
            [*self.codex_command, "app-server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self.environ,
            cwd=self.project,
        )
        try:
            session = CodexSession(process)
            session.call("initialize", {"clientInfo": {"name": "test", "version": "1"}})
            session.send({"method": "initialized"})
            yield session
        finally:
            process.kill()
            process.communicate()

    def _output(self, command: list[str]) -> str:
        ended = subprocess.run(
            command,
            env=self.environ,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr


class CodexSession:
    """Codex's own protocol for programs that show it, a JSON object in each line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._calls = 0

    def send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def call(self, method: str, params: dict[str, Any]) -> Any:
        self._calls += 1
        self.send({"id": self._calls, "method": method, "params": params})
        while (message := self.receive()).get("id") != self._calls:
            pass
        assert "result" in message, message
        return message["result"]

    def receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "Codex has ended"
        return json.loads(line)

    def started(self) -> dict[str, Any]:
        """What Codex says of the start of a server, when it is over."""
        while True:
            message = self.receive()
            if message.get("method") == "mcpServer/startupStatus/updated" and message["params"]["status"] != "starting":
                return message["params"]


@pytest.fixture(scope="session")
def modules() -> Path:
    """The programs, installed once from the pinned lock file: some 700 MB, half a minute."""
    return installed(HERE, "clients")


@pytest.fixture
def desk(tmp_path: Path, modules: Path) -> Desk:
    home, project, bin_folder = tmp_path / "home", tmp_path / "project", tmp_path / "bin"
    for folder in (home, project, bin_folder):
        folder.mkdir()
    uvx = bin_folder / "uvx"
    uvx.write_text(UVX.format(log=home / "uvx.log", program=CELLWRIGHT), encoding="utf-8")
    uvx.chmod(0o755)
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(CODEX_CONFIG, encoding="utf-8")
    kept = {name: value for name in ("LANG", "TMPDIR", "TERM") if (value := os.environ.get(name))}
    environ = {
        **kept,
        "HOME": str(home),
        "PATH": os.pathsep.join([str(bin_folder), str(Path(NODE).parent), "/usr/bin", "/bin"]),
        "XDG_STATE_HOME": str(home / "state"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "MCP_TIMEOUT": "60000",
    }
    return Desk(home, project, modules, environ)
