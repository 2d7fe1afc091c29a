"""MCP from the outside, as cheaply as it goes: JSON-RPC over a pipe or a socket, in either era of the protocol."""

import json
import os
import select
import socket
import time
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
ERAS = (HANDSHAKE, MODERN)

ANSWER_SECONDS = 30.0
TRUSTED_IDLE_SECONDS = 1.0
"""uvicorn closes a connection that was idle for 5 s; one that may be near that is not used again."""
CLIENT = {"name": "bench", "version": "1"}
META = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": CLIENT,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}


class BenchError(Exception):
    """A server did something that leaves nothing to measure."""


class Wire(Protocol):
    """One connection to a server."""

    def exchange(self, body: bytes, headers: dict[str, str], number: int | None) -> bytes:
        """Send one message; the answer to request `number`, or nothing if it is a notification."""
        ...

    def close(self) -> None: ...


class Lines:
    """Lines from a pipe, each waited for with a bound."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""

    def next(self) -> bytes:
        end = time.monotonic() + ANSWER_SECONDS
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._descriptor], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(self._descriptor, 1 << 16) if ready else b""
            if not chunk:
                raise BenchError("the server closed its output" if ready else f"no line within {ANSWER_SECONDS:g} s")
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line


class StdioWire:
    """A server's stdin and stdout."""

    def __init__(self, to_server: int, from_server: int) -> None:
        self._to_server = to_server
        self._lines = Lines(from_server)

    def exchange(self, body: bytes, headers: dict[str, str], number: int | None) -> bytes:
        del headers
        os.write(self._to_server, body + b"\n")
        while number is not None:
            line = self._lines.next()
            if json.loads(line).get("id") == number:
                return line
        return b""

    def close(self) -> None:
        """The pipes belong to the process."""


class HttpWire:
    """One kept-alive connection. Each request leaves in one piece, so that a server never has to wait for its second half."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname, parts.port)
        self._fixed = (
            f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        )
        self._session = ""
        self._open()

    def _open(self) -> None:
        self._socket = socket.create_connection(self._address, timeout=ANSWER_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._used = time.monotonic()

    def exchange(self, body: bytes, headers: dict[str, str], number: int | None) -> bytes:
        if time.monotonic() - self._used > TRUSTED_IDLE_SECONDS:
            self.close()
            self._open()
        named = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{self._fixed}{self._session}{named}Content-Length: {len(body)}\r\n\r\n"
        self._socket.sendall(head.encode("ascii") + body)
        status, answered = self._head()
        received = self._body(answered)
        self._used = time.monotonic()
        if status not in {200, 202}:
            raise BenchError(f"HTTP {status}: {received[:500]!r}")
        if session := answered.get(b"mcp-session-id"):
            self._session = f"Mcp-Session-Id: {session.decode('ascii')}\r\n"
        if number is None:
            return b""
        return _event(received, number) if answered[b"content-type"].startswith(b"text/event-stream") else received

    def _head(self) -> tuple[int, dict[bytes, bytes]]:
        first = self._file.readline()
        if not first:
            raise BenchError("the server closed the connection")
        headers: dict[bytes, bytes] = {}
        while (line := self._file.readline()) not in {b"\r\n", b""}:
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        return int(first.split(b" ", 2)[1]), headers

    def _body(self, headers: dict[bytes, bytes]) -> bytes:
        if headers.get(b"transfer-encoding") != b"chunked":
            return self._file.read(int(headers.get(b"content-length", b"0")))
        chunks: list[bytes] = []
        while size := int(self._file.readline(), 16):
            chunks.append(self._file.read(size))
            self._file.readline()
        self._file.readline()
        return b"".join(chunks)

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def _event(stream: bytes, number: int) -> bytes:
    """The answer among the events of a stream."""
    for line in stream.splitlines():
        data = line.removeprefix(b"data: ")
        if data is not line and json.loads(data or b"{}").get("id") == number:
            return data
    raise BenchError(f"no answer to request {number} in {stream[:500]!r}")


@dataclass
class Session:
    """A client of one era on one connection."""

    wire: Wire
    era: str
    _last: int = field(default=0, init=False)

    def begin(self) -> None:
        """What this era wants before the first request: a handshake, or nothing."""
        if self.era == MODERN:
            return
        self.ask("initialize", {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT})
        said = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
        self.wire.exchange(said, {"Mcp-Protocol-Version": HANDSHAKE}, None)

    def ask(self, method: str, params: dict[str, Any]) -> bytes:
        """One request; its answer as it came."""
        self._last += 1
        headers: dict[str, str] = {"Mcp-Protocol-Version": self.era}
        if self.era == MODERN:
            params = {**params, **META}
            headers["Mcp-Method"] = method
            if "name" in params:
                headers["Mcp-Name"] = params["name"]
        request = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        return self.wire.exchange(json.dumps(request).encode(), headers, self._last)

    def call(self, tool: str, arguments: dict[str, Any] | None = None) -> bytes:
        return self.ask("tools/call", {"name": tool, "arguments": arguments or {}})

    def close(self) -> None:
        self.wire.close()


def result_of(answer: bytes) -> dict[str, Any]:
    """The result in an answer, which must not be a failure."""
    message = json.loads(answer)
    if "result" not in message or message["result"].get("isError"):
        raise BenchError(f"not a result: {answer[:500]!r}")
    return message["result"]
