"""Our server beside a bare SDK server, on one transport, in both eras: cold start, idle memory, CPU of a call."""

import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from measure import Memory, Plan, Row, alternating, cpu_seconds, idle_memory, row
from programs import Caller, Program, Running, prepare, running
from wire import ERAS

START_TARGET = 1.5
MEMORY_TARGET = 1.4
CPU_TARGET = 1.3

WARM_CALLS = 20


@dataclass(frozen=True)
class Started:
    """A server that has given its first answer: to `tools/list`, after the handshake if its era has one."""

    server: Running
    caller: Caller
    wall: float
    cpu: float


@dataclass(frozen=True)
class Called:
    """What one call cost the server, and how long the client waited for it, in milliseconds."""

    cpu: float
    wait: float


@dataclass(frozen=True)
class Life:
    """What was measured in two processes, one of ours and one bare, that lived side by side."""

    starts: tuple[Started, Started]
    sizes: tuple[int, int]
    memory: tuple[Memory, Memory]
    calls: list[tuple[Called, Called]]


def serving(transport: str, plan: Plan) -> list[Row]:
    """Start both, let both come to rest, call both in turn; again, with new processes."""
    programs = prepare(transport, plan.work)
    return [found for era in ERAS for found in _rows(f"{transport} {era}", _lives(programs, era, plan))]


def _lives(programs: tuple[Program, Program], era: str, plan: Plan) -> list[Life]:
    return [_life(number, programs, era, plan) for number in range(plan.lives)]


def _life(number: int, programs: tuple[Program, Program], era: str, plan: Plan) -> Life:
    with ExitStack() as stack:
        ours, floor = (partial(_start, program, era, plan.work, stack) for program in programs)
        starts = alternating(number, ours, floor)
        first, second = (started.caller for started in starts)
        sizes = (len(first.first_call()), len(second.first_call()))
        one, other = (started.server.pid for started in starts)
        memory = (idle_memory(one), idle_memory(other))
        for caller in (first, second):
            _call(caller, WARM_CALLS)
        ours, floor = (partial(_call, caller, plan.calls) for caller in (first, second))
        return Life(starts, sizes, memory, [alternating(turn, ours, floor) for turn in range(plan.rounds)])


def _start(program: Program, era: str, work: Path, stack: ExitStack) -> Started:
    began = time.perf_counter()
    server = stack.enter_context(running(program, work))
    caller = stack.enter_context(closing(Caller(server, era)))
    return Started(server, caller, time.perf_counter() - began, cpu_seconds(server.pid))


def _call(caller: Caller, calls: int) -> Called:
    began, spent = time.perf_counter(), cpu_seconds(caller.pid)
    for _ in range(calls):
        caller.call()
    waited, worked = time.perf_counter() - began, cpu_seconds(caller.pid) - spent
    return Called(worked * 1000 / calls, waited * 1000 / calls)


def _rows(where: str, lives: list[Life]) -> list[Row]:
    starts = [life.starts for life in lives]
    memory = [life.memory for life in lives]
    calls = [pair for life in lives for pair in life.calls]
    return [
        row(f"cold start, {where}", "s", [(a.wall, b.wall) for a, b in starts], START_TARGET),
        row(f"cold start, CPU, {where}", "s", [(a.cpu, b.cpu) for a, b in starts]),
        row(f"idle memory, {where}", "MB", [(a.resident, b.resident) for a, b in memory], MEMORY_TARGET),
        row(f"idle memory, unshared, {where}", "MB", [(a.unshared, b.unshared) for a, b in memory]),
        row(f"call, CPU, {where}", "ms", [(a.cpu, b.cpu) for a, b in calls], CPU_TARGET),
        row(f"call, wait, {where}", "ms", [(a.wait, b.wait) for a, b in calls]),
        row(f"call, answer, {where}", "bytes", [life.sizes for life in lives]),
    ]
