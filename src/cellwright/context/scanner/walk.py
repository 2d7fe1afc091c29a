"""The files of a project, as git would see them: what is ignored, vendored or a link is not there."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cellwright.context.scanner.ignore import Rules

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


@dataclass(frozen=True, slots=True)
class FoundFile:
    path: str
    """Relative to the root, `/` between names."""
    size: int


@dataclass(frozen=True, slots=True)
class Listing:
    """What a walk found. `truncated` says that there is more."""

    files: list[FoundFile] = field(default_factory=list[FoundFile])
    truncated: bool = False


_Scope = tuple[tuple[int, Rules], ...]
"""The rules that hold in a folder, innermost first, each with how much of a path is above its own folder."""


def list_files(root: str, most: int = MOST_FILES, progress: Progress = lambda _done, _total: None) -> Listing:
    """Every file of the project, sorted by path."""
    listing = Listing()
    for path, entry in walk(root):
        if len(listing.files) >= most:
            return Listing(listing.files, truncated=True)
        size = _size(entry)
        if size is None:
            continue
        listing.files.append(FoundFile(path, size))
        if len(listing.files) % PROGRESS_EVERY == 0:
            progress(len(listing.files), 0)
    return listing


def walk(root: str) -> "Iterator[tuple[str, os.DirEntry[str]]]":
    """The files, folder by folder, in order of their names. Links are not followed; pipes and devices are no files."""
    exclude = _rules(root, ".git/info/exclude")
    pending: list[tuple[str, _Scope]] = [("", ((0, exclude),) if exclude else ())]
    while pending:
        prefix, scope = pending.pop()
        entries = _entries(f"{root}/{prefix}")
        names = {entry.name for entry in entries}
        if prefix and "pyvenv.cfg" in names:
            continue
        if ".gitignore" in names and (own := _rules(root, f"{prefix}.gitignore")):
            scope = ((len(prefix), own), *scope)
        folders: list[str] = []
        for entry in entries:
            path = f"{prefix}{entry.name}"
            is_folder = entry.is_dir(follow_symlinks=False)
            if (is_folder and entry.name in NEVER_ENTERED) or ignored(scope, path, entry.name, is_folder=is_folder):
                continue
            if is_folder:
                folders.append(path)
            elif entry.is_file(follow_symlinks=False) and _is_text(path):
                yield path, entry
        pending += [(f"{folder}/", scope) for folder in reversed(folders)]


def _entries(folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as listed:
            return sorted(listed, key=lambda entry: entry.name)
    except OSError:
        return []


def ignored(scope: _Scope, path: str, name: str, *, is_folder: bool) -> bool:
    for above, rules in scope:
        verdict = rules.verdict(path[above:], name, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


def _size(entry: "os.DirEntry[str]") -> int | None:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return None


def _is_text(path: str) -> bool:
    """A name that is no UTF-8 cannot be given back to anybody."""
    return path.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in path)


def _rules(root: str, path: str) -> Rules:
    try:
        with open(f"{root}/{path}", "rb") as opened:  # noqa: PTH123 - the hot loop
            return Rules(opened.read(LARGEST_IGNORE))
    except OSError:
        return Rules(b"")
