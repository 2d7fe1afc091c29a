"""cellwright inside Jupyter Server: the protocol, who gets in, what they may, how it ends."""

import asyncio
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import MCPError

from extension_support import INITIALIZE, USERS, ExtensionProcess, agent, bearer, handshake, modern, post
from jupyter_support import person_in, write_notebook
from requirements import requirement
from support import PATIENT_SECONDS, until

ERAS = ["auto", "legacy"]
Start = Callable[..., ExtensionProcess]
ALLOWED_ORIGIN = "https://app.example"
OWN_SERVER = pytest.mark.timeout(150)
"""For tests that start servers of their own, which takes long where the machine is busy."""


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExtensionProcess]:
    """The start command of the older notebook server, on a server with Jupyter's one token."""
    with ExtensionProcess(
        tmp_path_factory.mktemp("stock"),
        "--JupyterMCPServerExtensionApp.document_url=local",
        "--JupyterMCPServerExtensionApp.runtime_url=local",
        "--JupyterMCPServerExtensionApp.document_id=notebook.ipynb",
    ) as process:
        yield process


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExtensionProcess]:
    """A server as JupyterHub has them: below `/user/x/`, with people who have tokens of their own; and the probing tools."""
    with ExtensionProcess(
        tmp_path_factory.mktemp("hub"),
        "--CellwrightExtension.options={'toolsets': 'all', 'max_body': 100000, 'rate': 0}",
        f"--ServerApp.allow_origin={ALLOWED_ORIGIN}",
        variant="probe_extension",
        config=USERS,
        base_path="/user/x/",
        collaboration=False,
    ) as process:
        yield process


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a server of the test's own."""
    started: list[ExtensionProcess] = []

    def begin(*options: str, **more: Any) -> ExtensionProcess:
        process = ExtensionProcess(tmp_path / f"jupyter{len(started)}", *options, **more)
        started.append(process)
        process.start()
        return process

    try:
        yield begin
    finally:
        for process in started:
            process.stop()


# -- the protocol ------------------------------------------------------------------------------------------------------------


@requirement("extension:protocol:both-eras", "extension:start:enabled")
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_the_protocol_is_served_beside_jupyter(stock: ExtensionProcess, mode: str) -> None:
    async with agent(stock.mcp, stock.token, mode) as client:
        status = (await client.call_tool("workspace_status", {})).structured_content
        assert status is not None
        assert status["root"] == str(stock.root)
        assert status["transport"] == "jupyter-server"
        assert status["scopes"] == ["read", "run", "write"]
        assert "cellwright://status" in [str(one.uri) for one in (await client.list_resources()).resources]


@requirement("extension:protocol:both-eras")
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_a_base_url_as_in_a_hub_is_served(hub: ExtensionProcess, mode: str) -> None:
    assert "/user/x/mcp" in hub.mcp
    async with agent(hub.mcp, "token-alice", mode) as client:
        assert (await client.call_tool("probe_echo", {"text": "hello"})).structured_content == {
            "text": "hello",
            "numbers": [],
        }


@requirement("extension:protocol:streams")
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_progress_comes_while_the_tool_works(hub: ExtensionProcess, mode: str) -> None:
    async with agent(hub.mcp, "token-alice", mode) as client:
        await client.list_tools()
        heard = asyncio.Event()

        async def told(progress: float, total: float | None, message: str | None) -> None:
            del progress, total, message
            heard.set()

        arguments = {"tag": "slow", "steps": 40, "delay": 0.05}
        call = asyncio.create_task(client.call_tool("probe_slow", arguments, progress_callback=told))
        await asyncio.wait_for(heard.wait(), 10)
        assert not call.done()
        call.cancel()


@requirement("extension:protocol:streams")
@pytest.mark.anyio
async def test_a_client_that_leaves_ends_its_call(hub: ExtensionProcess) -> None:
    tag = f"left-{time.monotonic_ns()}"
    request = modern("tools/call", name="probe_slow", arguments={"tag": tag, "steps": 600})
    request["json"]["params"]["_meta"]["progressToken"] = 1
    request["headers"] |= bearer("token-alice")
    async with httpx2.AsyncClient(timeout=20) as http, http.stream("POST", hub.mcp, **request) as answer:
        assert await anext(answer.aiter_lines())

    def cancelled() -> bool:
        told = post(hub.mcp, modern("tools/call", name="probe_cancelled", arguments={}), **bearer("token-alice"))
        return tag in told.json()["result"]["structuredContent"]["text"]

    await until(cancelled, "the call was cancelled")


