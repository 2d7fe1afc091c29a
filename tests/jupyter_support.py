"""A real Jupyter server for the tests, and a person who is in the same notebook."""

import asyncio
import contextlib
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, Self, cast
from urllib.parse import quote

import psutil
from pycrdt import (
    Array,
    Awareness,
    Doc,
    Map,
    Text,
    TransactionEvent,
    YMessageType,
    create_awareness_message,
    create_sync_message,  # pyright: ignore[reportUnknownVariableType] - its Doc has no parameter
    create_update_message,
    handle_sync_message,  # pyright: ignore[reportUnknownVariableType]
    read_message,
)
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

import copies
from cellwright.jupyter.server import kernel_ports
from support import free_port

SERVER_PYTHON = os.environ.get("CELLWRIGHT_TEST_SERVER_PYTHON", sys.executable)
"""Set it to the Python of another environment to run these tests against other versions of Jupyter's parts."""
KERNEL_PORTS = f"""{Path(kernel_ports.__file__).read_text(encoding="utf-8")}

use_kernel_ports()
"""
"""Configuration of Jupyter, which each of its extensions reads. As text: that Jupyter may be one of an environment without us."""
START = f"""import sys
sys.modules["{copies.LEFT_OUT}"] = None
from jupyter_server.serverapp import launch_new_instance
launch_new_instance()
"""
"""What `python -m jupyter_server` does, but for a grammar of addresses with letters of all languages: jsonschema has it made at each
start, which is most of a start, and does without it where it is not installed."""
START_SECONDS = 100.0
STOP_SECONDS = 20.0
WAIT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class JupyterServer:
    """Where a running Jupyter server is and where its files are."""

    url: str
    token: str
    root: Path


def write_notebook(root: Path, path: str, sources: list[str], **overrides: Any) -> Path:
    """A notebook of code cells with ids c0, c1, …; `overrides` replace its top-level keys."""
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "id": f"c{i}", "metadata": {}, "source": s, "outputs": [], "execution_count": None}
        for i, s in enumerate(sources)
    ]
    content: dict[str, Any] = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **overrides}
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def sources_on_disk(file: Path) -> list[str]:
    """What the file holds now; [] while the server is in the middle of writing it."""
    try:
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    except json.JSONDecodeError:
        return []
    return ["".join(cell["source"]) for cell in cells]


@contextlib.contextmanager
def read_only(file: Path) -> Generator[None]:
    """A file that the server cannot write, even where the tests and it run as root."""
    mode = file.stat().st_mode
    root = os.geteuid() == 0
    file.chmod(0o444)
    if root:
        subprocess.run(["chattr", "+i", str(file)], check=True)
    try:
        yield
    finally:
        if root:
            subprocess.run(["chattr", "-i", str(file)], check=True)
        file.chmod(mode)


