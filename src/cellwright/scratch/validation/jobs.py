"""What a worker process does for validation. The schemas that all cells of a call share are told once."""

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
    """The shared schemas of the cells to come."""
    _shared.clear()
    _shared.update(schemas)


def cell(content: str, **fields: Any) -> Callable[[], dict[str, Any]]:  # noqa: ANN401 - the fields of CellToCheck
    """The findings of one cell."""
    wanted = CellToCheck(content=content, **fields)
    language = find_language(wanted.language)
    assert language is not None, "the caller asks for languages that have a validator"
    try:
        check = load(language, with_schema=wanted.schema is not None)
    except NotInstalled as missing:
        finding = not_installed(wanted, missing)
        return lambda: asdict(finding)

    def work() -> dict[str, Any]:
        try:
            found: Validation = check_cell(wanted, language, check, _shared)
        except RecursionError:
            found = failed(wanted, "it is nested too deeply to be checked")
        return asdict(found)

    return work


def schema(definition: object) -> Callable[[], list[dict[str, Any]]]:
    """What is wrong with a schema."""
    try:
        engine = load_schema_engine()
    except NotInstalled as missing:
        warning = Diagnostic("warning", str(missing), source="validator")
        return lambda: [asdict(warning)]
    return lambda: [asdict(finding) for finding in engine.check_schema(definition, _shared)]
