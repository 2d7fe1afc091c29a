"""The one model of a notebook: its cells, their kinds and languages. Parts keep it, formats write it, tools answer from it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, cast

from cellwright.core.errors import CellwrightError

JsonObject = dict[str, Any]
UNTITLED = "Untitled"
"""The title of a notebook that has none."""

FormatName = Literal["srcmd", "ipynb", "md", "json", "html"]
"""The formats of `notebook.formats`."""
ReadableFormat = Literal["srcmd", "ipynb", "md", "json"]
"""Those from which a notebook can be read again."""


class InvalidFormat(CellwrightError):
    code = "INVALID_FORMAT"
    meaning = "What was given is not a file of the format it is said to have; nothing was done."


class Kind(StrEnum):
    MARKDOWN = "markdown"
    CODE = "code"
    RAW = "raw"


@dataclass(frozen=True, slots=True)
class Check:
    """What a cell of a pad is checked against, and what came of it."""

    schema: JsonObject | str | bool | None = None
    """A JSON Schema, or the address of one."""
    on_write: bool = False
    status: str | None = None
    """What the last validation said; None if nobody has asked since the source changed."""


UNCHECKED = Check()


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a notebook, wherever the notebook is kept. Its outputs are in nbformat, unchanged: `outputs.read_output` reads one."""

    kind: Kind
    source: str
    language: str = ""
    """The language of code; empty means the notebook's. A pad keeps the word that a caller gave, also for prose."""
    filename: str = ""
    id: str = ""
    execution_count: int | None = None
    outputs: tuple[JsonObject, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: str = "idle"
    """The state of its last run: idle, queued, running, or failed."""
    tags: tuple[str, ...] = ()
    """Only cells of pads have them here. Files have them in the metadata."""
    check: Check = UNCHECKED
    index: int = field(default=0, compare=False)
    """Its position in the notebook from which it was taken."""


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook outside of any part: every format can express it, and every part can be converted into it."""

    title: str
    language: str
    cells: tuple[Cell, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Encoded:
    """A notebook as text, and in words what the format could not hold."""

    text: str
    mime_type: str
    losses: tuple[str, ...] = ()


EXTENSIONS: Mapping[str, str] = {
    "javascript": "js",
    "typescript": "ts",
    "python": "py",
    "bash": "sh",
    "c": "c",
    "cpp": "cpp",
    "csharp": "cs",
    "css": "css",
    "go": "go",
    "haskell": "hs",
    "html": "html",
    "java": "java",
    "json": "json",
    "julia": "jl",
    "kotlin": "kt",
    "lua": "lua",
    "perl": "pl",
    "php": "php",
    "r": "r",
    "ruby": "rb",
    "rust": "rs",
    "scala": "scala",
    "sql": "sql",
    "swift": "swift",
    "text": "txt",
    "toml": "toml",
    "xml": "xml",
    "yaml": "yaml",
}
"""The extension that files of a language have; the language's name where there is no other."""

LANGUAGES: Mapping[str, str] = {extension: language for language, extension in EXTENSIONS.items()} | {
    "cjs": "javascript",
    "mjs": "javascript",
    "cts": "typescript",
    "mts": "typescript",
    "yml": "yaml",
}
_ALIASES: Mapping[str, str] = {
    "py": "python",
    "js": "javascript",
    "jsx": "javascript",
    "ts": "typescript",
    "tsx": "typescript",
    "sh": "bash",
    "shell": "bash",
    "rb": "ruby",
    "rs": "rust",
    "cs": "csharp",
    "c++": "cpp",
    "hpp": "cpp",
    "h": "c",
    "yml": "yaml",
    "txt": "text",
    "htm": "html",
    "node": "javascript",
    "ipython": "python",
    "python3": "python",
}


def language_named(name: str) -> str:
    """The language by the one name we use for it."""
    lower = name.strip().lower()
    return _ALIASES.get(lower, lower)


def extension_of(language: str) -> str:
    name = language_named(language)
    letters = "".join(letter for letter in name if letter.isascii() and letter.isalnum())
    return EXTENSIONS.get(name, letters or "txt")


def language_of_file(filename: str) -> str:
    extension = filename.rpartition(".")[2].lower()
    return LANGUAGES.get(extension, extension)


def mime_of(language: str) -> str:
    """The mime type of a source in this language."""
    name = language_named(language)
    return {
        "markdown": "text/markdown",
        "javascript": "application/javascript",
        "typescript": "application/typescript",
        "json": "application/json",
        "html": "text/html",
        "css": "text/css",
        "sql": "application/sql",
        "text": "text/plain",
        "": "text/plain",
    }.get(name, f"text/x-{''.join(letter for letter in name if letter.isalnum() or letter in '+-.') or 'plain'}")


def joined(value: object) -> str:
    """The text of a multi-line string, which is a list of lines in files and one string in documents."""
    if isinstance(value, list):
        return "".join(str(part) for part in cast("list[object]", value))
    return value if isinstance(value, str) else "" if value is None else str(value)


def count_of(value: object) -> int | None:
    """An execution count: shared documents keep numbers as floats."""
    return int(value) if isinstance(value, int | float) else None


def revision_of(source: str) -> str:
    """A short name for this exact text."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:10]
