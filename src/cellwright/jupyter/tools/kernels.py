"""Toolset `kernels`: runs that go on, interrupting, looking at variables, completion."""

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.errors import InvalidArgument, NotFound
from cellwright.core.text.clean import clean
from cellwright.core.toolset import Image, Reply, Toolset, read, run
from cellwright.core.types import Call
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.inside.permitted import WRITE_KERNELS, require, require_run
from cellwright.jupyter.kernels.executions import Execution, ExecutionView
from cellwright.jupyter.kernels.images import FittedImage
from cellwright.jupyter.kernels.interpreter import python_and_packages
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.reproducing.reproductions import PREFIX
from cellwright.jupyter.service import LiveNotebooks, wait_seconds
from cellwright.jupyter.tools.common import (
    DEFAULT_OUTPUT_SIZE,
    OutputSize,
    Path,
    RunReport,
    Wait,
    content_of,
    how_it_went,
    run_report,
)
from cellwright.jupyter.tools.reproducing import ReproductionReport, reproduction_report
from cellwright.jupyter.variables.inspecting import idle_kernel, inspect_kernel, picture_note, process_of, queue_of

LONGEST_NAME = 1_000
"""No package has a longer one, and none is found by a part that is cut here."""
_DASHES = str.maketrans("_.", "--")
SHOWN_PACKAGES = 200


class ExecutionReport(RunReport):
    message: str


async def get_execution(
    notebooks: LiveNotebooks,
    call: Call,
    execution_id: str,
    timeout: Wait = 0.0,  # noqa: ASYNC109 - as the other tools call it
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
    since: Annotated[str | None, Field(description="cursor of your last answer: only what is new")] = None,
) -> Reply[ExecutionReport | ReproductionReport]:
    """How a run is doing and its outputs so far; waits up to timeout seconds for its end."""
    if execution_id.startswith(PREFIX):
        reproduction = notebooks.reproductions.get(call.principal.id, execution_id)
        await reproduction.wait(wait_seconds(timeout), call.report)
        return Reply(reproduction_report(notebooks, call, reproduction))
    execution = notebooks.executions.get(call.principal.id, execution_id)
    execution.view(since)  # An unknown cursor is refused before the wait, not after it.
    await execution.wait(wait_seconds(timeout), call.report)
    report = await _report(notebooks, call, execution, execution.view(since), max_cell_output_size)
    return Reply(report.data, report.content, report.failed)


async def cancel_execution(
    notebooks: LiveNotebooks,
    call: Call,
    execution_id: str,
    max_cell_output_size: OutputSize = DEFAULT_OUTPUT_SIZE,
) -> Reply[ExecutionReport | ReproductionReport]:
    """Interrupt a run of yours, or take it from the queue. What it has put out so far is kept."""
    if execution_id.startswith(PREFIX):
        reproduction = notebooks.reproductions.get(call.principal.id, execution_id)
        require(call.principal, WRITE_KERNELS)
        await reproduction.cancel()
        return Reply(reproduction_report(notebooks, call, reproduction))
    view = await notebooks.cancel(call, execution_id)
    execution = notebooks.executions.get(call.principal.id, execution_id)
    reply = await _report(notebooks, call, execution, view, max_cell_output_size)
    # Interrupting is what was asked for: that the run did not end well is no failure of this call.
    return Reply(reply.data, reply.content, failed=False)


async def _report(
    notebooks: LiveNotebooks, call: Call, execution: Execution, view: ExecutionView, limit: int
) -> Reply[ExecutionReport]:
    path = NotebookPath(execution.checkpoint.document) if execution.checkpoint is not None else None
    report = await run_report(notebooks, call, view, path, limit)
    return Reply({"message": how_it_went(view), **report.data}, report.content, report.failed)


class InterruptedKernel(TypedDict):
    message: str
    kernel_id: str


async def interrupt_nb_kernel(notebooks: LiveNotebooks, call: Call, path: Path) -> InterruptedKernel:
    """Interrupt whatever runs in the notebook's kernel, a person's cell too. Variables stay."""
    notebook_path = NotebookPath(path)
    connected = await notebooks.connected(call)
    session = await connected.found.jupyter.kernels.session_of(notebook_path)
    if session is None or session.kernel is None:
        raise NotFound(f"{notebook_path} has no running kernel", hint="execute_nb_cells starts one")
    await connected.found.jupyter.kernels.interrupt(session.kernel.id)
    return {"message": f"Interrupted the kernel of {notebook_path}", "kernel_id": session.kernel.id}


class KernelShutdown(TypedDict):
    message: str
    kernel_id: str | None


async def shutdown_nb_kernel(notebooks: LiveNotebooks, call: Call, path: Path) -> KernelShutdown:
    """End the notebook's kernel, its variables and what runs in it. The next run starts a new one."""
    notebook_path = NotebookPath(path)
    ended = await notebooks.shut_down(call, notebook_path)
    if ended is None:
        return {"message": f"{notebook_path} has no running kernel", "kernel_id": None}
    shared = f", in which {', '.join(ended.others[:5])} ran too" if ended.others else ""
    return {"message": f"Shut down the kernel of {notebook_path}{shared}", "kernel_id": ended.kernel.id}


