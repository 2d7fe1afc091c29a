"""Pads and their cells, as values. Times are microseconds since 1970 (UTC)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cellwright.core.errors import INTERNAL_ERROR, CellwrightError, Conflict, InvalidArgument, NotFound

JsonObject = dict[str, Any]

ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
CANONICAL = ("title", "description", "summary", "namespace", "tags")
MAX_TAGS = 64
MAX_NAMESPACES = 64
MAX_NAME = 200


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
_TROUBLES = frozenset({"STORAGE_FULL"})


def failure(error: CellwrightError) -> JsonObject:
    """A failure in the envelope of the scratch tools, whose list of codes is closed: what is not on it is INTERNAL_ERROR."""
    code = _TOLD_AS.get(error.code, error.code)
    message = f"{error.message}; {error.hint}" if error.hint else error.message
    # Whether trying again may help is said for what the list has no name for: these are troubles of ours, not of the call.
    known = code in CODES and error.code not in _TROUBLES
    details = error.details if known else {**error.details, "reason": error.code, "retryable": error.retryable}
    shown = {
        "code": code if code in CODES else INTERNAL_ERROR,
        "message": message,
        "error": message,
        "details": details,
    }
    return {"ok": False, "error": shown}


@dataclass(frozen=True, slots=True)
class CellDraft:
    """A cell as a caller gives it. None: not given, so that replacing keeps what was there."""

    language: str
    content: str
    cell_id: str | None = None
    metadata: JsonObject | None = None
    tags: tuple[str, ...] | None = None
    json_schema: JsonObject | str | None = None
    validate: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    id: str
    index: int
    language: str
    content: str
    metadata: JsonObject = field(default_factory=dict[str, Any])
    tags: tuple[str, ...] = ()
    json_schema: JsonObject | str | None = None
    validate: bool = False
    status: str | None = None
    """What the last validation said; None if nobody has asked since the content changed."""


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
class Limits:
    """What one tenant may keep; 0 means as much as there is room for."""

    pads: int = 1024
    cells: int = 1024
    cell_bytes: int = 1 << 20
    metadata_bytes: int = 256 << 10
    schema_bytes: int = 256 << 10
    namespaces: int = 1024
    schemas: int = 256
    """Of one pad."""


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
        raise InvalidArgument(f"tags: at most {MAX_TAGS}, each of at most {MAX_NAME} characters")
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
        raise InvalidArgument(f"a namespace is a name of 1 to {MAX_NAME} characters")
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
    return Conflict(f"pad {pad_id!r} is not in one of these namespaces", details={"scratch_id": pad_id})
