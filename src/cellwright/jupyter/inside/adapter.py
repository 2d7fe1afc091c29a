"""The local adapter: the Jupyter server we run inside of, by its own managers and in its own event loop."""

from collections.abc import Mapping
from typing import Any, Self, cast

from jupyter_server.serverapp import ServerApp

from cellwright.jupyter.inside.calls import ServerCalls
from cellwright.jupyter.inside.documents import LocalDocuments
from cellwright.jupyter.inside.kernels import LocalKernels


class LocalJupyter:
    """A workspace on the server whose process we share. To be used in the server's event loop only."""

    def __init__(self, serverapp: ServerApp, *, url: str | None = None) -> None:
        """`url` is the address that people use in a browser, where the server itself does not know it."""
        self._server: Any = cast("Any", serverapp)
        base = (url or str(self._server.connection_url)).rstrip("/")
        self._calls = ServerCalls(base)
        self._documents = LocalDocuments(serverapp, self._calls, base)
        self._kernels = LocalKernels(serverapp, self._calls, base)

    @property
    def documents(self) -> LocalDocuments:
        return self._documents

    @property
    def kernels(self) -> LocalKernels:
        return self._kernels

    async def about(self) -> Mapping[str, object]:
        return {
            "documents_url": self._documents.url,
            "kernels_url": self._kernels.url,
            "jupyter_server": str(self._server.version),
            "sharing": self._documents.sharing().value,
            "kernels": len(await self._kernels.kernels()),
        }

    async def close(self) -> None:
        """Wait for calls that are under way. The server itself goes on."""
        await self._documents.close()
        await self._calls.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
