"""A folder of notebooks and a real Jupyter server on it, which ours finds by its runtime file as it finds a person's."""

import dataclasses
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wire import BenchError

START_SECONDS = 60.0
STOP_SECONDS = 20.0
ASK_SECONDS = 30.0
FOLDER_SIZE = 100
SERVER_OPTIONS = (
    "--ServerApp.ip=127.0.0.1",
    "--ServerApp.port_retries=0",
    "--ServerApp.open_browser=False",
    "--ServerApp.allow_root=True",
    # As our embedded server has them: otherwise Jupyter drops most of 20 MB before anybody sees it.
    "--ZMQChannelsWebsocketConnection.iopub_data_rate_limit=50000000",
    "--ZMQChannelsWebsocketConnection.iopub_msg_rate_limit=10000",
)

OUR_OPTIONS: dict[str, Any] = {"rate": 0, "toolsets": "notebooks,editing,documents"}
"""Of our own extension, where it is measured: no limit of calls a second, and the tools that are called."""


@dataclass(frozen=True)
class Workspace:
    """A running Jupyter server, and the folder it serves."""

    url: str
    token: str
    root: Path
    runtime: Path
    pid: int = 0

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:  # noqa: ANN401 - JSON
        request = urllib.request.Request(
            f"{self.url}/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=ASK_SECONDS) as answer:
            return json.load(answer)

    def kernel_file(self, notebook: str) -> Path:
        """Where the ports of the notebook's kernel are written."""
        kernel = next(one["kernel"]["id"] for one in self.ask("GET", "api/sessions") if one["path"] == notebook)
        return self.runtime / f"kernel-{kernel}.json"


def write_notebook(file: Path, sources: list[str]) -> None:
    """Code cells with ids c0, c1, …"""
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "id": f"c{i}", "metadata": {}, "source": s, "outputs": [], "execution_count": None}
        for i, s in enumerate(sources)
    ]
    content: dict[str, Any] = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content), encoding="utf-8")


def write_many(folder: Path, count: int) -> None:
    """Small notebooks, a hundred in each folder."""
    for number in range(count):
        write_notebook(folder / f"part{number // FOLDER_SIZE:03}" / f"notebook{number:05}.ipynb", ["1+1"])


@contextmanager
def workspace(work: Path, extension: str = "", environment: Mapping[str, str] | None = None) -> Generator[Workspace]:
    """Start Jupyter with collaboration on a new folder, its own state beside it; end it with the block.

    `extension` is a further part of the server to switch on.
    """
    home = work / f"jupyter-{time.monotonic_ns()}"
    found = Workspace(f"http://127.0.0.1:{_free_port()}", secrets.token_hex(16), home / "root", home / "runtime")
    for folder in (found.root, found.runtime, home / "data", home / "config"):
        folder.mkdir(parents=True)
    with (home / "jupyter.log").open("wb") as log:
        process = subprocess.Popen(
            _command(found),
            cwd=home,
            env={**_environment(home, extension), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _wait_until_it_answers(found, process)
        yield dataclasses.replace(found, pid=process.pid)
    except BenchError as error:
        said = (home / "jupyter.log").read_text(encoding="utf-8", errors="replace")[-2000:]
        raise BenchError(f"{error}\nJupyter said: {said}") from error
    finally:
        _end(process)


def _command(found: Workspace) -> list[str]:
    port = found.url.rpartition(":")[2]
    own = (f"--ServerApp.root_dir={found.root}", f"--ServerApp.port={port}", f"--IdentityProvider.token={found.token}")
    return [sys.executable, "-m", "jupyter_server", *SERVER_OPTIONS, *own]


def _environment(home: Path, extension: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "PYTHON"))}
    extensions = {"jupyter_server_ydoc": True, "jupyterlab": False, "cellwright": False}
    if extension:
        extensions[extension] = True
    config = {"ServerApp": {"jpserver_extensions": extensions}, "CellwrightExtension": {"options": OUR_OPTIONS}}
    (home / "config" / "jupyter_server_config.json").write_text(json.dumps(config), encoding="utf-8")
    own = {f"JUPYTER_{name.upper()}_DIR": str(home / name) for name in ("config", "data", "runtime")}
    return {**kept, **own, "IPYTHONDIR": str(home), "CELLWRIGHT_STATE_DIR": str(home / "state")}


def _wait_until_it_answers(found: Workspace, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            found.ask("GET", "api/status")
            return
        time.sleep(0.05)
    raise BenchError("Jupyter did not come up")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
