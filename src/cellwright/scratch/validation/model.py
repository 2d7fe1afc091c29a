"""What goes into a validation and what comes out of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cellwright.core.errors import DeadlineExceeded

Severity = Literal["error", "warning", "info"]
Status = Literal["valid", "warning", "invalid", "undecided", "skipped", "failed"]

MAX_DIAGNOSTICS = 50
MESSAGE_CHARS = 400
INLINE_SCHEMA = "inline"


class ValidationTimeout(DeadlineExceeded):
    code = "VALIDATION_TIMEOUT"
    meaning = (
        "The cells were not checked within the time for one request; there is no partial result, nothing was changed."
    )


@dataclass(frozen=True, slots=True)
class CellToCheck:
    """A cell as the validator sees it. `schema` is a JSON Schema, a reference to a shared one, or None."""

    id: str
    language: str
    content: str
    schema: object = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. Lines and columns count from 1, columns in characters; `path` is where in the data, as in `$.a[0]`."""

    severity: Severity
    message: str
    line: int | None = None
    column: int | None = None
    path: str = ""
    source: str = ""
    """What found it: `json`, `yaml`, `json-schema`, `tree-sitter-go`, `Python 3.12`, `validator`…"""


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of checking one cell.

    `valid`: nothing was found. `warning`: something may be wrong. `invalid`: something is certainly wrong. `undecided`: nothing
    is known to be wrong, but a part of the schema that matters is missing. `skipped`: there is no validator for this language
    here (a diagnostic says why). `failed`: the validator could not read this content to its end.
    """

    cell_id: str
    status: Status
    language: str
    diagnostics: tuple[Diagnostic, ...] = ()
    schema: str | None = None
    """The schema that was applied: the name or id of a shared one as the cell gives it, `inline`, or None."""
    references: tuple[str, ...] = ()
    """Every shared schema that was used, by the name or id in the reference to it."""

    @property
    def valid(self) -> bool | None:
        """Whether nothing is known to be wrong, which is also true without a validator. None: it cannot be decided."""
        return None if self.status in {"undecided", "failed"} else self.status != "invalid"

    @property
    def checked(self) -> bool:
        return self.status not in {"skipped", "failed"}


def status_of(diagnostics: Sequence[Diagnostic]) -> Status:
    severities = {diagnostic.severity for diagnostic in diagnostics}
    if "error" in severities:
        return "invalid"
    return "warning" if "warning" in severities else "valid"


def shortened(message: str) -> str:
    """One line of bounded length: messages quote content, and content can be anything."""
    line = " ".join(message[: 4 * MESSAGE_CHARS].split())
    return line if len(line) <= MESSAGE_CHARS else f"{line[: MESSAGE_CHARS - 1]}…"


def bounded(diagnostics: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The first findings, errors before warnings, and a last one that says how many were left out."""
    if len(diagnostics) <= MAX_DIAGNOSTICS:
        return tuple(diagnostics)
    errors_first = sorted(diagnostics, key=lambda diagnostic: diagnostic.severity != "error")
    note = f"only the first {MAX_DIAGNOSTICS} findings are shown; there are more"
    return (*errors_first[:MAX_DIAGNOSTICS], Diagnostic("info", note, source="validator"))


def validation_from_json(data: dict[str, Any]) -> Validation:
    """The inverse of `asdict`, after a trip through JSON."""
    return Validation(
        data["cell_id"],
        data["status"],
        data["language"],
        tuple(Diagnostic(**diagnostic) for diagnostic in data["diagnostics"]),
        data["schema"],
        tuple(data["references"]),
    )
