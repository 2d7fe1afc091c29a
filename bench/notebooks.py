"""Live notebooks through MCP, each row beside the least that does the same: bare SDK, raw ZMQ, raw Y clients, os.walk."""

import asyncio
import dataclasses
import os
import statistics
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from measure import Memory, Pair, Plan, Row, alternating, idle_memory, row, wait_until_quiet
from programs import HTTP, Program, Running, bare, ours, running, write_answer
from raw import RawKernel, RawRoom
from wire import MODERN, Session, result_of
from workspace import Workspace, workspace, write_many, write_notebook

RUN_TARGET = 2.5
READ_TARGET = 2.0
OUTLINE_TARGET = 6.0
EDIT_TARGET = 4.0
GROWTH_TARGET = 1.3
LIST_TARGET = 3.0
PAGE_TARGET = 2.0
SEEN_TARGET = 3.0
FLOOD_TARGET = 1.5
MEMORY_TARGET = 1.3

MORE_ROUNDS = 2
"""There is one Jupyter server and one life: rounds for each of the plan's."""
WARM_CALLS = 10
HEAVY_CALLS = 5
MANY = 10_000
FAR_WALKS = 3
FLOOD = 'for _ in range(200_000):\n    print("x" * 99)'
FLOODS = 5
MEMORY_LIVES = 5

SMALL, LARGE, THOUSAND, USUAL, FLOODED = "small.ipynb", "large.ipynb", "thousand.ipynb", "usual.ipynb", "flood.ipynb"
Action = Callable[[], object]
Timing = Callable[[], float]


@dataclass(frozen=True)
class Setting:
    """What all rows need: the servers, and a client of ours."""

    plan: Plan
    at: Workspace
    program: Program
    server: Running
    session: Session

    @property
    def rounds(self) -> range:
        return range(self.plan.rounds * (MORE_ROUNDS if self.plan.lives > 1 else 1))


def notebooks(plan: Plan) -> list[Row]:
    """One Jupyter server, one of ours that has found it, every row in turn."""
    with workspace(plan.work) as at:
        _write_notebooks(at.root)
        found_by_runtime_file = {"JUPYTER_RUNTIME_DIR": str(at.runtime)}
        mine = ours(HTTP)
        program = dataclasses.replace(
            mine, command=(*mine.command, "--root", str(at.root)), environment=found_by_runtime_file
        )
        with running(program, plan.work) as server, closing(server.connect(MODERN)) as session:
            setting = Setting(plan, at, program, server, session)
            return [found for rows in ROWS for found in rows(setting)]


def _write_notebooks(root: Path) -> None:
    for name, cells in ((SMALL, 10), (USUAL, 100), (THOUSAND, 1_000), (LARGE, 10_000)):
        sources = [f"# step {number}\nvalue = 000000" for number in range(cells)]
        write_notebook(root / name, ["1+1", *sources[1:]])
    write_notebook(root / FLOODED, [FLOOD])
    write_many(root / "many", MANY)


def timed(action: Action, calls: int) -> float:
    """Milliseconds for each call. What was answered is looked at afterwards: a refusal would be quick."""
    began = time.perf_counter()
    answers = [action() for _ in range(calls)]
    took = time.perf_counter() - began
    for answer in answers:
        if isinstance(answer, bytes):
            result_of(answer)
    return took * 1000 / calls


@contextmanager
def echoing(work: Path, action: Callable[[], bytes]) -> Generator[Action]:
    """The bare SDK server, answering what `action` answers; both have been called before they are measured."""
    file = work / f"answer-{time.monotonic_ns()}.json"
    write_answer(file, result_of(action()))
    with running(bare(HTTP, file), work) as other, closing(other.connect(MODERN)) as session:
        echo = partial(session.call, "echo")
        timed(echo, WARM_CALLS)
        timed(action, WARM_CALLS)
        yield echo


