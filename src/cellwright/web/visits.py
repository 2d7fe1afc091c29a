"""Visits: people exchange a token once for a cookie that says nothing by itself.

A visit lasts as long as its token, so revoking the token ends it. Visits are kept in memory, so they end with the server.
"""

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from cellwright.core.types import Principal

LIFETIME = 12 * 3600.0
"""Seconds without a request after which a visit ends."""
MOST = 1_000
MOST_OF_ONE = 100

Recheck = Callable[[], Principal | None]
"""The principal of a visit's token; None once the token is revoked or has run out."""


@dataclass(slots=True)
class _Visit:
    owner: str
    recheck: Recheck
    used: float


class Visits:
    """Visits by the hash of their cookie. If there are too many, those that were unused longest end."""

    def __init__(
        self, cookie: str = "cellwright", path: str = "/", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.cookie = cookie
        self._path = path
        self._clock = clock
        self._visits: dict[str, _Visit] = {}

    def begin(self, principal: Principal, recheck: Recheck, *, secure: bool) -> str:
        """Begin a visit and return the value of its Set-Cookie header."""
        self._make_room(principal.id)
        value = secrets.token_urlsafe(32)
        self._visits[_key(value)] = _Visit(principal.id, recheck, self._clock())
        return self._header(value, int(LIFETIME), secure=secure)

    def find(self, cookies: str) -> tuple[str, Principal] | None:
        """The visit that a Cookie header names, with its principal."""
        key = self._key_named(cookies)
        visit = self._visits.get(key)
        if visit is None:
            return None
        now = self._clock()
        principal = visit.recheck() if now - visit.used < LIFETIME else None
        if principal is None:
            del self._visits[key]
            return None
        visit.used = now
        # Moved to the end, so that the first visits were unused longest.
        self._visits[key] = self._visits.pop(key)
        return key, principal

    def end(self, visit: str) -> str:
        """End a visit and return the value of the Set-Cookie header that removes the cookie."""
        self._visits.pop(visit, None)
        return self._header("", 0, secure=False)

    def _make_room(self, owner: str) -> None:
        keys = [key for key, visit in self._visits.items() if visit.owner == owner]
        for key in keys[: max(0, len(keys) - MOST_OF_ONE + 1)]:
            del self._visits[key]
        while len(self._visits) >= MOST:
            del self._visits[next(iter(self._visits))]

    def _key_named(self, header: str) -> str:
        # Parsed by hand: the library's parser drops all cookies at the first strange one, and other servers on this host may set any.
        pairs = [pair.strip().partition("=") for pair in header.split(";")]
        values = [value for name, _, value in pairs if name == self.cookie]
        return _key(values[0]) if len(values) == 1 else ""

    def _header(self, value: str, seconds: int, *, secure: bool) -> str:
        flags = f"{self.cookie}={value}; Path={self._path}; Max-Age={seconds}; HttpOnly; SameSite=Strict"
        return f"{flags}; Secure" if secure else flags


def _key(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
