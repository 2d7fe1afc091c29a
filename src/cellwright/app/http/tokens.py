"""Our own bearer tokens: created once, shown once, stored as hashes.

A token is `cw_<id>_<secret>`. The secret has 256 random bits, so a plain SHA-256 is enough: it cannot be guessed.
"""

import base64
import hashlib
import hmac
import json
import logging
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cellwright.app.log import log_event
from cellwright.core.arguments import nearest
from cellwright.core.errors import ConfigError, Conflict, NotFound
from cellwright.core.types import ALL_SCOPES, Principal, Scope, Secret
from cellwright.system.files import private_folder, replace_file, trusted_file

Clock = Callable[[], float]

FILE_NAME = "tokens.json"
SERVE_FILE = "serve-token"
PREFIX = "cw_"


@dataclass(frozen=True)
class StoredToken:
    """A token as it is stored: everything but its secret."""

    id: str
    name: str
    digest: str
    scopes: tuple[str, ...]
    created: float
    expires: float | None = None

    def expired(self, now: float) -> bool:
        return self.expires is not None and now >= self.expires


def parse_scopes(text: str) -> frozenset[Scope]:
    """The scopes in a text such as `read,write`. The error for an unknown name suggests the nearest one."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    scope_names = [scope.value for scope in Scope]
    for name in names:
        if name not in scope_names:
            suggestion = nearest(name, scope_names)
            raise ConfigError(
                f"there is no scope {name!r}",
                hint=f"did you mean {suggestion!r}?" if suggestion else f"scopes: {', '.join(scope_names)}",
            )
    if not names:
        raise ConfigError("a token needs at least one scope", hint=f"scopes: {', '.join(scope_names)}")
    return frozenset(Scope(name) for name in names)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class TokenStore:
    """The tokens in one state folder. The file is read again whenever it has changed, so revoking works at once."""

    def __init__(self, state_dir: Path, clock: Clock = time.time) -> None:
        self._file = state_dir / FILE_NAME
        self._clock = clock
        self._read_version: tuple[int, int, int] | None = None
        self._tokens: dict[str, StoredToken] = {}

    def create(self, name: str, scopes: frozenset[Scope], lifetime: float | None = None) -> tuple[StoredToken, Secret]:
        """Create a token. Returns what is stored, and the secret, which is shown only this once. Conflict if the name is taken."""
        if namesakes := [token for token in self.list() if token.name == name]:
            raise Conflict(
                f"a token is called {name!r} already, with the id {namesakes[0].id}",
                hint=f"choose another name, or `cellwright token revoke {namesakes[0].id}` first",
            )
        identity = base64.b32encode(secrets.token_bytes(5)).decode().lower()
        token = f"{PREFIX}{identity}_{secrets.token_urlsafe(32)}"
        now = self._clock()
        expires = now + lifetime if lifetime is not None else None
        stored = StoredToken(identity, name, _digest(token), tuple(sorted(scopes)), now, expires)
        self._save({**self._load(), identity: stored})
        return stored, Secret(token)

    def list(self) -> list[StoredToken]:
        return sorted(self._load().values(), key=lambda token: token.created)

    def revoke(self, identity: str) -> StoredToken:
        """Delete a token by its id, or by its name if only one token has that name."""
        tokens = self._load()
        matching = [token for token in tokens.values() if identity in {token.id, token.name}]
        if not matching:
            all_tokens = ", ".join(f"{token.id} ({token.name})" for token in tokens.values()) or "none"
            raise NotFound(f"no token has the id or name {identity!r}", hint=f"known tokens: {all_tokens}")
        if len(matching) > 1:
            ids = ", ".join(token.id for token in matching)
            raise Conflict(f"{len(matching)} tokens are called {identity!r}", hint=f"give the id of one: {ids}")
        self._save({key: token for key, token in tokens.items() if key != matching[0].id})
        return matching[0]

    def verify(self, token: str) -> Principal | None:
        """The principal of this token, or None. Unknown, wrong, revoked and expired tokens look the same and take the same time."""
        identity = token.removeprefix(PREFIX).partition("_")[0]
        try:
            stored = self._load().get(identity)
        except ConfigError as error:
            # While serving, a damaged file must not disable the other verifiers.
            log_event("token_file_unusable", level=logging.ERROR, error=error.code, path=self._file.name)
            stored = None
        digest = _digest(token)
        matches = hmac.compare_digest(stored.digest if stored else _digest(""), digest)
        if stored is None or not matches or stored.expired(self._clock()):
            return None
        return Principal(f"key:{stored.id}", frozenset(Scope(scope) for scope in stored.scopes))

    def _load(self) -> dict[str, StoredToken]:
        try:
            status = os.stat(self._file)  # noqa: PTH116 - every request comes here, and this is twice as fast as pathlib
        except FileNotFoundError:
            self._read_version, self._tokens = None, {}
            return self._tokens
        version = (status.st_mtime_ns, status.st_size, status.st_ino)
        if version != self._read_version:
            self._tokens = _tokens_in(self._file)
            self._read_version = version
        return self._tokens

    def _save(self, tokens: dict[str, StoredToken]) -> None:
        private_folder(self._file.parent)
        replace_file(self._file, json.dumps([asdict(token) for token in tokens.values()], indent=1).encode())
        self._read_version = None


def _tokens_in(file: Path) -> dict[str, StoredToken]:
    trusted_file(file)
    try:
        rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
        tokens = [replace(StoredToken(**row), scopes=tuple(row["scopes"])) for row in rows]
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"{file} is damaged", hint="restore it, or delete it and create the tokens again") from error
    return {token.id: token for token in tokens}


def serve_token(state_dir: Path) -> Secret:
    """The token of a loopback server for which none was configured: created once, then the same at every start."""
    file = private_folder(state_dir) / SERVE_FILE
    # If others could read the file they may know the token, so a new one is created.
    if file.is_file() and trusted_file(file) and (text := file.read_text(encoding="utf-8").strip()):
        return Secret(text)
    token = f"{PREFIX}{secrets.token_urlsafe(32)}"
    replace_file(file, f"{token}\n".encode())
    return Secret(token)


class OneToken:
    """A verifier for the single token from a setting, which has every scope."""

    def __init__(self, token: Secret) -> None:
        self._digest = _digest(token.reveal())

    def verify(self, token: str) -> Principal | None:
        if not hmac.compare_digest(self._digest, _digest(token)):
            return None
        return Principal("key:setting", ALL_SCOPES)
