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
SHOWN = 5


def init(settings: Settings, *, as_json: bool) -> int:
    with progress_bar("scan") as progress:

        def show(done: int, total: int) -> None:
            # How many files there are is known only when all have been listed.
            if total:
                progress(done, total)

        found = _with_context(settings, lambda context, _call: context.scan(show))
    if as_json:
        _say(_json(asdict(found)))
        return 0
    done = "written" if found.changed else "up to date"
    _say(
        f"{counted(found.files, 'file')}{' and more' if found.truncated else ''}, "
        f"{counted(len(found.modules), 'module')}, {', '.join(found.stack)}"
    )
    _say(f"{_strong(found.file)} is {done}; edit it freely, what you write stays")
    return 0


def show(settings: Settings, module: str | None, *, as_json: bool) -> int:
    if not ProjectFile(settings.root).path.exists():
        raise NotFound(
            f"nothing is known of {on_one_line(str(settings.root))} yet",
            hint="`cellwright init` looks at it and writes project.yaml",
        )
    if as_json:
        project = _with_context(settings, lambda context, _call: context.project())
        shown = asdict(project.module(module)) if module else asdict(project)
        _say(_json(shown))
        return 0
    text = _with_context(settings, lambda context, call: context.module(module) if module else context.overview(call))
    _say("\n".join(_strong(line) if line.startswith("#") else line for line in text.removesuffix("\n").split("\n")))
    return 0


def status(settings: Settings, *, as_json: bool) -> int:
    async def gather(context: ProjectContext, call: Call) -> dict[str, Any]:
        share = await context.share(call)
        recent = await context.recent(call, SHOWN)
        found = await context.discoveries()
        missing = await context.enrich(apply=False)
        return {
            "sessions": [_session(one) for one in recent],
            "discoveries": len(found),
            "not_in_project_file": len(missing.additions),
            "tokens": {**asdict(share), "total": share.total},
        }

    shown = _with_context(settings, gather)
    if as_json:
        _say(_json(shown))
        return 0
    _say(_strong("Sessions"))
    for one in shown["sessions"]:
        words = (one["id"], one["status"], one["started"], counted(one["calls"], "call"), counted(one["files"], "file"))
        _say("  ".join(("", *words, on_one_line(", ".join(one["topics"])))).rstrip())
    if not shown["sessions"]:
        _say("  none yet: one begins with the first call of an agent")
    _say(_strong("Discoveries"))
    _say(
        f"  {shown['discoveries']}, of which {shown['not_in_project_file']} are not in project.yaml (context_enrich adds them)"
    )
    _say(_strong("What a model would be given, in tokens"))
    _say("  " + ", ".join(f"{name} {value:,}" for name, value in shown["tokens"].items() if name != "archived"))
    return 0


def _session(one: Session) -> dict[str, Any]:
    return {
        "id": one.id[:8],
        "status": one.status.value,
        "started": iso(one.started),
        "calls": one.calls,
        "files": len(one.touched),
        "topics": list(one.topics),
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


def _json(shown: object) -> str:
    """As data, to the letter, with nothing in it that would move a terminal."""
    text = json.dumps(shown, indent=2, ensure_ascii=False)
    return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)


def _say(text: str) -> None:
    print(text)  # noqa: T201
