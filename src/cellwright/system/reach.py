"""What may be read at all: asked before every read, whichever root, tool, resource, search or link leads there."""

import os
import stat
import time
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Self

from cellwright.core.secrecy import SecretFile, is_secret, is_secret_folder, is_secret_name
from cellwright.core.text.names import on_one_line

PROCESSES = Path("/proc")
"""Where Linux shows the variables and the memory of processes, ours among them."""
MOST_PRIVATE_FILES = 10_000
BELIEVED_SECONDS = 2.0
"""For how long it is believed which files lie in private places."""

FileId = tuple[int, int]
"""Device and number: what a file is, whatever its names are."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What the readers of one workspace may read. Made once, asked by each of them."""

    private: tuple[str, ...] = ()
    """Places that are nobody's to read, with all below them: as they are compared, links resolved."""
    root: str = ""
    """The workspace, likewise. A private place around it hides all but the workspace."""
    secrets: bool = False
    """Whether the operator allows files that hold secrets by their names. Private places stay out of reach."""
    places: tuple[str, ...] = ()
    """The private places that may hold files of a disk, as the system has them."""
    _files: list[tuple[float, frozenset[FileId]]] = field(
        default_factory=list[tuple[float, frozenset[FileId]]], compare=False, repr=False
    )
    """When the files in them were last looked at, and which there were; at most one entry."""

    @classmethod
    def of(cls, root: Path, places: Iterable[Path], *, secrets: bool = False) -> Self:
        """What may be read in a workspace on a machine with these private places, which need not exist."""
        real = tuple(dict.fromkeys(os.path.realpath(place) for place in places))
        private = dict.fromkeys(_comparable(place) for place in (os.path.realpath(PROCESSES), *real))
        return cls(tuple(private), _comparable(os.path.realpath(root)), secrets, real)

    def is_private(self, real: str) -> bool:
        """Whether a path, in which links are resolved, lies in a place that is nobody's to read."""
        path = _comparable(real)
        inside = _holds(self.root, path)
        return any(_holds(place, path) and not (inside and _holds(place, self.root)) for place in self.private)

    def is_private_file(self, status: os.stat_result) -> bool:
        """Whether a file has another name in a private place: a hard link is the file itself, wherever it lies."""
        if status.st_nlink <= 1 or not self.places or not stat.S_ISREG(status.st_mode):
            return False
        return (status.st_dev, status.st_ino) in self._private_files()

    def _private_files(self) -> frozenset[FileId]:
        now = time.monotonic()
        known = self._files[0] if self._files else None
        if known is None or now - known[0] > BELIEVED_SECONDS:
            found = islice((path for place in self.places for path in _files_in(place)), MOST_PRIVATE_FILES)
            known = (now, frozenset(_ids_of(path for path in found if self.is_private(path))))
            self._files[:] = [known]
        return known[1]

    def private_below(self, real_root: str) -> frozenset[str]:
        """The private places below a folder, relative to it, as `names_private` takes them. Mostly none."""
        root = _comparable(real_root)
        below = (place.removeprefix(root).lstrip("/") for place in self.private if _holds(root, place))
        return frozenset(place for place in below if place)

    def may_enter(self, folder: str) -> bool:
        """Whether a folder may be looked into, as far as its name tells: relative to the root, `/` between names."""
        return self.secrets or not is_secret_folder(folder)

    def may_read(self, name: str) -> bool:
        """Whether a file may be read, as far as its own name tells."""
        return self.secrets or not is_secret_name(name)

    def check(self, shown: str, real: str, *names: str) -> None:
        """SecretFile unless the file may be read. `names` are the paths by which it is known: as it was asked for, and as it is."""
        self.check_public(shown, real)
        if not self.secrets and any(is_secret(name) or is_secret_folder(name) for name in names):
            raise SecretFile(
                f"{on_one_line(shown[:200])} is a kind of file that holds secrets, and is not shown",
                hint="the operator can allow it with --allow-secret-files; a sample beside it (.env.example) may help",
            )

    def check_public(self, shown: str, real: str) -> None:
        """SecretFile for what lies in a private place, also by another name."""
        if self.is_private(real) or (self.places and self._is_linked(real)):
            raise SecretFile(
                f"{on_one_line(shown[:200])} is one of cellwright's or Jupyter's own files, and is not shown",
                hint="keys, tokens, settings and state are out of reach for every tool; the operator has them",
            )

    def _is_linked(self, real: str) -> bool:
        try:
            return bool(real) and self.is_private_file(Path(real).lstat())
        except (OSError, ValueError):
            # It is not there, or no name that the system takes: whoever opens it will say so.
            return False


BY_NAME = Reach()
"""Where no private places are known: names alone decide."""


def names_private(private: frozenset[str], relative: str) -> bool:
    """Whether a path below a root is one of `private_below`."""
    return bool(private) and _comparable(relative) in private


def _files_in(place: str) -> Iterator[str]:
    """The files at and below a place, links not followed."""
    yield place
    for folder, _, names in os.walk(place):
        for name in names:
            yield os.path.join(folder, name)  # noqa: PTH118 - a Path for each of thousands takes ten times as long


def _ids_of(paths: Iterable[str]) -> Iterator[FileId]:
    for path in paths:
        try:
            status = Path(path).lstat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            yield status.st_dev, status.st_ino


def _comparable(path: str) -> str:
    """A path as it is compared: some systems take names for the same that differ in case or in how they are encoded."""
    text = path.replace(os.sep, "/").casefold()
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _holds(place: str, path: str) -> bool:
    return path == place or path.startswith(place if place.endswith("/") else f"{place}/")
