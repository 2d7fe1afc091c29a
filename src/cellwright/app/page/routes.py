"""The page behind the gate: its routes, its cookies, and what it hears of calls and changes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from pydantic_core import to_json

from cellwright import __version__
from cellwright.app.context_traces import touched_by
from cellwright.app.gate import OPEN, PRINCIPAL_KEY, RECHECK_KEY, VISIT_KEY, Route
from cellwright.app.page.facts import WorkspaceFacts
from cellwright.app.page.notebooks import NotebookSource
from cellwright.app.page.stored import PadSource, ThinkingSource
from cellwright.app.requests import App, AsgiScope, Receive, Send
from cellwright.app.workspace import Workspace, named_servers
from cellwright.core.errors import CellwrightError
from cellwright.core.types import Call, Principal, Scope, Secret
from cellwright.web.activity import Entry
from cellwright.web.asgi import (
    PAGE_HEADERS,
    STATUS_NONE,
    Answer,
    Streamed,
    body_of,
    failure,
    request_of,
    send_answer,
    send_stream,
)
from cellwright.web.site import Endpoint, Site
from cellwright.web.visits import Recheck, Visits

SHORTEST_SECRET = 8
# After these the list of notebooks may be another one.
FILE_TOOLS = frozenset(
    {"create_document", "copy_document", "rename_document", "delete_document", "notebook_keep", "use_notebook", "export_notebook",
     "import_notebook"}
)  # fmt: skip


class Page:
    """The page of one workspace. `visits` are the people who came in with a token; None where Jupyter lets them in."""

    def __init__(self, workspace: Workspace, visits: Visits | None, *, in_jupyter: bool = False) -> None:
        eager = in_jupyter or named_servers(workspace.settings)[0] is not None
        notebooks = workspace.notebooks
        self._notebooks = NotebookSource(
            notebooks,
            workspace.settings.root,
            may_connect=lambda: eager or notebooks.status().state.startswith("connected"),
        )
        sources = (self._notebooks, PadSource(workspace.pads), ThinkingSource(workspace.thinking))
        facts = WorkspaceFacts(workspace, self._notebooks, enter=visits is not None)
        self._site = Site(__version__, sources, facts, _masking(workspace.settings.secrets()))
        self._visits = visits
        self._stop_listening = workspace.changes.subscribe(self._site.heard)

    def routes(self) -> list[Route]:
        """Every address of the page, each with what it needs; with a cookie one comes in here and nowhere else."""
        made = [_route(endpoint) for endpoint in self._site.endpoints]
        if self._visits is not None:
            enter = _enter(self._visits)
            leave = _leave(self._visits)
            post = frozenset({"POST"})
            made += [
                # With the token alone: a cookie must not be able to make another.
                Route("/api/enter", post, Scope.READ, enter),
                Route("/api/leave", post, Scope.READ, leave, visits=True),
            ]
        return made

    # -- told by the protocol's server -----------------------------------------------------------------------------------------

    def began(self, call: Call, tool: str, arguments: Mapping[str, Any]) -> Entry:
        touched = touched_by(tool, arguments)
        return self._site.activity.began(call, tool, touched[0].uri if touched else None)

    def ended(self, call: Call, begun: object, outcome: str, seconds: float, texts: Sequence[str]) -> None:
        known = cast("Entry", begun)
        if known.tool in FILE_TOOLS:
            self._notebooks.listing_changed()
            self._site.things_changed()
        self._site.activity.ended(call, known, outcome, seconds, texts)

    # -- the end -----------------------------------------------------------------------------------------------------------------

    def end_streams(self) -> None:
        """End what would stay open for ever; what was asked for is still answered."""
        self._site.end_streams()

    async def close(self) -> None:
        self._stop_listening()
        await self._site.close()


def _route(endpoint: Endpoint) -> Route:
    async def app(scope: AsgiScope, receive: Receive, send: Send) -> None:
        principal = cast("Principal | None", scope.get(PRINCIPAL_KEY))
        body = await body_of(receive) if endpoint.method == "POST" else b""
        try:
            answer = await endpoint.handler(request_of(scope, principal, body))
        except CellwrightError as error:
            answer = failure(error)
        if isinstance(answer, Streamed):
            await send_stream(receive, send, answer)
        else:
            await send_answer(send, answer)

    needs = OPEN if endpoint.needs is None else endpoint.needs
    return Route(endpoint.path, frozenset({endpoint.method}), needs, app, visits=endpoint.needs is not None)


def _enter(visits: Visits) -> App:
    async def app(scope: AsgiScope, receive: Receive, send: Send) -> None:
        request = request_of(scope, cast("Principal", scope[PRINCIPAL_KEY]), await body_of(receive))
        recheck = cast("Recheck", scope[RECHECK_KEY])
        secure = request.headers.get("origin", "").startswith("https://")
        cookie = visits.begin(request.caller, recheck, secure=secure)
        await send_answer(send, Answer(STATUS_NONE, headers={**PAGE_HEADERS, "set-cookie": cookie}))

    return app


def _leave(visits: Visits) -> App:
    async def app(scope: AsgiScope, receive: Receive, send: Send) -> None:
        await body_of(receive)
        cookie = visits.end(str(scope[VISIT_KEY]))
        await send_answer(send, Answer(STATUS_NONE, headers={**PAGE_HEADERS, "set-cookie": cookie}))

    return app


def _masking(secrets: Sequence[Secret]) -> Callable[[bytes], bytes]:
    """Takes our own secrets out of what is shown, should a cell have printed one."""
    hidden = [to_json(one.reveal())[1:-1] for one in secrets if len(one.reveal()) >= SHORTEST_SECRET]

    def mask(body: bytes) -> bytes:
        for secret in hidden:
            body = body.replace(secret, b"***")
        return body

    return mask
