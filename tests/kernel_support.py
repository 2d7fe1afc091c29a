"""Real kernels for the tests, and a viewer that mirrors a shared cell only as far as a live JupyterLab does."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pycrdt import Array, ArrayEvent, Doc, Map, MapEvent, Text, TextEvent, TransactionEvent

from cellwright.jupyter.kernels.channel import JsonObject, Message
from cellwright.jupyter.kernels.connection import KernelConnection
from cellwright.jupyter.kernels.executions import CellJob, Execution, Executions
from cellwright.jupyter.kernels.outputs import Displays, OutputWriter, deliver
from cellwright.jupyter.kernels.queue import KernelQueue
from cellwright.jupyter.remote.kernel_websocket import open_websocket
from jupyter_support import JupyterServer

WAIT_SECONDS = 30.0


def now() -> datetime:
    return datetime.now(UTC)


class KernelOnServer:
    """A kernel of the test's own on a real server, with REST calls that do not block the loop."""

    def __init__(self, server: JupyterServer, kernel_id: str) -> None:
        self.server, self.id = server, kernel_id
        self.session_id = f"test-{kernel_id}"
        self.opened = 0
        self.connection = self.connect(self.session_id)

    def connect(self, session_id: str) -> KernelConnection:
        url = f"ws{self.server.url[4:]}/api/kernels/{self.id}/channels?session_id={session_id}"
        headers = {"Authorization": f"token {self.server.token}"}

        async def open_channel() -> Any:
            self.opened += 1
            return await open_websocket(url, headers)

        return KernelConnection(self.id, open_channel, session_id, exists=self.exists)

    @asynccontextmanager
    async def person(self) -> AsyncGenerator[KernelConnection]:
        """Somebody else who is connected to the same kernel."""
        connection = self.connect("a-person")
        try:
            await connection.ready()
            yield connection
        finally:
            await connection.close()

    async def interrupt(self) -> None:
        await self._rest("POST", f"/api/kernels/{self.id}/interrupt")

    async def restart(self) -> None:
        await self._rest("POST", f"/api/kernels/{self.id}/restart")

    async def shut_down(self) -> None:
        await self._rest("DELETE", f"/api/kernels/{self.id}")

    async def exists(self) -> bool:
        try:
            await self._rest("GET", f"/api/kernels/{self.id}")
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404:
                    return False
            raise
        return True

    async def pid(self) -> int:
        reply = await self.connection.execute("", user_expressions={"pid": "__import__('os').getpid()"})
        return int(reply.user_expressions["pid"]["data"]["text/plain"])

    async def _rest(self, method: str, path: str) -> Any:
        return await asyncio.to_thread(rest, self.server, method, path)


def rest(server: JupyterServer, method: str, path: str, body: object = None) -> Any:
    request = urllib.request.Request(
        server.url + path,
        method=method,
        headers={"Authorization": f"token {server.token}", "Content-Type": "application/json"},
        data=None if body is None else json.dumps(body).encode(),
    )
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:
        text = response.read()
    return json.loads(text) if text else None


@asynccontextmanager
async def kernel_on(server: JupyterServer) -> AsyncGenerator[KernelOnServer]:
    model = await asyncio.to_thread(rest, server, "POST", "/api/kernels", {"name": "python3"})
    kernel = KernelOnServer(server, model["id"])
    try:
        yield kernel
    finally:
        await kernel.connection.close()
        if await kernel.exists():
            await kernel.shut_down()


@dataclass
class Bench:
    """A kernel with its queue, as the engine sets them up."""

    kernel: KernelOnServer
    executions: Executions = field(default_factory=lambda: Executions(now))
    interrupts: int = 0

    def __post_init__(self) -> None:
        self.queue = KernelQueue(self.kernel.connection, self._interrupt, self.executions, now)

    async def _interrupt(self) -> None:
        self.interrupts += 1
        await self.kernel.interrupt()

    def submit(self, *codes: str, principal: str = "ada") -> Execution:
        return self.queue.submit(principal, [job(code, f"c{i}") for i, code in enumerate(codes)])


@asynccontextmanager
async def bench_on(server: JupyterServer) -> AsyncGenerator[Bench]:
    async with kernel_on(server) as kernel:
        bench = Bench(kernel)
        try:
            yield bench
        finally:
            await bench.queue.close()


def job(code: str, cell_id: str = "") -> CellJob:
    return CellJob(lambda: code, cell_id)


