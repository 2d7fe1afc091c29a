"""The callers as Jupyter knows them: its identity provider says who they are, its authorizer what they may do."""

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
# A scope needs Jupyter's permission for us and for what it reaches: nobody may do through us what they may not do in Jupyter.
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
"""Every permission that is ever needed: by scopes here, and by what a call touches in `jupyter.permitted`."""
SHARED = "jupyter"
"""The name of everybody who has the one token, or the password, of a server without users."""
_ANONYMOUS_ID = re.compile(r"[0-9a-f]{32}")


async def principal_of(handler: JupyterHandler, user: User) -> Principal:
    """The caller, with the permissions that Jupyter's authorizer grants and the scopes that follow from them."""
    if type(handler.authorizer) is AllowAllAuthorizer:  # it always says yes and need not be asked eleven times
        return Principal(identity(handler, user), frozenset(NEEDED))
    is_authorized = handler.authorizer.is_authorized
    leaves = frozenset(
        [leave for leave in ASKED if await ensure_async(is_authorized(handler, user, leave.action, leave.resource))]
    )
    scopes = frozenset(scope for scope, needed in NEEDED.items() if leaves.issuperset(needed))
    return Principal(identity(handler, user), scopes, leaves)


def identity(handler: JupyterHandler, user: User) -> str:
    """A name that stays the same for the same person, from request to request and over restarts.

    Jupyter's own names change where there are no real users: with the one shared token it makes up a new name for every request
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
    has_no_name = user.name == user.username or user.name.startswith("Anonymous ")
    return has_no_name and _ANONYMOUS_ID.fullmatch(user.username) is not None


def has_users(provider: IdentityProvider) -> bool:
    """Whether this provider tells people apart. Jupyter's own has one token or password for everybody."""
    provider_class = type(provider)
    return any(
        getattr(provider_class, name) is not getattr(IdentityProvider, name)
        for name in ("get_user", "_get_user", "get_user_token")
    )


class Admitted:
    """The callers whom Jupyter let in, as a verifier for the gate: each request has a ticket that ends with it."""

    def __init__(self) -> None:
        self._principals: dict[str, Principal] = {}

    @contextmanager
    def ticket(self, principal: Principal) -> Generator[str]:
        ticket_id = token_hex(16)
        self._principals[ticket_id] = principal
        try:
            yield ticket_id
        finally:
            del self._principals[ticket_id]

    def verify(self, token: str) -> Principal | None:
        return self._principals.get(token)
