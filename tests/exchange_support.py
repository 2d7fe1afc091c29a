"""What tests of conversions share: books of all sorts, and what may be different about two of them."""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from cellwright.core.text.counting import counted
from cellwright.notebook.model import Cell, Kind, Notebook, extension_of, language_named

LANGUAGES = ("python", "javascript", "bash", "sql")
ROUGH = (
    "x = 1", "", "  indented", "# heading", "###### six", "```", "~~~", "````", "> quote", "- item", "===", "---",
    "\t", "<!-- srcbook:{} -->", "`code`", "é 😀", "[a](./b)", "    four", "```output", "a\rb", "trailing  ", "| a | b |", "\\",
)  # fmt: skip
LINES = st.lists(st.sampled_from(ROUGH), max_size=8).map("\n".join)
METADATA = st.dictionaries(
    st.sampled_from(["mood", "note", "a b"]), st.one_of(st.integers(), st.text(max_size=5), st.just([])), max_size=2
)
OUTPUTS: Sequence[dict[str, Any]] = (
    {"output_type": "stream", "name": "stdout", "text": "hi\n"},
    {"output_type": "display_data", "data": {"text/plain": "1", "image/png": "AAAA"}, "metadata": {}},
    {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["t"]},
)


@st.composite
def notebooks(draw: st.DrawFn) -> Notebook:
    """Any book that a format or a place may be asked to hold."""
    language = draw(st.sampled_from(LANGUAGES))
    cells: list[Cell] = []
    for number in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(list(Kind)))
        code = kind is Kind.CODE
        own = draw(st.sampled_from(["", *LANGUAGES])) if code else ""
        name = draw(st.sampled_from(["", f"f{number}.{extension_of(own or language)}", "not a name"])) if code else ""
        attached = {"cellwright": {"attachments": {"a.png": {"image/png": "AAAA"}}}}
        cells.append(
            Cell(
                kind,
                draw(LINES),
                own if own != language else "",
                name,
                draw(st.sampled_from([f"id{number}", "same", "not valid!", ""])),
                draw(st.none() | st.integers(1, 9)) if code else None,
                tuple(draw(st.lists(st.sampled_from(OUTPUTS), max_size=2))) if code else (),
                {**draw(METADATA), **(attached if not code and draw(st.booleans()) else {})},
            )
        )
    title = draw(st.sampled_from(["T", "A longer title", "Über # alles", "  ", "x" * 300]))
    return Notebook(title, language, tuple(cells), draw(METADATA))


def _filled(value: Any) -> Any:
    return value or None


# How each thing is seen, and a word with which a loss must speak of it. Written apart from the code under test.
ASPECTS: Sequence[tuple[str, Callable[[Notebook, Notebook], bool]]] = (
    ("title", lambda a, b: a.title == b.title),
    ("the notebook's language", lambda a, b: language_named(a.language) == language_named(b.language)),
    (
        "the notebook's metadata",
        lambda a, b: all(_filled(b.metadata.get(k)) == _filled(v) for k, v in a.metadata.items()),
    ),
)
OF_CELLS: Sequence[tuple[str, Callable[[Cell, Notebook], Any]]] = (
    ("text of", lambda cell, _: cell.source),
    ("kind of", lambda cell, _: cell.kind),
    (
        "languages",
        lambda cell, notebook: language_named(cell.language or notebook.language) if cell.kind is Kind.CODE else None,
    ),
    ("file names", lambda cell, _: _filled(cell.filename)),
    ("ids", lambda cell, _: _filled(cell.id)),
    ("outputs of", lambda cell, _: _filled(list(cell.outputs))),
    ("execution counts", lambda cell, _: cell.execution_count),
)


def unnamed(before: Notebook, after: Notebook, losses: Sequence[str]) -> list[str]:
    """What is different about two books and stands in none of the losses."""
    said = "\n".join(losses)
    missing = [word for word, same in ASPECTS if not same(before, after) and word not in said]
    if len(before.cells) != len(after.cells):
        gone = [word for word, _ in OF_CELLS[3:] if _held(before, word) > _held(after, word) and word not in said]
        told = f"makes {counted(len(after.cells), 'cell')} of {len(before.cells)}" in said
        return [*missing, *gone, *([] if told else ["cells"])]
    pairs = list(zip(before.cells, after.cells, strict=True))
    for word, of in OF_CELLS:
        # What was not there cannot be lost: a place may give a cell an id.
        if (
            any((had := of(old, before)) is not None and had != of(new, after) for old, new in pairs)
            and word not in said
        ):
            missing.append(word)
    if "the metadata of" not in said:
        missing += [
            "metadata"
            for old, new in pairs
            if any(_filled(new.metadata.get(k)) != _filled(v) for k, v in old.metadata.items())
        ]
    return missing


def _held(notebook: Notebook, word: str) -> int:
    of = dict(OF_CELLS)[word]
    return sum(1 for cell in notebook.cells if of(cell, notebook) is not None)
