"""The HTTP client for a Jupyter server: our credentials, how long we wait, and which error each refusal becomes."""

import asyncio
import json
from collections.abc import Mapping
from secrets import token_hex
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

import httpx2

from cellwright.core.errors import CellwrightError, InvalidArgument, LimitReached, Unavailable
from cellwright.core.foreign_json import JsonBounds, parsed
from cellwright.jupyter.errors import JupyterDenied, NobodyListens, UnknownOutcome, refusal
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.jupyter.server.discovery import certificates

CONNECT_SECONDS = 5.0
REQUEST_SECONDS = 60.0
MAX_BODY_BYTES = 64 * 1024 * 1024
JSON_BOUNDS = JsonBounds(size=32 * 1024 * 1024, items=500_000, depth=200)
"""Of an answer. A parsed value takes about a hundred bytes, however short its JSON was."""
FILE_BOUNDS = JsonBounds(size=MAX_BODY_BYTES, items=1_000_000, depth=200)
"""Of an answer that has a file in it."""
ERROR_BOUNDS = JsonBounds(size=1024 * 1024, items=10_000, depth=50)
DENIED = (401, 403)
NOT_FOUND = 404
METHOD_NOT_ALLOWED = 405
_XSRF = "_xsrf"
_SAFE = frozenset({"GET", "HEAD"})

Parameters = Mapping[str, str | int]


