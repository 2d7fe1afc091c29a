"""The port that every part with notebooks fills once: what it has, how it is addressed, read, written and looked at.

The page, conversions between parts, keeping, the search over everything and the record of sessions are written against it, once for all
parts.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from cellwright.core.types import Call
from cellwright.notebook.model import Notebook
from cellwright.notebook.places import Findable, Naming

JsonObject = dict[str, Any]
OVERWRITE_HINT = "give another place, or overwrite: true"
"""Where there is something already."""


@dataclass(frozen=True, slots=True)
class Card:
    """A notebook in a list."""

    kind: str
    uri: str
    title: str
    path: str = ""
    tags: tuple[str, ...] = ()
    changed: str | None = None
    live: bool = False
    people: int = 0
    snippet: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """A notebook off its shelf, the address it has there, and in words what of it is not in the notebook."""

    notebook: Notebook
    uri: str
    losses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Put:
    """Where a notebook is now, in words what that shelf does not have of it, and what else to know."""

    path: str
    uri: str
    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Sheet(Protocol):
    """A notebook at one moment. Nothing here waits, and nothing changes while it is read."""

    @property
    def about(self) -> JsonObject:
        """kind, title, language, live, lab, and whatever else stands above the cells."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """The names of all cells in order, each once."""
        ...

    def entry(self, index: int) -> JsonObject:
        """A cell in the outline: kind, lines, first."""
        ...

    def cell(self, index: int) -> JsonObject:
        """A cell: kind, language, source, count, state, revision, and its outputs in nbformat."""
        ...


class HeldNotebook(Protocol):
    """A notebook that is kept open because somebody looks at it."""

    @property
    def is_open(self) -> bool:
        """False when it must be opened again to hear of its changes."""
        ...

    def people(self) -> list[JsonObject]: ...


class Shelf(Findable, Naming, Protocol):
    """The notebooks of one part, under one URI scheme. Nothing here runs any of them."""

    scheme: str
    shape: str
    """What addresses look like, for people."""
    example: str
    """An address where a notebook stays for good; empty if none does."""
    shared: bool
    """Whether a notebook is the same to everybody who may read, as opposed to each caller's own."""
    exact: bool
    """Whether a change of a cell is announced under the cell's own URI; otherwise all cells are compared."""

    def has(self, address: str) -> bool:
        """Whether this is an address of a notebook here, by its shape."""
        ...

    def takes(self, address: str) -> bool:
        """Whether a notebook can be written there, by its shape."""
        ...

    def keeps(self, address: str) -> bool:
        """Whether a notebook stays there for good, as one."""
        ...

    async def cards(self, call: Call) -> tuple[Sequence[Card], bool]:
        """What there is for this caller, and whether there is more than that."""
        ...

    async def resolve(self, call: Call, uri: str) -> str:
        """The one URI under which changes are announced; InvalidUri or NotFound if it is none."""
        ...

    async def read(self, call: Call, address: str, format_name: str | None = None) -> Taken:
        """All of a notebook. `format_name` is for a file whose name does not tell."""
        ...

    async def write(self, call: Call, address: str, notebook: Notebook, *, over: bool = False) -> Put:
        """Write a notebook there. Without `over`, Conflict if there is something already."""
        ...

    def hold(self, call: Call, uri: str) -> AbstractAsyncContextManager[HeldNotebook]:
        """Keep it open as long as somebody looks: then its changes are announced."""
        ...

    def open(self, call: Call, uri: str) -> AbstractAsyncContextManager[Sheet]: ...
