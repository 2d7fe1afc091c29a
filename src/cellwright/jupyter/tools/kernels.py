"""Toolset `kernels`: runs that go on, interrupting, looking at variables, completion."""

import json
from typing import Annotated, Any

from pydantic import Field

from cellwright.core.clean import clean
from cellwright.core.errors import NotFound, Unavailable
from cellwright.core.toolset import Reply, Toolset, read, run
from cellwright.core.types import Call
from cellwright.jupyter.executions import Job
from cellwright.jupyter.kernel_queue import KernelQueue
from cellwright.jupyter.model import JsonObject, StreamOutput
from cellwright.jupyter.paths import NotebookPath
from cellwright.jupyter.service import LiveNotebooks, require_run, wait_seconds
from cellwright.jupyter.shapes import cut_text
from cellwright.jupyter.tools.common import DEFAULT_OUTPUT_SIZE, OutputSize, Path, Wait, with_run

INSPECT_SECONDS = 30.0
VALUE_CHARACTERS = 300

# Runs in the person's Python kernel in a namespace of its own: it leaves no name behind, `_` neither, and does not mind what the
# notebook calls `print` or `type`. Prints one line of JSON.
_LOOK = """
import json, sys, types
shown = {}
for name in wanted or sorted(space):
    if not wanted and (name.startswith("_") or name in hidden or isinstance(space[name], types.ModuleType)):
        continue
    if name not in space:
        shown[name] = None
        continue
    value = space[name]
    row = {"type": type(value).__module__ + "." + type(value).__qualname__}
    for attribute in ("shape", "dtype"):
        found = getattr(value, attribute, None)
        if found is not None and not callable(found):
            row[attribute] = str(found)[:80]
    try:
        row["length"] = len(value)
    except Exception:
        pass
    try:
        row["value"] = repr(value)[:characters]
    except Exception as error:
        row["value"] = "repr failed: " + type(error).__name__
    shown[name] = row
    if len(shown) >= most:
        break
sys.stdout.write(json.dumps(shown) + "\\n")
"""


def _look(names: list[str]) -> str:
    given = {"wanted": names, "characters": VALUE_CHARACTERS, "most": MAX_VARIABLES}
    shell = '"space": get_ipython().user_ns, "hidden": get_ipython().user_ns_hidden'
    return f'__import__("builtins").exec({_LOOK!r}, {{**{given!r}, {shell}}})'


MAX_VARIABLES = 100


async def get_execution(
    notebooks: LiveNotebooks,
    call: Call,
    execution_id: str,
    timeout: Wait = 0.0,  # noqa: ASYNC109 - as the other tools call it
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
) -> Reply[dict[str, Any]]:
    """How a run is doing and its outputs so far; waits up to timeout seconds for its end."""
    execution = notebooks.executions.get(call.principal.id, execution_id)
    view = await execution.wait(wait_seconds(timeout), call.report)
    return await with_run({"message": f"{view.state.value}: {len(view.cells)} cells"}, view, None, max_cell_output_size)


async def cancel_execution(
    notebooks: LiveNotebooks,
    call: Call,
    execution_id: str,
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
) -> Reply[dict[str, Any]]:
    """Interrupt a run of yours, or take it from the queue. What it has put out so far is kept."""
    view = await notebooks.executions.get(call.principal.id, execution_id).cancel()
    reply = await with_run(
        {"message": f"{view.state.value}: {len(view.cells)} cells"}, view, None, max_cell_output_size
    )
    # Interrupting is what was asked for: that the run did not end well is no failure of this call.
    return Reply(reply.data, reply.content, failed=False)


async def interrupt_nb_kernel(notebooks: LiveNotebooks, call: Call, path: Path) -> dict[str, Any]:
    """Interrupt whatever runs in the notebook's kernel, a person's cell too. Variables stay."""
    checked = NotebookPath(path)
    connected = await notebooks.connected(call)
    session = await connected.found.jupyter.kernels.session_of(checked)
    if session is None or session.kernel is None:
        raise NotFound(f"{checked} has no running kernel", hint="execute_nb_cells starts one")
    await connected.found.jupyter.kernels.interrupt(session.kernel.id)
    return {"message": f"Interrupted the kernel of {checked}", "kernel_id": session.kernel.id}


async def inspect_variables(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    names: Annotated[list[str] | None, Field(description="all if not given")] = None,
) -> dict[str, Any]:
    """Variables of the notebook's running kernel: type, shape, length, start of the value. Python; for other languages give one name."""
    queue = await _running_queue(notebooks, call, NotebookPath(path))
    language = (await queue.kernel.kernel_info()).language
    if language != "python":
        return await _inspected(queue, names, language)
    code = _look(names or [])
    execution = queue.submit(call.principal.id, [Job(lambda: code, store_history=False)])
    view = await execution.wait(INSPECT_SECONDS)
    text = "".join(output.text for output in view.cells[0].outputs if isinstance(output, StreamOutput))
    try:
        shown: JsonObject = json.loads(text)
    except ValueError:
        raise Unavailable("the kernel did not answer", hint="it may be busy: get_nb_stat shows its state") from None
    return {"language": language, "variables": {name: _row(row) for name, row in shown.items()}}


def _row(row: JsonObject | None) -> JsonObject | None:
    if row is None:
        return None
    return {key: clean(value).text if isinstance(value, str) else value for key, value in row.items()}


async def _inspected(queue: KernelQueue, names: list[str] | None, language: str) -> dict[str, Any]:
    shown: JsonObject = {}
    for name in names or ():
        found = await queue.kernel.inspect(name, len(name))
        text = str((found or {}).get("text/plain", ""))
        shown[name] = {"value": cut_text(clean(text).text, VALUE_CHARACTERS)[0]} if found else None
    return {"language": language, "variables": shown}


async def complete_code(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    code: str,
    cursor: Annotated[int | None, Field(description="position in code; its end if not given")] = None,
) -> dict[str, Any]:
    """What the notebook's running kernel would complete at the cursor: names, attributes, files."""
    queue = await _running_queue(notebooks, call, NotebookPath(path))
    found = await queue.kernel.complete(code, len(code) if cursor is None else cursor)
    return {"matches": [clean(match).text for match in found.matches[:100]], "start": found.start, "end": found.end}


async def _running_queue(notebooks: LiveNotebooks, call: Call, path: NotebookPath) -> KernelQueue:
    """The queue of the notebook's kernel, if one runs: looking at things starts nothing."""
    require_run(call)
    session = await (await notebooks.connected(call)).found.jupyter.kernels.session_of(path)
    if session is None:
        raise NotFound(f"{path} has no running kernel", hint="execute_nb_cells starts one")
    return await notebooks.queue(call, session)


def kernels_toolset(notebooks: LiveNotebooks) -> Toolset:
    tools = (
        read(get_execution, long=True),
        run(cancel_execution, long=False),
        run(interrupt_nb_kernel, long=False),
        run(inspect_variables, destructive=False),
        run(complete_code, destructive=False, long=False),
    )
    return Toolset("kernels", "runs that go on, interrupting, variables, completion", tools, notebooks)
