"""Applies JSON Schemas with jsonschema-rs: offline, with limited regular expressions, all violations and their lines."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jsonschema_rs
from jsonschema_rs import ValidationErrorKind

from cellwright.scratch.validation.checked import Data, Document, Path, is_object, path_text
from cellwright.scratch.validation.doubts import against, in_favour
from cellwright.scratch.validation.model import INLINE_SCHEMA, MAX_DIAGNOSTICS, Diagnostic, shortened
from cellwright.scratch.validation.references import (
    DRAFT_4,
    DRAFT_6,
    DRAFT_7,
    DRAFT_2019,
    DRAFT_2020,
    SHARED,
    Prepared,
    SchemaTooDeep,
    draft_of,
    prepare,
    shared_key,
)

SOURCE = "json-schema"
PATTERN_BYTES = 1 << 20
BACKTRACKS = 100_000
_DRAFTS: dict[str, type[jsonschema_rs.Validator]] = {
    DRAFT_4: jsonschema_rs.Draft4Validator,
    DRAFT_6: jsonschema_rs.Draft6Validator,
    DRAFT_7: jsonschema_rs.Draft7Validator,
    DRAFT_2019: jsonschema_rs.Draft201909Validator,
    DRAFT_2020: jsonschema_rs.Draft202012Validator,
}
_TOO_COSTLY = (ValidationErrorKind.BacktrackLimitExceeded, ValidationErrorKind.RegexEngineFailure)


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcome of applying a schema: its name, the shared schemas that were used, and the findings."""

    schema: str | None = None
    references: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    undecided: bool = False
    """Whether the data may be valid or not: the schema, or a part of it that matters here, could not be applied."""


@dataclass(frozen=True, slots=True)
class _NamedSchema:
    name: str
    schema: Data
    key: str | None = None
    """The key of the shared schema, if it is one."""

    @property
    def reached(self) -> tuple[str, ...]:
        return () if self.key is None else (self.key,)


class _Unusable(Exception):
    """The schema cannot be applied; the findings say why."""

    def __init__(self, *findings: Diagnostic) -> None:
        super().__init__()
        self.findings = findings


def _warning(message: str, path: str = "") -> Diagnostic:
    return Diagnostic("warning", shortened(message), path=path, source=SOURCE)


def _refuse_to_fetch(uri: str) -> Data:
    raise ValueError(uri)


def apply(schema: object, shared: Mapping[str, Any], documents: Sequence[Document]) -> Applied:
    """Check documents against a schema, a reference to a shared one, or the text of one."""
    try:
        named_schema = _find_schema(schema, shared)
        prepared, findings = _prepared(named_schema.schema, shared, named_schema.key)
    except _Unusable as unusable:
        return Applied(diagnostics=unusable.findings, undecided=True)
    references = tuple(dict.fromkeys((*named_schema.reached, *prepared.reached)))
    try:
        violations, undecided = _check_documents(prepared, documents)
    except _Unusable as unusable:
        return Applied(references=references, diagnostics=(*findings, *unusable.findings), undecided=True)
    return Applied(named_schema.name, references, (*findings, *violations), undecided)


def _check_documents(prepared: Prepared, documents: Sequence[Document]) -> tuple[list[Diagnostic], bool]:
    """What is certainly wrong with the documents, and whether more may be wrong that cannot be decided here."""
    lenient = prepared if prepared.is_whole else in_favour(prepared)
    violations = _all_violations(_compiled(lenient), documents)
    undecided = any(finding.severity == "warning" for finding in violations)
    if prepared.is_whole or any(finding.severity == "error" for finding in violations):
        return violations, undecided
    try:
        strict = _compiled(against(prepared))
        return violations, undecided or not all(strict.is_valid(document.data) for document in documents)
    except (ValueError, _Unusable):
        return violations, True


def check_schema(schema: object, shared: Mapping[str, Any]) -> tuple[Diagnostic, ...]:
    """What is wrong with a schema itself: errors if it is no JSON Schema, warnings for parts that are missing here."""
    if not isinstance(schema, dict | bool):
        return (Diagnostic("error", "a JSON Schema is an object, true or false", path="$", source=SOURCE),)
    if draft_of(schema) is None:
        return (_unknown_draft(schema),)
    try:
        prepared, findings = _prepared(schema, shared)
        _compiled(prepared if prepared.is_whole else in_favour(prepared))
    except _Unusable as unusable:
        return tuple(replace(finding, severity="error") for finding in unusable.findings)
    return findings


def _find_schema(schema: object, shared: Mapping[str, Any]) -> _NamedSchema:
    if isinstance(schema, str):
        if schema.startswith(SHARED) or schema in shared:
            return _shared(schema, shared)
        if not schema.lstrip().startswith("{"):
            raise _Unusable(_unresolved(schema, shared))
        try:
            return _NamedSchema(INLINE_SCHEMA, json.loads(schema))
        except (ValueError, RecursionError) as error:
            raise _Unusable(_warning(f"the schema's text is not JSON: {error}; it was not applied")) from None
    if is_object(schema):
        reference = schema.get("$ref")
        # A reference with nothing beside it is the shared schema itself, and the result has its name.
        if isinstance(reference, str) and len(schema) == 1 and reference.startswith(SHARED) and "#" not in reference:
            return _shared(reference, shared)
    elif not isinstance(schema, bool):
        raise _Unusable(_warning("a JSON Schema is an object, true or false; it was not applied"))
    return _NamedSchema(INLINE_SCHEMA, schema)


