"""JSON Schema on cells: all violations with their places, shared schemas, references that lead nowhere, and no network."""

import json
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from cellwright.scratch.validation.model import CellToCheck, Validation
from cellwright.scratch.validation.validators import Validators
from cellwright.workers.pool import WorkerPool
from requirements import requirement

pytestmark = pytest.mark.anyio

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}
TEAM = {"type": "array", "items": {"$ref": "scratchpad://schemas/person"}}
SHARED = {"person": PERSON, "0b1e": PERSON, "team": TEAM, "odd name/ü": {"type": "integer"}}


@pytest.fixture(scope="module")
async def validators() -> AsyncIterator[Validators]:
    running = Validators(WorkerPool())
    yield running
    await running.pool.close()


async def checked(
    validators: Validators, text: str, schema: object, shared: dict[str, Any] | None = None, language: str = "json"
) -> Validation:
    cell = CellToCheck("c", language, text, schema)
    (found,) = await validators.validate([cell], SHARED if shared is None else shared, 30.0)
    return found


def findings(found: Validation) -> list[tuple[str, str, int | None, int | None]]:
    return [(one.severity, one.path, one.line, one.column) for one in found.diagnostics]


@requirement("scratch:validation:violations")
@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "json",
            '[\n  {"name": 1, "age": -1},\n  {"age": "x"}\n]',
            {("$[0].name", 2, 12), ("$[0].age", 2, 22), ("$[1].age", 3, 11), ("$[1]", 3, 3)},
        ),
        (
            "yaml",
            "- name: 1\n  age: -1\n- age: x\n",
            {("$[0].name", 1, 9), ("$[0].age", 2, 8), ("$[1].age", 3, 8), ("$[1]", 3, 3)},
        ),
        (
            "yaml",
            "- {age: &a -1, name: n}\n- {name: n, age: *a}\n",
            {("$[0].age", 1, 9), ("$[1].age", 1, 9)},
        ),
    ],
)
async def test_all_violations_have_their_path_and_place(
    validators: Validators, language: str, text: str, expected: set[tuple[str, int, int]]
) -> None:
    found = await checked(validators, text, TEAM, language=language)
    assert {(path, line, column) for _, path, line, column in findings(found)} == expected
    assert (found.status, found.schema, found.references) == ("invalid", "inline", ("person",))
    assert {one.severity for one in found.diagnostics} == {"error"}


@requirement("scratch:validation:violations")
async def test_toml_is_checked_too_and_code_cannot_be(validators: Validators) -> None:
    found = await checked(validators, "name = 'x'\nage = 'y'\n", PERSON, language="toml")
    assert (found.status, findings(found)) == ("invalid", [("error", "$.age", None, None)])
    code = await checked(validators, "x = 1\n", PERSON, language="python")
    assert (code.status, code.schema) == ("warning", None)


@requirement("scratch:validation:violations", "scratch:validation:bounded")
async def test_violations_are_capped_at_fifty(validators: Validators) -> None:
    found = await checked(validators, json.dumps(["x"] * 500), {"items": {"type": "integer"}})
    assert len(found.diagnostics) == 51
    assert [one.path for one in found.diagnostics[:3]] == ["$[0]", "$[1]", "$[2]"]
    assert found.diagnostics[-1].severity == "info"


@requirement("scratch:validation:violations")
async def test_every_document_of_a_yaml_stream_is_checked_also_an_empty_one(validators: Validators) -> None:
    found = await checked(validators, "name: a\n---\nname: 1\n---\n", PERSON, language="yaml")
    assert [(one.path, one.line, one.message.split(":")[0]) for one in found.diagnostics] == [
        ("$.name", 3, "document 2"),
        ("$", 5, "document 3"),
    ]
    assert (await checked(validators, "", PERSON, language="yaml")).status == "invalid"


@requirement("scratch:validation:references")
@pytest.mark.parametrize(
    ("schema", "named", "reached"),
    [
        ("scratchpad://schemas/person", "person", ("person",)),
        ("scratchpad://schemas/0b1e", "0b1e", ("0b1e",)),
        ("person", "person", ("person",)),
        ({"$ref": "scratchpad://schemas/person"}, "person", ("person",)),
        ({"$ref": "scratchpad://schemas/0b1e"}, "0b1e", ("0b1e",)),
        ({"$ref": "scratchpad://schemas/person#/properties/name"}, "inline", ("person",)),
        ({"allOf": [{"$ref": "scratchpad://schemas/person"}]}, "inline", ("person",)),
        (json.dumps(PERSON), "inline", ()),
        ("scratchpad://schemas/team", "team", ("team", "person")),
        ("scratchpad://schemas/odd%20name%2F%C3%BC", "odd name/ü", ("odd name/ü",)),
        ({"not": {}, "title": "x"}, "inline", ()),
        (False, "inline", ()),
    ],
)
async def test_schemas_are_found_by_name_and_id_and_named_in_the_result(
    validators: Validators, schema: object, named: str, reached: tuple[str, ...]
) -> None:
    found = await checked(validators, '{"name": 1}', schema)
    assert (found.status, found.schema, found.references) == ("invalid", named, reached)


@requirement("scratch:validation:references")
async def test_shared_schemas_may_know_each_other_by_their_own_ids_and_drafts(validators: Validators) -> None:
    shared: dict[str, Any] = {
        "a": {
            "$id": "https://x.example/a",
            "$schema": "http://json-schema.org/draft-07/schema#",
            "items": [{"type": "null"}],
        },
        "b": {"$ref": "https://x.example/a"},
        "loop": {"$ref": "scratchpad://schemas/pool"},
        "pool": {"anyOf": [{"$ref": "scratchpad://schemas/loop"}, {"type": "string"}]},
    }
    found = await checked(validators, "[1]", "b", shared)
    assert (found.status, found.references) == ("invalid", ("b", "a"))
    assert (await checked(validators, '"x"', "loop", shared)).status == "valid"


