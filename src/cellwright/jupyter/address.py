"""Where a Jupyter server is and how to be let in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

from cellwright.core.errors import ConfigError
from cellwright.core.types import Secret
from cellwright.jupyter.paths import LOOPBACK_HOSTS

_PAGES = ("/lab", "/tree", "/notebooks", "/doc")


@dataclass(frozen=True, slots=True)
class JupyterAddress:
    """A Jupyter server: its base URL, which ends without `/`, and one of token, password or headers."""

    url: str
    token: Secret = field(default_factory=lambda: Secret(""))
    password: Secret = field(default_factory=lambda: Secret(""))
    headers: Mapping[str, Secret] = field(default_factory=dict[str, Secret])
    root: Path | None = None
    """The server's root folder if it is on this machine: lists files much faster. Checked before it is used."""

    @classmethod
    def parse(
        cls,
        url: str,
        *,
        token: Secret | None = None,
        password: Secret | None = None,
        headers: Mapping[str, Secret] | None = None,
        root: Path | None = None,
    ) -> Self:
        """From what people have at hand: also an address copied from the browser, with `/lab` and `?token=`."""
        wrong = ConfigError(
            # What stands before an @ may be a password.
            f"{url.partition('?')[0].rpartition('@')[2]!a} is not the address of a Jupyter server",
            hint="Give it as http://host:port or https://host/user/name",
        )
        try:
            parts = urlsplit(url.strip())
            port = parts.port
        except ValueError as error:
            raise wrong from error
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or port == 0:
            raise wrong
        given = parse_qs(parts.query).get("token", [""])[0]
        path = _without_page(parts.path).rstrip("/")
        return cls(
            urlunsplit((parts.scheme, parts.netloc, quote(path, safe="/%@:~+,"), "", "")),
            token or Secret(given),
            password or Secret(""),
            dict(headers or {}),
            root,
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
    def websocket_url(self) -> str:
        """The same base for websockets: http becomes ws, https becomes wss."""
        return f"ws{self.url[4:]}"


def _without_page(path: str) -> str:
    for page in _PAGES:
        if path.endswith(page):
            return path.removesuffix(page)
        before, found, _ = path.partition(f"{page}/")
        if found:
            return before
    return path
