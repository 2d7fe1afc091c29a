"""search_workspace: everything by one search."""

from typing import Annotated, Any

from pydantic import Field

from cellwright.app.search.background import Progress
from cellwright.app.search.service import Finder, Result
from cellwright.core.toolset import Toolset, read
from cellwright.core.types import Call
from cellwright.notebook.places import PlaceKind

MOST_RESULTS = 50
Question = Annotated[str, Field(min_length=1, max_length=2_000)]


async def search_workspace(
    finder: Finder,
    call: Call,
    query: Question,
    kinds: list[PlaceKind] | None = None,
    limit: Annotated[int, Field(ge=1, le=MOST_RESULTS)] = 10,
) -> dict[str, Any]:
    """Search notebooks, files, your pads and thinking notebooks, and discoveries, by words and meaning. Read a result by its uri."""
    answer = await finder.search(call, query, kinds or (), limit)
    told: dict[str, Any] = {"results": [_shown(one) for one in answer.results], "mode": answer.mode.value}
    if not answer.indexing.complete:
        told["indexing"] = _progress(answer.indexing)
    return told


def _shown(result: Result) -> dict[str, Any]:
    shown = {
        "kind": result.kind.value,
        "title": result.title,
        "uri": result.uri,
        "path": result.path if result.path != result.title else None,
        "cell_id": result.cell_id,
        "line": result.line,
        "snippet": result.snippet,
        "score": result.score,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _progress(progress: Progress) -> dict[str, Any]:
    """Why there may be more than was found."""
    told: dict[str, Any] = {"done": progress.done, "total": progress.total}
    if progress.left_out:
        told["left_out"] = progress.left_out
    if progress.problems:
        told["problems"] = list(progress.problems)
    return told


def finding_toolset(finder: Finder) -> Toolset:
    """More of the toolset `workspace`, on a service of its own."""
    return Toolset("workspace", "what is here and whether it works", (read(search_workspace),), finder)