async def eventually(condition: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Wait until `condition` holds, or fail naming what never came."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"never came: {what}"
        await asyncio.sleep(0.01)


class JupyterProcess:
    """`jupyter server` as a child on loopback, with its own folders, that tests may kill and start again."""

    def __init__(
        self,
        home: Path,
        *,
        collaboration: bool = True,
        base_path: str = "/",
        options: tuple[str, ...] = (),
        token_required: bool = True,
        lab: bool = False,
        python: str = SERVER_PYTHON,
    ) -> None:
        self.home = home
        self._python = python
        self.root = home / "root"
        self.root.mkdir(parents=True, exist_ok=True)
        self.token = secrets.token_hex(16) if token_required else ""
        self.port = free_port()
        self.base_path = base_path
        self.collaboration = collaboration
        self._options = options
        self._lab = lab
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.base_path.rstrip('/')}"

    @property
    def address(self) -> JupyterServer:
        return JupyterServer(self.url, self.token, self.root)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_raised: object) -> None:
        self.end_all()

    def start(self) -> None:
        self._write_config()
        command = [
            *(self._python, "-c", START),
            f"--ServerApp.root_dir={self.root}",
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={self.port}",
            "--ServerApp.port_retries=0",
            f"--ServerApp.base_url={self.base_path}",
            f"--IdentityProvider.token={self.token}",
            "--ServerApp.open_browser=False",
            "--ServerApp.allow_root=True",
            # Whether a flood of output passes its own limit of 1 MB/s depends on how busy the machine is.
            "--ZMQChannelsWebsocketConnection.iopub_data_rate_limit=50000000",
            *self._options,
        ]
        log = (self.home / "server.log").open("ab")
        with log:
            environ = self._environment()
            self._process = copies.start(copies.JUPYTER, command, env=environ, cwd=self.home, output=log, errors=log)
        self._wait_until_it_answers()

    def _write_config(self) -> None:
        extensions = {
            "jupyter_server_ydoc": self.collaboration,
            "jupyterlab": self._lab,
            "jupyter_lsp": False,
            "notebook_shim": False,
        }
        # The file id service fails, and collaboration with it, where the data folder does not exist.
        for name in ("config_dir", "data_dir", "runtime_dir"):
            (self.home / name).mkdir(exist_ok=True)
        config = {"ServerApp": {"jpserver_extensions": extensions}}
        (self.home / "config_dir" / "jupyter_server_config.json").write_text(json.dumps(config), encoding="utf-8")
        (self.home / "config_dir" / "jupyter_config.py").write_text(KERNEL_PORTS, encoding="utf-8")

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
        folders = {name: str(self.home / name.lower()) for name in ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")}
        return kept | {f"JUPYTER_{name}": folder for name, folder in folders.items()} | {"IPYTHONDIR": str(self.home)}

    def _wait_until_it_answers(self) -> None:
        request = urllib.request.Request(f"{self.url}/api/status", headers={"Authorization": f"token {self.token}"})
        deadline = time.monotonic() + START_SECONDS
        while True:
            assert self._process is not None
            assert self._process.poll() is None, f"Jupyter ended: {self.log()}"
            assert time.monotonic() < deadline, f"Jupyter did not answer: {self.log()}"
            try:
                with urllib.request.urlopen(request, timeout=2):
                    return
            except urllib.error.HTTPError as answer:
                # It answers, if only to ask for the password.
                answer.close()
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.05)

    def log(self) -> str:
        return (self.home / "server.log").read_text(encoding="utf-8", errors="replace")[-4000:]

    def kill(self) -> None:
        """End it without a goodbye, as a crash would."""
        self._end(signal.SIGKILL)

    @contextlib.contextmanager
    def frozen(self) -> Generator[None]:
        """A server that takes connections and does nothing, as one that is stuck."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def end_all(self) -> None:
        """End it and its kernels at once, when nobody needs them any more: asked politely, some versions take their time."""
        if self._process is not None:
            below: list[psutil.Process] = []
            with contextlib.suppress(psutil.NoSuchProcess):
                below = psutil.Process(self._process.pid).children(recursive=True)
            self.kill()
            for process in below:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)


class Person:
    """A second Y client, written apart from the code under test: somebody who types in the same document."""

    def __init__(self, server: JupyterServer, path: str, kind: str) -> None:
        self._server, self._path, self._kind = server, path, kind
        self.doc: Doc[Any] = Doc(client_id=random.getrandbits(32))
        self.awareness = Awareness(self.doc)
        self._synced = asyncio.Event()
        self._answers: asyncio.Queue[None] = asyncio.Queue()
        self._connection: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._writer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        session = await asyncio.to_thread(self._open_session)
        room = f"{session['format']}:{session['type']}:{session['fileId']}"
        url = f"ws{self._server.url[4:]}/api/collaboration/room/{room}?sessionId={session['sessionId']}"
        headers = {"Authorization": f"token {self._server.token}"}
        self._connection = await connect(url, additional_headers=headers, max_size=None)
        self._subscription = self.doc.observe(self._send_own)
        self._reader = asyncio.create_task(self._read(self._connection))
        self._writer = asyncio.create_task(self._write(self._connection))
        self._outgoing.put_nowait(create_sync_message(self.doc))
        await asyncio.wait_for(self._synced.wait(), WAIT_SECONDS)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._connection is not None
        for task in (self._reader, self._writer):
            assert task is not None
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._connection.close()
        self.doc.unobserve(self._subscription)

    def _open_session(self) -> dict[str, str]:
        kind = (
            {"format": "json", "type": "notebook"} if self._kind == "notebook" else {"format": "text", "type": "file"}
        )
        request = urllib.request.Request(
            f"{self._server.url}/api/collaboration/session/{quote(self._path)}",
            data=json.dumps(kind).encode(),
            headers={"Authorization": f"token {self._server.token}", "Content-Type": "application/json"},
            method="PUT",
        )
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise
        # jupyter-server-documents has no such question; its rooms are named by the file's id.
        request = urllib.request.Request(
            f"{self._server.url}/api/fileid/index?path={quote(self._path)}",
            data=b"",
            headers={"Authorization": f"token {self._server.token}"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:
            return {**kind, "fileId": json.load(response)["id"], "sessionId": ""}

    def _send_own(self, event: TransactionEvent) -> None:
        if cast("Any", event).transaction.origin() != hash("from the server"):
            self._outgoing.put_nowait(create_update_message(event.update))

    async def _write(self, connection: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await connection.send(await self._outgoing.get())

    async def _read(self, connection: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for message in connection:
                assert isinstance(message, bytes)
                if message[0] == YMessageType.AWARENESS:
                    self.awareness.apply_awareness_update(read_message(message[1:]), "from the server")
                elif message[0] == YMessageType.SYNC:
                    with self.doc.transaction(origin="from the server"):
                        reply = handle_sync_message(message[1:], self.doc)
                    if reply is not None:
                        self._outgoing.put_nowait(reply)
                    if message[1] == 1:
                        self._synced.set()
                        self._answers.put_nowait(None)

    async def settle(self) -> None:
        """Return when the server has all this person did, and this person all the server had then."""
        while not self._answers.empty():
            self._answers.get_nowait()
        self._outgoing.put_nowait(create_sync_message(self.doc))
        await asyncio.wait_for(self._answers.get(), WAIT_SECONDS)

    def announce(self, name: str, cursors: object = None) -> None:
        self.awareness.set_local_state({"user": {"name": name, "username": name}, "cursors": cursors})
        update = self.awareness.encode_awareness_update([self.awareness.client_id])
        self._outgoing.put_nowait(create_awareness_message(update))

    @property
    def cells(self) -> Array[Map[Any]]:
        return self.doc.get("cells", type=Array[Map[Any]])

    @property
    def sources(self) -> list[str]:
        return [str(cell["source"]) for cell in self.cells]

    def text_of(self, index: int) -> Text:
        return self.cells[index]["source"]

    @property
    def document(self) -> Text:
        return self.doc.get("source", type=Text)


class PersonIn(Protocol):
    """Enters a document as a person."""

    def __call__(self, path: str, kind: str = "notebook") -> contextlib.AbstractAsyncContextManager[Person]: ...


@contextlib.asynccontextmanager
async def person_in(server: JupyterServer, path: str, kind: str = "notebook") -> AsyncGenerator[Person]:
    async with Person(server, path, kind) as person:
        yield person
