"""Output in a shared cell: in order, as a live JupyterLab shows it, paced, bounded, and safe beside people."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Doc, Map, Text

from cellwright.jupyter.kernels.connection import KernelConnection
from cellwright.jupyter.kernels.output_log import RESULT_LIMITS, Allowance, OutputLimits
from cellwright.jupyter.kernels.outputs import Displays, MemoryOutputs, OutputWriter, deliver
from cellwright.jupyter.kernels.stream_text import TerminalText
from cellwright.notebook.outputs import is_stream
from jupyter_support import JupyterServer, person_in, write_notebook
from kernel_support import KernelOnServer, SharedCell, kernel_on, message, run_into, until
from requirements import requirement

pytestmark = pytest.mark.anyio

MEBI = 1024 * 1024
TERMINAL = st.text(alphabet="ab😀\n\r\b", max_size=30)


@pytest.fixture(scope="module")
async def kernel(jupyter_server: JupyterServer) -> AsyncGenerator[KernelOnServer]:
    async with kernel_on(jupyter_server) as started:
        yield started


@pytest.fixture
def connection(kernel: KernelOnServer) -> KernelConnection:
    return kernel.connection


def stream(text: str, name: str = "stdout") -> Any:
    return message("stream", name=name, text=text)


def display(data: str, display_id: str = "") -> Any:
    return message("display_data", data={"text/plain": data}, metadata={}, transient={"display_id": display_id})


def update(data: str, display_id: str) -> Any:
    return message("update_display_data", data={"text/plain": data}, metadata={}, transient={"display_id": display_id})


def clear(wait: bool) -> Any:
    return message("clear_output", wait=wait)


def as_jupyterlab_shows(text: str) -> str:
    """Character by character, as JupyterLab's own text processing works."""
    shown: list[str] = []
    cursor = 0
    for character in text:
        match character:
            case "\n":
                shown.append("\n")
                cursor = len(shown)
            case "\r":
                while cursor > 0 and shown[cursor - 1] != "\n":
                    cursor -= 1
            case "\b":
                if cursor > 0 and shown[cursor - 1] != "\n":
                    cursor -= 1
                    del shown[cursor]
            case _:
                shown[cursor : cursor + 1] = [character]
                cursor += 1
    return "".join(shown)


@requirement("outputs:terminal:lab")
@given(st.lists(TERMINAL, max_size=6))
def test_controls_give_the_text_that_jupyterlab_shows(pieces: list[str]) -> None:
    text = TerminalText()
    for piece in pieces:
        text.write(piece)
    assert str(text) == as_jupyterlab_shows("".join(pieces))
    assert len(text) == len(str(text))


@requirement("outputs:terminal:changes")
@given(st.lists(TERMINAL, max_size=6), st.lists(TERMINAL, max_size=6))
def test_the_change_of_the_end_leads_from_what_was_seen_to_what_is(before: list[str], after: list[str]) -> None:
    text = TerminalText()
    for piece in before:
        text.write(piece)
    seen, mark = str(text), text.mark()
    for piece in after:
        text.write(piece)
    change = text.change_since(mark)
    assert seen.endswith(change.removed)
    assert seen.removesuffix(change.removed) + change.added == str(text)


@requirement("outputs:terminal:lab")
@given(st.lists(TERMINAL, max_size=4), st.integers(0, 40), st.text(alphabet="ab\n", max_size=10))
def test_forgetting_the_front_keeps_the_rest_and_goes_on(pieces: list[str], characters: int, more: str) -> None:
    text = TerminalText()
    for piece in pieces:
        text.write(piece)
    kept = str(text)[characters:]
    text.drop_front(characters)
    assert (str(text), len(text)) == (kept, len(kept))
    text.write("\n" + more)
    assert str(text) == kept + "\n" + more


MESSAGES = st.lists(
    st.one_of(
        st.builds(stream, TERMINAL, st.sampled_from(["stdout", "stderr"])),
        st.builds(display, st.text(max_size=3), st.sampled_from(["", "a", "b"])),
        st.builds(update, st.text(max_size=3), st.sampled_from(["a", "b"])),
        st.builds(clear, st.booleans()),
        st.just(message("error", ename="E", evalue="v", traceback=[])),
        st.none(),
    ),
    max_size=25,
)


