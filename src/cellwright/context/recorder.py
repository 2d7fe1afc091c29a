"""Records every tool call in the session of its caller, first in memory and from there in the database.

`called` costs a few microseconds. What a call was about is worked out with the next write, which happens in the background and writes all
open sessions in one transaction.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from cellwright.context import sessions
from cellwright.context.model import Session, SessionStatus, Touched
from cellwright.core.errors import CellwrightError
from cellwright.core.text.names import on_one_line
from cellwright.core.types import Call
from cellwright.core.weight import weight
from cellwright.storage.database import Database, Transaction

log = logging.getLogger(__name__)
IDLE_SECONDS = 1_800.0
FLUSH_SECONDS = 0.5
LONGEST_PAUSE = 60.0
MOST_TOUCHED = 2_000
MOST_TOPICS = 12
MOST_NOTED = 256
"""How many calls may wait to be traced; their arguments stay in memory as long."""
LONGEST_NOTED = 2_000
"""Characters of an argument of a call that may wait. Calls with longer arguments, or with lists or objects, are traced at once."""
MOST_REMEMBERED_TERMS = 500
UNWRITTEN_BYTES = 16 * 1024 * 1024
"""How much memory ended sessions may take that cannot be written, as with a full disk. The oldest are given up first."""
WORKED = frozenset({"ok", "failed"})
"""Outcomes of calls that did their work; `failed` means that a cell raised."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What a call was about: the places it touched, and the terms it searched for."""

    touched: tuple[Touched, ...] = ()
    terms: tuple[str, ...] = ()
    discovery: bool = False


TraceOf = Callable[[str, Mapping[str, Any]], Trace]
"""From a tool and its arguments to what the call is about."""


async def _no_preparation() -> None:
    return None


@dataclass(frozen=True, slots=True)
class _NotedCall:
    """A call that is not traced yet."""

    call: Call
    tool: str
    arguments: Mapping[str, Any]
    outcome: str
    moment: float


@dataclass
class _Live:
    """A session that goes on."""

    id: str
    tenant: str
    client: str
    started: float
    last: float
    calls: int = 0
    failures: int = 0
    discoveries: int = 0
    terms: Counter[str] = field(default_factory=Counter[str])
    touched: dict[tuple[str, str], Touched] = field(default_factory=dict[tuple[str, str], Touched])
    fresh: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """The keys of the places that were touched since the last write."""
    dirty: bool = True

    def note(self, trace: Trace, outcome: str, now: float) -> None:
        self.last = now
        self.dirty = True
        self.calls += 1
        self.failures += outcome != "ok"
        self.terms.update(trace.terms)
        if len(self.terms) > 2 * MOST_REMEMBERED_TERMS:
            self.terms = Counter(dict(self.terms.most_common(MOST_REMEMBERED_TERMS)))
        if outcome not in WORKED:
            return
        self.discoveries += trace.discovery
        for place in trace.touched:
            key = (place.kind, place.path)
            before = self.touched.get(key)
            if before is None and len(self.touched) >= MOST_TOUCHED:
                continue
            count, first = (before.count, before.first) if before else (0, now)
            self.touched[key] = replace(place, count=count + 1, first=first, last=now)
            self.fresh.add(key)

    def value(self, topics: tuple[str, ...], ended: float | None = None) -> Session:
        status = SessionStatus.ACTIVE if ended is None else SessionStatus.COMPLETED
        places = tuple(sorted(self.touched.values(), key=lambda place: (-place.count, place.path)))
        counts = (self.calls, self.failures, self.discoveries)
        return Session(self.id, status, self.started, self.last, ended, self.client, *counts, topics, places)


def _is_long(arguments: Mapping[str, Any]) -> bool:
    return any(
        isinstance(value, list | dict) or (isinstance(value, str) and len(value) > LONGEST_NOTED)
        for value in arguments.values()
    )


