"""Reads files of the project: text as a person would see it, notebooks as cells, and the files that they import."""

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from cellwright.context.files.paths import Root
from cellwright.context.model import Unreadable
from cellwright.context.scanner.imports import Imports
from cellwright.context.scanner.languages import extension
from cellwright.context.uris import file_uri
from cellwright.core.errors import CellwrightError, InvalidArgument
from cellwright.core.secrecy import SecretFile
from cellwright.core.text.counting import counted
from cellwright.core.text.names import on_one_line
from cellwright.core.text.sight import seen
from cellwright.core.text.tokens import estimate_tokens
from cellwright.notebook.formats.registry import FORMATS
from cellwright.notebook.model import InvalidFormat, Kind

LARGEST_FILE = 4 << 20
BINARY_LOOK = 8_192
FILE_TOKENS = 4_000
DEPENDENCY_TOKENS = 1_500
MOST_DEPENDENCIES = 20
DEEPEST = 3
CUT = " … [the rest of this line is too long to be shown]"


PICTURES: Mapping[str, tuple[str, re.Pattern[bytes]]] = {
    "png": ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    "jpg": ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    "jpeg": ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    "gif": ("image/gif", re.compile(rb"GIF8[79]a")),
    "webp": ("image/webp", re.compile(rb"RIFF.{4}WEBP", re.DOTALL)),
}
"""The MIME type and the first bytes of pictures, by the endings of their names."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as it is on the disk. Only its first bytes are checked."""

    data: bytes
    mime_type: str


@dataclass(frozen=True)
class Dependency:
    """A file of the project that another one imports. `text` is its beginning."""

    path: str
    imported_by: str
    depth: int
    lines: int
    text: str = ""


@dataclass(frozen=True)
class FileText:
    """Lines `start` to `end` of a file, of `lines`; `next` is the line to go on with, if there is more."""

    path: str
    text: str
    start: int
    end: int
    lines: int
    next: int | None = None
    hidden_characters: int = 0
    dependencies: list[Dependency] = field(default_factory=list[Dependency])


def read_text(root: Root, path: str) -> tuple[str, str]:
    """The resolved path and the text of a file."""
    with root.open(path, LARGEST_FILE) as opened:
        data = _read_all(opened.descriptor, opened.size)
        if b"\0" in data[:BINARY_LOOK]:
            is_picture = is_named_as_picture(opened.path)
            hint = f"read it as {file_uri(opened.path)}" if is_picture else "it is a picture, an archive or a program"
            raise Unreadable(f"{on_one_line(path[:200])} is not text", hint=hint)
        return opened.path, data.decode("utf-8-sig", "replace")


def is_named_as_picture(path: str) -> bool:
    return extension(path) in PICTURES


def read_picture(root: Root, path: str) -> Picture | None:
    """A picture, by the ending of its name and its first bytes; None for any other file."""
    with root.open(path, sys.maxsize) as opened:
        mime_type, beginning = PICTURES.get(extension(opened.path), ("", None))
        if beginning is None:
            return None
        if opened.size > LARGEST_FILE:
            raise Unreadable(
                f"{on_one_line(path[:200])} is a picture of {opened.size:,} bytes, more than {LARGEST_FILE:,}",
                hint="make a smaller one of it in a kernel",
            )
        data = _read_all(opened.descriptor, opened.size)
        return Picture(data, mime_type) if beginning.match(data) else None


def _read_all(descriptor: int, size: int) -> bytes:
    parts: list[bytes] = []
    remaining = size + 1
    while remaining > 0 and (part := os.read(descriptor, remaining)):
        parts.append(part)
        remaining -= len(part)
    return b"".join(parts)


