"""Running code, for parts that do not know what runs it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from cellwright.core.errors import CellwrightError
from cellwright.core.toolset import Image
from cellwright.core.types import Call, ReportProgress
from cellwright.notebook.shown import ShownOutput

JsonObject = dict[str, Any]


class NoKernel(CellwrightError):
    code = "NO_KERNEL"
    meaning = "No kernel for this language is installed where code runs; the hint says how to get one."


class RunStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    ERROR = "error"
    """The code raised, or its result was lost."""
    INTERRUPTED = "interrupted"
    DIED = "died"
    """The kernel died or was restarted under it."""
    NOT_RUN = "not_run"

    @property
    def ended(self) -> bool:
        return self not in (RunStatus.QUEUED, RunStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class CodeToRun:
    cell_id: str
    code: str


@dataclass(frozen=True, slots=True)
class RunProblem:
    """Why a cell did not end well: the kernel's own words, or one of our error codes."""

    name: str
    value: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """One cell of a run, as it was at one moment. Outputs are those of nbformat."""

    cell_id: str
    status: RunStatus
    outputs: tuple[JsonObject, ...] = ()
    execution_count: int | None = None
    problem: RunProblem | None = None
    started: datetime | None = None
    ended: datetime | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as it was at one moment."""

    id: str
    status: RunStatus
    cells: tuple[CellOutcome, ...]
    created: datetime
    started: datetime | None = None
    ended: datetime | None = None
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return self.status.ended and self.status is not RunStatus.DONE


class Run(Protocol):
    """Cells that were asked to run together, in order, until one fails. It outlives the request that asked for it."""

    @property
    def id(self) -> str: ...

    @property
    def ended(self) -> bool: ...

    @property
    def mark(self) -> object:
        """A value that is cheap to get and differs once the run has got further."""
        ...

    def view(self) -> RunView: ...

    async def wait(self, seconds: float, report: ReportProgress | None = None) -> RunView:
        """Wait for its end, at most this long. Ending the wait does not end the run."""
        ...

    async def cancel(self) -> RunView:
        """Interrupt it, or take it from the queue, and wait a little for its end."""
        ...


@dataclass(frozen=True, slots=True)
class ShownOutputs:
    """Outputs as a model reads them: cleaned, cut, and with the pictures apart."""

    outputs: list[ShownOutput]
    pictures: list[Image]
    truncated: bool
    hidden: int
    """How many hidden characters were removed."""


class Kernels(Protocol):
    """Kernels that belong to no file."""

    async def start(self, call: Call, language: str) -> str:
        """Start a kernel for this language and return its id; NoKernel if none is installed."""
        ...

    async def alive(self, call: Call, kernel_id: str) -> bool: ...

    async def submit(self, call: Call, kernel_id: str, cells: Sequence[CodeToRun]) -> Run: ...

    async def shut_down(self, kernel_id: str) -> None:
        """End a kernel if it can be reached. Never raises, and starts nothing to reach it."""
        ...

    async def show(
        self,
        call: Call,
        outputs: Sequence[Mapping[str, Any]],
        characters: int,
        pictures: int,
        links: Sequence[str] = (),
    ) -> ShownOutputs:
        """At most `characters` of each output, and at most `pictures` pictures. `links` are the addresses of outputs that have one."""
        ...
