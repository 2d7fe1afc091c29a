"""Results of validation as replies show them: how many cells have which status, then the results, worst first, in pages."""

from collections import Counter
from collections.abc import Sequence
from typing import NotRequired

from typing_extensions import TypedDict

from cellwright.scratch.tools.pages import cost_of, fitting
from cellwright.scratch.validation.model import Diagnostic, Status, Validation

WORST_FIRST = ("invalid", "failed", "undecided", "warning", "valid", "skipped")
RESULTS_TOKENS = 3_800
RESULT_TOKENS = 1_200
"""For the findings of one cell."""
INVALID_NAMED = 50

Placed = tuple[int | None, Validation]
"""The index of a cell, and the result of its validation."""


class Finding(TypedDict):
    message: str
    code: str
    line: int | None
    column: int | None
    path: NotRequired[str]


class AppliedSchema(TypedDict):
    """The schema that a cell was checked against, and all shared schemas that it refers to."""

    schema_applied: str
    schemas: NotRequired[list[str]]


class CheckedCell(TypedDict):
    """The result of one cell in the contract's shape."""

    cell_index: int | None
    cell_id: str
    language: str
    valid: bool | None
    status: Status
    errors: list[Finding]
    warnings: list[Finding]
    findings_left_out: NotRequired[int]
    details: NotRequired[AppliedSchema]


class ValidationPage(TypedDict):
    totals: dict[str, int]
    invalid_cells: list[str]
    results: list[CheckedCell]
    next: NotRequired[int]


class WrittenValidation(TypedDict):
    validation: list[CheckedCell]
    validation_totals: NotRequired[dict[str, int]]
    validation_left_out: NotRequired[int]


def validation_page(results: Sequence[Placed], offset: int, limit: int) -> ValidationPage:
    """One page of results, worst first, with the totals and the ids of invalid cells of all pages."""
    ordered = _worst_first(results)
    checked_cells = fitting([_checked_cell(*placed) for placed in ordered[offset : offset + limit]], RESULTS_TOKENS)
    following = offset + len(checked_cells)
    page: ValidationPage = {
        "totals": _totals(results),
        "invalid_cells": [result.cell_id for _, result in ordered if result.status == "invalid"][:INVALID_NAMED],
        "results": checked_cells,
    }
    if following < len(ordered):
        page["next"] = following
    return page


def written_validation(results: Sequence[Placed]) -> WrittenValidation:
    """The results of cells that were just stored: as many of the worst as fit, and the totals if there are several."""
    checked_cells = fitting([_checked_cell(*placed) for placed in _worst_first(results)], RESULTS_TOKENS)
    reply: WrittenValidation = {"validation": checked_cells}
    if len(results) > 1:
        reply["validation_totals"] = _totals(results)
    if len(checked_cells) < len(results):
        reply["validation_left_out"] = len(results) - len(checked_cells)
    return reply


def _worst_first(results: Sequence[Placed]) -> list[Placed]:
    return sorted(results, key=lambda placed: WORST_FIRST.index(placed[1].status))


def _totals(results: Sequence[Placed]) -> dict[str, int]:
    """The number of all cells, and of those with each status."""
    counts = Counter(result.status for _, result in results)
    return {"cells": len(results), **{status: counts[status] for status in WORST_FIRST}}


def _checked_cell(index: int | None, result: Validation) -> CheckedCell:
    """One result, with as many findings as fit, errors first."""
    diagnostics = sorted(result.diagnostics, key=lambda diagnostic: diagnostic.severity != "error")
    findings = fitting([_finding(diagnostic) for diagnostic in diagnostics], RESULT_TOKENS)
    errors = sum(diagnostic.severity == "error" for diagnostic in diagnostics)
    checked_cell: CheckedCell = {
        "cell_index": index,
        "cell_id": result.cell_id,
        "language": result.language,
        "valid": result.valid,
        "status": result.status,
        "errors": findings[:errors],
        "warnings": findings[errors:],
    }
    if len(findings) < len(diagnostics):
        checked_cell["findings_left_out"] = len(diagnostics) - len(findings)
    if result.schema is not None:
        details: AppliedSchema = {"schema_applied": result.schema, "schemas": list(result.references)}
        checked_cell["details"] = details if cost_of(details) <= RESULT_TOKENS else {"schema_applied": result.schema}
    return checked_cell


def _finding(diagnostic: Diagnostic) -> Finding:
    finding: Finding = {
        "message": diagnostic.message,
        "code": diagnostic.source,
        "line": diagnostic.line,
        "column": diagnostic.column,
    }
    if diagnostic.path:
        finding["path"] = diagnostic.path
    return finding
