"""The words every part speaks: who calls, what a call may do, what must not be shown."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """What a token may do. `run` means code execution: treat it as the whole user account."""

    READ = "read"
    WRITE = "write"
    RUN = "run"
    ADMIN = "admin"


ALL_SCOPES = frozenset(Scope)
PRINCIPAL_KEY = "cellwright.principal"
"""Where the scope of a request over HTTP has who calls."""


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
    """Something that the server we run inside of lets people do, or not: an action on a resource, both in its own words."""

    action: str
    resource: str


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls. Made only by a verifier (or for the local user on stdio), passed down, never looked up."""

    id: str
    scopes: frozenset[Scope]
    leaves: frozenset[Leave] | None = None
    """What the server we run inside of lets them do there; None where no server says so, and scopes alone count."""

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
    """Names the connection of a handshake-era client; None where the protocol has no connections."""
    client: str = ""
    """What the client calls itself; shown to people, never trusted."""
    request_id: str = ""
    report: ReportProgress = _no_progress
    may_have_left: bool = False
    """Whether a cancelled call may only mean a lost connection: the 2026 era over HTTP has one sign for both. What runs goes on."""

    wish: object = None
    """The request's own choice of tools, as the catalogue reads it; None if it made none."""

    @property
    def session(self) -> str:
        """The key under which "current" things are kept: the connection where there is one, else the principal."""
        return f"connection:{self.connection}" if self.connection else f"principal:{self.principal.id}"

    async def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell the client how far this call is. Costs nothing if the client did not ask."""
        await self.report(done, total, message)
