"""The headers of a request, each read in one way only.

Starlette gives the first of a header that stands twice. The server behind, or a proxy in front, may take the other one, so the gate
reads them here once and hands them down: who may come in must not hang on which of two was read.
"""

from collections.abc import Mapping
from typing import cast

from starlette.types import Scope as AsgiScope

HEAD_KEY = "cellwright.head"
ONCE = frozenset({"host", "origin", "authorization", "cookie", "content-length", "content-type", "content-encoding"})
# By these the server behind chooses the era and the session: given twice, it and the gate could choose differently.
ROUTING = frozenset({"mcp-protocol-version", "mcp-session-id"})
CREDENTIALS = frozenset({"authorization", "cookie"})


def read_head(scope: AsgiScope) -> tuple[dict[str, str], str]:
    """The headers by their names in lower case, and which of ROUTING is given twice. One of ONCE that is, is empty."""
    head: dict[str, str] = {}
    twice = ""
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1").lower()
        again = name in head
        head[name] = "" if again and name in ONCE else raw_value.decode("latin-1")
        if again and name in ROUTING:
            twice = name
    return head, twice


def head_of(scope: AsgiScope) -> Mapping[str, str]:
    """What `read_head` read of this request."""
    return cast("Mapping[str, str]", scope[HEAD_KEY])


def without_credentials(scope: AsgiScope) -> AsgiScope:
    """What lets the caller in stays at the door."""
    raw = [pair for pair in scope["headers"] if pair[0].lower() not in {b"authorization", b"cookie"}]
    head = {name: value for name, value in head_of(scope).items() if name not in CREDENTIALS}
    return {**scope, "headers": raw, HEAD_KEY: head}


def address_of(scope: AsgiScope) -> str:
    """Where the request comes from; empty if that is not known."""
    return str((scope.get("client") or ("",))[0])
