"""Files of the project: inside its root by construction, opened step by step so that nothing can be swapped in between.

`..`, absolute paths, NUL and disguises of them are refused as text; links are resolved and must stay inside; then every folder on the
way is opened without following links, so a link that is put there a moment later leads nowhere.
"""

import errno
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import unquote

from cellwright.context.model import SecretFile, Unreadable
from cellwright.context.names import can_be_given, on_one_line
from cellwright.core.errors import InvalidArgument, NotFound

MAX_PATH = 4_000
_DRIVE = re.compile(r"[A-Za-z]:")

SECRET_NAMES = frozenset(
    {
        ".env", ".envrc", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".netrc", "_netrc", ".pgpass", ".npmrc", ".yarnrc.yml", ".pypirc",
        ".htpasswd", ".git-credentials", ".dockercfg", "credentials", "kubeconfig", "token", "tokens.json", ".boto",
    }
)  # fmt: skip
SECRET_BEGINNINGS = (".env.", ".env-", ".env_", "credentials.", "secrets.", "secret.")
SECRET_ENDINGS = (
    ".env", ".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".asc", ".gpg", ".tfstate", ".tfvars", ".token",
)  # fmt: skip
_SECRET_SHAPES = re.compile(r"id_.*_sk|(?:client_secret|service-account|service_account).*\.json", re.DOTALL)
SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".git", ".hg", ".svn"})
COPIES = ("~", ".bak", ".old", ".orig", ".save", ".backup", ".swp", ".swo")
"""What editors and people add to the name of a copy; vim's own copies have a dot in front, too."""
_UNSEEN_KINDS = frozenset({"Cc", "Cf", "Me", "Mn", "Zl", "Zp", "Zs"})
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_COPY = re.compile(rf"(?:{'|'.join(map(re.escape, COPIES))})+\Z|\A\.(?=.*\.sw[op]\Z)", re.DOTALL)
NO_SECRETS = (".example", ".sample", ".template", ".dist", ".pub", ".py", ".js", ".ts", ".go", ".rs", ".java", ".cs")
"""Samples and programs."""


def is_secret(path: str) -> bool:
    """Whether a file by its name holds secrets, or lies in a folder that does. Samples and programs do not."""
    folder, _, name = path.rpartition("/")
    return is_secret_folder(folder) or is_secret_name(name)


def is_secret_folder(path: str) -> bool:
    return bool(path) and not SECRET_FOLDERS.isdisjoint(_plain(path).split("/"))


def is_secret_name(name: str) -> bool:
    lower = _plain(name)
    return _holds_secrets(lower) or (lower.endswith(COPIES) and _holds_secrets(_COPY.sub("", lower)))


def _plain(name: str) -> str:
    """The letters of a name as they are seen: a line break at its end, which a script with foreign line ends makes, hides nothing."""
    lower = name.casefold()
    if not (lower.isascii() and lower.isprintable()):
        lower = "".join(filter(_is_seen, unicodedata.normalize("NFKD", lower)))
    return "/".join(part.strip() for part in lower.split("/")) if " " in lower else lower


def _is_seen(letter: str) -> bool:
    return letter == " " or (unicodedata.category(letter) not in _UNSEEN_KINDS and letter not in _BLANK_LETTERS)


def _holds_secrets(lower: str) -> bool:
    return not lower.endswith(NO_SECRETS) and (
        lower in SECRET_NAMES
        or lower.startswith(SECRET_BEGINNINGS)
        or lower.endswith(SECRET_ENDINGS)
        or _SECRET_SHAPES.fullmatch(lower) is not None
    )


def _disguised(name: str) -> bool:
    previous = ""
    while name != previous:
        previous, name = name, unicodedata.normalize("NFKC", unquote(name))
    return name in ("", ".", "..") or "/" in name or "\\" in name or "\x00" in name


def checked(text: str) -> str:
    """A path as it may be given: relative, `/` between names."""
    path = text.removeprefix("./")
    names = path.split("/")
    bad = len(path) > MAX_PATH or "\\" in path or not can_be_given(path) or _DRIVE.match(path) is not None
    if bad or any(_disguised(name) or name != name.rstrip(". ") for name in names):
        raise InvalidArgument(
            f"{text[:80]!a} is not a path in the project", hint="paths are relative to the project, as src/app/main.py"
        )
    return path


@dataclass(frozen=True, slots=True)
class Opened:
    """An open regular file of the project."""

    path: str
    """Relative to the root, links resolved."""
    descriptor: int
    size: int


