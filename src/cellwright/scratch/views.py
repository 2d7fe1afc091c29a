"""What reading and changing pads give back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cellwright.scratch.model import Cell, JsonObject, Pad, PadDraft
from cellwright.scratch.validation.model import Validation


@dataclass(frozen=True, slots=True)
class View:
    """A pad, with those of its cells that a reply is about."""

    pad: Pad
    cells: list[Cell]
    cell_tags: list[str]


@dataclass(frozen=True, slots=True)
class Written:
    """What a change led to."""

    view: View
    validation: list[Validation] | None = None
    reset: bool = False
    evicted: tuple[str, ...] = ()


def union(tags: Iterable[Sequence[str]]) -> list[str]:
    """Every tag of any cell."""
    return sorted({tag for some in tags for tag in some})


def canonical(about: PadDraft) -> JsonObject:
    """What a pad's metadata says in its own fields."""
    return {
        "title": about.title,
        "description": about.description,
        "summary": about.summary,
        "namespace": about.namespace,
        "tags": list(about.tags),
    }