# -- who gets in -------------------------------------------------------------------------------------------------------------

LIST = modern("tools/list")


def refusal(answer: httpx2.Response) -> int:
    assert answer.headers["content-type"].startswith("application/json"), answer.text
    assert "error" in answer.json()
    return answer.status_code


@requirement("extension:enter:refused")
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_without_a_token_nobody_gets_in(stock: ExtensionProcess, method: str, path: str) -> None:
    for headers in ({}, bearer("wrong"), {"Origin": "http://evil.example"}):
        answer = httpx2.request(method, f"{stock.url}{path}", headers=headers, timeout=PATIENT_SECONDS)
        assert refusal(answer) == 401
        assert answer.headers["www-authenticate"] == 'Bearer realm="jupyter"'


@requirement("extension:enter:refused")
def test_every_way_to_give_jupyters_token_works(stock: ExtensionProcess) -> None:
    own = {"Origin": stock.url}
    assert post(stock.mcp, LIST, Authorization=f"token {stock.token}").status_code == 200
    assert post(stock.mcp, LIST, **stock.headers).status_code == 200
    assert post(stock.mcp, LIST, **stock.headers, **own).status_code == 200


@requirement("extension:enter:no-token-in-address")
@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp/tools/list", "/mcp/tools/call"])
def test_a_token_in_the_address_is_not_taken(stock: ExtensionProcess, path: str) -> None:
    method = "GET" if path.endswith("list") else "POST"
    address = f"{stock.url}{path}?token={stock.token}"
    answer = httpx2.request(
        method,
        address,
        headers=LIST["headers"],
        json=None if method == "GET" else LIST["json"],
        timeout=PATIENT_SECONDS,
    )
    assert refusal(answer) == 401
    assert "as a header" in answer.text
    assert "set-cookie" not in answer.headers
    if path != "/mcp/tools/call":
        beside = httpx2.request(
            method,
            address,
            headers={**LIST["headers"], **stock.headers},
            json=None if method == "GET" else LIST["json"],
            timeout=PATIENT_SECONDS,
        )
        assert beside.status_code == 200, "who gives it in a header is not refused for what else they wrote"


@requirement("extension:enter:token-not-logged")
@pytest.mark.parametrize("path", ["/mcp", "/mcp/tools/list", "/mcp/tools/call", "/cellwright/api/state"])
def test_a_token_in_the_address_is_not_written_to_the_log(stock: ExtensionProcess, path: str) -> None:
    method = "POST" if path in {"/mcp", "/mcp/tools/call"} else "GET"
    wrong = f"almost-{stock.token}"
    for token in (stock.token, wrong):
        # From a page that may not ask, so that it is refused wherever a token in the address is taken.
        headers = {**LIST["headers"], "Origin": "http://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
        body = LIST["json"] if method == "POST" else None
        answer = httpx2.request(
            method, f"{stock.url}{path}?token={token}", headers=headers, json=body, timeout=PATIENT_SECONDS
        )
        assert refusal(answer) in {401, 403}
    told = [line for line in stock.whole_log().splitlines() if path in line]
    assert any("?token=[secret]" in line for line in told), "Jupyter's own line"
    assert not [line for line in told if stock.token in line]


@requirement("extension:enter:body")
@pytest.mark.parametrize("length", [b"\xb2", b"9" * 5_000, b"-1"])
def test_a_length_that_is_no_number_is_an_error_of_the_sender(stock: ExtensionProcess, length: bytes) -> None:
    host = stock.url.removeprefix("http://").partition("/")[0]
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {stock.token}\r\nConnection: close\r\n".encode()
    )
    name, _, port = host.partition(":")
    with socket.create_connection((name, int(port)), timeout=20) as wire:
        wire.sendall(head + b"Content-Type: application/json\r\nContent-Length: " + length + b"\r\n\r\n{}")
        answer = b"".join(iter(lambda: wire.recv(65536), b""))
    assert answer[:12] in {b"HTTP/1.1 400", b"HTTP/1.1 413", b""}, answer[:300]
    assert "Uncaught exception" not in stock.whole_log()


