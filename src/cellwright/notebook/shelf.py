"""The port that every part with notebooks implements: what it has, how it is addressed, read, written and looked at.

The page, conversions between parts, keeping, the search over everything and the record of sessions use this port alone, so that they work
for all parts.
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
"""The hint where a place is not free."""


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
    """A notebook read from its shelf, its address there, and sentences that say what was lost on the way."""

    notebook: Notebook
    uri: str
    losses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Put:
    """Where a notebook was written, sentences that say what the shelf cannot keep of it, and other notes."""

    path: str
    uri: str
    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Sheet(Protocol):
    """A notebook at one moment. Nothing here waits, and nothing changes while it is read."""

    @property
    def about(self) -> JsonObject:
        """kind, title, language, live, lab, and whatever else is shown above the cells."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """The names of all cells in order, without duplicates."""
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
        """False if it must be opened again before its changes can be heard."""
        ...

    def people(self) -> list[JsonObject]: ...


class Shelf(Findable, Naming, Protocol):
    """The notebooks of one part, under one URI scheme. Nothing here runs any of them."""

    scheme: str
    shape: str
    """The shape of addresses, for people."""
    example: str
    """An example of an address where a notebook stays for good; empty if there is none."""
    shared: bool
    """Whether everybody who may read sees the same notebooks, as opposed to each caller their own."""
    exact: bool
    """Whether a change of a cell is announced under the cell's own URI. If not, all cells are compared."""

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
        """The notebooks that this caller has, and whether there are more than these."""
        ...

    async def resolve(self, call: Call, uri: str) -> str:
        """The canonical URI, under which changes are announced; InvalidUri or NotFound if there is none."""
        ...

    async def read(self, call: Call, address: str, format_name: str | None = None) -> Taken:
        """Read a whole notebook. `format_name` is for a file whose name does not tell its format."""
        ...

    async def write(self, call: Call, address: str, notebook: Notebook, *, over: bool = False) -> Put:
        """Write a notebook there. Without `over`, Conflict if there is something already."""
        ...

    def hold(self, call: Call, uri: str) -> AbstractAsyncContextManager[HeldNotebook]:
        """Keep it open as long as somebody looks at it, so that its changes are announced."""
        ...

    def open(self, call: Call, uri: str) -> AbstractAsyncContextManager[Sheet]: ...