def beside(rounds: range, calls: int, action: Action, *floors: Action) -> list[Pair]:
    """Rounds of our action and of all that a floor is made of, one after the other."""

    def floor() -> float:
        return sum(timed(one, calls) for one in floors)

    return [alternating(number, partial(timed, action, calls), floor) for number in rounds]


def running_a_cell(setting: Setting) -> list[Row]:
    call = partial(setting.session.call, "execute_nb_cells", {"path": SMALL, "ranges": [{"start": 0}]})
    with echoing(setting.plan.work, call) as echo, closing(RawKernel(setting.at.kernel_file(SMALL))) as kernel:
        run = partial(kernel.run, "1+1")
        timed(run, WARM_CALLS)
        pairs = beside(setting.rounds, setting.plan.calls, call, run, echo)
    return [row("notebook: run 1+1, beside raw ZMQ + echo", "ms", pairs, RUN_TARGET)]


def reading(setting: Setting) -> list[Row]:
    call = partial(setting.session.call, "read_nb_cells", {"path": LARGE, "ranges": [{"start": 5_000}]})
    with echoing(setting.plan.work, call) as echo:
        pairs = beside(setting.rounds, setting.plan.calls, call, echo)
    return [row("notebook: read one cell of 10,000, beside echo", "ms", pairs, READ_TARGET)]


def outlining(setting: Setting) -> list[Row]:
    call = partial(setting.session.call, "get_nb_stat", {"path": THOUSAND, "outline": True})
    with echoing(setting.plan.work, call) as echo:
        pairs = beside(setting.rounds, setting.plan.calls, call, echo)
    return [row("notebook: outline of 1,000 cells, beside echo", "ms", pairs, OUTLINE_TARGET)]


def listing(setting: Setting) -> list[Row]:
    call = partial(setting.session.call, "list_nbs", {"path": "many"})

    def walk() -> None:
        found = [name for _, _, names in os.walk(setting.at.root / "many") for name in names if name.endswith(".ipynb")]
        assert len(found) == MANY

    with echoing(setting.plan.work, call) as echo:
        pairs = beside(setting.rounds, min(HEAVY_CALLS, setting.plan.calls), call, walk, echo)
    return [row("notebook: list 10,000, beside os.walk + echo", "ms", pairs, LIST_TARGET)]


