"""JSON, strictly as RFC 8259 has it. Quick where all is well; read again with positions where something has to be said."""

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
"""Longer integers are kept as decimals: Python refuses to convert them, and JSON does not."""


class _Unusual(ValueError):
    """Something that has to be looked at with positions."""


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
    repeated = False

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        made = dict(found)
        repeated = repeated or len(made) != len(found)
        return made

    try:
        data = json.loads(
            body, object_pairs_hook=pairs, parse_int=_integer, parse_float=_number, parse_constant=_constant
        )
    except (ValueError, RecursionError):
        return _explained(body, findings)
    if not repeated:
        return Checked(tuple(findings), (Document(data, lambda paths: _lines(body, find(body, paths))),))
    findings += _duplicates(body, scan(body))
    return Checked(tuple(findings), (Document(data, lambda paths: _lines(body, scan(body, paths).places)),))


def _explained(body: str, findings: list[Diagnostic]) -> Checked:
    try:
        seen = scan(body)
    except NotJson as wrong:
        where = LineIndex(body).position(wrong.offset)
        return Checked((*findings, _finding("error", wrong.message, where)))
    message = f"nested {seen.deepest} levels deep: most readers refuse this, and no schema can be applied"
    return Checked((*findings, *_duplicates(body, seen), _finding("warning", message, (1, 1))))


def _duplicates(body: str, seen: JsonScan) -> list[Diagnostic]:
    lines = LineIndex(body)
    return [
        _finding("warning", f"the key {path[-1]!r} stands twice; the last one counts", lines.position(offset), path)
        for path, offset in seen.duplicates
    ]


def _lines(body: str, offsets: Mapping[Path, int]) -> dict[Path, Position]:
    lines = LineIndex(body)
    return {path: lines.position(offset) for path, offset in offsets.items()}


def _finding(severity: Severity, message: str, where: Position, path: Path | None = None) -> Diagnostic:
    place = "" if path is None else path_text(path)
    return Diagnostic(severity, shortened(message), *where, path=place, source="json")
