"""The MCP server in Jupyter's process, from the first request until Jupyter stops. This module imports everything heavy."""

import asyncio
import dataclasses
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Self, cast

from cellwright import DOCUMENTATION
from cellwright.app.extension.admission import Admitted
from cellwright.app.extension.app import LOCAL, CellwrightExtension
from cellwright.app.extension.plain import tools_call, tools_list
from cellwright.app.extension.reach import reach
from cellwright.app.extension.staying import Staying
from cellwright.app.http.gate import Gate
from cellwright.app.http.routes import Route
from cellwright.app.http.turns import limits_of
from cellwright.app.log import LOGGER, LineFormatter, log_event
from cellwright.app.offers.catalogue import CURRENT_NOTEBOOK, DEFAULT
from cellwright.app.page.routes import WorkspacePage
from cellwright.app.protocol.server import CellwrightServer
from cellwright.app.protocol.transport import HttpEndpoint
from cellwright.app.settings import SPECS, Settings
from cellwright.app.settings_loading import load_settings
from cellwright.app.workspace import Workspace, make_workspace
from cellwright.core.arguments import nearest
from cellwright.core.errors import ConfigError
from cellwright.core.types import Scope

MCP_PATH = "/mcp"
TRANSPORT = "jupyter-server"
HOST = "jupyter"
"""The Host that our gate sees; Jupyter has checked the real one."""
LONGEST_DRAIN = 3.0
"""Jupyter stops its other extensions and its kernels meanwhile or afterwards."""
END_SECONDS = 5.0


class ExtensionEngine:
    """The gate, the server behind it, and the task that they run in."""

    def __init__(self, workspace: Workspace, server: CellwrightServer, host: str) -> None:
        """`host` is the address that Jupyter listens on."""
        self._workspace = workspace
        self._server = server
        self._settings = workspace.settings
        self._endpoint = HttpEndpoint(server, workspace.catalogue.is_long, self._settings.max_body)
        self.admitted = Admitted()
        self.staying = Staying()
        self._page = WorkspacePage(workspace, None) if self._settings.page else None
        server.calls.witness = self._page
        self.protocol = self._gate(host)
        # These two routes come from older notebook servers, which had a current notebook, so its tools are offered on them. An
        # explicit choice of the operator is not changed.
        older_toolsets = f"{DEFAULT},{CURRENT_NOTEBOOK}" if self._settings.toolsets == (DEFAULT,) else ""
        self.tools_list = tools_list(self.protocol, older_toolsets)
        self.tools_call = tools_call(self.protocol, older_toolsets)
        self._stop = asyncio.Event()
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def _gate(self, host: str) -> Gate:
        settings = self._settings
        return Gate(
            [
                Route(MCP_PATH, frozenset({"GET", "POST", "DELETE"}), Scope.READ, self._endpoint, protocol=True),
                *(self._page.routes() if self._page else ()),
            ],
            [self.admitted],
            hosts=frozenset({HOST}),
            origins=frozenset(),
            limits=limits_of(settings, host),
            tool_scope=self._workspace.catalogue.needed_scope,
            observe=self._workspace.metrics.answered,
        )

    @classmethod
    async def start(cls, extension: CellwrightExtension) -> Self:
        """Put everything together and serve."""
        workspace = workspace_of(extension)
        log_beside_jupyter(workspace.settings.log_level)
        engine = cls(workspace, extension.open_server(workspace), str(extension.server.ip))
        engine.staying.hear_of_logouts(extension.server.identity_provider)
        await engine.begin()
        log_event("serving", transport=TRANSPORT, root=workspace.settings.root)
        return engine

    async def begin(self) -> None:
        self._task = asyncio.create_task(self._serve(), name="cellwright")
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.is_set():
            ready.cancel()
            await self._task

    async def _serve(self) -> None:
        # The SDK's task group has to be entered and left by the same task.
        async with self._endpoint.running():
            self._ready.set()
            await self._stop.wait()

    @property
    def max_body(self) -> int:
        return self._settings.max_body

    def way_in(self, ticket: str) -> list[tuple[bytes, bytes]]:
        """The headers by which a request that Jupyter let in passes the gate."""
        return [(b"host", HOST.encode()), (b"authorization", f"Bearer {ticket}".encode())]

    async def stop(self) -> None:
        """Refuse new requests, let calls finish for a moment, end the streams of listening clients, leave Jupyter's rooms."""
        log_event("stopping", transport=TRANSPORT)
        self.protocol.close()
        self._server.watching.end_listening()
        if self._page is not None:
            self._page.end_streams()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(self._settings.drain, LONGEST_DRAIN)):
                await self.protocol.finished()
        self._stop.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=END_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                if self._page is not None:
                    await self._page.close()
                await self._workspace.close()
        _end_stream_watchers()


def _end_stream_watchers() -> None:
    """End the tasks that the SDK's event streams start to wait for the end of uvicorn, which is not used here."""
    for task in asyncio.all_tasks():
        if getattr(task.get_coro(), "__qualname__", "") == "_shutdown_watcher":
            task.cancel()


def log_beside_jupyter(level: str) -> None:
    """Log to stderr as elsewhere, without changing Jupyter's own logging."""
    if not LOGGER.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(LineFormatter())
        LOGGER.addHandler(handler)
        LOGGER.propagate = False
    LOGGER.setLevel(level.upper())


def settings_of(extension: CellwrightExtension) -> Settings:
    """The settings, from most to least important source: Jupyter and the traits, `options`, the environment, the file."""
    options = cast("Mapping[str, object]", extension.options)
    setting_names = [spec.name for spec in SPECS]
    for name in options:
        if name not in setting_names:
            suggestion = nearest(name, setting_names)
            raise ConfigError(
                f"CellwrightExtension.options has a key {name!r} that is no setting",
                hint=f"did you mean {suggestion!r}?" if suggestion else f"see {DOCUMENTATION}/settings.md",
            )
    tokens = {
        "document_token": extension.document_token,
        "runtime_token": extension.runtime_token,
        # Not used for access. It is set so that it is masked in results, because code that runs here can find it.
        "token": extension.server.identity_provider.token,
    }
    traits = {
        "root": str(extension.server.root_dir),
        "jupyter_url": "",
        "document_url": "" if extension.document_url == LOCAL else extension.document_url,
        "document_id": "" if extension.document_id == LOCAL else extension.document_id,
        "runtime_url": "" if extension.runtime_url == LOCAL else extension.runtime_url,
        **{name: token for name, token in tokens.items() if token},
    }
    return load_settings({**options, **traits})


def workspace_of(extension: CellwrightExtension) -> Workspace:
    """The workspace on this Jupyter server, or on the servers that the traits name."""
    settings = settings_of(extension)
    workspace = make_workspace(settings, TRANSPORT, extension.more_toolsets(), reach(extension.server, settings))
    if extension.document_id == LOCAL:
        return workspace
    notebook_note = f" Unless you are asked otherwise, work in the notebook {extension.document_id}."
    return dataclasses.replace(workspace, instructions=workspace.instructions + notebook_note)