def listing_far(setting: Setting) -> list[Row]:
    """The same folder of a server that is known by its address alone: walked over REST once, then paged from what is kept."""
    mine, at = ours(HTTP), setting.at
    named = (*mine.command, "--root", str(setting.plan.work), "--jupyter-url", at.url)
    program = dataclasses.replace(mine, command=named, environment={"CELLWRIGHT_JUPYTER_TOKEN": at.token})
    with running(program, setting.plan.work) as server, closing(server.connect(MODERN)) as session:
        first = partial(session.call, "list_nbs", {"path": "many", "refresh": True})
        following = partial(session.call, "list_nbs", {"path": "many", "offset": MANY // 2})
        walks = [
            alternating(number, partial(timed, first, 1), partial(timed, partial(_asked, at), 1))
            for number in range(FAR_WALKS)
        ]
        with echoing(setting.plan.work, following) as echo:
            pages = beside(setting.rounds, setting.plan.calls, following, echo)
    return [
        row("notebook: list 10,000 far away, beside one request after the other", "ms", walks),
        row("notebook: list 10,000 far away, a further page, beside echo", "ms", pages, PAGE_TARGET),
    ]


def _asked(at: Workspace) -> None:
    """The least that knows the same: every folder in turn."""
    pending, found = ["many"], 0
    while pending:
        entries = at.ask("GET", f"api/contents/{pending.pop()}?content=1&type=directory")["content"]
        pending += [entry["path"] for entry in entries if entry["type"] == "directory"]
        found += sum(entry["path"].endswith(".ipynb") for entry in entries)
    assert found == MANY


class Edits:
    """Edits of one cell through MCP, each different from the last."""

    def __init__(self, setting: Setting, path: str, cell: int) -> None:
        self._session = setting.session
        self._at: dict[str, Any] = {"path": path, "cell": cell}
        self._number = 0

    @property
    def following(self) -> str:
        """How the cell ends after the next edit."""
        return f"{self._number + 1:06}"

    def __call__(self) -> bytes:
        arguments = {**self._at, "old": f"value = {self._number:06}", "new": f"value = {self.following}"}
        self._number += 1
        return self._session.call("edit_nb_cell", arguments)


@contextmanager
def joined(at: Workspace, path: str, *cells: int, people: int) -> Generator[tuple[asyncio.Runner, list[RawRoom]]]:
    """Raw clients in a notebook, and the loop they live in."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        rooms = [RawRoom(at, path, cells) for _ in range(people)]
        try:
            for room in rooms:
                runner.run(stack.enter_async_context(room))
            yield runner, rooms
        finally:
            runner.run(stack.aclose())


@contextmanager
def edits_and_floor(setting: Setting, path: str, cell: int) -> Generator[tuple[Timing, Timing]]:
    """An edit through MCP; and what it is made of, an edit that a raw client in the same room sends and flushes, and the echo."""
    calls = setting.plan.calls
    edits = Edits(setting, path, cell)
    with echoing(setting.plan.work, edits) as echo, joined(setting.at, path, cell + 1, people=1) as (runner, (room,)):

        async def flushes() -> float:
            began = time.perf_counter()
            for number in range(calls):
                await room.edit(cell + 1, f"{number:06}")
                await room.flush()
            return (time.perf_counter() - began) * 1000 / calls

        yield partial(timed, edits, calls), lambda: runner.run(flushes()) + timed(echo, calls)


def editing(setting: Setting) -> list[Row]:
    """In a small and in a large notebook, in the same rounds: how long it takes, and whether it grows."""
    few: list[Pair] = []
    many: list[Pair] = []
    with edits_and_floor(setting, SMALL, 5) as small, edits_and_floor(setting, LARGE, 5_000) as large:
        for number in setting.rounds:
            few.append(alternating(number, *small))
            many.append(alternating(number, *large))
    ours = [(of_many[0], of_few[0]) for of_many, of_few in zip(many, few, strict=True)]
    floors = [(of_many[1], of_few[1]) for of_many, of_few in zip(many, few, strict=True)]
    # Jupyter itself takes longer in a large room, for anybody: what counts is whether we grow more than the floor does.
    grown = [(a / b, c / d) for (a, b), (c, d) in zip(ours, floors, strict=True)]
    return [
        row("notebook: edit acknowledged, 10 cells, beside flush + echo", "ms", few, EDIT_TARGET),
        row("notebook: edit acknowledged, 10,000 cells, beside flush + echo", "ms", many, EDIT_TARGET),
        row("notebook: edit, growth from 10 to 10,000 cells, beside the floor's", "times", grown, GROWTH_TARGET),
        row("notebook: edit acknowledged, 10,000 cells, beside 10 cells", "ms", ours),
        row("notebook: flush + echo, 10,000 cells, beside 10 cells", "ms", floors),
    ]


def seeing(setting: Setting) -> list[Row]:
    """From the request, or from the raw client's edit, to the moment when another client's replica has it."""
    edits = Edits(setting, USUAL, 50)
    raw_numbers = (f"{number:06}" for number in range(1, 1_000_000))
    with joined(setting.at, USUAL, 50, 51, people=2) as (runner, (person, other)):

        async def through_mcp() -> float:
            return await person.seen_after(50, edits.following, partial(asyncio.to_thread, edits))

        async def between_raw_clients() -> float:
            new = next(raw_numbers)
            return await person.seen_after(51, new, partial(other.edit, 51, new))

        def several(one: Callable[[], Any]) -> float:
            return runner.run(_mean(one, setting.plan.calls)) * 1000

        several(through_mcp)
        sides = (partial(several, through_mcp), partial(several, between_raw_clients))
        pairs = [alternating(number, *sides) for number in setting.rounds]
    return [row("notebook: a person sees an edit, beside a raw Y edit", "ms", pairs, SEEN_TARGET)]


async def _mean(one: Callable[[], Any], times: int) -> float:
    return statistics.fmean([await one() for _ in range(times)])


@dataclass(frozen=True)
class Waits:
    """How long a caller waited, in milliseconds."""

    mean: float
    median: float


def flooding(setting: Setting) -> list[Row]:
    """How long another caller waits while a cell prints 20 MB, beside how long when nothing runs."""
    call = partial(setting.session.call, "read_nb_cells", {"path": SMALL, "ranges": [{"start": 5}]})
    rounds: list[tuple[tuple[Waits, Waits], tuple[Waits, Waits]]] = []
    with (
        echoing(setting.plan.work, call) as echo,
        closing(setting.server.connect(MODERN)) as printing,
        ThreadPoolExecutor(1) as pool,
    ):
        flood = partial(printing.call, "execute_nb_cells", {"path": FLOODED, "ranges": [{"start": 0}]})
        result_of(flood())
        for _ in range(min(FLOODS, setting.plan.lives)):
            for pid in (setting.at.pid, setting.server.pid):
                wait_until_quiet(pid)
            alone = _waits(call, echo, range(setting.plan.calls * 10))
            under_way = pool.submit(flood)
            rounds.append((_waits(call, echo, _until_done(under_way)), alone))
            result_of(under_way.result())
    ours = [(during[0], alone[0]) for during, alone in rounds]
    bare_ones = [(during[1], alone[1]) for during, alone in rounds]
    where = "during 20 MB of output, beside without"
    return [
        row(f"notebook: another's read {where}", "ms", [(a.mean, b.mean) for a, b in ours], FLOOD_TARGET),
        row(f"notebook: another's read, median, {where}", "ms", [(a.median, b.median) for a, b in ours]),
        row(f"notebook: the bare server's echo {where}", "ms", [(a.mean, b.mean) for a, b in bare_ones]),
    ]


def _until_done(work: Future[bytes]) -> Iterator[int]:
    return takewhile(lambda _: not work.done(), count())


def _waits(call: Action, echo: Action, turns: Iterable[int]) -> tuple[Waits, Waits]:
    """Of each, called in turn."""
    both = [(timed(call, 1), timed(echo, 1)) for _ in turns]
    mine, bare_ones = [one for one, _ in both], [other for _, other in both]
    return _summary(mine), _summary(bare_ones)


def _summary(waits: list[float]) -> Waits:
    return Waits(statistics.fmean(waits), statistics.median(waits))


def remembering(setting: Setting) -> list[Row]:
    """Two of our servers, new each time: one with a notebook open, one that was only asked how it is."""
    lives = range(min(MEMORY_LIVES, setting.plan.lives))
    read = partial(_memory_after, setting, "read_nb_cells", {"path": USUAL, "ranges": [{"start": 0}]})
    pairs = [alternating(number, read, partial(_memory_after, setting, "workspace_status", {})) for number in lives]
    return [
        row(
            "notebook: idle memory, one open, beside none",
            "MB",
            [(a.resident, b.resident) for a, b in pairs],
            MEMORY_TARGET,
        ),
        row(
            "notebook: idle memory, unshared, one open, beside none", "MB", [(a.unshared, b.unshared) for a, b in pairs]
        ),
    ]


def _memory_after(setting: Setting, tool: str, arguments: dict[str, Any]) -> Memory:
    with running(setting.program, setting.plan.work) as server, closing(server.connect(MODERN)) as session:
        result_of(session.ask("tools/list", {}))
        result_of(session.call(tool, arguments))
        return idle_memory(server.pid)


ROWS: tuple[Callable[[Setting], list[Row]], ...] = (
    running_a_cell,
    reading,
    outlining,
    editing,
    listing,
    listing_far,
    seeing,
    flooding,
    remembering,
)
