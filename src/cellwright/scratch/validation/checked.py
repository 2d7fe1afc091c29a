"""What a check of content returns: findings, and the data in the content with a way to find the line of any part of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from cellwright.scratch.validation.model import Diagnostic

Data = Any
"""What JSON, YAML or TOML can hold: dicts with text keys, lists, text, numbers, booleans, None."""
Path = tuple[str | int, ...]
Position = tuple[int, int]
Locate = Callable[[Sequence[Path]], dict[Path, Position]]
"""From paths in the data to line and column, both from 1; paths without a place of their own are left out."""


def is_object(data: object) -> TypeGuard[dict[str, Any]]:
    """Whether this data is a JSON object, whose keys are texts."""
    return isinstance(data, dict)


def is_list(data: object) -> TypeGuard[list[Any]]:
    return isinstance(data, list)


def nowhere(_paths: Sequence[Path]) -> dict[Path, Position]:
    return {}


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data that a schema can be applied to."""

    data: Data
    locate: Locate = nowhere


@dataclass(frozen=True, slots=True)
class Checked:
    diagnostics: tuple[Diagnostic, ...] = ()
    documents: tuple[Document, ...] = field(default=())


def path_text(path: Sequence[str | int]) -> str:
    """A path as people write it: `$.items[0]['odd key']`."""
    parts = ["$"]
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        else:
            parts.append(f".{step}" if step.isidentifier() else f"[{step!r}]")
    return "".join(parts)
