"""The bodies of requests, read whole, with their limits: the content type, the size, the time, how much one caller may be sending at
once, and how much JSON a body holds. Also whether the caller has the scope of the tool that it calls.

A tool's scope is checked here and again by the server behind. Here, because a refusal with an HTTP status has to come before the server
begins to respond; there, because it looks for a tool among those that the caller's scopes offer, and stdio has no gate.
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
"""The bytes that one caller's unfinished bodies may have together."""


class Bodies:
    """Reads the body of each POST and passes it on whole. Nothing else keeps the body, because a call may last for hours."""

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
            head = head_of(scope)
            check_content_type(head)
            body = await self._read_body(scope[LINE_KEY], head, receive)
            check_json(body)
            tool = called_tool(head, body)
            needed = self._tool_scope(tool) if tool is not None else None
            if needed is not None:
                check_scope(scope[PRINCIPAL_KEY], needed, self._metadata_url)
            receive = replayed(body, receive)
        await self._app(scope, receive, send)

    async def _read_body(self, line: str, head: Mapping[str, str], receive: Receive) -> bytes:
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


def check_content_type(head: Mapping[str, str]) -> None:
    content_type = head.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise Refusal(415, "the body must be application/json")
    if head.get("content-encoding", "identity").lower() != "identity":
        raise Refusal(415, "compressed bodies are not taken")


def check_json(body: bytes) -> None:
    """Refuse a body that is too much for the JSON parser. What is no JSON at all passes: the parser reports it."""
    if b"\0" in body:
        # Python's parser also reads UTF-16 and UTF-32, which the count below does not understand.
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