TIGHT_LIMITS = OutputLimits(text=1040, data=20, outputs=3, tail=30, all_tails=30)


@requirement("outputs:document:lab-rules")
@given(MESSAGES)
def test_also_beyond_the_limits_a_live_jupyterlab_shows_what_the_document_holds(messages: list[Any]) -> None:
    async def write_all() -> SharedCell:
        shared, displays = SharedCell(), Displays()
        writer = shared.writer(displays, limits=TIGHT_LIMITS)
        writer.begin()
        for item in messages:
            writer.flush() if item is None else deliver(item, displays, writer)
        writer.end(3)
        return shared

    shared = asyncio.run(write_all())
    assert shared.viewer.faults == []
    assert shared.viewer.shown == shared.outputs


@requirement("outputs:document:lab-rules")
@given(MESSAGES)
def test_whatever_comes_a_live_jupyterlab_shows_what_the_document_holds(messages: list[Any]) -> None:
    async def write_all() -> tuple[SharedCell, MemoryOutputs]:
        shared, displays = SharedCell(), Displays()
        writer, memory = shared.writer(displays), MemoryOutputs(displays)
        writer.begin()
        for item in messages:
            if item is None:
                writer.flush()
            else:
                deliver(item, displays, writer, memory)
        writer.end(3)
        return shared, memory

    shared, memory = asyncio.run(write_all())
    assert shared.viewer.faults == []
    assert shared.viewer.shown == shared.outputs
    texts = [output["text"] for output in shared.outputs if output["output_type"] == "stream"]
    assert texts == [output["text"] for output in memory.outputs if is_stream(output)]
    assert len(memory.outputs) == len(shared.outputs)


ORDER = """
import sys
from IPython.display import display, clear_output
print('gone'); clear_output()
print('one'); sys.stdout.flush()
print('two', file=sys.stderr); sys.stderr.flush()
shown = display({'text/plain': 'old'}, raw=True, display_id=True)
print('three'); sys.stdout.flush()
shown.update({'text/plain': 'new'}, raw=True)
print('four'); sys.stdout.flush()
6 * 7
"""


@requirement("outputs:document:order")
async def test_the_order_of_a_real_run_is_kept(connection: KernelConnection) -> None:
    shared, displays = SharedCell(), Displays()
    await run_into(connection, ORDER, shared.writer(displays), displays)
    assert [(o["output_type"], o.get("text") or o["data"]["text/plain"]) for o in shared.outputs] == [
        ("stream", "one\n"),
        ("stream", "two\n"),
        ("display_data", "new"),
        ("stream", "three\nfour\n"),
        ("execute_result", "42"),
    ]
    assert shared.viewer.shown == shared.outputs
    assert shared.viewer.faults == []


@requirement("outputs:document:order")
async def test_clear_output_with_wait_replaces_when_the_next_output_comes(connection: KernelConnection) -> None:
    code = (
        "from IPython.display import clear_output\nfor i in range(3):\n    clear_output(wait=True); print('frame', i)\n"
    )
    shared, displays = SharedCell(), Displays()
    await run_into(connection, code + "clear_output(wait=True)", shared.writer(displays), displays)
    assert [o["text"] for o in shared.outputs] == ["frame 2\n"]


@requirement("outputs:document:order")
async def test_an_error_stands_last_with_its_traceback(connection: KernelConnection) -> None:
    shared, displays = SharedCell(), Displays()
    await run_into(connection, "print('before'); 1/0", shared.writer(displays), displays)
    assert [o["output_type"] for o in shared.outputs] == ["stream", "error"]
    assert shared.outputs[1]["ename"] == "ZeroDivisionError"
    assert any("division by zero" in line for line in shared.outputs[1]["traceback"])


BAR = """
import time, sys
for i in range(0, 101, 4):
    sys.stdout.write(f"\\r{i:3d}% " + "█" * (i // 10)); sys.stdout.flush(); time.sleep(0.02)
print(); print('done 😀')
"""