def _shared(reference: str, shared: Mapping[str, Any]) -> _NamedSchema:
    key = shared_key(reference) or reference
    if "#" in reference:
        return _NamedSchema(key, {"$ref": reference})
    if key not in shared:
        raise _Unusable(_unresolved(reference, shared))
    return _NamedSchema(key, shared[key], key)


def _unresolved(reference: str, shared: Mapping[str, Any]) -> Diagnostic:
    key = shared_key(reference)
    if key is not None and key in shared and draft_of(shared[key]) is None:
        reason = "it cannot be read here"
    elif reference.startswith("#") or (key is not None and key in shared):
        reason = "there is no schema at that place"
    else:
        reason = "it names no shared schema of this pad, and nothing is fetched"
    return _warning(f"unresolved schema reference {reference!r}: {reason}")


def _prepared(
    schema: Data, shared: Mapping[str, Any], key: str | None = None
) -> tuple[Prepared, tuple[Diagnostic, ...]]:
    if draft_of(schema) is None:
        raise _Unusable(_unknown_draft(schema))
    try:
        prepared = prepare(schema, shared, key)
    except (SchemaTooDeep, RecursionError):
        raise _Unusable(_warning("the schema is nested too deeply; it was not applied")) from None
    findings = [_unresolved(reference, shared) for reference in prepared.unresolved]
    findings += [_unknown_draft(shared[name], f" of the shared schema {name!r}") for name in prepared.unknown_drafts]
    findings += [
        _warning(
            f"a part of the schema has a $schema of its own, {draft!r}: it was not applied; put it among the shared schemas and refer to it"
        )
        for draft in prepared.foreign
    ]
    broken = [finding for part in (prepared.root, *prepared.resources.values()) for finding in _meta_violations(part)]
    if broken:
        raise _Unusable(*findings, *broken[:MAX_DIAGNOSTICS])
    return prepared, tuple(findings)


def _unknown_draft(schema: Data, whose: str = "") -> Diagnostic:
    drafts = "draft-04, -06, -07, 2019-09, 2020-12"
    return _warning(f"unknown $schema {schema['$schema']!r}{whose}: it was not applied; known are {drafts}")


@cache
def _meta_schema(draft: str) -> jsonschema_rs.Validator:
    """The meta-schema of this draft. Not `meta.validate`, which fetches a `$schema` that it does not know."""
    return _DRAFTS[draft]({"$schema": draft, "$ref": draft}, offline=True)


def _meta_violations(part: Data) -> Iterator[Diagnostic]:
    try:
        meta_schema = _meta_schema(draft_of(part) or DRAFT_2020)
        for error, _ in zip(meta_schema.iter_errors(part), range(MAX_DIAGNOSTICS), strict=False):
            yield _warning(f"the schema is not a valid JSON Schema: {error.message}", path_text(error.instance_path))
    except ValueError as error:
        yield _warning(f"the schema cannot be read: {error}")


def _compiled(prepared: Prepared) -> jsonschema_rs.Validator:
    try:
        registry = jsonschema_rs.Registry(list(prepared.resources.items()), retriever=_refuse_to_fetch)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise _Unusable(_warning(f"the shared schemas do not fit together: {error}; not applied")) from None
    linear = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES, dfa_size_limit=PATTERN_BYTES)
    # The linear engine has no look-around. The other one has it but backtracks, so it gets a limit.
    backtracking = jsonschema_rs.FancyRegexOptions(BACKTRACKS, PATTERN_BYTES, PATTERN_BYTES)
    problem = ""
    for options in (linear, backtracking):
        try:
            return jsonschema_rs.validator_for(
                prepared.root, registry=registry, pattern_options=options, offline=True, validate_formats=True
            )
        except jsonschema_rs.ValidationError as error:
            problem = error.message
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            problem = str(error)
    raise _Unusable(_warning(f"the schema cannot be used: {problem}; it was not applied"))


def _all_violations(validator: jsonschema_rs.Validator, documents: Sequence[Document]) -> list[Diagnostic]:
    violations: list[Diagnostic] = []
    for number, document in enumerate(documents, 1):
        label = f"document {number}: " if len(documents) > 1 else ""
        violations += _violations(validator, document, label, MAX_DIAGNOSTICS + 1 - len(violations))
    return violations


def _violations(validator: jsonschema_rs.Validator, document: Document, label: str, most: int) -> list[Diagnostic]:
    try:
        # `iter_errors` copies the data for each failed branch of anyOf, so it is not called for valid data.
        if validator.is_valid(document.data):
            return []
        errors = [error for error, _ in zip(validator.iter_errors(document.data), range(most), strict=False)]
    except ValueError as error:
        return [_warning(f"{label}the schema could not be applied to this content: {error}")]
    paths: list[Path] = [tuple(error.instance_path) for error in errors]
    places = document.locate(paths) if paths else {}
    return [
        Diagnostic(
            "warning" if isinstance(error.kind, _TOO_COSTLY) else "error",
            shortened(label + _message(error)),
            *places.get(path, (None, None)),
            path_text(path),
            SOURCE,
        )
        for error, path in zip(errors, paths, strict=True)
    ]


def _message(error: jsonschema_rs.ValidationError) -> str:
    if (
        error.schema_path
        and error.schema_path[-1] == "additionalProperties"
        and not isinstance(error.kind, ValidationErrorKind.AdditionalProperties)
    ):
        return "additional properties are not allowed here"
    return error.message
