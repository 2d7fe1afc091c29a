"""Pads and their cells, as values. Times are microseconds since 1970 (UTC)."""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cellwright.core.errors import INTERNAL_ERROR, CellwrightError, Conflict, ErrorCode, InvalidArgument, NotFound
from cellwright.notebook.model import Kind

JsonObject = dict[str, Any]

ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
MAX_TAGS = 64
MAX_NAMESPACES = 64
MAX_NAME = 200
PROSE = ("markdown", "md")
RAW = ("text", "txt")


class InvalidId(CellwrightError):
    code = "INVALID_ID"
    meaning = "An id is malformed, is taken already, or names a cell that the pad does not have; nothing was changed."


class InvalidIndex(CellwrightError):
    code = "INVALID_INDEX"
    meaning = "A cell position is outside the pad; nothing was changed."


CODES = frozenset(
    {
        "NOT_FOUND",
        "INVALID_ID",
        "INVALID_INDEX",
        "VALIDATION_ERROR",
        "VALIDATION_TIMEOUT",
        "CAPACITY_LIMIT_REACHED",
        "CONFLICT",
        "UNAUTHORIZED",
        "CONFIG_ERROR",
    }
)
_ENVELOPE_CODE: Mapping[str, str] = {
    "INVALID_ARGUMENT": "VALIDATION_ERROR",
    "INVALID_FORMAT": "VALIDATION_ERROR",
    "INSUFFICIENT_SCOPE": "UNAUTHORIZED",
    "STORAGE_FULL": "CAPACITY_LIMIT_REACHED",
}
ENVELOPE_CODES = (
    ErrorCode(
        "VALIDATION_ERROR",
        "Scratch tools: an argument is unknown, missing, of the wrong type or outside its range, or a schema is not one; "
        "nothing was done.",
    ),
    ErrorCode("UNAUTHORIZED", "Scratch tools: the token does not carry the scope that this needs."),
)
"""The codes that exist only in this envelope."""


def failure(error: CellwrightError) -> JsonObject:
    """A failure in the envelope of the scratch tools, whose list of codes is closed.

    A code that is not in the list becomes INTERNAL_ERROR; `reason` is then the code that any other tool would give.
    """
    code = _ENVELOPE_CODE.get(error.code, error.code)
    fields = {
        "code": code if code in CODES else INTERNAL_ERROR,
        "message": error.message,
        "error": error.message,
        "hint": error.hint,
        "retryable": error.retryable,
        "details": error.details,
    }
    if error.code not in (fields["code"], "INVALID_ARGUMENT", "INSUFFICIENT_SCOPE"):
        fields["reason"] = error.code
    return {"ok": False, "error": fields}


@dataclass(frozen=True, slots=True)
class PadCellDraft:
    """A cell as a caller gives it. None means not given: replacing a cell keeps what it had."""

    language: str
    content: str
    cell_id: str | None = None
    metadata: JsonObject | None = None
    tags: tuple[str, ...] | None = None
    json_schema: JsonObject | str | bool | None = None
    validate: bool = False


@dataclass(frozen=True, slots=True)
class PadDraft:
    """The fields of a pad, as a caller gives them."""

    title: str | None = None
    description: str | None = None
    summary: str | None = None
    namespace: str | None = None
    tags: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=dict[str, Any])
    """Everything else, stored as it was given."""


@dataclass(frozen=True, slots=True)
class Pad:
    """A pad without its cells."""

    id: str
    about: PadDraft
    created: int
    updated: int
    version: int
    cell_count: int


@dataclass(frozen=True, slots=True)
class SharedSchema:
    id: str
    name: str
    description: str
    schema: JsonObject


@dataclass(frozen=True, slots=True)
class PadLimits:
    """How much one tenant may store; 0 means no limit."""

    pads: int = 1024
    cells: int = 1024
    cell_bytes: int = 1 << 20
    metadata_bytes: int = 256 << 10
    schema_bytes: int = 256 << 10
    namespaces: int = 1024
    schemas: int = 256
    """Of one pad."""
    total_bytes: int = 256 << 20
    """Of all pads together, with their earlier versions."""
    pad_bytes: int = 16 << 20
    """Of one pad: it is held in memory as a whole, where a character may take four bytes; restoring holds it more than once."""


def kind_of(language: str) -> Kind:
    """The kind of a cell in this language."""
    word = language.strip().lower()
    return Kind.MARKDOWN if word in PROSE else Kind.RAW if word in RAW else Kind.CODE


def iso_time(microseconds: int) -> str:
    """A moment in ISO 8601, as in 2026-08-21T10:15:30.123Z."""
    moment = datetime.fromtimestamp(microseconds / 1e6, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_id() -> str:
    return secrets.token_hex(16)


def checked_id(identifier: str, argument: str = "scratch_id") -> str:
    if not ID.fullmatch(identifier):
        raise InvalidId(
            f"{argument} {identifier[:80]!r} is not an id",
            hint="ids are 1 to 128 of A-Z a-z 0-9 _ -",
        )
    return identifier


def checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Trimmed, each once, in the same order."""
    tags = tuple(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))
    if len(tags) > MAX_TAGS or any(len(tag) > MAX_NAME or "\x00" in tag for tag in tags):
        raise InvalidArgument(
            f"tags: at most {MAX_TAGS}, each of at most {MAX_NAME} characters", hint="give fewer or shorter tags"
        )
    return tags


def checked_tag_filter(tags: Sequence[str]) -> tuple[str, ...]:
    """The tags of a filter. A filter of blanks alone is refused: it would be no filter and show everything."""
    checked = checked_tags(tags)
    if tags and not checked:
        raise InvalidArgument("tags: none of these is a tag", hint="leave tags out to get all")
    return checked


def checked_namespace(name: str) -> str:
    name = name.strip()
    if not name or len(name) > MAX_NAME or "\x00" in name:
        raise InvalidArgument(
            f"a namespace is a name of 1 to {MAX_NAME} characters", hint="choose a shorter name that is not empty"
        )
    return name


def checked_namespace_filter(names: Sequence[str]) -> tuple[str, ...]:
    """The namespaces of a filter, each once. Each is a parameter of the query, so their number is limited."""
    names = tuple(dict.fromkeys(name.strip() for name in names))
    if "" in names:
        raise InvalidArgument("namespaces: one of these has no name", hint="leave namespaces out to look everywhere")
    if len(names) > MAX_NAMESPACES:
        raise InvalidArgument(
            f"namespaces: at most {MAX_NAMESPACES} at once", hint="ask several times, or leave it out"
        )
    return names


def no_pad(pad_id: str) -> NotFound:
    return NotFound(f"there is no pad {pad_id!r}", hint="scratch_list shows yours", details={"scratch_id": pad_id})


def not_in_namespaces(pad_id: str) -> Conflict:
    """The same message for a pad in another namespace and for one that does not exist."""
    return Conflict(
        f"pad {pad_id!r} is not in one of these namespaces",
        details={"scratch_id": pad_id},
        hint="scratch_list shows the pads of a namespace; leave namespaces out to look in all",
    )
