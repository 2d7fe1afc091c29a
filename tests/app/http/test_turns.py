"""The lines in which requests wait for their turn."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

import pytest
from starlette.types import Message

from cellwright.app.http import turns
from cellwright.app.http.receiving import Incoming
from cellwright.app.http.refusal import Refusal
from cellwright.app.http.turns import (
    MOST_WAITING,
    MOST_WAITING_BYTES,
    RATE_ELSEWHERE,
    Turn,
    TurnLimits,
    Turns,
    limits_of,
)
from cellwright.app.settings import Settings
from requirements import requirement
from support import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

LIMITS = TurnLimits(max_body=1024, body_timeout=1, rate=0, burst=1, max_in_flight=1, max_streams=2, max_wait=30)


async def stays() -> None:
    """A client that does not leave."""
    await asyncio.Event().wait()


def joining(
    lines: Turns, caller: str = "me", source: str = "here", size: int = 0, *, is_stream: bool = False
) -> Awaitable[Turn]:
    return lines.join(caller, source, size, stays, is_stream=is_stream)


class Frozen:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@requirement("limits:wait")
async def test_the_next_begins_when_one_ends_and_in_the_order_of_their_coming() -> None:
    lines = Turns(LIMITS, Frozen())
    first = await joining(lines)
    began: list[int] = []

    async def one(number: int) -> None:
        turn = await joining(lines)
        began.append(number)
        turn.end()

    tasks = [asyncio.create_task(one(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert began == []
    first.end()
    await asyncio.gather(*tasks)
    assert began == [0, 1, 2, 3, 4]
    assert lines.lines == 0, "nothing is kept of who has nothing here"


@requirement("limits:wait")
async def test_who_waited_in_vain_is_told_what_to_do() -> None:
    lines = Turns(replace(LIMITS, max_wait=0.05), Frozen())
    held = await joining(lines)
    with pytest.raises(Refusal) as refused:
        await joining(lines)
    assert refused.value.status == 429
    assert "nothing was done" in refused.value.message
    assert "cellwright token create" in refused.value.message
    assert refused.value.headers == {"retry-after": "5"}
    held.end()
    (await joining(lines)).end()


@requirement("limits:wait")
async def test_over_the_rate_a_request_begins_when_the_bucket_has_one() -> None:
    clock = Frozen()
    lines = Turns(replace(LIMITS, rate=1_000, burst=2, max_in_flight=10), clock)
    for _ in range(2):
        (await joining(lines)).end()
    waiting = asyncio.create_task(lines.join("me", "here", 0, stays, is_stream=False))
    await asyncio.sleep(0.01)  # the bucket's own timer runs by the real clock and finds it still empty
    assert not waiting.done()
    clock.now += 0.002
    (await asyncio.wait_for(waiting, 20)).end()


@requirement("limits:fair")
async def test_another_caller_begins_at_once() -> None:
    lines = Turns(LIMITS, Frozen())
    held = await joining(lines, "busy")
    waiting = asyncio.create_task(lines.join("busy", "here", 0, stays, is_stream=False))
    await asyncio.sleep(0)
    (await joining(lines, "other")).end()
    assert not waiting.done()
    held.end()
    (await waiting).end()


@requirement("limits:fair")
async def test_the_clients_of_one_caller_take_turns() -> None:
    lines = Turns(LIMITS, Frozen())
    held = await joining(lines)
    began: list[str] = []

    async def one(source: str) -> None:
        turn = await joining(lines, source=source)
        began.append(source)
        turn.end()

    tasks = [asyncio.create_task(one("flood")) for _ in range(100)]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(one("calm")) for _ in range(2)]
    await asyncio.sleep(0)
    held.end()
    await asyncio.gather(*tasks)
    assert began[:5] == ["flood", "calm", "flood", "calm", "flood"]


@requirement("limits:bounded")
async def test_a_line_is_bounded_in_number_and_in_bytes() -> None:
    lines = Turns(LIMITS, Frozen())
    held = await joining(lines)
    tasks = [asyncio.create_task(lines.join("me", "here", 10, stays, is_stream=False)) for _ in range(MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(Refusal, match="too many requests"):
        await joining(lines)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    large = asyncio.create_task(lines.join("me", "here", MOST_WAITING_BYTES, stays, is_stream=False))
    await asyncio.sleep(0)
    with pytest.raises(Refusal, match="too many requests"):
        await joining(lines, size=1)
    held.end()
    (await large).end()
    assert lines.lines == 0


@requirement("limits:bounded")
async def test_who_leaves_is_taken_out_of_the_line() -> None:
    lines = Turns(LIMITS, Frozen())
    held = await joining(lines)
    left = asyncio.Event()

    async def leaves() -> None:
        await left.wait()

    waiting = asyncio.create_task(lines.join("me", "here", MOST_WAITING_BYTES, leaves, is_stream=False))
    await asyncio.sleep(0)
    left.set()
    with pytest.raises(Refusal, match="the client left"):
        await waiting
    after = asyncio.create_task(lines.join("me", "here", MOST_WAITING_BYTES, stays, is_stream=False))
    await asyncio.sleep(0)
    assert not after.done(), "there is room in the line again"
    held.end()
    (await after).end()


@requirement("limits:bounded")
async def test_a_turn_is_not_lost_with_a_client_that_is_cut_off_as_it_gets_it() -> None:
    lines = Turns(LIMITS, Frozen())
    held = await joining(lines)
    waiting = asyncio.create_task(lines.join("me", "here", 0, stays, is_stream=False))
    await asyncio.sleep(0)
    held.end()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    (await asyncio.wait_for(joining(lines), 20)).end()


@requirement("limits:streams")
async def test_streams_are_not_requests_and_have_their_own_bound() -> None:
    lines = Turns(LIMITS, Frozen())
    request = await joining(lines)
    streams = [await joining(lines, is_stream=True) for _ in range(2)]
    with pytest.raises(Refusal) as refused:
        await joining(lines, is_stream=True)
    assert "this token has 2 streams" in refused.value.message
    assert "--max-streams" in refused.value.message
    streams.pop().end()
    streams.append(await joining(lines, is_stream=True))
    for turn in (request, *streams):
        turn.end()


@requirement("limits:streams")
async def test_a_request_that_lasts_gives_its_place_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SHORT_SECONDS", 0.02)
    lines = Turns(LIMITS)
    long = [await joining(lines) for _ in range(3)]  # two become streams, which is all that there may be
    after = asyncio.create_task(lines.join("me", "here", 0, stays, is_stream=False))
    await asyncio.sleep(0.1)
    assert not after.done(), "a third long call holds its place: the bound of streams is not exceeded"
    long.pop().end()
    (await after).end()
    for turn in long:
        turn.end()
    assert lines.lines == 0


@requirement("limits:bounded")
async def test_of_a_waiting_request_one_part_is_taken_and_nothing_of_it_is_lost() -> None:
    sent: asyncio.Queue[Message] = asyncio.Queue()
    parts: list[Message] = [{"type": "http.request", "body": bytes([n]), "more_body": n < 3} for n in range(4)]
    for part in parts:
        sent.put_nowait(part)
    incoming = Incoming(sent.get)
    waiting = asyncio.create_task(incoming.left())
    await until(lambda: sent.qsize() == 3, "the first part")
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    assert [await incoming() for _ in range(4)] == parts
    noticing = asyncio.create_task(incoming.left())
    sent.put_nowait({"type": "http.disconnect"})
    await asyncio.wait_for(noticing, 20)


@requirement("limits:rate")
@pytest.mark.parametrize(
    ("host", "rate", "limit"),
    [
        ("127.0.0.1", None, 0),
        ("localhost", None, 0),
        ("::1", None, 0),
        ("0.0.0.0", None, RATE_ELSEWHERE),
        ("", None, RATE_ELSEWHERE),
        ("lab.example", None, RATE_ELSEWHERE),
        ("127.0.0.1", 5.0, 5),
        ("lab.example", 0.0, 0),
    ],
)
def test_the_rate_follows_the_address_unless_it_is_set(host: str, rate: float | None, limit: float) -> None:
    assert limits_of(Settings(rate=rate), host).rate == limit
