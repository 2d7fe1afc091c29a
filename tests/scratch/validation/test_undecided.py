"""Schemas that are not known in full: what is told of a cell is true whatever the missing part says."""

import json
from collections.abc import AsyncIterator
from typing import Any, cast

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.scratch.validation.checked import Document
from cellwright.scratch.validation.model import CellToCheck, Validation
from cellwright.scratch.validation.schema import apply
from cellwright.scratch.validation.validators import Validators
from cellwright.workers.pool import WorkerPool
from requirements import requirement

pytestmark = pytest.mark.anyio
MISSING = "http://h.example/x.json"
HOLE = {"$ref": MISSING}
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.fixture(scope="module")
async def validators() -> AsyncIterator[Validators]:
    running = Validators(WorkerPool())
    yield running
    await running.pool.close()


async def checked(
    validators: Validators, content: object, schema: object, shared: dict[str, Any] | None = None
) -> Validation:
    (found,) = await validators.validate([CellToCheck("c", "json", json.dumps(content), schema)], shared or {}, 30.0)
    return found


@requirement("scratch:undecided:reference")
@pytest.mark.parametrize(
    ("schema", "content"),
    [
        (HOLE, 1),
        ({"not": HOLE}, 1),
        ({"oneOf": [HOLE, {"type": "integer"}]}, 1),
        ({"oneOf": [HOLE, {"type": "string"}]}, 1),
        ({"if": HOLE, "then": False}, 1),
        ({"if": HOLE, "else": False}, 1),
        ({"allOf": [HOLE], "unevaluatedProperties": False}, {"a": 1}),
        ({"contains": HOLE}, [1]),
        ({"contains": HOLE, "maxContains": 1}, [1, 2]),
        ({"not": {"$ref": "#/$defs/d"}, "$defs": {"d": {"items": HOLE}}}, [1]),
        ({"not": {"not": {"not": HOLE}}}, 1),
        ({"properties": {"const": HOLE}}, {"const": 1}),
        ({"$schema": DRAFT_7, "$ref": MISSING, "type": "string"}, 1),
        ({"$schema": "http://h.example/own", "type": "string"}, 1),
        ({"$ref": "scratchpad://schemas/own"}, 1),
        ({"not": {"$ref": "scratchpad://schemas/own"}}, 1),
        ({"propertyNames": HOLE}, {"a": 1}),
        ({"dependentSchemas": {"a": {"not": HOLE}}}, {"a": 1}),
        # A part in a draft that nobody knows, or in another one than the rest.
        ({"$ref": "#/$defs/d", "$defs": {"d": {"$id": "d", "$schema": "http://h.example/own", "type": "string"}}}, 1),
        ({"not": {"$schema": "http://h.example/own", "type": "integer"}}, 1),
    ],
)
async def test_what_depends_on_a_part_that_is_not_known_is_undecided(
    validators: Validators, schema: object, content: object
) -> None:
    found = await checked(validators, content, schema, {"own": {"$schema": "http://h.example/own", "type": "string"}})
    assert (found.status, found.valid) == ("undecided", None)
    assert {one.severity for one in found.diagnostics} == {"warning"}
    assert any("h.example" in one.message or "scratchpad://schemas/own" in one.message for one in found.diagnostics)


@requirement("scratch:undecided:reference")
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs", "$defs": {"not": HOLE}},
        {"$ref": "#/properties", "properties": {"not": HOLE}},
        {"$ref": "scratchpad://schemas/whole#/$defs"},
        {"$ref": "scratchpad://schemas/whole#/default"},
        {"$ref": "scratchpad://schemas/whole#nowhere"},
    ],
)
async def test_a_reference_to_what_is_no_schema_decides_nothing(validators: Validators, schema: object) -> None:
    shared = {"whole": {"$defs": {"not": {"type": "integer"}}, "default": {"type": "string"}}}
    found = await checked(validators, 1, schema, shared)
    assert found.status == "undecided"
    assert any("there is no schema at that place" in one.message for one in found.diagnostics)
    found = await checked(validators, 1, {"allOf": [schema, {"type": "string"}]}, shared)
    assert found.status == "invalid"


@requirement("scratch:undecided:reference")
async def test_a_part_in_another_draft_is_not_read_in_this_one(validators: Validators) -> None:
    part = {"$id": "http://h.example/part", "$schema": DRAFT_7, "items": [{"type": "string"}]}
    whole = {"$ref": "http://h.example/part", "$defs": {"part": part}}
    found = await checked(validators, [1], whole)
    assert found.status == "undecided"
    assert ["put it among the shared schemas" in one.message for one in found.diagnostics] == [True]
    # As that says.
    assert (await checked(validators, [1], {"$ref": "http://h.example/part"}, {"part": part})).status == "invalid"


