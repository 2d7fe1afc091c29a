"""Conversions as properties: what comes back is what went in, but for what the losses name."""

import asyncio
import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.app.exchange.texts import page
from cellwright.app.settings import Settings
from cellwright.app.workspace import local_user, make_workspace
from cellwright.core.errors import InvalidArgument
from cellwright.core.text.budget import estimate_tokens
from cellwright.core.text.fitting import compact_json
from cellwright.core.types import Call
from cellwright.notebook.formats.files import ENDINGS, format_of, read
from cellwright.notebook.formats.losses import MOST, difference, reported_losses
from cellwright.notebook.formats.registry import FORMATS
from cellwright.notebook.formats.writing import written
from cellwright.notebook.model import Cell, InvalidFormat, Kind, Notebook
from exchange_support import notebooks, unnamed
from locations import DOCS
from requirements import requirement
from traces_support import TRACES

READABLE = tuple(name for name in FORMATS if name != "html")
CALL = Call(local_user())


@requirement("exchange:formats")
@pytest.mark.parametrize(("first", "second"), list(itertools.product(READABLE, READABLE)))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(notebook=notebooks())
def test_there_and_back_is_the_same_but_for_what_is_named(first: str, second: str, notebook: Notebook) -> None:
    start = FORMATS[first].decode(written(notebook, first).text)
    there = written(start, second)
    middle = FORMATS[second].decode(there.text)
    assert unnamed(start, middle, there.losses) == []
    back = written(middle, first)
    assert unnamed(start, FORMATS[first].decode(back.text), [*there.losses, *back.losses]) == []


@requirement("exchange:formats")
@pytest.mark.parametrize("name", ["json", "ipynb"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(notebook=notebooks())
def test_json_and_ipynb_lose_nothing(name: str, notebook: Notebook) -> None:
    assert written(notebook, name).losses == []


@requirement("exchange:formats")
def test_a_loss_is_told_once_and_the_list_of_them_ends() -> None:
    cell = Cell(Kind.CODE, "1", id="a", outputs=({"output_type": "stream", "name": "stdout", "text": "1"},))
    losses = written(Notebook("T", "python", (cell,)), "srcmd").losses
    assert [loss for loss in losses if "outputs" in loss] == ["the outputs of 1 cell are not in srcmd"]
    many = reported_losses([f"loss {n}" for n in range(50)], {"ids": "more"})
    assert (len(many), many[-1]) == (MOST, f"and {51 - MOST + 1} more of this kind")
    assert difference(Notebook("T", "python", (cell,)), Notebook("T", "python", (cell,)), "x") == {}


@requirement("exchange:places")
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(several=st.lists(notebooks(), min_size=6, max_size=6))
def test_pads_and_thinking_notebooks_keep_what_they_do_not_name(several: list[Notebook]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_through_the_store(Path(folder), several))


async def _through_the_store(folder: Path, several: list[Notebook]) -> None:
    workspace = make_workspace(Settings(root=folder, state_dir=folder / "s", embedding_model="none"), "stdio")
    exchange = workspace.exchange
    try:
        for notebook in several:
            for first, second in (("scratchpad://", "notebook://"), ("notebook://", "scratchpad://")):
                there = await exchange.write(CALL, first, notebook, over=False)
                middle = (await exchange.read(CALL, there.uri)).notebook
                assert unnamed(notebook, middle, there.losses) == []
                further = await exchange.write(CALL, second, middle, over=False)
                last = (await exchange.read(CALL, further.uri)).notebook
                assert unnamed(notebook, last, [*there.losses, *further.losses]) == []
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
    notebook = Notebook("T", "python", (Cell(Kind.CODE, "1"),))
    for ending, name in ENDINGS.items():
        if name != "html":
            assert format_of(f"a{ending}", written(notebook, name).text) == name
    assert format_of("a.md", written(notebook, "srcmd").text) == "srcmd"
    assert format_of("a.json", written(notebook, "ipynb").text) == "ipynb"
    assert format_of("a.py") is None
    assert read("# T\n\n```output\n1\n```\n", "md")[1] == [
        "left out of the text: 1 output block, because nothing was run here"
    ]
    with pytest.raises(InvalidFormat, match="page"):
        read(written(notebook, "html").text, "html")


@requirement("exchange:record")
def test_what_was_converted_is_recorded() -> None:
    def touched(tool: str, **arguments: str) -> list[tuple[str, str, str]]:
        return [(one.kind, one.path, one.uri) for one in TRACES.trace_of(tool, arguments).touched]

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
ROWS: dict[str, tuple[Notebook, str]] = {
    "text and code": (Notebook("T", "python", (Cell(Kind.CODE, "x = 1"),)), "text of"),
    "cells apart": (Notebook("T", "python", (Cell(Kind.MARKDOWN, "a"), Cell(Kind.MARKDOWN, "b"))), "makes 1 cell of 2"),
    "raw cells": (Notebook("T", "python", (Cell(Kind.RAW, "a"),)), "kind of"),
    "ids": (Notebook("T", "python", (Cell(Kind.CODE, "1", id="abc"),)), "ids of"),
    "outputs": (Notebook("T", "python", (Cell(Kind.CODE, "1", outputs=(STREAM,)),)), "outputs of"),
    "execution counts": (Notebook("T", "python", (Cell(Kind.CODE, "1", execution_count=4),)), "execution counts"),
    "file names of cells": (Notebook("T", "python", (Cell(Kind.CODE, "1", "", "a.py"),)), "file names"),
    "metadata of the notebook": (Notebook("T", "python", (Cell(Kind.CODE, "1"),), {"mood": "calm"}), "notebook's metadata"),
    "metadata and tags of cells": (Notebook("T", "python", (Cell(Kind.CODE, "1", metadata={"tags": ["a"], "b": 1}),)), "metadata of 1"),
    "pictures attached to text": (Notebook("T", "python", (Cell(Kind.MARKDOWN, "a", metadata=PICTURE),)), "metadata of 1"),
}  # fmt: skip
KEPT_OR_SAID = {"✔", "those a pad can have", "to 1 MiB a cell", "some headings change"}


@requirement("exchange:formats", "exchange:places")
def test_the_table_in_the_documentation_is_true(tmp_path: Path) -> None:
    page_text = (DOCS / "convert.md").read_text(encoding="utf-8")
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
    for row, (notebook, _) in ROWS.items():
        found |= {(row, name): "\n".join(written(notebook, name).losses) for name in READABLE}
        for where, into in (("pad", "scratchpad://"), ("thinking notebook", "notebook://")):
            found[row, where] = "\n".join((await workspace.exchange.write(CALL, into, notebook, over=False)).losses)
    await workspace.close()
    return found
