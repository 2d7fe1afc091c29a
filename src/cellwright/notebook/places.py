"""Places: what is on a shelf, as the search over everything, the connector and the record of sessions know it.

Every part fills `Findable`, also one whose things are only listed and read. Those with notebooks fill it as part of `notebook.shelf.Shelf`.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from cellwright.core.types import Call
from cellwright.notebook.model import Notebook

MOST_INDEXED = 5_000
"""Places of one collection; what was changed last comes first."""
NOT_TEXT = frozenset(
    {
        "png", "jpg", "jpeg", "gif", "webp", "ico", "bmp", "tif", "tiff", "pdf", "zip", "gz", "bz2", "xz", "zst", "tar", "tgz",
        "whl", "7z", "jar", "so", "dll", "dylib", "exe", "bin", "o", "a", "class", "pyc", "pyd", "npy", "npz", "pkl", "pickle",
        "parquet", "feather", "h5", "hdf5", "db", "sqlite", "sqlite3", "onnx", "pt", "pth", "safetensors", "mp3", "mp4", "wav",
        "avi", "mov", "webm", "woff", "woff2", "ttf", "otf", "eot", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods",
    }
)  # fmt: skip


class PlaceKind(StrEnum):
    """The kinds of things there are to be found. Also how the index names them."""

    PAD = "pad"
    THINKING = "thinking"
    NOTEBOOK = "notebook"
    FILE = "file"
    DISCOVERY = "discovery"


@dataclass(frozen=True, slots=True)
class Place:
    """Something on a shelf as it was when it was listed or named: another mark means other contents."""

    kind: PlaceKind
    id: str
    mark: str = ""
    size: int = 0
    uri: str = ""
    """Reads it; empty where that is not known yet."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The places of a collection, most wanted first. `left_out` is how many more there are than are indexed."""

    places: Sequence[Place]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """What is to be found of a place: a notebook by its cells, a text by its lines; nothing if it is gone, or holds no text."""

    place: Place
    content: Notebook | str | None
    title: str
    namespace: str = ""
    part: str = ""
    """Of what was found: the cell or the line that `content` is. Empty means the whole."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a caller goes on reading what was found."""

    uri: str
    """Reads the part that was found."""
    whole: str
    """Reads all of it, as text, where there is such a resource; else the same as `uri`."""
    path: str | None = None
    """Of a notebook or a file, as the tools for them take it."""
    cell_id: str | None = None
    line: int | None = None
    title: str = ""
    """What it is called, where neither its path nor the title it has in the index is that."""


class Collection(Protocol):
    """Places that nobody puts into the index by themselves: the search goes through them."""

    @property
    def tenant(self) -> str:
        """Under whose name they are in the index."""
        ...

    @property
    def kinds(self) -> tuple[PlaceKind, ...]:
        """What is known of these kinds, and is not listed any more, is gone."""
        ...

    @property
    def keep_seconds(self) -> float | None:
        """After so long without being looked at, what is known is forgotten, whoever it belongs to; None means never."""
        ...

    async def inventory(self) -> Inventory: ...

    async def read(self, places: Sequence[Place]) -> list[Reading]:
        """Some of what was listed, a slice at a time."""
        ...


class Findable(Protocol):
    """What of a part can be found."""

    kinds: Mapping[PlaceKind, str]
    """What there is, each with the name under which the index has it; empty for what is each caller's own."""

    def collection(self, call: Call) -> Collection | None:
        """What the search has to go through; None where the part keeps the index up by itself."""
        ...

    async def address(self, found: Reading) -> Address: ...


class Naming(Protocol):
    """How calls of tools name places."""

    def arguments(self, tool: str) -> Sequence[str]:
        """The arguments of a tool that name places here, first the one that matters most."""
        ...

    def named(self, name: str) -> Place | None:
        """The place that such an argument names, whether or not there is anything; None if it names none."""
        ...


def newest(places: Sequence[tuple[Any, Place]], left_out: int = 0) -> Inventory:
    """Notebooks first, then what was changed last, as many as are indexed."""
    ordered = sorted(places, key=lambda one: (one[1].kind is PlaceKind.NOTEBOOK, one[0]), reverse=True)
    kept = [place for _, place in ordered[:MOST_INDEXED]]
    return Inventory(kept, left_out + len(ordered) - len(kept))


def is_findable(path: str) -> bool:
    """Whether a file, by its name, holds text and is meant to be seen."""
    name = path.rpartition("/")[2].lower()
    hidden = path.startswith(".") or "/." in path
    return not hidden and extension(name) not in NOT_TEXT and not name.endswith((".min.js", ".min.css"))


def extension(path: str) -> str:
    return path.rpartition(".")[2].lower() if "." in path.rpartition("/")[2] else ""


def cell_of(part: str) -> str | None:
    """The id of the cell that a part is; None for the whole, and for a cell that has no id."""
    return part if part and not part.startswith("#") else None


def files_tenant(root: Path) -> str:
    """Under whose name the index has the files of a folder, and the notebooks among them."""
    return f"workspace:{digest(os.path.realpath(root))}"


def digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
