"""The commands export and import: notebooks, pads and thinking notebooks as files, and files as pads and thinking notebooks."""

import asyncio
import contextlib
import os
import secrets
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from cellwright.app.exchange.address import PAD, THINKING
from cellwright.app.exchange.texts import format_of, format_within, read
from cellwright.app.exchange.tools import Exchange
from cellwright.app.settings import Settings
from cellwright.core.errors import Conflict, InvalidArgument, NotFound
from cellwright.core.formats.model import Book
from cellwright.core.formats.writing import written
from cellwright.core.types import ALL_SCOPES, Call, Principal

T = TypeVar("T")
STDIN = "-"


def export(
    settings: Settings, source: str, *, to: str | None, file: Path | None, form: str | None, owner: str, force: bool
) -> int:
    """Write a notebook in a format, to a file or to stdout; what is lost is said on stderr."""
    wanted = to or (format_of(file.name) if file else None)
    if wanted is None:
        raise InvalidArgument(
            "no format is given", hint="--to srcmd, ipynb, md, json or html; or -o with such an ending"
        )
    if file is not None and file.exists() and not force:
        raise Conflict(f"{file} exists already; nothing was written", hint="--force replaces it")
    book, lost = _book(settings, source, form, owner)
    made = written(book, wanted)
    if file is None:
        sys.stdout.write(made.text)
    else:
        _write(file, made.text)
    _tell([*lost, *made.losses])
    return 0


def import_(settings: Settings, file: str, *, into: str, form: str | None, owner: str, force: bool) -> int:
    """Make a pad or a thinking notebook of a file, and say where it is."""
    if not into.startswith((PAD, THINKING)):
        raise InvalidArgument(
            f"{into[:80]!a} is no place for import",
            hint="scratchpad://ID or notebook://; for a file there is cellwright export FILE -o OTHER.ipynb",
        )
    book, lost = _book(settings, file, form, owner)
    try:
        put = _with_exchange(settings, owner, lambda exchange, call: exchange.places.put(call, into, book, over=force))
    except Conflict as taken:
        raise Conflict(taken.message, hint="name another place, or --force") from taken
    sys.stdout.write(f"{put.uri}\n")
    _tell([*lost, *put.losses, *put.notes])
    return 0


def _book(settings: Settings, source: str, form: str | None, owner: str) -> tuple[Book, Sequence[str]]:
    if source.startswith((PAD, THINKING)):
        found = _with_exchange(settings, owner, lambda exchange, call: exchange.sources.find(call, source))
        return found.book, found.losses
    text = _text(source)
    return read(text, form or format_of(source, text) or format_within(text))


def _text(source: str) -> str:
    """A file as it is on disk, or what is piped in."""
    try:
        if source == STDIN:
            return sys.stdin.buffer.read().decode("utf-8")
        return Path(source).read_bytes().decode("utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise NotFound(
            f"{source} cannot be read: {error.strerror}", hint="a file, scratchpad://ID, notebook://ID, or - for stdin"
        ) from error
    except UnicodeDecodeError:
        raise InvalidArgument(f"{source} is not text in UTF-8") from None


def _write(file: Path, text: str) -> None:
    """The whole file or none of it."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("x", encoding="utf-8", newline="\n") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        draft.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise NotFound(
            f"{file} cannot be written: {error.strerror}", hint="name a file in a folder of yours"
        ) from error


def _tell(losses: Sequence[str]) -> None:
    for loss in losses:
        sys.stderr.write(f"note: {loss}\n")


def _with_exchange(settings: Settings, owner: str, work: Callable[[Exchange, Call], Awaitable[T]]) -> T:
    from cellwright.app.workspace import make_workspace  # noqa: PLC0415 - a file alone needs nothing of the workspace

    async def run() -> T:
        workspace = make_workspace(settings, "command")
        try:
            return await work(workspace.exchange, Call(Principal(owner, ALL_SCOPES)))
        finally:
            await workspace.close()

    return asyncio.run(run())