class SharedCell:
    """A code cell in a document, and somebody who watches it in JupyterLab."""

    def __init__(self, outputs: Sequence[JsonObject] = ()) -> None:
        self.doc: Doc[Any] = Doc()
        self.viewer = Viewer()
        self._subscription = self.doc.observe(self._pass_on)
        self.cells: Array[Any] = self.doc.get("cells", type=Array)
        self.updates = 0
        cell: Map[Any] = Map(
            {
                "id": "c0",
                "cell_type": "code",
                "source": Text(""),
                "metadata": Map({}),
                "outputs": Array([Map(dict(output)) for output in outputs]),
                "execution_count": None,
                "execution_state": "idle",
            }
        )
        self.cells.append(cell)
        self.viewer.watch()

    def _pass_on(self, event: TransactionEvent) -> None:
        self.updates = getattr(self, "updates", 0) + 1
        self.viewer.doc.apply_update(event.update)

    @property
    def cell(self) -> Map[Any]:
        return self.cells[0]

    @property
    def outputs(self) -> list[JsonObject]:
        return self.cell["outputs"].to_py()

    def writer(self, displays: Displays | None = None, **options: Any) -> OutputWriter:
        return OutputWriter(lambda: self.cells[0] if len(self.cells) else None, displays or Displays(), **options)


class Viewer:
    """Mirrors the outputs of a cell as JupyterLab's cell model does; a change that Lab would show wrong is kept as a fault."""

    def __init__(self) -> None:
        self.doc: Doc[Any] = Doc()
        self.shown: list[JsonObject] = []
        self.prompts: list[str] = []
        self.faults: list[str] = []
        self._last_stream = ""

    def watch(self) -> None:
        self._cells: Array[Any] = self.doc.get("cells", type=Array)
        self.shown = self._cells[0]["outputs"].to_py()
        self._subscription = self._cells.observe_deep(self._changed)

    def _changed(self, events: list[Any]) -> None:
        texts = [event for event in events if isinstance(event, TextEvent)]
        if len(texts) > 1:
            self.faults.append("two stream texts changed in one transaction")
        for event in events:
            if isinstance(event, ArrayEvent):
                self._outputs_changed(event)
            elif isinstance(event, TextEvent):
                self._text_changed(event)
            elif isinstance(event, MapEvent):
                self._cell_changed(event)

    def _outputs_changed(self, event: ArrayEvent) -> None:
        position = 0
        for step in event.delta:
            if "retain" in step:
                position += int(step["retain"])
            elif "delete" in step:
                del self.shown[position : position + int(step["delete"])]
            else:
                # Whatever the position, Lab adds new outputs at the end.
                added = [item.to_py() for item in step["insert"] if isinstance(item, Map)]
                if len(added) != len(step["insert"]):
                    self.faults.append("an output that is not a Map")
                for output in added:
                    assert output is not None
                    self._show(output)

    def _show(self, output: JsonObject) -> None:
        # Lab remembers the name of the last stream it was given, also when that stream has been taken away.
        if output.get("name") == self._last_stream and self.shown and self._last_stream:
            self.faults.append("a stream of the same name as the one before: Lab adds its text to the last output")
        self._last_stream = str(output.get("name", ""))
        self.shown.append(output)

    def _text_changed(self, event: TextEvent) -> None:
        # Lab applies a change of any stream's text to the last output.
        text = self.shown[-1]["text"].encode()
        steps = [step for step in event.delta if "retain" not in step]
        position = sum(int(step["retain"]) for step in event.delta if "retain" in step)
        if len(steps) != 1:
            self.faults.append("removed and added in one transaction")
        for step in steps:
            if "delete" in step:
                if position + int(step["delete"]) != len(text):
                    self.faults.append("removed from the middle of a text")
                text = text[:position] + text[position + int(step["delete"]) :]
            else:
                if position != len(text):
                    self.faults.append("added in the middle of a text, or to a stream that is not the last output")
                text = text[:position] + str(step["insert"]).encode() + text[position:]
        self.shown[-1]["text"] = text.decode()

    def _cell_changed(self, event: MapEvent) -> None:
        keys: dict[str, Any] = event.keys  # pyright: ignore[reportAssignmentType]
        if "outputs" in keys:
            self.faults.append("the outputs array was replaced")
        changed: Map[Any] = event.target  # pyright: ignore[reportAssignmentType]
        if "output_type" in changed:
            self.faults.append("an output was changed inside")
        if "execution_state" in keys:
            self.prompts.append(str(keys["execution_state"]["newValue"]))
        if "execution_count" in keys and keys["execution_count"]["newValue"] is not None:
            self.prompts.append(f"[{int(keys['execution_count']['newValue'])}]")


async def run_into(kernel: KernelConnection, code: str, writer: OutputWriter, displays: Displays) -> None:
    """Run code in a real kernel and write its output as the engine does."""
    writer.begin()
    reply = await asyncio.wait_for(
        kernel.execute(code, lambda message: deliver(message, displays, writer)), WAIT_SECONDS
    )
    writer.end(reply.execution_count)


def message(kind: str, **content: Any) -> Message:
    """A message as a kernel publishes it, for cases that need exact pieces."""
    return Message("iopub", {"msg_type": kind, "msg_id": "m", "session": "k"}, content, {"msg_id": "p"})


async def until(condition: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Wait for a condition, with a bound."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"never came: {what}"
        await asyncio.sleep(0.01)
