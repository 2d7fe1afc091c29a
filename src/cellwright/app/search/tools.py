"""The tool search_workspace: one search over everything."""

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.app.search.background import Progress
from cellwright.app.search.service import Finder, Result
from cellwright.core.toolset import Toolset, read
from cellwright.core.types import Call
from cellwright.notebook.places import PlaceKind

MOST_RESULTS = 50
Question = Annotated[str, Field(min_length=1, max_length=2_000)]


class HitPlace(TypedDict):
    """Where something was found."""

    kind: str
    title: str
    uri: str
    path: NotRequired[str]
    cell_id: NotRequired[str]
    line: NotRequired[int]


class WorkspaceHit(HitPlace):
    snippet: str
    score: float


class IndexingProgress(TypedDict):
    """How far indexing is, if the search could not cover everything yet."""

    done: int
    total: int
    left_out: NotRequired[int]
    problems: NotRequired[list[str]]


class WorkspaceHits(TypedDict):
    results: list[WorkspaceHit]
    mode: str
    indexing: NotRequired[IndexingProgress]


async def search_workspace(
    finder: Finder,
    call: Call,
    query: Question,
    kinds: list[PlaceKind] | None = None,
    limit: Annotated[int, Field(ge=1, le=MOST_RESULTS)] = 10,
) -> WorkspaceHits:
    """Search notebooks, files, your pads and thinking notebooks, and discoveries, by words and meaning. Read a result by its uri."""
    answer = await finder.search(call, query, kinds or (), limit)
    hits: WorkspaceHits = {
        "results": [_workspace_hit(result) for result in answer.results],
        "mode": answer.mode.value,
    }
    if not answer.indexing.complete:
        hits["indexing"] = _indexing_progress(answer.indexing)
    return hits


def _workspace_hit(result: Result) -> WorkspaceHit:
    place: HitPlace = {"kind": result.kind.value, "title": result.title, "uri": result.uri}
    if result.path is not None and result.path != result.title:
        place["path"] = result.path
    if result.cell_id is not None:
        place["cell_id"] = result.cell_id
    if result.line is not None:
        place["line"] = result.line
    return {**place, "snippet": result.snippet, "score": result.score}


def _indexing_progress(progress: Progress) -> IndexingProgress:
    indexing: IndexingProgress = {"done": progress.done, "total": progress.total}
    if progress.left_out:
        indexing["left_out"] = progress.left_out
    if progress.problems:
        indexing["problems"] = list(progress.problems)
    return indexing


def finding_toolset(finder: Finder) -> Toolset:
    """More of the toolset `workspace`, on a service of its own."""
    return Toolset("workspace", "what is here and whether it works", (read(search_workspace),), finder)
