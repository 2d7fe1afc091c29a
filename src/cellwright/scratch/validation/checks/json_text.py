"""Checks JSON strictly by RFC 8259. The quick reader comes first; only text with a finding is read again, with positions."""

import json
from collections.abc import Mapping
from decimal import Decimal
from math import isinf
from typing import Any

from cellwright.scratch.validation.checked import Checked, Data, Document, Path, Position, path_text
from cellwright.scratch.validation.checks.json_scan import JsonScan, NotJson, find, scan
from cellwright.scratch.validation.languages import Language
from cellwright.scratch.validation.lines import LineIndex
from cellwright.scratch.validation.model import Diagnostic, Severity, shortened

BYTE_ORDER_MARK = "\ufeff"
INTEGER_DIGITS = 4000
"""Longer integers are kept as decimals: JSON allows them, but Python refuses to convert them."""


class _Unusual(ValueError):
    """Something that has to be read again with positions."""


def _integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) < INTEGER_DIGITS else Decimal(digits)


def _number(digits: str) -> float | Decimal:
    number = float(digits)
    return Decimal(digits) if isinf(number) else number


def _constant(name: str) -> Data:
    raise _Unusual(name)


def check(text: str, _language: Language) -> Checked:
    body = text.removeprefix(BYTE_ORDER_MARK)
    findings: list[Diagnostic] = []
    if body != text:
        findings.append(_finding("warning", "a byte order mark stands before the JSON; many readers refuse it", (1, 1)))
    has_duplicates = False

    def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_duplicates
        members = dict(pairs)
        has_duplicates = has_duplicates or len(members) != len(pairs)
        return members

    try:
        data = json.loads(
            body, object_pairs_hook=build_object, parse_int=_integer, parse_float=_number, parse_constant=_constant
        )
    except (ValueError, RecursionError):
        return _explain_failure(body, findings)
    if not has_duplicates:
        return Checked(tuple(findings), (Document(data, lambda paths: _lines(body, find(body, paths))),))
    findings += _duplicates(body, scan(body))
    return Checked(tuple(findings), (Document(data, lambda paths: _lines(body, scan(body, paths).places)),))


def _explain_failure(body: str, findings: list[Diagnostic]) -> Checked:
    try:
        json_scan = scan(body)
    except NotJson as error:
        position = LineIndex(body).position(error.offset)
        return Checked((*findings, _finding("error", error.message, position)))
    message = f"nested {json_scan.deepest} levels deep: most readers refuse this, and no schema can be applied"
    return Checked((*findings, *_duplicates(body, json_scan), _finding("warning", message, (1, 1))))


def _duplicates(body: str, json_scan: JsonScan) -> list[Diagnostic]:
    lines = LineIndex(body)
    return [
        _finding("warning", f"the key {path[-1]!r} stands twice; the last one counts", lines.position(offset), path)
        for path, offset in json_scan.duplicates
    ]


def _lines(body: str, offsets: Mapping[Path, int]) -> dict[Path, Position]:
    lines = LineIndex(body)
    return {path: lines.position(offset) for path, offset in offsets.items()}


def _finding(severity: Severity, message: str, position: Position, path: Path | None = None) -> Diagnostic:
    place = "" if path is None else path_text(path)
    return Diagnostic(severity, shortened(message), *position, path=place, source="json")
