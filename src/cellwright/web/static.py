"""The page's own files. They contain nobody's data, so everybody may read them.

Starlette's StaticFiles serves whole folders and parts of files, and tells when they were installed. Here are a few files by name, whose
tags are made from their contents.
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
    "/static/states.js": ("states.js", "text/javascript; charset=utf-8"),
    "/static/variables.js": ("variables.js", "text/javascript; charset=utf-8"),
}
STATUS_SAME = 304


@dataclass(frozen=True, slots=True)
class _CachedFile:
    stamp: tuple[int, int]
    body: bytes
    tag: str


class Static:
    """Reads a file again only when it has changed on disk."""

    def __init__(self, folder: Path = ASSETS) -> None:
        self._folder = folder
        self._cache: dict[str, _CachedFile] = {}

    def response(self, path: str, request: Request) -> PageResponse:
        name, kind = FILES[path]
        file = self._read(name)
        headers = {"content-type": kind, "cache-control": "no-cache", "etag": file.tag}
        if header_of(request, "if-none-match") == file.tag:
            return PageResponse(b"", STATUS_SAME, {**headers, "content-length": "0"})
        return PageResponse(file.body, headers=headers)

    def _read(self, name: str) -> _CachedFile:
        path = self._folder / name
        try:
            stat = path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            file = self._cache.get(name)
            if file is None or file.stamp != stamp:
                body = path.read_bytes()
                file = self._cache[name] = _CachedFile(stamp, body, f'"{hashlib.sha256(body).hexdigest()[:20]}"')
        except FileNotFoundError:
            raise NotFound(f"this installation lacks {name}", hint="install the package again") from None
        return file
