"""`srcmd`: a notebook as Markdown that people can read and edit.

    <!-- srcbook:{"language":"python"} -->

    # Title

    Prose, also with fenced code of its own.

    ###### step.py

    ```python
    print("a cell")
    ```

One level-1 heading, first of all. A level-6 heading is a file's name, followed by its code, or, in the external form, by a link to it.
Cells have neither ids nor outputs here. `decode(encode(book)) == book` for every book in normal form (`normal`), and
`encode(decode(file)) == file` for every file that is laid out as above.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from cellwright.core.formats.blocks import Block, Fence, Heading, Prose, blocks, fence_for
from cellwright.core.formats.model import (
    Book,
    BookCell,
    Encoded,
    InvalidFormat,
    JsonObject,
    Kind,
    extension_of,
    language_named,
    language_of_file,
)

MIME = "text/markdown"
PACKAGE = "package.json"
_COMMENT = re.compile(r"\A\s*<!--\s*srcbook:(?P<json>\{.*?\})\s*-->[ \t]*(?:\n|\Z)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.[A-Za-z0-9]+")
_LINK = re.compile(r"\[(?P<text>[^\]\n]*)\]\((?P<target>\.{0,2}/?[^)\s]+)\)")
_BLANKS = re.compile(r"\n{3,}")
SCRIPTS = ("javascript", "typescript")


# -- writing -----------------------------------------------------------------------------------------------------------------


def encode(book: Book) -> Encoded:
    """The book as one file. What it cannot hold is named."""
    whole, losses = normal(book)
    losses += _left_out(book)
    return Encoded("\n\n".join(_pieces(whole)) + "\n", MIME, tuple(losses))


def _pieces(book: Book) -> Iterator[str]:
    yield _comment(book)
    yield f"# {book.title}"
    for cell in book.cells:
        if cell.kind is not Kind.CODE:
            yield cell.source
            continue
        fence = fence_for(cell.source)
        yield f"###### {cell.filename}"
        yield f"{fence}{cell.language or book.language}\n{cell.source}\n{fence}"


def _comment(book: Book) -> str:
    about = json.dumps({"language": book.language, **book.metadata}, ensure_ascii=False, separators=(",", ":"))
    escaped = about.replace("-->", r"--\u003e")
    return f"<!-- srcbook:{escaped} -->"


def _left_out(book: Book) -> list[str]:
    outputs = sum(1 for cell in book.cells if cell.outputs)
    return [f"the outputs of {outputs} cells are not in srcmd"] if outputs else []


def normal(book: Book) -> tuple[Book, list[str]]:
    """The book as srcmd can hold it, and in words what is different."""
    losses: list[str] = []
    language = language_named(book.language) or "text"
    cells: list[BookCell] = []
    names = {cell.filename for cell in book.cells if cell.kind is Kind.CODE}
    for number, cell in enumerate(book.cells, 1):
        if cell.kind is Kind.CODE:
            cells.append(_normal_code(cell, language, number, names, losses))
            continue
        if cell.kind is Kind.RAW:
            losses.append(f"cell {number} is raw, and text in srcmd")
        source = _normal_prose(cell.source, number, losses)
        if not source:
            continue
        if cells and cells[-1].kind is Kind.MARKDOWN:
            losses.append(f"cell {number} is joined to the text before it")
            cells[-1] = replace(cells[-1], source=f"{cells[-1].source}\n\n{source}")
        else:
            cells.append(BookCell(Kind.MARKDOWN, source))
    package = [cell for cell in cells if cell.filename == PACKAGE]
    if len(package) > 1:
        losses.append(f"{len(package) - 1} more cells named {PACKAGE} are left out: srcmd has one")
    if package and cells[0] is not package[0]:
        losses.append(f"{PACKAGE} is moved to the beginning")
    ordered = [*package[:1], *(cell for cell in cells if cell.filename != PACKAGE)]
    title = " ".join(book.title.split()).rstrip("#").strip() or "Untitled"
    kept = {name: value for name, value in book.metadata.items() if name != "language"}
    return Book(title, language, tuple(ordered), kept), losses


def _normal_code(cell: BookCell, language: str, number: int, names: set[str], losses: list[str]) -> BookCell:
    own = language_named(cell.language) or language
    name = cell.filename
    if not _NAME.fullmatch(name):
        if name:
            losses.append(f"the name {name!r} of cell {number} is not one that srcmd can hold")
        name = _free_name(number, own, names)
    source = cell.source.replace("\r\n", "\n").replace("\r", "\n")
    written = "json" if name == PACKAGE else language_of_file(name)
    if cell.filename == name and written != own and {written, own} != set(SCRIPTS):
        losses.append(f"cell {number} is {own}, and {written} in srcmd by its name {name!r}")
    return BookCell(Kind.CODE, source, written, name)


def _free_name(number: int, language: str, names: set[str]) -> str:
    name = f"cell-{number}.{extension_of(language)}"
    while name in names:
        name = f"_{name}"
    names.add(name)
    return name


def _normal_prose(source: str, number: int, losses: list[str]) -> str:
    """Prose without what means something else in srcmd: titles, names of files, a fence that never ends."""
    pieces: list[str] = []
    for block in blocks(source):
        match block:
            case Heading(level=1 | 6 as level):
                losses.append(f"a level-{level} heading of cell {number} is now of level {2 if level == 1 else 5}")
                pieces.append(f"{'##' if level == 1 else '#####'} {block.text}".rstrip())
            case Fence(closed=False):
                losses.append(f"a fence of cell {number} that never ended is closed")
                mark = fence_for(block.content)
                pieces.append(f"{mark}{block.info}\n{block.content}\n{mark}")
            case Prose():
                pieces.append(_BLANKS.sub("\n\n", block.source))
            case _:
                pieces.append(block.source)
    text = "\n\n".join(pieces)
    return "" if not text.strip() else text.replace("<!-- srcbook:", "<!-- srcbook :")


# -- reading -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Named:
    """A level-6 heading that waits for what it names."""

    name: str


def decode(text: str, files: Mapping[str, str] | None = None) -> Book:
    """The book in a file; `files` has the sources that the external form links to, by their link."""
    about, rest = _metadata(text)
    found = list(blocks(rest))
    if not found or not isinstance(found[0], Heading) or found[0].level != 1:
        raise InvalidFormat(
            "the first block is not a level-1 heading", hint="a srcmd file begins with its title: # Title"
        )
    if any(isinstance(block, Heading) and block.level == 1 for block in found[1:]):
        raise InvalidFormat("there are two level-1 headings", hint="one title; use ## for sections")
    language = about.pop("language")
    cells = decode_cells(found[1:], files)
    if sum(cell.filename == PACKAGE for cell in cells) > 1:
        raise InvalidFormat("there are two package.json cells", hint="keep one")
    return Book(found[0].text, language, tuple(cells), about)


def _metadata(text: str) -> tuple[JsonObject, str]:
    found = _COMMENT.match(text.replace("\r\n", "\n"))
    if found is None:
        raise InvalidFormat("there is no metadata comment", hint='begin with <!-- srcbook:{"language":"python"} -->')
    try:
        about: Any = json.loads(found["json"])
    except ValueError as error:
        raise InvalidFormat("the metadata comment is not JSON") from error
    language = cast("JsonObject", about).get("language") if isinstance(about, dict) else None
    if not isinstance(language, str) or not language.strip():
        raise InvalidFormat("the metadata names no language", hint='for example {"language":"python"}')
    return {**about, "language": language_named(language)}, text.replace("\r\n", "\n")[found.end() :]


def decode_cells(found: Sequence[Block], files: Mapping[str, str] | None = None) -> list[BookCell]:
    """Cells from blocks, for whole files after their title and for fragments."""
    cells: list[BookCell] = []
    prose: list[str] = []
    waiting: _Named | None = None
    for block in found:
        if waiting is not None:
            cell, after = _code(waiting.name, block, files)
            cells.append(cell)
            prose += after
            waiting = None
        elif isinstance(block, Heading) and block.level == 6:  # noqa: PLR2004
            _take_prose(cells, prose)
            waiting = _Named(_file_name(block.text))
        elif isinstance(block, Heading) and block.level == 1:
            raise InvalidFormat("there is a level-1 heading among the cells", hint="use ## for sections")
        else:
            prose.append(_BLANKS.sub("\n\n", block.source) if isinstance(block, Prose) else block.source)
    if waiting is not None:
        raise InvalidFormat(f"nothing follows the file name {waiting.name!r}", hint="a fenced code block follows it")
    _take_prose(cells, prose)
    return cells


def _take_prose(cells: list[BookCell], prose: list[str]) -> None:
    text = "\n\n".join(prose)
    if text.strip():
        cells.append(BookCell(Kind.MARKDOWN, text))
    prose.clear()


def _file_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise InvalidFormat(
            f"a level-6 heading is a file's name, and {text[:60]!r} is none",
            hint="letters, digits, _ and - with an extension",
        )
    return text


def _code(name: str, block: Block, files: Mapping[str, str] | None) -> tuple[BookCell, list[str]]:
    """The cell that a name introduces, and the prose that follows a link in the same block."""
    language = "json" if name == PACKAGE else language_of_file(name)
    if isinstance(block, Fence) and block.closed:
        return BookCell(Kind.CODE, block.content, language, name), []
    if isinstance(block, Prose):
        first, _, rest = _BLANKS.sub("\n\n", block.source).partition("\n\n")
        link = _LINK.fullmatch(first.strip())
        if link is not None:
            source = (files or {}).get(link["target"])
            if source is None:
                raise InvalidFormat(f"the file {link['target']!r} that {name!r} links to was not given")
            cell = BookCell(Kind.CODE, source.removesuffix("\n"), language, name)
            return cell, [rest] if rest.strip() else []
    raise InvalidFormat(f"no code follows the file name {name!r}", hint="a fenced code block, or a link to the file")


def encode_external(book: Book) -> tuple[Encoded, dict[str, str]]:
    """The book as a README with links, and the files they lead to."""
    whole, losses = normal(book)
    files: dict[str, str] = {}
    pieces = [_comment(whole), f"# {whole.title}"]
    for cell in whole.cells:
        if cell.kind is not Kind.CODE:
            pieces.append(cell.source)
            continue
        target = f"./{cell.filename}" if cell.filename == PACKAGE else f"./src/{cell.filename}"
        files[target] = f"{cell.source}\n"
        pieces += [f"###### {cell.filename}", f"[{cell.filename}]({target})"]
    return Encoded("\n\n".join(pieces) + "\n", MIME, (*losses, *_left_out(book))), files
