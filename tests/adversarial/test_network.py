"""Family N: the network edge. A stranger on the wire, a page in the browser, a client that lies."""

import asyncio
import json
import socket
import threading
import time
import zlib
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx2
import psutil
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from playwright.sync_api import Page
from playwright.sync_api import Route as BrowserRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from adversarial_support import (
    ACCEPT,
    JSON_BODY,
    LEGACY,
    MODERN,
    Answer,
    Session,
    bearer,
    call_tool,
    exchange,
    made_token,
    modern_headers,
    post,
    probe_server,
    ran,
    raw_request,
    read_answer,
    rpc,
    sources,
    tools_of,
)
from browser import browser
from cellwright.app.http.gate import Gate
from cellwright.app.http.metrics import Metrics
from cellwright.app.http.refusal import REFUSED
from cellwright.app.http.routes import OPEN, Route
from cellwright.app.http.serving import make_gate
from cellwright.app.http.tokens import OneToken, TokenStore
from cellwright.app.page.routes import WorkspacePage as OurPage
from cellwright.app.settings import Settings
from cellwright.app.workspace import make_workspace
from cellwright.core.types import Scope, Secret
from cellwright.web.static import ASSETS, FILES
from cellwright.web.visits import Visits
from requirements import requirement
from support import TOKEN, HttpServer, stdio_command

pytestmark = pytest.mark.anyio

FOUR_MEBIBYTES = 4 * 1024 * 1024
MEMORY_BYTES = 20 * 1024 * 1024
ALLOWED = "https://lab.example"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("network")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    """One server for the whole family: what one attack breaks, the next one shows."""
    flags = ("--body-timeout", "1", "--allowed-origins", ALLOWED)
    with probe_server(folder, *flags) as running:
        yield running
        assert running.process.poll() is None, "an attack ended the server"


ONLY_WHY = ({"error"}, {"jsonrpc", "id", "error"})
"""The keys of a refusal; the second is that of the protocol, for clients that show nothing else."""


def refused(answer: Answer, status: int) -> None:
    """Refused with this status, and with nothing to read but why."""
    assert answer.status == status, answer
    assert set(answer.json()) in ONLY_WHY
    assert answer.header("access-control-allow-origin") in {None, ALLOWED}


# -- N1 Host -----------------------------------------------------------------------------------------------------------------

HOSTS = [
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1.evil.example",
    "127.0.0.1.evil.example:{port}",
    "localhost.evil",
    "localhost.evil:{port}",
    "[::1].x",
    "[::1].x:{port}",
    "[::1]x:{port}",
    "",
    ":{port}",
    "127.0.0.1",
    "127.0.0.1:1",
    "127.0.0.1:{port}0",
    "127.0.0.1:{port}:{port}",
    "127.0.0.1:{port}@evil.example",
    "evil.example@127.0.0.1:{port}",
    "evil.example, 127.0.0.1:{port}",
    "127.0.0.1:{port}#evil.example",
    "localhost.:{port}",
    "2130706433:{port}",
    "0x7f.1:{port}",
    "127.1:{port}",
    "0.0.0.0:{port}",
    "attacker.test:{port}",
]


@requirement("adversarial:N1")
@pytest.mark.parametrize("host", HOSTS)
def test_a_host_that_is_not_ours_is_refused_before_the_body_is_read(server: HttpServer, host: str) -> None:
    waiting = [("Host", host.format(port=server.port)), *modern_headers("tools/list"), ("Expect", "100-continue")]
    head = raw_request(server.port, headers=[*waiting, ("Content-Length", str(FOUR_MEBIBYTES))])
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(head)
        first_line = connection.makefile("rb").readline()
    # The body was announced, asked about, and never sent: it cannot have been read.
    assert first_line.split()[1] == b"421"


@requirement("adversarial:N1")
@pytest.mark.parametrize("path", ["/mcp", "/health", "/metrics", "/", "/.well-known/oauth-protected-resource"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "DELETE"])
def test_a_foreign_host_gets_421_on_every_path(server: HttpServer, method: str, path: str) -> None:
    refused(exchange(server.port, raw_request(server.port, method, path, [("Host", "evil.example"), bearer()])), 421)


@requirement("adversarial:N1")
def test_other_headers_do_not_stand_in_for_host(server: HttpServer) -> None:
    own = f"127.0.0.1:{server.port}"
    forwarded = [("X-Forwarded-Host", own), ("Forwarded", f"host={own}"), ("X-Host", own), ("X-Original-Host", own)]
    refused(
        exchange(server.port, raw_request(server.port, "GET", "/health", [("Host", "evil.example"), *forwarded])), 421
    )


@requirement("adversarial:N1")
def test_no_host_and_an_absolute_target_get_no_further(server: HttpServer) -> None:
    refused(exchange(server.port, b"GET /health HTTP/1.0\r\n\r\n"), 421)
    absolute = f"http://127.0.0.1:{server.port}/health"
    refused(exchange(server.port, raw_request(server.port, "GET", absolute, [("Host", "evil.example")])), 421)


@requirement("adversarial:N1")
def test_two_hosts_are_refused(server: HttpServer) -> None:
    both = [("Host", f"127.0.0.1:{server.port}"), ("Host", "evil.example")]
    for hosts in (both, both[::-1]):
        # The HTTP parser refuses these itself, before the gate.
        assert exchange(server.port, raw_request(server.port, "GET", "/health", hosts)).status == 400


@requirement("adversarial:N1")
@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LocalHost:{port}", "[::1]:{port}"])
def test_our_own_names_are_served(server: HttpServer, host: str) -> None:
    named = [("Host", host.format(port=server.port))]
    assert exchange(server.port, raw_request(server.port, "GET", "/health", named)).status == 200


# -- N2, N3 Origin -----------------------------------------------------------------------------------------------------------

