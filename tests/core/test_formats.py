"""Notebooks as files: every round trip holds, and nothing is lost without a word."""

import json
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.core.formats import ipynb, md, native, srcmd
from cellwright.core.formats.formats import FORMATS
from cellwright.core.formats.model import Book, BookCell, InvalidFormat, Kind, extension_of
from requirements import requirement

LANGUAGES = ("python", "javascript", "typescript", "bash", "sql")
ROUGH = "x = 1,,  indented,# heading,###### six,```,~~~,````,> quote,- item,===,---,\t,<!-- srcbook:{} -->,`code`,é 😀,[a](./b),    four"
LINES = st.lists(st.sampled_from(ROUGH.split(",")), max_size=8).map("\n".join)
METADATA = st.dictionaries(
    st.sampled_from(["mood", "note", "a b"]), st.one_of(st.integers(), st.text(max_size=5)), max_size=2
)
OUTPUTS = st.lists(
    st.sampled_from(
        [
            {"output_type": "stream", "name": "stdout", "text": "hi\n"},
            {"output_type": "display_data", "data": {"text/plain": "1"}, "metadata": {}},
            {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["t"]},
        ]
    ),
    max_size=2,
)


@st.composite
def books(draw: st.DrawFn) -> Book:
    language = draw(st.sampled_from(LANGUAGES))
    cells: list[BookCell] = []
    for number in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(list(Kind)))
        code = kind is Kind.CODE
        own = draw(st.sampled_from(["", *LANGUAGES])) if code else ""
        name = draw(st.sampled_from(["", f"f{number}.{extension_of(own or language)}", "not a name"])) if code else ""
        cells.append(
            BookCell(
                kind,
                draw(LINES),
                own if own != language else "",
                name,
                draw(st.sampled_from([f"id{number}", "same", "not valid!", ""])),
                draw(st.none() | st.integers(1, 9)) if code else None,
                tuple(draw(OUTPUTS)) if code else (),
                draw(METADATA),
            )
        )
    return Book(
        draw(st.sampled_from(["T", "A longer title", "Über # alles", "  "])), language, tuple(cells), draw(METADATA)
    )


@requirement("formats:srcmd:book-file-book")
@settings(deadline=None)
@given(books())
def test_a_normal_book_survives_srcmd(book: Book) -> None:
    whole, _losses = srcmd.normal(book)
    assert srcmd.decode(srcmd.encode(whole).text) == whole
    assert srcmd.normal(whole) == (whole, [])


@requirement("formats:srcmd:file-book-file")
@settings(deadline=None)
@given(books())
def test_a_srcmd_file_survives_reading(book: Book) -> None:
    file = srcmd.encode(book).text
    assert srcmd.encode(srcmd.decode(file)).text == file


FILE = """<!-- srcbook:{"language":"javascript"} -->

# Getting started

Prose with

```js
notACell()
```

###### package.json

```json
{"type":"module"}
```

###### a.mjs

```javascript
export const a = 1
```

More.
"""


@requirement("formats:srcmd:file-book-file")
def test_a_book_of_the_original_kind_opens_unchanged() -> None:
    text = FILE.replace(FILE[FILE.index("Prose") : FILE.index("###### package.json")], "").replace(
        "###### a.mjs", "Prose.\n\n###### a.mjs"
    )
    book = srcmd.decode(text)
    assert [cell.filename for cell in book.cells] == ["package.json", "", "a.mjs", ""]
    assert book.cells[2].language == "javascript"
    assert srcmd.encode(book).text == text


@requirement("formats:srcmd:strict")
@pytest.mark.parametrize(
    ("broken", "word"),
    [
        (FILE.replace("<!-- srcbook", "<!-- other"), "metadata"),
        (FILE.replace('"language":"javascript"', '"language":5'), "language"),
        (FILE.replace('{"language":"javascript"}', "{broken}"), "JSON"),
        (FILE.replace("# Getting started", "Getting started"), "level-1"),
        (FILE.replace("More.", "# Second"), "level-1"),
        (FILE.replace("###### a.mjs", "###### not a name"), "name"),
        (FILE.replace("```javascript\nexport const a = 1\n```\n", ""), "a.mjs"),
        (FILE + "\n###### b.js\n", "b.js"),
        (FILE.replace("###### a.mjs", "###### package.json"), "package.json"),
    ],
)
def test_a_file_that_breaks_the_grammar_is_refused(broken: str, word: str) -> None:
    with pytest.raises(InvalidFormat, match=word):
        srcmd.decode(broken)


@requirement("formats:srcmd:losses")
def test_what_srcmd_cannot_hold_is_named() -> None:
    cells = (
        BookCell(Kind.MARKDOWN, "# Second title"),
        BookCell(Kind.MARKDOWN, "```\nopen"),
        BookCell(Kind.CODE, "1", outputs=({"output_type": "stream", "name": "stdout", "text": "1"},)),
    )
    done = srcmd.encode(Book("T", "python", cells))
    assert "level-1" in done.losses[0]
    assert any("closed" in loss for loss in done.losses)
    assert any("joined" in loss for loss in done.losses)
    assert any("outputs" in loss for loss in done.losses)
    assert "###### cell-3.py" in done.text


