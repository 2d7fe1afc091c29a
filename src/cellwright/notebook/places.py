"""Places: what is on a shelf, as the search over everything, the connector and the record of sessions know it.

Every part implements `Findable`, also a part whose things are only listed and read. Parts with notebooks implement it within
`notebook.shelf.Shelf`.
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
"""How many places of one collection are indexed; what was changed last comes first."""
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
    """Something on a shelf as it was when it was listed or named. Another mark means other contents."""

    kind: PlaceKind
    id: str
    mark: str = ""
    size: int = 0
    uri: str = ""
    """The address that reads it; empty where that is not known yet."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The places of a collection, the most useful first. `left_out` counts those that are not indexed."""

    places: Sequence[Place]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """What the search reads of a place: a notebook by its cells, a text by its lines; nothing if it is gone or has no text."""

    place: Place
    content: Notebook | str | None
    title: str
    namespace: str = ""
    part: str = ""
    """The cell or the line of a hit that `content` is. Empty means the whole."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a caller can read more of a hit."""

    uri: str
    """The address that reads the part that was found."""
    whole: str
    """The address that reads all of it as text, where there is such a resource; else the same as `uri`."""
    path: str | None = None
    """The path of a notebook or a file, as its tools take it."""
    cell_id: str | None = None
    line: int | None = None
    title: str = ""
    """Its title, where that is neither its path nor the title in the index."""


class Collection(Protocol):
    """Places that no part puts into the index by itself. The search goes through them."""

    @property
    def tenant(self) -> str:
        """The tenant under whose name they are in the index."""
        ...

    @property
    def kinds(self) -> tuple[PlaceKind, ...]:
        """Whatever the index has of these kinds and is not listed any more is gone."""
        ...

    @property
    def keep_seconds(self) -> float | None:
        """How long the index keeps places that nobody looks at, whoever they belong to; None means for ever."""
        ...

    async def inventory(self) -> Inventory: ...

    async def read(self, places: Sequence[Place]) -> list[Reading]:
        """Read some of the places that were listed."""
        ...


class Findable(Protocol):
    """The things of a part that can be found."""

    kinds: Mapping[PlaceKind, str]
    """The kinds of things, each with the tenant under which the index has it; empty for things that belong to one caller."""

    def collection(self, call: Call) -> Collection | None:
        """What the search has to go through; None where the part keeps the index up to date by itself."""
        ...

    async def address(self, reading: Reading, /) -> Address: ...


class Naming(Protocol):
    """How the calls of tools name places."""

    def arguments(self, tool: str) -> Sequence[str]:
        """The arguments of a tool that name places here, the most important first."""
        ...

    def named(self, name: str) -> Place | None:
        """The place that such an argument names, whether or not anything is there; None if it names no place."""
        ...


def newest(places: Sequence[tuple[Any, Place]], left_out: int = 0) -> Inventory:
    """The places to index, each given with when it was changed: notebooks first, then what was changed last."""
    ordered = sorted(places, key=lambda dated: (dated[1].kind is PlaceKind.NOTEBOOK, dated[0]), reverse=True)
    indexed = [place for _, place in ordered[:MOST_INDEXED]]
    return Inventory(indexed, left_out + len(ordered) - len(indexed))


def is_findable(path: str) -> bool:
    """Whether a file, by its name, contains text and is not hidden."""
    name = path.rpartition("/")[2].lower()
    hidden = path.startswith(".") or "/." in path
    return not hidden and extension(name) not in NOT_TEXT and not name.endswith((".min.js", ".min.css"))


def extension(path: str) -> str:
    return path.rpartition(".")[2].lower() if "." in path.rpartition("/")[2] else ""


def cell_of(part: str) -> str | None:
    """The id of the cell that this part is; None for the whole, and for a cell that has no id."""
    return part if part and not part.startswith("#") else None


def files_tenant(root: Path) -> str:
    """The tenant under which the index has the files of a folder, and the notebooks among them."""
    return f"workspace:{digest(os.path.realpath(root))}"


def digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
