"""Family V, case 5: arguments a confused or hostile agent sends."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adversarial_support import Answer, Session, call_tool, modern_headers, post, probe_server, ran, rpc
from requirements import requirement
from support import HttpServer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arguments")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    with probe_server(folder) as running:
        yield running


def sent_raw(server: HttpServer, arguments: str) -> Iterator[Answer]:
    """A call whose arguments are this text, in both eras."""
    message = json.dumps(rpc("tools/call", {"name": "probe_read", "arguments": "HERE"}))
    body = message.replace('"HERE"', arguments).encode("utf-8", "surrogatepass")
    yield post(server.port, body, modern_headers("tools/call", "probe_read"))
    yield Session(server).send(body)


def refusal(answer: Answer) -> dict[str, Any]:
    """What the model reads of a refused argument."""
    assert answer.status == 200, answer
    result = answer.json()["result"]
    assert result["isError"] is True, result
    error = result["structuredContent"]["error"]
    assert error["code"] == "INVALID_ARGUMENT"
    assert result["content"][0]["text"].startswith("INVALID_ARGUMENT: ")
    return error


@requirement("adversarial:V5")
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("timout", "timeout"),
        ("Timeout", "timeout"),
        ("cuont", "count"),
        ("count ", "count"),
        ("texts", "text"),
        ("ratios", "ratio"),
    ],
)
def test_a_misspelt_argument_is_refused_with_the_nearest_name(
    server: HttpServer, folder: Path, given: str, meant: str
) -> None:
    before = ran(folder)
    for answer in sent_raw(server, json.dumps({given: 5})):
        error = refusal(answer)
        assert given in error["message"]
        assert f"did you mean {meant!r}" in error["hint"]
    assert ran(folder) == before


@requirement("adversarial:V5")
@pytest.mark.parametrize(
    "given", ["zzzz", "", "__class__", "probe", "call", "self", "\u202etxet", "x" * 10_000, "count\x00"]
)
def test_an_argument_like_no_other_is_refused_and_not_echoed_at_length(
    server: HttpServer, folder: Path, given: str
) -> None:
    before = ran(folder)
    for answer in sent_raw(server, json.dumps({given: 5})):
        error = refusal(answer)
        assert "unknown argument" in error["message"]
        assert len(answer.body) < 4_000
    assert ran(folder) == before


WRONG_TYPES = {
    "text for a whole number": '{"count": "5"}',
    "true for a whole number": '{"count": true}',
    "a fraction for a whole number": '{"count": 5.5}',
    "a list for a whole number": '{"count": [5]}',
    "null for a whole number": '{"count": null}',
    "1e400 for a whole number": '{"count": 1e400}',
    "1e400 for a number": '{"ratio": 1e400}',
    "-1e400 for a number": '{"ratio": -1e400}',
    "NaN for a number": '{"ratio": NaN}',
    "Infinity for a number": '{"ratio": Infinity}',
    "text for a number": '{"ratio": "1.5"}',
    "true for a number": '{"ratio": true}',
    "a number for text": '{"text": 5}',
    "null for text": '{"text": null}',
    "a list for text": '{"text": ["x"]}',
    "an object for text": '{"text": {"x": 1}}',
    "both spellings of a name": '{"timeout": 1, "Timeout": 1}',
}


@requirement("adversarial:V5")
@pytest.mark.parametrize("case", WRONG_TYPES)
def test_a_value_of_the_wrong_type_is_refused_and_nothing_runs(server: HttpServer, folder: Path, case: str) -> None:
    before = ran(folder)
    for answer in sent_raw(server, WRONG_TYPES[case]):
        assert refusal(answer)["message"]
    assert ran(folder) == before


@requirement("adversarial:V5")
@pytest.mark.parametrize("arguments", ['{"text": "\\ud800"}', '{"text": "x\\udc00y"}', '{"\\ud800": 1}'])
def test_text_that_is_not_valid_unicode_is_refused(server: HttpServer, folder: Path, arguments: str) -> None:
    before = ran(folder)
    stateless, handshake = sent_raw(server, arguments)
    assert refusal(stateless)["message"]
    # The parser of the handshake era takes it for no JSON at all.
    assert handshake.json()["error"]["code"] == -32700
    assert ran(folder) == before


@requirement("adversarial:V5")
@pytest.mark.parametrize("arguments", ['"x"', "[]", "5", "true", '["count"]'])
def test_arguments_that_are_no_object_are_refused(server: HttpServer, folder: Path, arguments: str) -> None:
    before = ran(folder)
    for answer in sent_raw(server, arguments):
        assert answer.json()["error"]["code"] in {-32600, -32602}
    assert ran(folder) == before


@requirement("adversarial:V5")
def test_right_values_at_the_edge_are_taken(server: HttpServer) -> None:
    for arguments in (
        {"count": -(2**63)},
        {"count": 2**80},
        {"ratio": 5},
        {"text": "\U0001f600\u0000"},
        {"timeout": 0},
        {},
    ):
        answer = call_tool(server, "probe_read", arguments)
        assert answer.json()["result"]["structuredContent"]["count"] == arguments.get("count", 1)
