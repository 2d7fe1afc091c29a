"""Notebooks as files: every round trip holds, and nothing is lost without a word."""

import json
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.notebook.formats import ipynb, md, native, srcmd
from cellwright.notebook.formats.blocks import blocks, joined
from cellwright.notebook.formats.registry import FORMATS
from cellwright.notebook.formats.writing import written
from cellwright.notebook.model import Cell, InvalidFormat, Kind, Notebook, extension_of
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
def notebooks(draw: st.DrawFn) -> Notebook:
    language = draw(st.sampled_from(LANGUAGES))
    cells: list[Cell] = []
    for number in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(list(Kind)))
        code = kind is Kind.CODE
        own = draw(st.sampled_from(["", *LANGUAGES])) if code else ""
        name = draw(st.sampled_from(["", f"f{number}.{extension_of(own or language)}", "not a name"])) if code else ""
        cells.append(
            Cell(
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
    return Notebook(
        draw(st.sampled_from(["T", "A longer title", "Über # alles", "  "])), language, tuple(cells), draw(METADATA)
    )


@requirement("formats:srcmd:book-file-book")
@settings(deadline=None)
@given(notebooks())
def test_a_normal_book_survives_srcmd(notebook: Notebook) -> None:
    whole, _losses = srcmd.normal(notebook)
    assert srcmd.decode(srcmd.encode(whole).text) == whole
    assert srcmd.normal(whole) == (whole, [])


@requirement("formats:srcmd:file-book-file")
@settings(deadline=None)
@given(notebooks())
def test_a_srcmd_file_survives_reading(notebook: Notebook) -> None:
    file = srcmd.encode(notebook).text
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
    notebook = srcmd.decode(text)
    assert [cell.filename for cell in notebook.cells] == ["package.json", "", "a.mjs", ""]
    assert notebook.cells[2].language == "javascript"
    assert srcmd.encode(notebook).text == text


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
        Cell(Kind.MARKDOWN, "# Second title"),
        Cell(Kind.MARKDOWN, "```\nopen"),
        Cell(Kind.CODE, "1", outputs=({"output_type": "stream", "name": "stdout", "text": "1"},)),
    )
    done = srcmd.encode(Notebook("T", "python", cells))
    assert "level-1" in done.losses[0]
    assert any("closed" in loss for loss in done.losses)
    assert any("joined" in loss for loss in done.losses)
    assert any("outputs" in loss for loss in done.losses)
    assert "###### cell-3.py" in done.text


@requirement("formats:srcmd:losses")
def test_a_cell_that_is_left_out_moved_or_of_another_language_is_named() -> None:
    cells = (
        Cell(Kind.CODE, "let a", "javascript", "a.js"),
        Cell(Kind.CODE, "{}", "json", "package.json"),
        Cell(Kind.CODE, "[]", "json", "package.json"),
        Cell(Kind.CODE, "fn main(){}", "rust", "b.py"),
        Cell(Kind.RAW, "raw"),
    )
    losses = srcmd.encode(Notebook("T", "javascript", cells)).losses
    for said in (
        "1 more cell named package.json",
        "moved to the beginning",
        "cell 3 is rust, and python",
        "cell 4 is raw",
    ):
        assert any(said in loss for loss in losses), said
    assert len(losses) == 4
    assert srcmd.encode(Notebook("T", "javascript", cells[1:2] + cells[:1])).losses == ()
    (names,) = (loss for loss in md.encode(Notebook("T", "javascript", cells)).losses if "file names" in loss)
    assert names == "the file names of 4 cells are not in md: a.js, package.json, package.json, b.py"


@requirement("formats:srcmd:external")
@settings(deadline=None)
@given(notebooks())
def test_the_external_form_is_the_same_book(notebook: Notebook) -> None:
    whole, _ = srcmd.normal(notebook)
    readme, files = srcmd.encode_external(whole)
    again = srcmd.decode(readme.text, files)
    assert [cell.source.removesuffix("\n") for cell in again.cells] == [
        cell.source.removesuffix("\n") for cell in whole.cells
    ]
    assert [cell.filename for cell in again.cells] == [cell.filename for cell in whole.cells]


TIGHT = "Intro\n## Head\nText\n```js\n1\n```\nmore\n\n\n\n- far apart\n  \nlast"


@requirement("formats:text-as-it-is")
def test_text_keeps_its_blank_lines() -> None:
    file = f'<!-- srcbook:{{"language":"javascript"}} -->\n\n# T\n\n{TIGHT}\n\n###### a.js\n\n```javascript\n1\n```\n'
    notebook = srcmd.decode(file)
    assert notebook.cells[0].source == TIGHT
    assert srcmd.encode(notebook).text == file
    assert srcmd.encode(notebook).losses == ()
    prose = TIGHT.replace("```js", "```")
    assert [cell.source for cell in md.decode(f"{prose}\n").cells] == [prose]


@requirement("formats:text-as-it-is")
def test_blocks_are_the_text_they_were_made_of() -> None:
    for text in (TIGHT, "a\n===\nb\n---\n", "```\nnever closed", "\n\n  \nx\n\n## h ##\n~~~\n~~~\n\n\ny\n"):
        assert joined(list(blocks(text))) == text.strip("\n")


@requirement("formats:srcmd:folder")
def test_links_become_the_code_they_lead_to() -> None:
    whole = Notebook("T", "javascript", (Cell(Kind.CODE, "{}", "json", "package.json"), Cell(Kind.MARKDOWN, "Text"),
                                     Cell(Kind.CODE, "a ``` b", "javascript", "a.js")))  # fmt: skip
    readme, files = srcmd.encode_external(whole)
    assert srcmd.links(readme.text) == ["./package.json", "./src/a.js"]
    assert srcmd.decode(srcmd.with_files(readme.text, files)) == whole
    assert srcmd.links(srcmd.encode(whole).text) == []


@requirement("formats:ipynb:nothing-known")
@pytest.mark.parametrize("name", ["", "javascript"])
def test_a_kernel_of_which_nothing_is_known_is_nothing(name: str) -> None:
    about = {"kernelspec": {"name": "", "display_name": ""}, "language_info": {"name": name}}
    own = {"cellwright": {"title": "T", "language": "javascript"}}
    content: dict[str, Any] = {"nbformat": 4, "nbformat_minor": 5, "cells": [], "metadata": {**about, **own}}
    notebook = ipynb.from_notebook(content)
    assert (notebook.language, notebook.metadata) == ("javascript", {})
    assert '{"language":"javascript"}' in srcmd.encode(notebook).text
    assert not any("metadata" in loss for loss in written(notebook, "md").losses)
    known = {"kernelspec": {"name": "deno", "display_name": "Deno"}}
    assert ipynb.from_notebook({**content, "metadata": known}).metadata == known


@requirement("formats:md:writing")
def test_a_fence_that_reads_as_an_output_is_named() -> None:
    notebook = Notebook("T", "python", (Cell(Kind.MARKDOWN, "x = 1\n\n```output\n1\n```"),))
    assert "the text of cell 0 has a fence named output, left out when md is read back" in md.encode(notebook).losses


@requirement("formats:ipynb:round-trip")
@settings(deadline=None)
@given(notebooks())
def test_a_book_survives_ipynb(notebook: Notebook) -> None:
    again = ipynb.decode(ipynb.encode(notebook).text)
    added = {"language_info", "kernelspec"}
    assert again.cells == notebook.cells
    assert (again.title, again.language) == (notebook.title, notebook.language)
    assert {key: value for key, value in again.metadata.items() if key not in added} == notebook.metadata


@requirement("formats:ipynb:valid")
@settings(deadline=None)
@given(notebooks())
def test_ipynb_is_valid(notebook: Notebook) -> None:
    nbformat.validate(json.loads(ipynb.encode(notebook).text))  # pyright: ignore[reportUnknownMemberType]


@requirement("formats:json:round-trip")
@settings(deadline=None)
@given(notebooks())
def test_a_book_survives_json(notebook: Notebook) -> None:
    assert native.decode(native.encode(notebook).text) == notebook


@requirement("formats:md:reading")
def test_markdown_is_read_as_a_book() -> None:
    notebook = md.decode("# T\n\nHello\n\n```py\nx=1\n```\n\n```\nplain\n```\n\n```sql\nselect 1\n```\n")
    assert (notebook.title, notebook.language) == ("T", "python")
    assert [(cell.kind.value, cell.source, cell.language) for cell in notebook.cells] == [
        ("markdown", "# T\n\nHello", ""),
        ("code", "x=1", ""),
        ("markdown", "```\nplain\n```", ""),
        ("code", "select 1", "sql"),
    ]


@requirement("formats:md:headings")
@pytest.mark.parametrize("text", ["# T\n\nHello\n", "Hello\n\n# T\n\nmore\n\n# U\n", "T\n=\n\nHello\n", "# T\n"])
@pytest.mark.parametrize("form", ["ipynb", "json", "md"])
def test_headings_of_markdown_stay_in_the_text(text: str, form: str) -> None:
    notebook = md.decode(text)
    assert notebook.title == "T"
    assert [cell.source for cell in notebook.cells] == [text.removesuffix("\n")]
    done = written(notebook, form)
    assert [loss for loss in done.losses if "ids" not in loss] == []
    assert FORMATS[form].decode(done.text).cells[0].source == text.removesuffix("\n")


@requirement("formats:md:headings")
def test_a_title_that_is_not_in_the_text_is_put_there_and_said() -> None:
    done = written(Notebook("T", "python", (Cell(Kind.MARKDOWN, "Hello"),)), "md")
    assert done.text == "# T\n\nHello\n"
    assert done.losses[0] == "the title is a heading in md, and in the first cell when that is read back"
    untitled = written(Notebook("Untitled", "python", (Cell(Kind.MARKDOWN, "Hello"),)), "md")
    assert (untitled.text, untitled.losses) == ("Hello\n", [])


@requirement("formats:md:writing")
def test_markdown_has_the_text_outputs() -> None:
    output: dict[str, Any] = {
        "output_type": "display_data",
        "data": {"text/plain": "<fig>", "image/png": "AA"},
        "metadata": {},
    }
    done = md.encode(Notebook("T", "python", (Cell(Kind.CODE, "plot()", outputs=(output,)),)))
    assert done.text == "# T\n\n```python\nplot()\n```\n\n```output\n<fig>\n```\n"
    assert [loss for loss in done.losses if "image/png" in loss] == [
        "an output of cell 0 has image/png, which is not in md"
    ]


@requirement("formats:srcmd:losses")
def test_a_heading_that_is_the_title_stands_once_in_srcmd() -> None:
    whole = srcmd.encode(md.decode("# Tides\n\nHigh and low.\n\n```python\n1\n```\n"))
    assert whole.text.count("Tides") == 1
    assert whole.losses == ("the heading of cell 0 is the title",)


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
