"""What can be told of data by a schema of which a part is not known.

The missing part may say anything. So the schema is made twice: once with every doubt in favour of the data, once against it.
What the first refuses is refused whatever the missing part says; what the second accepts is accepted whatever it says; all else is
undecided. A missing part under `allOf`, `properties` and the like is simply true or false there. Under a keyword that turns round
(`not`, `oneOf`, `if`, `contains` with a maximum, `unevaluated…`) it could be either, so the whole keyword is the doubt.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, cast

from cellwright.scratch.validation.checked import Data
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
"""Keywords whose schemas look at the same data, and so say which of its parts are evaluated."""
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
TURNING = frozenset(("not", "oneOf", "if"))
EVALUATING_IF_VALID = frozenset(("anyOf", "oneOf", "if", "contains"))
CONTAINS = frozenset(("contains", "minContains", "maxContains"))
STRUCTURE = frozenset(("$schema", "$id", "id", "$defs", "definitions"))
Json = dict[str, Any]
NO_DOUBT: Json = {"type": []}
"""Stands for a schema that is known, wherever it is."""


def in_favour(prepared: Prepared) -> Prepared:
    """The schema that refuses only what is refused whatever the missing part says."""
    return _bounded(prepared, accept=True)


def against(prepared: Prepared) -> Prepared:
    """The schema that accepts only what is accepted whatever the missing part says."""
    return _bounded(prepared, accept=False)


def _bounded(prepared: Prepared, *, accept: bool) -> Prepared:
    doubts = _Doubts({"": prepared.root, **prepared.resources})

    def bounded(part: Data) -> Data:
        return doubts.bounded(part, draft_of(part), accept=accept)

    resources = {address: bounded(part) for address, part in prepared.resources.items()}
    return Prepared(bounded(prepared.root), resources, prepared.reached, prepared.unresolved)


class _Doubts:
    """Which schemas of all these can come to a missing part, by whatever way. `parts` are under their addresses."""

    def __init__(self, parts: Mapping[str, Data]) -> None:
        self._parts = {address: cast("Json", part) for address, part in parts.items() if isinstance(part, dict)}
        self._schemas = {address: list(_schemas(part)) for address, part in self._parts.items()}
        self._plain = {address for address, schemas in self._schemas.items() if not _has_ids(schemas[1:])}
        """Parts in which a pointer is always one from the top."""
        every = [schema for schemas in self._schemas.values() for schema in schemas]
        holes = {id(schema) for schema in every if UNRESOLVED in schema}
        self._reaching = self._leading(holes, IN_PLACE | INSIDE | {"contains"})
        # What such a schema evaluates depends on whether something under it holds.
        open_ended = {id(schema) for schema in every if self._under(schema, EVALUATING_IF_VALID)}
        self._in_place = self._leading(holes | open_ended, IN_PLACE)

    def _leading(self, first: set[int], keywords: frozenset[str]) -> set[int]:
        """These schemas, and those that lead to one of them by these keywords or by a reference."""
        found = set(first)
        leading: dict[int, list[int]] = {}
        for address, schemas in self._schemas.items():
            for schema in schemas:
                targets = [child for keyword, child in subschemas(schema) if keyword in keywords]
                if any(keyword in schema for keyword in REFERENCES):
                    target = self._target(schema, address)
                    # Where it cannot be seen where a reference leads, it leads to a missing part.
                    targets, found = ([*targets, target], found) if target else (targets, found | {id(schema)})
                for target in targets:
                    leading.setdefault(id(target), []).append(id(schema))
        pending = list(found)
        while pending:
            for schema_id in leading.get(pending.pop(), ()):
                if schema_id not in found:
                    found.add(schema_id)
                    pending.append(schema_id)
        return found

    def _target(self, schema: Json, address: str) -> Data | None:
        """The schema that a reference leads to; None where that is not plain to see."""
        reference = schema.get("$ref")
        if not isinstance(reference, str) or any(keyword in schema for keyword in REFERENCES[1:]):
            return None
        named, _, pointer = reference.partition("#")
        address = named or address
        if named.startswith(META_SCHEMAS):
            return NO_DOUBT
        if address not in self._plain or (pointer and not pointer.startswith("/")):
            return None
        found = at_pointer(self._parts[address], pointer)
        return None if found is None else found[0] or NO_DOUBT

    def _under(self, schema: Json, keywords: frozenset[str]) -> set[str]:
        """Those of these keywords of a schema that lead to a missing part."""
        return {keyword for keyword, child in subschemas(schema) if keyword in keywords and id(child) in self._reaching}

    def bounded(self, node: Data, draft: str | None, *, accept: bool) -> Data:
        if not isinstance(node, dict):
            return node
        schema = cast("Json", node)
        draft = draft_of(schema) if "$schema" in schema else draft
        left_out, doubtful = self._turned(schema), UNRESOLVED in schema
        if draft in ALONE and (doubtful or "$ref" in schema):
            left_out = schema.keys() - STRUCTURE if doubtful else frozenset[str]()
        made: Json = {}
        for key, value in schema.items():
            if key in left_out or key == UNRESOLVED:
                doubtful = True
            elif key in NOT_SCHEMAS:
                made[key] = value
            elif key in BY_NAME and isinstance(value, dict):
                named = cast("Json", value)
                made[key] = {name: self.bounded(child, draft, accept=accept) for name, child in named.items()}
            elif isinstance(value, list):
                made[key] = [self.bounded(child, draft, accept=accept) for child in cast("list[Any]", value)]
            else:
                made[key] = self.bounded(value, draft, accept=accept)
        return {**made, "not": {}} if doubtful and not accept else made

    def _turned(self, schema: Json) -> AbstractSet[str]:
        """The keywords that could say either, because a missing part stands under them."""
        turned = self._under(schema, TURNING)
        if "if" in turned:
            turned |= {"then", "else"}
        if "maxContains" in schema and self._under(schema, frozenset(("contains",))):
            turned |= CONTAINS
        if id(schema) in self._in_place:
            turned |= UNEVALUATED
        return turned & schema.keys()


def _schemas(part: Json) -> Iterator[Json]:
    """The part itself and all schemas inside it."""
    pending: list[Any] = [part]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending += cast("list[Any]", node)
        elif isinstance(node, dict):
            yield cast("Json", node)
            pending += [child for _, child in subschemas(cast("Json", node))]


def _has_ids(schemas: Iterable[Json]) -> bool:
    return any(isinstance(schema.get(keyword), str) for schema in schemas for keyword in ("$id", "id"))