class RestAnswer:
    """A response with all of its body read."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: httpx2.Headers, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004 - HTTP's own numbers

    @property
    def is_redirect(self) -> bool:
        return 300 <= self.status < 400  # noqa: PLR2004

    def json(self, bounds: JsonBounds = JSON_BOUNDS) -> Any:  # noqa: ANN401 - the callers know the shape
        if excess := bounds.excess(self.body):
            raise LimitReached(
                f"the Jupyter server's answer was not read: it has {excess}",
                hint="make the notebook or folder that it is about smaller, or check the address given with --jupyter-url",
            )
        try:
            return parsed(self.body) if self.body else None
        except ValueError as error:
            raise not_jupyter(self.body[:100].decode("utf-8", "replace")) from error


class Rest:
    """The REST API of one server. Its refusals become CellwrightErrors here."""

    def __init__(self, address: JupyterAddress) -> None:
        self.address = address
        headers = {name: value.reveal() for name, value in address.headers.items() if name.lower() != "cookie"}
        if address.token:
            headers["Authorization"] = f"token {address.token.reveal()}"
        self._client = httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(REQUEST_SECONDS, connect=CONNECT_SECONDS),
            # A proxy from the environment is never used for servers on this machine.
            trust_env=not address.is_loopback,
            verify=certificates(address.url),
            follow_redirects=False,
        )
        for name, value in _cookies(address):
            self._keep_cookie(name, value, "/")
        self._login = asyncio.Lock()
        self._logged_in = 0

    def _keep_cookie(self, name: str, value: str, path: str) -> None:
        """Set a cookie as if the server had set it, so that a later cookie of this name from the server replaces it."""
        host = urlsplit(self.address.url).hostname or ""
        self._client.cookies.set(name, value, domain=host if "." in host else f"{host}.local", path=path)

    async def close(self) -> None:
        await self._client.aclose()

    async def get(self, path: str, about: str, **parameters: str | int) -> Any:  # noqa: ANN401
        return (await self.request("GET", path, about, parameters=parameters)).json()

    async def request(
        self, method: str, path: str, about: str, *, parameters: Parameters | None = None, body: object = None
    ) -> RestAnswer:
        """Send a request, and return the answer if it is a success; `about` names the object in messages."""
        return self.accept(await self.probe(method, path, about, parameters=parameters, body=body), about)

    def accept(self, answer: RestAnswer, about: str) -> RestAnswer:
        """Return the answer if it is a success, otherwise raise the error that it means."""
        if answer.is_success:
            return answer
        raise self._refusal(answer, about)

    async def probe(
        self, method: str, path: str, about: str, *, parameters: Parameters | None = None, body: object = None
    ) -> RestAnswer:
        """Send a request, and return the answer, whatever it is."""
        logged_in = await self._ensure_login(self._logged_in)
        answer = await self._send(method, path, about, parameters, body)
        if answer.status in DENIED and self.address.password:
            # The login may have expired: try once more with a new one.
            await self._ensure_login(logged_in + 1)
            answer = await self._send(method, path, about, parameters, body)
        return answer

    async def websocket_headers(self) -> dict[str, str]:
        """The headers with which a websocket's opening request has the same credentials as this client."""
        await self._ensure_login(self._logged_in)
        request = self._client.build_request("GET", self._url(""))
        names = {"authorization", "cookie", *(name.lower() for name in self.address.headers)}
        return {name: request.headers[name] for name in names if name in request.headers}

    def _url(self, path: str) -> str:
        return f"{self.address.url}/{path}"

    async def _send(
        self, method: str, path: str, about: str, parameters: Parameters | None, body: object
    ) -> RestAnswer:
        headers: dict[str, str] = {}
        if not self.address.token and method not in _SAFE and self._xsrf_token() is None:
            # Without a token, Jupyter compares a cookie with a header, both from us, for every request that changes something.
            self._keep_cookie(_XSRF, token_hex(16), f"{self.address.base_path}/")
        if token := self._xsrf_token():
            headers["X-XSRFToken"] = token
        content = None if body is None else json.dumps(body).encode("utf-8")
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            request = self._client.build_request(
                method, self._url(path), params=dict(parameters or {}), headers=headers, content=content
            )
        except httpx2.InvalidURL as error:
            raise InvalidArgument(
                f"{about[:200]} cannot be part of an address: {error}", hint="check the path or the id; it is too long"
            ) from error
        return await self._exchange(request, about)

    async def _exchange(self, request: httpx2.Request, about: str) -> RestAnswer:
        url = self.address.url
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                response = await self._client.send(request, stream=True)
                try:
                    return RestAnswer(response.status_code, response.headers, await _body(response, about))
                finally:
                    await response.aclose()
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol) as error:
            unreachable = NobodyListens if isinstance(error, httpx2.ConnectError) else Unavailable
            raise unreachable(
                f"no Jupyter server answers at {url}: {str(error) or type(error).__name__}",
                hint="Check that Jupyter runs there, and the address given with --jupyter-url",
            ) from error
        except (httpx2.TransportError, TimeoutError) as error:
            timed_out = isinstance(error, TimeoutError | httpx2.TimeoutException)
            why = f"not within {REQUEST_SECONDS:g} s" if timed_out else str(error) or type(error).__name__
            message = f"{url} did not finish its answer about {about}: {why}"
            if request.method in _SAFE:
                raise Unavailable(message, hint="Try again") from error
            raise UnknownOutcome(message, hint="Look whether it happened before you try again") from error

    def _refusal(self, answer: RestAnswer, about: str) -> CellwrightError:
        message = _message(answer)
        if answer.is_redirect:
            return self._redirect(answer)
        is_about_the_file = message.lower().startswith("permission denied")
        if answer.status in DENIED and not is_about_the_file:
            return self.denied(answer.status)
        return refusal(answer.status, message, about, self.address.url)

    def denied(self, status: int) -> JupyterDenied:
        """The server does not accept our credentials. Says which were tried, and which to give instead."""
        address = self.address
        tried = address.credentials
        problem = f"does not accept {tried}" if tried else "wants a token or a password"
        if address.is_hub_server:
            hint = "Give --jupyter-token a token from JupyterHub's own page `Token`, of the user whose server it is"
        elif address.password:
            hint = "Check --jupyter-password; a server with a token wants --jupyter-token instead"
        else:
            hint = "Give --jupyter-token (`jupyter server list` shows the tokens of running servers), or --jupyter-password if it has one"
        return JupyterDenied(
            f"the Jupyter server {address.url} {problem} ({status})",
            hint=f"{hint}; what a proxy before it wants goes into --jupyter-headers",
        )

    def _redirect(self, answer: RestAnswer) -> CellwrightError:
        target = urljoin(self._url(""), answer.headers.get("location", ""))
        path = urlsplit(target).path
        if target.startswith(self.address.origin + "/") and path.rstrip("/").endswith(("/login", "/oauth2/authorize")):
            return self.denied(answer.status)
        return Unavailable(
            f"{self.address.url} sends us on to {target.partition('?')[0]}; the token was not sent there",
            hint="If that is your Jupyter server, give its address with --jupyter-url; if it is the login of a proxy, give the header "
            "or cookie that lets you past it with --jupyter-headers",
        )

    def _xsrf_token(self) -> str | None:
        # There may be several cookies of this name, for several paths: the longest path is ours.
        cookies = [cookie for cookie in self._client.cookies.jar if cookie.name == _XSRF]
        return max(cookies, key=lambda cookie: len(cookie.path)).value if cookies else None

    async def _ensure_login(self, at_least: int) -> int:
        """Log in with the password, once for all who wait. Logins are numbered; returns the number of the latest."""
        if not self.address.password:
            return 0
        async with self._login:
            if self._logged_in < max(at_least, 1):
                await self._log_in()
                self._logged_in += 1
            return self._logged_in

    async def _log_in(self) -> None:
        await self._send("GET", "login", "the login page", None, None)
        form = {"password": self.address.password.reveal(), _XSRF: self._xsrf_token() or ""}
        request = self._client.build_request("POST", self._url("login"), data=form)
        answer = await self._exchange(request, "the login")
        if not answer.is_redirect and not answer.is_success:
            raise self.denied(answer.status)


def _cookies(address: JupyterAddress) -> list[tuple[str, str]]:
    """The cookies among the configured headers. They are sent along with those that the server sets."""
    headers = [value.reveal() for name, value in address.headers.items() if name.lower() == "cookie"]
    pairs = [pair.partition("=") for header in headers for pair in header.split(";")]
    return [(name.strip(), value.strip()) for name, equals, value in pairs if equals]


def not_jupyter(answer: str) -> Unavailable:
    return Unavailable(
        f"this is not what a Jupyter server answers: {answer[:200]}", hint="Check the address given with --jupyter-url"
    )


async def _body(response: httpx2.Response, about: str) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise LimitReached(
                f"{about} is larger than {MAX_BODY_BYTES // 2**20} MiB; it was not read",
                hint="make it smaller: clear outputs, or split it",
            )
        parts.append(part)
    return b"".join(parts)


def _message(answer: RestAnswer) -> str:
    """The server's message, if its answer is JSON; empty for an HTML page."""
    if ERROR_BOUNDS.excess(answer.body):
        return ""
    try:
        data: object = json.loads(answer.body)
    except ValueError:
        return ""
    if not isinstance(data, dict):
        return ""
    content = cast("dict[str, Any]", data)
    return str(content.get("message") or content.get("reason") or "")[:500]
