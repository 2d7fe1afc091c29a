"""How a part says what it is doing, for `workspace_status` and for people."""

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PartStatus:
    """One part of the workspace in a line, and what runs in it now."""

    name: str
    state: str
    detail: str = ""
    running: list[str] = field(default_factory=list[str])


class Part(Protocol):
    """Something that can say how it is. Must answer at once, from memory."""

    def status(self) -> PartStatus: ...
