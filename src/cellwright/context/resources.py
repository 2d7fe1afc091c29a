"""`context://`: the project, its modules, sessions and discoveries, for reading and watching."""

import re
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from urllib.parse import parse_qsl

from cellwright.context.model import DiscoveryType
from cellwright.context.pages import inline, inline_name
from cellwright.context.service import ProjectContext
from cellwright.context.uris import (
    CURRENT_URI,
    DISCOVERIES_URI,
    MODULE_PREFIX,
    OVERVIEW_URI,
    RECENT_URI,
    module_uri,
    name_of,
)
from cellwright.core.errors import CellwrightError, InvalidArgument, InvalidUri
from cellwright.core.resources import Content, ResourceInfo, ResourceTemplate
from cellwright.core.text.names import on_one_line
from cellwright.core.types import Call

SCHEME = "context"
MARKDOWN = "text/markdown"
DEFAULT_LIMIT, MOST_RECENT = 10, 100
LISTED_MODULES = 100
FIXED = (
    ResourceInfo(
        OVERVIEW_URI,
        "Project Overview",
        "High-level project information, tech stack, and architecture; can be watched",
        MARKDOWN,
    ),
    ResourceInfo(CURRENT_URI, "Current Session", "Active session information and activity; can be watched", MARKDOWN),
    ResourceInfo(RECENT_URI, "Recent Sessions", "List of recent coding sessions; can be watched", MARKDOWN),
    ResourceInfo(DISCOVERIES_URI, "Discoveries", "What was learnt about the project; can be watched", MARKDOWN),
)
"""The addresses that are always the same."""
_URI = re.compile(r"context://([^\s?#]*)(?:\?([^\s#]*))?")


class ContextResources:
    """The resources of one project."""

    scheme = SCHEME

    def __init__(self, context: ProjectContext) -> None:
        self._context = context

    def templates(self) -> Sequence[ResourceTemplate]:
        return (
            ResourceTemplate(
                "context://module/{name}",
                "Module Detail",
                "Detailed module information including patterns, rules, and issues; can be watched",
                MARKDOWN,
            ),
            ResourceTemplate("context://sessions/recent{?limit}", "Recent Sessions", "Your last sessions", MARKDOWN),
            ResourceTemplate("context://discoveries{?type,module}", "Discoveries", "What was learnt", MARKDOWN),
            ResourceTemplate(
                "context://file/{+path}{?start}",
                "File",
                "A text file of the project, with start from that line on; a picture as bytes; not watched",
            ),
        )

    async def list(self, call: Call) -> Sequence[ResourceInfo]:
        del call
        try:
            project = await self._context.project()
        except CellwrightError:
            # A broken project file is reported where it is read; it must not hide the other resources.
            return FIXED
        modules = list(project.modules.values())[:LISTED_MODULES]
        return [
            *FIXED,
            *(
                ResourceInfo(
                    module_uri(module.name), inline_name(module.name), inline(module.description[:200]), MARKDOWN
                )
                for module in modules
            ),
        ]

    async def read(self, call: Call, uri: str) -> Sequence[Content]:
        path, query = _parts(uri)
        if path.startswith("file/"):
            return [await self._file(name_of(path.removeprefix("file/")), _only(query, {"start"}, uri).get("start"))]
        return [Content(await self._page(call, path, query, uri), MARKDOWN)]

    async def _file(self, path: str, start: str | None) -> Content:
        if start is None:
            if (picture := await self._context.files.picture(path)) is not None:
                return Content(picture.data, picture.mime_type)
            return Content(await self._context.files.page(path), "text/plain")
        page = await self._context.files.page_from(path, _line(start))
        meta: dict[str, object] = {"start": page.start, "end": page.end, "lines": page.lines}
        return Content(page.text, "text/plain", {**meta, **({"next": page.next} if page.next else {})})

    async def _page(self, call: Call, path: str, query: dict[str, str], uri: str) -> str:
        if path == "sessions/recent":
            return await self._context.recent_page(call, _limit(_only(query, {"limit"}, uri)))
        if path == "discoveries":
            filters = _only(query, {"type", "module"}, uri)
            return await self._context.discoveries_page(_type(filters.get("type", "")), filters.get("module", ""))
        _only(query, set(), uri)
        if path == "project/overview":
            return await self._context.overview(call)
        if path == "session/current":
            return await self._context.current_page(call)
        kind, _, name = path.partition("/")
        if kind != "module" or not name:
            raise _unsupported(uri)
        return await self._context.module(name_of(name))

    async def watch(self, call: Call, uri: str) -> AbstractAsyncContextManager[object] | None:
        if uri in {OVERVIEW_URI, CURRENT_URI, RECENT_URI, DISCOVERIES_URI}:
            return nullcontext()
        try:
            await self.read(call, uri)
        except CellwrightError:
            return None
        is_announced = uri.startswith((f"{RECENT_URI}?", f"{DISCOVERIES_URI}?", MODULE_PREFIX))
        return self._context.watching(uri) if is_announced else None

    async def complete(self, call: Call, template: str, argument: str, prefix: str) -> Sequence[str]:
        del call
        if argument == "type":
            return [kind.value for kind in DiscoveryType if kind.value.startswith(prefix)]
        if (template, argument) == ("context://module/{name}", "name") or argument == "module":
            try:
                project = await self._context.project()
            except CellwrightError:
                return []
            return sorted(name for name in project.modules if name.lower().startswith(prefix.lower()))
        return []


def _parts(uri: str) -> tuple[str, dict[str, str]]:
    match = _URI.fullmatch(uri)
    if match is None:
        raise _unsupported(uri)
    pairs = parse_qsl(match[2] or "", keep_blank_values=True)
    if len({name for name, _ in pairs}) != len(pairs):
        raise InvalidArgument("a parameter is given twice", details={"reason": "every parameter may be given once"})
    return match[1], dict(pairs)


def _only(query: dict[str, str], allowed: set[str], uri: str) -> dict[str, str]:
    unknown = sorted(set(query) - allowed)
    if unknown:
        raise InvalidArgument(
            f"unknown parameter {unknown[0][:40]!r}",
            details={"reason": f"{on_one_line(uri[:200])} takes {', '.join(sorted(allowed)) or 'no parameters'}"},
        )
    return query


def _limit(query: dict[str, str]) -> int:
    text = query.get("limit", str(DEFAULT_LIMIT))
    if not re.fullmatch(r"[0-9]{1,3}", text) or not 1 <= int(text) <= MOST_RECENT:
        raise InvalidArgument(
            f"Invalid limit: {text[:40]}", details={"reason": f"limit is a whole number from 1 to {MOST_RECENT}"}
        )
    return int(text)


def _line(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise InvalidArgument(
            f"Invalid start: {text[:40]}", details={"reason": "start is the number of a line, from 1"}
        )
    return int(text)


def _type(text: str) -> str:
    if text and text not in set(DiscoveryType):
        raise InvalidArgument(
            f"Invalid type: {text[:40]}", details={"reason": f"type is one of {', '.join(DiscoveryType)}"}
        )
    return text


def _unsupported(uri: str) -> InvalidUri:
    return InvalidUri(
        f"Unknown resource: {on_one_line(uri[:200])}",
        details={"reason": "resources/list and resources/templates/list show what there is"},
    )
