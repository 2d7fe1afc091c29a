"""The jobs of a worker process for validation. The schemas that all cells of a call share are sent once."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from cellwright.scratch.validation.check import (
    NotInstalled,
    check_cell,
    failed,
    load,
    load_schema_engine,
    not_installed,
)
from cellwright.scratch.validation.languages import find_language
from cellwright.scratch.validation.model import CellToCheck, Diagnostic, Validation

_shared: dict[str, Any] = {}


def remember(schemas: Mapping[str, Any]) -> None:
    """Remember the shared schemas for the cells that follow."""
    _shared.clear()
    _shared.update(schemas)


def cell(content: str, **fields: Any) -> Callable[[], dict[str, Any]]:  # noqa: ANN401 - the fields of CellToCheck
    """The findings of one cell."""
    to_check = CellToCheck(content=content, **fields)
    language = find_language(to_check.language)
    assert language is not None, "the caller asks for languages that have a validator"
    try:
        check = load(language, with_schema=to_check.schema is not None)
    except NotInstalled as missing:
        skipped = not_installed(to_check, missing)
        return lambda: asdict(skipped)

    def work() -> dict[str, Any]:
        try:
            result: Validation = check_cell(to_check, language, check, _shared)
        except RecursionError:
            result = failed(to_check, "it is nested too deeply to be checked")
        return asdict(result)

    return work


def schema(definition: object) -> Callable[[], list[dict[str, Any]]]:
    """What is wrong with a schema."""
    try:
        engine = load_schema_engine()
    except NotInstalled as missing:
        warning = Diagnostic("warning", str(missing), source="validator")
        return lambda: [asdict(warning)]
    return lambda: [asdict(finding) for finding in engine.check_schema(definition, _shared)]