@requirement("formats:srcmd:losses")
def test_a_cell_that_is_left_out_moved_or_of_another_language_is_named() -> None:
    cells = (
        BookCell(Kind.CODE, "let a", "javascript", "a.js"),
        BookCell(Kind.CODE, "{}", "json", "package.json"),
        BookCell(Kind.CODE, "[]", "json", "package.json"),
        BookCell(Kind.CODE, "fn main(){}", "rust", "b.py"),
        BookCell(Kind.RAW, "raw"),
    )
    losses = srcmd.encode(Book("T", "javascript", cells)).losses
    for said in (
        "1 more cells named package.json",
        "moved to the beginning",
        "cell 4 is rust, and python",
        "cell 5 is raw",
    ):
        assert any(said in loss for loss in losses), said
    assert len(losses) == 4
    assert srcmd.encode(Book("T", "javascript", cells[1:2] + cells[:1])).losses == ()
    assert any("'a.js'" in loss for loss in md.encode(Book("T", "javascript", cells)).losses)


@requirement("formats:srcmd:external")
@settings(deadline=None)
@given(books())
def test_the_external_form_is_the_same_book(book: Book) -> None:
    whole, _ = srcmd.normal(book)
    readme, files = srcmd.encode_external(whole)
    again = srcmd.decode(readme.text, files)
    assert [cell.source.removesuffix("\n") for cell in again.cells] == [
        cell.source.removesuffix("\n") for cell in whole.cells
    ]
    assert [cell.filename for cell in again.cells] == [cell.filename for cell in whole.cells]


@requirement("formats:ipynb:round-trip")
@settings(deadline=None)
@given(books())
def test_a_book_survives_ipynb(book: Book) -> None:
    again = ipynb.decode(ipynb.encode(book).text)
    added = {"language_info", "kernelspec"}
    assert again.cells == book.cells
    assert (again.title, again.language) == (book.title, book.language)
    assert {key: value for key, value in again.metadata.items() if key not in added} == book.metadata


@requirement("formats:ipynb:valid")
@settings(deadline=None)
@given(books())
def test_ipynb_is_valid(book: Book) -> None:
    nbformat.validate(json.loads(ipynb.encode(book).text))  # pyright: ignore[reportUnknownMemberType]


@requirement("formats:json:round-trip")
@settings(deadline=None)
@given(books())
def test_a_book_survives_json(book: Book) -> None:
    assert native.decode(native.encode(book).text) == book


@requirement("formats:md:reading")
def test_markdown_is_read_as_a_book() -> None:
    book = md.decode("# T\n\nHello\n\n```py\nx=1\n```\n\n```\nplain\n```\n\n```sql\nselect 1\n```\n")
    assert (book.title, book.language) == ("T", "python")
    assert [(cell.kind.value, cell.source, cell.language) for cell in book.cells] == [
        ("markdown", "Hello", ""),
        ("code", "x=1", ""),
        ("markdown", "```\nplain\n```", ""),
        ("code", "select 1", "sql"),
    ]


@requirement("formats:md:writing")
def test_markdown_has_the_text_outputs() -> None:
    output: dict[str, Any] = {
        "output_type": "display_data",
        "data": {"text/plain": "<fig>", "image/png": "AA"},
        "metadata": {},
    }
    done = md.encode(Book("T", "python", (BookCell(Kind.CODE, "plot()", outputs=(output,)),)))
    assert done.text == "# T\n\n```python\nplot()\n```\n\n```output\n<fig>\n```\n"
    assert "image/png" in done.losses[0]


@requirement("formats:refused")
@settings(deadline=None)
@given(
    st.text()
    | st.sampled_from(["[]", "{}", '{"nbformat": 4, "cells": [1]}', '{"cellwright": 1, "cells": 5}', "[" * 9999])
)
def test_what_is_no_such_file_is_refused(text: str) -> None:
    for name in ("srcmd", "ipynb", "json"):
        try:
            FORMATS[name].decode(text)
        except InvalidFormat:
            continue
        else:
            assert name == "srcmd"
            assert text.lstrip().startswith("<!--")


@requirement("formats:refused")
@pytest.mark.parametrize(
    "cell",
    [
        {"cell_type": "code", "source": 5},
        {"cell_type": "code", "source": ["x", None]},
        {"cell_type": "code", "source": "x", "outputs": [None]},
        {"cell_type": "code", "source": "x", "outputs": {"text": "lost"}},
        {"cell_type": "heading", "source": "x"},
    ],
)
def test_what_would_be_lost_of_a_cell_is_refused(cell: dict[str, Any]) -> None:
    with pytest.raises(InvalidFormat, match="cell 0"):
        ipynb.from_notebook({"nbformat": 4, "cells": [cell]})
