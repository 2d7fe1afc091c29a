"""A route, with who may use it. One without a declared scope cannot be written down."""

import re
from collections.abc import Callable
from typing import Any, cast

from starlette import routing
from starlette.types import Scope as AsgiScope

from cellwright.core.types import Scope

OPEN = "open"
ROUTE_KEY = "cellwright.route"


class Route(routing.Route):
    """A path, what it answers to, and who may use it: a scope, or OPEN, said out loud."""

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

        `visits`: a person's cookie lets in as well as a token; said of the page's own routes only.
        `protocol`: MCP is spoken here, so who is refused hears it in the protocol's own way.
        """
        if not isinstance(needs, Scope) and needs != OPEN:
            raise ValueError(f"route {path} declares neither a scope nor OPEN")
        super().__init__(path, endpoint)
        # As they are given: starlette would add HEAD to GET, and take a path with a slash at its end for another one.
        self.methods = set(methods)
        self.path_regex = re.compile(rf"{re.escape(path.rstrip('/'))}/*\Z")
        self.needs = needs
        self.visits = visits
        self.protocol = protocol


def route_of(scope: AsgiScope) -> Route | None:
    """The route that this request asks for, by its path alone; None if there is no such path."""
    return cast("Route | None", scope.get(ROUTE_KEY))
