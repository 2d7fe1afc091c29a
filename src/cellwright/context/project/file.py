"""`project.yaml`: the description of a project, written by people and by us.

Reading is cached until the file's time or size changes. Writing starts from the current contents, changes only what has to change, and
replaces the file at once; comments, order and unknown keys stay. A file that cannot be read is never overwritten.
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
        """Where the file is, or would be: in our own folder, unless only the older folder has one."""
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
            contents = _contents(path)
            if contents is None:
                return None
            _, yaml = _yaml()
            name = self.relative_path
            project = yaml.project_of(yaml.parse(contents.text, name), name) if contents.text else Project()
            self._cached = _Cached(contents.stamp, project)
        return self._cached.project

    def merge(self, scanned: Project) -> bool:
        """Add what a scan found. Returns whether the file changed."""
        return self._update(_yaml()[0].merge_scan(scanned))

    def enrich(self, discoveries: Sequence[Discovery]) -> bool:
        """Add what was discovered. Returns whether the file changed."""
        return self._update(_yaml()[0].enrich(discoveries))

    def _update(self, change: Callable[[Any], bool]) -> bool:
        """Apply a change to the current contents of the file. `change` says whether it changed anything; it may be run again."""
        _, yaml = _yaml()
        path = self.path
        _make_folder(path.parent)
        with _lock(path.parent):
            for _attempt in range(WRITE_ATTEMPTS):
                contents = _contents(path)
                before = contents.text if contents else None
                document = yaml.parse(before or "", self.relative_path)
                project = yaml.project_of(document, self.relative_path)
                if not change(document):
                    self._cached = _Cached(contents.stamp, project) if contents else None
                    return False
                stamp = _replace(path, before, yaml.dump(document, before or ""))
                if stamp is not None:
                    self._cached = _Cached(stamp, yaml.project_of(document, self.relative_path))
                    return True
        raise Conflict(
            f"{self.relative_path} is being written by somebody else all the time; nothing was changed",
            hint="repeat the call in a moment",
        )

    @property
    def relative_path(self) -> str:
        """The file's path below the root, as people are shown it."""
        return self.path.relative_to(self._root).as_posix()


def _yaml():  # noqa: ANN202 - the two modules, with their own types
    """The modules that need ruamel.yaml, loaded when there is a file to read, because that package is optional."""
    try:
        from cellwright.context.project import drafting, yaml_text  # noqa: PLC0415
    except ImportError as error:
        raise Unavailable(
            "project.yaml needs the package ruamel.yaml",
            hint=f"the operator installs it: {this_installation().mend()}",
        ) from error
    return drafting, yaml_text


def _stamp(path: Path) -> _Stamp | None:
    status = _status(path)
    return _stamp_of(status) if status else None


def _status(path: Path) -> os.stat_result | None:
    """The file's status, if it is there; BrokenProjectFile if it, or its folder, is a link, a pipe or a device."""
    try:
        folder = path.parent.lstat()
        status = path.lstat() if stat.S_ISDIR(folder.st_mode) else None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    if stat.S_ISLNK(folder.st_mode):
        raise _not_opened(path.parent)
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise _not_opened(path)
    return status


def _stamp_of(status: os.stat_result) -> _Stamp:
    return _Stamp(status.st_mtime_ns, status.st_size, status.st_ino)


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
    """The stamp from before the text was read, so that a later write always makes another one."""


def _contents(path: Path) -> _Contents | None:
    """The contents of the file; None if there is none."""
    if _status(path) is None:
        return None
    try:
        with machine.beneath(str(path.parent.parent)) as root:
            descriptor = root.open_file(f"{path.parent.name}/{path.name}")
        with os.fdopen(descriptor, "rb") as opened:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _not_opened(path)
            stamp = _stamp_of(status)
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
    contents = _contents(path)
    return contents.text if contents else None


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"{folder.name}/ cannot be made: {error.strerror}", hint="check the project's permissions"
        ) from error
    if folder.is_symlink():
        raise _not_opened(folder)


def _replace(path: Path, before: str | None, after: str) -> _Stamp | None:
    """Write the new text and return the file's stamp; None if somebody changed the file since `before` was read."""
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
    """Let the draft become the file if that still holds `before`; else what somebody saved meanwhile stays."""
    if before is None:
        return machine.name_anew(draft, path)
    if _text(path) != before:
        return False
    if not machine.exchange(draft, path):
        machine.replace(draft, path)
        return True
    if _text(draft) == before:
        return True
    # Somebody saved between the check and the exchange: their text goes back. If they save once more, that goes back, too.
    for _attempt in range(WRITE_ATTEMPTS):
        machine.exchange(draft, path)
        if _text(draft) == after:
            break
    return False


@contextmanager
def _lock(folder: Path) -> Generator[None]:
    """Keep other cellwrights from writing at the same time."""
    with ExitStack() as stack:
        try:
            stack.enter_context(machine.lock(folder, LOCK_SECONDS))
        except TimeoutError as error:
            raise Unavailable(
                "another cellwright has been writing project.yaml for too long", hint="try again in a moment"
            ) from error
        yield
