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
"""The name shown in place of a pattern's, for a notebook that was made from none."""
MAX_TITLE = 200
HANDLE_BYTES = 16
"""Handles work like secrets, so they have 128 random bits."""
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
    def with_problem(self, problem: str) -> Notebook:
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
    """The size of all cells with their outputs. A whole notebook is held in memory, where a letter may take four bytes."""


@dataclass(frozen=True, slots=True)
class ThinkingNotebook:
    """A notebook without its cells."""

    id: str
    session: str
    title: str
    language: str
    pattern: str
    """The name of the template it was made from; empty if it was made from none."""
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


class ChangedCell(NamedTuple):
    """A cell that was added or changed, and the notebook with it."""

    notebook: ThinkingNotebook
    cell: Cell


def new_notebook_id() -> str:
    return f"nb-{secrets.token_hex(HANDLE_BYTES)}"


def new_session_handle() -> str:
    return f"s-{secrets.token_hex(HANDLE_BYTES)}"


def new_cell_id() -> str:
    return secrets.token_hex(4)


def no_notebook() -> NotFound:
    """The same error for a notebook that never existed, that belongs to somebody else, or that has expired."""
    return NotFound("Notebook not found", hint="notebook://list has yours; notebook_create makes one")


def no_current() -> NotFound:
    """A session without a notebook gets no other notebook instead, not even the owner's from another session."""
    return NotFound(
        "No notebook for current session",
        hint="notebook://list has those of your other sessions; notebook_create makes one",
    )


def checked_handle(handle: str) -> str:
    """A notebook's or session's handle. A malformed one is reported as not found, so that guessing teaches nothing."""
    if not _HANDLE.fullmatch(handle):
        raise no_notebook()
    return handle


def checked_title(text: str) -> str:
    title = " ".join(text.split())
    if not title or len(title) > MAX_TITLE or "\0" in title:
        raise InvalidArgument(
            f"a title is one line of 1 to {MAX_TITLE} characters", hint="give a shorter title without line breaks"
        )
    return title


def checked_language(name: str) -> str:
    if not _LANGUAGE.fullmatch(name.strip()):
        raise InvalidArgument(f"{name[:60]!a} is not the name of a language", hint="python, javascript, bash, …")
    return language_named(name)


def checked_filename(filename: str) -> str:
    if len(filename) > MAX_TITLE or not _FILENAME.fullmatch(filename):
        raise InvalidArgument(
            f"{filename[:60]!a} is not a file name", hint="letters, digits, - and _ with an extension: tree-node.js"
        )
    return filename


def is_cell_id(text: str) -> bool:
    return _CELL_ID.fullmatch(text) is not None
