"""JWT bearer tokens of an OAuth issuer. Signature, issuer, audience and times are checked; the algorithms are fixed by us."""

import json
import logging
import time
from threading import Thread
from typing import Any, cast
from urllib.parse import urlsplit

import jwt

from cellwright.app.log import log_event, without_credentials
from cellwright.core.errors import ConfigError
from cellwright.core.types import Principal, Scope
from cellwright.system.folders import expanded

# Asymmetric only: with a symmetric algorithm the issuer's public key would be the signing key.
ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
MAX_TOKEN_CHARS = 16_384
REFRESH_SECONDS = 300.0
ACCESS_TOKENS = frozenset({"at+jwt", "application/at+jwt", "jwt", "application/jwt"})
"""Allowed values of `typ`: an access token (RFC 9068), or a JWT of no particular kind. The same key signs logouts, events and more."""
SCOPE_PREFIX = "cellwright:"
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


class JwtVerifier:
    """Checks tokens against the issuer's public keys. An unknown key makes it read them again, at most every five minutes."""

    def __init__(self, issuer: str, audience: str, jwks: str) -> None:
        self._issuer = issuer
        self._audience = audience
        self._jwks = jwks
        self._keys = _load_keys(jwks)
        self._read_at = time.monotonic()

    def verify(self, token: str) -> Principal | None:
        """The principal that the token names; None if it is refused, whatever the reason."""
        if len(token) > MAX_TOKEN_CHARS:
            return None
        try:
            header = jwt.get_unverified_header(token)
            key = self._key_for(header)
            if key is None or not _is_for_access(header):
                return None
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=list(ALGORITHMS.get(key.key_type or "", ())),
                audience=self._audience,
                issuer=self._issuer,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, TypeError, ValueError):
            # TypeError and ValueError mean that the algorithm does not fit the key, for example because it is another curve's.
            return None
        subject = claims.get("sub")
        return Principal(f"{self._issuer}|{subject}", _scopes(claims)) if isinstance(subject, str) and subject else None

    def _key_for(self, header: dict[str, Any]) -> jwt.PyJWK | None:
        kid = header.get("kid")
        if not isinstance(kid, str):
            return None
        if kid not in self._keys and time.monotonic() - self._read_at > REFRESH_SECONDS:
            self._read_at = time.monotonic()
            # In a thread, because the event loop must not wait for another server. This token is refused; the next try finds its key.
            Thread(target=self._refresh, name="cellwright-jwks", daemon=True).start()
        return self._keys.get(kid)

    def _refresh(self) -> None:
        try:
            self._keys = _load_keys(self._jwks)
        except ConfigError as error:
            log_event("jwks_refresh_failed", level=logging.WARNING, error=error.code)


def _is_for_access(header: dict[str, Any]) -> bool:
    kind = header.get("typ")
    return kind is None or (isinstance(kind, str) and kind.lower() in ACCESS_TOKENS)


def _scopes(claims: dict[str, Any]) -> frozenset[Scope]:
    claimed: object = claims.get("scope", claims.get("scp", ""))
    names = (
        claimed.split()
        if isinstance(claimed, str)
        else cast("list[object]", claimed)
        if isinstance(claimed, list)
        else []
    )
    known_names = {scope.value for scope in Scope}
    return frozenset(Scope(name) for raw in names if (name := str(raw).removeprefix(SCOPE_PREFIX)) in known_names)


def _load_keys(source: str) -> dict[str, jwt.PyJWK]:
    try:
        rows = json.loads(_jwks_text(source))["keys"]
        keys = {row["kid"]: jwt.PyJWK(row) for row in rows if row.get("kid") and row.get("kty") != "oct"}
    except (ValueError, KeyError, TypeError, AttributeError, jwt.PyJWTError) as error:
        raise ConfigError(
            f"--jwt-jwks {without_credentials(source)} holds no usable keys",
            hint="it must be a JWKS document whose keys have a kid",
        ) from error
    if not keys:
        raise ConfigError(f"--jwt-jwks {without_credentials(source)} has no key with a kid", hint="give each key a kid")
    return keys


def _jwks_text(source: str) -> str:
    parts = urlsplit(source)
    if parts.scheme not in {"http", "https"}:
        try:
            return expanded(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"--jwt-jwks {without_credentials(source)} cannot be read", hint="give a file or an https URL"
            ) from error
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise ConfigError("--jwt-jwks must be https", hint="plain http is allowed on loopback only")
    import httpx2  # noqa: PLC0415 - only where keys come from the network

    try:
        response = httpx2.get(source, timeout=10.0, follow_redirects=False)
        response.raise_for_status()
    except httpx2.HTTPError as error:
        raise ConfigError(
            f"--jwt-jwks {without_credentials(source)} does not answer",
            hint="check the address, or save the keys to a file",
        ) from error
    return response.text
