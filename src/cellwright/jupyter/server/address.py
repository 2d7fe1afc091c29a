"""The address of a Jupyter server, with the credentials for it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, cast
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

from cellwright.core.errors import ConfigError
from cellwright.core.types import Secret
from cellwright.jupyter.files.paths import LOOPBACK_HOSTS

_PAGE = re.compile(r"/(?:lab|doc|tree|notebooks|edit|view)(?=/|$)")
_HUB_USER = re.compile(r"(?:/[^/]+)*?/user/[^/]+")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS_TO_SET = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade"})
IN_THE_ADDRESS = "the token in the address"


@dataclass(frozen=True, slots=True)
class JupyterAddress:
    """A Jupyter server: its base URL without a `/` at its end, its token or password, and headers for a proxy in front of it."""

    url: str
    token: Secret = field(default_factory=lambda: Secret(""))
    password: Secret = field(default_factory=lambda: Secret(""))
    headers: Mapping[str, Secret] = field(default_factory=dict[str, Secret])
    root: Path | None = None
    """The server's root folder if it is on this machine, where files are listed much faster. It is checked before it is used."""
    known_as: str = "the token"
    """The name of the token in messages, which makes clear which of several was tried."""

    @classmethod
    def parse(
        cls,
        url: str,
        *,
        token: Secret | None = None,
        password: Secret | None = None,
        headers: Mapping[str, Secret] | None = None,
        root: Path | None = None,
        known_as: str = "the token",
    ) -> Self:
        """Parse an address as people have it, perhaps copied from the browser, with `/lab` and `?token=`."""
        invalid = ConfigError(
            # The part before an @ may be a password.
            f"{url.partition('?')[0].rpartition('@')[2]!a} is not the address of a Jupyter server",
            hint="Give it as http://host:port or https://host/user/name",
        )
        try:
            parts = urlsplit(url.strip())
            port = parts.port
        except ValueError as error:
            raise invalid from error
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise invalid
        if parts.username is not None:
            raise ConfigError(
                f"the address of the Jupyter server {parts.hostname!a} has a user name in it, or a password",
                hint="Give Jupyter's password with --jupyter-password, that of a proxy as a header: "
                "--jupyter-headers 'Authorization: Basic …'",
            )
        if re.search(r"/hub(/|$)", parts.path) and not _HUB_USER.match(parts.path):
            raise ConfigError(
                f"{parts.hostname}{parts.path} is a page of JupyterHub itself",
                hint="Start your server and give its own address, as https://host/user/name",
            )
        query_token = parse_qs(parts.query).get("token", [""])[0]
        path = _without_page(parts.path).rstrip("/")
        if token and any(name.lower() == "authorization" for name in headers or ()):
            raise ConfigError(
                "a token and a header Authorization are given, and Jupyter's token is sent in that very header",
                hint="Leave one of them out; behind a proxy that wants the header, log in to Jupyter with --jupyter-password",
            )
        return cls(
            urlunsplit((parts.scheme, parts.netloc, quote(path, safe="/%@:~+,"), "", "")),
            token or Secret(query_token),
            password or Secret(""),
            dict(headers or {}),
            root,
            known_as if token else IN_THE_ADDRESS if query_token else "the token",
        )

    @property
    def is_loopback(self) -> bool:
        return urlsplit(self.url).hostname in LOOPBACK_HOSTS

    @property
    def origin(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def base_path(self) -> str:
        return urlsplit(self.url).path

    @property
    def credentials(self) -> str:
        """The names of our credentials, for messages; empty if there are none."""
        words = [self.known_as] if self.token else []
        words += ["the password"] if self.password else []
        names = ", ".join(self.headers)
        words += [f"the header{'s' if len(self.headers) > 1 else ''} {names}"] if names else []
        return " and ".join(words)

    @property
    def is_hub_server(self) -> bool:
        """Whether it looks like a user's server of a JupyterHub."""
        return _HUB_USER.fullmatch(self.base_path) is not None or "/user/" in self.base_path

    def secrets(self) -> list[Secret]:
        """All values that must never be shown."""
        return [secret for secret in (self.token, self.password, *self.headers.values()) if secret]

    @property
    def websocket_url(self) -> str:
        """The same base for websockets: http becomes ws, https becomes wss."""
        return f"ws{self.url[4:]}"


def _without_page(path: str) -> str:
    # A user of a Hub may have the name of a page.
    hub = _HUB_USER.match(path)
    page = _PAGE.search(path, hub.end() if hub else 0)
    return path[: page.start()] if page else path


def parse_headers(text: Secret) -> dict[str, Secret]:
    """Headers as people write them: lines `Name: value`, or a JSON object. Error messages show no value."""
    invalid = ConfigError(
        "the headers for the Jupyter server cannot be read",
        hint="Write them as lines `Name: value`, or as a JSON object of names and values",
    )
    headers = text.reveal().strip()
    if headers.startswith("{"):
        try:
            content: object = json.loads(headers)
        except ValueError:
            raise invalid from None
        pairs = [(name, value) for name, value in cast("dict[str, object]", content).items()]
    else:
        lines = [line for line in headers.splitlines() if line.strip()]
        pairs = [
            (name.strip(), value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon
        ]
        if len(pairs) != len(lines):
            raise invalid
    return {name: _checked_value(name, value) for name, value in pairs}


def _checked_value(name: str, value: object) -> Secret:
    if not _HEADER_NAME.fullmatch(name):
        raise ConfigError("a header for the Jupyter server has a name that is none", hint="Write `Name: value`")
    if name.lower() in _OURS_TO_SET or name.lower().startswith("sec-websocket"):
        raise ConfigError(
            f"the header {name} cannot be given for the Jupyter server", hint="It is set for each request"
        )
    if not isinstance(value, str) or not value.isprintable() or not value.isascii():
        raise ConfigError(
            f"the header {name} for the Jupyter server has a value that cannot be sent",
            hint="It must be text of one line, in ASCII",
        )
    return Secret(value)
