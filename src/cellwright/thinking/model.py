"""Thinking notebooks as values. Times are microseconds since 1970 (UTC)."""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from cellwright.core.errors import InvalidArgument, InvalidUri, NotFound
from cellwright.notebook.model import Cell, Kind, Notebook, language_named

JsonObject = dict[str, Any]

BLANK = "generic"
"""What stands where the pattern's name would, for a notebook that was made from none."""
MAX_TITLE = 200
HANDLE_BYTES = 16
"""Handles are secrets of a kind: whoever is to guess one has 128 bits to guess."""
_LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+#._-]{0,39}")
_FILENAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.[A-Za-z0-9]+")
_CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HANDLE = re.compile(r"[a-z]{1,2}-[0-9a-f]{32}")
SAME_KERNEL = ({"javascript", "typescript"},)
"""Languages that one kernel runs."""


class InvalidNotebookUri(InvalidUri):
    """An address of a notebook that cannot be read as one; invalid parameters, like a notebook that is not there."""

    rpc_code = InvalidArgument.rpc_code


class Pattern(Protocol):
    """A reasoning template: what a notebook can be made from."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def notebook(self) -> Notebook: ...
    def begun(self, problem: str) -> Notebook:
        """The notebook with this problem in it."""
        ...


@dataclass(frozen=True, slots=True)
class ThinkingLimits:
    """What one principal may have, and for how long."""

    notebooks: int = 50
    cells: int = 500
    output_bytes: int = 1 << 20
    source_bytes: int = 1 << 20
    ttl: float = 1800.0
    """Seconds without use after which a notebook is gone."""
    kernels: int = 4
    kernel_idle: float = 600.0
    notebook_bytes: int = 16 << 20
    """Of all its cells with their outputs: a whole notebook is held in memory, where a letter may take four bytes."""


@dataclass(frozen=True, slots=True)
class ThinkingNotebook:
    """A notebook without its cells."""

    id: str
    session: str
    title: str
    language: str
    pattern: str
    """Of the template it was made from; empty if from none."""
    metadata: Mapping[str, Any]
    created: int
    modified: int
    used: int
    executed: int | None = None
    executions: int = 0
    cell_count: int = 0
    version: int = 1
    """Grows with every change, outputs included."""
    kernel: str = ""
    """The kernel it last ran in, which may be gone."""
    has_errors: bool = False

    @property
    def uri(self) -> str:
        return f"notebook://{self.session}/{self.id}"

    def runs(self, cell: Cell) -> bool:
        """Whether this notebook's kernel can run the cell."""
        if cell.kind is not Kind.CODE:
            return False
        languages = {language_named(cell.language or self.language), language_named(self.language)}
        return len(languages) == 1 or any(languages <= same for same in SAME_KERNEL)

    def with_cells(self, cells: Sequence[Cell]) -> Notebook:
        metadata = {**self.metadata, **({"pattern": self.pattern} if self.pattern else {})}
        return Notebook(self.title, self.language, tuple(cells), metadata)


@dataclass(frozen=True, slots=True)
class ThinkingView:
    """A notebook with its cells, as they are now."""

    notebook: ThinkingNotebook
    cells: list[Cell]


class Changed(NamedTuple):
    """A cell that was added or changed."""

    notebook: ThinkingNotebook
    cell: Cell


def new_notebook_id() -> str:
    return f"nb-{secrets.token_hex(HANDLE_BYTES)}"


def new_session_handle() -> str:
    return f"s-{secrets.token_hex(HANDLE_BYTES)}"


def new_cell_id() -> str:
    return secrets.token_hex(4)


def no_notebook() -> NotFound:
    """The same words for what never existed, what is another's and what has expired."""
    return NotFound("Notebook not found", hint="notebook://list has yours; notebook_create makes one")


def no_current() -> NotFound:
    """A session without a notebook is shown nobody's: not even its owner's from another session."""
    return NotFound(
        "No notebook for current session",
        hint="notebook://list has those of your other sessions; notebook_create makes one",
    )


def checked_handle(given: str) -> str:
    """A notebook's or session's handle. What cannot be one is simply not found: guessing teaches nothing."""
    if not _HANDLE.fullmatch(given):
        raise no_notebook()
    return given


def checked_title(given: str) -> str:
    title = " ".join(given.split())
    if not title or len(title) > MAX_TITLE or "\0" in title:
        raise InvalidArgument(
            f"a title is one line of 1 to {MAX_TITLE} characters", hint="give a shorter title without line breaks"
        )
    return title


def checked_language(given: str) -> str:
    if not _LANGUAGE.fullmatch(given.strip()):
        raise InvalidArgument(f"{given[:60]!a} is not the name of a language", hint="python, javascript, bash, …")
    return language_named(given)


def checked_filename(given: str) -> str:
    if len(given) > MAX_TITLE or not _FILENAME.fullmatch(given):
        raise InvalidArgument(
            f"{given[:60]!a} is not a file name", hint="letters, digits, - and _ with an extension: tree-node.js"
        )
    return given


def is_cell_id(given: str) -> bool:
    return _CELL_ID.fullmatch(given) is not None
