"""The status of a part, for `workspace_status` and for people."""

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PartStatus:
    """One part of the workspace: a line about it, and what it runs now."""

    name: str
    state: str
    detail: str = ""
    running: list[str] = field(default_factory=list[str])


class Part(Protocol):
    """Something that has a status. It must answer at once, from memory."""

    def status(self) -> PartStatus: ...