REVOCABLE = """
import pathlib
from jupyter_server.auth import IdentityProvider, User

class Revocable(IdentityProvider):
    async def get_user_token(self, handler):
        name = self.get_token(handler)
        known = pathlib.Path(handler.contents_manager.root_dir, "tokens").read_text().split()
        return User(username=name) if name in known else None

c.ServerApp.identity_provider_class = Revocable
"""


@requirement("extension:enter:streams-end")
@pytest.mark.anyio
@OWN_SERVER
async def test_a_stream_ends_when_its_token_is_revoked(tmp_path: Path) -> None:
    server = ExtensionProcess(tmp_path / "jupyter", config=REVOCABLE, collaboration=False)
    known = server.root / "tokens"
    known.write_text(f"{server.token} ada bob", encoding="utf-8")
    with server:
        ended: list[str] = []

        async def listen(name: str, begun: asyncio.Event) -> None:
            request = modern("subscriptions/listen", notifications={"resourceSubscriptions": ["cellwright://status"]})
            headers = {**request["headers"], **bearer(name)}
            async with (
                httpx2.AsyncClient(timeout=60) as http,
                http.stream("POST", server.mcp, json=request["json"], headers=headers) as answer,
            ):
                assert answer.status_code == 200
                async for _ in answer.aiter_lines():
                    begun.set()
            ended.append(name)

        begun = {name: asyncio.Event() for name in ("ada", "bob")}
        listening = {name: asyncio.create_task(listen(name, event)) for name, event in begun.items()}
        for event in begun.values():
            await asyncio.wait_for(event.wait(), 30)
        known.write_text(f"{server.token} bob", encoding="utf-8")
        await asyncio.wait_for(listening["ada"], 40)
        assert ended == ["ada"], "the other's stream goes on"
        listening["bob"].cancel()


@requirement("extension:enter:streams-end")
@pytest.mark.anyio
async def test_a_stream_ends_when_its_browser_logs_out(stock: ExtensionProcess) -> None:
    async def browser() -> httpx2.AsyncClient:
        http = httpx2.AsyncClient(timeout=60)
        await http.get(f"{stock.url}/cellwright/", params={"token": stock.token})
        return http

    async def look(http: httpx2.AsyncClient, begun: asyncio.Event) -> None:
        async with http.stream("GET", f"{stock.url}/cellwright/api/events") as answer:
            assert answer.status_code == 200, await answer.aread()
            async for _ in answer.aiter_lines():
                begun.set()

    leaving, staying = await browser(), await browser()
    begun = (asyncio.Event(), asyncio.Event())
    looking = [asyncio.create_task(look(http, event)) for http, event in zip((leaving, staying), begun, strict=True)]
    for event in begun:
        await asyncio.wait_for(event.wait(), 30)
    await leaving.get(f"{stock.url}/logout")
    await asyncio.wait_for(looking[0], 10)
    assert not looking[1].done(), "another's stream goes on"
    looking[1].cancel()
    await leaving.aclose()
    await staying.aclose()


@requirement("extension:enter:refused")
@pytest.mark.parametrize("path", ["/mcp", "/mcp/tools/list", "/mcp/tools/call"])
def test_a_foreign_page_or_name_is_refused_with_a_valid_token(stock: ExtensionProcess, path: str) -> None:
    method = "GET" if path.endswith("list") else "POST"
    for wrong in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}):
        answer = httpx2.request(
            method, stock.url + path, headers={**LIST["headers"], **stock.headers, **wrong}, timeout=PATIENT_SECONDS
        )
        assert refusal(answer) == 403
        assert "access-control-allow-origin" not in answer.headers


