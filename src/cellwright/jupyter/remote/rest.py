"""One HTTP client for a Jupyter server: who we are, how long we wait, and what its refusals mean."""

import asyncio
import json
import ssl
from collections.abc import Mapping
from secrets import token_hex
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

import httpx2

from cellwright.core.errors import (
    CellwrightError,
    Conflict,
    InvalidArgument,
    LimitReached,
    Unavailable,
)
from cellwright.core.foreign_json import JsonBounds, parsed
from cellwright.jupyter.errors import JupyterDenied, UnknownOutcome, not_there
from cellwright.jupyter.server.address import JupyterAddress

CONNECT_SECONDS = 5.0
REQUEST_SECONDS = 60.0
MAX_BODY_BYTES = 64 * 1024 * 1024
JSON_BOUNDS = JsonBounds(size=32 * 1024 * 1024, items=500_000, depth=200)
"""Of an answer. A value takes about a hundred bytes once it is parsed, whatever it took before."""
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
    """The REST API of one server. Refusals become CellwrightErrors here and nowhere else."""

    def __init__(self, address: JupyterAddress) -> None:
        self.address = address
        headers = {name: value.reveal() for name, value in address.headers.items() if name.lower() != "cookie"}
        if address.token:
            headers["Authorization"] = f"token {address.token.reveal()}"
        self._client = httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(REQUEST_SECONDS, connect=CONNECT_SECONDS),
            # A proxy from the environment is never asked for this machine's own servers.
            trust_env=not address.is_loopback,
            verify=_certificates(address),
            follow_redirects=False,
        )
        for name, value in _cookies(address):
            self._keep_cookie(name, value, "/")
        self._login = asyncio.Lock()
        self._logged_in = 0

    def _keep_cookie(self, name: str, value: str, path: str) -> None:
        """As if the server had set it: what it sets later under this name takes its place."""
        host = urlsplit(self.address.url).hostname or ""
        self._client.cookies.set(name, value, domain=host if "." in host else f"{host}.local", path=path)

    async def close(self) -> None:
        await self._client.aclose()

    async def get(self, path: str, about: str, **parameters: str | int) -> Any:  # noqa: ANN401
        return (await self.request("GET", path, about, parameters=parameters)).json()

    async def request(
        self, method: str, path: str, about: str, *, parameters: Parameters | None = None, body: object = None
    ) -> RestAnswer:
        """Send, and give the answer if it is a success; `about` names the thing for messages."""
        return self.accept(await self.probe(method, path, about, parameters=parameters, body=body), about)

    def accept(self, answer: RestAnswer, about: str) -> RestAnswer:
        """The answer, if it is a success; else what it means is raised."""
        if answer.is_success:
            return answer
        raise self._refusal(answer, about)

    async def probe(
        self, method: str, path: str, about: str, *, parameters: Parameters | None = None, body: object = None
    ) -> RestAnswer:
        """Send, and give whatever the server answers."""
        logged_in = await self._ensure_login(self._logged_in)
        answer = await self._send(method, path, about, parameters, body)
        if answer.status in DENIED and self.address.password:
            # The login may have run out: once more with a new one.
            await self._ensure_login(logged_in + 1)
            answer = await self._send(method, path, about, parameters, body)
        return answer

    async def websocket_headers(self) -> dict[str, str]:
        """What a websocket's opening request must carry to be let in as this client is."""
        await self._ensure_login(self._logged_in)
        request = self._client.build_request("GET", self._url(""))
        wanted = {"authorization", "cookie", *(name.lower() for name in self.address.headers)}
        return {name: request.headers[name] for name in wanted if name in request.headers}

    def _url(self, path: str) -> str:
        return f"{self.address.url}/{path}"

    async def _send(
        self, method: str, path: str, about: str, parameters: Parameters | None, body: object
    ) -> RestAnswer:
        headers: dict[str, str] = {}
        if not self.address.token and method not in _SAFE and self._xsrf_token() is None:
            # Jupyter compares a cookie with a header, both from us; without a token it does so for whatever changes something.
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
        where = self.address.url
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                response = await self._client.send(request, stream=True)
                try:
                    return RestAnswer(response.status_code, response.headers, await _body(response, about))
                finally:
                    await response.aclose()
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol) as error:
            raise Unavailable(
                f"no Jupyter server answers at {where}: {error or type(error).__name__}",
                hint="Check that Jupyter runs there, and the address given with --jupyter-url",
            ) from error
        except (httpx2.TransportError, TimeoutError) as error:
            said = f"{where} did not finish its answer about {about}: {error or type(error).__name__}"
            if request.method in _SAFE:
                raise Unavailable(said, hint="Try again") from error
            raise UnknownOutcome(said, hint="Look whether it happened before you try again") from error

    def _refusal(self, answer: RestAnswer, about: str) -> CellwrightError:
        said = _message(answer)
        if answer.is_redirect:
            return self._redirect(answer)
        match answer.status:
            case 401 | 403 if self._is_about_the_file(said):
                refusal = JupyterDenied(f"Jupyter may not touch {about}: {said}", hint="Check the file's permissions")
            case 401 | 403:
                refusal = self.denied(answer.status)
            case 404:
                refusal = not_there(about, self.address.url)
            case 409:
                refusal = Conflict(
                    f"Jupyter refused to change {about}: {said}",
                    hint="read it again, then change it or choose another name",
                )
            case 413:
                refusal = LimitReached(
                    f"{about} is larger than the Jupyter server accepts",
                    hint="make it smaller: clear outputs, or split it",
                )
            case status if status < 500:  # noqa: PLR2004
                refusal = InvalidArgument(
                    f"Jupyter refused {about}: {said or status}", hint="change what the message names, then call again"
                )
            case status:
                refusal = Unavailable(
                    f"Jupyter failed with {about} ({status}): {said or 'see its log'}",
                    hint="try again; if it stays, Jupyter's log says why",
                )
        return refusal

    @staticmethod
    def _is_about_the_file(said: str) -> bool:
        return said.lower().startswith("permission denied")

    def denied(self, status: int) -> JupyterDenied:
        """That we are not let in: what was tried, and what to give instead."""
        address = self.address
        tried = address.credentials
        what = f"does not accept {tried}" if tried else "wants a token or a password"
        if address.is_hub_server:
            hint = "Give --jupyter-token a token from JupyterHub's own page `Token`, of the user whose server it is"
        elif address.password:
            hint = "Check --jupyter-password; a server with a token wants --jupyter-token instead"
        else:
            hint = "Give --jupyter-token (`jupyter server list` shows the tokens of running servers), or --jupyter-password if it has one"
        return JupyterDenied(
            f"the Jupyter server {address.url} {what} ({status})",
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
        # Several cookies of this name may be there, for several paths: the longest path is ours.
        found = [cookie for cookie in self._client.cookies.jar if cookie.name == _XSRF]
        return max(found, key=lambda cookie: len(cookie.path)).value if found else None

    async def _ensure_login(self, at_least: int) -> int:
        """Log in with the password, once for all who wait. The number says which login this is."""
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
    """The cookies among the headers, which join those that the server sets."""
    given = [value.reveal() for name, value in address.headers.items() if name.lower() == "cookie"]
    pairs = [pair.partition("=") for cookies in given for pair in cookies.split(";")]
    return [(name.strip(), value.strip()) for name, equals, value in pairs if equals]


def not_jupyter(shown: str) -> Unavailable:
    return Unavailable(
        f"this is not what a Jupyter server answers: {shown[:200]}", hint="Check the address given with --jupyter-url"
    )


def _certificates(address: JupyterAddress) -> ssl.SSLContext:
    """Loading the system's certificates takes long and is of no use to plain HTTP."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if address.url.startswith("http:") else ssl.create_default_context()


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
    """What the server says, if it says it as JSON; its HTML pages are of no use to anybody here."""
    if ERROR_BOUNDS.excess(answer.body):
        return ""
    try:
        data: object = json.loads(answer.body)
    except ValueError:
        return ""
    if not isinstance(data, dict):
        return ""
    said = cast("dict[str, Any]", data)
    return str(said.get("message") or said.get("reason") or "")[:500]
