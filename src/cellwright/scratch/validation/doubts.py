"""Decides whether data is valid by a schema of which a part is missing.

The missing part may say anything. So the schema is built twice: once with every doubt in favour of the data, once against it.
What the first refuses is invalid whatever the missing part says; what the second accepts is valid whatever it says; all else is
undecided. A missing part under `allOf`, `properties` and the like is replaced by true or false. Under a keyword that can reverse
it (`not`, `oneOf`, `if`, `contains` with a maximum, `unevaluated…`) it could work either way, so the whole keyword is in doubt.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from cellwright.scratch.validation.checked import Data, is_list, is_object
from cellwright.scratch.validation.references import (
    ALONE,
    BY_NAME,
    META_SCHEMAS,
    NOT_SCHEMAS,
    REFERENCES,
    UNRESOLVED,
    Prepared,
    at_pointer,
    draft_of,
    subschemas,
)

UNEVALUATED = frozenset(("unevaluatedItems", "unevaluatedProperties"))
IN_PLACE = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"))
"""Keywords whose schemas apply to the same data, and so decide which of its parts count as evaluated."""
INSIDE = frozenset(
    (
        "additionalItems",
        "additionalProperties",
        "items",
        "patternProperties",
        "prefixItems",
        "properties",
        "propertyNames",
        *UNEVALUATED,
    )
)
REVERSING = frozenset(("not", "oneOf", "if"))
EVALUATING_IF_VALID = frozenset(("anyOf", "oneOf", "if", "contains"))
CONTAINS = frozenset(("contains", "minContains", "maxContains"))
STRUCTURE = frozenset(("$schema", "$id", "id", "$defs", "definitions"))
Json = dict[str, Any]
NO_DOUBT: Json = {"type": []}
"""Stands for any schema without a missing part."""


def in_favour(prepared: Prepared) -> Prepared:
    """The schema that refuses only what is invalid whatever the missing part says."""
    return _bounded(prepared, accept=True)


def against(prepared: Prepared) -> Prepared:
    """The schema that accepts only what is valid whatever the missing part says."""
    return _bounded(prepared, accept=False)


def _bounded(prepared: Prepared, *, accept: bool) -> Prepared:
    doubts = _Doubts({"": prepared.root, **prepared.resources})

    def bounded(part: Data) -> Data:
        return doubts.bounded(part, draft_of(part), accept=accept)

    resources = {address: bounded(part) for address, part in prepared.resources.items()}
    return Prepared(bounded(prepared.root), resources, prepared.reached, prepared.unresolved)


class _Doubts:
    """Which of these schemas lead to a missing part in any way. `parts` are schemas by their addresses."""

    def __init__(self, parts: Mapping[str, Data]) -> None:
        self._parts = {address: part for address, part in parts.items() if is_object(part)}
        self._schemas = {address: list(_schemas(part)) for address, part in self._parts.items()}
        self._plain = {address for address, schemas in self._schemas.items() if not _has_ids(schemas[1:])}
        """Addresses of parts in which every pointer starts at the top, because nothing inside has an id."""
        every = [schema for schemas in self._schemas.values() for schema in schemas]
        holes = {id(schema) for schema in every if UNRESOLVED in schema}
        self._reaching = self._leading(holes, IN_PLACE | INSIDE | {"contains"})
        # What such a schema evaluates depends on whether a schema under it accepts the data.
        open_ended = {id(schema) for schema in every if self._under(schema, EVALUATING_IF_VALID)}
        self._in_place = self._leading(holes | open_ended, IN_PLACE)

    def _leading(self, first: set[int], keywords: frozenset[str]) -> set[int]:
        """These schemas, and those that lead to one of them by these keywords or by a reference."""
        leading = set(first)
        parents: dict[int, list[int]] = {}
        for address, schemas in self._schemas.items():
            for schema in schemas:
                targets = [child for keyword, child in subschemas(schema) if keyword in keywords]
                if any(keyword in schema for keyword in REFERENCES):
                    target = self._target(schema, address)
                    if target is not None:
                        targets.append(target)
                    else:
                        # A reference whose target is not clear counts as one to a missing part.
                        leading.add(id(schema))
                for target in targets:
                    parents.setdefault(id(target), []).append(id(schema))
        pending = list(leading)
        while pending:
            for schema_id in parents.get(pending.pop(), ()):
                if schema_id not in leading:
                    leading.add(schema_id)
                    pending.append(schema_id)
        return leading

    def _target(self, schema: Json, address: str) -> Data | None:
        """The schema that a reference leads to; None where that is not clear."""
        reference = schema.get("$ref")
        if not isinstance(reference, str) or any(keyword in schema for keyword in REFERENCES[1:]):
            return None
        document, _, pointer = reference.partition("#")
        address = document or address
        if document.startswith(META_SCHEMAS):
            return NO_DOUBT
        if address not in self._plain or (pointer and not pointer.startswith("/")):
            return None
        target = at_pointer(self._parts[address], pointer)
        return None if target is None else target[0] or NO_DOUBT

    def _under(self, schema: Json, keywords: frozenset[str]) -> set[str]:
        """Those of these keywords that lead to a missing part from this schema."""
        return {keyword for keyword, child in subschemas(schema) if keyword in keywords and id(child) in self._reaching}

    def bounded(self, schema: Data, draft: str | None, *, accept: bool) -> Data:
        if not is_object(schema):
            return schema
        draft = draft_of(schema) if "$schema" in schema else draft
        left_out, doubtful = self._reversible(schema), UNRESOLVED in schema
        if draft in ALONE and (doubtful or "$ref" in schema):
            left_out = schema.keys() - STRUCTURE if doubtful else frozenset[str]()
        bounded: Json = {}
        for key, value in schema.items():
            if key in left_out or key == UNRESOLVED:
                doubtful = True
            elif key in NOT_SCHEMAS:
                bounded[key] = value
            elif key in BY_NAME and is_object(value):
                bounded[key] = {name: self.bounded(child, draft, accept=accept) for name, child in value.items()}
            elif is_list(value):
                bounded[key] = [self.bounded(child, draft, accept=accept) for child in value]
            else:
                bounded[key] = self.bounded(value, draft, accept=accept)
        return {**bounded, "not": {}} if doubtful and not accept else bounded

    def _reversible(self, schema: Json) -> AbstractSet[str]:
        """The keywords that could accept or refuse, because they can reverse a missing part that stands under them."""
        keywords = self._under(schema, REVERSING)
        if "if" in keywords:
            keywords |= {"then", "else"}
        if "maxContains" in schema and self._under(schema, frozenset(("contains",))):
            keywords |= CONTAINS
        if id(schema) in self._in_place:
            keywords |= UNEVALUATED
        return keywords & schema.keys()


def _schemas(part: Json) -> Iterator[Json]:
    """The part itself and all schemas inside it."""
    pending: list[Any] = [part]
    while pending:
        node = pending.pop()
        if is_list(node):
            pending += node
        elif is_object(node):
            yield node
            pending += [child for _, child in subschemas(node)]


def _has_ids(schemas: Iterable[Json]) -> bool:
    return any(isinstance(schema.get(keyword), str) for schema in schemas for keyword in ("$id", "id"))
