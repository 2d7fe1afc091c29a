"""The page's own files. There is nothing of anybody in them, so everybody may have them.

Starlette's StaticFiles gives out whole folders, parts of files, and the times at which they were installed; these are four files by name,
known by what is in them.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request

from cellwright.core.errors import NotFound
from cellwright.web.requests import header_of
from cellwright.web.responses import PageResponse

ASSETS = Path(__file__).parent / "assets"
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/static/page.css": ("page.css", "text/css; charset=utf-8"),
    "/static/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/static/cells.js": ("cells.js", "text/javascript; charset=utf-8"),
}
STATUS_SAME = 304


@dataclass(frozen=True, slots=True)
class _Kept:
    seen: tuple[int, int]
    body: bytes
    tag: str


class Static:
    """Reads a file again only when it has changed on disk."""

    def __init__(self, folder: Path = ASSETS) -> None:
        self._folder = folder
        self._kept: dict[str, _Kept] = {}

    def response(self, path: str, request: Request) -> PageResponse:
        name, kind = FILES[path]
        kept = self._read(name)
        headers = {"content-type": kind, "cache-control": "no-cache", "etag": kept.tag}
        if header_of(request, "if-none-match") == kept.tag:
            return PageResponse(b"", STATUS_SAME, {**headers, "content-length": "0"})
        return PageResponse(kept.body, headers=headers)

    def _read(self, name: str) -> _Kept:
        file = self._folder / name
        try:
            found = file.stat()
            seen = (found.st_mtime_ns, found.st_size)
            kept = self._kept.get(name)
            if kept is None or kept.seen != seen:
                body = file.read_bytes()
                kept = self._kept[name] = _Kept(seen, body, f'"{hashlib.sha256(body).hexdigest()[:20]}"')
        except FileNotFoundError:
            raise NotFound(f"this installation lacks {name}", hint="install the package again") from None
        return kept
