"""What validation found, as replies show it: how many of each kind, the worst first, in pages."""

from collections import Counter
from collections.abc import Sequence
from typing import NotRequired

from typing_extensions import TypedDict

from cellwright.scratch.tools.pages import cost_of, fitting
from cellwright.scratch.validation.model import Diagnostic, Status, Validation

WORST_FIRST = ("invalid", "failed", "undecided", "warning", "valid", "skipped")
RESULTS_TOKENS = 3_800
RESULT_TOKENS = 1_200
"""For one cell of many findings."""
INVALID_NAMED = 50

Placed = tuple[int | None, Validation]
"""A result, and where its cell is."""


class Finding(TypedDict):
    message: str
    code: str
    line: int | None
    column: int | None
    path: NotRequired[str]


class AppliedSchema(TypedDict):
    """The schema that a cell was checked against, and every shared one that took part."""

    schema_applied: str
    schemas: NotRequired[list[str]]


class CheckedCell(TypedDict):
    """One result in the contract's shape."""

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
    """One page of results, worst first; the totals and the names of the invalid cells are of all of them."""
    ordered = _worst_first(results)
    shown = fitting([_result(found, index) for index, found in ordered[offset : offset + limit]], RESULTS_TOKENS)
    following = offset + len(shown)
    page: ValidationPage = {
        "totals": _totals(results),
        "invalid_cells": [found.cell_id for _, found in ordered if found.status == "invalid"][:INVALID_NAMED],
        "results": shown,
    }
    if following < len(ordered):
        page["next"] = following
    return page


def written_validation(results: Sequence[Placed]) -> WrittenValidation:
    """What was found in cells that were just stored; of many the worst, with the totals of all."""
    shown = fitting([_result(found, index) for index, found in _worst_first(results)], RESULTS_TOKENS)
    reply: WrittenValidation = {"validation": shown}
    if len(results) > 1:
        reply["validation_totals"] = _totals(results)
    if len(shown) < len(results):
        reply["validation_left_out"] = len(results) - len(shown)
    return reply


def _worst_first(results: Sequence[Placed]) -> list[Placed]:
    return sorted(results, key=lambda placed: WORST_FIRST.index(placed[1].status))


def _totals(results: Sequence[Placed]) -> dict[str, int]:
    """How many cells there are of each status; together they are all of them."""
    counts = Counter(found.status for _, found in results)
    return {"cells": len(results), **{status: counts[status] for status in WORST_FIRST}}


def _result(found: Validation, index: int | None) -> CheckedCell:
    """One result, with as many findings as fit, errors first."""
    findings = sorted(found.diagnostics, key=lambda one: one.severity != "error")
    kept = findings[: len(fitting([_finding(one) for one in findings], RESULT_TOKENS))]
    shown: CheckedCell = {
        "cell_index": index,
        "cell_id": found.cell_id,
        "language": found.language,
        "valid": found.valid,
        "status": found.status,
        "errors": [_finding(one) for one in kept if one.severity == "error"],
        "warnings": [_finding(one) for one in kept if one.severity != "error"],
    }
    if len(kept) < len(findings):
        shown["findings_left_out"] = len(findings) - len(kept)
    if found.schema is not None:
        details: AppliedSchema = {"schema_applied": found.schema, "schemas": list(found.references)}
        shown["details"] = details if cost_of(details) <= RESULT_TOKENS else {"schema_applied": found.schema}
    return shown


def _finding(found: Diagnostic) -> Finding:
    shown: Finding = {"message": found.message, "code": found.source, "line": found.line, "column": found.column}
    if found.path:
        shown["path"] = found.path
    return shown
