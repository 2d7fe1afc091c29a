"""What the tools of thinking notebooks answer."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from cellwright.notebook.shown import ShownOutput
from cellwright.thinking.reading import ProblemRecord


class NotebookState(TypedDict):
    """The part of every reply. `kernel` is `gone` if cells ran but their variables are lost, `unknown` until something runs."""

    notebookId: str
    sessionId: str
    uri: str
    cellCount: int
    kernel: str
    kernelNote: NotRequired[str]


class CellIdentity(TypedDict):
    id: str
    index: int
    type: str
    language: NotRequired[str]
    filename: NotRequired[str]


class CellLine(CellIdentity):
    """A cell by its id and first line; its author knows the rest."""

    starts: str


class CellSummary(CellLine):
    status: str
    outputs: int


class ThinkingCellReading(CellIdentity):
    """A cell with its source and its outputs."""

    source: str
    status: str
    executionCount: int | None
    outputs: list[ShownOutput]
    truncated: bool
    hiddenCharactersRemoved: NotRequired[int]


class NewNotebook(NotebookState):
    title: str
    pattern: str
    language: str
    createdAt: str
    cells: list[CellLine]


class ImportedNotebook(NewNotebook):
    notes: NotRequired[list[str]]


class WrittenCell(NotebookState):
    cell: CellLine


class CellDeletion(NotebookState):
    deleted: str


class ThinkingReading(NotebookState):
    """One cell, or a line for each."""

    cells: list[ThinkingCellReading] | list[CellSummary]


class NotebookText(NotebookState):
    """The notebook as the text of a file."""

    format: str
    mimeType: str
    contentUri: str
    losses: list[str]
    content: str
    hiddenCharactersRemoved: NotRequired[int]


class KeptNotebook(NotebookState):
    path: str
    keptUri: str
    losses: list[str]


class ClosedNotebook(NotebookState):
    closed: Literal[True]


class RanCell(TypedDict):
    """The status of a cell's run, without its outputs."""

    cellId: str
    status: str
    executionCount: NotRequired[int]
    durationMs: NotRequired[int]
    error: NotRequired[ProblemRecord]
    notes: NotRequired[list[str]]


class RunResult(RanCell):
    outputs: list[ShownOutput]
    truncated: bool


class RunStanding(NotebookState):
    """The status of a run, without the outputs of its cells."""

    executionId: str
    executionUri: str
    status: str
    skipped: NotRequired[list[str]]
    notes: NotRequired[list[str]]
    next: NotRequired[str]


class NotebookRun(RunStanding):
    results: list[RunResult]
