"""Resources: what clients can read and watch, by URI."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from cellwright.core.types import Call

NOTEBOOK_VIEW = "ui://cellwright/notebook"
"""The view in which a host may show notebooks to a person, in addition to what a tool returns to the model."""
VIEW_MIME = "text/html;profile=mcp-app"


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """A resource in a list."""

    uri: str
    name: str
    description: str = ""
    mime_type: str = "text/plain"
    meta: dict[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class ResourceTemplate:
    """A family of resources, as an RFC 6570 template."""

    uri_template: str
    name: str
    description: str = ""
    mime_type: str = "text/plain"


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a resource: text or bytes, with metadata for the client."""

    body: str | bytes
    mime_type: str
    meta: dict[str, object] = field(default_factory=dict[str, object])


class Resources(Protocol):
    """The resources of one URI scheme. Every method gets the caller, and answers only with what that caller may see."""

    scheme: str

    def templates(self) -> Sequence[ResourceTemplate]:
        """The templates of this scheme; they never depend on the caller."""
        ...

    async def list(self, call: Call) -> Sequence[ResourceInfo]:
        """The resources that this caller can read now."""
        ...

    async def read(self, call: Call, uri: str) -> Sequence[Content]:
        """The contents. NotFound is the same for what does not exist and for what belongs to another caller."""
        ...

    async def watch(self, call: Call, uri: str) -> AbstractAsyncContextManager[object] | None:
        """A context to hold open while this caller watches `uri`; None if the caller may not watch it."""
        ...

    async def complete(self, call: Call, template: str, argument: str, prefix: str) -> Sequence[str]:
        """Values that begin with `prefix` for one variable of a template; other variables may be filled in already."""
        ...


@dataclass(frozen=True, slots=True)
class ResourceUpdated:
    """A resource has new contents. `principal_id` says whose, if the same URI means something else for each caller."""

    uri: str
    principal_id: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceListChanged:
    """Resources were added or removed. `principal_id` says whose; None means everybody's."""

    principal_id: str | None = None


Change = ResourceUpdated | ResourceListChanged


class Changes:
    """Where parts announce changes and the server listens. Announcing never waits and never fails."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Change], None]] = []

    def publish(self, change: Change) -> None:
        for listener in tuple(self._listeners):
            listener(change)

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call `listener` with every change, on the publisher's loop, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None
