"""The page behind the gate: its routes, its cookies, and what it is told of calls and changes."""

from collections.abc import Mapping
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from cellwright import __version__
from cellwright.app.http.middleware.callers import RECHECK_KEY, VISIT_KEY
from cellwright.app.http.routes import OPEN, Route
from cellwright.app.page.facts import WorkspaceFacts
from cellwright.app.protocol import results
from cellwright.app.workspace import Workspace
from cellwright.core.errors import CellwrightError
from cellwright.core.types import Call, Scope
from cellwright.web.activity import ActivityEntry
from cellwright.web.requests import caller_of
from cellwright.web.responses import NoContent, failure
from cellwright.web.site import Endpoint, Handler, Site
from cellwright.web.visits import Recheck, Visits

# After a call of these tools the list of notebooks may have changed.
FILE_TOOLS = frozenset(
    {"create_document", "copy_document", "rename_document", "delete_document", "notebook_keep", "use_notebook", "export_notebook",
     "import_notebook"}
)  # fmt: skip


class WorkspacePage:
    """The page of one workspace. `visits` are those of people who logged in with a token; None where Jupyter lets them in."""

    def __init__(self, workspace: Workspace, visits: Visits | None) -> None:
        self._notebooks = workspace.notebook_shelf
        self._traces = workspace.context.traces
        facts = WorkspaceFacts(workspace, enter=visits is not None)
        self._site = Site(__version__, workspace.exchange.shelves, facts, workspace.secrets.data)
        self._visits = visits
        self._stop_listening = workspace.changes.subscribe(self._site.heard)

    def routes(self) -> list[Route]:
        """Every address of the page, each with what it needs. A cookie is accepted by these routes and no others."""
        routes = [_route(endpoint) for endpoint in self._site.endpoints]
        if self._visits is not None:
            post = frozenset({"POST"})
            routes += [
                # This one takes only the token: a cookie must not be able to get another.
                Route("/api/enter", post, Scope.READ, _enter(self._visits)),
                Route("/api/leave", post, Scope.READ, _leave(self._visits), visits=True),
            ]
        return routes

    # -- told by the protocol's server -----------------------------------------------------------------------------------------

    def began(self, call: Call, tool: str, arguments: Mapping[str, Any]) -> ActivityEntry:
        touched = self._traces.touched_by(tool, arguments)
        return self._site.activity.began(call, tool, touched[0].uri if touched else None)

    def ended(self, call: Call, begun: object, outcome: str, seconds: float, answer: results.Answer) -> None:
        entry = cast("ActivityEntry", begun)
        if entry.tool in FILE_TOOLS:
            self._notebooks.listing_changed()
            self._site.things_changed()
        text = next((part for part in answer.content if isinstance(part, str)), "")
        self._site.activity.ended(call, entry, outcome, seconds, text, answer.tokens)

    # -- the end -----------------------------------------------------------------------------------------------------------------

    def end_streams(self) -> None:
        """End the streams, which would stay open for ever. Other requests are still answered."""
        self._site.end_streams()

    async def close(self) -> None:
        self._stop_listening()
        await self._site.close()


def _route(endpoint: Endpoint) -> Route:
    async def respond(request: Request) -> Response:
        try:
            return await endpoint.handler(request)
        except CellwrightError as error:
            return failure(error)

    needs = OPEN if endpoint.needs is None else endpoint.needs
    return Route(endpoint.path, frozenset({endpoint.method}), needs, respond, visits=endpoint.needs is not None)


def _enter(visits: Visits) -> Handler:
    async def respond(request: Request) -> Response:
        recheck = cast("Recheck", request.scope[RECHECK_KEY])
        secure = request.headers.get("origin", "").startswith("https://")
        return NoContent({"set-cookie": visits.begin(caller_of(request), recheck, secure=secure)})

    return respond


def _leave(visits: Visits) -> Handler:
    async def respond(request: Request) -> Response:
        return NoContent({"set-cookie": visits.end(str(request.scope[VISIT_KEY]))})

    return respond
