"""One call of one tool, and what others notice of it."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from cellwright.app.offers.catalogue import OfferedTool
from cellwright.app.protocol.calls import ToolCalls
from cellwright.app.protocol.results import Answer, answer_error, answer_result, write_result
from cellwright.core.arguments import signature_of
from cellwright.core.errors import NotFound
from cellwright.core.text.tokens import estimate_tokens
from cellwright.core.toolset import Image, Reply, read
from cellwright.core.types import ALL_SCOPES, Call, Principal
from requirements import requirement

CALLER = Call(Principal("anna", ALL_SCOPES))


async def novel(ended: asyncio.Event) -> dict[str, Any]:
    """A result of 20 MB."""
    ended.set()
    return {"text": "It was a dark and stormy night. " * 650_000}


@requirement("tools:result:large")
@pytest.mark.anyio
async def test_a_large_result_keeps_nobody_waiting() -> None:
    ended = asyncio.Event()
    turns = 0

    async def others() -> None:
        nonlocal turns
        await ended.wait()
        while True:
            await asyncio.sleep(0)
            turns += 1

    calls = ToolCalls(6_000, lambda _tool, _outcome, _seconds: None)
    waiting = asyncio.create_task(others())
    answer = await calls.run(CALLER, OfferedTool(read(novel), "tests", ended), {})
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    assert "cellwright/truncated" in answer.meta
    # On the loop itself they would have had no turn between the work's end and the answer.
    assert turns > 10


@requirement("tools:result:large")
@pytest.mark.parametrize(
    ("result", "large"),
    [
        ({"text": "x" * 10_000}, False),
        ({"text": "x" * 60_000}, True),
        ({"cells": [{"source": "x" * 1_000}] * 60}, True),
        ({"numbers": list(range(60_000))}, True),
        (Reply({"a": 1}, ("x" * 60_000,)), True),
        ({}, False),
    ],
)
def test_what_is_large_is_known_before_it_is_cut(result: object, large: bool) -> None:
    assert write_result(result).is_large is large


def _answered(result: object, tokens: int) -> Answer:
    signature = signature_of(novel)
    return answer_result(write_result(result), signature, tokens)


@requirement("web:activity")
@pytest.mark.parametrize(
    "answer",
    [
        _answered({}, 6_000),
        _answered({"text": "It was a dark and stormy night."}, 6_000),
        _answered({"text": "x " * 9_000}, 6_000),
        _answered(Reply({"a": 1}, ("the picture", Image(b"", "image/png"), "below it")), 6_000),
        _answered(Reply({"a": 1}, ("x " * 9_000, "y " * 9_000)), 6_000),
        _answered(Reply({"a": 1}, ("many parts",) * 500), 600),
        answer_error(NotFound("no such pad", hint="list them")),
    ],
    ids=["empty", "small", "cut", "parts", "parts cut", "too many parts", "error"],
)
def test_what_an_answer_costs_is_counted_once_and_rightly(answer: Answer) -> None:
    assert answer.tokens == sum(estimate_tokens(part) for part in answer.content if isinstance(part, str)) > 0
