"""One cell, checked by what its language needs. Runs in the worker process."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from cellwright.core.installation import this_installation
from cellwright.scratch.validation.checked import Checked
from cellwright.scratch.validation.languages import Language, find_language
from cellwright.scratch.validation.model import CellToCheck, Diagnostic, Validation, bounded, status_of

CHECKS = "cellwright.scratch.validation.checks"
SCHEMA = "cellwright.scratch.validation.schema"
GRAMMARS_EXTRA = "languages"
Check = Callable[[str, Language], Checked]


class NotInstalled(Exception):
    """A package that a check needs is missing; `remedy` is the command that brings it."""

    def __init__(self, missing: ModuleNotFoundError, remedy: str) -> None:
        package = (missing.name or "").replace("_", "-")
        super().__init__(f"{package} is not installed: {remedy} brings it")


def load(language: Language, *, with_schema: bool) -> Check:
    """Import what a check needs, before anything is sealed."""
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
    """What knows JSON Schema."""
    try:
        return importlib.import_module(SCHEMA)
    except ModuleNotFoundError as missing:
        raise NotInstalled(missing, this_installation().mend()) from missing


def not_installed(cell: CellToCheck, missing: NotInstalled) -> Validation:
    return skipped(cell, str(missing))


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
        found = _result(cell, language, (*checked.diagnostics, *_why_no_schema(language, checked)))
        return replace(found, status="undecided") if _holds_data(language) and found.status != "invalid" else found
    applied = importlib.import_module(SCHEMA).apply(cell.schema, shared, checked.documents)
    found = _result(cell, language, (*checked.diagnostics, *applied.diagnostics))
    status = "undecided" if applied.undecided and found.status != "invalid" else found.status
    return Validation(cell.id, status, language.name, found.diagnostics, applied.schema, applied.references)


def _result(cell: CellToCheck, language: Language, diagnostics: tuple[Diagnostic, ...]) -> Validation:
    return Validation(cell.id, status_of(diagnostics), language.name, bounded(diagnostics))


def _why_no_schema(language: Language, checked: Checked) -> tuple[Diagnostic, ...]:
    if status_of(checked.diagnostics) == "invalid":
        return (Diagnostic("info", "the schema was not applied: the content cannot be read", source="json-schema"),)
    message = f"the schema was not applied: {language.name} content holds no data that a JSON Schema could describe"
    if _holds_data(language):
        message = "the schema was not applied: the content is nested too deeply"
    return (Diagnostic("warning", message, source="json-schema"),)


def _holds_data(language: Language) -> bool:
    return language.checker in {"json_text", "yaml_text", "toml_text"}


def _broken_text(content: str) -> Diagnostic | None:
    try:
        content.encode()
    except UnicodeEncodeError as wrong:
        line = content.count("\n", 0, wrong.start) + 1
        column = wrong.start - (content.rfind("\n", 0, wrong.start) + 1) + 1
        message = f"half of a character pair (U+{ord(content[wrong.start]):04X}) stands alone; this is not text"
        return Diagnostic("error", message, line, column, source="validator")
    return None
