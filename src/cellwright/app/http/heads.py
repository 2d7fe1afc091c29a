"""The headers of a request, read in one way only.

If a header is repeated, starlette returns the first. The server behind the gate, or a proxy in front of it, may take the other one.
So the gate reads the headers once, here, and passes them on: who is let in must not depend on which of two values was read.
"""

from collections.abc import Mapping
from typing import cast

from starlette.types import Scope as AsgiScope

HEAD_KEY = "cellwright.head"
ONCE = frozenset({"host", "origin", "authorization", "cookie", "content-length", "content-type", "content-encoding"})
# The server behind the gate chooses the era and the session by these. If one is repeated, it and the gate could choose differently.
ROUTING = frozenset({"mcp-protocol-version", "mcp-session-id"})
CREDENTIALS = frozenset({"authorization", "cookie"})


def read_head(scope: AsgiScope) -> tuple[dict[str, str], str]:
    """The headers by lower-case name, and which of ROUTING is repeated. A header of ONCE that is repeated counts as empty."""
    head: dict[str, str] = {}
    repeated = ""
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1").lower()
        is_repeated = name in head
        head[name] = "" if is_repeated and name in ONCE else raw_value.decode("latin-1")
        if is_repeated and name in ROUTING:
            repeated = name
    return head, repeated


def head_of(scope: AsgiScope) -> Mapping[str, str]:
    """The headers of this request, as `read_head` read them."""
    return cast("Mapping[str, str]", scope[HEAD_KEY])


def without_credentials(scope: AsgiScope) -> AsgiScope:
    """The scope without the headers that let the caller in: the app behind the gate does not get them."""
    raw = [pair for pair in scope["headers"] if pair[0].lower() not in {b"authorization", b"cookie"}]
    head = {name: value for name, value in head_of(scope).items() if name not in CREDENTIALS}
    return {**scope, "headers": raw, HEAD_KEY: head}


def address_of(scope: AsgiScope) -> str:
    """The address that the request comes from; empty if unknown."""
    return str((scope.get("client") or ("",))[0])
