"""The endpoints of the page: what each answers, and which scope it needs. The only action here is to cancel a run."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import cast

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from cellwright.core.errors import InvalidArgument, NotFound
from cellwright.core.resources import Change
from cellwright.core.text.clean import clean
from cellwright.core.types import Scope
from cellwright.notebook.shelf import Card, Shelf
from cellwright.web.activity import Activity, ActivityEntry
from cellwright.web.feed import PageFeed
from cellwright.web.frames import FRAME_HEADERS, frame
from cellwright.web.looking import Looking
from cellwright.web.mirror import MOST_CELLS, Mask
from cellwright.web.outputs import framed
from cellwright.web.ports import Facts
from cellwright.web.requests import call_of, caller_of, header_of, number_of, object_of, text_of
from cellwright.web.responses import EventStream, NoContent, PageResponse, json_response
from cellwright.web.static import FILES, Static

MOST_THINGS = 500
MOST_FOUND = 50
LONGEST_QUERY = 200

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address below the page's base. `needs` is None where everybody may read it."""

    path: str
    method: str
    needs: Scope | None
    handler: Handler


class Site:
    """The page of one workspace."""

    def __init__(self, version: str, shelves: Sequence[Shelf], facts: Facts, mask: Mask) -> None:
        self._shelves = tuple(shelves)
        self._facts = facts
        self._mask = mask
        self._static = Static()
        self._feed = PageFeed(version)
        self._looking = Looking(shelves, facts, self._feed, mask)
        self.activity = Activity(self._publish_call)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        read = (
            ("/api/state", self._state),
            ("/api/things", self._things),
            ("/api/document", self._document),
            ("/api/frame", self._frame),
            ("/api/states", self._states),
            ("/api/graph", self._graph),
            ("/api/activity", self._activity),
            ("/api/project", self._project),
            ("/api/lab", self._lab),
            ("/api/events", self._events),
        )
        return (
            *(Endpoint(path, "GET", None, self._file(path)) for path in FILES),
            *(Endpoint(path, "GET", Scope.READ, handler) for path, handler in read),
            Endpoint("/api/variables", "GET", Scope.RUN, self._variables),
            Endpoint("/api/cancel", "POST", Scope.RUN, self._cancel),
        )

    def heard(self, change: Change) -> None:
        self._looking.heard(change)

    def things_changed(self) -> None:
        """The list may have changed, for everybody."""
        self._looking.list_changed()

    def end_streams(self) -> None:
        self._feed.close()

    async def close(self) -> None:
        self._feed.close()
        await self._looking.close()

    def _publish_call(self, owner: str, entry: ActivityEntry) -> None:
        if self._feed.knows(owner):
            self._feed.publish("call", entry.as_json(), owner=owner)
        self._looking.nudge()

    # -- answers -------------------------------------------------------------------------------------------------------------

    def _file(self, path: str) -> Handler:
        async def respond(request: Request) -> Response:
            return self._static.response(path, request)

        return respond

    async def _state(self, request: Request) -> Response:
        return json_response(self._facts.state(call_of(request)))

    async def _things(self, request: Request) -> Response:
        call = call_of(request)
        query = clean(request.query_params.get("q", "")).text.strip()[:LONGEST_QUERY]
        cards: list[Card] = []
        more = False
        for shelf in self._shelves:
            shelf_cards, shelf_has_more = await shelf.cards(call)
            cards += shelf_cards
            more = more or shelf_has_more
        if query:
            words = query.lower().split()
            named = [card for card in cards if all(word in _searched_text(card) for word in words)]
            named_uris = {card.uri for card in named}
            containing = await self._facts.search(call, query, MOST_FOUND)
            cards = [*named, *(card for card in containing if card.uri not in named_uris)]
        return json_response(
            {"things": [asdict(card) for card in cards[:MOST_THINGS]], "more": more or len(cards) > MOST_THINGS}
        )

    async def _document(self, request: Request) -> Response:
        start = number_of(request, "start", 0, 1_000_000)
        count = number_of(request, "count", MOST_CELLS, MOST_CELLS)
        mirror = await self._looking.mirror(call_of(request), text_of(request, "uri"))
        return PageResponse(await mirror.read(request.query_params.get("since", ""), start, count))

    async def _frame(self, request: Request) -> Response:
        call, uri, cell = call_of(request), text_of(request, "uri"), text_of(request, "cell")
        number = number_of(request, "output", 0, 999_999)
        shelf = self._looking.shelf(uri)
        async with shelf.open(call, await shelf.resolve(call, uri)) as sheet:
            names = list(sheet.names)
            outputs = (
                cast("list[Mapping[str, object]]", sheet.cell(names.index(cell))["outputs"]) if cell in names else []
            )
            html = framed(outputs[number]) if number < len(outputs) else None
        if html is None:
            raise NotFound("there is no such output", hint="read the document again")
        # In a thread, because a long output takes a while and everybody waits for this loop.
        body = await asyncio.to_thread(frame, html)
        return Response(self._mask(body), headers={**FRAME_HEADERS, "content-type": "text/html; charset=utf-8"})

    async def _states(self, request: Request) -> Response:
        since = request.query_params.get("since", "")
        states = await self._looking.states(call_of(request), text_of(request, "uri"), since)
        return PageResponse(self._mask(to_json(states)))

    async def _graph(self, request: Request) -> Response:
        cell = request.query_params.get("cell", "")
        graph = await self._facts.graph(call_of(request), text_of(request, "uri"), cell)
        return PageResponse(self._mask(to_json(graph)))

    async def _activity(self, request: Request) -> Response:
        owner = caller_of(request).id
        return json_response(
            {
                "calls": [entry.as_json() for entry in self.activity.of(owner)],
                "running": [run.as_json() for run in self._facts.running(owner)],
                "sessions": await self._facts.sessions(call_of(request)),
            }
        )

    async def _project(self, request: Request) -> Response:
        return json_response(await self._facts.project(call_of(request)))

    async def _lab(self, request: Request) -> Response:
        """A redirect to JupyterLab. The query names a notebook, never an address, so it cannot lead anywhere else."""
        address = await self._facts.lab(call_of(request), text_of(request, "uri"))
        return PageResponse(b"", 303, {"location": address, "cache-control": "no-store"})

    async def _variables(self, request: Request) -> Response:
        name = request.query_params.get("name", "")
        body = to_json(await self._facts.variables(call_of(request), text_of(request, "uri"), name))
        return PageResponse(self._mask(body))

    async def _cancel(self, request: Request) -> Response:
        execution = (await object_of(request)).get("execution")
        if not isinstance(execution, str):
            raise InvalidArgument('the body must be {"execution": "…"}', hint="name the execution to stop")
        await self._facts.cancel(call_of(request), execution)
        self._looking.nudge()
        return NoContent()

    async def _events(self, request: Request) -> Response:
        last_seen = header_of(request, "last-event-id") or request.query_params.get("last", "")
        owner = caller_of(request).id
        viewer, mirror = await self._looking.view(call_of(request), request.query_params.get("uri", ""), last_seen)
        has_left = False

        def leave() -> None:
            nonlocal has_left
            if not has_left:
                has_left = True
                self._looking.leave(owner, viewer, mirror)

        return EventStream(viewer.pieces(), leave)


def _searched_text(card: Card) -> str:
    return " ".join((card.title, card.path, *card.tags)).lower()
