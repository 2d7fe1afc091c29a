"""What the notebook tools share: argument types, and results of runs."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NotRequired, ParamSpec, TypeVar

from pydantic import Field
from pydantic_core import to_json
from typing_extensions import TypedDict

from cellwright.core.errors import CellwrightError, Forbidden
from cellwright.core.text.budget import estimate_tokens
from cellwright.core.text.counting import counted
from cellwright.core.toolset import Content, DataAsText, Image, Reply
from cellwright.core.types import Call
from cellwright.core.weight import characters_in
from cellwright.jupyter.documents.backing import Acknowledged
from cellwright.jupyter.documents.open_document import OnDisk
from cellwright.jupyter.edits.edited import Edited
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.kernels.executions import ExecutionView
from cellwright.jupyter.model import FileListing, NewCell, RoomKind
from cellwright.jupyter.notebooks.meaning import CallersSight
from cellwright.jupyter.notebooks.meanwhile import OrderNews, ViewShown
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.notebooks.shapes import MAX_PICTURES, CellRunReport, shape_execution
from cellwright.jupyter.service import LiveNotebooks, code_cells, wait_seconds
from cellwright.jupyter.staleness.words import StaleNews
from cellwright.notebook.addressing import CellRange
from cellwright.notebook.model import Kind
from cellwright.notebook.outputs import Output, is_data, is_error, is_stream
from cellwright.notebook.run import RunStatus

Path = Annotated[str, Field(description="notebook")]
ViewName = Annotated[str | None, Field(description="where the indexes are from; else your last")]
Wait = Annotated[float, Field(description="seconds to wait; then ask get_execution")]
OutputSize = Annotated[int, Field(alias="maxCellOutputSize", ge=1, description="characters of each output")]
CellKind = Literal["code", "markdown", "raw"]
DEFAULT_OUTPUT_SIZE = 2_000
DEFAULT_WAIT = 120
SMALL_CHARACTERS = 100_000
OTHER_DATA = 8

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """By index (end exclusive; without it one cell) or id, or [12] as id."""

    start: int | None = None
    end: int | None = None
    id: str | None = None

    def cell_range(self) -> CellRange:
        return CellRange(self.start, self.end, self.id)


@dataclass(frozen=True)
class Insertion:
    content: str
    type: CellKind = "code"

    def cell(self) -> NewCell:
        return NewCell(self.content, Kind(self.type))


def cell_ranges(ranges: Iterable[Range]) -> list[CellRange]:
    return [requested.cell_range() for requested in ranges]


def one_cell(cell: str | int) -> CellRange:
    """The range of one cell, by its index or name."""
    return CellRange(start=cell) if isinstance(cell, int) else CellRange(id=cell)


def author_of(call: Call) -> str:
    """Whose edits these are, for undo."""
    return call.principal.id


class SavedState(TypedDict, total=False):
    """Whether what was changed is on disk, with all before it; if not, why, and what to do."""

    saved: bool | None
    not_saved: str


class EditAcknowledgement(SavedState):
    """Whether people share the document of an edit, and whether the edit is on disk."""

    live: bool


def acknowledgement(acknowledged: Acknowledged, run: SavedState | None = None) -> EditAcknowledgement:
    """What is known of an edit; of an edit and the `run` that followed it, whether both are on disk."""
    if run is not None and "saved" in run:
        return {"live": acknowledged.live, **saved_part(run)}
    return {"live": acknowledged.live, **saved_state(OnDisk(acknowledged.saved, acknowledged.not_saved))}


def saved_state(on_disk: OnDisk) -> SavedState:
    if on_disk.not_saved:
        return {"saved": on_disk.saved, "not_saved": on_disk.not_saved}
    return {"saved": on_disk.saved}


def saved_part(answer: SavedState) -> SavedState:
    """The part of an answer that says whether everything is on disk."""
    return saved_state(OnDisk(answer.get("saved"), answer.get("not_saved", "")))


async def saved_after_run(notebooks: LiveNotebooks, call: Call, view: ExecutionView, path: NotebookPath) -> SavedState:
    """Whether the outputs of a run are on disk, after a save if there was none for a while."""
    if not view.state.ended:
        return {"saved": False, "not_saved": "it still runs; its outputs are saved every few seconds"}
    if notebooks.ours is not None and notebooks.open_now(path) is None:
        # People would see it being opened again, only because somebody asked how a run had ended.
        return saved_state(notebooks.ours.rooms.left_on_disk(path, RoomKind.NOTEBOOK))
    try:
        async with notebooks.open(call, path) as document:
            return saved_state(await document.settle_run())
    except CellwrightError as error:
        # The run has happened, whatever became of its notebook.
        return {"saved": False, "not_saved": error.message}


class ChangeReport(ViewShown, StaleNews):
    """What an edit changed, the view of the notebook after it, and which cells are stale since."""

    diff: str


class EditOutcome(EditAcknowledgement, ChangeReport):
    """What every edit of a notebook says."""


def news_block(answer: OrderNews) -> list[str]:
    """The news of the order as a text, for answers that are texts."""
    return [answer["meanwhile"]] if "meanwhile" in answer else []


def change_part(answer: ChangeReport) -> ChangeReport:
    """The part of an answer that says what was changed."""
    news: OrderNews = {"meanwhile": answer["meanwhile"]} if "meanwhile" in answer else {}
    stale: StaleNews = {"stale": answer["stale"]} if "stale" in answer else {}
    return {"diff": answer["diff"], "view": answer["view"], **news, **stale}


def change_report(
    sight: CallersSight, edited: Edited[T], shown: Collection[str] = (), believed: Mapping[str, str] | None = None
) -> ChangeReport:
    """What an edit changed. It shows the caller the texts of the `shown` cells."""
    news = sight.order_news(edited.after, edited.before)
    return {"diff": edited.diff, "view": sight.show(edited.after, shown, believed), **news}


class CellWhereabouts(TypedDict):
    """Where a cell is now, and its revision, for the next call."""

    index: int | None
    id: str
    revision: str | None


def whereabouts(notebook: LiveNotebook, ids: list[str]) -> list[CellWhereabouts]:
    cells: list[CellWhereabouts] = []
    for cell_id in ids:
        try:
            index = notebook.index_of(cell_id)
        except CellwrightError:
            # The edit itself succeeded, even if its cell is gone again or shares its id with another.
            cells.append({"index": None, "id": cell_id, "revision": None})
        else:
            cells.append({"index": index, "id": cell_id, "revision": notebook.head(index).revision})
    return cells


class RunFailure(TypedDict):
    """Why a run did not begin, in the shape of every failure."""

    code: str
    message: str
    hint: str
    retryable: bool
    details: NotRequired[dict[str, object]]


@dataclass(frozen=True, slots=True)
class NotBegun:
    """A run that was to follow an edit and did not begin."""

    error: CellwrightError

    def failure(self, edit_message: str) -> RunFailure:
        """The failure, with a hint that the edit itself was made: repeating the call would make it twice."""
        hint = f"{edit_message}, and that stands: do not repeat this call, run the cells with execute_nb_cells"
        failure: RunFailure = {
            "code": self.error.code,
            "message": self.error.message,
            "hint": f"{hint}. {self.error.hint}" if self.error.hint else hint,
            "retryable": False,
        }
        if self.error.details:
            failure["details"] = self.error.details
        return failure


async def run_if_asked(
    notebooks: LiveNotebooks, call: Call, path: NotebookPath, ids: list[str], *, should_run: bool, wait: float
) -> ExecutionView | NotBegun | None:
    """Run the code cells among these, if that was asked for and there are any."""
    if not should_run:
        return None
    try:
        async with notebooks.open(call, path) as document:
            runnable = code_cells(document.view, ids)
        return await notebooks.run(call, path, runnable, wait_seconds(wait)) if runnable else None
    except CellwrightError as error:
        # The edit before it is acknowledged. If the whole call failed, the caller would repeat that edit.
        return NotBegun(error)


def how_it_went(view: ExecutionView) -> str:
    """A run in a sentence, with exact counts of cells."""
    count = len(view.states)
    cells = counted(count, "code cell")
    if view.state is RunStatus.DONE:
        return f"Ran {cells}"
    counts = Counter(state.value.replace("_", " ") for state in view.states)
    state_counts = ", ".join(f"{number} {state}" for state, number in counts.items())
    return f"{view.state.value}: {cells}" if count == 1 else f"{view.state.value}: of {cells} {state_counts}"


class RunOutcome(SavedState):
    """The part of an answer about a run that is always there."""

    failed_cells: NotRequired[list[str]]
    executed: bool
    execution_results: list[CellRunReport]
    notes: NotRequired[list[str]]
    cursor: NotRequired[str]
    next: NotRequired[str]


class RunReport(RunOutcome):
    execution_id: str
    status: str


class RunIfAsked(RunOutcome):
    """A run that follows something else; without a run, that there was none, and why if one was asked for."""

    execution_id: NotRequired[str]
    status: NotRequired[str]
    error: NotRequired[RunFailure]


async def run_report(
    notebooks: LiveNotebooks, call: Call, view: ExecutionView, path: DocPath | None, limit: int
) -> Reply[RunReport]:
    """A run's outputs, its pictures, and how it went."""
    size = sum(weight(cell.outputs) for cell in view.cells)
    outputs = [output for cell in view.cells for output in cell.outputs]
    fitted = await notebooks.pictures.in_outputs(outputs, MAX_PICTURES, call.principal.id)
    shaped, pictures = await off_the_loop(size, shape_execution, view, path, limit, fitted)
    saved: SavedState = await saved_after_run(notebooks, call, view, path) if isinstance(path, NotebookPath) else {}
    report: RunReport = {"executed": True, **saved, **shaped}
    if not view.state.ended:
        report["cursor"] = view.cursor()
        rest = f"get_execution('{view.id}', since='{report['cursor']}')"
        state = "not known whether it still runs" if view.doubt else "still running"
        report["next"] = f"{state}: {rest} has what comes, cancel_execution stops it"
    return Reply(report, content_of(pictures), failed=view.failed)