@requirement("extension:enter:origin")
def test_a_page_of_an_allowed_origin_may_call(hub: ExtensionProcess) -> None:
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, mcp-method"}
    may = httpx2.options(hub.mcp, headers={"Origin": ALLOWED_ORIGIN, **asks}, timeout=PATIENT_SECONDS)
    assert (may.status_code, may.headers["access-control-allow-origin"]) == (204, ALLOWED_ORIGIN)
    assert {"authorization", "mcp-method", "mcp-name"} <= set(may.headers["access-control-allow-headers"].split(", "))
    answer = post(hub.mcp, LIST, **bearer("token-alice"), Origin=ALLOWED_ORIGIN)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, ALLOWED_ORIGIN)
    assert "mcp-session-id" in answer.headers["access-control-expose-headers"]
    assert (
        httpx2.options(
            f"{hub.mcp}/tools/call", headers={"Origin": ALLOWED_ORIGIN, **asks}, timeout=PATIENT_SECONDS
        ).status_code
        == 204
    )
    stranger = post(hub.mcp, LIST, Origin=ALLOWED_ORIGIN)
    assert (refusal(stranger), stranger.headers["access-control-allow-origin"]) == (401, ALLOWED_ORIGIN)
    assert (
        refusal(httpx2.options(hub.mcp, headers={"Origin": "https://evil.example", **asks}, timeout=PATIENT_SECONDS))
        == 403
    )
    assert refusal(post(hub.mcp, LIST, **bearer("token-alice"), Origin="https://evil.example")) == 403


@requirement("extension:enter:refused")
def test_a_login_cookie_alone_is_not_enough(stock: ExtensionProcess) -> None:
    """A page of another site can make a browser send the cookie; only pages of this server know the XSRF value."""
    with httpx2.Client(timeout=PATIENT_SECONDS) as browser:
        browser.get(f"{stock.url}/login")
        secret = browser.cookies["_xsrf"]
        browser.get(f"{stock.url}/api/status", headers=stock.headers)
        assert browser.get(f"{stock.url}/api/contents").status_code == 200, "the browser is logged in"
        body = {"json": LIST["json"], "headers": LIST["headers"]}
        assert refusal(browser.post(stock.mcp, **body)) == 403
        assert refusal(browser.get(f"{stock.mcp}/tools/list")) == 403
        headers = LIST["headers"] | {"X-XSRFToken": secret}
        assert browser.post(stock.mcp, json=LIST["json"], headers=headers).status_code == 200


@requirement("extension:enter:refused")
def test_other_methods_and_kinds_are_refused(stock: ExtensionProcess) -> None:
    for method in ("PUT", "PATCH"):
        answer = httpx2.request(method, stock.mcp, headers=stock.headers, timeout=PATIENT_SECONDS)
        assert refusal(answer) == 405
        assert answer.headers["allow"] == "GET, POST, DELETE, OPTIONS"
    assert refusal(post(stock.mcp, LIST, **stock.headers, **{"Content-Type": "text/plain"})) == 415


@requirement("extension:enter:body")
def test_a_body_too_large_is_refused_before_it_is_sent(hub: ExtensionProcess) -> None:
    head = (
        f"POST /user/x/mcp HTTP/1.1\r\nHost: 127.0.0.1:{hub.port}\r\nAuthorization: Bearer token-alice\r\n"
        "Content-Type: application/json\r\nContent-Length: 100001\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", hub.port), timeout=10) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


@requirement("extension:enter:body")
def test_a_body_too_large_is_refused_without_an_announcement(hub: ExtensionProcess) -> None:
    def chunks() -> Iterator[bytes]:
        yield from (b" " * 10_000 for _ in range(50))

    headers = {**LIST["headers"], **bearer("token-alice"), "Content-Type": "application/json"}
    assert refusal(httpx2.post(hub.mcp, content=chunks(), headers=headers, timeout=PATIENT_SECONDS)) == 413


@requirement("extension:enter:token-stays-outside")
def test_the_token_does_not_reach_the_server_behind(hub: ExtensionProcess) -> None:
    request = modern("tools/call", name="probe_seen", arguments={})
    answer = post(hub.mcp, request, **bearer("token-alice"), Cookie="private=crumbs")
    seen = answer.json()["result"]["structuredContent"]["request"]
    assert "user:alice" in seen
    assert "token-alice" not in seen
    assert "crumbs" not in seen


