"""Numbers: what a benchmark is and gives, ratios of paired rounds, and what another process spends."""

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

T = TypeVar("T")

QUIET_WINDOW_SECONDS = 0.1
QUIET_CPU_SECONDS = 0.002
QUIET_BOUND_SECONDS = 5.0


@dataclass(frozen=True)
class Plan:
    """How much is measured, and a folder for what that needs."""

    work: Path
    lives: int
    """How often each server is started and measured anew: one process differs from the next."""
    rounds: int
    """Rounds of calls in each life."""
    calls: int
    """Calls of each server in one round: few, so that both sides of a round see the same weather."""


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, ours beside its floor, and how far apart they may be."""

    name: str
    unit: str
    ours: float
    floor: float
    ratio: float
    """The median of the rounds' own ratios, not the ratio of the medians: a slow moment hits both sides of a round."""
    low: float
    high: float
    """Between these two lies the middle half of the ratios."""
    quiet: float
    """The ratio of both sides' quickest tenths: what is left when nobody else uses the machine."""
    rounds: int
    target: float | None = None
    """The largest ratio we promise; None for a line that is only told."""

    @property
    def over(self) -> bool:
        return self.target is not None and self.ratio > self.target


Benchmark = Callable[[Plan], list[Row]]
Pair = tuple[float, float]
"""Ours and the floor, measured next to each other in one round."""


def row(name: str, unit: str, pairs: Sequence[Pair], target: float | None = None) -> Row:
    """The rounds of one measurement as a line."""
    ratios = sorted(ours / floor for ours, floor in pairs)
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return Row(
        name,
        unit,
        ours=statistics.median(ours for ours, _ in pairs),
        floor=statistics.median(floor for _, floor in pairs),
        ratio=statistics.median(ratios),
        low=low,
        high=high,
        quiet=_quickest(ours for ours, _ in pairs) / _quickest(floor for _, floor in pairs),
        rounds=len(ratios),
        target=target,
    )


def _quickest(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 10]


def alternating(round_number: int, measure_ours: Callable[[], T], measure_floor: Callable[[], T]) -> tuple[T, T]:
    """Ours and the floor, measured next to each other; which one goes first changes from round to round."""
    if round_number % 2:
        floor = measure_floor()
        return measure_ours(), floor
    ours = measure_ours()
    return ours, measure_floor()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and all its threads, also of threads that ended."""
    if sys.platform == "linux":
        # The kernel's clock of another process, in nanoseconds; /proc/PID/stat counts in steps of 10 ms.
        return time.clock_gettime((~pid << 3) | 2)
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


@dataclass(frozen=True)
class Memory:
    """What a process and its children hold, in MB."""

    resident: float
    unshared: float
    """Pages that nobody shares: what ending it would give back."""


def idle_memory(pid: int) -> Memory:
    """Memory once the process has nothing left to do."""
    wait_until_quiet(pid)
    root = psutil.Process(pid)
    family = [root, *root.children(recursive=True)]
    found = [process.memory_full_info() for process in family]
    return Memory(sum(one.rss for one in found) / 1e6, sum(one.uss for one in found) / 1e6)


def wait_until_quiet(pid: int) -> None:
    """Return once the process has nothing left to do, or after a bound."""
    end = time.monotonic() + QUIET_BOUND_SECONDS
    while time.monotonic() < end:
        before = cpu_seconds(pid)
        time.sleep(QUIET_WINDOW_SECONDS)
        if cpu_seconds(pid) - before < QUIET_CPU_SECONDS:
            return
