"""A stored notebook as people look at it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cellwright.notebook.shelf import JsonObject

MOST_SOURCE = 200_000
FIRST_CHARACTERS = 120
LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class HeldRow:
    """A stored notebook, which need not be kept open."""

    is_open: bool = True

    def people(self) -> list[JsonObject]:
        return []


@dataclass(frozen=True, slots=True)
class StoredSheet:
    """A notebook whose cells are all at hand."""

    about: JsonObject
    cells: Sequence[JsonObject]
    names: Sequence[str] = field(default_factory=list[str])

    def entry(self, index: int) -> JsonObject:
        cell = self.cells[index]
        first = next(iter(str(cell["source"]).strip()[:FIRST_CHARACTERS].splitlines()), "")
        lines = cell["source"].count("\n") + 1 if cell["source"] else 0
        return {"kind": cell["kind"], "lines": lines, "first": first}

    def cell(self, index: int) -> JsonObject:
        return self.cells[index]


def moment(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat(timespec="seconds")