@requirement("extension:enter:token-stays-outside")
def test_jupyters_token_is_masked_in_results(hub: ExtensionProcess) -> None:
    """Code that is run can find it, in the environment or in a file."""
    request = modern("tools/call", name="probe_echo", arguments={"text": f"found {hub.token}"})
    answer = post(hub.mcp, request, **bearer("token-alice"))
    assert answer.json()["result"]["structuredContent"]["text"].startswith("found ")
    assert hub.token not in answer.text


@requirement("extension:enter:no-auth")
@OWN_SERVER
def test_a_jupyter_server_without_authentication_is_not_served(start: Start) -> None:
    server = start("--ServerApp.disable_check_xsrf=True", token_required=False, collaboration=False)
    assert httpx2.get(f"{server.url}/api/status", timeout=PATIENT_SECONDS).status_code == 200
    answer = post(server.mcp, LIST)
    assert refusal(answer) == 403
    assert "wants a token" in answer.json()["error"]["message"]


# -- who they are ------------------------------------------------------------------------------------------------------------


def session_of(url: str, token: str) -> str:
    answer = post(url, INITIALIZE, **bearer(token))
    assert answer.status_code == 200
    session = answer.headers["mcp-session-id"]
    done = {"json": {"jsonrpc": "2.0", "method": "notifications/initialized"}}
    assert post(url, handshake("", session) | done, **bearer(token)).status_code == 202
    return session


@requirement("extension:who:shared-token")
def test_a_client_without_cookies_keeps_its_session(stock: ExtensionProcess) -> None:
    """With the shared token Jupyter makes up a user for each request that brings no cookie: sessions must not hang on that."""
    session = session_of(stock.mcp, stock.token)
    for _ in range(2):
        answer = post(stock.mcp, handshake("tools/list", session), **stock.headers)
        assert answer.status_code == 200
        assert "workspace_status" in answer.text


@requirement("extension:who:shared-token", "extension:who:no-cookie")
def test_the_holder_of_the_one_token_is_one_caller(stock: ExtensionProcess) -> None:
    request = modern("tools/call", name="workspace_status", arguments={})
    with httpx2.Client(headers=stock.headers, timeout=PATIENT_SECONDS) as with_cookies:
        assert "set-cookie" not in with_cookies.post(stock.mcp, **request).headers
        assert "set-cookie" in with_cookies.get(f"{stock.url}/api/status").headers
        answers = [with_cookies.post(stock.mcp, **request) for _ in range(2)]
    answers.append(post(stock.mcp, request, **stock.headers))
    assert {answer.json()["result"]["structuredContent"]["you"] for answer in answers} == {"jupyter"}


@requirement("extension:who:users")
@pytest.mark.parametrize("other", ["token-bob", "token-guest2"])
@pytest.mark.parametrize("owner", ["token-alice", "token-guest1"])
def test_another_users_session_does_not_exist(hub: ExtensionProcess, owner: str, other: str) -> None:
    session = session_of(hub.mcp, owner)
    assert post(hub.mcp, handshake("tools/list", session), **bearer(other)).status_code == 404
    named = {**handshake("", session)["headers"], **bearer(other)}
    assert httpx2.delete(hub.mcp, headers=named, timeout=PATIENT_SECONDS).status_code == 404
    with httpx2.stream("GET", hub.mcp, headers=named, timeout=PATIENT_SECONDS) as answer:
        assert answer.status_code == 404
    assert post(hub.mcp, handshake("tools/list", session), **bearer(owner)).status_code == 200


@requirement("extension:who:users")
def test_a_user_is_the_same_in_every_request(hub: ExtensionProcess) -> None:
    def you(token: str) -> str:
        answer = post(hub.mcp, modern("tools/call", name="workspace_status", arguments={}), **bearer(token))
        return answer.json()["result"]["structuredContent"]["you"]

    assert you("token-alice") == you("token-alice") == "user:alice"
    assert you("token-guest1") == you("token-guest1")
    assert len({you("token-alice"), you("token-bob"), you("token-guest1"), you("token-guest2")}) == 4
    assert "guest1" not in you("token-guest1")