class Recorder:
    """The sessions of this process. Runs on one event loop."""

    def __init__(
        self,
        database: Database,
        project: str,
        trace_of: TraceOf,
        clock: Callable[[], float],
        *,
        idle: float = IDLE_SECONDS,
        prepare: Callable[[], Awaitable[object]] = _no_preparation,
        module_of: Callable[[str], str | None] = lambda _path: None,
        flushed: Callable[[frozenset[str]], None] = lambda _tenants: None,
    ) -> None:
        """`prepare` is awaited before a write; then `module_of` names the module of a file, for topics.

        `flushed` is called with the tenants whose sessions have changed.
        """
        self._database = database
        self._project = project
        self._trace_of = trace_of
        self._clock = clock
        self._idle = idle
        self._prepare = prepare
        self._module_of = module_of
        self._flushed = flushed
        self._noted: list[_NotedCall] = []
        self._live: dict[str, _Live] = {}
        self._ended: list[tuple[_Live, float]] = []
        self._writing: asyncio.Task[None] | None = None
        self._flushing = asyncio.Lock()
        self._recovered = False
        self._closing = asyncio.Event()

    # -- on the path of a call: memory only ----------------------------------------------------------------------------------

    def called(self, call: Call, tool: str, arguments: Mapping[str, Any], outcome: str) -> None:
        """Note one call. Never waits."""
        self._noted.append(_NotedCall(call, tool, arguments, outcome, self._clock()))
        if len(self._noted) >= MOST_NOTED or _is_long(arguments):
            self._trace_noted()
        self._begin_writing()

    def left(self, session_key: str) -> None:
        """A connection ended, and its session with it."""
        self._trace_noted()
        live = self._live.pop(session_key, None)
        if live is not None:
            self._ended.append((live, self._clock()))
            with suppress(RuntimeError):
                # Without a loop there is nobody left to serve; `close` writes it.
                self._begin_writing()

    def _begin_writing(self) -> None:
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write_soon())

    def _trace_noted(self) -> None:
        noted_calls, self._noted = self._noted, []
        for noted in noted_calls:
            live = self._session_at(noted.call, noted.moment)
            live.note(self._trace_of(noted.tool, noted.arguments), noted.outcome, noted.moment)

    def _session_at(self, call: Call, now: float) -> _Live:
        live = self._live.get(call.session)
        if live is not None and now - live.last > self._idle:
            self._ended.append((self._live.pop(call.session), live.last))
            live = None
        if live is None:
            live = _Live(secrets.token_hex(8), call.principal.id, on_one_line(call.client[:200]), now, now)
            self._live[call.session] = live
        return live

    # -- off the path --------------------------------------------------------------------------------------------------------

    def current(self, call: Call) -> Session | None:
        """The caller's session as it is at this moment."""
        self._trace_noted()
        live = self._live.get(call.session)
        if live is None or self._clock() - live.last > self._idle:
            return None
        return live.value(self._topics(live))

    def session_id(self, call: Call) -> str:
        """The id of the call's session, which is new if the call is its first."""
        self._trace_noted()
        return self._session_at(call, self._clock()).id

    def _topics(self, live: _Live) -> tuple[str, ...]:
        """What the session was about. A module that it touched counts twice as much as a search term."""
        weights = Counter(live.terms)
        for place in live.touched.values():
            module = self._module_of(place.path) if place.kind in {"file", "notebook"} else None
            if module:
                weights[module] += 2 * place.count
        ranked = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
        return tuple(term for term, _ in ranked[:MOST_TOPICS])

    async def _write_soon(self) -> None:
        """Write a moment after a call, and again for calls that came during the write."""
        pause = FLUSH_SECONDS
        while self._has_unwritten() and not self._closing.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), pause)
            try:
                await self.flush()
                pause = FLUSH_SECONDS
            except CellwrightError as error:
                # What is recorded stays in memory and goes with the next write.
                log.warning("session_not_written reason=%s", error.code)
                self._give_up_oldest()
                pause = min(2 * pause, LONGEST_PAUSE)

    def _give_up_oldest(self) -> None:
        weights = [weight(live) for live, _ in self._ended]
        excess, count = sum(weights) - UNWRITTEN_BYTES, 0
        while excess > 0:
            excess -= weights[count]
            count += 1
        if count:
            log.warning("sessions_given_up count=%s", count)
            del self._ended[:count]

    def _has_unwritten(self) -> bool:
        return bool(self._noted or self._ended or any(live.dirty for live in self._live.values()))

    async def flush(self) -> None:
        """Write what has changed. When this returns, everything is on disk, also what another flush had begun to write."""
        async with self._flushing:
            await self._flush()

    async def _flush(self) -> None:
        await self._prepare()
        self._trace_noted()
        for key, live in tuple(self._live.items()):
            if self._clock() - live.last > self._idle:
                self._ended.append((self._live.pop(key), live.last))
        ended, self._ended = self._ended, []
        unwritten = [live for live in self._live.values() if live.dirty]
        tenant_sessions = [(live.tenant, self._fresh(live, None)) for live in unwritten]
        tenant_sessions += [(live.tenant, self._fresh(live, moment)) for live, moment in ended]
        if not tenant_sessions and self._recovered:
            return
        now, first = self._clock(), not self._recovered

        def work(tx: Transaction) -> None:
            if first:
                sessions.recover(tx, self._project, self._idle, now)
            for tenant, session in tenant_sessions:
                sessions.save(tx, self._project, tenant, session)

        try:
            await self._database.write(work)
        except (CellwrightError, asyncio.CancelledError):
            # Whether it was written may be unknown. Writing it twice changes nothing.
            self._ended = ended + self._ended
            lives = [*unwritten, *(live for live, _ in ended)]
            for live, (_, session) in zip(lives, tenant_sessions, strict=True):
                live.dirty = True
                live.fresh |= {(place.kind, place.path) for place in session.touched}
            raise
        self._recovered = True
        self._flushed(frozenset(tenant for tenant, _ in tenant_sessions))

    def _fresh(self, live: _Live, ended: float | None) -> Session:
        """The session with only the places that were touched since the last write."""
        session = live.value(self._topics(live), ended)
        places = tuple(live.touched[key] for key in sorted(live.fresh))
        live.fresh, live.dirty = set(), False
        return replace(session, touched=places)

    async def close(self) -> None:
        """End every session and write it."""
        self._closing.set()
        if self._writing is not None:
            # Not cancelled: it may be in the middle of a write.
            await self._writing
        self._trace_noted()
        now = self._clock()
        self._ended += [(live, now) for live in self._live.values()]
        self._live = {}
        if self._ended:
            try:
                await self.flush()
            except CellwrightError as error:
                log.warning("sessions_not_written reason=%s", error.code)