class KernelVariables(TypedDict):
    language: str
    variables: dict[str, JsonObject | None]
    """As the kernel describes them, which is somebody else's program; None for a name that it does not have."""
    missing: NotRequired[dict[str, str]]
    more: NotRequired[int]
    note: NotRequired[str]


async def inspect_variables(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    names: Annotated[
        list[str] | None, Field(description="names or paths, as df, m.layers[0]; all if not given")
    ] = None,
) -> Reply[KernelVariables]:
    """Variables of the notebook's running Python kernel: a row of each, or those you name in depth. Leaves no trace; not while busy."""
    inspection = await inspect_kernel(notebooks, call, NotebookPath(path), names or [])
    for name, picture in inspection.pictures.items():
        (inspection.variables[name] or {})["picture"] = picture_note(picture)
    about: KernelVariables = {"language": inspection.language, "variables": inspection.variables}
    if inspection.missing:
        about["missing"] = inspection.missing
    if inspection.more:
        about["more"] = inspection.more
    if inspection.is_late:
        about["note"] = "there was no time to look at everything: name fewer variables"
    pictures = [picture for picture in inspection.pictures.values() if isinstance(picture, FittedImage)]
    return Reply(about, content_of([Image(picture.data, picture.mime_type) for picture in pictures]))


class Completions(TypedDict):
    matches: list[str]
    start: int
    end: int


async def complete_code(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    code: str,
    cursor: Annotated[int | None, Field(description="position in code; its end if not given")] = None,
) -> Completions:
    """What the notebook's running kernel would complete at the cursor: names, attributes, files."""
    position = len(code) if cursor is None else cursor
    if not 0 <= position <= len(code):
        # Kernels do not answer such a question at all.
        raise InvalidArgument(
            f"cursor {position} is not in the code, which has {len(code)} characters",
            hint=f"give 0 to {len(code)}, or leave it out for the end",
        )
    require_run(call, needed=())
    queue = await queue_of(notebooks, call, NotebookPath(path))
    completion = await queue.kernel.complete(code, position)
    return {
        "matches": [clean(match).text for match in completion.matches[:100]],
        "start": completion.start,
        "end": completion.end,
    }


class KernelEnvironment(TypedDict):
    language: str
    version: str
    implementation: str
    interpreter: NotRequired[str]
    prefix: NotRequired[str]
    folder: NotRequired[str]
    process: NotRequired[JsonObject]
    """Its number, bytes of memory, seconds of processor time and of life, threads, and the same of the processes that it started."""
    packages: dict[str, str] | None
    matching: NotRequired[int]
    installed: NotRequired[int]
    note: NotRequired[str]


async def kernel_environment(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    filter: Annotated[str, Field(description="part of a package's name")] = "",  # noqa: A002 - what it does
) -> KernelEnvironment:
    """Interpreter, packages, memory and CPU time of the notebook's running kernel. Leaves no trace in it; not while it is busy."""
    async with idle_kernel(notebooks, call, NotebookPath(path)) as kernel:
        info = await kernel.kernel_info()
        language, version = clean(info.language).text, clean(info.language_version).text
        implementation = clean(info.implementation).text
        if info.language != "python":
            return {
                "language": language,
                "version": version,
                "implementation": implementation,
                "packages": None,
                "note": "packages are known of Python kernels only",
            }
        python, packages = await python_and_packages(kernel)
        process = await process_of(kernel)
    part = _plain_name(filter.strip()[:LONGEST_NAME])
    matching = {name: version for name, version in packages.items() if part in _plain_name(name)}
    listed = dict(list(matching.items())[:SHOWN_PACKAGES])
    about: KernelEnvironment = {
        "language": language,
        "version": version,
        "implementation": implementation,
        "interpreter": python.executable,
        "prefix": python.prefix,
        "folder": python.folder,
        "process": process,
        "packages": listed,
        "matching": len(matching),
        "installed": len(packages),
    }
    if len(listed) < len(matching):
        about["note"] = f"{len(matching) - len(listed)} more packages match: give a filter"
    return about


def _plain_name(name: str) -> str:
    """Package names mean the same with dashes, dots and underscores."""
    return name.lower().translate(_DASHES)


def kernels_toolset(notebooks: LiveNotebooks) -> Toolset:
    tools = (
        read(get_execution, long=True),
        run(cancel_execution, long=False),
        run(interrupt_nb_kernel, long=False),
        run(shutdown_nb_kernel, long=False),
        run(inspect_variables, destructive=False),
        run(complete_code, destructive=False, long=False),
        read(kernel_environment),
    )
    return Toolset(
        "kernels",
        "runs that go on, interrupting and ending kernels, variables, packages, completion",
        tools,
        notebooks,
    )
