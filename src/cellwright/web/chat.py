"""The notebook view for chats (MCP Apps): one document that loads nothing, made from the page's own files."""

import re
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from cellwright.core.errors import NotFound
from cellwright.core.resources import NOTEBOOK_VIEW, VIEW_MIME, Content, ResourceInfo, ResourceTemplate
from cellwright.core.types import Call

ASSETS = Path(__file__).parent / "assets"
_EXPORT = re.compile(r"^export (?=(?:async )?function |const |class )", re.MULTILINE)
_IMPORT = re.compile(r"^import \{[^}]*\} from \"\./cells\.js\";\n", re.MULTILINE)


def notebook_view(assets: Path = ASSETS) -> str:
    """The view as one file. A view cannot import modules, so the module that it shares with the page is put before its script."""

    def text(name: str) -> str:
        return (assets / name).read_text(encoding="utf-8")

    script = _EXPORT.sub("", text("cells.js")) + _IMPORT.sub("", text("app.js"))
    return text("app.html").replace("/* page.css */", text("page.css")).replace("/* app.js */", script)


class ViewResources:
    """`ui://`: what hosts with MCP Apps show beside the results of tools. The tools name these resources, so they are not listed."""

    scheme = "ui"

    def templates(self) -> Sequence[ResourceTemplate]:
        return ()

    async def list(self, call: Call) -> Sequence[ResourceInfo]:
        del call
        return ()

    async def read(self, call: Call, uri: str) -> Sequence[Content]:
        del call
        if uri != NOTEBOOK_VIEW:
            raise NotFound(f"no resource {uri[:200]}", hint=f"there is {NOTEBOOK_VIEW}")
        # It names no domains, because the view asks only its host.
        return (Content(notebook_view(), VIEW_MIME, {"ui": {"prefersBorder": True}}),)

    async def watch(self, call: Call, uri: str) -> AbstractAsyncContextManager[object] | None:
        del call, uri
        return None

    async def complete(self, call: Call, template: str, argument: str, prefix: str) -> Sequence[str]:
        del call, template, argument, prefix
        return ()
