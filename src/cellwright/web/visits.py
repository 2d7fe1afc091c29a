"""Who is looking: a token exchanged once for a cookie that says nothing by itself.

A visit lasts as long as its token: revoking the token ends it. Visits are kept in memory, so they end with the server.
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
"""Who the token of a visit is now; None once it is revoked or has run out."""


@dataclass(slots=True)
class _Visit:
    owner: str
    recheck: Recheck
    used: float


class Visits:
    """Visits by the hash of their cookie. The longest unused go first when there are too many."""

    def __init__(
        self, cookie: str = "cellwright", path: str = "/", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.cookie = cookie
        self._path = path
        self._clock = clock
        self._visits: dict[str, _Visit] = {}

    def begin(self, principal: Principal, recheck: Recheck, *, secure: bool) -> str:
        """A new visit; the value of its Set-Cookie header."""
        self._make_room(principal.id)
        value = secrets.token_urlsafe(32)
        self._visits[_key(value)] = _Visit(principal.id, recheck, self._clock())
        return self._header(value, int(LIFETIME), secure=secure)

    def find(self, cookies: str) -> tuple[str, Principal] | None:
        """The visit that a Cookie header names, with who it is now."""
        key = self._named(cookies)
        visit = self._visits.get(key)
        if visit is None:
            return None
        now = self._clock()
        principal = visit.recheck() if now - visit.used < LIFETIME else None
        if principal is None:
            del self._visits[key]
            return None
        visit.used = now
        # At the end, so that the first are the longest unused.
        self._visits[key] = self._visits.pop(key)
        return key, principal

    def end(self, visit: str) -> str:
        """End a visit; the value of the Set-Cookie header that takes the cookie away."""
        self._visits.pop(visit, None)
        return self._header("", 0, secure=False)

    def _make_room(self, owner: str) -> None:
        own = [key for key, visit in self._visits.items() if visit.owner == owner]
        for key in own[: max(0, len(own) - MOST_OF_ONE + 1)]:
            del self._visits[key]
        while len(self._visits) >= MOST:
            del self._visits[next(iter(self._visits))]

    def _named(self, header: str) -> str:
        # By hand: the library's parser gives up on all of them at the first strange one, and others of this host may have set any.
        given = [pair.strip().partition("=") for pair in header.split(";")]
        values = [value for name, _, value in given if name == self.cookie]
        return _key(values[0]) if len(values) == 1 else ""

    def _header(self, value: str, seconds: int, *, secure: bool) -> str:
        flags = f"{self.cookie}={value}; Path={self._path}; Max-Age={seconds}; HttpOnly; SameSite=Strict"
        return f"{flags}; Secure" if secure else flags


def _key(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