ORIGINS = [
    "https://evil.example",
    "null",
    "",
    "http://localhost:8888.evil.example",
    "http://127.0.0.1@evil",
    "http://127.0.0.1:{port}@evil",
    "http://127.0.0.1:{port}.evil.example",
    "http://127.0.0.1:{port}/",
    "http://localhost:8888",
    "http://127.0.0.1",
    "file://",
    "chrome-extension://abcdefghijklmnop",
    "http://evil.example, http://127.0.0.1:{port}",
]


@requirement("adversarial:N2")
@pytest.mark.parametrize("origin", ORIGINS)
def test_a_foreign_origin_is_refused_on_every_route(server: HttpServer, folder: Path, origin: str) -> None:
    before = ran(folder)
    foreign = ("Origin", origin.format(port=server.port))
    refused(call_tool(server, "probe_write", more=[foreign]), 403)
    for method, path in (("GET", "/mcp"), ("GET", "/health"), ("GET", "/metrics"), ("GET", "/"), ("OPTIONS", "/mcp")):
        stream = [foreign, bearer(), ("Accept", "text/event-stream")]
        refused(exchange(server.port, raw_request(server.port, method, path, stream)), 403)
    assert ran(folder) == before


@requirement("adversarial:N2")
def test_two_origins_are_refused_in_either_order(server: HttpServer) -> None:
    pair = [("Origin", ALLOWED), ("Origin", "https://evil.example")]
    for origins in (pair, pair[::-1]):
        refused(call_tool(server, "probe_write", more=origins), 403)


@requirement("adversarial:N3")
@pytest.mark.parametrize(
    "origin",
    [
        "https://lab.example.evil",
        "https://lab.example.evil.example",
        "https://xlab.example",
        "https://evil.lab.example",
        "http://lab.example",
        "https://lab.example:444",
        "https://lab.example:443",
        "https://lab.example/",
        "https://lab.example@evil",
        "https://labxexample",
        "https://LAB.EXAMPLE",
        "https://lab.example https://evil.example",
        "https://lab.example\t",
    ],
)
def test_an_origin_that_only_resembles_the_allowed_one_is_refused(
    server: HttpServer, folder: Path, origin: str
) -> None:
    before = ran(folder)
    if origin.strip() == ALLOWED:
        # White space around a header's value is no part of it: this is the allowed origin.
        assert call_tool(server, "probe_read", more=[("Origin", origin)]).status == 200
        return
    refused(call_tool(server, "probe_write", more=[("Origin", origin)]), 403)
    asked = [("Origin", origin), ("Access-Control-Request-Method", "POST")]
    preflight = exchange(server.port, raw_request(server.port, "OPTIONS", "/mcp", asked))
    refused(preflight, 403)
    assert preflight.header("access-control-allow-origin") is None
    assert ran(folder) == before


@requirement("adversarial:N3")
def test_the_allowed_origin_is_answered_by_its_name_and_still_needs_a_token(server: HttpServer) -> None:
    allowed = ("Origin", ALLOWED)
    answer = call_tool(server, "probe_read", more=[allowed])
    assert (answer.status, answer.header("access-control-allow-origin")) == (200, ALLOWED)
    assert answer.header("access-control-allow-credentials") is None
    without = exchange(server.port, raw_request(server.port, "GET", "/metrics", [allowed]))
    refused(without, 401)


# -- N4 a real browser -------------------------------------------------------------------------------------------------------

HOSTILE_PAGE = """<!doctype html><title>harmless</title><script>
window.attack = async (requests) => {
  const seen = [];
  for (const [path, options] of requests) {
    try {
      const answer = await fetch(path, options);
      seen.push({path, status: answer.status, type: answer.type, text: await answer.text()});
    } catch (error) { seen.push({path, error: String(error)}); }
  }
  return seen;
};
window.open_socket = (url) => new Promise((done) => {
  const socket = new WebSocket(url);
  socket.onopen = () => done("open");
  socket.onerror = () => done("error");
});
</script>"""


# The browser's own guard of local addresses is switched off: it is not in every browser, and here it would hide the server.
REBINDING = ("--host-resolver-rules=MAP attacker.test 127.0.0.1", "--disable-features=LocalNetworkAccessChecks")


def refusals(server: HttpServer) -> int:
    return server.log.read_text(encoding="utf-8").count("event=refused")


def hostile_page(page: Page, url: str) -> None:
    """The attacker's own server answers the navigation; everything after it goes where the name points now."""

    def first_answer(route: BrowserRoute) -> None:
        if route.request.is_navigation_request():
            route.fulfill(status=200, content_type="text/html", body=HOSTILE_PAGE)
        else:
            route.continue_()

    page.route("**/*", first_answer)
    page.goto(url)


def browser_attacks(token: str) -> list[list[Any]]:
    message = json.dumps(rpc("tools/call", {"name": "probe_write", "arguments": {}}))
    stateless = dict(modern_headers("tools/call", "probe_write", token))
    plain = {"method": "POST", "body": message, "headers": {"Content-Type": "text/plain"}}
    known = {"method": "POST", "body": message, "headers": stateless}
    paths = ["/mcp", "/", "/health", "/metrics", "/events", "/.well-known/oauth-protected-resource"]
    reads: list[list[Any]] = [[path, {}] for path in paths]
    return [*reads, ["/mcp", plain], ["/mcp", known], ["/mcp", {"method": "DELETE"}]]


