"""The facts that the page needs besides the shelves with its notebooks. The program implements them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict

from cellwright.core.types import Call
from cellwright.notebook.shelf import Card


class RunEntry(TypedDict):
    execution: str
    uri: str | None
    cell: str
    began: str
    state: str


class TouchedEntry(TypedDict):
    kind: str
    path: str
    uri: str


class SessionEntry(TypedDict):
    id: str
    status: str
    client: str
    began: str
    last: str
    calls: int
    failures: int
    discoveries: int
    topics: list[str]
    touched: list[TouchedEntry]


class CellMark(TypedDict):
    """The state of a code cell in a word, and why it is not fresh."""

    state: str
    because: str


@dataclass(frozen=True, slots=True)
class ShownStates:
    """The states of a notebook's code cells, by the names that the cells have on the page, and what they mean together."""

    cells: Mapping[str, CellMark]
    about: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class RunningCode:
    """Code that runs, or waits for its turn."""

    execution: str
    uri: str | None
    cell: str
    began: str
    state: str

    def as_json(self) -> RunEntry:
        return {
            "execution": self.execution,
            "uri": self.uri,
            "cell": self.cell,
            "began": self.began,
            "state": self.state,
        }


class Facts(Protocol):
    """Everything that the page shows besides notebooks."""

    def state(self, call: Call) -> Mapping[str, object]: ...

    def running(self, owner: str) -> Sequence[RunningCode]: ...

    async def cancel(self, call: Call, execution: str) -> None: ...

    async def sessions(self, call: Call) -> Sequence[SessionEntry]: ...

    async def project(self, call: Call) -> Mapping[str, object]: ...

    def open_documents(self) -> frozenset[str]:
        """The shared documents that are open at this moment."""
        ...

    async def lab(self, call: Call, uri: str) -> str:
        """The address of a notebook in JupyterLab."""
        ...

    async def variables(self, call: Call, uri: str, name: str) -> Mapping[str, object]:
        """What the notebook's running kernel holds: rows of all variables, or the depth of one. Starts no kernel."""
        ...

    async def states(self, call: Call, uri: str) -> ShownStates | None:
        """The states of a notebook's code cells as they are now; None for what has no kernel, or while they are worked out. Starts none."""
        ...

    async def graph(self, call: Call, uri: str, cell: str) -> Mapping[str, object]:
        """Which code cells use names from which others: of all, or, if there are very many, of those that have to do with `cell`."""
        ...

    async def search(self, call: Call, query: str, limit: int) -> Sequence[Card]:
        """What contains these words, best first. The page itself finds what has them in its title."""
        ...