@requirement("outputs:document:progress")
async def test_a_progress_bar_is_shown_live_and_ends_as_one_line(connection: KernelConnection) -> None:
    shared, displays = SharedCell(), Displays()
    states: list[str] = []
    subscription = shared.cells.observe_deep(
        lambda _: states.append("".join(o.get("text", "") for o in shared.outputs))
    )
    await run_into(connection, BAR, shared.writer(displays), displays)
    shared.cells.unobserve(subscription)
    assert [o["text"] for o in shared.outputs] == ["100% ██████████\ndone 😀\n"]
    assert shared.viewer.shown == shared.outputs
    assert shared.viewer.faults == []
    assert len({state.strip() for state in states}) > 3, "seen while it ran"


@requirement("outputs:document:display-elsewhere")
async def test_a_display_is_updated_from_another_cell_also_after_its_run(connection: KernelConnection) -> None:
    first, second, displays = SharedCell(), SharedCell(), Displays()
    code = "from IPython.display import display\nshown = display({'text/plain': 'old'}, raw=True, display_id=True); print('x')"
    await run_into(connection, code, first.writer(displays), displays)
    await run_into(connection, "shown.update({'text/plain': 'new'}, raw=True)", second.writer(displays), displays)
    await until(lambda: first.outputs[0]["data"] == {"text/plain": "new"}, "the update")
    assert [o["output_type"] for o in first.outputs] == ["display_data", "stream"]
    assert second.outputs == []
    assert first.viewer.shown == first.outputs


@requirement("outputs:document:display-elsewhere")
async def test_a_late_update_leaves_alone_what_somebody_else_has_run_since(connection: KernelConnection) -> None:
    first, second, displays = SharedCell(), SharedCell(), Displays()
    code = "from IPython.display import display\nshown = display({'text/plain': 'old'}, raw=True, display_id=True)"
    await run_into(connection, code, first.writer(displays), displays)
    theirs: dict[str, Any] = {"output_type": "display_data", "data": {"text/plain": "theirs"}, "metadata": {}}
    first.cell["outputs"].clear()
    first.cell["outputs"].append(Map(theirs))
    first.cell["execution_count"] = 9.0
    await run_into(connection, "shown.update({'text/plain': 'new'}, raw=True)", second.writer(displays), displays)
    displays.update({"transient": {"display_id": "none"}})
    await asyncio.sleep(0.3)  # longer than any pause between updates
    assert first.outputs == [theirs]


@requirement("outputs:document:prompt")
async def test_the_prompt_says_running_until_the_end_and_then_the_count(connection: KernelConnection) -> None:
    shared, displays = SharedCell(), Displays()
    writer = shared.writer(displays)
    writer.announce()
    await run_into(connection, "print(1)", writer, displays)
    assert shared.viewer.prompts[0] == "running"
    assert shared.viewer.prompts[-1] == "idle" or shared.viewer.prompts[-2] == "idle"
    numbers = [i for i, prompt in enumerate(shared.viewer.prompts) if prompt.startswith("[")]
    assert len(numbers) == 1
    assert "running" not in shared.viewer.prompts[numbers[0] :]
    assert shared.cell["metadata"]["trusted"] is True
    assert isinstance(shared.cell["execution_count"], float)


@requirement("outputs:document:prompt")
async def test_a_cell_whose_turn_does_not_come_keeps_its_outputs() -> None:
    shared = SharedCell([{"output_type": "stream", "name": "stdout", "text": "old"}])
    writer = shared.writer()
    writer.announce()
    writer.abandon()
    assert [o["text"] for o in shared.outputs] == ["old"]
    assert shared.viewer.prompts == ["running", "idle"]


@requirement("outputs:document:paced")
async def test_fast_output_makes_at_most_twenty_updates_a_second(connection: KernelConnection) -> None:
    shared, displays = SharedCell(), Displays()
    before, started = shared.updates, asyncio.get_running_loop().time()
    code = "import time, sys\nfor i in range(400): sys.stdout.write(f'\\r{i}'); sys.stdout.flush(); time.sleep(0.004)"
    await run_into(connection, code, shared.writer(displays), displays)
    seconds = asyncio.get_running_loop().time() - started
    # At most two every 100 ms, beginning at once. The run's beginning is one more; its end is one, after the last text's two.
    assert 5 < shared.updates - before <= 20 * seconds + 2 + 1 + 3