@requirement("adversarial:N4")
def test_a_rebinding_page_reads_only_refusals_and_runs_nothing(server: HttpServer, folder: Path) -> None:
    before = ran(folder)
    with browser(*REBINDING) as running:
        page = running.new_page()
        hostile_page(page, f"http://attacker.test:{server.port}/")
        # The worst case: the page even knows the token.
        seen = page.evaluate("requests => attack(requests)", browser_attacks(TOKEN))
        sockets = page.evaluate("url => open_socket(url)", f"ws://attacker.test:{server.port}/mcp")
    assert [one.get("status") for one in seen] == [421] * len(seen), seen
    assert all(set(json.loads(one["text"])) in ONLY_WHY for one in seen), seen
    assert sockets == "error"
    assert ran(folder) == before


@requirement("adversarial:N4")
def test_a_page_of_another_origin_reads_nothing_and_runs_nothing(server: HttpServer, folder: Path) -> None:
    before, refused_before = ran(folder), refusals(server)
    target = f"http://127.0.0.1:{server.port}"
    with browser(*REBINDING) as running:
        page = running.new_page()
        hostile_page(page, f"http://attacker.test:{server.port}/")
        across = [[target + path, options] for path, options in browser_attacks(TOKEN)]
        opaque = [[url, {**options, "mode": "no-cors"}] for url, options in across if options.get("method") != "DELETE"]
        seen = page.evaluate("requests => attack(requests)", [*across, *opaque])
        sockets = page.evaluate("url => open_socket(url)", f"ws://127.0.0.1:{server.port}/mcp")
    assert all("error" in one or (one["type"], one["text"]) == ("opaque", "") for one in seen), seen
    assert sockets == "error"
    assert refusals(server) - refused_before >= len(across), "the requests did not reach the server"
    assert ran(folder) == before


# -- N5 every route ----------------------------------------------------------------------------------------------------------

GUESSES = [
    *("/", "/mcp/", "//mcp", "/MCP", "/%6dcp", "/mcp%2f", "/mcp;x", "/mcp?token=" + TOKEN, "/mcp/../metrics"),
    *("/health/../metrics", "/health/..%2fmetrics", "/health%00", "/metrics/", "/metrics?access_token=" + TOKEN),
    *("/sse", "/messages", "/events", "/api", "/api/kernels", "/admin", "/debug", "/docs", "/openapi.json"),
    *("/favicon.ico", "/robots.txt", "/static/", "/ws", "/tokens", "/.well-known/", "/lab", "/tree", "/server-status"),
]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "BREW"]


def gate_of(settings: Settings, port: int = 4040) -> Gate:
    async def nowhere(_scope: AsgiScope, _receive: Receive, _send: Send) -> None:
        raise AssertionError("reached")

    page = OurPage(make_workspace(settings, "streamable-http"), Visits())
    verifiers = [OneToken(Secret(TOKEN))]
    return make_gate(settings, port, nowhere, Metrics("0"), verifiers, lambda _name: None, page.routes())


def declared(tmp_path: Path) -> dict[str, Scope | str]:
    settings = Settings(
        root=tmp_path,
        state_dir=tmp_path / "state",
        jwt_issuer="https://i.example",
        jwt_audience="https://us.example/mcp",
        jwt_jwks="keys.json",
    )
    return {route.path: route.needs for route in gate_of(settings).routes}


@requirement("adversarial:N5")
def test_only_health_the_pages_own_files_and_the_oauth_metadata_are_declared_open(tmp_path: Path) -> None:
    metadata = "/.well-known/oauth-protected-resource"
    opened = {path for path, needs in declared(tmp_path).items() if needs == OPEN}
    assert opened == {"/health", *FILES, metadata, metadata + "/mcp"}
    plain = gate_of(Settings(root=tmp_path, state_dir=tmp_path / "state"))
    assert {route.path for route in plain.routes if route.needs == OPEN} == {"/health", *FILES}


@requirement("adversarial:N5")
@pytest.mark.parametrize("method", METHODS)
def test_nothing_but_health_and_the_pages_own_files_answers_without_a_valid_token(
    server: HttpServer, folder: Path, method: str
) -> None:
    two_hours_ago = TokenStore(folder / "state", clock=lambda: time.time() - 7200)
    _, secret = two_hours_ago.create(f"expired {method}", frozenset(Scope), lifetime=3600)
    tokens = [[], [bearer("wrong")], [bearer(secret.reveal())], [("Authorization", f"Basic {TOKEN}")], [bearer("")]]
    tokens += [[("Cookie", f"token={TOKEN}; Authorization=Bearer {TOKEN}")], [("X-Api-Key", TOKEN)]]
    body = json.dumps(rpc("tools/call", {"name": "probe_write", "arguments": {}})).encode()
    before = ran(folder)
    stranger = sources()
    for path in [*declared(folder), *GUESSES]:
        for token in tokens:
            sent = [*token, JSON_BODY, ACCEPT] if method == "POST" else [*token, ACCEPT]
            request = raw_request(server.port, method, path, sent, body if method == "POST" else b"")
            answer = exchange(server.port, request, source=next(stranger))
            where = (method, path, token, answer)
            if (method, path.rstrip("/")) == ("GET", "/health"):
                assert (answer.status, answer.json()) == (200, {"status": "ok"}), where
            elif method == "GET" and (path.rstrip("/") or "/") in FILES:
                assert (answer.status, answer.body) == (
                    200,
                    (ASSETS / FILES[path.rstrip("/") or "/"][0]).read_bytes(),
                ), where
            else:
                assert 400 <= answer.status < 500, where
                assert TOKEN.encode() not in answer.body, where
    assert ran(folder) == before


@requirement("adversarial:N5")
@pytest.mark.parametrize("needs", [None, "", "public", "OPEN", "read", "none", 0, True, frozenset({Scope.READ})])
def test_a_route_without_a_declared_scope_cannot_exist(needs: Any) -> None:
    async def endpoint(_request: Request) -> Response:
        return Response()

    with pytest.raises(ValueError, match="declares neither a scope nor OPEN"):
        Route("/new", frozenset({"GET"}), needs, endpoint)
    with pytest.raises(TypeError):
        Route("/new", frozenset({"GET"}), endpoint=endpoint)  # pyright: ignore[reportCallIssue]


