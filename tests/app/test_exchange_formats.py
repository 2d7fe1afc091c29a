"""Conversions as properties: what comes back is what went in, but for what the losses name."""

import asyncio
import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.app.context_traces import trace_of
from cellwright.app.exchange.texts import ENDINGS, format_of, page, read
from cellwright.app.settings import Settings
from cellwright.app.workspace import local_user, make_workspace
from cellwright.core.budget import estimate_tokens
from cellwright.core.errors import InvalidArgument
from cellwright.core.fitting import compact_json
from cellwright.core.formats.formats import FORMATS
from cellwright.core.formats.losses import MOST, difference, told
from cellwright.core.formats.model import Book, BookCell, InvalidFormat, Kind
from cellwright.core.formats.writing import written
from cellwright.core.types import Call
from exchange_support import books, unnamed
from requirements import requirement

READABLE = tuple(name for name in FORMATS if name != "html")
CALL = Call(local_user())


@requirement("exchange:formats")
@pytest.mark.parametrize(("first", "second"), list(itertools.product(READABLE, READABLE)))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(book=books())
def test_there_and_back_is_the_same_but_for_what_is_named(first: str, second: str, book: Book) -> None:
    start = FORMATS[first].decode(written(book, first).text)
    there = written(start, second)
    middle = FORMATS[second].decode(there.text)
    assert unnamed(start, middle, there.losses) == []
    back = written(middle, first)
    assert unnamed(start, FORMATS[first].decode(back.text), [*there.losses, *back.losses]) == []


