"""The commands list, export and import: notebooks, pads and thinking notebooks as files, and files as pads and thinking notebooks."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cellwright.app.exchange.service import Exchange
from cellwright.app.settings import Settings
from cellwright.core.errors import Conflict, InvalidArgument, NotFound
from cellwright.core.text.names import on_one_line
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.notebook.formats.files import format_of, format_within, linked_files, read
from cellwright.notebook.formats.srcmd import with_files
from cellwright.notebook.formats.writing import written
from cellwright.notebook.model import Notebook
from cellwright.scratch.watched import uri_of
from cellwright.system.files import replace_file

if TYPE_CHECKING:
    from cellwright.app.workspace import Workspace

T = TypeVar("T")
PAD, THINKING = "scratchpad://", "notebook://"
STDIN = "-"
PAGE = 500


def list_(settings: Settings, *, owner: str, as_json: bool) -> int:
    """Print the addresses of pads and thinking notebooks, the last changed first."""
    notebooks = _with_workspace(settings, owner, _stored_notebooks)
    if as_json:
        sys.stdout.write(json.dumps(notebooks, indent=2) + "\n")
        return 0
    for notebook in notebooks:
        title = on_one_line(notebook["title"])
        sys.stdout.write(
            f"{notebook['address']}  {notebook['cells']} cells  {notebook['changed']}  {title}".rstrip() + "\n"
        )
    if not notebooks:
        sys.stderr.write(f"{owner} has no pads and no thinking notebooks; cellwright import makes one of a file\n")
    return 0


async def _stored_notebooks(workspace: "Workspace", call: Call) -> list[dict[str, Any]]:
    rows: list[tuple[int, str, int, str]] = [
        (notebook.modified, notebook.uri, notebook.cell_count, notebook.title)
        for notebook in await workspace.thinking.all_of(call)
    ]
    cursor: str | None = None
    while True:
        page = await workspace.pads.page(call.principal.id, (), (), PAGE, cursor)
        # A cursor begins with the time of the last change, by which the pages are ordered.
        rows += [
            (int(cursor_of_pad.partition(".")[0]), uri_of(pad["scratch_id"]), pad["cell_count"], pad["title"] or "")
            for pad, cursor_of_pad in zip(page.items, page.cursors, strict=True)
        ]
        cursor = page.next
        if cursor is None:
            break
    return [
        {"address": address, "title": title, "cells": cells, "changed": _iso_time(changed)}
        for changed, address, cells, title in sorted(rows, reverse=True)
    ]


def _iso_time(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def export(
    settings: Settings, source: str, *, to: str | None, file: Path | None, form: str | None, owner: str, force: bool
) -> int:
    """Write a notebook in another format, to a file or to stdout. Losses are reported on stderr."""
    target_format = to or (format_of(file.name) if file else None)
    if target_format is None:
        raise InvalidArgument(
            "no format is given", hint="--to srcmd, ipynb, md, json or html; or -o with such an ending"
        )
    if file is not None and file.exists() and not force:
        raise Conflict(f"{file} exists already; nothing was written", hint="--force replaces it")
    notebook, losses = _notebook_in(settings, source, form, owner)
    output = written(notebook, target_format)
    if file is None:
        sys.stdout.write(output.text)
    else:
        _write(file, output.text)
    _print_notes([*losses, *output.losses])
    return 0


def import_(settings: Settings, file: str, *, into: str, form: str | None, owner: str, force: bool) -> int:
    """Make a pad or a thinking notebook of a file, and print its address."""
    if not into.startswith((PAD, THINKING)):
        raise InvalidArgument(
            f"{into[:80]!a} is no place for import",
            hint="scratchpad://ID or notebook://; for a file there is cellwright export FILE -o OTHER.ipynb",
        )
    notebook, losses = _notebook_in(settings, file, form, owner)
    try:
        placed = _with_exchange(
            settings, owner, lambda exchange, call: exchange.write(call, into, notebook, over=force)
        )
    except Conflict as conflict:
        raise Conflict(conflict.message, hint="name another place, or --force") from conflict
    sys.stdout.write(f"{placed.uri}\n")
    _print_notes([*losses, *placed.losses, *placed.notes])
    return 0


def _notebook_in(settings: Settings, source: str, form: str | None, owner: str) -> tuple[Notebook, Sequence[str]]:
    if source.startswith((PAD, THINKING)):
        content = _with_exchange(settings, owner, lambda exchange, call: exchange.read(call, source))
        return content.notebook, content.losses
    text = _text(source)
    form = form or format_of(source, text) or format_within(text)
    if source != STDIN and (files := linked_files(text, form)):
        text = with_files(text, {link: _text(str(Path(source).parent / name)) for link, name in files.items()})
    return read(text, form)


def _text(source: str) -> str:
    """The text of a file, or of standard input."""
    try:
        if source == STDIN:
            return sys.stdin.buffer.read().decode("utf-8")
        return Path(source).read_bytes().decode("utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise NotFound(
            f"{source} cannot be read: {error.strerror}", hint="a file, scratchpad://ID, notebook://ID, or - for stdin"
        ) from error
    except UnicodeDecodeError:
        raise InvalidArgument(f"{source} is not text in UTF-8", hint="name a text file, or save it as UTF-8") from None


def _write(file: Path, text: str) -> None:
    """Write the whole file, or none of it."""
    try:
        replace_file(file, text.encode("utf-8"), mode=0o666)
    except OSError as error:
        raise NotFound(
            f"{file} cannot be written: {error.strerror}", hint="name a file in a folder of yours"
        ) from error


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        sys.stderr.write(f"note: {note}\n")


def _with_exchange(settings: Settings, owner: str, work: Callable[[Exchange, Call], Awaitable[T]]) -> T:
    return _with_workspace(settings, owner, lambda workspace, call: work(workspace.exchange, call))


def _with_workspace(settings: Settings, owner: str, work: Callable[["Workspace", Call], Awaitable[T]]) -> T:
    from cellwright.app.workspace import make_workspace  # noqa: PLC0415 - to convert a file, no workspace is needed

    async def run() -> T:
        workspace = make_workspace(settings, "command")
        try:
            return await work(workspace, Call(Principal(owner, ALL_SCOPES)))
        finally:
            await workspace.close()

    return asyncio.run(run())