# -- N6 WebSocket ------------------------------------------------------------------------------------------------------------


@requirement("adversarial:N6")
@pytest.mark.parametrize(
    "path", ["/mcp", "/health", "/metrics", "/", "/ws", "/api/kernels/1/channels", "/terminals/websocket/1"]
)
@pytest.mark.parametrize("token", [None, TOKEN])
@pytest.mark.parametrize("origin", [None, "https://evil.example", ALLOWED])
def test_no_websocket_is_ever_accepted(server: HttpServer, path: str, token: str | None, origin: str | None) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with pytest.raises(InvalidStatus) as refusal:
        connect(
            f"ws://127.0.0.1:{server.port}{path}",
            origin=origin,  # pyright: ignore[reportArgumentType]
            additional_headers=headers,
            open_timeout=10,
            proxy=None,
        )
    assert refusal.value.response.status_code != 101
    if origin == "https://evil.example":
        assert refusal.value.response.status_code == 403


@requirement("adversarial:N6")
@pytest.mark.parametrize("path", ["/mcp", "/health", "/metrics", "/new"])
async def test_the_gate_closes_a_websocket_before_accepting_it(tmp_path: Path, path: str) -> None:
    gate = gate_of(Settings(root=tmp_path, state_dir=tmp_path / "state"))
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1:4040"), (b"authorization", f"Bearer {TOKEN}".encode())]
    await gate({"type": "websocket", "path": path, "headers": headers, "subprotocols": []}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


# -- N7 cross-site -----------------------------------------------------------------------------------------------------------

CALL = json.dumps(rpc("tools/call", {"name": "probe_write", "arguments": {}})).encode()


@requirement("adversarial:N7")
@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "text/plain; charset=utf-8",
        "text/plain; application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "application/json-rpc, text/plain",
        "text/json",
        "application/octet-stream",
        "",
        None,
    ],
)
def test_a_body_of_another_kind_is_not_read_even_with_a_token(
    server: HttpServer, folder: Path, kind: str | None
) -> None:
    before = ran(folder)
    headers = [header for header in modern_headers("tools/call", "probe_write") if header[0] != "Content-Type"]
    refused(post(server.port, CALL, [*headers, *([("Content-Type", kind)] if kind is not None else [])]), 415)
    assert ran(folder) == before


@requirement("adversarial:N7")
def test_two_content_types_are_refused(server: HttpServer, folder: Path) -> None:
    before = ran(folder)
    headers = [*modern_headers("tools/call", "probe_write"), ("Content-Type", "text/plain")]
    for ordered in (headers, headers[::-1]):
        refused(post(server.port, CALL, ordered), 415)
    assert ran(folder) == before


@requirement("adversarial:N7")
def test_a_cross_site_request_is_refused_even_with_a_token(server: HttpServer, folder: Path) -> None:
    before = ran(folder)
    cross = ("Sec-Fetch-Site", "cross-site")
    refused(call_tool(server, "probe_write", more=[cross]), 403)
    refused(call_tool(server, "probe_write", more=[cross, ("Origin", "https://evil.example")]), 403)
    form = [cross, ("Content-Type", "application/x-www-form-urlencoded"), ("Cookie", f"token={TOKEN}")]
    refused(exchange(server.port, raw_request(server.port, headers=form, body=b"jsonrpc=2.0&method=tools/call")), 403)
    assert ran(folder) == before


@requirement("adversarial:N7")
def test_a_cookie_is_no_credential_and_none_is_ever_set(server: HttpServer, folder: Path) -> None:
    before = ran(folder)
    headers = [header for header in modern_headers("tools/call", "probe_write") if header[0] != "Authorization"]
    cookies = [("Cookie", f"token={TOKEN}; access_token={TOKEN}; session={TOKEN}; Authorization=Bearer {TOKEN}")]
    answers = [post(server.port, CALL, [*headers, *cookies]), call_tool(server, "probe_read", more=cookies)]
    answers += [Session(server, more=cookies).opening]
    assert [answer.status for answer in answers] == [401, 200, 200]
    assert all(answer.header("set-cookie") is None for answer in answers)
    assert "probe_write" not in ran(folder)[len(before) :]


# -- N8 size and pace --------------------------------------------------------------------------------------------------------