@requirement("outputs:document:cleared")
async def test_output_after_a_persons_clear_is_still_shown() -> None:
    shared = SharedCell()
    writer = shared.writer()
    writer.begin()
    writer.write(stream("seen\n"))
    writer.flush()
    writer.write(stream("unseen\n"))
    shared.cell["outputs"].clear()
    writer.write(display("later"))
    writer.end(1)
    assert [o.get("text") or o["data"]["text/plain"] for o in shared.outputs] == ["unseen\n", "later"]
    assert writer.detached == ""
    assert shared.viewer.shown == shared.outputs


@requirement("outputs:document:superseded")
async def test_the_outputs_of_somebody_elses_run_stand() -> None:
    shared = SharedCell()
    writer = shared.writer()
    writer.begin()
    writer.write(stream("ours\n"))
    writer.flush()
    with shared.doc.transaction():
        shared.cell["outputs"].clear()
        for text in ("theirs", "more"):
            shared.cell["outputs"].append(Map({"output_type": "stream", "name": text, "text": Text(text)}))
        shared.cell["execution_count"] = 9.0
    writer.write(stream("ours again\n"))
    writer.end(8)
    assert [o["text"] for o in shared.outputs] == ["theirs", "more"]
    assert shared.cell["execution_count"] == 9.0
    assert "somebody else" in writer.detached


@requirement("outputs:document:deleted")
async def test_deleting_the_cell_in_the_middle_of_its_run_harms_nothing() -> None:
    shared = SharedCell()
    writer = shared.writer()
    writer.begin()
    writer.write(stream("a"))
    writer.flush()
    del shared.cells[0]
    writer.write(stream("b"))
    writer.end(1)
    assert "not in the document" in writer.detached
    assert len(shared.cells) == 0


@requirement("outputs:document:rejoined")
async def test_a_document_joined_anew_gets_the_whole_output() -> None:
    old, new = SharedCell(), SharedCell([{"output_type": "stream", "name": "stdout", "text": "stale"}])
    cell: list[Map[Any] | None] = [old.cell]
    writer = OutputWriter(lambda: cell[0], Displays())
    writer.begin()
    writer.write(stream("one\n"))
    writer.flush()
    cell[0] = None
    writer.write(stream("two\n"))
    writer.end(4)
    assert writer.detached
    cell[0] = new.cell
    writer.flush()
    assert [o["text"] for o in new.outputs] == ["one\ntwo\n"]
    assert (new.cell["execution_count"], new.cell["execution_state"]) == (4.0, "idle")
    assert writer.detached == ""


class Rejoined:
    """A cell whose ended run was acknowledged, and the same notebook as it was opened anew afterwards."""

    def __init__(self) -> None:
        self.old, self.displays = SharedCell(), Displays()
        self.opened = self.old
        self.writer = OutputWriter(lambda: self.opened.cell, self.displays)
        self.writer.begin()
        deliver(
            message("display_data", data={"text/plain": "a"}, transient={"display_id": "d"}), self.displays, self.writer
        )
        deliver(message("stream", name="stdout", text="é\n"), self.displays, self.writer)
        self.writer.end(7)
        self.writer.settle()
        self.opened = SharedCell()
        cell = self.opened.cell
        cell["outputs"].extend([_as_shared(output) for output in self.old.outputs])
        cell["execution_count"] = 7.0
        self.opened.viewer.prompts.clear()


def _as_shared(output: dict[str, Any]) -> Map[Any]:
    return Map({**output, "text": Text(output["text"])} if "text" in output else output)


@requirement("outputs:document:late")
async def test_late_output_is_added_to_a_notebook_that_was_opened_anew() -> None:
    at = Rejoined()
    deliver(message("stream", name="stdout", text="late\n"), at.displays, at.writer)
    at.writer.flush()
    assert [output.get("text") for output in at.opened.outputs] == [None, "é\nlate\n"]
    update = message("update_display_data", data={"text/plain": "b"}, metadata={}, transient={"display_id": "d"})
    deliver(update, at.displays, at.writer)
    at.writer.flush()
    assert at.opened.outputs[0]["data"] == {"text/plain": "b"}
    assert (at.opened.viewer.shown, at.opened.viewer.faults) == (at.opened.outputs, [])
    assert (at.opened.viewer.prompts, at.writer.detached) == ([], "")


