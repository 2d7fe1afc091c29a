"""The values of a Jupyter server: files, cells, kernels, sessions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple, overload

from cellwright.notebook.model import Kind
from cellwright.notebook.outputs import Output

JsonObject = dict[str, Any]

MOST_FOLDERS = 50_000
"""Of this machine, in one walk."""
WALK_SECONDS = 10.0
"""How long such a walk may take."""
MOST_FOLDERS_ASKED = 5_000
"""The same where each folder takes a request to a server."""
WALK_SECONDS_ASKING = 30.0


class FileKind(StrEnum):
    NOTEBOOK = "notebook"
    FILE = "file"
    DIRECTORY = "directory"


class RoomKind(StrEnum):
    """How a document is shared. Only these two may be joined: any other opens a second room on the same file."""

    NOTEBOOK = "json:notebook"
    TEXT = "text:file"

    def as_json(self) -> dict[str, str]:
        file_format, _, file_type = self.value.partition(":")
        return {"format": file_format, "type": file_type}


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file or folder as the server describes it. Times are UTC."""

    path: str
    kind: FileKind
    created: datetime
    last_modified: datetime
    size: int | None = None
    writable: bool = True
    mime_type: str | None = None
    hash: str | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class FoundFile(NamedTuple):
    """A file or folder by its path. `info` is set if it came without another request; otherwise `Documents.describe` gets it."""

    path: str
    kind: FileKind
    info: FileInfo | None = None


class FoundFiles(Sequence[FoundFile]):
    """Files that were found, by path."""

    complete: bool = True
    """False if the walk ended early, because of too many folders or too much time."""


class FoundList(FoundFiles):
    """Found files in a list."""

    def __init__(self, files: list[FoundFile], *, complete: bool = True) -> None:
        self._files = files
        self.complete = complete

    def __len__(self) -> int:
        return len(self._files)

    @overload
    def __getitem__(self, index: int) -> FoundFile: ...
    @overload
    def __getitem__(self, index: slice) -> "FoundList": ...
    def __getitem__(self, index: int | slice) -> "FoundFile | FoundList":
        if isinstance(index, slice):
            return FoundList(self._files[index], complete=self.complete)
        return self._files[index]


@dataclass(frozen=True, slots=True)
class FileListing:
    """Files that were found, how old the list is, and what was left out."""

    files: FoundFiles
    age_seconds: float | None = None
    """None if the list was made for this request."""
    cut: str = ""
    """What was left out and how to get it; empty if nothing was."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file with its contents: a notebook's JSON, or text, or base64 when `format` says so."""

    info: FileInfo
    content: Any
    format: str | None


@dataclass(frozen=True, slots=True)
class CellHead:
    """A cell of a shared document without the contents of its outputs, for outlines of thousands of cells.

    Unlike a `notebook.model.Cell` it may have a type that nobody knows, and says whether the cell is running and how many outputs
    it has, without reading them.
    """

    id: str
    cell_type: str
    """`code`, `markdown`, `raw`, or whatever the file says."""
    source: str
    revision: str
    """Short hash of the source: give it as `expect` with an edit."""
    execution_count: int | None = None
    running: bool = False
    output_count: int = 0
    failed: bool = False
    """Whether its outputs end with an error."""


@dataclass(frozen=True, slots=True)
class LiveCell:
    """A cell of a shared document as it was at one moment, with its outputs."""

    index: int
    head: CellHead
    outputs: tuple[Output, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    attachments: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def id(self) -> str:
        return self.head.id

    @property
    def source(self) -> str:
        return self.head.source


@dataclass(frozen=True, slots=True)
class NewCell:
    source: str
    cell_type: Kind = Kind.CODE


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A kind of kernel that can be started."""

    name: str
    display_name: str
    language: str
    resources: Mapping[str, str]
    is_default: bool = False
    interpreter: str = ""
    """The program that runs its Python code; empty if that is not known, or the kernel is not Python."""
    version: str = ""
    """The version of that Python, if it is known without running it."""
    origin: str = ""
    """In words where it comes from, if it is one of the workspace's environments or ours."""


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A running kernel."""

    id: str
    name: str
    state: str
    last_activity: datetime | None = None
    connections: int = 0


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A document (or console) and the kernel that runs it."""

    id: str
    path: str
    name: str
    type: str
    kernel: KernelInfo | None


def timestamp(text: str) -> datetime:
    """A time as Jupyter writes it, in UTC."""
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
