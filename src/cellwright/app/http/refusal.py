"""A request that is refused: the reason, and its JSON. Imports nothing heavy, because Jupyter's handlers refuse in the same way."""

from collections.abc import Mapping
from typing import Any

REFUSED = -32029
"""The protocol's code for a refused request; the message says why, and `data.status` is the status of HTTP."""


class Refusal(Exception):
    """The reason why a request is refused, and what the caller can do about it."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None, *, hint: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.hint = hint
        self.headers = dict(headers or {})

    @property
    def message(self) -> str:
        return f"{self.reason}; {self.hint}" if self.hint else self.reason


def refusal_json(status: int, message: str, headers: Mapping[str, str], *, as_protocol: bool) -> dict[str, Any]:
    """A refusal as JSON. Clients of the protocol show the message of a protocol error, and of no other kind."""
    if not as_protocol:
        return {"error": message}
    data: dict[str, Any] = {"status": status}
    if "retry-after" in headers:
        data["retry_after_seconds"] = int(headers["retry-after"])
    # Without the request's id: the body of a refused request is not read.
    return {"jsonrpc": "2.0", "id": None, "error": {"code": REFUSED, "message": message, "data": data}}


def challenge(metadata_url: str, *parameters: str) -> dict[str, str]:
    """The header that says which token is needed, and where to get one if that is known."""
    resource = [f'resource_metadata="{metadata_url}"'] if metadata_url else []
    return {"www-authenticate": ", ".join(['Bearer realm="cellwright"', *parameters, *resource])}