async def off_the_loop(size: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Do small work here and large work in a thread: cleaning megabytes must not keep other callers waiting."""
    if size <= SMALL_CHARACTERS:
        return work(*arguments, **named)
    return await asyncio.to_thread(work, *arguments, **named)


def weight(outputs: Sequence[Output]) -> int:
    """About how many characters there are to work through; pictures count for what they are."""
    total = 0
    for output in outputs:
        if is_stream(output):
            total += len(output["text"])
        elif is_error(output):
            total += sum(map(len, output["traceback"]))
        elif is_data(output):
            # Data that is no text takes several times as long for each of its characters.
            texts = [value for value in output["data"].values() if isinstance(value, str)]
            others = [value for value in output["data"].values() if not isinstance(value, str)]
            total += sum(map(len, texts)) + OTHER_DATA * characters_in(others, SMALL_CHARACTERS)
        else:
            total += characters_in(output, SMALL_CHARACTERS)
    return total


def content_of(pictures: list[Image]) -> tuple[Content, ...] | None:
    """The data and the pictures beside it; None where the data alone says everything."""
    return (DataAsText(), *pictures) if pictures else None


def incomplete_note(folder: str) -> str:
    """The note of an answer whose walk ended before it had seen everything."""
    return (
        f"there are too many folders below {folder or 'the workspace'} to look into all of them; name one further down"
    )


def compact(data: object) -> str:
    return to_json(data).decode("utf-8")


Entry = TypeVar("Entry")


def first_of(entries: Iterable[Entry], tokens: int) -> list[Entry]:
    """The first entries that cost at most this many tokens together, at least one. No others are made."""
    page: list[Entry] = []
    for entry in entries:
        tokens -= estimate_tokens(compact(entry))
        if tokens < 0 and page:
            break
        page.append(entry)
    return page


class ListAge(TypedDict, total=False):
    age_seconds: float


def how_old(listing: FileListing | None) -> ListAge:
    """The age of a list of files, if it was not made for this request."""
    return {} if listing is None or listing.age_seconds is None else {"age_seconds": round(listing.age_seconds, 1)}


class KernelThatGoesOn(TypedDict):
    id: NotRequired[str]
    state: str
    note: str


class KernelLeft(TypedDict, total=False):
    kernel: KernelThatGoesOn


async def kernel_left(notebooks: LiveNotebooks, call: Call, path: NotebookPath, how_to_end: str) -> KernelLeft:
    """The notebook's kernel if one goes on running, for the answer. Starts nothing."""
    connected = notebooks.in_use(call)
    if connected is None:
        return {}
    try:
        session = await connected.found.jupyter.kernels.session_of(path)
    except Forbidden as denied:
        return {"kernel": {"state": "unknown", "note": f"whether one goes on is not shown: {denied.message}"}}
    except CellwrightError as error:
        return {
            "kernel": {"state": "unknown", "note": f"Jupyter did not say whether a kernel goes on: {error.message}"}
        }
    if session is None or session.kernel is None:
        return {}
    kernel = session.kernel
    return {
        "kernel": {
            "id": kernel.id,
            "state": connected.kernels.state_of(kernel),
            "note": f"goes on; {how_to_end} ends it",
        }
    }
