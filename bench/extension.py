"""Inside Jupyter Server: the same calls without a server in between, each beside the least that does the same."""

import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path

from measure import Plan, Row, row
from notebooks import WARM_CALLS, Action, beside, echoing, joined, timed
from programs import write_answer
from raw import RawKernel
from wire import MODERN, HttpWire, Session, result_of
from workspace import Workspace, workspace, write_notebook

RUN_TARGET = 2.0
READ_TARGET = 1.5
EDIT_TARGET = 4.0
MORE_ROUNDS = 2
NOTEBOOK, TEXT = "small.ipynb", "text.md"


def extension(plan: Plan) -> list[Row]:
    """One Jupyter server with us in its process."""
    with workspace(plan.work, "cellwright") as at:
        write_notebook(at.root / NOTEBOOK, ["1+1", *(f"# step {number}" for number in range(1, 10))])
        (at.root / TEXT).write_text("0" * 1_000, encoding="utf-8")
        with closing(Session(HttpWire(f"{at.url}/mcp", at.token), MODERN)) as session:
            return [*_running(plan, at, session), *_reading(plan, session), *_editing(plan, at, session)]


def _rounds(plan: Plan) -> range:
    return range(plan.rounds * (MORE_ROUNDS if plan.lives > 1 else 1))


def _running(plan: Plan, at: Workspace, session: Session) -> list[Row]:
    call = partial(session.call, "execute_nb_cells", {"path": NOTEBOOK, "ranges": [{"start": 0}]})
    with echoing(plan.work, call) as echo, closing(RawKernel(at.kernel_file(NOTEBOOK))) as kernel:
        run = partial(kernel.run, "1+1")
        timed(run, WARM_CALLS)
        pairs = beside(_rounds(plan), plan.calls, call, run, echo)
    return [row("extension: run 1+1, beside raw ZMQ + echo", "ms", pairs, RUN_TARGET)]


def _reading(plan: Plan, session: Session) -> list[Row]:
    found: list[Row] = []
    for name, tool, arguments in (
        ("read one cell", "read_nb_cells", {"path": NOTEBOOK, "ranges": [{"start": 5}]}),
        ("read a text", "get_document_content", {"path": TEXT}),
    ):
        call = partial(session.call, tool, arguments)
        with echoing_inside(plan.work, call) as echo:
            pairs = beside(_rounds(plan), plan.calls, call, echo)
        found.append(row(f"extension: {name}, beside echo in Jupyter", "ms", pairs, READ_TARGET))
        with echoing(plan.work, call) as echo:
            pairs = beside(_rounds(plan), plan.calls, call, echo)
        found.append(row(f"extension: {name}, beside echo on its own port", "ms", pairs))
    return found


@contextmanager
def echoing_inside(work: Path, action: Callable[[], bytes]) -> Generator[Action]:
    """A bare SDK server in another Jupyter Server: Tornado and Jupyter's checks are paid by whoever answers there."""
    file = work / f"answer-{time.monotonic_ns()}.json"
    write_answer(file, result_of(action()))
    environment = {"ECHO_ANSWER": str(file), "PYTHONPATH": str(Path(__file__).parent)}
    with (
        workspace(work, "echo_extension", environment) as at,
        closing(Session(HttpWire(f"{at.url}/echo", at.token), MODERN)) as session,
    ):
        echo = partial(session.call, "echo")
        timed(echo, WARM_CALLS)
        timed(action, WARM_CALLS)
        yield echo


def _editing(plan: Plan, at: Workspace, session: Session) -> list[Row]:
    """An edit of a text that the room has acknowledged, beside a raw client's edit and flush, and the echo."""
    numbers = count(1)

    def edit() -> bytes:
        text = f"{next(numbers):06}"
        return session.call("replace_document_text", {"path": TEXT, "position": 0, "length": 6, "text": text})

    with echoing(plan.work, edit) as echo, joined(at, NOTEBOOK, 5, people=1) as (runner, (room,)):

        async def once() -> None:
            await room.edit(5, f"{next(numbers):06}")
            await room.flush()

        pairs = beside(_rounds(plan), plan.calls, edit, lambda: runner.run(once()), echo)
    return [row("extension: edit a text, beside flush + echo", "ms", pairs, EDIT_TARGET)]
