"""Requests that stay open, for hours if they are streams: whether who made them is still let in is asked again and again."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Protocol, cast

from jupyter_server.auth.identity import IdentityProvider

LOOK_AGAIN_SECONDS = 5.0


class OpenRequest(Protocol):
    """A request that is being answered."""

    login_cookie: str | None
    """What Jupyter gave this browser at its login; None if it came with a token."""

    def end(self) -> None:
        """Say no more to whoever asked."""
        ...

    async def still_in(self) -> bool:
        """Whether the same request would be let in now."""
        ...


class Staying:
    """The requests that are being answered now."""

    def __init__(self) -> None:
        self._open: set[OpenRequest] = set()

    @contextmanager
    def kept(self, request: OpenRequest) -> Generator[None]:
        """End the request within seconds, should its maker not be let in any more while the block runs."""
        self._open.add(request)
        loop = asyncio.get_running_loop()
        asking: set[asyncio.Task[None]] = set()

        async def ask() -> None:
            while await request.still_in():  # noqa: ASYNC110 - nobody tells of a token that was revoked
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
            request.end()

        # Nearly every request is answered long before.
        begin = loop.call_later(LOOK_AGAIN_SECONDS, lambda: asking.add(loop.create_task(ask())))
        try:
            yield
        finally:
            self._open.discard(request)
            begin.cancel()
            for task in asking:
                task.cancel()

    def logged_out(self, cookie: str) -> None:
        """End what was asked for with this login."""
        for request in tuple(self._open):
            if request.login_cookie == cookie:
                request.end()

    def hear_of_logouts(self, provider: IdentityProvider) -> None:
        """Jupyter's own logins are cookies that it does not remember, so that it forgets none: a logout is heard of when it happens."""
        clear = cast("Callable[[Any], None]", provider.clear_login_cookie)

        def clear_and_tell(handler: Any) -> None:  # noqa: ANN401 - any of Jupyter's
            cookie = handler.get_cookie(provider.get_cookie_name(handler))
            clear(handler)
            if cookie:
                self.logged_out(cookie)

        cast("Any", provider).clear_login_cookie = clear_and_tell
