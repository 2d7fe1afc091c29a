"""The door of a real server: what is refused before it costs anything, and how little is said of it."""

import asyncio
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from adversarial_support import LEGACY, Answer, Session, modern_headers, post, rpc
from extension_support import ExtensionProcess
from requirements import requirement
from support import HttpServer, http_server, stdio_command

pytestmark = pytest.mark.timeout(120)

TOO_MANY = "[" + "[]," * 100_000 + "[]]"
TOO_DEEP = "[" * 101 + "]" * 101
LONG = "x" * 1_900_000
LITTLE = 20_000
"""Bytes of an answer, of which the caller's own words are a small part."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    with http_server(tmp_path_factory.mktemp("door"), "--toolsets", "all") as running:
        yield running
        assert running.process.poll() is None
        assert "event=crash" not in running.log.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Generator[ExtensionProcess]:
    with ExtensionProcess(tmp_path_factory.mktemp("inside"), collaboration=False) as process:
        yield process


# -- what a message may hold ---------------------------------------------------------------------------------------------------

EXCESSES = {
    "values": (TOO_MANY, "has more than 100,000 values; send it in parts"),
    "levels": (TOO_DEEP, "has more than 100 levels of nesting; make it flatter"),
}


def calling(arguments: str, number: object = 7) -> bytes:
    call = rpc("tools/call", {"name": "workspace_status", "arguments": {"x": "HERE"}}, number)
    return json.dumps(call).replace('"HERE"', arguments).encode()


@requirement("door:values")
@pytest.mark.parametrize("excess", EXCESSES)
def test_over_http_such_a_message_is_not_parsed(server: HttpServer, excess: str) -> None:
    sent, why = EXCESSES[excess]
    for answer in (
        post(server.port, calling(sent), modern_headers("tools/call", "workspace_status")),
        Session(server).send(calling(sent)),
    ):
        assert answer.status == 413
        assert answer.json()["error"]["message"].endswith(why)
    inside_a_text = json.dumps(json.dumps(sent))
    taken = post(server.port, calling(inside_a_text), modern_headers("tools/call", "workspace_status"))
    assert "unknown argument" in taken.json()["result"]["content"][0]["text"], "a text is one value"


@requirement("door:utf8")
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32-be"])
def test_nothing_is_hidden_by_another_encoding(server: HttpServer, encoding: str) -> None:
    hidden = calling('["\\"",' + TOO_MANY + ',"\\""]').decode().encode(encoding)
    answer = post(server.port, hidden, modern_headers("tools/call", "workspace_status"))
    assert answer.status == 400
    assert "encode it as UTF-8" in answer.json()["error"]["message"]


@requirement("door:values", "door:values:id")
@pytest.mark.anyio
async def test_over_stdio_such_a_message_is_answered_with_its_id(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *stdio_command(tmp_path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    info = {"name": "door", "version": "0"}
    start = rpc("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info}, 0, LEGACY)
    id_last = b'{"method":"tools/call","params":{"name":"x","arguments":{"id":5,"a":%s}},"jsonrpc":"2.0","id":"last"}'
    no_id = b'{"method":"tools/call","params":{"name":"x","arguments":{"id":5,"a":%s}}}'
    sent = [
        json.dumps(start).encode(),
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        calling(TOO_MANY, 41),
        calling(TOO_DEEP, "forty-two"),
        id_last % TOO_MANY.encode(),
        no_id % TOO_DEEP.encode(),
        json.dumps(rpc("tools/list", number="end", version=LEGACY)).encode(),
    ]
    answers: list[dict[str, Any]] = []

    async def read_to_end() -> None:
        assert process.stdout is not None
        while not answers or answers[-1].get("id") != "end":
            answers.append(json.loads(await process.stdout.readline()))

    reading = asyncio.create_task(read_to_end())
    process.stdin.write(b"\n".join(sent) + b"\n")
    await process.stdin.drain()
    await asyncio.wait_for(reading, 60)
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 10) == 0
    refused = {answer["id"]: answer["error"]["message"] for answer in answers if "error" in answer}
    assert set(refused) == {41, "forty-two", "last", None}
    assert refused[41] == "this message has more than 100,000 values; send it in parts; nothing was done"
    assert refused["forty-two"].startswith("this message has more than 100 levels of nesting; make it flatter")
    assert answers[-1]["result"]["tools"], "the client can go on"


# -- what is said of it --------------------------------------------------------------------------------------------------------


def little(answer: Answer) -> str:
    """What an error says, if it is one and short."""
    assert len(answer.body) < LITTLE
    message = answer.json()
    assert message.get("error", {}).get("code") != -32603, message
    assert "error" in message or message["result"]["isError"], message
    return answer.body.decode()


LONG_REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "tool": ("tools/call", {"name": LONG}),
    "argument": ("tools/call", {"name": "workspace_status", "arguments": {LONG: 1}}),
    "argument of a pad": ("tools/call", {"name": "scratch_list", "arguments": {LONG: 1}}),
    "value": ("tools/call", {"name": "read_nb_cells", "arguments": {"path": LONG}}),
    "key": ("tools/call", {"name": "scratch_create", "arguments": {"cells": [{LONG: 1}]}}),
    "scheme": ("resources/read", {"uri": LONG}),
    "notebook": ("resources/read", {"uri": f"jupyter://{LONG}"}),
    "pad": ("resources/read", {"uri": f"scratchpad://{LONG}"}),
    "thought": ("resources/read", {"uri": f"notebook://{LONG}"}),
    "context": ("resources/read", {"uri": f"context://{LONG}"}),
    "watched": ("resources/subscribe", {"uri": f"jupyter://{LONG}"}),
    "prompt": ("prompts/get", {"name": LONG}),
    "method": (LONG, {}),
}


@requirement("door:echo")
@pytest.mark.parametrize("case", LONG_REQUESTS)
def test_an_error_repeats_little_of_the_request(server: HttpServer, case: str) -> None:
    method, params = LONG_REQUESTS[case]
    little(Session(server).send(rpc(method, params, version=LEGACY)))


@requirement("door:problems")
def test_very_many_mistakes_are_counted_and_the_first_are_told(server: HttpServer) -> None:
    wrong: dict[str, Any] = {"name": "scratch_create", "arguments": {"cells": [{}] * 5_000}}
    told = little(Session(server).send(rpc("tools/call", wrong, version=LEGACY)))
    assert "cells.0.language: is required; cells.0.content: is required" in told
    assert "and 9995 more" in told
    late: dict[str, Any] = {
        "name": "scratch_create",
        "arguments": {"cells": [{"language": "md", "content": ""}] * 30 + [{}] * 5_000},
    }
    assert "10000 values in the arguments are missing or of the wrong kind" in little(
        Session(server).send(rpc("tools/call", late, version=LEGACY))
    )


@requirement("door:surrogates")
def test_a_lone_surrogate_is_a_mistake_of_the_caller_in_every_tool(server: HttpServer) -> None:
    listed = post(server.port, rpc("tools/list"), modern_headers("tools/list")).json()["result"]["tools"]
    names = [tool["name"] for tool in listed]
    assert {"scratch_create", "use_notebook"} <= set(names)
    for name in names:
        for arguments in ({"\ud800": 1}, {"path": {"\udfff": "\ud800"}}):
            call = rpc("tools/call", {"name": name, "arguments": arguments})
            told = little(post(server.port, call, modern_headers("tools/call", name)))
            assert "INVALID_ARGUMENT" in told or "VALIDATION_ERROR" in told, (name, told)


# -- inside Jupyter ------------------------------------------------------------------------------------------------------------


@requirement("door:values")
@pytest.mark.parametrize("excess", EXCESSES)
def test_inside_jupyter_the_same_holds(jupyter: ExtensionProcess, excess: str) -> None:
    sent, why = EXCESSES[excess]
    headers = {**jupyter.headers, "Content-Type": "application/json"}
    protocol = dict(modern_headers("tools/call", "workspace_status", jupyter.token))
    refused = httpx2.post(jupyter.mcp, content=calling(sent), headers=protocol, timeout=60)
    assert refused.status_code == 413
    assert refused.json()["error"]["message"].endswith(why)
    plain = f'{{"tool_name":"workspace_status","arguments":{{"x":{sent}}}}}'
    refused = httpx2.post(f"{jupyter.mcp}/tools/call", content=plain, headers=headers, timeout=60)
    assert refused.status_code == 400
    assert refused.json()["error"].endswith(why)
