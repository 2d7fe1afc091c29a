"""Pads and their cells, as values. Times are microseconds since 1970 (UTC)."""

import re
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
_TOLD_AS: Mapping[str, str] = {
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
"""The codes that only this envelope has."""


def failure(error: CellwrightError) -> JsonObject:
    """A failure in the envelope of the scratch tools, whose list of codes is closed.

    What the list has no name for is INTERNAL_ERROR; `reason` is the code under which any other tool would tell it.
    """
    code = _TOLD_AS.get(error.code, error.code)
    shown = {
        "code": code if code in CODES else INTERNAL_ERROR,
        "message": error.message,
        "error": error.message,
        "hint": error.hint,
        "retryable": error.retryable,
        "details": error.details,
    }
    if error.code not in (shown["code"], "INVALID_ARGUMENT", "INSUFFICIENT_SCOPE"):
        shown["reason"] = error.code
    return {"ok": False, "error": shown}


@dataclass(frozen=True, slots=True)
class PadCellDraft:
    """A cell as a caller gives it. None: not given, so that replacing keeps what was there."""

    language: str
    content: str
    cell_id: str | None = None
    metadata: JsonObject | None = None
    tags: tuple[str, ...] | None = None
    json_schema: JsonObject | str | bool | None = None
    validate: bool = False


@dataclass(frozen=True, slots=True)
class PadDraft:
    """What a caller says about a pad as a whole."""

    title: str | None = None
    description: str | None = None
    summary: str | None = None
    namespace: str | None = None
    tags: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=dict[str, Any])
    """Everything else, kept as it was given."""


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
    """What one tenant may keep; 0 means as much as there is room for."""

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
    """Of one pad: a whole one is held in memory, where a letter may take four bytes, and while it is restored more than once."""


def kind_of(language: str) -> Kind:
    """What a cell is whose language was given so."""
    word = language.strip().lower()
    return Kind.MARKDOWN if word in PROSE else Kind.RAW if word in RAW else Kind.CODE


def iso_time(microseconds: int) -> str:
    """A moment as people and programs read it: 2026-08-21T10:15:30.123Z."""
    moment = datetime.fromtimestamp(microseconds / 1e6, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def checked_id(given: str, what: str = "scratch_id") -> str:
    if not ID.fullmatch(given):
        raise InvalidId(
            f"{what} {given[:80]!r} is not an id",
            hint="ids are 1 to 128 of A-Z a-z 0-9 _ -",
        )
    return given


def checked_tags(given: tuple[str, ...]) -> tuple[str, ...]:
    """Trimmed, each once, in the order given."""
    tags = tuple(dict.fromkeys(tag.strip() for tag in given if tag.strip()))
    if len(tags) > MAX_TAGS or any(len(tag) > MAX_NAME or "\x00" in tag for tag in tags):
        raise InvalidArgument(
            f"tags: at most {MAX_TAGS}, each of at most {MAX_NAME} characters", hint="give fewer or shorter tags"
        )
    return tags


def wanted_tags(given: Sequence[str]) -> tuple[str, ...]:
    """The tags of a filter. One of blanks alone would be none, and show everything."""
    tags = checked_tags(tuple(given))
    if given and not tags:
        raise InvalidArgument("tags: none of these is a tag", hint="leave tags out to get all")
    return tags


def checked_namespace(given: str) -> str:
    name = given.strip()
    if not name or len(name) > MAX_NAME or "\x00" in name:
        raise InvalidArgument(
            f"a namespace is a name of 1 to {MAX_NAME} characters", hint="choose a shorter name that is not empty"
        )
    return name


def checked_namespaces(given: Sequence[str]) -> tuple[str, ...]:
    """The namespaces of a filter, each once. Each one is a part of the query, so there is a limit to them."""
    names = tuple(dict.fromkeys(name.strip() for name in given))
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
    """The same words for a pad elsewhere and for one that does not exist."""
    return Conflict(
        f"pad {pad_id!r} is not in one of these namespaces",
        details={"scratch_id": pad_id},
        hint="scratch_list shows the pads of a namespace; leave namespaces out to look in all",
    )
