"""The gate by itself: in which order a request is judged, and that the app behind is reached by nothing else."""

import json
from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from cellwright.app.http.gate import Gate
from cellwright.app.http.routes import Route
from cellwright.app.http.tokens import OneToken
from cellwright.app.http.turns import TurnLimits
from cellwright.core.types import Principal, Scope, Secret
from requirements import requirement

pytestmark = pytest.mark.anyio

TOKEN = "a-token-of-every-scope"
READER = "a-token-that-may-read"
CALL = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "execute_code", "arguments": {}}}'


class Reader:
    """Knows a token that may read and nothing else."""

    def verify(self, token: str) -> Principal | None:
        return Principal("reader", frozenset({Scope.READ})) if token == READER else None


class Asked:
    """A gate with one route that is behind `run` and one behind `read`, and who came through."""

    def __init__(self) -> None:
        self.arrived: list[str] = []

        async def endpoint(request: Request) -> Response:
            self.arrived.append(request.scope["path"])
            return Response()

        post = frozenset({"POST"})
        self.gate = Gate(
            [Route("/run", post, Scope.RUN, endpoint), Route("/read", post, Scope.READ, endpoint)],
            [OneToken(Secret(TOKEN)), Reader()],
            hosts=frozenset({"us"}),
            origins=frozenset(),
            limits=TurnLimits(200, 1, 0, 1, 1, max_streams=1, max_wait=1),
            tool_scope={"execute_code": Scope.RUN}.get,
        )

    async def ask(self, method: str, path: str, headers: dict[str, str], body: bytes = CALL) -> tuple[int, str]:
        """The status, and why if it is a refusal."""
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope: MutableMapping[str, Any] = {"type": "http", "method": method, "path": path, "headers": raw}
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self.gate(scope, receive, send)
        answer = b"".join(message.get("body", b"") for message in sent)
        return sent[0]["status"], json.loads(answer)["error"] if answer else ""


@requirement("door:order")
async def test_of_everything_that_is_wrong_the_first_in_the_order_is_told() -> None:
    asked = Asked()
    method, path, body = "GET", "/nowhere", b"\0" * 300
    headers = {
        "host": "them",
        "origin": "https://elsewhere",
        "authorization": "Bearer wrong",
        "content-type": "text/plain",
    }
    assert await asked.ask(method, path, headers, body) == (
        421,
        "this Host is not served here; the operator can add it with --allowed-hosts",
    )
    headers["host"] = "us"
    status, why = await asked.ask(method, path, headers, body)
    assert (status, why.partition(";")[0]) == (403, "this Origin may not call")
    del headers["origin"]
    status, why = await asked.ask(method, path, headers, body)
    assert (status, why.partition(":")[0]) == (401, "a valid bearer token is needed")
    headers["authorization"] = f"Bearer {READER}"
    assert await asked.ask(method, path, headers, body) == (404, "no such path")
    path = "/run"
    assert await asked.ask(method, path, headers, body) == (405, "this path does not take that method")
    method = "POST"
    status, why = await asked.ask(method, path, headers, body)
    assert (status, why.partition(";")[0]) == (403, "the token lacks the scope run")
    path = "/read"
    assert await asked.ask(method, path, headers, body) == (415, "the body must be application/json")
    headers["content-type"] = "application/json"
    status, why = await asked.ask(method, path, headers, body)
    assert (status, why.partition(";")[0]) == (413, "the body is larger than 200 bytes")
    status, why = await asked.ask(method, path, headers, body[:100])
    assert (status, why.partition(",")[0]) == (400, "the body has a NUL in it")
    status, why = await asked.ask(method, path, headers)
    assert (status, why.partition(";")[0]) == (403, "the token lacks the scope run")
    assert asked.arrived == [], "nothing of this came through"
    headers["authorization"] = f"Bearer {TOKEN}"
    assert await asked.ask(method, path, headers) == (200, "")
    assert asked.arrived == ["/read"]


@requirement("door:order")
async def test_who_comes_while_the_server_stops_is_told_after_host_and_origin_and_before_the_token() -> None:
    asked = Asked()
    asked.gate.close()
    assert (await asked.ask("POST", "/read", {"host": "them"}))[0] == 421
    assert (await asked.ask("POST", "/read", {"host": "us", "origin": "https://elsewhere"}))[0] == 403
    status, why = await asked.ask("POST", "/read", {"host": "us"})
    assert (status, why) == (503, "the server is stopping; try again when it runs again")


@requirement("door:names")
async def test_a_header_of_any_name_is_only_a_header() -> None:
    asked = Asked()
    named = {"host": "us", "authorization": f"Bearer {TOKEN}", "content-type": "application/json", "given-twice": "x"}
    assert await asked.ask("POST", "/read", named) == (200, "")