@requirement("extension:who:authorizer")
@pytest.mark.anyio
async def test_the_authorizer_decides_what_is_offered(hub: ExtensionProcess) -> None:
    async def effects(token: str) -> tuple[bool, bool, bool]:
        async with agent(hub.mcp, token) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            return "probe_echo" in names, "probe_write" in names, "execute_nb_cells" in names

    assert await effects("token-alice") == (True, True, True)
    assert await effects("token-writer") == (True, True, False)
    assert await effects("token-reader") == (True, False, False)


@requirement("extension:who:authorizer")
@pytest.mark.parametrize("route", ["protocol", "plain"])
def test_a_call_beyond_the_authorizers_leave_is_refused(hub: ExtensionProcess, route: str) -> None:
    for token, tool, arguments in (
        ("token-reader", "probe_write", {"text": "x"}),
        ("token-writer", "probe_slow", {"tag": "x"}),
    ):
        if route == "protocol":
            answer = post(hub.mcp, modern("tools/call", name=tool, arguments=arguments), **bearer(token))
        else:
            body = {"tool_name": tool, "arguments": arguments}
            answer = httpx2.post(f"{hub.mcp}/tools/call", json=body, headers=bearer(token), timeout=PATIENT_SECONDS)
        assert refusal(answer) == 403
        error = answer.json()["error"]
        assert "lacks the scope" in (error["message"] if route == "protocol" else error)


# -- plain JSON --------------------------------------------------------------------------------------------------------------


@requirement("extension:plain:routes")
def test_health_is_open_and_says_little(stock: ExtensionProcess) -> None:
    answer = httpx2.get(f"{stock.mcp}/healthz", timeout=PATIENT_SECONDS)
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok"}


@requirement("extension:plain:routes")
def test_plain_json_gives_what_the_protocol_gives(hub: ExtensionProcess) -> None:
    alice = bearer("token-alice")
    listed = httpx2.get(f"{hub.mcp}/tools/list", headers=alice, timeout=PATIENT_SECONDS).json()["tools"]
    described = post(hub.mcp, LIST, **alice).json()["result"]["tools"]
    assert listed == [{**tool, "parameters": list(tool["inputSchema"].get("properties", {}))} for tool in described]
    for name, arguments in (
        ("probe_echo", {"text": "hello"}),
        ("probe_echo", {"texd": "hello"}),
        ("probe_picture", {}),
        ("probe_fail", {}),
    ):
        body = {"tool_name": name, "arguments": arguments}
        plain = httpx2.post(f"{hub.mcp}/tools/call", json=body, headers=alice, timeout=PATIENT_SECONDS)
        protocol = post(hub.mcp, modern("tools/call", name=name, arguments=arguments), **alice).json()
        assert plain.status_code == 200
        assert plain.json() == protocol["result"]


@requirement("extension:plain:routes")
def test_a_plain_call_that_is_wrong_is_told_why(hub: ExtensionProcess) -> None:
    def call(**request: Any) -> tuple[int, str]:
        answer = httpx2.post(f"{hub.mcp}/tools/call", headers=bearer("token-alice"), **request, timeout=PATIENT_SECONDS)
        return refusal(answer), str(answer.json()["error"])

    form = 'the body must be {"tool_name"'
    bodies: list[Any] = [[], {"tool": "x"}, {"tool_name": "probe_echo", "arguments": []}]
    for body in bodies:
        status, why = call(json=body)
        assert (status, form in why) == (400, True)
    headers = {"Content-Type": "application/json", **bearer("token-alice")}
    assert (
        httpx2.post(f"{hub.mcp}/tools/call", content=b"{", headers=headers, timeout=PATIENT_SECONDS).status_code == 400
    )
    status, why = call(json={"tool_name": "probe_ecko"})
    assert (status, "did you mean 'probe_echo'?" in why) == (400, True)
    assert call(json={"tool_name": "probe\u00e9\n"})[0] == 400
    assert call(data={"tool_name": "probe_echo"})[0] == 400
    assert httpx2.get(f"{hub.mcp}/tools/list", timeout=PATIENT_SECONDS).status_code == 401
    assert (
        httpx2.get(f"{hub.mcp}/tools/call", headers=bearer("token-alice"), timeout=PATIENT_SECONDS).status_code == 405
    )


