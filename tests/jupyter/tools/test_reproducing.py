"""Reproducing notebooks: real kernels on a real server, over both adapters, and nothing of the notebook touched."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cellwright.core.errors import Forbidden, InvalidArgument, LimitReached, NotFound
from cellwright.core.text.budget import estimate_tokens
from cellwright.core.types import ALL_SCOPES, Call, Principal, Scope
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.notebooks.notebook import SourceChange
from cellwright.jupyter.port import Jupyter
from cellwright.jupyter.reproducing import reproductions
from cellwright.jupyter.server.connect import FoundServer
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.common import compact
from cellwright.jupyter.tools.kernels import cancel_execution, get_execution
from cellwright.jupyter.tools.notebooks import get_nb_stat
from cellwright.jupyter.tools.reproducing import reproduce_nb
from cellwright.jupyter.tools.running import execute_nb_cells
from cellwright.notebook.addressing import at
from jupyter_support import JupyterServer, PersonIn, eventually, write_notebook
from kernel_support import rest
from requirements import requirement
from support import stdio_client

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]
CALL = Call(Principal("ada", ALL_SCOPES))
SLEEP = "import time; print('on', flush=True); time.sleep(600)"


@pytest.fixture
async def notebooks(jupyter: Jupyter) -> AsyncGenerator[LiveNotebooks]:
    async def connect() -> FoundServer:
        return FoundServer(jupyter, "named")

    service = LiveNotebooks(connect, lambda: datetime.now(UTC))
    try:
        yield service
    finally:
        await service.close()


def printed(text: str) -> list[dict[str, Any]]:
    return [{"output_type": "stream", "name": "stdout", "text": text}]


def result(text: str) -> list[dict[str, Any]]:
    return [{"output_type": "execute_result", "execution_count": 1, "data": {"text/plain": text}, "metadata": {}}]


def raised(name: str, message: str) -> list[dict[str, Any]]:
    return [{"output_type": "error", "ename": name, "evalue": message, "traceback": []}]


def cell(source: str, outputs: list[dict[str, Any]] | None = None, *tags: str, count: int | None = 1) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "metadata": {"tags": list(tags)} if tags else {},
        "source": source,
        "outputs": outputs or [],
        "execution_count": count,
    }


MARKDOWN: dict[str, Any] = {"cell_type": "markdown", "metadata": {}, "source": "# text"}


class Notebook:
    """A notebook in a folder of the test's own, on the server of the test's adapter."""

    def __init__(self, server: JupyterServer, folder: str) -> None:
        self._root = server.root
        self.path = f"{folder}/sub dir/n.ipynb"

    def write(self, *cells: dict[str, Any], **metadata: Any) -> Path:
        for index, written in enumerate(cells):
            written["id"] = f"c{index}"
        return write_notebook(self._root, self.path, [], cells=[dict(written) for written in cells], metadata=metadata)


@pytest.fixture
def notebook(jupyter_server: JupyterServer, folder: str) -> Notebook:
    return Notebook(jupyter_server, folder)


async def kernel_ids(jupyter: Jupyter) -> set[str]:
    return {kernel.id for kernel in await jupyter.kernels.kernels()}


def verdicts(report: Any) -> dict[int, str]:
    return {found["index"]: found["status"] for found in report["cells"]}


@requirement("reproduce:verdicts", "reproduce:costs", "reproduce:ends", "reproduce:live")
async def test_a_notebook_that_reproduces(notebooks: LiveNotebooks, jupyter: Jupyter, notebook: Notebook) -> None:
    before = await kernel_ids(jupyter)
    notebook.write(
        MARKDOWN,
        cell("import os, time\nclass Thing: ..."),
        cell("print(os.path.basename(os.getcwd()))", printed("sub dir\n")),
        cell("0.1 + 0.2", result("0.3000000001")),
        cell("block = bytearray(60_000_000)\nThing()", result("<__main__.Thing at 0x7f1122334455>")),
        cell("  \n", count=None),
        cell("print('a')\nprint('b')", [*printed("a\n"), *printed("b\n")]),
    )
    report: Any = await reproduce_nb(notebooks, CALL, notebook.path)
    assert report["reproduces"] is True, report
    assert report["counts"] == {"same": 3, "close": 2}
    assert verdicts(report) == {3: "close", 4: "close"}
    assert [found["why"] for found in report["cells"]] == [["numbers"], ["addresses of objects"]]
    assert report["status"] == "done"
    assert [cost.split(":")[0] for cost in report["costs"]] == ["1", "2", "3", "4", "6"]
    grown = next(cost for cost in report["costs"] if cost.startswith("4:"))
    assert 50 < float(grown.split("s, +")[1].split()[0]) < 80
    assert report["peak_memory_mb"] is not None
    assert report["peak_memory_mb"] > 90
    kernel = report.get("kernel")
    assert kernel is not None
    assert (kernel["language"], kernel["version"][:2]) == ("python", "3.")
    assert "python" in kernel["interpreter"]
    assert await kernel_ids(jupyter) == before


@requirement("reproduce:verdicts", "reproduce:hints", "reproduce:compare:forms")
async def test_each_cell_that_differs_is_shown_with_why(notebooks: LiveNotebooks, notebook: Notebook) -> None:
    plot = "import matplotlib; matplotlib.use('agg')\n%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot({}); plt.show()"
    notebook.write(
        cell("print('mean', 0.5)", printed("mean 0.25\n")),
        cell("import random\nrandom.random()", result("0.123")),
        cell("print('new')"),
        cell("1", result("1") + printed("gone\n")),
        cell("print('never run')", count=None),
        cell(
            "'application/x-odd'", [{"output_type": "display_data", "data": {"application/x-odd": "1"}, "metadata": {}}]
        ),
        cell(plot.format("[1, 2, 3]")),
        cell("{'b': 1}['b']", result("1")),
    )
    report: Any = await reproduce_nb(notebooks, CALL, notebook.path)
    assert report["reproduces"] is False
    assert report["counts"] == {"same": 1, "different": 6, "no_output_kept": 1}
    by_index: dict[int, Any] = {found["index"]: found for found in report["cells"]}
    assert by_index[0]["why"] == ["stdout: 0.25 was kept, 0.5 came"]
    assert by_index[0]["diff"] == "-mean 0.25\n+mean 0.5"
    assert "hint" not in by_index[0]
    assert "without a seed" in by_index[1]["hint"]
    assert by_index[2]["why"] == ["new: stdout"]
    assert by_index[3]["why"] == ["missing: stdout"]
    assert by_index[6]["why"] == ["new: image/png"]
    assert report.get("first_difference") == {"index": 0, "id": "c0", "status": "different"}
    assert report["message"].startswith("The notebook does not reproduce: of 8 code cells 1 same, 6 different")


@requirement("reproduce:compare:forms", "reproduce:verdicts")
async def test_pictures_of_a_real_library(notebooks: LiveNotebooks, notebook: Notebook) -> None:
    plot = "%matplotlib inline\nimport matplotlib.pyplot as plt\nfigure = plt.plot({}); plt.show()"
    file = notebook.write(cell(plot.format("[1, 2, 3]")), cell("'x'", result("'x'")))
    await execute_nb_cells(notebooks, CALL, notebook.path, cells="all")
    assert (await reproduce_nb(notebooks, CALL, notebook.path))["counts"] == {"same": 2}
    kept = json.loads(file.read_text(encoding="utf-8"))
    assert kept["cells"][0]["outputs"][0]["data"]["image/png"]
    async with notebooks.open(CALL, NotebookPath(notebook.path)) as document:
        await document.change(lambda view: view.replace([SourceChange(at(0), plot.format("[1, 2, 3.5]"))]))
    report: Any = await reproduce_nb(notebooks, CALL, notebook.path)
    assert verdicts(report) == {0: "different"}
    assert "of the picture looks different" in report["cells"][0]["why"][0]


@requirement("reproduce:verdicts")
async def test_what_cannot_be_compared_is_not_known(notebooks: LiveNotebooks, notebook: Notebook) -> None:
    show = "from IPython.display import display\ndisplay({'application/x-odd': %r}, raw=True)"
    odd = [{"output_type": "display_data", "data": {"application/x-odd": "1"}, "metadata": {}}]
    notebook.write(cell(show % "2", odd), cell("1", result("1")))
    report: Any = await reproduce_nb(notebooks, CALL, notebook.path)
    assert (report["reproduces"], report["counts"]) == (None, {"same": 1, "unknown": 1})
    assert report["cells"][0]["why"] == ["application/x-odd"]


@requirement("reproduce:compare:forms")
async def test_outputs_that_a_later_cell_changes_are_compared_as_they_are_at_the_end(
    notebooks: LiveNotebooks, notebook: Notebook
) -> None:
    shown = [{"output_type": "display_data", "data": {"text/plain": "'after'"}, "metadata": {}}]
    notebook.write(
        cell("from IPython.display import display\nhandle = display('before', display_id=True)", shown),
        cell("handle.update('after')"),
    )
    report: Any = await reproduce_nb(notebooks, CALL, notebook.path)
    assert (report["reproduces"], report["counts"]) == (True, {"same": 2}), report


@requirement("reproduce:stops")
async def test_an_error_ends_the_run_unless_it_is_expected(notebooks: LiveNotebooks, notebook: Notebook) -> None:
    cells = [
        cell("1/0", raised("ZeroDivisionError", "division by zero"), "raises-exception"),
        cell("print('on')", printed("on\n")),
        cell("raise ValueError('not now')", printed("fine\n")),
        cell("print('last')", printed("last\n")),
    ]
    notebook.write(*cells)
    report: Any = await reproduce_nb(notebooks, CALL, notebook.path)
    assert (report["reproduces"], report["counts"]) == (False, {"same": 2, "error": 1, "not_run": 1})
    assert report.get("first_difference") == {"index": 2, "id": "c2", "status": "error"}
    assert "it raised ValueError" in report["cells"][0]["why"]
    report: Any = await reproduce_nb(notebooks, CALL, notebook.path, stop_on_error=False)
    assert report["counts"] == {"same": 3, "error": 1}


@requirement("reproduce:stops")
async def test_an_error_that_is_kept_ends_the_run_as_it_did(notebooks: LiveNotebooks, notebook: Notebook) -> None:
    notebook.write(cell("1/0", raised("ZeroDivisionError", "division by zero")), cell("print('never')", count=None))
    report: Any = await reproduce_nb(notebooks, CALL, notebook.path)
    assert (report["reproduces"], report["counts"]) == (None, {"same": 1, "not_run": 1})


@requirement("reproduce:stops")
async def test_questions_are_not_asked(notebooks: LiveNotebooks, notebook: Notebook) -> None:
    notebook.write(cell("input('name?')", result("'ada'")))
    report: Any = await reproduce_nb(notebooks, CALL, notebook.path)
    assert verdicts(report) == {0: "error"}
    assert report["cells"][0]["hint"]


@requirement("reproduce:parameters")
async def test_parameters_are_set_where_the_notebook_says(notebooks: LiveNotebooks, notebook: Notebook) -> None:
    notebook.write(
        cell("alpha = 1; names = []", None, "parameters"),
        cell("alpha = 7", None, "injected-parameters"),
        cell("alpha, names, flag, none", result("(0.5, ['a'], True, None)")),
    )
    values = {"alpha": 0.5, "names": ["a"], "flag": True, "none": None}
    report: Any = await reproduce_nb(notebooks, CALL, notebook.path, parameters=values)
    assert (report["reproduces"], report["counts"]) == (True, {"same": 2}), report
    assert report.get("parameters", "").startswith("set after cell 0")
    assert "in place of those of an earlier run" in report.get("parameters", "")
    notebook.path = notebook.path.replace("n.ipynb", "untagged.ipynb")
    notebook.write(MARKDOWN, cell("alpha", result("0.25")))
    report: Any = await reproduce_nb(notebooks, CALL, notebook.path, parameters={"alpha": 0.25})
    assert report["reproduces"] is True, report
    assert report.get("parameters") == "set at the top, because no cell is tagged parameters"


@requirement("reproduce:parameters")
@pytest.mark.parametrize("name", ["a b", "class", "1st", "x; import os", ""])
async def test_names_that_are_no_variables_are_refused(
    notebooks: LiveNotebooks, jupyter: Jupyter, notebook: Notebook, name: str
) -> None:
    notebook.write(cell("1"))
    before = await kernel_ids(jupyter)
    with pytest.raises(InvalidArgument, match="cannot be the name of a variable"):
        await reproduce_nb(notebooks, CALL, notebook.path, parameters={name: 1})
    assert await kernel_ids(jupyter) == before


@requirement("reproduce:hidden-state", "reproduce:hints")
async def test_a_deleted_cell_and_another_order_are_found_out(notebooks: LiveNotebooks, notebook: Notebook) -> None:
    notebook.write(cell("total = rate * 2\ntotal", result("4"), count=5), cell("print('x')", printed("x\n"), count=6))
    report: Any = await reproduce_nb(notebooks, CALL, notebook.path)
    assert report["reproduces"] is False
    assert report["cells"][0]["hint"].startswith("no cell defines 'rate'")
    assert report["counts"] == {"error": 1, "not_run": 1}
    notebook.path = notebook.path.replace("n.ipynb", "order.ipynb")
    notebook.write(
        cell("x = 1", count=3),
        cell("x = x + 1\nprint(x)", printed("3\n"), count=5),
        cell("x = 2", count=4),
        cell("print(y)", printed("9\n"), count=7),
        cell("y = 9", count=6),
        language_info={"name": "python", "version": "3.1.4"},
    )
    report: Any = await reproduce_nb(notebooks, CALL, notebook.path)
    assert verdicts(report) == {1: "different", 3: "error"}
    assert "another order: cell 2, 4 before one above" in report["cells"][0]["hint"]
    assert "defined only below, in cell 4" in report["cells"][1]["hint"]
    assert any("cell 2, 4 before one above" in note for note in report["notes"])
    assert any("version 3.1.4" in note for note in report["notes"])


@requirement("reproduce:untouched")
async def test_nothing_of_the_notebook_is_touched(
    notebooks: LiveNotebooks, jupyter: Jupyter, notebook: Notebook, person: PersonIn
) -> None:
    file = notebook.write(cell("x = 1\nx", count=None), cell("import os; open('made', 'w').close(); x", count=None))
    path = NotebookPath(notebook.path)
    await execute_nb_cells(notebooks, CALL, notebook.path, cells="all")
    async with person(notebook.path) as them:
        before = (file.read_bytes(), file.stat().st_mtime_ns)
        seen = them.doc.get_state()
        sessions = await jupyter.kernels.sessions()
        session = await notebooks.session(CALL, path)
        queue = await notebooks.queue(CALL, session)
        count = (await queue.kernel.execute("x = 'mine'", silent=True)).execution_count
        report: Any = await reproduce_nb(notebooks, CALL, notebook.path)
        assert report["reproduces"] is True, report
        await them.settle()
        assert them.doc.get_state() == seen
        assert (file.read_bytes(), file.stat().st_mtime_ns) == before
        assert {(one.id, one.path) for one in await jupyter.kernels.sessions()} == {
            (one.id, one.path) for one in sessions
        }
        reply = await queue.kernel.execute("", silent=True, user_expressions={"x": "x"})
        assert reply.user_expressions["x"]["data"]["text/plain"] == "'mine'"
        assert reply.execution_count == count
    # What the code itself writes is written beside the notebook, as in Jupyter.
    assert {entry.name for entry in file.parent.iterdir()} - {".ipynb_checkpoints"} == {"n.ipynb", "made"}


@requirement("reproduce:live")
async def test_the_copy_is_of_one_moment_with_what_nobody_saved(
    notebooks: LiveNotebooks, notebook: Notebook, person: PersonIn, jupyter_server: JupyterServer
) -> None:
    gate = jupyter_server.root / f"{notebook.path}.gate"
    file = notebook.write(cell("pass"), cell("print(5)", printed("5\n")), cell("print('end')", printed("end\n")))
    waiting = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    async with person(notebook.path) as them:
        # The server may write the file at any time, but it cannot before it has seen the edit.
        them.text_of(0).clear()
        them.text_of(0).insert(0, waiting)
        await them.settle()
        started = await reproduce_nb(notebooks, CALL, notebook.path, timeout=0)
        assert (started["status"], started["reproduces"]) == ("running", None)
        them.text_of(1).insert(0, "1/0\n")
        del them.cells[2]
        await them.settle()
        async with notebooks.open(CALL, NotebookPath(notebook.path)) as document:
            await eventually(lambda: document.view.cell_count == 2, "the deletion")
        gate.touch()
        report: Any = (await get_execution(notebooks, CALL, started["execution_id"], timeout=60)).data
        assert report["reproduces"] is True, report
        assert report["counts"] == {"same": 3}
        assert report["view"] != (await get_nb_stat(notebooks, CALL, notebook.path))["view"]
    assert file.exists()


@requirement("memory:kept", "reproduce:later")
async def test_what_is_kept_of_a_reproduction_is_without_the_outputs_it_compared(
    notebooks: LiveNotebooks, notebook: Notebook
) -> None:
    notebook.write(
        cell("1", result("1")), cell("1 / 0", printed("x" * 100_000)), cell("2", printed("never\n"), count=None)
    )
    started = await reproduce_nb(notebooks, CALL, notebook.path, timeout=0)
    report: Any = (await get_execution(notebooks, CALL, started["execution_id"], timeout=60)).data
    assert (report["reproduces"], report["counts"]) == (False, {"same": 1, "error": 1, "not_run": 1})
    kept = notebooks.reproductions.get(CALL.principal.id, started["execution_id"])
    assert [found.cell.outputs for found in kept.findings] == [()] * 3
    assert all(found.cell.has_run for found in kept.findings)


async def gone(jupyter: Jupyter, before: set[str]) -> None:
    deadline = asyncio.get_running_loop().time() + 20
    while await kernel_ids(jupyter) - before:
        assert asyncio.get_running_loop().time() < deadline, "a kernel was left"
        await asyncio.sleep(0.05)


async def begun(notebooks: LiveNotebooks, execution_id: str) -> None:
    reproduction = notebooks.reproductions.get(CALL.principal.id, execution_id)
    await eventually(lambda: reproduction._progress().endswith("on"), "first output", 60)  # pyright: ignore[reportPrivateUsage]


@requirement("reproduce:ends", "reproduce:later")
async def test_what_is_cancelled_leaves_no_kernel(
    notebooks: LiveNotebooks, jupyter: Jupyter, notebook: Notebook
) -> None:
    notebook.write(cell("print(1)", printed("1\n")), cell(SLEEP, printed("on\n")), cell("print(3)", printed("3\n")))
    before = await kernel_ids(jupyter)
    started = await reproduce_nb(notebooks, CALL, notebook.path, timeout=0)
    await begun(notebooks, started["execution_id"])
    assert len(await kernel_ids(jupyter) - before) == 1
    stranger = replace(CALL, principal=Principal("eve", ALL_SCOPES))
    for tool in (get_execution, cancel_execution):
        with pytest.raises(NotFound):
            await tool(notebooks, stranger, started["execution_id"])
    assert await notebooks.kernels_of_others(stranger) == await kernel_ids(jupyter) - before
    report: Any = (await cancel_execution(notebooks, CALL, started["execution_id"])).data
    assert (report["status"], report["reproduces"]) == ("cancelled", None)
    assert report["counts"] == {"same": 1, "not_run": 2}
    assert await kernel_ids(jupyter) == before


@requirement("reproduce:ends")
@pytest.mark.parametrize("moment", ["starting", "running"])
async def test_a_cancelled_call_leaves_no_kernel(
    notebooks: LiveNotebooks, jupyter: Jupyter, notebook: Notebook, moment: str
) -> None:
    notebook.write(cell(SLEEP, printed("on\n")))
    before = await kernel_ids(jupyter)
    call = asyncio.create_task(reproduce_nb(notebooks, CALL, notebook.path))
    await eventually(lambda: bool(notebooks.reproductions.of("ada")), "the reproduction")
    (reproduction,) = notebooks.reproductions.of("ada")
    if moment == "running":
        await begun(notebooks, reproduction.id)
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call
    await reproduction.wait(30)
    assert reproduction.ended
    assert reproduction.cancelled
    assert await kernel_ids(jupyter) == before


@requirement("reproduce:ends")
async def test_a_caller_who_may_only_have_lost_the_connection_gets_the_result_later(
    notebooks: LiveNotebooks, notebook: Notebook
) -> None:
    notebook.write(cell("import time; print('on', flush=True); time.sleep(1)", printed("on\n")))
    away = replace(CALL, may_have_left=True)
    call = asyncio.create_task(reproduce_nb(notebooks, away, notebook.path))
    await eventually(lambda: bool(notebooks.reproductions.of("ada")), "the reproduction")
    (reproduction,) = notebooks.reproductions.of("ada")
    await begun(notebooks, reproduction.id)
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call
    report: Any = (await get_execution(notebooks, away, reproduction.id, timeout=60)).data
    assert report["reproduces"] is True


@requirement("reproduce:ends")
async def test_a_kernel_that_dies_is_an_error_and_leaves_nothing(
    notebooks: LiveNotebooks, jupyter: Jupyter, notebook: Notebook
) -> None:
    notebook.write(cell("import os; os._exit(1)"), cell("print(1)", printed("1\n")))
    before = await kernel_ids(jupyter)
    report: Any = await reproduce_nb(notebooks, CALL, notebook.path)
    assert (report["reproduces"], report["counts"]) == (False, {"error": 1, "not_run": 1})
    assert "all its variables are lost" in report["cells"][0]["why"][0]
    await gone(jupyter, before)


@requirement("reproduce:verdicts", "reproduce:ends")
async def test_a_kernel_that_somebody_ends_says_nothing_of_the_notebook(
    notebooks: LiveNotebooks, jupyter: Jupyter, notebook: Notebook
) -> None:
    notebook.write(cell(SLEEP, printed("on\n")), cell("print(1)", printed("1\n")))
    before = await kernel_ids(jupyter)
    started = await reproduce_nb(notebooks, CALL, notebook.path, timeout=0)
    await begun(notebooks, started["execution_id"])
    (kernel,) = await kernel_ids(jupyter) - before
    await jupyter.kernels.shut_down(kernel)
    report: Any = (await get_execution(notebooks, CALL, started["execution_id"], timeout=60)).data
    assert (report["reproduces"], report["counts"]) == (None, {"unknown": 1, "not_run": 1})
    assert await kernel_ids(jupyter) == before


@requirement("reproduce:ends")
async def test_the_end_of_the_service_ends_the_kernels(
    jupyter: Jupyter, jupyter_server: JupyterServer, notebook: Notebook
) -> None:
    async def connect() -> FoundServer:
        return FoundServer(jupyter, "named")

    service = LiveNotebooks(connect, lambda: datetime.now(UTC))
    notebook.write(cell(SLEEP))
    before = await kernel_ids(jupyter)
    started = await reproduce_nb(service, CALL, notebook.path, timeout=0)
    await begun(service, started["execution_id"])
    assert len(await kernel_ids(jupyter) - before) == 1
    await service.close()
    left = await asyncio.to_thread(rest, jupyter_server, "GET", "/api/kernels")
    assert {kernel["id"] for kernel in left} == before


@requirement("reproduce:bounded")
async def test_an_answer_stays_small_and_names_what_it_leaves_out(notebooks: LiveNotebooks, notebook: Notebook) -> None:
    long = "\n".join(f"line {number} of the kept output" for number in range(200))
    cells = [cell(f"print({number})", printed(long)) for number in range(120)]
    notebook.write(*cells)
    report: Any = await reproduce_nb(notebooks, CALL, notebook.path)
    assert report["counts"] == {"different": 120}
    assert estimate_tokens(compact(report)) < 8_000
    shown, left_out = len(report["cells"]), report.get("more", [])
    assert 5 < shown < 120
    assert left_out[0] == f"{shown} different"
    assert len(report["costs"]) == 60


@requirement("reproduce:bounded")
async def test_few_notebooks_are_reproduced_at_once(
    notebooks: LiveNotebooks, notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproductions, "AT_ONCE", 1)
    notebook.write(cell(SLEEP))
    started = await reproduce_nb(notebooks, CALL, notebook.path, timeout=0)
    with pytest.raises(LimitReached, match="being reproduced already"):
        await reproduce_nb(notebooks, CALL, notebook.path)
    await cancel_execution(notebooks, CALL, started["execution_id"])


@requirement("reproduce:scope")
async def test_reproducing_needs_the_scope_to_run(notebooks: LiveNotebooks, notebook: Notebook) -> None:
    notebook.write(cell("1"))
    reader = Call(Principal("ada", frozenset({Scope.READ, Scope.WRITE})))
    with pytest.raises(Forbidden):
        await reproduce_nb(notebooks, reader, notebook.path)
    with pytest.raises(InvalidArgument, match="no kernel named"):
        await reproduce_nb(notebooks, CALL, notebook.path, kernel_name="cobol")


@requirement("reproduce:progress", "reproduce:later", "reproduce:scope")
async def test_a_client_over_stdio_is_shown_progress_and_gets_the_result_later(
    server_process: JupyterServer, tmp_path: Path
) -> None:
    path = f"stdio-{tmp_path.name}.ipynb"
    sources = ["import time; print('on', flush=True); time.sleep(1.2)", "time.sleep(0.7)", "print(2)"]
    write_notebook(server_process.root, path, sources)
    reports: list[tuple[float, float | None, str | None]] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    flags = ["--jupyter-url", server_process.url, "--jupyter-token", server_process.token, "--toolsets", "all"]
    async with stdio_client(tmp_path, *flags) as client:
        answer = await client.call_tool("reproduce_nb", {"path": path}, progress_callback=told)
        assert not answer.is_error, answer
        assert answer.structured_content is not None
        assert answer.structured_content["counts"] == {"no_output_kept": 3}
        assert any(message and message.startswith("cell 1 of 3: on") for _, _, message in reports), reports
        assert any(message and message.startswith("cell 2 of 3") for _, _, message in reports), reports
        assert [progress for progress, _, _ in reports] == sorted({progress for progress, _, _ in reports})
        brief = await client.call_tool("reproduce_nb", {"path": path, "timeout": 0.2})
        assert brief.structured_content is not None
        assert brief.structured_content["status"] == "running"
        later = await client.call_tool(
            "get_execution", {"execution_id": brief.structured_content["execution_id"], "timeout": 60}
        )
        assert later.structured_content is not None
        assert later.structured_content["counts"] == {"no_output_kept": 3}
        write_notebook(server_process.root, path, [SLEEP])
        left = await client.call_tool("reproduce_nb", {"path": path, "timeout": 3})
        assert left.structured_content is not None
        assert left.structured_content["status"] == "running"
        before = {kernel["id"] for kernel in rest(server_process, "GET", "/api/kernels")}

    def ended() -> bool:
        return len(before - {kernel["id"] for kernel in rest(server_process, "GET", "/api/kernels")}) == 1

    # The end of a client is the end of its cellwright, and of a kernel that nobody else knows of.
    await eventually(ended, "the end of the kernel")
    async with stdio_client(tmp_path, *flags, "--read-only") as client:
        assert "reproduce_nb" not in {tool.name for tool in (await client.list_tools()).tools}