@requirement("scratch:undecided:reference")
@pytest.mark.parametrize(
    ("schema", "content", "status"),
    [
        ({"allOf": [HOLE, {"type": "string"}]}, 1, "invalid"),
        ({"$ref": MISSING, "type": "string"}, 1, "invalid"),
        ({"properties": {"a": HOLE, "b": {"type": "string"}}}, {"b": 1}, "invalid"),
        ({"properties": {"a": HOLE, "b": {"not": HOLE}}}, {"c": 1}, "warning"),
        ({"anyOf": [HOLE, {"type": "integer"}]}, 1, "warning"),
        ({"not": {"not": {"type": "integer"}}, "items": HOLE}, 1, "warning"),
        ({"properties": {"a": HOLE}, "unevaluatedProperties": False}, {"b": 1}, "invalid"),
        ({"$defs": {"unused": HOLE}, "not": {"type": "string"}}, 1, "warning"),
        ({"if": {"type": "string"}, "then": HOLE}, 1, "warning"),
    ],
)
async def test_what_holds_whatever_the_missing_part_says_is_told(
    validators: Validators, schema: object, content: object, status: str
) -> None:
    found = await checked(validators, content, schema)
    assert (found.status, found.valid) == (status, status != "invalid")
    assert any(MISSING in one.message for one in found.diagnostics)


LEAVES = st.sampled_from(
    [
        True,
        False,
        {"type": "integer"},
        {"type": "object"},
        {"minimum": 2},
        {"required": ["a"]},
        {"pattern": "a"},
        {"$ref": "#/$defs/more"},
        HOLE,
        HOLE,
    ]
)


def _larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def one(keyword: str) -> st.SearchStrategy[Any]:
        return inner.map(lambda schema: {keyword: schema})

    def several(keyword: str) -> st.SearchStrategy[Any]:
        return st.lists(inner, min_size=1, max_size=3).map(lambda schemas: {keyword: schemas})

    return st.one_of(
        one("not"),
        one("contains"),
        one("items"),
        one("additionalProperties"),
        one("propertyNames"),
        one("unevaluatedItems"),
        inner.map(lambda schema: {"patternProperties": {"^a": schema}, "unevaluatedProperties": False}),
        inner.map(lambda schema: {"contains": schema, "minContains": 2}),
        inner.map(lambda schema: {"contains": schema, "minContains": 0, "unevaluatedItems": False}),
        st.tuples(inner, inner).map(lambda two: {"oneOf": list(two), "unevaluatedProperties": False}),
        several("allOf"),
        several("anyOf"),
        several("oneOf"),
        several("prefixItems"),
        inner.map(lambda schema: {"properties": {"a": schema}}),
        st.tuples(inner, inner).map(lambda two: {"properties": {"a": two[0], "b": two[1]}}),
        st.tuples(inner, inner).map(
            lambda two: {"if": {"properties": {"a": two[0]}}, "then": {"properties": {"b": two[1]}}}
        ),
        inner.map(lambda schema: {"dependentSchemas": {"a": schema}}),
        inner.map(lambda schema: {"contains": schema, "maxContains": 1}),
        st.tuples(inner, inner, inner).map(lambda three: {"if": three[0], "then": three[1], "else": three[2]}),
        st.tuples(inner, inner).map(lambda two: {"anyOf": [two[0]], "unevaluatedProperties": two[1]}),
        st.tuples(inner, inner).map(lambda two: {"allOf": [two[0]], "unevaluatedItems": two[1]}),
        st.tuples(inner, inner).map(lambda two: {"$ref": MISSING, "allOf": [two[0]], "not": two[1]}),
    )


SCHEMAS = st.recursive(LEAVES, _larger, max_leaves=8)
INSTANCES: list[Any] = [1, 3, "x", None, {}, {"a": 1}, {"a": "x", "b": 3}, [], [1], [1, "x", {"a": 3}]]
MEANINGS: list[Any] = [
    True,
    False,
    {"type": "integer"},
    {"properties": {"a": True}},
    {"prefixItems": [True]},
    {"not": {"type": "object"}},
]


