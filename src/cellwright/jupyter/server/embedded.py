"""A Jupyter server of our own: a child process on loopback, started when it is first needed, which ends when we end."""

import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from cellwright.core.errors import CellwrightError, ConfigError, Unavailable
from cellwright.core.installation import this_installation
from cellwright.core.types import Secret
from cellwright.jupyter.server.discovery import LocalServer, local_client, runtime_dir
from cellwright.jupyter.server.embedded_server import ANNOUNCEMENT
from cellwright.jupyter.server.environments import Choice, Interpreter, choose
from cellwright.jupyter.server.sharing import is_used, users_folder
from cellwright.system import machine
from cellwright.system.files import private_folder, why_not_writable
from cellwright.system.trees import end_tree

HERE = Path(__file__).parent
START_SECONDS = 60.0
STOP_SECONDS = 20.0
LOOK_SECONDS = 0.5
HEALTH_EVERY = 0.05
HEALTH_SECONDS = 5.0
PORT_RETRIES = 50
LOG_NAME = "embedded-jupyter.log"
RUNTIME_NAME = "jupyter-runtime"
LOG_LINES_IN_ERRORS = 12
HTTP_OK = 200
HTTP_METHOD_NOT_ALLOWED = 405
NEEDED = ("jupyter_server", "jupyter_server_ydoc", "ipykernel")
# Kernels inherit the environment, so settings of other servers, and our own settings and secrets, stay out of it.
NOT_INHERITED = ("JUPYTER_TOKEN", "JUPYTER_TOKEN_FILE", "JUPYTER_PORT", "JUPYTER_PORT_RETRIES")
OWN_PREFIX = "CELLWRIGHT_"
IOPUB_BYTES_PER_SECOND = 50_000_000
"""We limit floods of output ourselves, and say so. The server's own limit of 1 MB/s would drop output before we see it."""
IOPUB_MESSAGES_PER_SECOND = 10_000


class EmbeddedNotInstalled(CellwrightError):
    code = "EMBEDDED_NOT_INSTALLED"
    meaning = "No Jupyter server is known and the parts to start one are not installed."


class LabNotInstalled(ConfigError):
    code = "LAB_NOT_INSTALLED"
    meaning = "JupyterLab was asked for, and it is not installed beside cellwright."


class EmbeddedFailed(Unavailable):
    code = "EMBEDDED_FAILED"
    meaning = "The Jupyter server that cellwright starts for itself did not come up."