class Memory:
    """The most memory a process used while it was watched, above what it had."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._start = self._process.memory_info().rss
        self._most = self._start
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join(10)

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            self._most = max(self._most, self._process.memory_info().rss)

    @property
    def grown(self) -> int:
        return self._most - self._start


def warmed(server: HttpServer) -> None:
    """What the first large request costs once (buffers, arenas) is no growth per attack."""
    large = json.dumps(rpc("tools/call", {"name": "probe_read", "arguments": {"text": "x" * (FOUR_MEBIBYTES // 2)}}))
    assert post(server.port, large.encode(), modern_headers("tools/call", "probe_read")).status == 200


@requirement("adversarial:N8")
def test_an_announced_body_over_the_limit_is_refused_unread(server: HttpServer) -> None:
    for size in (FOUR_MEBIBYTES + 1, 10**12, 10**18):
        head = [*modern_headers("tools/list"), ("Content-Length", str(size)), ("Expect", "100-continue")]
        refused(exchange(server.port, raw_request(server.port, headers=head)), 413)


@requirement("adversarial:N8")
@pytest.mark.parametrize("over", [1, 2 * FOUR_MEBIBYTES])
def test_a_client_that_sends_too_much_can_read_why(server: HttpServer, over: int) -> None:
    warmed(server)
    headers = dict(modern_headers("tools/list"))
    body = b'{"x":"' + b"x" * (FOUR_MEBIBYTES + over - 8) + b'"}'
    with Memory(server.process.pid) as memory, httpx2.Client(timeout=15) as client:
        for _ in range(10):
            answer = client.post(server.url, content=body, headers=headers)
            assert answer.status_code == 413
            assert set(answer.json()) in ONLY_WHY
    assert memory.grown <= MEMORY_BYTES


@requirement("adversarial:N8")
def test_a_body_of_exactly_the_limit_is_taken(server: HttpServer) -> None:
    message = json.dumps(rpc("tools/call", {"name": "probe_read", "arguments": {"text": ""}}))
    filled = message.replace('"text": ""', '"text": "' + "x" * (FOUR_MEBIBYTES - len(message)) + '"').encode()
    assert len(filled) == FOUR_MEBIBYTES
    assert post(server.port, filled, modern_headers("tools/call", "probe_read")).status == 200


@requirement("adversarial:N8")
def test_an_endless_chunked_body_is_cut_off(server: HttpServer) -> None:
    warmed(server)
    head = raw_request(server.port, headers=[*modern_headers("tools/list"), ("Transfer-Encoding", "chunked")])
    chunk = b"10000\r\n" + b"[" * 0x10000 + b"\r\n"
    with (
        Memory(server.process.pid) as memory,
        socket.create_connection(("127.0.0.1", server.port), 15) as connection,
    ):
        connection.sendall(head)
        sent = 0
        try:
            while sent < 10 * FOUR_MEBIBYTES:
                connection.sendall(chunk)
                sent += 0x10000
        except OSError:
            pass  # the server hung up, as it should
    assert sent < 10 * FOUR_MEBIBYTES
    assert memory.grown <= MEMORY_BYTES


@requirement("adversarial:N8")
def test_a_chunked_body_over_the_limit_is_answered_413(server: HttpServer) -> None:
    head = raw_request(server.port, headers=[*modern_headers("tools/list"), ("Transfer-Encoding", "chunked")])
    # Just over the limit in one chunk, then silence: whoever waits for more, waits in vain.
    refused(exchange(server.port, head + b"400001\r\n" + b"[" * (FOUR_MEBIBYTES + 1)), 413)


@requirement("adversarial:N8")
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, identity", "x-gzip", "GZIP"])
def test_a_compressed_body_is_not_unpacked(server: HttpServer, encoding: str) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = packer.compress(b"[" * (1000 * 16_384)) + packer.flush()
    warmed(server)
    headers = [*modern_headers("tools/list"), ("Content-Encoding", encoding)]
    with Memory(server.process.pid) as memory:
        refused(post(server.port, bomb, headers), 415)
    assert memory.grown <= MEMORY_BYTES


@requirement("adversarial:N8")
def test_a_second_content_encoding_hides_nothing(server: HttpServer) -> None:
    headers = [*modern_headers("tools/list"), ("Content-Encoding", "gzip"), ("Content-Encoding", "identity")]
    for ordered in (headers, headers[::-1]):
        refused(post(server.port, zlib.compress(b"{}"), ordered), 415)


@requirement("adversarial:N8")
def test_transfer_encodings_and_lengths_that_disagree_are_refused(server: HttpServer) -> None:
    both = [*modern_headers("tools/list"), ("Content-Length", "5"), ("Transfer-Encoding", "chunked")]
    packed = [*modern_headers("tools/list"), ("Transfer-Encoding", "gzip, chunked")]
    lengths = [*modern_headers("tools/list"), ("Content-Length", "5"), ("Content-Length", "6")]
    for headers in (packed, lengths):
        answer = exchange(server.port, raw_request(server.port, headers=headers) + b"0\r\n\r\n")
        assert 400 <= answer.status <= 501
        assert b"jsonrpc" not in answer.body
    smuggled = raw_request(server.port, "GET", "/metrics", [bearer()])
    answer = exchange(server.port, raw_request(server.port, headers=both) + b"0\r\n\r\n" + smuggled)
    assert b"cellwright_info" not in answer.body


@requirement("adversarial:N8")
def test_a_body_that_drips_is_answered_408(server: HttpServer) -> None:
    head = raw_request(server.port, headers=[*modern_headers("tools/list"), ("Content-Length", "1000")])
    refused(dripped(server, head, b"x" * 1000), 408)


@requirement("adversarial:N8")
def test_a_head_that_drips_is_not_waited_for(server: HttpServer) -> None:
    """No token is needed to send a head, so without a bound anyone could hold every connection of the server."""
    with socket.create_connection(("127.0.0.1", server.port), 15) as connection:
        connection.sendall(f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nX-Slow: ".encode())
        assert hung_up(connection, b"y", seconds=20)


def dripped(server: HttpServer, head: bytes, body: bytes) -> Answer:
    """The answer to a body that comes a byte at a time, slower than anyone needs to be."""
    answers: list[Answer] = []
    with socket.create_connection(("127.0.0.1", server.port), 15) as connection:
        reader = threading.Thread(target=lambda: answers.append(read_answer(connection)))
        connection.sendall(head)
        reader.start()
        for byte in body:
            try:
                connection.sendall(bytes([byte]))
            except OSError:
                break
            reader.join(0.25)
            if not reader.is_alive():
                break
        reader.join(15)
    return answers[0]


def hung_up(connection: socket.socket, byte: bytes, seconds: float) -> bool:
    """Whether the other side ends the connection while we drip bytes into it."""
    end = time.monotonic() + seconds
    connection.settimeout(0.25)
    while time.monotonic() < end:
        try:
            connection.sendall(byte)
            while connection.recv(65536):
                pass
        except TimeoutError:
            continue
        except OSError:
            return True
        return True
    return False


# -- N9 malformed JSON -------------------------------------------------------------------------------------------------------

DEEP = 100_000
LIST = '"jsonrpc":"2.0","method":"tools/list","params":{"_meta":%s}' % json.dumps(rpc("x")["params"]["_meta"])  # noqa: UP031
MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "white space": b" \n",
    "no JSON": b"POST / HTTP/1.1",
    "cut off": b'{"jsonrpc":"2.0","id":1,"method":"tools/',
    "invalid UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}',
    "UTF-16": '{"jsonrpc":"2.0","id":1,"method":"tools/call"}'.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf{}",
    "NUL": b'{"jsonrpc":"2.0","id":1,"method":"tools/list\x00"}',
    "deep list": b"[" * DEEP + b"]" * DEEP,
    "deep object": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep params": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe_read","arguments":{"text":'
    + b"[" * DEEP
    + b"]" * DEEP
    + b"}}}",
    "deep, but readable": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe_read","arguments":{"text":'
    + b"[" * 900
    + b"]" * 900
    + b"}}}",
    "brackets": b"[" * (FOUR_MEBIBYTES - 1),
    "brackets over the limit": b"[" * (10 * 1024 * 1024),
    "duplicate method": b'{"id":1,"method":"tools/list",%s}' % LIST.replace("tools/list", "nope").encode(),
    "duplicate id": b'{"id":1,"id":[],%s}' % LIST.encode(),
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe_read","arguments":{"count":NaN}}}',
    "NaN id": b'{"id":NaN,%s}' % LIST.encode(),
    "Infinity id": b'{"id":-Infinity,%s}' % LIST.encode(),
    "null id": b'{"id":null,%s}' % LIST.encode(),
    "object id": b'{"id":{},%s}' % LIST.encode(),
    "true id": b'{"id":true,%s}' % LIST.encode(),
    "fractional id": b'{"id":1.5,%s}' % LIST.encode(),
    "1 MB id": b'{"id":"%s",%s}' % (b"x" * 1_000_000, LIST.encode()),
    "lone surrogate id": b'{"id":"\\ud800",%s}' % LIST.encode(),
    "2^63 id": b'{"id":9223372036854775808,%s}' % LIST.encode(),
    "-2^63-1 id": b'{"id":-9223372036854775809,%s}' % LIST.encode(),
    "2^64 id": b'{"id":18446744073709551616,%s}' % LIST.encode(),
    "5,000 digits id": b'{"id":%s,%s}' % (b"9" * 5_000, LIST.encode()),
    "5,000 digits argument": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe_read","arguments":{"count":%s}}}'
    % (b"9" * 5_000),
    "1e400": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe_read","arguments":{"ratio":1e400}}}',
    "batch": b"[%s,%s]" % (CALL, CALL),
    "empty batch": b"[]",
    "number": b"5",
    "null": b"null",
    "string": b'"tools/call"',
    "wrong version": b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}',
    "no method": b'{"jsonrpc":"2.0","id":1}',
    "method is a number": b'{"jsonrpc":"2.0","id":1,"method":5}',
    "params is a list": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["probe_write"]}',
    "params is text": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"probe_write"}',
    "name is a list": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["probe_write"]}}',
    "name is a surrogate": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\\udfff"}}',
    "name of 1 MB": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s"}}' % (b"x" * 1_000_000),
    "arguments is text": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe_write","arguments":"x"}}',
    "100,000 arguments": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe_write","arguments":{%s}}}'
    % b",".join(b'"a%d":1' % number for number in range(100_000)),
    "unknown argument of 1 MB": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe_write","arguments":{"%s":1}}}'
    % (b"x" * 1_000_000),
    "meta is a list": b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":[]}}',
    "an answer nobody asked for": b'{"jsonrpc":"2.0","id":1,"result":{}}',
    "an error nobody asked for": b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}',
}


def not_a_failure_of_ours(answer: Answer) -> None:
    assert answer.status < 500, answer
    if answer.status == 200:
        message = answer.json()
        assert message["jsonrpc"] == "2.0"
        assert message.get("error", {}).get("code") != -32603, message


@requirement("adversarial:N9")
@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_json_is_an_error_of_the_sender(server: HttpServer, folder: Path, case: str) -> None:
    before = ran(folder)
    body = MALFORMED[case]
    method = "tools/call" if b"tools/call" in body else "tools/list"
    name = next((name for name in ("probe_read", "probe_write") if name.encode() in body), "")
    headers = dict(modern_headers(method, name if method == "tools/call" else ""))
    # One connection, kept open by the client wherever the server allows it.
    with httpx2.Client(timeout=15) as client:
        answer = client.post(server.url, content=body, headers=headers)
        not_a_failure_of_ours(Answer(answer.status_code, tuple(answer.headers.items()), answer.content))
        listed = client.post(server.url, json=rpc("tools/list"), headers=dict(modern_headers("tools/list")))
    assert listed.json()["result"]["tools"]
    assert ran(folder) == before


@requirement("adversarial:N9")
def test_malformed_json_leaves_a_handshake_session_as_it_was(server: HttpServer, folder: Path) -> None:
    before = ran(folder)
    session = Session(server)
    for body in MALFORMED.values():
        if len(body) <= FOUR_MEBIBYTES:
            not_a_failure_of_ours(session.send(body))
    assert tools_of(session.send(rpc("tools/list", version=LEGACY)))
    assert ran(folder) == before


@requirement("adversarial:N9")
async def test_malformed_json_on_stdio_leaves_the_server_answering(tmp_path: Path) -> None:
    answers = await said_on_stdio(tmp_path, [body.replace(b"\n", b" ") for body in MALFORMED.values()])
    assert answers[-1]["result"]["tools"]
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    assert [answer for answer in answers if answer.get("error", {}).get("code") == -32603] == []


PARSE, REQUEST = -32700, -32600
UNREADABLE: dict[str, tuple[bytes, object, int]] = {
    "no JSON": (b"hello", None, PARSE),
    "cut off": (b'{"jsonrpc":"2.0","id":101,"method":"tools/list","params":{', 101, PARSE),
    "lone surrogate": (
        b'{"jsonrpc":"2.0","id":102,"method":"tools/call","params":{"name":"list_nbs","arguments":{"path":"\\ud800"}}}',
        102,
        PARSE,
    ),
    "NUL": (b'{"jsonrpc":"2.0","id":"nul","method":"ping","params":{"a":"\0"}}', "nul", PARSE),
    "byte order mark": (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":103,"method":"ping"}', 103, PARSE),
    "params is a list": (b'{"jsonrpc":"2.0","id":104,"method":"ping","params":[]}', 104, REQUEST),
    "no method": (b'{"jsonrpc":"2.0","id":105}', 105, REQUEST),
    "wrong version": (b'{"jsonrpc":"1.0","id":106,"method":"ping"}', 106, REQUEST),
    "batch": (b"[%s]" % CALL, None, REQUEST),
    **{
        f"id is {kind}": (b'{"jsonrpc":"2.0","id":%s,"method":"tools/list"}' % kind.encode(), None, REQUEST)
        for kind in ("null", "1.5", "true", "{}", "[7]", "NaN")
    },
}


@requirement("adversarial:N9:stdio")
async def test_on_stdio_a_line_that_is_no_message_is_answered_too(tmp_path: Path) -> None:
    quiet = [b"", b"  ", b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}']
    sent = [*(body for body, _, _ in UNREADABLE.values()), *quiet]
    *refused, listed = (await said_on_stdio(tmp_path, sent))[1:]
    assert [(answer["id"], answer["error"]["code"]) for answer in refused] == [
        (number, code) for _, number, code in UNREADABLE.values()
    ]
    told = dict(zip(UNREADABLE, (answer["error"]["message"] for answer in refused), strict=True))
    assert told["no JSON"] == "this line is no JSON (expected value at line 1 column 1); nothing was done"
    assert "an `id` that is text or a whole number; nothing was done" in told["id is 1.5"]
    assert listed["result"]["tools"], "the client can go on"


@requirement("adversarial:N9:stdio-long")
async def test_on_stdio_a_message_that_is_too_long_is_not_taken_in(tmp_path: Path) -> None:
    head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"list_nbs","arguments":{"path":"'
    tail = b'"}}}'
    ping = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}'
    sent = {
        200: (ping % 200).ljust(FOUR_MEBIBYTES - 1),
        201: (ping % 201).ljust(FOUR_MEBIBYTES),
        202: head % 202 + b"x" * 50_000_000 + tail,
        203: head % 203 + "é".encode() * (FOUR_MEBIBYTES // 2) + tail,
    }
    answers = {answer["id"]: answer for answer in await said_on_stdio(tmp_path, list(sent.values()))}
    assert "result" in answers[200]
    for number in (201, 202, 203):
        assert answers[number]["error"]["code"] == REFUSED
        assert "more than 4,194,304 bytes; send it in parts" in answers[number]["error"]["message"]
    assert answers["end"]["result"]["tools"], "the client can go on"


async def said_on_stdio(folder: Path, lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """All that a server on stdio answers to a handshake, these lines, and a last request for the tools."""
    process = await asyncio.create_subprocess_exec(
        *stdio_command(folder),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=64 * FOUR_MEBIBYTES,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    info = {"name": "attacker", "version": "0"}
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info}
    sent = [json.dumps(rpc("initialize", params, "start", LEGACY)).encode()]
    sent += [b'{"jsonrpc":"2.0","method":"notifications/initialized"}', *lines]
    sent += [json.dumps(rpc("tools/list", number="end", version=LEGACY)).encode()]
    answers: list[dict[str, Any]] = []

    async def read_to_end() -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            answers.append(json.loads(line))
            if answers[-1].get("id") == "end":
                return

    reading = asyncio.create_task(read_to_end())
    for body in sent:
        process.stdin.write(body + b"\n")
        await process.stdin.drain()
    await asyncio.wait_for(reading, 30)
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 10) == 0
    return answers


# -- N10 headers against body ------------------------------------------------------------------------------------------------


@requirement("adversarial:N10")
@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ([("Mcp-Method", "tools/list")], "probe_write"),
        ([("Mcp-Method", "tools/list"), ("Mcp-Name", "probe_write")], "probe_write"),
        ([("Mcp-Method", "tools/call"), ("Mcp-Name", "probe_read")], "probe_write"),
        ([("Mcp-Method", "tools/call"), ("Mcp-Name", "old_write")], "probe_write"),
        ([("Mcp-Method", "tools/call"), ("Mcp-Name", "PROBE_WRITE")], "probe_write"),
        ([("Mcp-Method", "tools/call")], "probe_write"),
        ([("Mcp-Name", "probe_write")], "probe_write"),
        ([], "probe_write"),
        ([("Mcp-Method", "TOOLS/CALL"), ("Mcp-Name", "probe_write")], "probe_write"),
        ([("Mcp-Method", "subscriptions/listen"), ("Mcp-Name", "probe_write")], "probe_write"),
        ([("Mcp-Method", "tools/call"), ("Mcp-Method", "tools/list"), ("Mcp-Name", "probe_write")], "probe_write"),
        ([("Mcp-Method", "tools/call"), ("Mcp-Name", "probe_read"), ("Mcp-Name", "probe_write")], "probe_write"),
        ([("Mcp-Method", "tools/call"), ("Mcp-Name", "probe_write"), ("Mcp-Name", "probe_read")], "probe_write"),
        ([("Mcp-Method", "tools/call"), ("Mcp-Name", "=?base64?cHJvYmVfcmVhZA==?=")], "probe_write"),
    ],
)
def test_headers_that_disagree_with_the_body_are_refused(
    server: HttpServer, folder: Path, headers: list[tuple[str, str]], name: str
) -> None:
    before = ran(folder)
    sent = [bearer(), JSON_BODY, ACCEPT, ("MCP-Protocol-Version", MODERN), *headers]
    answer = post(server.port, rpc("tools/call", {"name": name, "arguments": {}}), sent)
    assert (answer.status, answer.json()["error"]["code"]) == (400, -32020)
    assert ran(folder) == before


@requirement("adversarial:N10")
def test_a_version_in_the_header_that_the_body_denies_is_refused(server: HttpServer, folder: Path) -> None:
    before = ran(folder)
    message = rpc("tools/call", {"name": "probe_write", "arguments": {}})
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = LEGACY
    answer = post(server.port, message, modern_headers("tools/call", "probe_write"))
    assert (answer.status, answer.json()["error"]["code"]) == (400, -32020)
    assert ran(folder) == before


@requirement("adversarial:N10")
@pytest.mark.parametrize("versions", [(LEGACY, MODERN), (MODERN, LEGACY), (MODERN, MODERN)])
def test_two_protocol_versions_are_refused_in_either_order(
    server: HttpServer, folder: Path, versions: tuple[str, str]
) -> None:
    """The gate and the protocol would each read one of them, and take the request for two different things."""
    before = ran(folder)
    session = Session(server)
    given = [header for header in session.headers if header[0] != "MCP-Protocol-Version"]
    given += [("MCP-Protocol-Version", version) for version in versions]
    given += [("Mcp-Method", "subscriptions/listen"), ("Mcp-Name", "probe_write")]
    answer = post(server.port, rpc("tools/call", {"name": "probe_write", "arguments": {}}), given)
    assert answer.status == 400, answer
    assert ran(folder) == before


@requirement("adversarial:N10")
def test_calls_under_way_are_bounded_whatever_the_headers_call_them(tmp_path: Path) -> None:
    with probe_server(tmp_path, "--max-in-flight", "1") as server:
        session = Session(server)
        waiting = [socket.create_connection(("127.0.0.1", server.port), 15) for _ in range(2)]
        disguise = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "subscriptions/listen")]
        try:
            for number, connection in enumerate(waiting):
                call = rpc("tools/call", {"name": "probe_sleep", "arguments": {}}, number, LEGACY)
                headers = [*session.headers, *disguise]
                connection.sendall(raw_request(server.port, headers=headers, body=json.dumps(call).encode()))
            statuses = [first_status(connection) for connection in waiting]
            assert 200 not in statuses[1:], statuses
        finally:
            for connection in waiting:
                connection.close()


def first_status(connection: socket.socket) -> int:
    """The status an answer begins with; a stream begins before it ends."""
    return int(connection.makefile("rb").readline().split()[1])


# -- N11 old habits ----------------------------------------------------------------------------------------------------------


@requirement("adversarial:N11")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_the_stateless_era_has_no_get_and_no_delete(server: HttpServer, method: str) -> None:
    old = [("Mcp-Session-Id", "deadbeef"), ("Last-Event-ID", "7"), ("Accept", "text/event-stream")]
    headers = [bearer(), ("MCP-Protocol-Version", MODERN), *old]
    answer = exchange(server.port, raw_request(server.port, method, headers=headers))
    assert answer.status == 405
    assert "deadbeef" not in str(answer)


@requirement("adversarial:N11")
def test_session_headers_are_ignored_and_not_echoed_in_the_stateless_era(server: HttpServer) -> None:
    answer = call_tool(server, "probe_read", more=[("Mcp-Session-Id", "deadbeef"), ("Last-Event-ID", "7")])
    assert answer.status == 200
    assert answer.header("mcp-session-id") is None
    assert "deadbeef" not in str(answer)


@requirement("adversarial:N11")
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_unknown_session_of_the_handshake_era_is_gone_and_not_echoed(server: HttpServer, method: str) -> None:
    headers = [bearer(), JSON_BODY, ACCEPT, ("Mcp-Session-Id", "deadbeef"), ("Last-Event-ID", "7")]
    body = json.dumps(rpc("tools/list", version=LEGACY)).encode() if method == "POST" else b""
    answer = exchange(server.port, raw_request(server.port, method, headers=headers, body=body))
    assert answer.status == 404
    assert "deadbeef" not in str(answer)


@requirement("adversarial:N11")
def test_a_session_of_another_token_is_as_unknown_as_none(server: HttpServer, folder: Path) -> None:
    before = ran(folder)
    session = Session(server)
    other = made_token(folder / "state", "neighbour", "read,write,run")
    headers = [bearer(other), JSON_BODY, ACCEPT, ("MCP-Protocol-Version", LEGACY)]
    call = rpc("tools/call", {"name": "probe_write", "arguments": {}}, version=LEGACY)
    taken = post(server.port, call, [*headers, ("Mcp-Session-Id", session.id)])
    guessed = post(server.port, call, [*headers, ("Mcp-Session-Id", "0" * 32)])
    assert (taken.status, taken.body) == (guessed.status, guessed.body) == (404, guessed.body)
    ended = exchange(
        server.port, raw_request(server.port, "DELETE", headers=[*headers, ("Mcp-Session-Id", session.id)])
    )
    assert ended.status == 404
    assert ran(folder) == before
    assert session.call("probe_read").status == 200


@requirement("adversarial:N11")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_both_eras_are_served_after_all_this(server: HttpServer, mode: str) -> None:
    async with (
        httpx2.AsyncClient(headers=server.headers, timeout=30) as http,
        Client(streamable_http_client(server.url, http_client=http), mode=mode, cache=None) as client,  # pyright: ignore[reportArgumentType]
    ):
        assert "probe_read" in {tool.name for tool in (await client.list_tools()).tools}