def _meaning(schema: Any, meant: Any) -> Any:
    """The schema with what was missing."""
    if isinstance(schema, list):
        return [_meaning(one, meant) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    mapping = cast("dict[str, Any]", schema)
    made = {key: _meaning(value, meant) for key, value in mapping.items() if value != MISSING}
    return {**made, "$ref": "#/$defs/meant"} if len(made) < len(mapping) else made


@requirement("scratch:undecided:sound")
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(SCHEMAS, SCHEMAS)
def test_no_meaning_of_the_missing_part_makes_the_answer_wrong(schema: Any, shared: Any) -> None:
    whole = {"allOf": [schema, {"$ref": "#/$defs/more"}], "$defs": {"more": shared}}
    validators = [
        jsonschema_rs.validator_for(
            {**_meaning(whole, meant), "$defs": {"more": _meaning(shared, meant), "meant": meant}}
        )
        for meant in MEANINGS
    ]
    for instance in INSTANCES:
        applied = apply(whole, {}, [Document(instance)])
        truths = {validator.is_valid(instance) for validator in validators}
        refused = any(one.severity == "error" for one in applied.diagnostics)
        if refused:
            assert truths == {False}, (whole, instance, applied)
        elif not applied.undecided:
            assert truths == {True}, (whole, instance, applied)


@requirement("scratch:undecided:schema")
@pytest.mark.parametrize("schema", [{"type": "strin"}, [1], "{not json", {"pattern": "("}])
async def test_a_schema_that_cannot_be_applied_decides_nothing(validators: Validators, schema: object) -> None:
    found = await checked(validators, 3, schema)
    assert (found.status, found.valid, found.schema) == ("undecided", None, None)
    assert found.diagnostics


@requirement("scratch:undecided:schema")
async def test_what_is_wrong_without_the_schema_stays_wrong(validators: Validators) -> None:
    (found,) = await validators.validate([CellToCheck("c", "json", "{", HOLE)], {}, 30.0)
    assert (found.status, found.valid) == ("invalid", False)


@requirement("scratch:validation:formats")
@pytest.mark.parametrize("draft", ["", DRAFT_4, DRAFT_7, "https://json-schema.org/draft/2019-09/schema"])
async def test_formats_are_checked(validators: Validators, draft: str) -> None:
    schema = {**({"$schema": draft} if draft else {}), "format": "date"}
    found = [(await checked(validators, text, schema)).status for text in ("2025-02-28", "2025-02-30", "yesterday")]
    assert found == ["valid", "invalid", "invalid"]
    assert (await checked(validators, 5, schema)).status == "valid"
    assert (await checked(validators, "x", {**schema, "format": "of-our-own"})).status == "valid"


@requirement("scratch:validation:bases")
async def test_ids_of_draft_4_name_parts(validators: Validators) -> None:
    schema = {
        "$schema": DRAFT_4,
        "id": "http://h.example/root.json",
        "definitions": {"n": {"id": "folder/n.json", "type": "integer"}, "a": {"id": "#here", "type": "integer"}},
        "properties": {"n": {"$ref": "folder/n.json"}, "a": {"$ref": "#here"}},
    }
    assert (await checked(validators, {"n": 1, "a": 1}, schema)).status == "valid"
    assert (await checked(validators, {"n": "x"}, schema)).status == "invalid"
    assert (await checked(validators, {"a": "x"}, schema)).status == "invalid"


@requirement("scratch:validation:bases")
async def test_a_relative_reference_reaches_a_shared_schema_as_the_absolute_one_does(validators: Validators) -> None:
    shared: dict[str, Any] = {
        "person": {"$id": "https://h.example/a/person", "type": "integer"},
        "plain": {"type": "integer"},
        "team": {"items": {"$ref": "plain"}},
        "old": {"$schema": DRAFT_4, "id": "https://h.example/a/old", "type": "integer"},
    }
    for reference in ("https://h.example/a/person", "person", "/a/person", "../a/person#", "old"):
        schema = {"$id": "https://h.example/a/b", "$ref": reference}
        assert (await checked(validators, 1, schema, shared)).status == "valid", reference
        assert (await checked(validators, "x", schema, shared)).status == "invalid", reference
    own = {"$id": "scratchpad://schemas/mine", "items": {"$ref": "plain"}}
    for schema in (own, "team"):
        assert (await checked(validators, [1], schema, shared)).status == "valid"
        assert (await checked(validators, ["x"], schema, shared)).status == "invalid"


@requirement("scratch:validation:bases")
async def test_the_secure_address_of_a_draft_is_that_draft(validators: Validators) -> None:
    schema = {"$schema": "https://json-schema.org/draft-07/schema", "items": [{"type": "null"}]}
    assert (await checked(validators, [1], schema)).status == "invalid"