@requirement("scratch:validation:unresolved")
@pytest.mark.parametrize(
    "schema",
    [
        "scratchpad://schemas/missing",
        "missing",
        {"$ref": "scratchpad://schemas/missing"},
        {"$ref": "scratchpad://schemas/person#/missing"},
        {"$ref": "#/definitions/missing"},
        {"$ref": "#missing"},
        {"properties": {"never": {"items": {"$ref": "scratchpad://schemas/missing"}}}},
        {"$ref": "../../etc/passwd"},
        {"$id": "https://x.example/a/b", "properties": {"never": {"$ref": "../missing"}}},
        {"$ref": "urn:missing"},
        {"$dynamicRef": "http://x.example/missing"},
    ],
)
async def test_a_reference_that_leads_nowhere_is_a_warning_wherever_it_stands(
    validators: Validators, schema: object
) -> None:
    found = await checked(validators, '{"name": "x"}', schema)
    assert found.status == ("warning" if "never" in str(schema) else "undecided")
    assert [one.message.startswith("unresolved schema reference") for one in found.diagnostics] == [True]


@requirement("scratch:validation:unresolved")
async def test_the_rest_of_the_schema_still_counts(validators: Validators) -> None:
    schema = {"$ref": "scratchpad://schemas/missing", "properties": {"name": {"type": "integer"}}}
    found = await checked(validators, '{"name": "x"}', schema)
    assert findings(found) == [("warning", "", None, None), ("error", "$.name", 1, 10)]
    assert found.schema == "inline"


@requirement("scratch:validation:unresolved")
async def test_what_only_looks_like_a_reference_is_left_alone(validators: Validators) -> None:
    schema = {
        "properties": {"$ref": {"type": "string"}, "a": {"const": {"$ref": "http://x.example"}}},
        "examples": [{"$ref": "nowhere"}],
        "$defs": {"n": {"$anchor": "here"}},
        "items": {"$ref": "#here"},
    }
    assert (await checked(validators, '{"$ref": "x", "a": {"$ref": "http://x.example"}}', schema)).status == "valid"


@requirement("scratch:validation:drafts")
@pytest.mark.parametrize(
    ("schema", "instance", "status"),
    [
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 3, "exclusiveMaximum": True},
            "3",
            "invalid",
        ),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "if": {"const": 1}, "then": False}, "1", "invalid"),
        (
            {"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"type": "null"}]},
            "[1]",
            "invalid",
        ),
        ({"maximum": 3, "exclusiveMaximum": True}, "3", "undecided"),
        ({"type": "strin"}, "3", "undecided"),
        ({"pattern": "("}, '"x"', "undecided"),
        ({"pattern": "^(?!a)"}, '"b"', "valid"),
        ({"pattern": "^(?!a)"}, '"a"', "invalid"),
        ([1], "3", "undecided"),
        ("{not json", "3", "undecided"),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, '{"type": "strin"}', "invalid"),
    ],
)
async def test_schemas_are_read_by_their_draft_and_broken_ones_are_not_applied(
    validators: Validators, schema: object, instance: str, status: str
) -> None:
    found = await checked(validators, instance, schema)
    assert found.status == status
    assert (found.schema is None) == (status == "undecided")


@requirement("scratch:validation:drafts")
async def test_a_schema_can_be_checked_by_itself(validators: Validators) -> None:
    async def found(schema: object) -> list[tuple[str, str]]:
        return [(one.severity, one.path) for one in await validators.check_schema(schema, SHARED, 30.0)]

    assert await found(TEAM) == []
    assert await found({"$ref": "scratchpad://schemas/missing"}) == [("warning", "")]
    assert sorted(await found({"type": "strin", "minLength": -1})) == [("error", "$.minLength"), ("error", "$.type")]
    assert await found({"pattern": "("}) != []
    assert await found("text") == [("error", "$")]
    deep: object = {}
    for _ in range(5_000):
        deep = {"not": deep}
    assert await found(deep) == [("error", "$")]


@pytest.fixture
def web() -> Iterator[tuple[str, list[str]]]:
    """A server that remembers who came."""
    asked: list[str] = []

    class Remember(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "string"}')

    server = ThreadingHTTPServer(("127.0.0.1", 0), Remember)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
    thread.join(5)


@requirement("scratch:validation:no-network", "scratch:validation:unresolved")
async def test_nothing_is_fetched_for_any_reference(validators: Validators, web: tuple[str, list[str]]) -> None:
    url, asked = web
    schemas: list[Any] = [
        {"$ref": f"{url}/a"},
        {"$schema": f"{url}/b", "type": "string"},
        {"properties": {"name": {"$ref": f"{url}/c#/x"}}},
        {"$id": f"{url}/base/", "$ref": "d"},
        {"$ref": "scratchpad://schemas/leads-away"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "http://169.254.169.254/latest/meta-data"},
        {"$vocabulary": {f"{url}/e": True}, "$dynamicRef": f"{url}/f"},
        f"{url}/g",
    ]
    shared = {"leads-away": {"$schema": f"{url}/h", "items": {"$ref": f"{url}/i"}}}
    cells = [CellToCheck(str(index), "json", '{"name": "x"}', schema) for index, schema in enumerate(schemas)]
    found = await validators.validate(cells, shared, 30.0)
    for schema in schemas:
        await validators.check_schema(schema, shared, 30.0)
    assert asked == []
    assert [one.cell_id for one in found if not any(finding.severity == "warning" for finding in one.diagnostics)] == []
