"""Our server beside a bare SDK server: cold start, idle memory, CPU per call, on both transports, in both eras."""

import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from measure import Memory, Pair, Plan, Row, alternating, cpu_seconds, idle_memory, row
from programs import TRANSPORTS, Caller, Program, prepare, running
from wire import ERAS, result_of

START_TARGET = 1.5
MEMORY_TARGET = 1.4
CPU_TARGET = 1.3

WARM_CALLS = 20


@dataclass(frozen=True)
class Started:
    """From nothing to the first answer, in seconds."""

    wall: float
    cpu: float


def cold_start(plan: Plan) -> list[Row]:
    """From starting the process to its first answer to `tools/list`, after the handshake if the era has one."""
    programs = prepare(plan.work)
    kinds = [(transport, era) for transport in TRANSPORTS for era in ERAS]
    starts: dict[tuple[str, str], list[tuple[Started, Started]]] = {kind: [] for kind in kinds}
    for number in range(plan.starts):
        for transport, era in kinds:
            mine, floor = (partial(_start, program, era, plan.work) for program in programs[transport])
            starts[transport, era].append(alternating(number, mine, floor))
    rows: list[Row] = []
    for (transport, era), pairs in starts.items():
        where = f"{transport} {era}"
        rows.append(row(f"cold start, {where}", "s", [(a.wall, b.wall) for a, b in pairs], START_TARGET))
        rows.append(row(f"cold start, CPU alone, {where}", "s", [(a.cpu, b.cpu) for a, b in pairs]))
    return rows


def _start(program: Program, era: str, work: Path) -> Started:
    began = time.perf_counter()
    with running(program, work) as server, closing(server.connect(era)) as session:
        answer = session.ask("tools/list", {})
        started = Started(time.perf_counter() - began, cpu_seconds(server.pid))
        result_of(answer)
    return started


def serving(plan: Plan) -> list[Row]:
    """Memory once the first answers are given, then the CPU of many calls, in processes that live side by side."""
    return [
        found
        for transport, (mine, floor) in prepare(plan.work).items()
        for era in ERAS
        for found in _serving(mine, floor, f"{transport} {era}", era, plan)
    ]


def _serving(mine: Program, floor: Program, where: str, era: str, plan: Plan) -> list[Row]:
    memory: list[tuple[Memory, Memory]] = []
    sizes: list[Pair] = []
    calls: list[tuple[Pair, Pair]] = []
    for _ in range(plan.processes):
        with (
            running(mine, plan.work) as one,
            running(floor, plan.work) as other,
            closing(Caller(one, era)) as first,
            closing(Caller(other, era)) as second,
        ):
            sizes.append((len(first.answer), len(second.answer)))
            memory.append((idle_memory(one.pid), idle_memory(other.pid)))
            calls += _rounds(first, second, plan)
    return [
        row(f"idle memory, {where}", "MB", [(a.resident, b.resident) for a, b in memory], MEMORY_TARGET),
        row(f"idle memory, unshared, {where}", "MB", [(a.unshared, b.unshared) for a, b in memory]),
        row(f"call, CPU, {where}", "ms", [(a[0], b[0]) for a, b in calls], CPU_TARGET),
        row(f"call, wait, {where}", "ms", [(a[1], b[1]) for a, b in calls]),
        row(f"call, answer, {where}", "bytes", sizes),
    ]


def _rounds(first: Caller, second: Caller, plan: Plan) -> list[tuple[Pair, Pair]]:
    for caller in (first, second):
        caller.call(WARM_CALLS)
    one, other = (partial(caller.call, plan.calls) for caller in (first, second))
    return [alternating(number, one, other) for number in range(plan.rounds)]
