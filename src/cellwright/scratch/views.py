"""What reading and changing pads give back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
    """Those that the pad shares, where they were asked for."""


@dataclass(frozen=True, slots=True)
class WrittenPad:
    """What a change led to."""

    view: PadView
    touched: frozenset[str] | None = None
    """The cells that the change was about; None if it was about all of them."""
    validation: list[Validation] | None = None
    reset: bool = False
    evicted: tuple[str, ...] = ()
    deleted: Cell | None = None
    """The cell that is not there any more."""


def union(tags: Iterable[Sequence[str]]) -> list[str]:
    """Every tag of any cell."""
    return sorted({tag for some in tags for tag in some})


class PadWords(TypedDict):
    """What a pad's metadata says in its own fields."""

    title: str | None
    description: str | None
    summary: str | None
    namespace: str | None
    tags: list[str]


def canonical(about: PadDraft) -> PadWords:
    return {
        "title": about.title,
        "description": about.description,
        "summary": about.summary,
        "namespace": about.namespace,
        "tags": list(about.tags),
    }