# -- notebooks ---------------------------------------------------------------------------------------------------------------


@requirement("extension:traits")
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_a_notebook_is_edited_and_run_with_a_person_in_it(stock: ExtensionProcess, mode: str) -> None:
    name = f"shared-{mode}.ipynb"
    write_notebook(stock.root, name, ["6 * 7"])
    async with agent(stock.mcp, stock.token, mode) as client, person_in(stock.address, name) as person:
        edit = {"range": {"id": "c0"}, "content": "6 * 8"}
        await client.call_tool("modify_nb_cells", {"path": name, "modifications": [edit], "exec": False})
        await until(lambda: person.sources == ["6 * 8"], "the person saw the edit")
        result = await client.call_tool("execute_nb_cells", {"path": name, "ranges": [{"start": 0}]})
        assert not result.is_error, result
        assert "48" in str(result.content)
        await until(lambda: "48" in str(person.cells[0]["outputs"]), "the person saw the output")


def run_request(server: ExtensionProcess, way: str, path: str) -> dict[str, Any]:
    """A call that runs the first cell."""
    call: dict[str, Any] = {"name": "execute_nb_cells", "arguments": {"path": path, "ranges": [{"start": 0}]}}
    if way == "handshake":
        return handshake("tools/call", session_of(server.mcp, server.token), **call)
    if way == "plain":
        return {"json": {"tool_name": call["name"], "arguments": call["arguments"]}}
    request = modern("tools/call", **call)
    if way == "task":
        request["json"]["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {
            "extensions": {"io.modelcontextprotocol/tasks": {}}
        }
    return request


@requirement("extension:run:survives")
@pytest.mark.anyio
@pytest.mark.parametrize("way", ["handshake", "modern", "task", "plain"])
async def test_a_run_goes_on_when_its_client_leaves(stock: ExtensionProcess, way: str) -> None:
    begun, path = stock.root / f"begun-{way}", f"left-{way}.ipynb"
    code = (
        "import time, pathlib\n"
        f"begun = pathlib.Path({str(begun)!r})\n"
        "begun.touch()\n"
        "while begun.exists(): time.sleep(0.02)\n"
        "for i in range(20):\n    print('line', i, flush=True); time.sleep(0.01)\n'whole'"
    )
    write_notebook(stock.root, path, [code])
    async with person_in(stock.address, path) as person:
        request = await asyncio.to_thread(run_request, stock, way, path)
        async with httpx2.AsyncClient(headers=stock.headers, timeout=20) as http:
            address = f"{stock.mcp}/tools/call" if way == "plain" else stock.mcp
            call = asyncio.create_task(http.post(address, **request))
            await until(begun.exists, "the cell began")
            if way == "task":
                assert (await call).json()["result"]["resultType"] == "task"
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        begun.unlink()
        await until(lambda: "whole" in str(person.cells[0]["outputs"]), "the run ended")
        printed = "".join(output.get("text", "") for output in person.cells[0]["outputs"].to_py())
        assert printed == "".join(f"line {i}\n" for i in range(20))


@requirement("extension:traits")
@pytest.mark.anyio
async def test_the_start_command_of_the_older_server_works(stock: ExtensionProcess) -> None:
    async with agent(stock.mcp, stock.token, "legacy") as client:
        assert client.instructions is not None
        assert "work in the notebook notebook.ipynb" in client.instructions
    assert "not recognized" not in stock.whole_log()


@requirement("extension:traits")
@pytest.mark.anyio
@OWN_SERVER
async def test_documents_and_kernels_may_be_on_another_server(stock: ExtensionProcess, start: Start) -> None:
    write_notebook(stock.root, "far.ipynb", ["import os; os.getcwd()"])
    server = start(
        f"--CellwrightExtension.document_url={stock.url}",
        f"--CellwrightExtension.document_token={stock.token}",
        collaboration=False,
    )
    write_notebook(server.root, "near.ipynb", [])
    async with agent(server.mcp, server.token) as client:
        listed = str((await client.call_tool("list_nbs", {})).structured_content)
        assert "far.ipynb" in listed
        assert "near.ipynb" not in listed
        result = await client.call_tool("execute_nb_cells", {"path": "far.ipynb", "ranges": [{"start": 0}]})
        assert str(server.root) in str(result.content), "the kernel is one of the server that runs the extension"


