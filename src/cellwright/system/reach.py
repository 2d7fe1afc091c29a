"""Which files may be read at all. Every read checks this first, whichever root, tool, resource, search or link leads to the file."""

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
"""How long the list of files in private places is cached."""

FileId = tuple[int, int]
"""Device and inode, which identify a file under any name."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What may be read in one workspace. Created once, and used by everything that reads."""

    private: tuple[str, ...] = ()
    """Places that nobody may read, with all below them, in comparable form and with links resolved."""
    root: str = ""
    """The workspace, in the same form. A private place around it hides everything except the workspace."""
    secrets: bool = False
    """Whether the operator allows files whose names say that they hold secrets. Private places stay out of reach."""
    places: tuple[str, ...] = ()
    """The private places that are on a disk, as real paths."""
    _files: list[tuple[float, frozenset[FileId]]] = field(
        default_factory=list[tuple[float, frozenset[FileId]]], compare=False, repr=False
    )
    """When the files in these places were last listed, and their ids; at most one entry."""

    @classmethod
    def of(cls, root: Path, places: Iterable[Path], *, secrets: bool = False) -> Self:
        """What may be read in a workspace, given the private places of the machine, which need not exist."""
        real = tuple(dict.fromkeys(os.path.realpath(place) for place in places))
        private = dict.fromkeys(_comparable(place) for place in (os.path.realpath(PROCESSES), *real))
        return cls(tuple(private), _comparable(os.path.realpath(root)), secrets, real)

    def is_private(self, real: str) -> bool:
        """Whether a path, whose links are resolved, is in a place that nobody may read."""
        path = _comparable(real)
        in_workspace = _contains(self.root, path)
        return any(
            _contains(place, path) and not (in_workspace and _contains(place, self.root)) for place in self.private
        )

    def is_private_file(self, status: os.stat_result) -> bool:
        """Whether a file is also in a private place: a hard link elsewhere is the same file."""
        if status.st_nlink <= 1 or not self.places or not stat.S_ISREG(status.st_mode):
            return False
        return (status.st_dev, status.st_ino) in self._private_files()

    def _private_files(self) -> frozenset[FileId]:
        now = time.monotonic()
        cached = self._files[0] if self._files else None
        if cached is None or now - cached[0] > BELIEVED_SECONDS:
            paths = islice((path for place in self.places for path in _files_in(place)), MOST_PRIVATE_FILES)
            cached = (now, frozenset(_ids_of(path for path in paths if self.is_private(path))))
            self._files[:] = [cached]
        return cached[1]

    def private_below(self, real_root: str) -> frozenset[str]:
        """The private places below a folder, relative to it, for `names_private`. Usually there are none."""
        root = _comparable(real_root)
        below = (place.removeprefix(root).lstrip("/") for place in self.private if _contains(root, place))
        return frozenset(place for place in below if place)

    def may_enter(self, folder: str) -> bool:
        """Whether a folder may be listed, judged by its path relative to the root, with `/` between names."""
        return self.secrets or not is_secret_folder(folder)

    def may_read(self, name: str) -> bool:
        """Whether a file may be read, judged by its own name."""
        return self.secrets or not is_secret_name(name)

    def check(self, display_path: str, real: str, *names: str) -> None:
        """SecretFile unless the file may be read. `names` are its paths: as the caller wrote it, and as it really is."""
        self.check_public(display_path, real)
        if not self.secrets and any(is_secret(name) or is_secret_folder(name) for name in names):
            raise SecretFile(
                f"{on_one_line(display_path[:200])} is a kind of file that holds secrets, and is not shown",
                hint="the operator can allow it with --allow-secret-files; a sample beside it (.env.example) may help",
            )

    def check_public(self, display_path: str, real: str) -> None:
        """SecretFile for a file in a private place, also if this is another name of it."""
        if self.is_private(real) or (self.places and self._is_linked(real)):
            raise SecretFile(
                f"{on_one_line(display_path[:200])} is one of cellwright's or Jupyter's own files, and is not shown",
                hint="keys, tokens, settings and state are out of reach for every tool; the operator has them",
            )

    def _is_linked(self, real: str) -> bool:
        try:
            return bool(real) and self.is_private_file(Path(real).lstat())
        except (OSError, ValueError):
            # The file does not exist, or the name is not valid. Whoever opens it gets the error.
            return False


BY_NAME = Reach()
"""For use without private places: only names decide."""


def names_private(private: frozenset[str], relative: str) -> bool:
    """Whether a path below a root is one of `private_below`."""
    return bool(private) and _comparable(relative) in private


def _files_in(place: str) -> Iterator[str]:
    """The place itself and all files below it. Links are not followed."""
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
    """A path in the form in which paths are compared: some systems ignore differences in case or Unicode normalization."""
    text = path.replace(os.sep, "/").casefold()
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _contains(place: str, path: str) -> bool:
    return path == place or path.startswith(place if place.endswith("/") else f"{place}/")