@requirement("outputs:document:late")
@pytest.mark.parametrize("change", ["count", "text", "outputs"])
async def test_late_output_leaves_a_notebook_alone_that_was_changed_meanwhile(change: str) -> None:
    at = Rejoined()
    match change:
        case "count":
            at.opened.cell["execution_count"] = 8.0
        case "text":
            text: Text = at.opened.cell["outputs"][1]["text"]
            text.insert(len(text), "theirs")
        case _:
            del at.opened.cell["outputs"][1]
    before = at.opened.outputs
    deliver(message("stream", name="stdout", text="late\n"), at.displays, at.writer)
    at.writer.flush()
    assert at.opened.outputs == before
    assert "somebody else" in at.writer.detached


@requirement("outputs:document:valid")
async def test_the_written_cell_is_valid_by_nbformat(connection: KernelConnection) -> None:
    shared, displays = SharedCell(), Displays()
    await run_into(connection, ORDER + "\n1/0", shared.writer(displays), displays)
    cell = shared.cell.to_py()
    assert cell is not None
    del cell["execution_state"]
    # Shared documents hold numbers as floats; the server writes whole ones back as integers.
    cell["execution_count"] = int(cell["execution_count"])
    for output in cell["outputs"]:
        if "execution_count" in output:
            output["execution_count"] = int(output["execution_count"])
    notebook: dict[str, Any] = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    nbformat.validate(nbformat.from_dict(notebook))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


@requirement("outputs:document:shared")
async def test_a_second_person_in_a_real_room_sees_the_run_as_it_happens(
    kernel: KernelOnServer, jupyter_server: JupyterServer, folder: str
) -> None:
    path = f"{folder}/shared.ipynb"
    write_notebook(jupyter_server.root, path, ["slow"])
    async with person_in(jupyter_server, path) as ours, person_in(jupyter_server, path) as theirs:
        displays, cells = Displays(), theirs.cells
        writer = OutputWriter(lambda: ours.cells[0], displays)
        code = "import time\nfor i in range(4): print(i, flush=True); time.sleep(0.25)"
        seen: list[str] = []
        subscription = cells.observe_deep(lambda _: seen.append(json.dumps(cells[0]["outputs"].to_py())))
        await run_into(kernel.connection, code, writer, displays)
        await ours.settle()
        await until(lambda: cells[0]["execution_state"] == "idle", "the end of the run")
        cells.unobserve(subscription)
        assert cells[0]["outputs"].to_py() == [{"output_type": "stream", "name": "stdout", "text": "0\n1\n2\n3\n"}]
        partial = [text for text in seen if "1\\n" in text and "3\\n" not in text]
        assert partial, "output was seen before the run had ended"


