"""`project.yaml`: the truth about a project, written by people and by us.

Reading is cached until the file's time or size changes. Writing takes what is in the file now, changes only what it is about, and puts
the result in place at once; comments, order and keys that we do not know stay. A file that cannot be read is never overwritten.
A repository that somebody cloned may have anything in the place of the file: links, pipes and devices are not opened.
"""

import os
import secrets
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellwright.context.model import BrokenProjectFile, Discovery, Project
from cellwright.core.errors import Conflict, Unavailable
from cellwright.core.installation import this_installation
from cellwright.system import machine
from cellwright.system.files import write_draft

FOLDER = ".cellwright"
NAME = "project.yaml"
OLDER_FOLDER = ".context"
LARGEST = 2 << 20
WRITE_ATTEMPTS = 20
LOCK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Stamp:
    """What changes when somebody writes the file."""

    modified: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class _Cached:
    stamp: _Stamp
    project: Project


class ProjectFile:
    """The project file of one root. Its methods touch the disk: call them off the event loop."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._cached: _Cached | None = None

    @property
    def path(self) -> Path:
        """Where it is, or would be: our own place, unless only the older one has a file."""
        own = self._root / FOLDER / NAME
        older = self._root / OLDER_FOLDER / NAME
        return older if not os.path.lexists(own) and os.path.lexists(older) else own

    def read(self) -> Project | None:
        """What the file says; None if there is none."""
        path = self.path
        stamp = _stamp(path)
        if stamp is None:
            self._cached = None
            return None
        if self._cached is None or self._cached.stamp != stamp:
            found = _contents(path)
            if found is None:
                return None
            _, yaml = _yaml()
            shown = self._shown
            project = yaml.project_of(yaml.parse(found.text, shown), shown) if found.text else Project()
            self._cached = _Cached(found.stamp, project)
        return self._cached.project

    def merge(self, found: Project) -> bool:
        """Add what a scan found. Whether the file changed."""
        return self._update(_yaml()[0].merge_scan(found))

    def enrich(self, discoveries: Sequence[Discovery]) -> bool:
        """Add what was discovered. Whether the file changed."""
        return self._update(_yaml()[0].enrich(discoveries))

    def _update(self, change: Callable[[Any], bool]) -> bool:
        """Apply a change to what the file says now. `change` says whether it changed anything; it may be run again."""
        _, yaml = _yaml()
        path = self.path
        _folder(path.parent)
        with _lock(path.parent):
            for _attempt in range(WRITE_ATTEMPTS):
                found = _contents(path)
                before = found.text if found else None
                document = yaml.parse(before or "", self._shown)
                project = yaml.project_of(document, self._shown)
                if not change(document):
                    self._cached = _Cached(found.stamp, project) if found else None
                    return False
                stamp = _replace(path, before, yaml.dump(document, before or ""))
                if stamp is not None:
                    self._cached = _Cached(stamp, yaml.project_of(document, self._shown))
                    return True
        raise Conflict(
            f"{self._shown} is being written by somebody else all the time; nothing was changed",
            hint="repeat the call in a moment",
        )

    @property
    def _shown(self) -> str:
        return self.path.relative_to(self._root).as_posix()


def _yaml():  # noqa: ANN202 - the two modules, with their own types
    """What knows YAML, loaded when there is a file to read: it is an optional package."""
    try:
        from cellwright.context.project import drafting, yaml_text  # noqa: PLC0415
    except ImportError as error:
        raise Unavailable(
            "project.yaml needs the package ruamel.yaml",
            hint=f"the operator installs it: {this_installation().mend()}",
        ) from error
    return drafting, yaml_text


def _stamp(path: Path) -> _Stamp | None:
    found = _status(path)
    return _stamp_of(found) if found else None


def _status(path: Path) -> os.stat_result | None:
    """The file's, if it is there; BrokenProjectFile if it, or its folder, is a link, a pipe or a device."""
    try:
        folder = path.parent.lstat()
        found = path.lstat() if stat.S_ISDIR(folder.st_mode) else None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    if stat.S_ISLNK(folder.st_mode):
        raise _not_opened(path.parent)
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise _not_opened(path)
    return found


def _stamp_of(found: os.stat_result) -> _Stamp:
    return _Stamp(found.st_mtime_ns, found.st_size, found.st_ino)


def _unreadable(path: Path, error: OSError) -> BrokenProjectFile:
    return BrokenProjectFile(f"{path.name} cannot be read: {error.strerror}", hint="check its permissions")


def _not_opened(path: Path) -> BrokenProjectFile:
    return BrokenProjectFile(
        f"{path.name} is a link, a pipe or a device, through which the project is neither read nor written",
        hint="put a plain file in a plain folder there",
    )


@dataclass(frozen=True, slots=True)
class _Contents:
    text: str
    stamp: _Stamp
    """As it was before the text was read: whoever writes after that makes another one."""


def _contents(path: Path) -> _Contents | None:
    """What is in the file; None if there is none."""
    if _status(path) is None:
        return None
    try:
        with machine.beneath(str(path.parent.parent)) as root:
            descriptor = root.open_file(f"{path.parent.name}/{path.name}")
        with os.fdopen(descriptor, "rb") as opened:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise _not_opened(path)
            stamp = _stamp_of(found)
            data = opened.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(data) > LARGEST:
        raise BrokenProjectFile(f"{path.name} is larger than {LARGEST:,} bytes", hint="shorten it")
    try:
        return _Contents(data.decode("utf-8-sig"), stamp)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BrokenProjectFile(f"{path.name} line {line} is not UTF-8", hint="save the file as UTF-8") from error


def _text(path: Path) -> str | None:
    found = _contents(path)
    return found.text if found else None


def _folder(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"{folder.name}/ cannot be made: {error.strerror}", hint="check the project's permissions"
        ) from error
    if folder.is_symlink():
        raise _not_opened(folder)


def _replace(path: Path, before: str | None, after: str) -> _Stamp | None:
    """Put the new text in place, unless somebody changed the file since `before` was read: None then, else the stamp it has."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        mode = path.lstat().st_mode & 0o777 if before is not None else 0o644
        write_draft(draft, after.encode("utf-8"), mode)
        stamp = _stamp(draft)
        if not _put_in_place(draft, path, before, after):
            return None
        machine.sync_folder(path.parent)
    except OSError as error:
        raise Unavailable(f"{path.name} cannot be written: {error.strerror}", hint="it was not changed") from error
    else:
        return stamp
    finally:
        draft.unlink(missing_ok=True)


def _put_in_place(draft: Path, path: Path, before: str | None, after: str) -> bool:
    """The draft becomes the file if that still holds `before`; else what somebody saved meanwhile stays."""
    if before is None:
        return machine.name_anew(draft, path)
    if _text(path) != before:
        return False
    if not machine.exchange(draft, path):
        machine.replace(draft, path)
        return True
    if _text(draft) == before:
        return True
    # Saved between the look and the exchange: theirs goes back. Should they save once more, that goes back too.
    for _attempt in range(WRITE_ATTEMPTS):
        machine.exchange(draft, path)
        if _text(draft) == after:
            break
    return False


@contextmanager
def _lock(folder: Path) -> Generator[None]:
    """Keep other cellwrights from writing at the same time."""
    with ExitStack() as held:
        try:
            held.enter_context(machine.lock(folder, LOCK_SECONDS))
        except TimeoutError as error:
            raise Unavailable(
                "another cellwright has been writing project.yaml for too long", hint="try again in a moment"
            ) from error
        yield
