"""What the notebook tools share: argument types, and results of runs."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ParamSpec, TypeVar

from pydantic import Field
from pydantic_core import to_json

from cellwright.core.errors import CellwrightError
from cellwright.core.toolset import Image, Link, Reply
from cellwright.core.types import Call
from cellwright.jupyter.backing import Acknowledged
from cellwright.jupyter.executions import ExecutionView
from cellwright.jupyter.model import DataOutput, ErrorOutput, JsonObject, Output, StreamOutput
from cellwright.jupyter.notebook import Notebook
from cellwright.jupyter.paths import DocPath, NotebookPath
from cellwright.jupyter.service import LiveNotebooks, code_cells, wait_seconds
from cellwright.jupyter.shapes import shape_execution

Path = Annotated[str, Field(description="notebook, relative to the server's root")]
Wait = Annotated[float, Field(description="seconds to wait; a longer run goes on, ask get_execution")]
OutputSize = Annotated[int, Field(alias="maxCellOutputSize", ge=1, description="characters kept of each output")]
DEFAULT_OUTPUT_SIZE = 2_000
DEFAULT_WAIT = 120.0
SMALL_CHARACTERS = 100_000

P = ParamSpec("P")
T = TypeVar("T")


def author_of(call: Call) -> str:
    """Whose edits these are: what undo takes back."""
    return call.principal.id


def known(acknowledged: Acknowledged) -> JsonObject:
    """What is known of an edit: whether people share the document, whether it is on disk."""
    return {"live": acknowledged.live, "saved": acknowledged.saved}


def places(notebook: Notebook, ids: list[str]) -> list[JsonObject]:
    """Where cells are now, and their revisions: what the next call needs."""
    found: list[JsonObject] = []
    for cell_id in ids:
        try:
            index = notebook.index_of(cell_id)
        except CellwrightError:
            # The edit is done; that its cell is gone again, or shares its id with another, is no failure of it.
            found.append({"index": None, "id": cell_id, "revision": None})
        else:
            found.append({"index": index, "id": cell_id, "revision": notebook.head(index).revision})
    return found


async def run_if_asked(
    notebooks: LiveNotebooks, call: Call, path: NotebookPath, ids: list[str], *, wanted: bool, wait: float
) -> ExecutionView | None:
    """Run the code cells among these, if that was asked for and there are any."""
    if not wanted:
        return None
    async with notebooks.open(call, path) as document:
        runnable = code_cells(document.view, ids)
    return await notebooks.run(call, path, runnable, wait_seconds(wait)) if runnable else None


async def with_run(
    done: JsonObject, view: ExecutionView | None, path: DocPath | None, limit: int
) -> Reply[dict[str, Any]]:
    """A result that ends with a run: its outputs, its pictures, and the truth about how it went."""
    if view is None:
        return Reply({**done, "executed": False, "execution_results": []})
    size = sum(weight(cell.outputs) for cell in view.cells)
    shaped, pictures = await off_the_loop(size, shape_execution, view, path, limit)
    if not view.state.ended:
        shaped["next"] = f"still running: get_execution('{view.id}') has the rest, cancel_execution stops it"
    data = {**done, "executed": True, **shaped}
    return Reply(data, content_of(data, pictures), failed=view.failed)


async def off_the_loop(size: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Do the work here if it is small, else in a thread: cleaning megabytes must not keep other callers waiting."""
    if size <= SMALL_CHARACTERS:
        return work(*arguments, **named)
    return await asyncio.to_thread(work, *arguments, **named)


def weight(outputs: Sequence[Output]) -> int:
    """About how many characters there are to work through; pictures count for what they are."""
    total = 0
    for output in outputs:
        match output:
            case StreamOutput():
                total += len(output.text)
            case ErrorOutput():
                total += sum(len(line) for line in output.traceback)
            case DataOutput():
                total += sum(len(value) for value in output.data.values() if isinstance(value, str))
            case _:
                total += 1
    return total


def content_of(data: object, pictures: list[Image]) -> tuple[str | Image | Link, ...] | None:
    """None where the data alone says everything."""
    return (compact(data), *pictures) if pictures else None


def compact(data: object) -> str:
    return to_json(data).decode("utf-8")
