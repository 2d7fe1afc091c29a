"""An agent in notebooks: a real client, our server as a process in front of a real Jupyter, and a wire that can be cut."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import pytest
from mcp import Client, MCPError

from jupyter_support import JupyterServer
from support import HttpServer, http_client, http_server


class Agent:
    """A client with short words."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        """The data of a call that must work."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        return result.structured_content

    async def failing(self, tool: str, **arguments: Any) -> Any:
        """The data of a call that must fail."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result.content
        return result.structured_content

    async def error(self, tool: str, **arguments: Any) -> Any:
        """The error of a call that must be refused, and by no accident."""
        error = (await self.failing(tool, **arguments))["error"]
        assert error["code"] != "INTERNAL_ERROR", (tool, arguments)
        return error

    async def whole(self, tool: str, **arguments: Any) -> Any:
        return await self.client.call_tool(tool, arguments)

    async def sources(self, path: str) -> list[str]:
        return [cell["source"] for cell in (await self("read_nb_cells", path=path))["cells"]]

    async def resource(self, uri: str) -> Any:
        (content,) = (await self.client.read_resource(uri)).contents
        return content

    async def refused_resource(self, uri: str) -> MCPError:
        """The error of a resource that must be refused, and by no accident."""
        with pytest.raises(MCPError) as refused:
            await self.client.read_resource(uri)
        assert refused.value.code in {-32600, -32602, -32002}, uri
        return refused.value


@contextmanager
def in_front_of(jupyter: JupyterServer, folder: Path, *flags: str, token: str | None = None) -> Generator[HttpServer]:
    """Our server in front of a Jupyter."""
    environ = {"CELLWRIGHT_JUPYTER_TOKEN": jupyter.token if token is None else token}
    with http_server(folder, "--jupyter-url", jupyter.url, "--rate", "0", *flags, environ=environ) as server:
        yield server


@asynccontextmanager
async def agent_of(server: HttpServer, mode: str = "auto") -> AsyncGenerator[Agent]:
    async with http_client(server, mode) as client:
        yield Agent(client)


class Relay:
    """A wire to a server that can be cut: all that is under way breaks off, and new connections are taken as before."""

    def __init__(self, server: JupyterServer) -> None:
        self._there = urlsplit(server.url)
        self._server = server
        self._open: set[asyncio.StreamWriter] = set()
        self._listener: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._take, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        self.cut()
        await self._listener.wait_closed()

    @property
    def address(self) -> JupyterServer:
        assert self._listener is not None
        port = self._listener.sockets[0].getsockname()[1]
        return JupyterServer(f"http://127.0.0.1:{port}", self._server.token, self._server.root)

    def cut(self) -> None:
        for writer in tuple(self._open):
            writer.transport.abort()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(self._there.hostname, self._there.port)
        self._open |= {writer, there_writer}
        await asyncio.gather(self._pass(reader, there_writer), self._pass(there_reader, writer))
        self._open -= {writer, there_writer}

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()
