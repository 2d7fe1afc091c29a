"""Who calls, by Jupyter's own word: its identity provider says who, its authorizer what they may."""

import hashlib
import re
from collections.abc import Generator
from contextlib import contextmanager
from secrets import token_hex

from jupyter_server.auth.authorizer import AllowAllAuthorizer
from jupyter_server.auth.identity import IdentityProvider, User
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import ensure_async

from cellwright.core.types import Leave, Principal, Scope

RESOURCE = "cellwright"
# A scope needs Jupyter's leave for us and for what it reaches, so that nobody may do here what they may not do there.
NEEDED = {
    Scope.READ: (Leave("read", RESOURCE), Leave("read", "contents")),
    Scope.WRITE: (Leave("write", RESOURCE), Leave("write", "contents")),
    Scope.RUN: (Leave("execute", RESOURCE), Leave("execute", "kernels")),
}
ASKED = (
    *(leave for needed in NEEDED.values() for leave in needed),
    *(Leave(action, resource) for resource in ("sessions", "kernels") for action in ("read", "write")),
    Leave("read", "kernelspecs"),
)
"""All that is ever asked for: by scopes here, by what a call touches in `jupyter.permitted`."""
SHARED = "jupyter"
"""Everybody who has the one token, or the password, of a server without users."""
_ANONYMOUS_ID = re.compile(r"[0-9a-f]{32}")


async def principal_of(handler: JupyterHandler, user: User) -> Principal:
    """The caller, with what Jupyter's authorizer grants, and the scopes that follow."""
    if type(handler.authorizer) is AllowAllAuthorizer:  # Jupyter's own, which is not asked eleven times to say yes
        return Principal(identity(handler, user), frozenset(NEEDED))
    leaves = frozenset([leave for leave in ASKED if await _may(handler, user, leave)])
    scopes = frozenset(scope for scope, needed in NEEDED.items() if leaves.issuperset(needed))
    return Principal(identity(handler, user), scopes, leaves)


async def _may(handler: JupyterHandler, user: User, leave: Leave) -> bool:
    return bool(await ensure_async(handler.authorizer.is_authorized(handler, user, leave.action, leave.resource)))


def identity(handler: JupyterHandler, user: User) -> str:
    """A name that stays the same for the same person, from request to request and over restarts.

    Jupyter's own names do not where users are not real: with the one shared token it makes up a new name for every request
    that comes without a cookie.
    """
    provider = handler.identity_provider
    if not has_users(provider):
        return SHARED
    token = provider.get_token(handler) if handler.token_authenticated else None
    if token and _is_made_up(user):
        return f"token:{hashlib.sha256(token.encode()).hexdigest()[:32]}"
    return f"user:{user.username}"


def _is_made_up(user: User) -> bool:
    nobody = user.name == user.username or user.name.startswith("Anonymous ")
    return nobody and _ANONYMOUS_ID.fullmatch(user.username) is not None


def has_users(provider: IdentityProvider) -> bool:
    """Whether this provider knows people apart. Jupyter's own knows one token or password, whoever gives it."""
    own = type(provider)
    return any(
        getattr(own, name) is not getattr(IdentityProvider, name)
        for name in ("get_user", "_get_user", "get_user_token")
    )


class Admitted:
    """The callers whom Jupyter let in, as the gate's verifier: each request has a ticket that dies with it."""

    def __init__(self) -> None:
        self._principals: dict[str, Principal] = {}

    @contextmanager
    def ticket(self, principal: Principal) -> Generator[str]:
        made = token_hex(16)
        self._principals[made] = principal
        try:
            yield made
        finally:
            del self._principals[made]

    def verify(self, token: str) -> Principal | None:
        return self._principals.get(token)
