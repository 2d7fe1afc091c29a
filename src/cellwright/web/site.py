"""The page's addresses: what each answers, and what it needs. Nothing here executes anything but a cancellation."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import cast

from cellwright.core.clean import clean
from cellwright.core.errors import InvalidArgument, NotFound
from cellwright.core.resources import Change
from cellwright.core.types import Call, Principal, Scope
from cellwright.web.activity import Activity, Entry
from cellwright.web.asgi import PAGE_HEADERS, STATUS_ELSEWHERE, STATUS_NONE, Answer, Request, Streamed
from cellwright.web.feed import Feed
from cellwright.web.frames import FRAME_HEADERS, frame
from cellwright.web.looking import Looking
from cellwright.web.mirror import MOST_CELLS, Mask
from cellwright.web.outputs import framed
from cellwright.web.ports import Facts, Source, Thing
from cellwright.web.static import FILES, Static

MOST_THINGS = 500
MOST_FOUND = 50
LONGEST_QUERY = 200

Handler = Callable[[Request], Awaitable[Answer | Streamed]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address below the page's base. `needs` is None where everybody may have it."""

    path: str
    method: str
    needs: Scope | None
    handler: Handler


class Site:
    """The page of one workspace."""

    def __init__(self, version: str, sources: Sequence[Source], facts: Facts, mask: Mask) -> None:
        self._sources = tuple(sources)
        self._facts = facts
        self._mask = mask
        self._static = Static()
        self._feed = Feed(version)
        self._looking = Looking(sources, facts, self._feed, mask)
        self.activity = Activity(self._told)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        read = (
            ("/api/state", self._state),
            ("/api/things", self._things),
            ("/api/document", self._document),
            ("/api/frame", self._frame),
            ("/api/activity", self._activity),
            ("/api/project", self._project),
            ("/api/lab", self._lab),
            ("/api/events", self._events),
        )
        return (
            *(Endpoint(path, "GET", None, self._file(path)) for path in FILES),
            *(Endpoint(path, "GET", Scope.READ, handler) for path, handler in read),
            Endpoint("/api/cancel", "POST", Scope.RUN, self._cancel),
        )

    def heard(self, change: Change) -> None:
        self._looking.heard(change)

    def things_changed(self) -> None:
        """What is listed may be another now, for everybody."""
        self._looking.list_changed()

    def end_streams(self) -> None:
        self._feed.close()

    async def close(self) -> None:
        self._feed.close()
        await self._looking.close()

    def _told(self, owner: str, entry: Entry) -> None:
        if self._feed.knows(owner):
            self._feed.publish("call", entry.as_json(), owner=owner)
        self._looking.nudge()

    # -- answers -------------------------------------------------------------------------------------------------------------

    def _file(self, path: str) -> Handler:
        async def answer(request: Request) -> Answer:
            return self._static.answer(path, request)

        return answer

    async def _state(self, request: Request) -> Answer:
        return Answer.json(self._facts.state(call_of(request.caller)))

    async def _things(self, request: Request) -> Answer:
        call = call_of(request.caller)
        query = clean(request.query.get("q", "")).text.strip()[:LONGEST_QUERY]
        found: list[Thing] = []
        more = False
        for source in self._sources:
            things, has_more = await source.things(call)
            found += things
            more = more or has_more
        if query:
            words = query.lower().split()
            named = [one for one in found if all(word in _sought(one) for word in words)]
            known = {one.uri for one in named}
            inside = await self._facts.search(call, query, MOST_FOUND)
            found = [*named, *(one for one in inside if one.uri not in known)]
        return Answer.json(
            {"things": [asdict(one) for one in found[:MOST_THINGS]], "more": more or len(found) > MOST_THINGS}
        )

    async def _document(self, request: Request) -> Answer:
        start = request.number("start", 0, 1_000_000)
        count = request.number("count", MOST_CELLS, MOST_CELLS)
        mirror = await self._looking.mirror(call_of(request.caller), request.text("uri"))
        return Answer(body=await mirror.read(request.query.get("since", ""), start, count))

    async def _frame(self, request: Request) -> Answer:
        call, uri, cell = call_of(request.caller), request.text("uri"), request.text("cell")
        number = request.number("output", 0, 999_999)
        source = self._looking.source(uri)
        known = await source.resolve(call, uri)
        async with source.open(call, known) as sheet:
            names = list(sheet.names)
            outputs = (
                cast("list[Mapping[str, object]]", sheet.cell(names.index(cell))["outputs"]) if cell in names else []
            )
            html = framed(outputs[number]) if number < len(outputs) else None
        if html is None:
            raise NotFound("there is no such output", hint="read the document again")
        # In a thread: a long one takes a while, and everybody is waiting for this loop.
        body = await asyncio.to_thread(frame, html)
        return Answer(200, self._mask(body), "text/html; charset=utf-8", FRAME_HEADERS)

    async def _activity(self, request: Request) -> Answer:
        owner = request.caller.id
        return Answer.json(
            {
                "calls": [entry.as_json() for entry in self.activity.of(owner)],
                "running": [run.as_json() for run in self._facts.running(owner)],
                "sessions": await self._facts.sessions(call_of(request.caller)),
            }
        )

    async def _project(self, request: Request) -> Answer:
        return Answer.json(await self._facts.project(call_of(request.caller)))

    async def _lab(self, request: Request) -> Answer:
        """On to JupyterLab. Where it leads is ours to say: the query names a notebook, never an address."""
        address = await self._facts.lab(call_of(request.caller), request.text("uri"))
        return Answer(STATUS_ELSEWHERE, headers={**PAGE_HEADERS, "location": address, "cache-control": "no-store"})

    async def _cancel(self, request: Request) -> Answer:
        execution = request.json().get("execution")
        if not isinstance(execution, str):
            raise InvalidArgument('the body must be {"execution": "…"}')
        await self._facts.cancel(call_of(request.caller), execution)
        self._looking.nudge()
        return Answer(STATUS_NONE)

    async def _events(self, request: Request) -> Streamed:
        last_seen = request.headers.get("last-event-id") or request.query.get("last", "")
        owner = request.caller.id
        viewer, mirror = await self._looking.view(call_of(request.caller), request.query.get("uri", ""), last_seen)
        left = False

        def leave() -> None:
            nonlocal left
            if not left:
                left = True
                self._looking.leave(owner, viewer, mirror)

        async def pieces() -> AsyncGenerator[bytes]:
            async for piece in viewer.pieces():
                yield piece

        return Streamed(pieces(), leave)


def call_of(principal: Principal) -> Call:
    return Call(principal)


def _sought(thing: Thing) -> str:
    return " ".join((thing.title, thing.path, *thing.tags)).lower()
