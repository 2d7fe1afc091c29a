"""What the page needs of the rest: documents to show, and a few facts. Filled in by the program."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from cellwright.core.types import Call

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Thing:
    """A document in the list."""

    kind: str
    uri: str
    title: str
    path: str = ""
    tags: tuple[str, ...] = ()
    changed: str | None = None
    live: bool = False
    people: int = 0
    snippet: str = ""


class Sheet(Protocol):
    """A document at one moment. Nothing here waits, and nothing changes while it is read."""

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


class Held(Protocol):
    """A document that is kept open because somebody looks at it."""

    @property
    def is_open(self) -> bool:
        """False when it must be opened again to hear of its changes."""
        ...

    def people(self) -> list[JsonObject]: ...


class Source(Protocol):
    """The documents of one URI scheme. Looking at one never runs anything."""

    scheme: str
    shared: bool
    """Whether it is the same document to everybody who may read, as opposed to each caller's own."""
    exact: bool
    """Whether a change of a cell is announced under the cell's own URI; otherwise all cells are compared."""

    async def things(self, call: Call) -> tuple[Sequence[Thing], bool]:
        """What there is for this caller, and whether there is more than that."""
        ...

    async def resolve(self, call: Call, uri: str) -> str:
        """The one URI under which changes are announced; InvalidUri or NotFound if it is none."""
        ...

    def hold(self, call: Call, uri: str) -> AbstractAsyncContextManager[Held]: ...

    def open(self, call: Call, uri: str) -> AbstractAsyncContextManager[Sheet]: ...


@dataclass(frozen=True, slots=True)
class Run:
    """Code that runs, or waits for its turn."""

    execution: str
    uri: str | None
    cell: str
    began: str
    state: str

    def as_json(self) -> JsonObject:
        return {
            "execution": self.execution,
            "uri": self.uri,
            "cell": self.cell,
            "began": self.began,
            "state": self.state,
        }


class Facts(Protocol):
    """Everything else that the page tells."""

    def state(self, call: Call) -> Mapping[str, object]: ...

    def running(self, owner: str) -> Sequence[Run]: ...

    async def cancel(self, call: Call, execution: str) -> None: ...

    async def sessions(self, call: Call) -> Sequence[JsonObject]: ...

    async def project(self, call: Call) -> Mapping[str, object]: ...

    def open_documents(self) -> frozenset[str]:
        """The shared documents that are open at this moment."""
        ...

    async def lab(self, call: Call, uri: str) -> str:
        """The address of a notebook in JupyterLab."""
        ...

    async def search(self, call: Call, query: str, limit: int) -> Sequence[Thing]:
        """What has these words in it, best first; in addition to what has them in its title."""
        ...
