"""Executions outlive requests, stop at errors, are cancelled without harm to others, and end when the kernel does."""
# pyright: reportPrivateUsage=false

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from cellwright.core.errors import LimitReached, NotFound, Unavailable
from cellwright.core.types import Secret
from cellwright.jupyter.kernels.executions import CellJob, CellRunView, Checkpoint, Execution, Executions
from cellwright.jupyter.kernels.live import LiveKernels
from cellwright.jupyter.kernels.outputs import Displays
from cellwright.jupyter.kernels.queue import MAX_WAITING
from cellwright.jupyter.lives import Runner
from cellwright.jupyter.model import KernelInfo
from cellwright.jupyter.remote.kernels import RemoteKernels
from cellwright.jupyter.remote.rest import Rest
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.notebook.outputs import is_stream
from cellwright.notebook.run import RunStatus
from jupyter_support import JupyterServer
from kernel_support import Bench, SharedCell, bench_on, job, now, rest, until
from requirements import requirement

pytestmark = pytest.mark.anyio

SLEEP = "import time; print('on', flush=True); time.sleep(60); print('never')"


@pytest.fixture
async def bench(jupyter_server: JupyterServer) -> AsyncGenerator[Bench]:
    async with bench_on(jupyter_server) as made:
        yield made


def text_of(cell: CellRunView) -> str:
    return "".join(output["text"] for output in cell.outputs if is_stream(output))


def states(execution: Execution) -> list[str]:
    return [cell.state.value for cell in execution.cells]


async def begun(execution: Execution) -> None:
    await until(lambda: "on" in text_of(execution.view().cells[0]), "first output")


async def run(bench: Bench, code: str) -> str:
    view = await bench.submit(code).wait(30)
    assert view.state is RunStatus.DONE, view
    return text_of(view.cells[0])


@requirement("executions:run:partial")
async def test_when_the_wait_ends_first_the_output_so_far_is_given_and_the_rest_comes_later(bench: Bench) -> None:
    execution = bench.submit("import time; print('on', flush=True); time.sleep(1.5); print('two')")
    await begun(execution)
    view = await execution.wait(0.1)
    assert (view.state, text_of(view.cells[0])) == (RunStatus.RUNNING, "on\n")
    assert view.id.startswith("exec_")
    later = await bench.executions.get("ada", view.id).wait(20)
    assert (later.state, text_of(later.cells[0]), later.cells[0].execution_count) == (RunStatus.DONE, "on\ntwo\n", 1)


@requirement("executions:run:usable-after-timeout", "executions:cancel:interrupts")
async def test_a_cancelled_run_keeps_its_output_and_the_kernel_runs_the_next_cell(bench: Bench) -> None:
    execution = bench.submit(SLEEP, "print('second')")
    await begun(execution)
    assert (await execution.wait(0.1)).state is RunStatus.RUNNING
    view = await execution.cancel(grace=20)
    assert view.state is RunStatus.INTERRUPTED
    assert states(execution) == ["interrupted", "not_run"]
    assert text_of(view.cells[0]) == "on\n"
    assert view.cells[0].error is not None
    assert view.cells[0].error.name == "KeyboardInterrupt"
    assert await run(bench, "print('usable')") == "usable\n"


@requirement("executions:run:error-stops")
async def test_a_batch_stops_at_its_first_error(bench: Bench) -> None:
    view = await bench.submit("x = 1; print(x)", "1/0", "x = 3", "print('no')").wait(30)
    assert [cell.state.value for cell in view.cells] == ["done", "error", "not_run", "not_run"]
    assert (view.state, view.failed) == (RunStatus.ERROR, True)
    error, skipped = view.cells[1].error, view.cells[2].error
    assert error is not None
    assert skipped is not None
    assert (error.name, error.value) == ("ZeroDivisionError", "division by zero")
    assert "earlier cell" in skipped.value
    assert await run(bench, "print(x)") == "1\n"


SILENT_ERROR = """
class Quiet(Exception):
    def _render_traceback_(self): return []
raise Quiet('said nothing')
"""


@requirement("executions:run:empty-traceback")
async def test_an_error_without_a_traceback_is_still_a_failure(bench: Bench) -> None:
    view = await bench.submit(SILENT_ERROR, "1").wait(30)
    error = view.cells[0].error
    assert error is not None, (view, bench.kernel.connection.state)
    assert (view.state, error.name, error.traceback) == (RunStatus.ERROR, "Quiet", ())
    assert view.cells[1].state is RunStatus.NOT_RUN


