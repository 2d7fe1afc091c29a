"""People at the page: a visit with its cookie, and the stream of events as a browser reads it."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2

from support import WAIT_SECONDS

# Made once: every client would read the machine's certificates, and nothing here has any.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
FROM_PAGE = {"X-Cellwright": "page", "Content-Type": "application/json"}


@dataclass
class Heard:
    """One event."""

    id: str
    name: str
    data: Any
    at: float


@dataclass
class Stream:
    """The events that came so far."""

    events: list[Heard] = field(default_factory=list[Heard])
    ended: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def named(self, name: str) -> list[Heard]:
        return [one for one in self.events if one.name == name]

    async def until(self, condition: Callable[["Stream"], bool], what: str) -> None:
        """Wait for the condition; it is looked at whenever something came."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not condition(self):
                    self.news.clear()
                    await self.news.wait()
        except TimeoutError:
            heard = [(one.id, one.name, one.data) for one in self.events]
            raise AssertionError(f"never came: {what}; heard {heard[-20:]}") from None

    async def read(self, response: httpx2.Response) -> None:
        fields: dict[str, str] = {}
        with suppress(httpx2.HTTPError):
            async for line in response.aiter_lines():
                if line.startswith(":"):
                    continue
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif fields:
                    now = asyncio.get_running_loop().time()
                    self.events.append(Heard(fields["id"], fields["event"], json.loads(fields["data"]), now))
                    fields = {}
                    self.news.set()
        self.ended = True
        self.news.set()


class Visitor:
    """Somebody at the page, with a cookie or with a token in a header."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http

    async def get(self, path: str, **query: str) -> Any:
        """The data of an answer that must be good."""
        answer = await self.http.get(path, params=query)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()

    async def document(self, uri: str, **query: str) -> Any:
        return await self.get("api/document", uri=uri, **query)

    async def refused(self, path: str, **query: str) -> int:
        answer = await self.http.get(path, params=query)
        assert answer.status_code >= 400, (path, answer.text)
        return answer.status_code

    async def post(self, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        return await self.http.post(path, json=body or {}, headers={**FROM_PAGE, **headers})

    @asynccontextmanager
    async def events(self, uri: str = "", last: str = "", **headers: str) -> AsyncGenerator[Stream]:
        """The stream, open and greeted, until the block ends."""
        stream = Stream()
        given = {**headers, **({"Last-Event-ID": last} if last else {})}
        query = {"uri": uri} if uri else {}
        async with self.http.stream("GET", "api/events", params=query, headers=given) as response:
            assert response.status_code == 200, await response.aread()
            reading = asyncio.create_task(stream.read(response))
            try:
                await stream.until(lambda one: bool(one.events), "the greeting")
                yield stream
            finally:
                reading.cancel()
                with suppress(asyncio.CancelledError):
                    await reading


@asynccontextmanager
async def visitor(base: str, token: str, *, cookie: bool = True) -> AsyncGenerator[Visitor]:
    """Somebody who came in with this token: by the cookie, as a browser does, or by the token alone."""
    base = base.rstrip("/")
    origin = {"Origin": "/".join(base.split("/")[:3])}
    bearer = {"Authorization": f"Bearer {token}"}
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(
        base_url=f"{base}/",
        headers=origin if cookie else bearer,
        timeout=httpx2.Timeout(30),
        limits=limits,
        verify=NO_TLS,
    ) as http:
        if cookie:
            entered = await http.post("api/enter", json={}, headers=bearer)
            assert entered.status_code == 204, entered.text
        yield Visitor(http)
