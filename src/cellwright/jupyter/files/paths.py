"""Paths of a Jupyter server: relative to its root, `/` between names, checked where they enter."""

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import SplitResult, quote, unquote, urlsplit

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.names import can_be_given, is_disguised

MAX_PATH_BYTES = 4_000
MAX_NAME_BYTES = 255
MAX_URL = 4 * MAX_PATH_BYTES
"""Of the address of a notebook's page: three letters may stand for each byte of its path."""
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
DEFAULT_PORTS = {"http": 80, "https": 443}
RTC_DRIVE = "RTC:"
"""JupyterLab puts this before the path in its address when the notebook is shared."""

_DRIVE = re.compile(r"[A-Za-z]:")
_ODD = ("\\", "%", ":", "./", " /", "//")
_VIEWS = re.compile(r"/(?:(?:lab|doc)(?:/workspaces/[^/]+)?/tree|tree|notebooks|edit|view)/(?P<path>.+)")


def _bad_name(name: str) -> bool:
    return (
        name != name.rstrip(". ")
        or "\\" in name
        or not can_be_given(name)
        or is_disguised(name)
        or len(name.encode("utf-8")) > MAX_NAME_BYTES
    )


def _is_bad(path: str) -> bool:
    if len(path) > MAX_PATH_BYTES or not can_be_given(path) or _DRIVE.match(path) is not None:
        return True
    return len(path.encode("utf-8")) > MAX_PATH_BYTES or any(_bad_name(name) for name in path.split("/"))


def is_path(text: str) -> bool:
    """Whether our tools accept this path of the server. It is quick for ordinary names."""
    if text.isascii() and text.isprintable() and 0 < len(text) <= MAX_NAME_BYTES:
        odd = text[0] == "/" or text[-1] in ". /" or any(map(text.__contains__, _ODD))
        return not odd or not _is_bad(text)
    return not _is_bad(text)


def _refusal(path: str) -> InvalidArgument:
    excerpt = path if len(path) <= 80 else f"{path[:80]}…"  # noqa: PLR2004 - enough to recognise it
    return InvalidArgument(
        f"{excerpt!a} is not a path on the Jupyter server",
        hint="Paths are relative to the server's root, with / between names: folder/analysis.ipynb",
    )


@dataclass(frozen=True, slots=True)
class DocPath:
    """A file or folder on a Jupyter server. Making one checks it; a leading `/` is dropped."""

    text: str

    def __post_init__(self) -> None:
        path = self.text.removeprefix("/")
        if not is_path(path):
            raise _refusal(self.text)
        object.__setattr__(self, "text", path)

    def __str__(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        return self.text.rpartition("/")[2]

    @property
    def parent(self) -> "DocPath | None":
        """The folder it is in; None is the server's root."""
        folder = self.text.rpartition("/")[0]
        if not folder:
            return None
        # Its names were checked with the whole path. Checking them again for each folder of a deep path takes seconds.
        parent = object.__new__(DocPath)
        object.__setattr__(parent, "text", folder)
        return parent

    @property
    def is_notebook(self) -> bool:
        return self.text.endswith(".ipynb")

    @property
    def is_hidden(self) -> bool:
        """Whether it, or a folder above it, is hidden: `.git`, `.ipynb_checkpoints`, …"""
        return any(name.startswith(".") for name in self.text.split("/"))

    @property
    def quoted(self) -> str:
        """For use in a URL: no character of a name can end the path or start a query."""
        return quote(self.text, safe="/")

    @classmethod
    def from_quoted(cls, quoted: str) -> Self:
        """The reverse of `quoted`. A separator hidden inside a name is refused."""
        names = [unquote(name, errors="strict") for name in quoted.split("/")]
        if any("/" in name for name in names):
            raise _refusal(quoted)
        return cls("/".join(names))


@dataclass(frozen=True, slots=True)
class NotebookPath(DocPath):
    """The path of a notebook file."""

    def __post_init__(self) -> None:
        # Not super(): a dataclass with slots is rebuilt, and super() would refer to the old class.
        DocPath.__post_init__(self)
        if not self.is_notebook:
            raise InvalidArgument(
                f"{self.text!a} is not a notebook", hint="A notebook's path ends with .ipynb; list_nbs shows them"
            )


def folder_path(text: str) -> DocPath | None:
    """A folder as tools take it: empty, `/` and `.` mean the server's root, which is None."""
    trimmed = text.strip("/")
    return None if trimmed in ("", ".") and not text.startswith("//") else DocPath(text.rstrip("/"))


def path_from_url(url: str, base_url: str) -> NotebookPath:
    """The notebook that an address of this Jupyter server shows."""
    elsewhere = InvalidArgument(
        f"{url[:200]!a} is not an address of the Jupyter server {base_url}",
        hint="Open the notebook in JupyterLab and copy the address from the browser",
    )
    if len(url) > MAX_URL:
        # urlsplit remembers the latest hundred addresses, however long.
        raise elsewhere
    try:
        page, base = urlsplit(url), urlsplit(base_url)
        same_server = _same_server(page, base)
    except ValueError as error:
        raise elsewhere from error
    prefix = base.path.rstrip("/")
    same_server = same_server or _may_be_public_address(page, base)
    if not same_server or not page.path.startswith(f"{prefix}/"):
        raise elsewhere
    match = _VIEWS.fullmatch(page.path[len(prefix) :])
    if match is None:
        raise elsewhere
    try:
        path = NotebookPath.from_quoted(match["path"])
    except UnicodeDecodeError as error:
        raise elsewhere from error
    return NotebookPath(path.text.removeprefix(RTC_DRIVE))


def _may_be_public_address(page: SplitResult, base: SplitResult) -> bool:
    """On the machine of a JupyterHub we know a server by a local address, people by the Hub's. Both have the user's prefix."""
    return (
        base.hostname in LOOPBACK_HOSTS
        and base.path.startswith("/user/")
        and page.scheme == "https"
        and (page.hostname or "").isascii()
        and page.username is None
    )


def _same_server(page: SplitResult, base: SplitResult) -> bool:
    if page.scheme not in DEFAULT_PORTS or page.username is not None or page.password is not None:
        return False
    ports = [address.port or DEFAULT_PORTS[address.scheme] for address in (page, base)]
    hosts = {page.hostname, base.hostname}
    return ports[0] == ports[1] and (len(hosts) == 1 or hosts <= LOOPBACK_HOSTS)