@requirement("executions:run:deleted-cell")
async def test_a_cell_that_is_gone_at_its_turn_is_not_run_and_the_others_are(bench: Bench) -> None:
    jobs = [job("print(1)"), CellJob(lambda: None, "gone"), job("print(3)")]
    view = await bench.queue.submit("ada", jobs).wait(30)
    assert [cell.state.value for cell in view.cells] == ["done", "not_run", "done"]
    assert view.cells[1].error is not None
    assert "deleted" in view.cells[1].error.value


# ipykernel gives a thread's prints to whichever cell ran last; other kernels, and widgets, to the cell that began it.
THREAD = """
import threading, time
kernel = get_ipython().kernel
def later(parent=kernel.get_parent()):
    for i in range(4):
        time.sleep(0.2)
        kernel.session.send(kernel.iopub_socket, 'stream', {'name': 'stdout', 'text': f'late {i}\\n'}, parent=parent)
threading.Thread(target=later).start()
"""


@requirement("executions:run:threads")
async def test_late_output_is_shown_in_the_cell_it_belongs_to(bench: Bench) -> None:
    first, second = SharedCell(), SharedCell()
    execution = bench.queue.submit("ada", [CellJob(lambda: THREAD + "print('now')", "a", first.writer())])
    assert (await execution.wait(30)).state is RunStatus.DONE
    other = bench.queue.submit("ada", [CellJob(lambda: "print('other')", "b", second.writer())])
    assert (await other.wait(30)).state is RunStatus.DONE
    await until(lambda: "late 3" in str(first.outputs), "the end of the thread")
    assert [output["text"] for output in first.outputs] == ["now\nlate 0\nlate 1\nlate 2\nlate 3\n"]
    assert [output["text"] for output in second.outputs] == ["other\n"]
    assert text_of(execution.view().cells[0]).endswith("late 3\n")
    assert (first.viewer.shown, first.viewer.faults) == (first.outputs, [])


@requirement("executions:run:threads")
async def test_late_output_of_an_earlier_run_stays_out_of_the_later_one(bench: Bench) -> None:
    shared = SharedCell()
    code = [THREAD]
    await bench.queue.submit("ada", [CellJob(lambda: code[0], "a", shared.writer())]).wait(30)
    code[0] = "import time\nfor i in range(6): time.sleep(0.2); print(i)"
    view = await bench.queue.submit("ada", [CellJob(lambda: code[0], "a", shared.writer())]).wait(30)
    assert (view.state, view.cells[0].notes) == (RunStatus.DONE, ())
    assert [output["text"] for output in shared.outputs] == ["0\n1\n2\n3\n4\n5\n"]


@requirement("executions:run:unreachable")
async def test_a_cell_keeps_its_outputs_when_the_kernel_cannot_be_reached(bench: Bench) -> None:
    shared = SharedCell([{"output_type": "stream", "name": "stdout", "text": "old"}])
    await bench.kernel.shut_down()
    execution = bench.queue.submit("ada", [CellJob(lambda: "1", "a", shared.writer()), job("2")])
    view = await execution.wait(30)
    assert [cell.state.value for cell in view.cells] == ["not_run", "not_run"]
    assert view.cells[0].error is not None
    assert view.cells[0].error.name == "KERNEL_GONE"
    assert [output["text"] for output in shared.outputs] == ["old"]
    assert shared.cell["execution_state"] == "idle"


@requirement("executions:run:times")
async def test_times_are_those_of_each_cell(bench: Bench) -> None:
    before = now()
    view = await bench.submit("import time; time.sleep(1)", "1").wait(30)
    first, second = view.cells
    assert first.started is not None
    assert first.ended is not None
    assert second.started is not None
    assert before <= view.created <= first.started
    # That a cell began is noted when it is heard, which on a busy machine is a moment later.
    assert first.ended - first.started >= timedelta(seconds=0.5)
    assert second.started >= first.ended
    assert (view.started, view.ended) == (first.started, second.ended)


