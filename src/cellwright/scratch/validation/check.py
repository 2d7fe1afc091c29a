"""Checks one cell with the check of its language. Runs in the worker process."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from cellwright.core.installation import this_installation
from cellwright.scratch.validation.checked import Checked
from cellwright.scratch.validation.languages import Language, canonical_language
from cellwright.scratch.validation.model import CellToCheck, Diagnostic, Validation, bounded, status_of

CHECKS = "cellwright.scratch.validation.checks"
SCHEMA = "cellwright.scratch.validation.schema"
GRAMMARS_EXTRA = "languages"
Check = Callable[[str, Language], Checked]


class NotInstalled(Exception):
    """A package that a check needs is missing; `remedy` is the command that installs it."""

    def __init__(self, missing: ModuleNotFoundError, remedy: str) -> None:
        package = (missing.name or "").replace("_", "-")
        super().__init__(f"{package} is not installed: {remedy} brings it")


def load(language: Language, *, with_schema: bool) -> Check:
    """Import what a check needs, while the worker process may still open files."""
    try:
        module = importlib.import_module(f"{CHECKS}.{language.checker}")
        if language.grammars:
            module.prepare(language)
    except ModuleNotFoundError as missing:
        installation = this_installation()
        raise NotInstalled(
            missing, installation.add(GRAMMARS_EXTRA) if language.grammars else installation.mend()
        ) from missing
    if with_schema:
        load_schema_engine()
    return module.check


def load_schema_engine() -> ModuleType:
    """Import the module that applies JSON Schemas."""
    try:
        return importlib.import_module(SCHEMA)
    except ModuleNotFoundError as missing:
        raise NotInstalled(missing, this_installation().mend()) from missing


def not_installed(cell: CellToCheck, missing: NotInstalled) -> Validation:
    return skipped(cell, str(missing))


def skipped(cell: CellToCheck, message: str) -> Validation:
    diagnostic = Diagnostic("info", message, source="validator")
    return Validation(cell.id, "skipped", canonical_language(cell.language), (diagnostic,))


def failed(cell: CellToCheck, message: str) -> Validation:
    diagnostic = Diagnostic("error", message, source="validator")
    return Validation(cell.id, "failed", canonical_language(cell.language), (diagnostic,))


def check_cell(cell: CellToCheck, language: Language, check: Check, shared: Mapping[str, Any]) -> Validation:
    lone_surrogate = _lone_surrogate(cell.content)
    if lone_surrogate is not None:
        return Validation(cell.id, "invalid", language.name, (lone_surrogate,))
    checked = check(cell.content, language)
    if cell.schema is None:
        return _result(cell, language, checked.diagnostics)
    if not checked.documents:
        result = _result(cell, language, (*checked.diagnostics, _schema_not_applied(language, checked)))
        return replace(result, status="undecided") if _holds_data(language) and result.status != "invalid" else result
    applied = importlib.import_module(SCHEMA).apply(cell.schema, shared, checked.documents)
    result = _result(cell, language, (*checked.diagnostics, *applied.diagnostics))
    status = "undecided" if applied.undecided and result.status != "invalid" else result.status
    return replace(result, status=status, schema=applied.schema, references=applied.references)


def _result(cell: CellToCheck, language: Language, diagnostics: tuple[Diagnostic, ...]) -> Validation:
    return Validation(cell.id, status_of(diagnostics), language.name, bounded(diagnostics))


def _schema_not_applied(language: Language, checked: Checked) -> Diagnostic:
    """Why there is no data to apply the schema to."""
    if status_of(checked.diagnostics) == "invalid":
        return Diagnostic("info", "the schema was not applied: the content cannot be read", source="json-schema")
    message = f"the schema was not applied: {language.name} content holds no data that a JSON Schema could describe"
    if _holds_data(language):
        message = "the schema was not applied: the content is nested too deeply"
    return Diagnostic("warning", message, source="json-schema")


def _holds_data(language: Language) -> bool:
    return language.checker in {"json_text", "yaml_text", "toml_text"}


def _lone_surrogate(content: str) -> Diagnostic | None:
    try:
        content.encode()
    except UnicodeEncodeError as error:
        line = content.count("\n", 0, error.start) + 1
        column = error.start - (content.rfind("\n", 0, error.start) + 1) + 1
        message = f"half of a character pair (U+{ord(content[error.start]):04X}) stands alone; this is not text"
        return Diagnostic("error", message, line, column, source="validator")
    return None