def read_file(
    root: Root,
    path: str,
    start: int | None = None,
    end: int | None = None,
    tokens: int = FILE_TOKENS,
    most_bytes: int = LARGEST_FILE,
) -> FileText:
    """A file, or some of its lines, within the limits of `tokens` and `most_bytes`."""
    real, raw = read_text(root, path)
    cleaned = seen(as_cells(raw) if real.endswith(".ipynb") else raw)
    lines = lines_of(cleaned.text)
    first = start or 1
    last = min(end or len(lines), len(lines))
    if lines and (first > len(lines) or last < first):
        raise InvalidArgument(
            f"{on_one_line(path[:200])} has {counted(len(lines), 'line')}; {first} to {end or 'its end'} is not a part of it",
            hint="lines count from 1",
        )
    fitting = _fitting(lines[first - 1 : last], tokens, most_bytes)
    stop = first - 1 + len(fitting)
    text = "\n".join(fitting)
    return FileText(real, text, first, stop, len(lines), stop + 1 if stop < last else None, cleaned.hidden)


def lines_of(text: str) -> list[str]:
    """Lines as searches and other programs count them: only a newline ends a line."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _fitting(lines: list[str], tokens: int, most_bytes: int) -> list[str]:
    """As many lines as the budget takes, at least one. A first line that is longer than the whole budget is cut."""
    fitting: list[str] = []
    tokens_left, bytes_left = tokens, most_bytes
    for line in lines:
        tokens_left -= estimate_tokens(line) + 1
        bytes_left -= len(line.encode()) + 1
        if (tokens_left < 0 or bytes_left < 0) and fitting:
            break
        fitting.append(line)
    if fitting and len(first := fitting[0].encode()) > most_bytes:
        fitting[0] = first[: most_bytes - len(CUT.encode())].decode("utf-8", "ignore") + CUT
    return fitting


def as_cells(text: str) -> str:
    """A notebook as its cells, in the way notebooks are written as scripts. Outputs are left out."""
    try:
        notebook = FORMATS["ipynb"].decode(_without_outputs(text))
    except (InvalidFormat, ValueError, RecursionError):
        return text
    parts: list[str] = []
    for number, cell in enumerate(notebook.cells):
        kind = cell.kind.value if cell.kind is not Kind.CODE else (cell.language or notebook.language)
        parts.append(f"# %% [{number}] {kind}{f' {cell.id}' if cell.id else ''}\n{cell.source}")
    return "\n\n".join(parts)


def _without_outputs(text: str) -> str:
    """A notebook's JSON without outputs, which are the larger part of most notebooks."""
    notebook: object = json.loads(text)
    cells: object = cast("dict[str, object]", notebook).get("cells") if isinstance(notebook, dict) else None
    for cell in cast("list[object]", cells) if isinstance(cells, list) else ():
        if isinstance(cell, dict) and "outputs" in cell:
            cell["outputs"] = []
    return json.dumps(notebook)


def dependencies(
    root: Root, imports: Imports, path: str, depth: int, tokens: int = DEPENDENCY_TOKENS
) -> list[Dependency]:
    """The files that a file imports, and what they import, breadth first, each once."""
    imported: list[Dependency] = []
    visited = {path}
    level = [path]
    for level_depth in range(1, min(depth, DEEPEST) + 1):
        next_level: list[str] = []
        for importer in level:
            for target in _imported_paths(root, imports, importer):
                if target in visited or len(imported) >= MOST_DEPENDENCIES:
                    continue
                visited.add(target)
                next_level.append(target)
                imported.append(Dependency(target, importer, level_depth, 0))
        level = next_level
    share = max(tokens // max(len(imported), 1), 64)
    return [_with_text(root, dependency, share) for dependency in imported]


def _imported_paths(root: Root, imports: Imports, path: str) -> list[str]:
    try:
        real, text = read_text(root, path)
    except CellwrightError:
        return []
    if real.endswith(".ipynb"):
        return imports.of(f"{real}.py", as_cells(text))
    return imports.of(real, text)


def _with_text(root: Root, dependency: Dependency, tokens: int) -> Dependency:
    try:
        file_text = read_file(root, dependency.path, tokens=tokens)
    except (SecretFile, Unreadable):
        return dependency
    return Dependency(dependency.path, dependency.imported_by, dependency.depth, file_text.lines, file_text.text)
