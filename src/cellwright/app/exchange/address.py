"""What a caller may name as a notebook: a file of the workspace, a pad, a thinking notebook, a template."""

from dataclasses import dataclass
from enum import StrEnum

from cellwright.core.errors import InvalidArgument
from cellwright.jupyter.paths import DocPath

PAD, THINKING, LIVE = "scratchpad://", "notebook://", "jupyter://"
TEMPLATES = "templates"
SHAPES = "folder/name.ipynb (also .md, .src.md, .json), scratchpad://ID, notebook://ID"


class Where(StrEnum):
    FILE = "file"
    PAD = "pad"
    THINKING = "thinking"
    TEMPLATE = "template"


@dataclass(frozen=True, slots=True)
class Address:
    where: Where
    name: str
    """A path for a file, else an id or a name; empty means a new one."""
    part: str = ""
    """What of a pad is meant, as resources name it (`md`, `cells/ID`). Reading gives all of it; nothing can be written to a part."""


def address_of(given: str) -> Address:
    """The address as it was written, checked for its shape only."""
    if given.startswith(PAD):
        name, _, part = given.removeprefix(PAD).partition("/")
        return Address(Where.PAD, name, part)
    if given.startswith(THINKING):
        first, _, rest = given.removeprefix(THINKING).partition("/")
        if first == TEMPLATES:
            return Address(Where.TEMPLATE, rest)
        # With its session, as resources name it, or by its id alone.
        return Address(Where.THINKING, rest.partition("/")[0] or first)
    if given.startswith(LIVE):
        return Address(Where.FILE, _unquoted(given))
    if "://" in given or not given.strip():
        raise InvalidArgument(f"{given[:80]!a} names no notebook", hint=f"there are: {SHAPES}")
    return Address(Where.FILE, given)


def _unquoted(uri: str) -> str:
    try:
        return DocPath.from_quoted(uri.removeprefix(LIVE)).text
    except UnicodeDecodeError:
        raise InvalidArgument(
            f"{uri[:80]!a} is not valid UTF-8 once decoded", hint="give the path as it is, without jupyter://"
        ) from None
