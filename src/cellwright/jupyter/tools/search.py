"""search_nbs: finding text in the cells and outputs of many notebooks, without keeping anybody else waiting."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.errors import CellwrightError, DeadlineExceeded, InvalidArgument
from cellwright.core.text.clean import clean
from cellwright.core.text.cutting import cut_text
from cellwright.core.text.sight import seen
from cellwright.core.types import Call
from cellwright.jupyter.files.paths import NotebookPath, folder_path
from cellwright.jupyter.files.stored import stored_notebook
from cellwright.jupyter.model import FileInfo, FileListing, JsonObject
from cellwright.jupyter.notebooks.reading import ReadableNotebook
from cellwright.jupyter.notebooks.views import Order, Sight
from cellwright.jupyter.notebooks.whole import read_cell
from cellwright.jupyter.service import Connected, LiveNotebooks
from cellwright.jupyter.tools.common import ListAge, how_old, news_block
from cellwright.jupyter.tools.reading import TRIES, moving_while_read
from cellwright.notebook.model import count_of, joined, revision_of
from cellwright.notebook.outputs import Output, is_data, is_error, is_stream, read_output

if TYPE_CHECKING:
    from regex import Pattern

SNIPPET_CHARACTERS = 160
LONG_LINE = 10_000
MAX_PATTERN = 500
MATCH_SECONDS = 1.0
SEARCH_SECONDS = 60.0
MAX_NOTEBOOKS_SEARCHED = 2_000
MAX_SEARCHED_BYTES = 50_000_000
CELLS_AT_ONCE = 200
SHOWN_UNREAD = 20

Where = Literal["source", "outputs", "both"]
HitPlace = Literal["source", "output"]
CellText = tuple[str, str, tuple[Output, ...]]


@dataclass(frozen=True, slots=True)
class Search:
    """The pattern, which texts are searched, and the deadline in seconds of the monotonic clock."""

    pattern: "Pattern[str]"
    where: Where
    deadline: float

    def check_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise DeadlineExceeded(
                f"the search took more than {SEARCH_SECONDS:g} s", hint="search a folder further down"
            )


class NotebookHit(TypedDict):
    path: str
    cell_id: str
    index: int
    where: HitPlace
    line: int
    snippet: str


class NotebookSearch(ListAge):
    hits: list[NotebookHit]
    views: dict[str, str]
    """By path: the view in which the hits have their indexes."""
    meanwhile: NotRequired[dict[str, str]]
    """By path: what others did to the order of cells since it was shown."""
    searched: int
    more: bool
    unread: NotRequired[list[str]]


async def search_nbs(
    notebooks: LiveNotebooks,
    call: Call,
    query: str,
    path: str = "",
    regex: bool = False,
    where: Where = "both",
    case_sensitive: bool = False,
    limit: Annotated[int, Field(ge=1, le=200)] = 30,
) -> NotebookSearch:
    """Find text, or a regular expression, in the cells and text outputs of all notebooks below a folder (or in one)."""
    pattern = _pattern(query, regex=regex, case_sensitive=case_sensitive)
    search = Search(pattern, where, time.monotonic() + SEARCH_SECONDS)
    connected = await notebooks.connected(call)
    files, listing = await _notebooks_to_search(connected, path)
    open_now = {room.path for room in connected.rooms.open_rooms() if room.connected}
    hits: list[NotebookHit] = []
    views: dict[str, str] = {}
    meanwhile: dict[str, str] = {}
    unread: list[str] = []
    searched = 0
    for file in files[:MAX_NOTEBOOKS_SEARCHED]:
        if len(hits) >= limit:
            break
        await call.progress(searched, len(files), file.path)
        search.check_time()
        try:
            new_hits, sight = await _hits_in(connected, search, file, limit - len(hits), is_open=file.path in open_now)
            if new_hits:
                hits += new_hits
                seen = notebooks.sight(call, NotebookPath(file.path))
                if news := news_block(seen.order_news(sight)):
                    meanwhile[file.path] = news[0]
                views[file.path] = seen.show(sight, lines={hit["cell_id"] for hit in new_hits})
            searched += 1
        except DeadlineExceeded:
            raise
        except CellwrightError:
            unread.append(file.path)
    complete = listing is None or listing.files.complete
    more = len(hits) >= limit or len(files) > MAX_NOTEBOOKS_SEARCHED or not complete
    answer: NotebookSearch = {"hits": hits, "views": views, "searched": searched, "more": more, **how_old(listing)}
    if meanwhile:
        answer["meanwhile"] = meanwhile
    if unread:
        answer["unread"] = unread[:SHOWN_UNREAD]
    return answer


async def _notebooks_to_search(connected: Connected, path: str) -> tuple[Sequence[FileInfo], FileListing | None]:
    """The notebooks to search, and the listing they are from; None if the path names one notebook."""
    documents = connected.found.jupyter.documents
    if path.endswith(".ipynb"):
        return [await documents.stat(NotebookPath(path))], None
    listing = await documents.listing(folder_path(path or connected.found.folder), ".ipynb")
    # One more than are searched, to tell that there are more.
    return await documents.describe(listing.files[: MAX_NOTEBOOKS_SEARCHED + 1]), listing


async def _hits_in(
    connected: Connected, search: Search, file: FileInfo, limit: int, *, is_open: bool
) -> tuple[list[NotebookHit], Sight]:
    """The hits, and the notebook in which they are."""
    path = NotebookPath(file.path)
    if is_open:
        async with connected.rooms.notebook(path) as document:
            cells, sight = await _live_cells(document.view)
        return await asyncio.to_thread(_hits, path, cells, search, limit), sight
    if (file.size or 0) > MAX_SEARCHED_BYTES:
        raise InvalidArgument(
            f"{path} has {file.size} bytes; at most {MAX_SEARCHED_BYTES} are searched",
            hint="make it smaller: clear its outputs",
        )
    # A notebook that nobody has open is read from its file, which opens no room.
    content = await stored_notebook(connected.found.jupyter.documents, path)
    # In a thread, with an engine that releases the lock and stops in time: the pattern may be anything.
    return await asyncio.to_thread(_hits_in_file, path, content, search, limit)


def _hits_in_file(
    path: NotebookPath, content: JsonObject, search: Search, limit: int
) -> tuple[list[NotebookHit], Sight]:
    cells = _cells_of(content)
    hits = _hits(path, cells, search, limit)
    counts = tuple(count_of(cell.get("execution_count")) for cell in content.get("cells") or ())
    ids, revisions = tuple(cell[0] for cell in cells), tuple(revision_of(cell[1]) for cell in cells) if hits else ()
    return hits, Sight(Order(ids), revisions, counts)


async def _live_cells(view: ReadableNotebook) -> tuple[list[CellText], Sight]:
    """All cells of an open notebook, with pauses for other callers. The document may not be read in a thread.

    Begun again if cells come, go or move meanwhile: the index of a hit would be that of another cell.
    """
    for _ in range(TRIES):
        cells: list[CellText] = []
        sight = view.sight()
        while len(cells) < view.cell_count:
            cell = await read_cell(view, len(cells))
            cells.append((cell.id, cell.source, cell.outputs))
            if len(cells) % CELLS_AT_ONCE == 0:
                await asyncio.sleep(0)
        if view.sight().has_order_of(sight):
            return cells, sight
    raise moving_while_read(view.name)


def _pattern(query: str, *, regex: bool, case_sensitive: bool) -> "Pattern[str]":
    if not query or len(query) > MAX_PATTERN:
        raise InvalidArgument(f"query must have 1 to {MAX_PATTERN} characters", hint="search for a shorter part of it")
    import regex as engine  # noqa: PLC0415 - it takes a while to load, and most never search

    try:
        return engine.compile(query if regex else engine.escape(query), 0 if case_sensitive else engine.IGNORECASE)
    except engine.error as error:
        raise InvalidArgument(
            f"query is not a regular expression: {error}", hint="regex: false searches it literally"
        ) from None


def _cells_of(content: JsonObject) -> list[CellText]:
    return [
        (
            str(cell.get("id", "")),
            joined(cell.get("source")),
            tuple(read_output(raw) for raw in cell.get("outputs") or ()),
        )
        for cell in content.get("cells") or ()
    ]


def _hits(path: NotebookPath, cells: list[CellText], search: Search, limit: int) -> list[NotebookHit]:
    hits: list[NotebookHit] = []
    for index, (cell_id, source, outputs) in enumerate(cells):
        texts: list[tuple[HitPlace, str]] = []
        if search.where != "outputs":
            texts.append(("source", source))
        if search.where != "source":
            texts.extend(("output", text) for output in outputs for text in _texts(output))
        for kind, text in texts:
            search.check_time()
            for number, line in _matching_lines(text, search.pattern):
                if len(hits) >= limit:
                    return hits
                snippet = cut_text((seen if kind == "source" else clean)(line).text, SNIPPET_CHARACTERS)
                hits.append(
                    {
                        "path": path.text,
                        "cell_id": clean(cell_id).text,
                        "index": index,
                        "where": kind,
                        "line": number,
                        "snippet": snippet,
                    }
                )
    return hits


def _matching_lines(text: str, pattern: "Pattern[str]") -> Iterator[tuple[int, str]]:
    try:
        for number, line in enumerate(text.split("\n"), 1):
            if hit := pattern.search(line, timeout=MATCH_SECONDS, concurrent=True):
                yield number, _excerpt_around(line, hit.start())
    except TimeoutError:
        raise DeadlineExceeded(
            f"the expression took more than {MATCH_SECONDS:g} s on one line",
            hint="write it without nested repetition, or search literally with regex: false",
        ) from None


def _excerpt_around(line: str, position: int) -> str:
    """The line, or the part around the position if it is very long: cleaning megabytes takes many times their memory."""
    if len(line) <= LONG_LINE:
        return line.strip()
    start, end = max(0, position - SNIPPET_CHARACTERS // 2), position + SNIPPET_CHARACTERS // 2
    return f"{'…' if start else ''}{line[start:end].strip()}{'…' if end < len(line) else ''}"


def _texts(output: Output) -> list[str]:
    if is_stream(output):
        return [output["text"]]
    if is_error(output):
        return [f"{output['ename']}: {output['evalue']}", *output["traceback"]]
    plain = output["data"].get("text/plain") if is_data(output) else None
    return [plain] if isinstance(plain, str) else []
