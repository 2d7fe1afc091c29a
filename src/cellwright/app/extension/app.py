"""The extension as Jupyter Server sees it: traits, routes, start and stop."""

import asyncio
import importlib
import importlib.util
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.extension.application import ExtensionApp
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import url_path_join
from traitlets import Dict, Unicode

from cellwright.app.extension.handlers import (
    HealthHandler,
    McpHandler,
    PageFolderHandler,
    PageHandler,
    ToolsCallHandler,
    ToolsListHandler,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cellwright.app.extension.engine import ExtensionEngine
    from cellwright.app.protocol.server import CellwrightServer
    from cellwright.app.workspace import Workspace
    from cellwright.core.toolset import Toolset

LOCAL = "local"
OLDER_NAME = "jupyter_mcp_server"
"""The module of another package. We have none of that name, which would overwrite its files where both are installed."""


class JupyterMCPServerExtensionApp(ExtensionApp):
    """The traits under the name that an older notebook server gave them: its start command and configuration stay valid."""

    document_url = Unicode(
        LOCAL, config=True, help="Where documents are: `local` for this very server, else a Jupyter server's address."
    )
    document_token = Unicode("", config=True, help="The token for `document_url`, if that is an address.")
    runtime_url = Unicode(
        LOCAL, config=True, help="Where kernels run: `local` for this very server, else a Jupyter server's address."
    )
    runtime_token = Unicode("", config=True, help="The token for `runtime_url`, if that is an address.")
    document_id = Unicode(
        LOCAL, config=True, help="The notebook that agents are told to work in unless asked otherwise; `local`: none."
    )


class CellwrightExtension(JupyterMCPServerExtensionApp):
    """cellwright inside Jupyter Server."""

    name = "cellwright"  # pyright: ignore[reportAssignmentType] - Jupyter declares a trait and wants a plain text
    options = Dict(
        config=True,
        help="Further settings of cellwright by their file keys, as in {'toolsets': 'all', 'read_only': True}.",
    )

    _engine: "ExtensionEngine | None" = None

    def initialize_settings(self) -> None:
        self._starting = asyncio.Lock()
        if self.server.jpserver_extensions.get(OLDER_NAME) and importlib.util.find_spec(OLDER_NAME) is None:
            self.log.warning(
                "jpserver_extensions names %s, which is another package and is not installed; cellwright is here under its own "
                "name, with the same routes and traits: write {'cellwright': True} instead",
                OLDER_NAME,
            )

    def initialize_handlers(self) -> None:
        routes: list[tuple[str, type]] = [
            (r"/mcp/?", McpHandler),
            (r"/mcp/healthz/?", HealthHandler),
            (r"/mcp/tools/list/?", ToolsListHandler),
            (r"/mcp/tools/call/?", ToolsCallHandler),
            (r"/cellwright", PageFolderHandler),
            (r"/cellwright(/.*)", PageHandler),
        ]
        for path, handler in routes:
            self.handlers.append((path, handler, {"engine": self.engine}))

    async def engine(self) -> "ExtensionEngine":
        """The running MCP server. The first request that Jupyter lets in imports and starts it."""
        async with self._starting:
            if self._engine is None:
                # In a thread, because importing takes a second, and people's kernels need this loop.
                module: Any = await asyncio.to_thread(importlib.import_module, "cellwright.app.extension.engine")
                self._engine = await cast("type[ExtensionEngine]", module.ExtensionEngine).start(self)
            return self._engine

    @property
    def server(self) -> ServerApp:
        """The server that this is an extension of."""
        assert self.serverapp is not None
        return self.serverapp

    def more_toolsets(self) -> "Sequence[Toolset]":
        """Toolsets of a program that embeds this one."""
        return ()

    def open_server(self, workspace: "Workspace") -> "CellwrightServer":
        """The MCP server of the workspace."""
        return workspace.server()

    async def _start_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        self.log.info(
            "cellwright serves MCP at %s, and people see what agents do at %s",
            url_path_join(serverapp.connection_url, "mcp"),
            url_path_join(serverapp.connection_url, "cellwright/"),
        )

    async def stop_extension(self) -> None:
        async with self._starting:
            if self._engine is not None:
                await self._engine.stop()
