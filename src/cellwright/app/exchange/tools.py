"""The two tools that convert anything like a notebook into anything else: one reads, the other writes.

They are two because a token's scope follows from a tool's effect: with a token that may only read, any notebook can be had as text.
"""

import asyncio
import json
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.app.exchange.service import Exchange
from cellwright.app.exchange.texts import cleaned, page
from cellwright.core.errors import InvalidArgument
from cellwright.core.text.budget import MAX_TOKENS, estimate_tokens
from cellwright.core.toolset import Reply, Toolset
from cellwright.core.toolset import read as reading
from cellwright.core.toolset import write as writing
from cellwright.core.types import Call
from cellwright.notebook.formats.files import format_within, not_in_notebook
from cellwright.notebook.model import FormatName, Notebook, revision_of
from cellwright.thinking.outputs import Cleaner

DEFAULT_PAGE = 4_000
BESIDES = 2_000
"""Tokens of a reply besides the text."""
SPARE = 100
LONGEST_TITLE = 200

Source = Annotated[
    str, Field(description="path of a notebook or .md/.src.md/.json file, scratchpad://ID, notebook://ID")
]


class ExportAbout(TypedDict):
    """What every page of a notebook's text says about the notebook."""

    source: str
    format: FormatName
    mimeType: str
    title: str
    cells: int
    losses: list[str]
    revision: str
    characters: int


class ExportPage(ExportAbout):
    next: int | None
    text: str


class ImportedThing(TypedDict):
    """Where a notebook is now."""

    path: str
    uri: str
    title: str
    cells: int
    losses: list[str]
    notes: list[str]


async def export_notebook(
    exchange: Exchange,
    call: Call,
    source: Source,
    to: FormatName = "srcmd",
    offset: Annotated[int, Field(ge=0, description="go on at `next` of the page before")] = 0,
    max_tokens: Annotated[int, Field(ge=100, le=MAX_TOKENS - BESIDES)] = DEFAULT_PAGE,
) -> Reply[ExportPage]:
    """A notebook, pad or thinking notebook as text in any format, in pages. `losses` says what the format cannot hold."""
    original = await exchange.read(call, source)
    notebook, notes = await asyncio.to_thread(cleaned, original.notebook)
    converted = await exchange.conversions.write(notebook, to, call.principal.id)

    def work() -> ExportPage:
        about: ExportAbout = {
            "source": original.uri,
            "format": to,
            "mimeType": converted.mime_type,
            "title": notebook.title[:LONGEST_TITLE],
            "cells": len(notebook.cells),
            "losses": [*original.losses, *notes, *converted.losses],
            "revision": revision_of(converted.text),
            "characters": len(converted.text),
        }
        # If `about` is long, the page is made shorter. Otherwise the reply would be cut, and that text would be on no page.
        about_text = json.dumps(about, ensure_ascii=False, separators=(",", ":"))
        excess = max(estimate_tokens(about_text) - BESIDES + SPARE, 0)
        text, next_offset = page(converted.text, offset, max(max_tokens - excess, 1))
        return {**about, "next": next_offset, "text": text}

    return Reply(await asyncio.to_thread(work), max_tokens=max_tokens + BESIDES)


async def import_notebook(
    exchange: Exchange,
    call: Call,
    into: Annotated[
        str, Field(description="name.ipynb (or .md, .src.md, .json, .html), scratchpad://ID, notebook:// for a new one")
    ],
    source: Annotated[str | None, Field(description="what export_notebook takes")] = None,
    content: Annotated[str | None, Field(description="or the text of a notebook file")] = None,
    format: Annotated[FormatName | None, Field(description="of content or file, if it does not show")] = None,  # noqa: A002 - as the tools of the parts call it
    overwrite: bool = False,
) -> ImportedThing:
    """Write a notebook, pad, thinking notebook or text to a place, as that place keeps it. `losses` says what it cannot hold."""
    notebook, losses = await _notebook_to_import(exchange, call, source, content, format)
    place = await exchange.write(call, into, notebook, over=overwrite)
    return {
        "path": place.path,
        "uri": place.uri,
        "title": Cleaner().text(notebook.title)[:LONGEST_TITLE],
        "cells": len(notebook.cells),
        "losses": [*losses, *place.losses],
        "notes": list(place.notes),
    }


async def _notebook_to_import(
    exchange: Exchange, call: Call, source: str | None, content: str | None, format_name: str | None
) -> tuple[Notebook, list[str]]:
    """The notebook from the source or the content, and what of it was lost."""
    if (source is None) == (content is None):
        raise InvalidArgument("give either source or content", hint="source names a notebook, content is one as text")
    if content is not None:
        form = format_name or format_within(content)
        notebook = await exchange.conversions.read(content, form, call.principal.id)
        return notebook, await asyncio.to_thread(not_in_notebook, notebook, content, form)
    original = await exchange.read(call, source or "", format_name)
    return original.notebook, list(original.losses)


def exchange_toolset(exchange: Exchange) -> Toolset:
    """More of the toolset `workspace`, on a service of its own."""
    tools = (reading(export_notebook), writing(import_notebook, destructive=True))
    return Toolset("workspace", "what is here and whether it works", tools, exchange)
