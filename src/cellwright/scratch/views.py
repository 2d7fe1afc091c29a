"""What reading and changing a pad return."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from cellwright.notebook.model import Cell
from cellwright.scratch.model import Pad, PadDraft, SharedSchema
from cellwright.scratch.validation.model import Validation


@dataclass(frozen=True, slots=True)
class PadView:
    """A pad, with those of its cells that a reply is about."""

    pad: Pad
    cells: list[Cell]
    cell_tags: list[str]
    schemas: tuple[SharedSchema, ...] = ()
    """The pad's shared schemas, where they were asked for."""


@dataclass(frozen=True, slots=True)
class WrittenPad:
    """The outcome of a change."""

    view: PadView
    touched: frozenset[str] | None = None
    """The cells that the change was about; None if it was about all of them."""
    validation: list[Validation] | None = None
    reset: bool = False
    evicted: tuple[str, ...] = ()
    deleted: Cell | None = None
    """The cell that was deleted."""
    diff: str = ""
    """What the change did; empty for a new pad, which has nothing before."""
    merged: str = ""
    """The changes of others to the same part that this change was merged with, as a diff; empty if there were none."""


@dataclass(frozen=True, slots=True)
class WrittenSchema:
    """The outcome of a change of a shared schema: the schema as it is, or as it was before it was deleted."""

    schema: SharedSchema
    pad: Pad
    diff: str


def union(tags_of_cells: Iterable[Sequence[str]]) -> list[str]:
    """Every tag of any cell."""
    return sorted({tag for tags in tags_of_cells for tag in tags})


class AboutFields(TypedDict):
    """The parts of a pad's metadata that have fields of their own."""

    title: str | None
    description: str | None
    summary: str | None
    namespace: str | None
    tags: list[str]


def canonical(about: PadDraft) -> AboutFields:
    return {
        "title": about.title,
        "description": about.description,
        "summary": about.summary,
        "namespace": about.namespace,
        "tags": list(about.tags),
    }


def all_words(about: PadDraft) -> dict[str, Any]:
    """The pad's fields and metadata under their names."""
    return {**about.metadata, **canonical(about)}