@requirement("executions:queue:order")
async def test_executions_of_several_callers_run_one_after_the_other(bench: Bench) -> None:
    await run(bench, "log = []")
    codes = [f"log.append(('{who}', {n}, 'a'))" for n in range(3) for who in ("ada", "bob")]
    pairs = [
        bench.submit(code, code.replace("'a'", "'b'"), principal=who)
        for code, who in zip(codes, ["ada", "bob"] * 3, strict=True)
    ]
    await asyncio.gather(*(execution.wait(30) for execution in pairs))
    expected = [(who, n, part) for n in range(3) for who in ("ada", "bob") for part in "ab"]
    assert await run(bench, "print(log)") == f"{expected}\n"


@requirement("executions:queue:cancel-waiting")
async def test_cancelling_one_that_waits_leaves_the_running_one_alone(bench: Bench) -> None:
    running = bench.submit("import time; print('on', flush=True); time.sleep(1); print('whole')")
    waiting = bench.submit("print('never')")
    await begun(running)
    view = await waiting.cancel()
    assert (view.state, view.cells[0].outputs) == (RunStatus.NOT_RUN, ())
    assert text_of((await running.wait(20)).cells[0]) == "on\nwhole\n"
    assert bench.interrupts == 0


@requirement("executions:queue:full")
async def test_a_full_queue_refuses_more(bench: Bench) -> None:
    running = bench.submit(SLEEP)
    await begun(running)
    waiting = [bench.submit("1") for _ in range(MAX_WAITING)]
    with pytest.raises(LimitReached, match=str(MAX_WAITING)):
        bench.submit("1")
    for execution in waiting:
        await execution.cancel()
    assert (await running.cancel(20)).state is RunStatus.INTERRUPTED


