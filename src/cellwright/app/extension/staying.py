"""Requests that stay open, for hours if they are streams. They are checked again and again: is their caller still let in?"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Protocol, cast

from jupyter_server.auth.identity import IdentityProvider

LOOK_AGAIN_SECONDS = 5.0


class OpenRequest(Protocol):
    """A request that is being answered."""

    login_cookie: str | None
    """The cookie that Jupyter gave this browser at its login; None if the request came with a token."""

    def end(self) -> None:
        """Send no more of the response."""
        ...

    async def still_in(self) -> bool:
        """Whether the same request would be let in now."""
        ...


class Staying:
    """The requests that are being answered now."""

    def __init__(self) -> None:
        self._open: set[OpenRequest] = set()

    @contextmanager
    def watched(self, request: OpenRequest) -> Generator[None]:
        """While the block runs, end the request within seconds if its caller is not let in any more."""
        self._open.add(request)
        loop = asyncio.get_running_loop()
        checks: set[asyncio.Task[None]] = set()

        async def check() -> None:
            while await request.still_in():  # noqa: ASYNC110 - there is no event for a revoked token
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
            request.end()

        # Nearly every request is answered before this begins.
        timer = loop.call_later(LOOK_AGAIN_SECONDS, lambda: checks.add(loop.create_task(check())))
        try:
            yield
        finally:
            self._open.discard(request)
            timer.cancel()
            for task in checks:
                task.cancel()

    def logged_out(self, cookie: str) -> None:
        """End the requests that were made with this login."""
        for request in tuple(self._open):
            if request.login_cookie == cookie:
                request.end()

    def hear_of_logouts(self, provider: IdentityProvider) -> None:
        """Make the provider's logout call `logged_out`. Jupyter does not store its login cookies, so it cannot be asked later."""
        clear = cast("Callable[[Any], None]", provider.clear_login_cookie)

        def clear_and_tell(handler: Any) -> None:  # noqa: ANN401 - any of Jupyter's
            cookie = handler.get_cookie(provider.get_cookie_name(handler))
            clear(handler)
            if cookie:
                self.logged_out(cookie)

        cast("Any", provider).clear_login_cookie = clear_and_tell
