"""A route that declares who may use it. A route without a declared scope cannot be created."""

import re
from collections.abc import Callable
from typing import Any, cast

from starlette import routing
from starlette.types import Scope as AsgiScope

from cellwright.core.types import Scope

OPEN = "open"
ROUTE_KEY = "cellwright.route"


class Route(routing.Route):
    """A path, its methods, and who may use it: callers with a scope, or explicitly everybody (OPEN)."""

    methods: set[str]

    def __init__(
        self,
        path: str,
        methods: frozenset[str],
        needs: Scope | str,
        endpoint: Callable[..., Any],
        *,
        visits: bool = False,
        protocol: bool = False,
    ) -> None:
        """`endpoint` is a function of a request, or an object that is an ASGI app.

        `visits`: the cookie of a person's visit is accepted as well as a token; only for the page's own routes.
        `protocol`: this route speaks MCP, so refusals are sent as errors of the protocol.
        """
        if not isinstance(needs, Scope) and needs != OPEN:
            raise ValueError(f"route {path} declares neither a scope nor OPEN")
        super().__init__(path, endpoint)
        # Exactly as declared: starlette would add HEAD to GET, and treat a path with a slash at its end as another path.
        self.methods = set(methods)
        self.path_regex = re.compile(rf"{re.escape(path.rstrip('/'))}/*\Z")
        self.needs = needs
        self.visits = visits
        self.protocol = protocol


def route_of(scope: AsgiScope) -> Route | None:
    """The route of this request, found by its path alone; None if there is no such path."""
    return cast("Route | None", scope.get(ROUTE_KEY))