@dataclass(frozen=True, slots=True)
class Root:
    """The folder of the project. `secrets` allows files that hold secrets."""

    folder: Path
    secrets: bool = False

    def resolve(self, text: str) -> str:
        """The path with links resolved; NotFound for what is not there, or not inside."""
        given = checked(text)
        real_root = os.path.realpath(self.folder)
        try:
            real = os.path.realpath(os.path.join(real_root, given))  # noqa: PTH118 - compared as text below
        except OSError as error:
            # A link that was there a moment ago.
            raise _refusal(text, error) from error
        if os.path.commonpath([real_root, real]) != real_root or real == real_root:
            raise InvalidArgument(
                f"{text[:80]!a} is not a path in the project", hint="it is a link that leads out of the project"
            )
        relative = os.path.relpath(real, real_root).replace(os.sep, "/")
        if not can_be_given(relative):
            raise Unreadable(
                f"{_shown(text)} is a link to a file whose name cannot be given", hint="rename what it leads to"
            )
        if not self.secrets and (is_secret(given) or is_secret(relative)):
            raise SecretFile(
                f"{_shown(text)} is a kind of file that holds secrets, and is not shown",
                hint="the operator can allow it with --allow-secret-files; a sample beside it (.env.example) may help",
            )
        return relative

    @contextmanager
    def open(self, text: str, largest: int) -> Generator[Opened]:
        """The file, open for reading. Not a folder, a pipe or a device, and not larger than `largest`."""
        relative = self.resolve(text)
        try:
            descriptor = open_below(os.path.realpath(self.folder), relative)
        except OSError as error:
            raise _refusal(text, error) from error
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise Unreadable(f"{_shown(text)} is not a file", hint="context_search and grep_codebase find files")
            if found.st_size > largest:
                raise Unreadable(
                    f"{_shown(text)} has {found.st_size:,} bytes, more than {largest:,}",
                    hint="grep_codebase looks into it",
                )
            yield Opened(relative, descriptor, found.st_size)
        finally:
            os.close(descriptor)


_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
_BY_FOLDER = os.open in os.supports_dir_fd


def open_below(root: str, relative: str) -> int:
    """Open a file below the root, following no link on the way."""
    if not _BY_FOLDER:
        return os.open(os.path.join(root, relative), _FLAGS | getattr(os, "O_BINARY", 0))  # noqa: PTH118
    folder, _, name = relative.rpartition("/")
    here = _open_folder(root, folder)
    try:
        return os.open(name, _FLAGS, dir_fd=here)
    finally:
        os.close(here)


def _open_folder(root: str, relative: str) -> int:
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for folder in relative.split("/") if relative else ():
        try:
            deeper = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
        finally:
            os.close(here)
        here = deeper
    return here


class ManyFiles:
    """Reads many files below a root, as safely as `open_below`; the folder of the last one stays open for the next."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._folder: tuple[str, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            os.close(self._folder[1])
            self._folder = None

    def read_into(self, room: memoryview, folder: str, name: str) -> int:
        """Read the beginning of a file, as far as there is room. How many bytes that were; -1 if it cannot be read."""
        try:
            descriptor = self._open(folder, name)
        except OSError:
            return -1
        try:
            return _read_into(descriptor, room)
        except OSError:
            return -1
        finally:
            os.close(descriptor)

    def _open(self, folder: str, name: str) -> int:
        if not _BY_FOLDER:
            return open_below(self._root, f"{folder}/{name}".lstrip("/"))
        if self._folder is None or self._folder[0] != folder:
            self.__exit__()
            self._folder = (folder, _open_folder(self._root, folder))
        return os.open(name, _FLAGS, dir_fd=self._folder[1])


def _read_into(descriptor: int, room: memoryview) -> int:
    if sys.platform != "win32":
        return os.readv(descriptor, (room,))
    data = os.read(descriptor, len(room))
    room[: len(data)] = data
    return len(data)


_PICTURES = re.compile(r"[\u2400-\u2426]")


def _shown(path: str) -> str:
    return on_one_line(path[:200])


def _refusal(text: str, error: OSError) -> NotFound | Unreadable:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        hint = "grep_codebase and context_search find files"
        if _PICTURES.search(text):
            hint = "a picture such as \u240a stands for a line break in the name: give the name as it is in `path` of a result"
        return NotFound(f"no file {_shown(text)} in the project", hint=hint)
    return Unreadable(f"{_shown(text)} cannot be read: {error.strerror}", hint="check its permissions")
