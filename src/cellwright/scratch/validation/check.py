"""One cell, checked by what its language needs. Runs in the worker process."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from cellwright.scratch.validation.checked import Checked
from cellwright.scratch.validation.languages import Language, find_language
from cellwright.scratch.validation.model import CellToCheck, Diagnostic, Validation, bounded, status_of

CHECKS = "cellwright.scratch.validation.checks"
SCHEMA = "cellwright.scratch.validation.schema"
BASIC_EXTRA = "validation"
GRAMMARS_EXTRA = "languages"
Check = Callable[[str, Language], Checked]


class NotInstalled(Exception):
    """A package that a check needs is missing."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package)
        self.package = package
        self.extra = extra


def load(language: Language, *, with_schema: bool) -> Check:
    """Import what a check needs, before anything is sealed."""
    extra = GRAMMARS_EXTRA if language.grammars else BASIC_EXTRA
    try:
        module = importlib.import_module(f"{CHECKS}.{language.checker}")
        if language.grammars:
            module.prepare(language)
        if with_schema:
            extra = BASIC_EXTRA
            importlib.import_module(SCHEMA)
    except ModuleNotFoundError as missing:
        raise NotInstalled((missing.name or "").replace("_", "-"), extra) from missing
    return module.check


def not_installed(cell: CellToCheck, missing: NotInstalled) -> Validation:
    message = f"{missing.package} is not installed: pip install 'cellwright[{missing.extra}]' brings it"
    return skipped(cell, message)


def skipped(cell: CellToCheck, message: str) -> Validation:
    language = find_language(cell.language)
    name = language.name if language else cell.language.strip().lower()
    return Validation(cell.id, "skipped", name, (Diagnostic("info", message, source="validator"),))


def failed(cell: CellToCheck, message: str) -> Validation:
    language = find_language(cell.language)
    name = language.name if language else cell.language.strip().lower()
    return Validation(cell.id, "failed", name, (Diagnostic("error", message, source="validator"),))


def check_cell(cell: CellToCheck, language: Language, check: Check, shared: Mapping[str, Any]) -> Validation:
    broken = _broken_text(cell.content)
    if broken is not None:
        return Validation(cell.id, "invalid", language.name, (broken,))
    checked = check(cell.content, language)
    if cell.schema is None:
        return _result(cell, language, checked.diagnostics)
    if not checked.documents:
        return _result(cell, language, (*checked.diagnostics, *_why_no_schema(language, checked)))
    applied = importlib.import_module(SCHEMA).apply(cell.schema, shared, checked.documents)
    found = _result(cell, language, (*checked.diagnostics, *applied.diagnostics))
    return Validation(cell.id, found.status, language.name, found.diagnostics, applied.schema, applied.references)


def _result(cell: CellToCheck, language: Language, diagnostics: tuple[Diagnostic, ...]) -> Validation:
    return Validation(cell.id, status_of(diagnostics), language.name, bounded(diagnostics))


def _why_no_schema(language: Language, checked: Checked) -> tuple[Diagnostic, ...]:
    if status_of(checked.diagnostics) == "invalid":
        return (Diagnostic("info", "the schema was not applied: the content cannot be read", source="json-schema"),)
    message = f"the schema was not applied: {language.name} content holds no data that a JSON Schema could describe"
    if language.checker in {"json_text", "yaml_text", "toml_text"}:
        message = "the schema was not applied: the content is nested too deeply"
    return (Diagnostic("warning", message, source="json-schema"),)


def _broken_text(content: str) -> Diagnostic | None:
    try:
        content.encode()
    except UnicodeEncodeError as wrong:
        line = content.count("\n", 0, wrong.start) + 1
        column = wrong.start - (content.rfind("\n", 0, wrong.start) + 1) + 1
        message = f"half of a character pair (U+{ord(content[wrong.start]):04X}) stands alone; this is not text"
        return Diagnostic("error", message, line, column, source="validator")
    return None
