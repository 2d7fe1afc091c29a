"""Bodies of requests, taken whole: of which kind and how large one may be, how long it may take, how much of them one caller may be
sending at once, how much JSON it may hold, and whether the caller has the scope of the tool that it calls.

A tool's scope is looked at here and once more by the server behind. Here, because a refusal by HTTP's status has to be said before the
server begins to answer; there, because a tool is looked for among those that the caller's scopes offer, and stdio has no gate.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from cellwright.app.http.heads import head_of
from cellwright.app.http.messages import called_tool, excess_of
from cellwright.app.http.middleware.callers import LINE_KEY
from cellwright.app.http.middleware.scopes import check_scope
from cellwright.app.http.receiving import replayed
from cellwright.app.http.refusal import Refusal
from cellwright.app.http.turns import OWN_TOKENS, TurnLimits
from cellwright.core.types import PRINCIPAL_KEY, Scope

MOST_ARRIVING = 64 * 1024 * 1024
"""Bytes of bodies that are not whole yet, of one caller."""


class Bodies:
    """Takes the body of each POST and hands it on whole. It is kept nowhere else: a call may last for hours."""

    def __init__(
        self, app: ASGIApp, limits: TurnLimits, tool_scope: Callable[[str], Scope | None], metadata_url: str
    ) -> None:
        self._app = app
        self._limits = limits
        self._tool_scope = tool_scope
        self._metadata_url = metadata_url
        self._arriving: Counter[str] = Counter()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST" and LINE_KEY in scope:
            receive = await self._with_body(scope, receive)
        await self._app(scope, receive, send)

    async def _with_body(self, scope: AsgiScope, receive: Receive) -> Receive:
        head = head_of(scope)
        check_kind(head)
        body = await self._take(scope[LINE_KEY], head, receive)
        check_json(body)
        tool = called_tool(head, body)
        needed = self._tool_scope(tool) if tool is not None else None
        if needed is not None:
            check_scope(scope[PRINCIPAL_KEY], needed, self._metadata_url)
        return replayed(body, receive)

    async def _take(self, line: str, head: Mapping[str, str], receive: Receive) -> bytes:
        announced = head.get("content-length", "0")
        if not announced.isdigit() or int(announced) > self._limits.max_body:
            raise self._too_large()
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_timeout):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "the client left before its request was whole")
                    chunk = message.get("body", b"")
                    chunks.append(chunk)
                    size += len(chunk)
                    self._arriving[line] += len(chunk)
                    if size > self._limits.max_body:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        return b"".join(chunks)
                    if self._arriving[line] > MOST_ARRIVING:
                        raise _too_much_at_once()
        except TimeoutError:
            raise Refusal(
                408,
                f"the body did not arrive within {self._limits.body_timeout:g} s",
                hint="send it again without pauses; the operator can raise --body-timeout",
            ) from None
        finally:
            self._arriving[line] -= size
            if not self._arriving[line]:
                del self._arriving[line]

    def _too_large(self) -> Refusal:
        reason = f"the body is larger than {self._limits.max_body} bytes"
        return Refusal(413, reason, hint="send it in parts; the operator can raise --max-body")


def check_kind(head: Mapping[str, str]) -> None:
    kind = head.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, "the body must be application/json")
    if head.get("content-encoding", "identity").lower() != "identity":
        raise Refusal(415, "compressed bodies are not taken")


def check_json(body: bytes) -> None:
    """Whether this may be given to a parser of JSON. What is not JSON at all may: the parser says so."""
    if b"\0" in body:
        # Python's parser also reads UTF-16 and UTF-32, which the count does not.
        raise Refusal(400, "the body has a NUL in it, so it is no JSON in UTF-8", hint="encode it as UTF-8")
    excess = excess_of(body)
    if excess:
        raise Refusal(413, f"the body has {excess}")


def _too_much_at_once() -> Refusal:
    return Refusal(
        429,
        f"too much at once: the caller's bodies that are not whole yet have more than {MOST_ARRIVING} bytes",
        {"retry-after": "5"},
        hint=f"nothing was done; send fewer or smaller ones at once, or {OWN_TOKENS}",
    )