STUBBORN = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print('on', flush=True)
end = time.monotonic() + 4
while time.monotonic() < end: time.sleep(0.1)
print('finished anyway')
"""


@requirement("executions:cancel:ignored")
async def test_a_kernel_that_ignores_the_interrupt_leaves_it_running_and_says_so(bench: Bench) -> None:
    execution = bench.submit(STUBBORN)
    await begun(execution)
    view = await execution.cancel(grace=0.5)
    assert (view.state, bench.interrupts) == (RunStatus.RUNNING, 1)
    assert text_of((await execution.wait(20)).cells[0]) == "on\nfinished anyway\n"


def sent(bench: Bench) -> bool:
    return any(request.message.type == "execute_request" for request in bench.kernel.connection._requests.values())


@requirement("executions:cancel:others-code")
async def test_cancelling_never_interrupts_somebody_elses_code(bench: Bench) -> None:
    seen: list[str] = []
    await run(bench, "1")
    async with bench.kernel.person() as person:
        theirs = asyncio.create_task(
            person.execute(
                "import time; print('on', flush=True); time.sleep(2); y = 1",
                lambda message: seen.append(message.content.get("text", "")),
            )
        )
        await until(lambda: "on\n" in seen, "the person's code")
        ours = bench.submit(SLEEP)
        await until(lambda: sent(bench), "ours on its way to the kernel")
        view = await ours.cancel(grace=0.3)
        assert (view.state, bench.interrupts) == (RunStatus.QUEUED, 0)
        assert (await asyncio.wait_for(theirs, 20)).status == "ok"
        # Its turn has come now, and it is interrupted at once.
        assert (await ours.wait(20)).state is RunStatus.INTERRUPTED
        assert bench.interrupts == 1


@requirement("executions:death:named")
async def test_when_the_kernel_dies_nothing_that_waited_is_run_in_the_new_one(bench: Bench) -> None:
    dying = bench.submit("print('on', flush=True); import os, time; time.sleep(0.3); os._exit(1)", "print('second')")
    waiting = bench.submit("print('third')", principal="bob")
    view = await dying.wait(30)
    assert [cell.state.value for cell in view.cells] == ["died", "not_run"]
    assert view.state is RunStatus.DIED
    assert text_of(view.cells[0]) == "on\n"
    error = view.cells[0].error
    assert error is not None
    assert error.name == "KERNEL_DIED"
    assert "variables are lost" in error.value
    other = await waiting.wait(30)
    assert other.state is RunStatus.NOT_RUN
    assert other.cells[0].error is not None
    assert "kernel died" in other.cells[0].error.value
    assert await run(bench, "print('new')") == "new\n"


@requirement("executions:death:restart-noted")
async def test_the_first_run_after_a_restart_says_that_variables_are_gone(bench: Bench) -> None:
    await run(bench, "x = 1")
    await bench.kernel.restart()
    after = await bench.submit("print('x' in dir())").wait(30)
    assert text_of(after.cells[0]) == "False\n"
    assert [note for note in after.notes if "restarted it" in note]
    assert (await bench.submit("1").wait(30)).notes == ()


@requirement("executions:death:restart-then-run")
async def test_what_is_submitted_after_a_restart_runs_and_what_waited_before_does_not(bench: Bench) -> None:
    running = bench.submit(SLEEP, "print('second')")
    waiting = bench.submit("print('third')", principal="bob")
    await begun(running)
    seen = bench.kernel.connection.restarts
    await bench.kernel.restart()
    bench.queue.note_restart(seen, Runner("ada", bench.kernel.id))
    after = bench.submit("print('after')")
    view = await after.wait(30)
    assert (view.state, text_of(view.cells[0])) == (RunStatus.DONE, "after\n")
    assert (await running.wait(0), states(running)) == (running.view(), ["died", "not_run"])
    error = (await waiting.wait(0)).cells[0].error
    assert error is not None
    assert error.name == "NOT_RUN"
    assert "variables are lost" in error.value


@requirement("executions:death:restart-then-run")
async def test_a_batch_is_not_continued_in_the_new_kernel(bench: Bench) -> None:
    second: list[str] = []

    def restart_is_confirmed() -> str:
        bench.queue.note_restart(bench.kernel.connection.restarts, Runner("ada", bench.kernel.id))
        return "print('never')"

    jobs = [
        job("print('first')"),
        CellJob(restart_is_confirmed, "b"),
        CellJob(lambda: second.append("asked") or "1", "c"),
    ]
    view = await bench.queue.submit("ada", jobs).wait(30)
    assert [cell.state.value for cell in view.cells] == ["done", "not_run", "not_run"]
    assert view.cells[1].error is not None
    assert "restarted" in view.cells[1].error.value
    assert second == []
    assert await run(bench, "print('next')") == "next\n"


@requirement("executions:kept:own")
async def test_an_execution_is_found_by_its_owner_only(bench: Bench) -> None:
    execution = bench.submit("1")
    await execution.wait(30)
    assert bench.executions.get("ada", execution.id) is execution
    with pytest.raises(NotFound) as others:
        bench.executions.get("bob", execution.id)
    with pytest.raises(NotFound) as missing:
        bench.executions.get("ada", "exec_0000000000000000")
    assert str(others.value).replace(execution.id, "X") == str(missing.value).replace("exec_0000000000000000", "X")
    assert bench.executions.of("bob") == ()


@requirement("executions:kept:bounded")
def test_ended_executions_are_forgotten_by_time_and_number_and_running_ones_never() -> None:
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]
    kept = Executions(lambda: clock[0], keep=3, keep_for=timedelta(minutes=10))
    made = [Execution("ada", "k", [job("1")], Displays(), created=clock[0]) for _ in range(6)]
    for execution in made:
        kept.add(execution)
    for execution in made[:5]:
        execution.cells[0].ended = clock[0]
        execution.finish()
    assert kept.of("ada") == (*made[2:5], made[5])
    clock[0] += timedelta(minutes=11)
    assert kept.of("ada") == (made[5],)


@requirement("executions:progress:paced")
async def test_progress_names_cell_and_newest_line_and_is_paced(bench: Bench) -> None:
    notices: list[tuple[float, float | None, str, float]] = []

    async def report(done: float, total: float | None, text: str) -> None:
        notices.append((done, total, text, asyncio.get_running_loop().time()))

    code = "import time\nfor i in range(15): print('step', i, flush=True); time.sleep(0.1)"
    await bench.submit("1", code).wait(30, report)
    assert notices
    assert {total for _, total, _, _ in notices} == {2}
    assert any("cell 2 of 2: step" in text for _, _, text, _ in notices)
    done = [value for value, _, _, _ in notices]
    assert done == sorted(set(done))
    gaps = [b[3] - a[3] for a, b in pairwise(notices)]
    assert all(gap > 0.45 for gap in gaps), gaps


@requirement("executions:saves:during")
async def test_the_document_is_saved_during_a_long_run_and_after_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellwright.jupyter.kernels.queue.CHECKPOINT_EVERY", 0.2)
    saves: list[bool] = []

    async def save() -> None:
        saves.append(execution.ended)
        if len(saves) == 1:
            raise Unavailable("the disk is full")

    execution = bench.queue.submit("ada", [job("import time; time.sleep(1)")], Checkpoint("n.ipynb", save))
    view = await execution.wait(30)
    await until(lambda: bool(saves and saves[-1]), "the save after the end")
    assert saves.count(False) >= 2
    assert any("the disk is full" in note for note in view.notes)


@requirement("executions:saves:together")
async def test_runs_that_follow_each_other_closely_are_saved_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is close is for the test to say: on a busy machine a run takes longer than the usual pause.
    monkeypatch.setattr("cellwright.jupyter.kernels.queue.SAVE_AFTER", 6.0)
    monkeypatch.setattr("cellwright.jupyter.kernels.queue.CHECKPOINT_EVERY", 60.0)
    saves: dict[str, list[Execution]] = {"a": [], "b": []}

    def submit(document: str) -> Execution:
        async def save() -> None:
            saves[document].append(execution)

        execution = bench.queue.submit("ada", [job("1")], Checkpoint(document, save))
        return execution

    for document in ("a", "a", "b", "a"):
        last = submit(document)
        await last.wait(30)
    assert saves == {"a": [], "b": []}, "not at once"
    await until(lambda: bool(saves["a"] and saves["b"]), "the saves")
    assert saves["a"] == [last], "one save for three runs"
    assert len(saves["b"]) == 1


@requirement("executions:saves:together")
async def test_runs_without_end_are_saved_now_and_then(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cellwright.jupyter.kernels.queue.CHECKPOINT_EVERY", 1.2)
    saved = asyncio.Event()

    async def save() -> None:
        saved.set()

    deadline = asyncio.get_running_loop().time() + 20
    while not saved.is_set():
        await bench.queue.submit("ada", [job("1")], Checkpoint("a", save)).wait(30)
        assert asyncio.get_running_loop().time() < deadline, "never saved while runs go on"


@requirement("executions:saves:together")
async def test_closing_saves_what_is_left(bench: Bench) -> None:
    saves: list[str] = []

    async def save() -> None:
        saves.append("saved")

    await bench.queue.submit("ada", [job("1")], Checkpoint("a", save)).wait(30)
    assert saves == []
    await bench.queue.close()
    assert saves == ["saved"]


@requirement("executions:shared:one-connection")
async def test_all_callers_share_one_connection_which_is_left_when_idle(
    bench: Bench, jupyter_server: JupyterServer
) -> None:
    address = JupyterAddress(jupyter_server.url, Secret(jupyter_server.token))
    client = Rest(address)
    live = LiveKernels(RemoteKernels(client), bench.executions, now, idle=0)
    kernel_id = bench.kernel.id

    async def connections() -> int:
        models = await asyncio.to_thread(rest, jupyter_server, "GET", "/api/kernels")
        return next(model["connections"] for model in models if model["id"] == kernel_id)

    queue = await live.queue(kernel_id)
    running = queue.submit("ada", [job("import time; print('on', flush=True); time.sleep(0.5)")])
    await begun(running)
    assert await live.queue(kernel_id) is queue, "not left in the middle of a run"
    assert await connections() == 1
    assert (await running.wait(20)).state is RunStatus.DONE
    await until(lambda: not queue.busy, "idle")
    assert await live.queue(kernel_id) is not queue
    await live.close()
    await client.close()


@requirement("executions:kernel:state")
async def test_a_kernel_is_called_what_it_said_itself(bench: Bench, jupyter_server: JupyterServer) -> None:
    client = Rest(JupyterAddress(jupyter_server.url, Secret(jupyter_server.token)))
    live = LiveKernels(RemoteKernels(client), bench.executions, now)
    # As a server says that missed the kernel's first words.
    missed = KernelInfo(bench.kernel.id, "python3", "starting", None, 0)
    assert live.state_of(missed) == "starting", "nothing was heard of it yet"
    queue = await live.queue(bench.kernel.id)
    running = queue.submit("ada", [job("import time; print('on', flush=True); time.sleep(0.5)")])
    await begun(running)
    assert live.state_of(missed) == "busy"
    assert (await running.wait(20)).state is RunStatus.DONE
    assert live.state_of(missed) == "idle"
    assert live.state_of(replace(missed, state="busy")) == "idle"
    assert live.state_of(replace(missed, state="dead")) == "dead", "the server looks at the process"
    await live.close()
    assert live.state_of(missed) == "starting"
    await client.close()
