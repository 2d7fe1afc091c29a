"""When a request may begin: at once, after a wait in its caller's line, or not at all.

Every caller has a line of its own, so that nobody waits for another caller's requests. Within a line the sources (sessions, or else
addresses) take turns, so that a client which sends hundreds of requests at once does not delay another client with the same token. A
request counts as a request while it is short. Long requests, and streams from their beginning, are counted apart and never block a
request.
"""

import asyncio
import ipaddress
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Self

from cellwright.app.http.refusal import Refusal
from cellwright.app.settings import Settings

RATE_ELSEWHERE = 100.0
"""Requests a second for each caller, where other machines can reach us and the operator has set nothing."""
SHORT_SECONDS = 1.0
"""A request that takes longer is a long call: it gives its place to the next request and counts as a stream."""
MOST_WAITING = 1_000
MOST_WAITING_BYTES = 64 * 1024 * 1024
MAX_LINES = 10_000
OWN_TOKENS = "give each client a token of its own (`cellwright token create NAME`)"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class TurnLimits:
    """How much one caller may send, and how long it waits for its turn."""

    max_body: int
    body_timeout: float
    rate: float
    """Requests a second; 0 means no limit."""
    burst: int
    max_in_flight: int
    max_streams: int
    max_wait: float
    most_waiting: int = MOST_WAITING

    def within(self, connections: int) -> Self:
        """These limits on a server with so many connections, of which one caller never has all."""
        return replace(
            self,
            max_streams=max(1, min(self.max_streams, connections // 2)),
            most_waiting=max(1, min(self.most_waiting, connections // 4)),
        )


def limits_of(settings: Settings, host: str) -> TurnLimits:
    """The limits of a server that listens on `host`."""
    automatic = 0.0 if is_loopback(host) else RATE_ELSEWHERE
    return TurnLimits(
        settings.max_body,
        settings.body_timeout,
        automatic if settings.rate is None else settings.rate,
        settings.burst,
        settings.max_in_flight,
        settings.max_streams,
        settings.max_wait,
    )


class TokenBucket:
    """A token bucket: `rate` a second, `burst` at once. Rate 0 means no limit."""

    __slots__ = ("_burst", "_level", "_rate", "_since")

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._level, self._since = float(burst), now

    def seconds_to_next(self, now: float) -> float:
        """Seconds until the next token is there."""
        if not self._rate:
            return 0.0
        self._level = min(self._burst, self._level + (now - self._since) * self._rate)
        self._since = now
        return max(0.0, (1 - self._level) / self._rate)

    def take(self, now: float) -> bool:
        """Take a token, if there is one; whether there was."""
        if self.seconds_to_next(now) > 0:
            return False
        self._level -= 1
        return True

    def is_full(self, now: float) -> bool:
        """Whether it holds as many tokens as a new one."""
        self.seconds_to_next(now)
        return not self._rate or self._level >= self._burst


class Buckets:
    """Token buckets by key. The bucket that was not used for longest is dropped first."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: dict[str, TokenBucket] = {}

    def take(self, key: str) -> bool:
        """Whether one more request is allowed now."""
        now = self._clock()
        # Inserted again at the end, so the first keys are those that were not used for longest.
        bucket = self._buckets[key] = self._buckets.pop(key, None) or TokenBucket(self._rate, self._burst, now)
        if len(self._buckets) > MAX_LINES:
            del self._buckets[next(iter(self._buckets))]
        return bucket.take(now)


class Turn:
    """A request or stream that was let in. Its holder must call `end`."""

    __slots__ = ("_line", "began")

    def __init__(self, line: "Line", began: float) -> None:
        self._line, self.began = line, began

    def end(self) -> None:
        self._line.leave(self)


@dataclass(eq=False, slots=True)
class _Waiting:
    source: str
    size: int
    is_stream: bool
    turn: asyncio.Future[Turn]


class Line:
    """The requests of one caller: those that are being served, those that wait, and the streams."""

    def __init__(self, limits: TurnLimits, clock: Callable[[], float], on_idle: Callable[[], None]) -> None:
        self._limits, self._clock, self._on_idle = limits, clock, on_idle
        self._bucket = TokenBucket(limits.rate, limits.burst, clock())
        self._served: dict[Turn, None] = {}
        """In the order in which they began."""
        self._streams: set[Turn] = set()
        self._waiting: dict[str, deque[_Waiting]] = {}
        """By source; the source whose turn it is comes first."""
        self._waiting_count = self._waiting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        return not (self._served or self._streams or self._waiting)

    def is_as_new(self) -> bool:
        """Whether nothing is lost if this line is dropped."""
        return self.is_idle and self._bucket.is_full(self._clock())

    async def join(
        self, source: str, size: int, client_left: Callable[[], Awaitable[None]], *, is_stream: bool
    ) -> Turn:
        """Wait for a turn, or raise a Refusal that says what to do. `client_left` returns when the client has gone away."""
        if is_stream and len(self._streams) >= self._limits.max_streams:
            raise self._too_many_streams()
        if not self._waiting and self._seconds_to_next(is_stream=is_stream) == 0:
            return self._begin(is_stream=is_stream)
        if self._waiting_count >= self._limits.most_waiting or self._waiting_bytes + size > MOST_WAITING_BYTES:
            raise self._too_many()
        return await self._wait(
            _Waiting(source, size, is_stream, asyncio.get_running_loop().create_future()), client_left
        )

    def leave(self, turn: Turn) -> None:
        self._served.pop(turn, None)
        self._streams.discard(turn)
        self._advance()
        if self.is_idle:
            self._on_idle()

    async def _wait(self, waiting: _Waiting, client_left: Callable[[], Awaitable[None]]) -> Turn:
        self._waiting.setdefault(waiting.source, deque()).append(waiting)
        self._waiting_count += 1
        self._waiting_bytes += waiting.size
        self._advance()
        leaving = asyncio.ensure_future(client_left())
        try:
            await asyncio.wait(
                {waiting.turn, leaving}, timeout=self._limits.max_wait, return_when=asyncio.FIRST_COMPLETED
            )
        except asyncio.CancelledError:
            if waiting.turn.done():
                waiting.turn.result().end()
            raise
        finally:
            leaving.cancel()
            if not waiting.turn.done():
                self._take_out(waiting)
                self._advance()  # the next in line may be a stream, which needs less
                if self.is_idle:
                    self._on_idle()
        if waiting.turn.done():
            return waiting.turn.result()
        raise Refusal(400, "the client left before its turn") if leaving.done() else self._too_many()

    def _take_out(self, waiting: _Waiting) -> None:
        queue = self._waiting[waiting.source]
        queue.remove(waiting)
        if not queue:
            del self._waiting[waiting.source]
        self._waiting_count -= 1
        self._waiting_bytes -= waiting.size

    def _advance(self) -> None:
        """Let in everything that may begin now, taking the sources in turn, and come back when the next one may begin."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            source, queue = next(iter(self._waiting.items()))
            waiting = queue[0]
            seconds = self._seconds_to_next(is_stream=waiting.is_stream)
            if seconds is None:
                return  # the next turn that ends calls this again
            if seconds > 0:
                self._timer = asyncio.get_running_loop().call_later(seconds, self._advance)
                return
            self._take_out(waiting)
            if queue:
                self._waiting[source] = self._waiting.pop(source)
            waiting.turn.set_result(self._begin(is_stream=waiting.is_stream))

    def _begin(self, *, is_stream: bool) -> Turn:
        now = self._clock()
        self._bucket.take(now)
        turn = Turn(self, now)
        if is_stream:
            self._streams.add(turn)
        else:
            self._served[turn] = None
        return turn

    def _seconds_to_next(self, *, is_stream: bool) -> float | None:
        """Seconds until the next one may begin; None if that depends on when another one ends."""
        now = self._clock()
        seconds_to_token = self._bucket.seconds_to_next(now)
        if is_stream or len(self._served) < self._limits.max_in_flight:
            return seconds_to_token
        if len(self._streams) >= self._limits.max_streams:
            return None
        oldest = next(iter(self._served))
        seconds_to_place = oldest.began + SHORT_SECONDS - now
        if seconds_to_place > 0:
            return max(seconds_to_place, seconds_to_token)
        # The oldest request is a long call from now on.
        del self._served[oldest]
        self._streams.add(oldest)
        return seconds_to_token

    def _too_many(self) -> Refusal:
        limits = self._limits
        rate = f"{limits.rate:g} requests a second and " if limits.rate else ""
        return Refusal(
            429,
            f"too many requests: this token may send {rate}{limits.max_in_flight} at once, and this one waited for its turn in vain",
            {"retry-after": "5"},
            hint="nothing was done; try again in a moment, send fewer at once, or "
            f"{OWN_TOKENS}; the operator can raise --rate and --max-in-flight",
        )

    def _too_many_streams(self) -> Refusal:
        return Refusal(
            429,
            f"too many streams: this token has {len(self._streams)} streams and long calls open, which is all it may have",
            {"retry-after": "30"},
            hint=f"close clients that are not used any more, or {OWN_TOKENS}; the operator can raise --max-streams, up to half "
            "of all connections",
        )


class Turns:
    """The lines of all callers."""

    def __init__(self, limits: TurnLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._lines: dict[str, Line] = {}

    @property
    def lines(self) -> int:
        return len(self._lines)

    async def join(
        self, caller: str, source: str, size: int, client_left: Callable[[], Awaitable[None]], *, is_stream: bool
    ) -> Turn:
        """A turn for a request of `size` bytes of this caller; see `Line.join`."""
        line = self._lines.pop(caller, None) or Line(self._limits, self._clock, lambda: self._forget(caller))
        # Inserted again at the end, so the first lines are those that were not used for longest.
        self._lines[caller] = line
        if len(self._lines) > MAX_LINES:
            idle = next((name for name, line in self._lines.items() if line.is_idle and name != caller), None)
            if idle is not None:
                del self._lines[idle]
        return await line.join(source, size, client_left, is_stream=is_stream)

    def _forget(self, caller: str) -> None:
        """Drop an idle line if its bucket is full again: it holds nothing else that matters."""
        line = self._lines.get(caller)
        if line is not None and line.is_as_new():
            del self._lines[caller]