# -- life --------------------------------------------------------------------------------------------------------------------


@requirement("extension:start:light")
def test_loading_the_extension_loads_nothing_heavy() -> None:
    program = (
        "import sys, jupyter_server.serverapp, jupyter_server.extension.application\n"
        "before = set(sys.modules)\n"
        "import cellwright\n"
        "point, = cellwright._jupyter_server_extension_points()\n"
        "assert point['app'].name == 'cellwright'\n"
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    heavy = {"mcp", "mcp_types", "pydantic", "starlette", "uvicorn", "httpx2", "pycrdt", "websockets", "anyio"}
    assert [name for name in heavy if f"'{name}'" in done.stdout] == []


@requirement("extension:start:wrong-settings")
@OWN_SERVER
def test_wrong_settings_are_told_and_jupyter_goes_on(start: Start) -> None:
    server = start("--CellwrightExtension.options={'toolset': 'all'}", collaboration=False)
    for _ in range(2):
        answer = post(server.mcp, LIST, **server.headers)
        assert refusal(answer) == 503
        assert "did you mean 'toolsets'?" in answer.json()["error"]["message"]
    assert "did you mean 'toolsets'?" in server.whole_log()
    assert httpx2.get(f"{server.url}/api/status", headers=server.headers, timeout=PATIENT_SECONDS).status_code == 200


@requirement("extension:stop:clean")
@pytest.mark.anyio
@OWN_SERVER
async def test_sigterm_ends_everything_in_order(start: Start) -> None:
    server = start("--CellwrightExtension.options={'toolsets': 'all'}", variant="probe_extension")
    write_notebook(server.root, "open.ipynb", ["1 + 1"])
    async with (
        agent(server.mcp, server.token) as client,
        agent(server.mcp, server.token, "legacy") as older,
        client.listen(resource_subscriptions=["cellwright://status"]) as heard,
    ):
        await client.list_tools()
        await client.call_tool("execute_nb_cells", {"path": "open.ipynb", "ranges": [{"start": 0}]})
        await older.subscribe_resource("cellwright://status")  # pyright: ignore[reportDeprecated]
        begun = asyncio.Event()

        async def told(progress: float, total: float | None, message: str | None) -> None:
            del progress, total, message
            begun.set()

        arguments = {"tag": "finished", "steps": 10, "delay": 0.05}
        call = asyncio.create_task(client.call_tool("probe_slow", arguments, progress_callback=told))
        await asyncio.wait_for(begun.wait(), 10)
        asked = time.monotonic()
        ending = asyncio.create_task(asyncio.to_thread(server.end))
        assert (await asyncio.wait_for(call, 10)).structured_content == {"text": "finished", "numbers": []}
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(anext(heard), 10)
        assert await ending == 0
        assert time.monotonic() - asked < 15
    log = server.whole_log()
    # Jupyter's own collaboration leaves a traceback when it ends; nothing of ours is in any.
    left_over = re.findall(r"Task was destroyed|never awaited|cellwright/app|mcp/server|sse_starlette", log)
    assert left_over == [], log[-6000:]


@requirement("extension:restart")
@pytest.mark.anyio
@OWN_SERVER
async def test_a_client_goes_on_after_a_restart(start: Start) -> None:
    server = start(collaboration=False)
    session = session_of(server.mcp, server.token)
    async with agent(server.mcp, server.token) as client:
        await client.call_tool("workspace_status", {})
        server.end()
        server.start()
        result = await client.call_tool("workspace_status", {})
        assert result.structured_content is not None
    assert post(server.mcp, handshake("tools/list", session), **server.headers).status_code == 404
    async with agent(server.mcp, server.token, "legacy") as client:
        with pytest.raises(MCPError):
            await client.read_resource("cellwright://nothing")
