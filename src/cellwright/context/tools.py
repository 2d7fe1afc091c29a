"""Toolset `context`: find one's way in a project, read and search its files, keep what was learnt."""

import asyncio
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.context.files.grep import Match
from cellwright.context.files.reading import FileText
from cellwright.context.finding import SearchHit
from cellwright.context.model import iso
from cellwright.context.service import Enrichment, ProjectContext, Scanned
from cellwright.core.toolset import Toolset, read, write
from cellwright.core.types import Call

PROGRESS_SECONDS = 0.2
Line = Annotated[int | None, Field(ge=1)]


class KnownHits(TypedDict):
    hits: list[SearchHit]


async def context_search(
    context: ProjectContext,
    call: Call,
    query: Annotated[str, Field(min_length=1, max_length=2_000)],
    types: list[Literal["discovery", "module", "session", "notebook", "file"]] | None = None,
    module: str | None = None,
    limit: Annotated[int, Field(ge=1, le=50)] = 10,
) -> KnownHits:
    """Search what is known of the project, by words and by meaning: discoveries, modules, your sessions, notebooks, files."""
    hits = await context.search(call, query, types or (), module or "", limit)
    return {"hits": hits}


async def read_file(
    context: ProjectContext,
    path: str,
    include_dependencies: bool = False,
    depth: Annotated[int, Field(ge=1, le=3)] = 1,
    start: Line = None,
    end: Line = None,
) -> FileText:
    """Read a text file of the project, or lines start to end; a notebook as its cells. Can add the project files it imports."""
    return await context.files.read(path, start, end, depth if include_dependencies else 0)


class GrepMatch(TypedDict):
    """A matching line: `before` and `after` are there where there are lines around."""

    path: str
    line: int
    text: str
    before: NotRequired[list[str]]
    after: NotRequired[list[str]]


@dataclass(frozen=True)
class GrepAnswer:
    matches: list[GrepMatch]
    files_searched: int
    truncated: bool
    timed_out: bool


async def grep_codebase(
    context: ProjectContext,
    pattern: str,
    file_pattern: Annotated[str | None, Field(description="a glob: *.py, src/**/*.{ts,tsx}")] = None,
    case_sensitive: bool = False,
    context_lines: Annotated[int, Field(ge=0, le=10)] = 2,
    limit: Annotated[int, Field(ge=1, le=500)] = 50,
) -> GrepAnswer:
    """Search the project's files by regular expression (RE2: no look-around). What git ignores is left out."""
    matches = await context.files.grep(
        pattern, file_pattern or "", case_sensitive=case_sensitive, context_lines=context_lines, limit=limit
    )
    return GrepAnswer(
        list(map(_grep_match, matches.matches)), matches.files_searched, matches.truncated, matches.timed_out
    )


def _grep_match(match: Match) -> GrepMatch:
    grep_match: GrepMatch = {"path": match.path, "line": match.line, "text": match.text}
    if match.before:
        grep_match["before"] = match.before
    if match.after:
        grep_match["after"] = match.after
    return grep_match


class RecordedDiscovery(TypedDict):
    id: str
    type: str
    merged: bool
    times: int
    recorded: str
    note: NotRequired[str]


async def context_record(
    context: ProjectContext,
    call: Call,
    type: Literal["pattern", "rule", "decision", "issue"],  # noqa: A002 - the contract's name
    content: str,
    module: str | None = None,
    solution: Annotated[str | None, Field(description="of an issue")] = None,
) -> RecordedDiscovery:
    """Keep something you learnt about the project, for later sessions. What is known already is counted, not doubled."""
    discovery, merged = await context.record(call, type, content, module or "", solution or "")
    note = await context.module_note(module or "")
    recorded: RecordedDiscovery = {
        "id": discovery.id,
        "type": discovery.type.value,
        "merged": merged,
        "times": discovery.times,
        "recorded": iso(discovery.updated),
    }
    if note:
        recorded["note"] = note
    return recorded


async def context_enrich(context: ProjectContext, apply: bool = False) -> Enrichment:
    """Show what the discoveries would add to project.yaml; with apply, add it. Comments and what people wrote stay."""
    return await context.enrich(apply=apply)


async def context_scan(context: ProjectContext, call: Call) -> Scanned:
    """Look at the project's files again and add new facts and modules to project.yaml; what people wrote stays."""
    loop = asyncio.get_running_loop()
    reports: list[Future[None]] = []
    last_report = float("-inf")

    def report(count: int, total: int) -> None:
        """Called from the thread that reads the files."""
        nonlocal last_report
        if total and (count == total or time.monotonic() - last_report >= PROGRESS_SECONDS):
            last_report = time.monotonic()
            reports.append(asyncio.run_coroutine_threadsafe(call.progress(count, total, "source files read"), loop))

    scanned = await context.scan(report)
    # Nothing about a call may follow its answer.
    await asyncio.gather(*map(asyncio.wrap_future, reports))
    return scanned


def context_toolset(context: ProjectContext) -> Toolset:
    return Toolset(
        "context",
        "what is known about the project: search it, read and grep its files, keep what was learnt",
        (
            read(context_search),
            read(read_file),
            read(grep_codebase),
            write(context_record, idempotent=True),
            write(context_enrich, idempotent=True),
            write(context_scan, idempotent=True, long=True),
        ),
        context,
    )
