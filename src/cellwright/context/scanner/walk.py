"""Lists the files of a project as git would: without those that are ignored, vendored, links or out of reach."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from cellwright.context.scanner.ignore import Rules
from cellwright.core.text.names import can_be_given
from cellwright.system import machine
from cellwright.system.reach import BY_NAME, Reach, names_private

Progress = Callable[[int, int], None]
MOST_FILES = 200_000
LARGEST_IGNORE = 1 << 20
PROGRESS_EVERY = 500
NEVER_ENTERED = frozenset(
    {
        ".git", ".hg", ".svn", ".cellwright", ".context", "node_modules", "__pycache__", ".venv", ".tox", ".nox", ".mypy_cache",
        ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints", ".gradle", ".idea", ".vs", "bower_components", ".hypothesis",
    }
)  # fmt: skip
_NAME = attrgetter("name")


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the project with the files in it, in order of their names."""

    path: str
    """Relative to the root, `/` between names; empty for the root itself."""
    files: "list[os.DirEntry[str]]"

    @property
    def prefix(self) -> str:
        """What the paths of its files begin with."""
        return f"{self.path}/" if self.path else ""


@dataclass(frozen=True, slots=True)
class Listing:
    """The files that a walk found. `truncated` says that there are more."""

    folders: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """The names of the files in each folder, in the order of the walk."""
    truncated: bool = False

    def paths(self) -> list[str]:
        """Every file, relative to the root."""
        return [f"{folder}/{name}" if folder else name for folder, names in self.folders.items() for name in names]

    def __len__(self) -> int:
        return sum(map(len, self.folders.values()))


_Scope = tuple[tuple[int, Rules], ...]
"""The rules that apply in a folder, innermost first, each with the length of the path to its own folder."""


def list_files(
    root: str,
    most: int = MOST_FILES,
    progress: Progress = lambda _done, _total: None,
    reach: Reach = BY_NAME,
) -> Listing:
    """Every file of the project below `root`, a path without links."""
    folders: dict[str, list[str]] = {}
    count = reported = 0
    for folder in walk(root, reach):
        names = [entry.name for entry in folder.files[: most - count]]
        if names:
            folders[folder.path] = names
        count += len(names)
        if len(names) < len(folder.files):
            return Listing(folders, truncated=True)
        if count - reported >= PROGRESS_EVERY:
            reported = count
            progress(count, 0)
    return Listing(folders)


def walk(root: str, reach: Reach = BY_NAME) -> Iterator[Folder]:
    """The folders, each before those in it, in order of their names, with the files that may be read.

    Links are not followed, and pipes and devices are left out. `root` is a path without links.
    """
    private = reach.private_below(root)
    exclude = _rules(root, ".git/info/exclude")
    pending: list[tuple[str, _Scope]] = [("", ((0, exclude),) if exclude else ())]
    while pending:
        path, scope = pending.pop()
        prefix = f"{path}/" if path else ""
        entries = _entries(f"{root}/{path}")
        names = {entry.name for entry in entries}
        if prefix and "pyvenv.cfg" in names:
            continue
        if ".gitignore" in names and (own := _rules(root, f"{prefix}.gitignore")):
            scope = ((len(prefix), own), *scope)
        files: list[os.DirEntry[str]] = []
        inner: list[tuple[str, _Scope]] = []
        for entry in entries:
            name = entry.name
            if entry.is_dir(follow_symlinks=False):
                if (
                    name not in NEVER_ENTERED
                    and not (scope and ignored(scope, prefix, name, is_folder=True))
                    and can_be_given(name)
                    and reach.may_enter(f"{prefix}{name}")
                    and not names_private(private, f"{prefix}{name}")
                ):
                    inner.append((f"{prefix}{name}", scope))
            elif (
                entry.is_file(follow_symlinks=False)
                and not (scope and ignored(scope, prefix, name, is_folder=False))
                and can_be_given(name)
                and reach.may_read(name)
                and not names_private(private, f"{prefix}{name}")
            ):
                files.append(entry)
        yield Folder(path, files)
        pending += reversed(inner)


def _entries(folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=_NAME)
    except OSError:
        return []


def ignored(scope: _Scope, prefix: str, name: str, *, is_folder: bool) -> bool:
    for above, rules in scope:
        verdict = rules.verdict(prefix[above:], name, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


def _rules(root: str, path: str) -> Rules:
    try:
        # A rule file that is a link or a pipe does not count: git does not follow it either, and reading a pipe may block.
        descriptor = machine.open_plain(f"{root}/{path}")
    except OSError:
        return Rules(b"")
    try:
        return Rules(os.read(descriptor, LARGEST_IGNORE))
    except OSError:
        return Rules(b"")
    finally:
        os.close(descriptor)
