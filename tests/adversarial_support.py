"""For the adversarial tests: requests no decent client would send, and a server whose tools leave a trace."""

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, cast

import copies
from cellwright.app.http.tokens import TokenStore, parse_scopes
from locations import TESTS
from support import TOKEN, HttpServer, clean_environ, stop

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META = "io.modelcontextprotocol/"
PROBE = TESTS / "adversarial" / "probe.py"

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def json(self) -> Any:
        """The body, also where it came as the one event of a stream."""
        text = self.body.decode("utf-8")
        if (self.header("content-type") or "").startswith("text/event-stream"):
            events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
            text = events[-1]
        return json.loads(text)


def exchange(port: int, *chunks: bytes, seconds: float = 15.0, source: str = "127.0.0.1") -> Answer:
    """Send bytes as they are, on a connection of their own, and read one answer."""
    with socket.create_connection(("127.0.0.1", port), seconds, source_address=(source, 0)) as connection:
        for chunk in chunks:
            connection.sendall(chunk)
        return read_answer(connection, chunks[0].split(b" ")[0].decode())


def read_answer(connection: socket.socket, method: str = "POST") -> Answer:
    with HTTPResponse(connection, method=method) as response:
        response.begin()
        return Answer(response.status, tuple(response.getheaders()), response.read())


def raw_request(port: int, method: str = "POST", path: str = "/mcp", headers: Headers = (), body: bytes = b"") -> bytes:
    """A request as bytes. Host and Content-Length are added only where `headers` has none."""
    given = {name.lower() for name, _ in headers}
    lines = [f"{method} {path} HTTP/1.1"]
    lines += [] if "host" in given else [f"Host: 127.0.0.1:{port}"]
    lines += [] if given & {"content-length", "transfer-encoding"} or not body else [f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def bearer(token: str = TOKEN) -> tuple[str, str]:
    return ("Authorization", f"Bearer {token}")


JSON_BODY = ("Content-Type", "application/json")
ACCEPT = ("Accept", "application/json, text/event-stream")


def rpc(method: str, params: Mapping[str, Any] | None = None, number: Any = 1, version: str = MODERN) -> dict[str, Any]:
    """A JSON-RPC request; of the stateless era it carries its version and capabilities."""
    given: dict[str, Any] = dict(params or {})
    if version == MODERN:
        given["_meta"] = {f"{META}protocolVersion": version, f"{META}clientCapabilities": {}}
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": given}


def modern_headers(method: str, name: str = "", token: str = TOKEN) -> list[tuple[str, str]]:
    named = [("Mcp-Name", name)] if name else []
    return [bearer(token), JSON_BODY, ACCEPT, ("MCP-Protocol-Version", MODERN), ("Mcp-Method", method), *named]


def post(port: int, body: bytes | Mapping[str, Any], headers: Headers, *, source: str = "127.0.0.1") -> Answer:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return exchange(port, raw_request(port, headers=headers, body=sent), source=source)


def call_tool(
    server: HttpServer,
    name: str,
    arguments: Mapping[str, Any] | None = None,
    token: str = TOKEN,
    more: Headers = (),
    source: str = "127.0.0.1",
) -> Answer:
    """One tool call in the stateless era."""
    message = rpc("tools/call", {"name": name, "arguments": arguments or {}})
    return post(server.port, message, [*modern_headers("tools/call", name, token), *more], source=source)


class Session:
    """A client of the handshake era, by hand."""

    def __init__(self, server: HttpServer, token: str = TOKEN, more: Headers = ()) -> None:
        self._server = server
        self._headers = [bearer(token), JSON_BODY, ACCEPT, *more]
        info = {"name": "attacker", "version": "0"}
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info}
        self.opening = self._post(rpc("initialize", params, version=LEGACY))
        self.id = self.opening.header("mcp-session-id") or ""
        if self.id:
            self._headers += [("Mcp-Session-Id", self.id), ("MCP-Protocol-Version", LEGACY)]
            self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    @property
    def headers(self) -> list[tuple[str, str]]:
        return list(self._headers)

    def send(self, body: bytes | Mapping[str, Any], more: Headers = ()) -> Answer:
        return self._post(body, more)

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> Answer:
        return self._post(rpc("tools/call", {"name": name, "arguments": arguments or {}}, version=LEGACY))

    def _post(self, body: bytes | Mapping[str, Any], more: Headers = ()) -> Answer:
        return post(self._server.port, body, [*self._headers, *more])


@contextmanager
def probe_server(
    folder: Path, *flags: str, environ: Mapping[str, str] | None = None, token: str = TOKEN
) -> Generator[HttpServer]:
    """`cellwright serve` with the tools of `adversarial/probe.py` as well, all offered, without a rate limit."""
    log = folder / f"probe-{time.monotonic_ns()}.log"
    (folder / "root").mkdir(exist_ok=True)
    given = ["--port", "0", "--root", str(folder / "root"), "--state-dir", str(folder / "state"), "--rate", "0"]
    chosen = [] if "--toolsets" in flags else ["--toolsets", "all"]
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [sys.executable, str(PROBE), "serve", *given, *chosen, *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=clean_environ(**({"CELLWRIGHT_TOKEN": token} if token else {}), **(environ or {})),
        )
    try:
        yield HttpServer(process, _address(process.stdout or (), log), token, log)
    finally:
        stop(process)


def _address(lines: Iterable[str], log: Path) -> str:
    for line in lines:
        if found := re.search(r"MCP\s+(http\S+)", line):
            return found[1]
    raise AssertionError(f"the server did not start: {log.read_text(encoding='utf-8')}")


def ran(server_folder: Path) -> list[str]:
    """The tools of the probe that ran so far."""
    trace = server_folder / "root" / "ran"
    return trace.read_text(encoding="utf-8").split() if trace.exists() else []


def tools_of(answer: Answer) -> list[str]:
    return [cast("str", tool["name"]) for tool in answer.json()["result"]["tools"]]


def create_token(state_dir: Path, name: str, scopes: str, *more: str) -> str:
    """A token as an operator makes one."""
    command = ("token", "create", name, "--scopes", scopes, "--state-dir", str(state_dir), *more)
    made = copies.run(*command, env=clean_environ())
    made.check_returncode()
    return made.stdout.split()[0]


def made_token(state_dir: Path, name: str, scopes: str) -> str:
    """The same without starting a program, for tests that need many."""
    return TokenStore(state_dir).create(name, parse_scopes(scopes))[1].reveal()


def revoke_token(state_dir: Path, name: str) -> None:
    copies.run("token", "revoke", name, "--state-dir", str(state_dir), env=clean_environ()).check_returncode()


def sources() -> Iterator[str]:
    """Loopback addresses to come from, one after the other: each is a stranger to the limiter."""
    for high in range(1, 255):
        for low in range(1, 255):
            yield f"127.77.{high}.{low}"
