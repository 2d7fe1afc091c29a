"""Reading cells as a job of a worker process: they may be long, and are anybody's."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, cast

from cellwright.notebook.dependencies.model import CellNames, Later
from cellwright.notebook.dependencies.reading import load, names_of


def read_cells(sources: list[str], language: str) -> Callable[[], dict[str, Any]]:
    """The names of cells in one language, as JSON."""
    load(language)

    def answer() -> dict[str, Any]:
        return {"cells": [_as_json(names_of(source, language)) for source in sources]}

    return answer


def names_from(answer: Mapping[str, Any]) -> list[CellNames]:
    """The names in a job's answer, in the order of the cells."""
    return [_cell(kept) for kept in answer["cells"]]


def _as_json(value: CellNames | Later) -> dict[str, Any]:
    """The fields that are not empty."""
    kept: dict[str, Any] = {}
    for field in fields(value):
        content = getattr(value, field.name)
        if isinstance(content, frozenset):
            kept[field.name] = sorted(content)  # pyright: ignore[reportUnknownArgumentType] - names
        elif field.name == "later":
            kept[field.name] = {name: _as_json(later) for name, later in content.items()}
        elif isinstance(content, Mapping):
            kept[field.name] = {name: sorted(names) for name, names in content.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - names
        else:
            kept[field.name] = content
    return {name: content for name, content in kept.items() if content}


def _cell(kept: Mapping[str, Any]) -> CellNames:
    content = {name: _value(value) for name, value in kept.items() if name != "later"}
    return CellNames(**content, later={name: _later(later) for name, later in kept.get("later", {}).items()})


def _later(kept: Mapping[str, Any]) -> Later:
    return Later(**{name: _value(value) for name, value in kept.items()})


def _value(kept: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(kept, list):
        return frozenset(cast("list[str]", kept))
    if isinstance(kept, Mapping):
        return {name: frozenset(names) for name, names in kept.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - names
    return kept
