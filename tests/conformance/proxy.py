"""A loopback proxy that adds our token to every request, because the conformance suite cannot send one."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def adding_token(upstream_port: int, token: str, port: int) -> AsyncGenerator[None]:
    """Listen on `port` and pass everything on to `upstream_port`, with an Authorization header."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", upstream_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_requests(reader, up_writer, token), _copy(up_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    async with server:
        yield


async def _requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head[:-4].split(b"\r\n")
            lines.insert(1, b"Authorization: Bearer " + token.encode())
            writer.write(b"\r\n".join(lines) + b"\r\n\r\n")
            names = {line.partition(b":")[0].lower(): line.partition(b":")[2].strip().lower() for line in lines[1:]}
            if length := int(names.get(b"content-length", b"0")):
                writer.write(await reader.readexactly(length))
            if names.get(b"transfer-encoding") == b"chunked":
                await _chunks(reader, writer)
            await writer.drain()
    writer.close()


async def _chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    size = -1
    while size:
        line = await reader.readline()
        size = int(line, 16)
        writer.write(line + await reader.readexactly(size + 2))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
