"""Types that every part uses: who calls, what a call may do, what must not be shown."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum

from cellwright.core.turns import Turn


class Scope(StrEnum):
    """What a token may do. `run` means code execution: treat it as the whole user account."""

    READ = "read"
    WRITE = "write"
    RUN = "run"
    ADMIN = "admin"


ALL_SCOPES = frozenset(Scope)
PRINCIPAL_KEY = "cellwright.principal"
"""The key of the principal in the ASGI scope of an HTTP request."""


class Secret:
    """Text that must not be shown. `reveal` is the only way out, so a search finds every use."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


@dataclass(frozen=True, slots=True)
class Leave:
    """A permission of the server that we run inside of: an action on a resource, both in that server's own words."""

    action: str
    resource: str


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls. Created only by a verifier (or for the local user on stdio) and passed down; never looked up."""

    id: str
    scopes: frozenset[Scope]
    leaves: frozenset[Leave] | None = None
    """What the server that we run inside of lets them do. None if there is no such server, and only scopes count."""

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes

    def has(self, leave: Leave) -> bool:
        return self.leaves is None or leave in self.leaves


ReportProgress = Callable[[float, float | None, str], Awaitable[None]]


async def _no_progress(_done: float, _total: float | None, _message: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool or read of a resource: who, over which connection, and where its progress goes."""

    principal: Principal
    connection: str | None = None
    """The connection of a handshake-era client; None if the protocol has no connections."""
    client: str = ""
    """What the client calls itself; shown to people, never trusted."""
    request_id: str = ""
    report: ReportProgress = _no_progress
    may_have_left: bool = False
    """Whether a cancelled call may only mean a lost connection: the 2026 era over HTTP has one signal for both. Runs then go on."""

    wish: object = None
    """The request's own choice of tools, as the catalogue reads it; None if it has none."""

    news: list[str] = field(default_factory=list[str], compare=False)
    """What the caller should know beside the answer, as that earlier edits are gone. It is added to the answer."""

    turn: Turn | None = field(default=None, compare=False)
    """When it began, and what is done when its answer goes out; None if that is of no account, and all counts at once."""

    @property
    def session(self) -> str:
        """The key of what is "current" for this caller: the connection if there is one, else the principal and its client's name."""
        if self.connection:
            return f"connection:{self.connection}"
        return f"principal:{self.principal.id}" + (f" client:{self.client}" if self.client else "")

    @property
    def may_be_another(self) -> bool:
        """Whether earlier calls of this session may be those of another client, with the same token and name.

        Over HTTP the era without connections does not tell them apart.
        """
        return self.connection is None and self.may_have_left

    async def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report to the client how far this call is. Costs nothing if the client did not ask for that."""
        await self.report(done, total, message)
