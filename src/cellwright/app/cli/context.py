"""The commands about the project: init, show, status."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, TypeVar

from cellwright.app.cli.storage import progress_bar
from cellwright.app.parts import MIGRATIONS, database_location, project_context, search_of
from cellwright.app.settings import Settings, make_root
from cellwright.context.model import Session, iso
from cellwright.context.project.file import ProjectFile
from cellwright.context.service import ProjectContext
from cellwright.core.errors import NotFound
from cellwright.core.resources import Changes
from cellwright.core.text.counting import counted
from cellwright.core.text.names import on_one_line
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.storage.location import open_database

T = TypeVar("T")
SHOWN_SESSIONS = 5


def init(settings: Settings, *, as_json: bool) -> int:
    with progress_bar("scan") as progress:

        def show(scanned: int, total: int) -> None:
            # The number of files is known only when all have been listed.
            if total:
                progress(scanned, total)

        scan = _with_context(settings, lambda context, _call: context.scan(show))
    if as_json:
        _say(_json(asdict(scan)))
        return 0
    state = "written" if scan.changed else "up to date"
    _say(
        f"{counted(scan.files, 'file')}{' and more' if scan.truncated else ''}, "
        f"{counted(len(scan.modules), 'module')}, {', '.join(scan.stack)}"
    )
    _say(f"{_strong(scan.file)} is {state}; edit it freely, what you write stays")
    return 0


def show(settings: Settings, module: str | None, *, as_json: bool) -> int:
    if not ProjectFile(settings.root).path.exists():
        raise NotFound(
            f"nothing is known of {on_one_line(str(settings.root))} yet",
            hint="`cellwright init` looks at it and writes project.yaml",
        )
    if as_json:
        project = _with_context(settings, lambda context, _call: context.project())
        project_data = asdict(project.module(module)) if module else asdict(project)
        _say(_json(project_data))
        return 0
    text = _with_context(settings, lambda context, call: context.module(module) if module else context.overview(call))
    _say("\n".join(_strong(line) if line.startswith("#") else line for line in text.removesuffix("\n").split("\n")))
    return 0


def status(settings: Settings, *, as_json: bool) -> int:
    async def gather(context: ProjectContext, call: Call) -> dict[str, Any]:
        share = await context.share(call)
        recent = await context.recent(call, SHOWN_SESSIONS)
        discoveries = await context.discoveries()
        missing = await context.enrich(apply=False)
        return {
            "sessions": [_session_json(session) for session in recent],
            "discoveries": len(discoveries),
            "not_in_project_file": len(missing.additions),
            "tokens": {**asdict(share), "total": share.total},
        }

    summary = _with_context(settings, gather)
    if as_json:
        _say(_json(summary))
        return 0
    _say(_strong("Sessions"))
    for session in summary["sessions"]:
        calls, files = counted(session["calls"], "call"), counted(session["files"], "file")
        columns = ("", session["id"], session["status"], session["started"], calls, files)
        _say("  ".join((*columns, on_one_line(", ".join(session["topics"])))).rstrip())
    if not summary["sessions"]:
        _say("  none yet: one begins with the first call of an agent")
    _say(_strong("Discoveries"))
    _say(
        f"  {summary['discoveries']}, of which {summary['not_in_project_file']} are not in project.yaml (context_enrich adds them)"
    )
    _say(_strong("What a model would be given, in tokens"))
    _say("  " + ", ".join(f"{name} {value:,}" for name, value in summary["tokens"].items() if name != "archived"))
    return 0


def _session_json(session: Session) -> dict[str, Any]:
    return {
        "id": session.id[:8],
        "status": session.status.value,
        "started": iso(session.started),
        "calls": session.calls,
        "files": len(session.touched),
        "topics": list(session.topics),
    }


def _with_context(settings: Settings, work: Callable[[ProjectContext, Call], Awaitable[T]]) -> T:
    make_root(settings)

    async def run() -> T:
        database = open_database(database_location(settings), MIGRATIONS)
        search = search_of(settings, database)
        context = project_context(settings, database, search, Changes())
        try:
            return await work(context, Call(Principal("local", ALL_SCOPES)))
        finally:
            await context.close()
            await search.close()
            await database.close()

    return asyncio.run(run())


def _strong(text: str) -> str:
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text


def _json(document: object) -> str:
    """The document as JSON text in which every character that would control a terminal is escaped."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def _say(text: str) -> None:
    print(text)  # noqa: T201
