"""What can go wrong, in words that help.

    CellwrightError                 what the caller can act on; reaches the model as written
    ├── InvalidArgument             INVALID_ARGUMENT      an argument is unknown, missing or of the wrong kind
    ├── InvalidUri                  INVALID_URI           a resource address that cannot be read as one
    ├── NotFound                    NOT_FOUND             no such thing, or not yours
    ├── Conflict                    CONFLICT              it changed under you, or it exists already
    ├── Forbidden                   INSUFFICIENT_SCOPE    the caller may not do this
    ├── LimitReached                CAPACITY_LIMIT_REACHED
    ├── Unavailable                 UNAVAILABLE           a part we depend on does not answer (retryable)
    ├── DeadlineExceeded            TIMEOUT               it took longer than allowed (retryable)
    └── ConfigError                 CONFIG_ERROR          a setting is wrong; the program does not start

Anything else that is raised is a crash: the log gets the traceback, the caller gets INTERNAL_ERROR and one generic line.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

INTERNAL_ERROR = "INTERNAL_ERROR"
INTERNAL_HINT = "look whether it happened before you make the call again; if it fails again, tell the operator this id"
INTERNAL_MESSAGE = "cellwright failed inside; the operator's log has the details under this request's id"


class CellwrightError(Exception):
    """A failure that the caller can act on: what happened, to what, what to do next."""

    code: ClassVar[str]
    """The stable name of this failure."""
    meaning: ClassVar[str]
    """One sentence for the documentation and for `cellwright://errors/{code}`."""
    retryable: ClassVar[bool] = False
    """Whether the same call may succeed later, unchanged."""
    rpc_code: ClassVar[int] = -32602
    """The JSON-RPC code where the protocol wants a protocol error (resources, prompts)."""

    def __init__(self, message: str, *, hint: str = "", details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = dict(details or {})

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def as_json(self) -> dict[str, object]:
        """The failure as data, the same shape for every tool and resource."""
        data: dict[str, object] = {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "retryable": self.retryable,
        }
        return {**data, "details": self.details} if self.details else data


class InvalidArgument(CellwrightError):
    code = "INVALID_ARGUMENT"
    meaning = "An argument is unknown, missing, of the wrong type or outside its range; nothing was done."


class InvalidUri(CellwrightError):
    code = "INVALID_URI"
    meaning = "The resource address cannot be read as one; resources/templates/list shows the shapes."
    rpc_code = -32600


class NotFound(CellwrightError):
    code = "NOT_FOUND"
    meaning = "There is no such thing, or it is not yours to see."


class Conflict(CellwrightError):
    code = "CONFLICT"
    meaning = "The thing changed since you read it, or it exists already; nothing was applied."


class Forbidden(CellwrightError):
    code = "INSUFFICIENT_SCOPE"
    meaning = "The token does not carry the scope that this needs, or Jupyter's authorizer does not allow it."


class LimitReached(CellwrightError):
    code = "CAPACITY_LIMIT_REACHED"
    meaning = "A limit of this server or of this caller is used up; the message names the limit and its setting."


class Unavailable(CellwrightError):
    code = "UNAVAILABLE"
    meaning = "Something this server depends on does not answer; the same call may succeed later."
    retryable = True
    rpc_code = -32603


class DeadlineExceeded(CellwrightError):
    code = "TIMEOUT"
    meaning = "The work did not end within its time; what was done so far is said in the message."
    retryable = True
    rpc_code = -32603


class Crash(CellwrightError):
    """What the caller gets for an unexpected failure."""

    code = INTERNAL_ERROR
    meaning = "cellwright failed inside. The operator's log has the details; the same call may or may not work again."
    rpc_code = -32603


class ConfigError(CellwrightError):
    code = "CONFIG_ERROR"
    meaning = "A setting, flag, environment variable or configuration file is wrong; the program does not start."


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """What a code means, for readers who find it in an answer."""

    code: str
    meaning: str
    retryable: bool = False


def error_codes() -> dict[str, ErrorCode]:
    """All error codes, by their names."""
    codes: dict[str, ErrorCode] = {}
    for kind in error_types():
        codes.setdefault(kind.code, ErrorCode(kind.code, kind.meaning, kind.retryable))
    return codes


def error_types() -> list[type[CellwrightError]]:
    """All errors that a caller can get, in the order of the tree above, including those that parts define."""
    types: list[type[CellwrightError]] = []
    pending: list[type[CellwrightError]] = list(CellwrightError.__subclasses__())
    while pending:
        kind = pending.pop(0)
        types.append(kind)
        pending = list(kind.__subclasses__()) + pending
    return types
