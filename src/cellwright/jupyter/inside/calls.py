"""Calls into the managers of the Jupyter server we run inside of. They are bounded in time and never cancelled midway."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http.client import responses
from typing import TypeVar

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from cellwright.core.errors import Unavailable
from cellwright.jupyter.errors import UnknownOutcome, not_there, refusal
from cellwright.jupyter.remote.rest import REQUEST_SECONDS

log = logging.getLogger(__name__)

INTERNAL = 500
UNHANDLED = "Unhandled error"
"""The message of the server's API for an exception that its managers did not expect."""
MAX_MESSAGE_CHARACTERS = 500

T = TypeVar("T")


class ServerCalls:
    """Runs the managers' work in tasks of its own, so that a cancelled caller leaves nothing half done."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._under_way: set[asyncio.Task[object]] = set()

    async def look(self, about: str, work: Callable[[], Awaitable[T] | T]) -> T:
        """Run work that changes nothing; `about` names its object in messages."""
        try:
            return await self._finish(about, work)
        except TimeoutError as error:
            raise Unavailable(self._late(about), hint="Try again") from error

    async def do(self, about: str, work: Callable[[], Awaitable[T] | T]) -> T:
        """Run work that changes files or kernels."""
        try:
            return await self._finish(about, work)
        except TimeoutError as error:
            raise UnknownOutcome(self._late(about), hint="Look whether it happened before you try again") from error

    async def close(self) -> None:
        """Wait for work that is under way."""
        if self._under_way:
            await asyncio.wait(tuple(self._under_way), timeout=REQUEST_SECONDS)

    async def _finish(self, about: str, work: Callable[[], Awaitable[T] | T]) -> T:
        task = asyncio.create_task(self._run(about, work))
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        async with asyncio.timeout(REQUEST_SECONDS):
            return await asyncio.shield(task)

    async def _run(self, about: str, work: Callable[[], Awaitable[T] | T]) -> T:
        try:
            return await ensure_async(work())
        except HTTPError as error:
            # The message as the server's API would give it.
            message = str(error.log_message or responses.get(error.status_code, error.reason or ""))
            raise refusal(error.status_code, message[:MAX_MESSAGE_CHARACTERS], about, self.url) from error
        except NotADirectoryError as error:
            # The path leads through a file.
            raise not_there(about, self.url) from error
        except (OSError, RuntimeError, ValueError, LookupError) as error:
            log.warning("jupyter_manager_failed about=%s", about, exc_info=error)
            raise refusal(INTERNAL, UNHANDLED, about, self.url) from error

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Retrieved here, because the caller may have been cancelled by now.
            log.debug("jupyter_call_refused error=%s", error)

    def _late(self, about: str) -> str:
        return f"{self.url} did not finish its answer about {about}: TimeoutError"
