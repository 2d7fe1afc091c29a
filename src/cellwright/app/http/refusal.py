"""A request that is not let in: why, and in which words that is told. Loads nothing heavy: Jupyter's handlers say no in the same words."""

from collections.abc import Mapping
from typing import Any

REFUSED = -32029
"""The protocol's code for a request that was not let in; the reason says why, `data.status` is that of HTTP."""


class Refusal(Exception):
    """Why a request is not let in, and what the caller can do about it."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None, *, hint: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.hint = hint
        self.headers = dict(headers or {})

    @property
    def message(self) -> str:
        return f"{self.reason}; {self.hint}" if self.hint else self.reason


def told(status: int, message: str, headers: Mapping[str, str], *, as_protocol: bool) -> dict[str, Any]:
    """A refusal as JSON. Clients of the protocol show what stands in its own kind of error, and nothing of any other."""
    if not as_protocol:
        return {"error": message}
    data: dict[str, Any] = {"status": status}
    if "retry-after" in headers:
        data["retry_after_seconds"] = int(headers["retry-after"])
    # Without the request's id, which is not read of somebody who is not let in.
    return {"jsonrpc": "2.0", "id": None, "error": {"code": REFUSED, "message": message, "data": data}}


def challenge(metadata_url: str, *parameters: str) -> dict[str, str]:
    """The header that says which token would be let in, and where to get one if that is known."""
    resource = [f'resource_metadata="{metadata_url}"'] if metadata_url else []
    return {"www-authenticate": ", ".join(['Bearer realm="cellwright"', *parameters, *resource])}
