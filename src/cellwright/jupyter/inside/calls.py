"""Calls into the managers of the Jupyter server we run inside of: bounded, carried to their end, refusals in known words."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http.client import responses
from typing import TypeVar

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from cellwright.core.errors import CellwrightError, Conflict, InvalidArgument, LimitReached, Unavailable
from cellwright.jupyter.errors import JupyterDenied, UnknownOutcome, not_there
from cellwright.jupyter.remote.rest import REQUEST_SECONDS

log = logging.getLogger(__name__)

INTERNAL = 500
UNHANDLED = "Unhandled error"
"""What the server's API says of an exception that its managers did not expect."""
MAX_SAID = 500

T = TypeVar("T")


class ServerCalls:
    """Runs the managers' work in tasks of its own, so that a caller who gives up leaves nothing half done."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._under_way: set[asyncio.Task[object]] = set()

    async def look(self, about: str, work: Callable[[], Awaitable[T] | T]) -> T:
        """Something that changes nothing; `about` names the thing for messages."""
        try:
            return await self._finish(about, work)
        except TimeoutError as error:
            raise Unavailable(self._late(about), hint="Try again") from error

    async def do(self, about: str, work: Callable[[], Awaitable[T] | T]) -> T:
        """Something that changes files or kernels."""
        try:
            return await self._finish(about, work)
        except TimeoutError as error:
            raise UnknownOutcome(self._late(about), hint="Look whether it happened before you try again") from error

    async def close(self) -> None:
        """Wait for what is under way."""
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
            raise self._refusal(error.status_code, _said(error), about) from error
        except NotADirectoryError as error:
            # The path leads through a file.
            raise not_there(about, self.url) from error
        except (OSError, RuntimeError, ValueError, LookupError) as error:
            log.warning("jupyter_manager_failed about=%s", about, exc_info=error)
            raise self._refusal(INTERNAL, UNHANDLED, about) from error

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Looked at here, because whoever asked may have given up by now.
            log.debug("jupyter_call_refused error=%s", error)

    def _late(self, about: str) -> str:
        return f"{self.url} did not finish its answer about {about}: TimeoutError"

    def _refusal(self, status: int, said: str, about: str) -> CellwrightError:
        match status:
            case 401 | 403:
                return JupyterDenied(f"Jupyter may not touch {about}: {said}", hint="Check the file's permissions")
            case 404:
                return not_there(about, self.url)
            case 409:
                return Conflict(
                    f"Jupyter refused to change {about}: {said}",
                    hint="read it again, then change it or choose another name",
                )
            case 413:
                return LimitReached(
                    f"{about} is larger than the Jupyter server accepts",
                    hint="make it smaller: clear outputs, or split it",
                )
            case status if status < INTERNAL:
                return InvalidArgument(
                    f"Jupyter refused {about}: {said or status}", hint="change what the message names, then call again"
                )
            case status:
                return Unavailable(
                    f"Jupyter failed with {about} ({status}): {said or 'see its log'}",
                    hint="try again; if it stays, Jupyter's log says why",
                )


def _said(error: HTTPError) -> str:
    """The message as the server's API would give it."""
    return str(error.log_message or responses.get(error.status_code, error.reason or ""))[:MAX_SAID]