@requirement("exchange:formats")
@pytest.mark.parametrize("name", ["json", "ipynb"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(book=books())
def test_json_and_ipynb_lose_nothing(name: str, book: Book) -> None:
    assert written(book, name).losses == []


@requirement("exchange:formats")
def test_a_loss_is_told_once_and_the_list_of_them_ends() -> None:
    cell = BookCell(Kind.CODE, "1", id="a", outputs=({"output_type": "stream", "name": "stdout", "text": "1"},))
    losses = written(Book("T", "python", (cell,)), "srcmd").losses
    assert [loss for loss in losses if "outputs" in loss] == ["the outputs of 1 cells are not in srcmd"]
    many = told([f"loss {n}" for n in range(50)], {"ids": "more"})
    assert (len(many), many[-1]) == (MOST, f"and {51 - MOST + 1} more of this kind")
    assert difference(Book("T", "python", (cell,)), Book("T", "python", (cell,)), "x") == {}


@requirement("exchange:places")
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(several=st.lists(books(), min_size=6, max_size=6))
def test_pads_and_thinking_notebooks_keep_what_they_do_not_name(several: list[Book]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_through_the_store(Path(folder), several))


async def _through_the_store(folder: Path, several: list[Book]) -> None:
    workspace = make_workspace(Settings(root=folder, state_dir=folder / "s", embedding_model="none"), "stdio")
    exchange = workspace.exchange
    try:
        for book in several:
            for first, second in (("scratchpad://", "notebook://"), ("notebook://", "scratchpad://")):
                there = await exchange.places.put(CALL, first, book, over=False)
                middle = (await exchange.sources.find(CALL, there.uri)).book
                assert unnamed(book, middle, there.losses) == []
                further = await exchange.places.put(CALL, second, middle, over=False)
                last = (await exchange.sources.find(CALL, further.uri)).book
                assert unnamed(book, last, [*there.losses, *further.losses]) == []
    finally:
        await workspace.close()


@requirement("exchange:pages")
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=st.text(max_size=3_000), tokens=st.integers(100, 400))
def test_pages_are_the_whole_text(text: str, tokens: int) -> None:
    parts: list[str] = []
    offset: int | None = 0
    while offset is not None:
        part, offset = page(text, offset, tokens)
        assert estimate_tokens(compact_json(part)) <= tokens
        parts.append(part)
    assert "".join(parts) == text
    with pytest.raises(InvalidArgument, match="no position"):
        page(text, len(text) + 1, tokens)


@requirement("exchange:refused")
def test_a_file_is_known_by_its_name_and_by_its_text() -> None:
    book = Book("T", "python", (BookCell(Kind.CODE, "1"),))
    for ending, name in ENDINGS.items():
        if name != "html":
            assert format_of(f"a{ending}", written(book, name).text) == name
    assert format_of("a.md", written(book, "srcmd").text) == "srcmd"
    assert format_of("a.json", written(book, "ipynb").text) == "ipynb"
    assert format_of("a.py") is None
    assert read("# T\n\n```output\n1\n```\n", "md")[1] == [
        "1 output blocks of the text are left out: nothing was run here"
    ]
    with pytest.raises(InvalidFormat, match="page"):
        read(written(book, "html").text, "html")


@requirement("exchange:record")
def test_what_was_converted_is_recorded() -> None:
    def touched(tool: str, **arguments: str) -> list[tuple[str, str, str]]:
        return [(one.kind, one.path, one.uri) for one in trace_of(tool, arguments).touched]

    assert touched("import_notebook", source="a b.ipynb", into="scratchpad://plan") == [
        ("notebook", "a b.ipynb", "jupyter://a%20b.ipynb"),
        ("pad", "plan", "scratchpad://plan"),
    ]
    assert touched("import_notebook", source="jupyter://a%20b.ipynb", into="notebook://") == [
        ("notebook", "a b.ipynb", "jupyter://a%20b.ipynb")
    ]
    assert touched("export_notebook", source="notebook://s-1/nb-2") == [("thinking", "nb-2", "notebook://s-1/nb-2")]
    assert touched("insert_cell", source="a.ipynb") == []


PICTURE = {"cellwright": {"attachments": {"a.png": {"image/png": "AAAA"}}}}
STREAM = {"output_type": "stream", "name": "stdout", "text": "1\n"}
# A book that has one thing only, for each row of the table in docs/convert.md, and a word of the loss.
ROWS: dict[str, tuple[Book, str]] = {
    "text and code": (Book("T", "python", (BookCell(Kind.CODE, "x = 1"),)), "text of"),
    "cells apart": (Book("T", "python", (BookCell(Kind.MARKDOWN, "a"), BookCell(Kind.MARKDOWN, "b"))), "cells of"),
    "raw cells": (Book("T", "python", (BookCell(Kind.RAW, "a"),)), "kind of"),
    "ids": (Book("T", "python", (BookCell(Kind.CODE, "1", id="abc"),)), "ids of"),
    "outputs": (Book("T", "python", (BookCell(Kind.CODE, "1", outputs=(STREAM,)),)), "outputs of"),
    "execution counts": (Book("T", "python", (BookCell(Kind.CODE, "1", execution_count=4),)), "execution counts"),
    "file names of cells": (Book("T", "python", (BookCell(Kind.CODE, "1", "", "a.py"),)), "file names"),
    "metadata of the notebook": (Book("T", "python", (BookCell(Kind.CODE, "1"),), {"mood": "calm"}), "notebook's metadata"),
    "metadata and tags of cells": (Book("T", "python", (BookCell(Kind.CODE, "1", metadata={"tags": ["a"], "b": 1}),)), "metadata of 1"),
    "pictures attached to text": (Book("T", "python", (BookCell(Kind.MARKDOWN, "a", metadata=PICTURE),)), "metadata of 1"),
}  # fmt: skip
KEPT_OR_SAID = {"✔", "those a pad can have", "to 1 MiB a cell", "some headings change"}


@requirement("exchange:formats", "exchange:places")
def test_the_table_in_the_documentation_is_true(tmp_path: Path) -> None:
    page_text = (Path(__file__).parent.parent.parent / "docs" / "convert.md").read_text(encoding="utf-8")
    table = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in page_text.splitlines() if line.startswith("| ")
    ]
    head = next(row for row in table if row[0] == "" and "srcmd" in row)
    claims = {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in table if row[0] in ROWS}
    assert claims.keys() == ROWS.keys()
    found = asyncio.run(_losses_of_rows(tmp_path))
    for row, (_, word) in ROWS.items():
        for where, claim in claims[row].items():
            if where != "html":
                assert (claim in KEPT_OR_SAID) == (word not in found[row, where]), (row, where, found[row, where])


async def _losses_of_rows(folder: Path) -> dict[tuple[str, str], str]:
    workspace = make_workspace(Settings(root=folder, state_dir=folder / "s", embedding_model="none"), "stdio")
    found: dict[tuple[str, str], str] = {}
    for row, (book, _) in ROWS.items():
        found |= {(row, name): "\n".join(written(book, name).losses) for name in READABLE}
        for where, into in (("pad", "scratchpad://"), ("thinking notebook", "notebook://")):
            found[row, where] = "\n".join((await workspace.exchange.places.put(CALL, into, book, over=False)).losses)
    await workspace.close()
    return found
