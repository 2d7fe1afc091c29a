"""Tools as plain typed functions, grouped into toolsets, each with its effect.

A tool function takes the service of its part first, then, if it wants them, the `Call`, then its arguments:

    async def read_pad(pads: Pads, call: Call, pad_id: str, limit: int = 50) -> Pad:
        '''Read a pad. This line is what the model sees.'''

    SCRATCH = Toolset("scratch", "durable scratch notebooks", (read(read_pad), write(append_cell)))

Annotations, scopes and `--read-only` follow from the effect, so they cannot lie.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from cellwright.core.errors import CellwrightError
from cellwright.core.types import Scope

T = TypeVar("T")
ToolFunction = Callable[..., Awaitable[Any]]
FailureShape = Callable[[CellwrightError], dict[str, Any]]


class Effect(StrEnum):
    """What a tool does to the world."""

    READ = "read"
    WRITE = "write"
    RUN = "run"

    @property
    def scope(self) -> Scope:
        return Scope(self.value)


@dataclass(frozen=True, slots=True)
class Image:
    """A picture for the model."""

    data: bytes
    mime_type: str


@dataclass(frozen=True, slots=True)
class Link:
    """A resource the client may read next."""

    uri: str
    name: str
    mime_type: str = ""


@dataclass(frozen=True, slots=True)
class DataAsText:
    """The place of the data, as compact JSON, among the other content of a reply."""


Content = str | Image | Link | DataAsText


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """A result whose text or pictures differ from its data. Most tools simply return the data."""

    data: T
    content: tuple[Content, ...] | None = None
    """What the model reads; None means the data as compact JSON."""
    failed: bool = False
    """True when the call worked but what it ran did not (a cell that raised)."""
    max_tokens: int | None = None
    """A larger budget that the caller asked for; capped by the server."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: a function, its effect, and what only its author knows."""

    function: ToolFunction
    effect: Effect
    name: str
    destructive: bool = False
    """A write that loses something which cannot be had back by another call."""
    idempotent: bool = False
    long: bool | str = False
    """May take more than a few seconds: offered as a task to clients that know tasks. A name: only a call that gives this argument."""
    aliases: tuple[str, ...] = ()
    """Older or seed-given names that may be called but are not listed."""
    view: str = ""
    """The `ui://` resource in which a host may show the results to a person."""

    def may_take_long(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments may take more than a few seconds."""
        return self.long in arguments if isinstance(self.long, str) else self.long


def read(
    function: ToolFunction, *, name: str = "", long: bool = False, aliases: tuple[str, ...] = (), view: str = ""
) -> Tool:
    """A tool that changes nothing."""
    return Tool(
        function, Effect.READ, name or function.__name__, idempotent=True, long=long, aliases=aliases, view=view
    )


def write(
    function: ToolFunction,
    *,
    name: str = "",
    destructive: bool = False,
    idempotent: bool = False,
    long: bool | str = False,
    aliases: tuple[str, ...] = (),
) -> Tool:
    """A tool that changes documents or stored things."""
    return Tool(function, Effect.WRITE, name or function.__name__, destructive, idempotent, long, aliases)


def run(
    function: ToolFunction,
    *,
    name: str = "",
    destructive: bool = True,
    long: bool = True,
    aliases: tuple[str, ...] = (),
    view: str = "",
) -> Tool:
    """A tool that executes code: destructive, because nobody knows what the code does, unless it is our own."""
    return Tool(
        function,
        Effect.RUN,
        name or function.__name__,
        destructive,
        idempotent=False,
        long=long,
        aliases=aliases,
        view=view,
    )


@dataclass(frozen=True, slots=True)
class Toolset:
    """Tools that are switched on together. `service` is what their functions take first."""

    name: str
    summary: str
    tools: tuple[Tool, ...]
    service: object = field(default=None, repr=False)
    failure: FailureShape | None = field(default=None, repr=False)
    """How failures of these tools look as data, where their contract has a shape of its own."""