@dataclass(frozen=True, slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    server: LocalServer
    users: Path
    """Where other programs say that they use the server."""


class EmbeddedJupyter:
    """The embedded server of one workspace."""

    def __init__(self, root: Path, state_dir: Path, *, lab: bool = False, environments: bool = True) -> None:
        """`environments` says whether the Python environments of the workspace, and the active ones, are offered as kernels."""
        self._root = root.resolve()
        self._state_dir = state_dir
        self._lab = lab
        self._environments = environments
        self._token = Secret(secrets.token_urlsafe(32))
        self._starting = asyncio.Lock()
        self._child: _Child | None = None
        self._port: int | None = None

    @property
    def log_file(self) -> Path:
        return self._state_dir / LOG_NAME

    @property
    def running(self) -> LocalServer | None:
        """The server if it is running. Does not start it."""
        child = self._child
        return child.server if child is not None and child.process.poll() is None else None

    @property
    def serves_lab(self) -> bool:
        """Whether JupyterLab is served at `/lab`: it is switched on and installed."""
        return self._lab and importlib.util.find_spec("jupyterlab") is not None

    def environments(self) -> Choice:
        """The Python environments in which kernels can run now. Reads a few files and runs nothing."""
        return choose(self._root, os.environ, Interpreter.own()) if self._environments else Choice(None)

    async def server(self) -> LocalServer:
        """The running server. It is started on the first call, and again if it has died since."""
        if (running := self.running) is not None:
            return running
        async with self._starting:
            if (running := self.running) is None:
                await self._end_child()
                self._child = await self._start()
                running = self._child.server
            return running

    async def stop(self) -> None:
        """End the server and its kernels, unless another program uses it. A later `server()` starts a new one."""
        async with self._starting:
            await self._end_child()

    async def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await asyncio.to_thread(_end, child.process, child.users)

    async def _start(self) -> _Child:
        require_installed()
        await asyncio.to_thread(private_folder, self._state_dir)
        try:
            process = await asyncio.to_thread(self._spawn)
        except OSError as error:
            raise EmbeddedFailed(
                f"the embedded Jupyter server could not be started: {error}",
                hint="cellwright doctor looks at this machine; --state-dir names another folder for its files",
            ) from error
        async with contextlib.AsyncExitStack() as on_failure:
            on_failure.push_async_callback(asyncio.to_thread, _end, process)
            server = await self._wait_until_up(process)
            on_failure.pop_all()
        return _Child(process, server, users_folder(runtime_dir(_environment(self._state_dir)), server.pid))

    async def _wait_until_up(self, process: subprocess.Popen[bytes]) -> LocalServer:
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await asyncio.to_thread(_read_announcement, process)
                if not line:
                    raise EmbeddedFailed(
                        f"the embedded Jupyter server did not start: {self._last_lines()}", hint=self._hint()
                    )
                announcement = json.loads(line)
                # Remembered for the next start, so that a person's open tab finds the server at the same address.
                self._port = announcement["port"]
                server = LocalServer(f"http://127.0.0.1:{self._port}", self._token, self._root, announcement["pid"])
                await self._wait_until_healthy(server, process)
                return server
        except TimeoutError as error:
            message = f"the embedded Jupyter server did not answer within {START_SECONDS:g} s: {self._last_lines()}"
            raise EmbeddedFailed(message, hint=self._hint()) from error

    def _spawn(self) -> subprocess.Popen[bytes]:
        private = tempfile.mkdtemp(prefix="embedded-", dir=self._state_dir)
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(shutil.rmtree, private, ignore_errors=True)
            process = subprocess.Popen(  # noqa: S603 - our own files, run by our own interpreter
                [sys.executable, "-P", str(HERE / "embedded_guardian.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(self._state_dir),
                **machine.apart,
            )
            on_failure.pop_all()
        order = {
            "command": [sys.executable, "-P", str(HERE / "embedded_server.py")],
            "cwd": private,
            "private": private,
            "log": str(self.log_file),
            "server": {
                "config": self._config(Path(private)),
                "environments_of": str(self._root) if self._environments else "",
            },
        }
        assert process.stdin is not None
        # It stays open: the child ends when this pipe ends, also because we are killed.
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
        return process

    def _config(self, private: Path) -> dict[str, Any]:
        extensions = {"jupyter_server_ydoc": True, "jupyter_server_fileid": True, "cellwright": False}
        if self.serves_lab:
            extensions |= {"jupyterlab": True, "jupyter_server_terminals": True}
        return {
            "ServerApp": {
                "ip": "127.0.0.1",
                "port": self._port or _free_port(),
                "port_retries": PORT_RETRIES,
                "root_dir": str(self._root),
                "open_browser": False,
                "allow_root": True,
                "answer_yes": True,
                "jpserver_extensions": extensions,
            },
            "IdentityProvider": {"token": self._token.reveal()},
            # Otherwise a kernel that cannot start would be tried for a quarter of a minute before that is reported.
            "KernelRestarter": {"time_to_dead": 1.0, "restart_limit": 3},
            "ZMQChannelsWebsocketConnection": {
                "iopub_data_rate_limit": IOPUB_BYTES_PER_SECOND,
                "iopub_msg_rate_limit": IOPUB_MESSAGES_PER_SECOND,
            },
            # The server's own files stay out of the person's folder.
            "SQLiteYStore": {"db_path": str(private / "ystore.db")},
            "YDocExtension": {"session_store_path": str(private / "collaboration_sessions.json")},
            "BaseFileIdManager": {"db_path": str(private / "file_ids.db")},
        }

    async def _wait_until_healthy(self, server: LocalServer, process: subprocess.Popen[bytes]) -> None:
        headers = {"Authorization": f"token {server.token.reveal()}"}
        async with local_client(server.url, headers, HEALTH_SECONDS) as client:
            while True:
                if process.poll() is not None:
                    raise EmbeddedFailed(f"the embedded Jupyter server ended: {self._last_lines()}", hint=self._hint())
                with contextlib.suppress(httpx2.TransportError):
                    if (await client.get(f"{server.url}/api/status")).status_code == HTTP_OK:
                        break
                await asyncio.sleep(HEALTH_EVERY)
            probe = await client.get(f"{server.url}/api/collaboration/session/x")
            if probe.status_code != HTTP_METHOD_NOT_ALLOWED:
                raise EmbeddedFailed("the embedded Jupyter server came up without collaboration", hint=self._hint())

    def last_words(self) -> str:
        """The last line in the log that is not the server's own: the reason why a kernel did not start."""
        if not self.log_file.exists():
            return ""
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line for line in reversed(lines) if line and line[0] not in "[ \t"), "")

    def _last_lines(self) -> str:
        if not self.log_file.exists():
            return "it wrote nothing"
        text = self.log_file.read_text(encoding="utf-8", errors="replace").replace(self._token.reveal(), "***")
        return " | ".join(text.splitlines()[-LOG_LINES_IN_ERRORS:])

    def _hint(self) -> str:
        return f"Its log is {self.log_file}"


def missing_parts() -> list[str]:
    """The modules that our own server needs and that are not installed."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def require_installed() -> None:
    """Raise EmbeddedNotInstalled, with the remedy, unless a server can be started."""
    if missing := missing_parts():
        raise EmbeddedNotInstalled(
            f"no Jupyter server is given, and one cannot be started: {', '.join(missing)} not installed",
            hint=f"{this_installation().mend()}, or give a running server with --jupyter-url and --jupyter-token",
        )


def _environment(state_dir: Path) -> dict[str, str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in NOT_INHERITED and not name.startswith(OWN_PREFIX)
    }
    if why_not_writable(runtime_dir()):
        # A server does not start without a folder for its runtime files. In this one, only we find it.
        environment["JUPYTER_RUNTIME_DIR"] = str(private_folder(state_dir / RUNTIME_NAME))
    return environment


def _free_port() -> int:
    """A port to try first. If somebody else takes it before, the server uses another."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _read_announcement(process: subprocess.Popen[bytes]) -> bytes:
    """The JSON that says where the server listens; empty if it ended first. Other lines, printed at the start, are ignored."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(ANNOUNCEMENT):
            return line.removeprefix(ANNOUNCEMENT)
    return b""


def _end(process: subprocess.Popen[bytes], users: Path | None = None) -> None:
    """Let the guardian end everything. If it does not, end it and all processes below it; but not if other programs use the server."""
    assert process.stdin is not None
    assert process.stdout is not None
    # Windows has other names for a broken pipe.
    with contextlib.suppress(OSError):
        # With a word before the end of the pipe, the guardian does not wait for documents to be saved.
        process.stdin.write(b"stop\n")
        process.stdin.flush()
    with contextlib.suppress(OSError):
        process.stdin.close()
    deadline = time.monotonic() + STOP_SECONDS
    while process.poll() is None and not (users is not None and is_used(users)):
        if time.monotonic() > deadline:
            end_tree(process.pid, STOP_SECONDS)
            process.wait(STOP_SECONDS)
            break
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_SECONDS)
    # Not before: a thread may still be waiting to read from it.
    process.stdout.close()