@requirement("outputs:floods:print")
async def test_twenty_megabytes_of_print_leave_a_small_document_that_says_so() -> None:
    shared, displays = SharedCell(), Displays()
    writer, memory = shared.writer(displays), MemoryOutputs(displays)
    writer.begin()
    line = "x" * 99 + "\n"
    for number in range(20):
        deliver(stream(f"part {number}\n" + line * (MEBI // 100)), displays, writer, memory)
    writer.end(1)
    assert len(shared.doc.get_update()) < 1.3 * MEBI
    head, note, tail = shared.outputs
    assert head["text"].startswith("part 0\n")
    assert tail["text"].endswith(line)
    written = sum(len(f"part {n}\n") + 100 * (MEBI // 100) for n in range(20))
    missing = written - len(head["text"]) - len(tail["text"])
    assert f"{missing:,} characters left out" in note["data"]["text/plain"]
    assert shared.viewer.shown == shared.outputs
    assert shared.viewer.faults == []
    kept = sum(len(o["text"]) for o in memory.outputs if is_stream(o))
    assert kept < 3 * MEBI
    assert memory.omitted.characters + kept == written
    assert [output.get("output_type") for output in memory.outputs] == ["stream", "display_data", "stream"]


@requirement("outputs:floods:print")
async def test_a_real_flood_is_survived_and_the_kernel_is_usable_after(connection: KernelConnection) -> None:
    shared, displays = SharedCell(), Displays()
    await run_into(connection, "print('y' * 20_000_000)", shared.writer(displays), displays)
    text = "".join(o.get("text") or o["data"]["text/plain"] for o in shared.outputs)
    # Either we cut it, or the server's own limit did: what is missing is said in the cell.
    assert "left out here" in text or "IOPub data rate exceeded" in text
    assert len(text) < 1.3 * MEBI
    again = SharedCell()
    await run_into(connection, "print('usable')", again.writer(displays), displays)
    assert [o["text"] for o in again.outputs] == ["usable\n"]


@requirement("outputs:floods:many")
async def test_five_thousand_outputs_leave_the_first_the_last_and_a_number() -> None:
    shared, displays = SharedCell(), Displays()
    writer = shared.writer(displays)
    writer.begin()
    for number in range(5000):
        deliver(display(f"n{number}"), displays, writer)
        if number % 100 == 0:
            writer.flush()
    deliver(message("error", ename="E", evalue="", traceback=[]), displays, writer)
    writer.end(1)
    outputs = shared.outputs
    assert len(outputs) < 1100
    assert outputs[0]["data"] == {"text/plain": "n0"}
    assert outputs[-1]["output_type"] == "error"
    assert outputs[-2]["data"] == {"text/plain": "n4999"}
    shown = [o["data"]["text/plain"] for o in outputs if o["output_type"] == "display_data"]
    (note,) = [text for text in shown if "left out" in text]
    assert f"{5000 - len(shown) + 1:,} outputs left out" in note
    assert shared.viewer.shown == outputs
    assert shared.viewer.faults == []


@requirement("outputs:floods:large-data")
async def test_data_that_is_too_large_is_left_out_whole_and_named() -> None:
    shared, displays = SharedCell(), Displays()
    writer = shared.writer(displays)
    writer.begin()
    data = {"image/png": "A" * (11 * MEBI), "text/html": "<b>small</b>", "text/plain": "figure"}
    deliver(message("display_data", data=data, metadata={}), displays, writer)
    writer.end(1)
    assert shared.outputs[0]["data"] == {
        "text/html": "<b>small</b>",
        "text/plain": f"figure\n[cellwright: image/png of {11 * MEBI:,} characters left out, it is too large]",
    }


@requirement("outputs:floods:kept")
def test_a_batch_of_flooding_cells_keeps_less_than_five_mebibytes() -> None:
    displays, allowance = Displays(), Allowance.of(RESULT_LIMITS)
    cells = [MemoryOutputs(displays, allowance) for _ in range(30)]
    for cell in cells:
        for _ in range(3):
            cell.write(stream("z" * MEBI + "\n"))
            cell.write(message("display_data", data={"image/png": "A" * MEBI}, metadata={}))
            cell.write(message("error", ename="E", evalue="", traceback=["t" * MEBI]))
    kept = sum(len(str(o)) for cell in cells for o in cell.outputs)
    assert kept < 5 * MEBI
    assert all(cell.omitted for cell in cells)


@requirement("outputs:floods:kept")
def test_what_is_cleared_is_given_back() -> None:
    memory = MemoryOutputs(Displays())
    for number in range(20):
        memory.write(message("clear_output", wait=False))
        memory.write(stream("z" * MEBI))
        memory.write(message("display_data", data={"image/png": f"{number}" * MEBI}, metadata={}))
    assert not memory.omitted
    assert [o.get("output_type") for o in memory.outputs] == ["stream", "display_data"]


@requirement("outputs:text:odd")
async def test_half_characters_and_huge_numbers_do_no_harm() -> None:
    shared, displays = SharedCell(), Displays()
    writer = shared.writer(displays)
    writer.begin()
    deliver(stream("a\ud800b😀"), displays, writer)
    data: dict[str, Any] = {"application/json": {"big": 2**70, "n": 3, "\udfff": ["\ud801"]}, "text/plain": "\udfff"}
    deliver(message("display_data", data=data, metadata={}), displays, writer)
    deliver(message("error", ename="\ud800", evalue="\ud800", traceback=["\ud800"]), displays, writer)
    writer.end(1)
    assert shared.outputs[0]["text"] == "a?b😀"
    assert shared.outputs[1]["data"]["application/json"] == {"big": float(2**70), "n": 3, "?": ["?"]}
    copy: Doc[Any] = Doc()
    copy.apply_update(shared.doc.get_update())
