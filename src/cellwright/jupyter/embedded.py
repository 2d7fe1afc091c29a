"""A Jupyter server of our own: a child process on loopback, started when it is first needed, gone when we are."""

import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from cellwright.core.errors import CellwrightError, Unavailable
from cellwright.core.types import Secret
from cellwright.jupyter.discovery import LocalServer, local_client

HERE = Path(__file__).parent
START_SECONDS = 60.0
STOP_SECONDS = 20.0
HEALTH_EVERY = 0.05
HEALTH_SECONDS = 5.0
PORT_RETRIES = 50
LOG_NAME = "embedded-jupyter.log"
LOG_LINES_IN_ERRORS = 12
HTTP_OK = 200
HTTP_METHOD_NOT_ALLOWED = 405
NEEDED = ("jupyter_server", "jupyter_server_ydoc", "ipykernel")
# Kernels inherit the environment: what steers other servers, and our own settings and secrets, stay out of it.
NOT_INHERITED = ("JUPYTER_TOKEN", "JUPYTER_TOKEN_FILE", "JUPYTER_PORT", "JUPYTER_PORT_RETRIES")
OWN_PREFIX = "CELLWRIGHT_"
IOPUB_BYTES_PER_SECOND = 50_000_000
"""We cap floods ourselves and say so; the server's own limit of 1 MB/s would drop output before we see it."""
IOPUB_MESSAGES_PER_SECOND = 10_000


class EmbeddedNotInstalled(CellwrightError):
    code = "EMBEDDED_NOT_INSTALLED"
    meaning = "No Jupyter server is known and the parts to start one are not installed."


class EmbeddedFailed(Unavailable):
    code = "EMBEDDED_FAILED"
    meaning = "The Jupyter server that cellwright starts for itself did not come up."


@dataclass(frozen=True, slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    server: LocalServer


class EmbeddedJupyter:
    """The embedded server of one workspace."""

    def __init__(self, root: Path, state_dir: Path, *, lab: bool = False) -> None:
        self._root = root.resolve()
        self._state_dir = state_dir
        self._lab = lab
        self._token = Secret(secrets.token_urlsafe(32))
        self._starting = asyncio.Lock()
        self._child: _Child | None = None
        self._port: int | None = None

    @property
    def log_file(self) -> Path:
        return self._state_dir / LOG_NAME

    @property
    def running(self) -> LocalServer | None:
        """The server if it is up; does not start it."""
        child = self._child
        return child.server if child is not None and child.process.poll() is None else None

    @property
    def serves_lab(self) -> bool:
        """Whether JupyterLab is served at `/lab`: it was asked for and it is installed."""
        return self._lab and importlib.util.find_spec("jupyterlab") is not None

    async def server(self) -> LocalServer:
        """The running server: started on the first call, and again if it has died since."""
        if (running := self.running) is not None:
            return running
        async with self._starting:
            if (running := self.running) is None:
                await self._end_child()
                self._child = await self._start()
                running = self._child.server
            return running

    async def stop(self) -> None:
        """End the server and its kernels. A later `server()` starts a new one."""
        async with self._starting:
            await self._end_child()

    async def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await asyncio.to_thread(_end, child.process)

    async def _start(self) -> _Child:
        require_installed()
        self._state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        process = await asyncio.to_thread(self._spawn)
        async with contextlib.AsyncExitStack() as unless_it_comes_up:
            unless_it_comes_up.push_async_callback(asyncio.to_thread, _end, process)
            server = await self._until_up(process)
            unless_it_comes_up.pop_all()
        return _Child(process, server)

    async def _until_up(self, process: subprocess.Popen[bytes]) -> LocalServer:
        try:
            async with asyncio.timeout(START_SECONDS):
                about = await self._announcement(process)
                # Kept for the next start: a person's open tab comes back to the same address.
                self._port = about["port"]
                server = LocalServer(f"http://127.0.0.1:{self._port}", self._token, self._root, about["pid"])
                await self._until_healthy(server, process)
                return server
        except TimeoutError as error:
            message = f"the embedded Jupyter server did not answer within {START_SECONDS:g} s: {self._last_lines()}"
            raise EmbeddedFailed(message, hint=self._hint()) from error

    async def _announcement(self, process: subprocess.Popen[bytes]) -> dict[str, int]:
        line = await asyncio.to_thread(_read_line, process)
        if not line:
            raise EmbeddedFailed(f"the embedded Jupyter server did not start: {self._last_lines()}", hint=self._hint())
        return json.loads(line)

    def _spawn(self) -> subprocess.Popen[bytes]:
        private = tempfile.mkdtemp(prefix="embedded-", dir=self._state_dir)
        process = subprocess.Popen(  # noqa: S603 - our own files, run by our own interpreter
            [sys.executable, "-P", str(HERE / "embedded_guardian.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            start_new_session=True,
        )
        order = {
            "command": [sys.executable, "-P", str(HERE / "embedded_server.py")],
            "cwd": private,
            "private": private,
            "log": str(self.log_file),
            "server": {"config": self._config(Path(private))},
        }
        assert process.stdin is not None
        # Kept open afterwards: its end, also by our being killed, is what ends the child.
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
            "ZMQChannelsWebsocketConnection": {
                "iopub_data_rate_limit": IOPUB_BYTES_PER_SECOND,
                "iopub_msg_rate_limit": IOPUB_MESSAGES_PER_SECOND,
            },
            # Nothing of the server's own bookkeeping in the person's folder.
            "SQLiteYStore": {"db_path": str(private / "ystore.db")},
            "YDocExtension": {"session_store_path": str(private / "collaboration_sessions.json")},
            "BaseFileIdManager": {"db_path": str(private / "file_ids.db")},
        }

    async def _until_healthy(self, server: LocalServer, process: subprocess.Popen[bytes]) -> None:
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

    def _last_lines(self) -> str:
        if not self.log_file.exists():
            return "it wrote nothing"
        text = self.log_file.read_text(encoding="utf-8", errors="replace").replace(self._token.reveal(), "***")
        return " | ".join(text.splitlines()[-LOG_LINES_IN_ERRORS:])

    def _hint(self) -> str:
        return f"Its log is {self.log_file}"


def require_installed() -> None:
    """Raise EmbeddedNotInstalled, with the remedy, unless a server can be started."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise EmbeddedNotInstalled(
            f"no Jupyter server is given, and one cannot be started: {', '.join(missing)} not installed",
            hint="pip install 'cellwright[embedded]', or give a running server with --jupyter-url and --jupyter-token",
        )


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name not in NOT_INHERITED and not name.startswith(OWN_PREFIX)
    }


def _free_port() -> int:
    """A port to try first; the server takes another if somebody was faster."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _read_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let the guardian end everything; if it cannot, end its whole session."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        # A word before the end of the pipe: then the guardian need not wait for documents to be saved.
        process.stdin.write(b"stop\n")
        process.stdin.flush()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP_SECONDS)
    # Only now: a thread may still be waiting to read from it.
    process.stdout.close()
