"""`srcmd`: a notebook as Markdown that people can read and edit.

    <!-- srcbook:{"language":"python"} -->

    # Title

    Prose, also with fenced code of its own.

    ###### step.py

    ```python
    print("a cell")
    ```

It begins with its only level-1 heading. A level-6 heading is the name of a file, followed by its code or, in the external form, by a link
to it. Cells have neither ids nor outputs here. `decode(encode(notebook)) == notebook` for every notebook in normal form (`normal`), and
`encode(decode(file)) == file` for every file that is laid out as above.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

from cellwright.core.text.counting import counted
from cellwright.notebook.formats.blocks import Block, Fence, Heading, Prose, blocks, fence_for, first_heading, joined
from cellwright.notebook.model import (
    UNTITLED,
    Cell,
    Encoded,
    InvalidFormat,
    JsonObject,
    Kind,
    Notebook,
    extension_of,
    language_named,
    language_of_file,
)

MIME = "text/markdown"
PACKAGE = "package.json"
OPENING, NO_OPENING = "<!-- srcbook:", "<!-- srcbook :"
_COMMENT = re.compile(r"\A\s*<!--\s*srcbook:(?P<json>\{.*?\})\s*-->[ \t]*(?:\n|\Z)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.[A-Za-z0-9]+")
_LINK = re.compile(r"\[(?P<text>[^\]\n]*)\]\((?P<target>\.{0,2}/?[^)\s]+)\)")
SCRIPTS = ("javascript", "typescript")


# -- writing -----------------------------------------------------------------------------------------------------------------


def encode(notebook: Notebook) -> Encoded:
    """The notebook as one file. The losses name what the file cannot contain."""
    whole, losses = normal(notebook)
    pieces = [_comment(whole), f"# {whole.title}"]
    for cell in whole.cells:
        if cell.kind is not Kind.CODE:
            pieces.append(cell.source)
            continue
        fence = fence_for(cell.source)
        code = f"{fence}{cell.language or whole.language}\n{cell.source}\n{fence}"
        pieces += [f"###### {cell.filename}", code]
    return Encoded("\n\n".join(pieces) + "\n", MIME, (*losses, *_output_losses(notebook)))


def _comment(notebook: Notebook) -> str:
    about = json.dumps({"language": notebook.language, **notebook.metadata}, ensure_ascii=False, separators=(",", ":"))
    escaped = about.replace("-->", r"--\u003e")
    return f"{OPENING}{escaped} -->"


def _output_losses(notebook: Notebook) -> list[str]:
    outputs = sum(1 for cell in notebook.cells if cell.outputs)
    return [f"the outputs of {counted(outputs, 'cell')} are not in srcmd"] if outputs else []


def normal(notebook: Notebook) -> tuple[Notebook, list[str]]:
    """The notebook as srcmd can contain it, and sentences about what differs."""
    losses: list[str] = []
    language = language_named(notebook.language) or "text"
    title = " ".join(notebook.title.split()).rstrip("#").strip() or UNTITLED
    cells: list[Cell] = []
    names = {cell.filename for cell in notebook.cells if cell.kind is Kind.CODE}
    for number, cell in enumerate(notebook.cells):
        if cell.kind is Kind.CODE:
            cells.append(_normal_code(cell, language, number, names, losses))
            continue
        if cell.kind is Kind.RAW:
            losses.append(f"cell {number} is raw, and text in srcmd")
        source = cell.source if cells else _without_title(cell, title, number, losses)
        source = _normal_prose(source, number, losses)
        if not source:
            continue
        if cells and cells[-1].kind is Kind.MARKDOWN:
            losses.append(f"cell {number} is joined to the text before it")
            cells[-1] = replace(cells[-1], source=f"{cells[-1].source}\n\n{source}")
        else:
            cells.append(Cell(Kind.MARKDOWN, source))
    package = [cell for cell in cells if cell.filename == PACKAGE]
    if len(package) > 1:
        losses.append(f"left out: {counted(len(package) - 1, 'more cell')} named {PACKAGE}, of which srcmd has one")
    if package and cells[0] is not package[0]:
        losses.append(f"{PACKAGE} is moved to the beginning")
    ordered = [*package[:1], *(cell for cell in cells if cell.filename != PACKAGE)]
    metadata = {name: value for name, value in notebook.metadata.items() if name != "language"}
    return Notebook(title, language, tuple(ordered), metadata), losses


def _without_title(cell: Cell, title: str, number: int, losses: list[str]) -> str:
    """The text without its first heading, if that is the title, which srcmd has above all cells."""
    heading = first_heading(cell.source) if cell.kind is Kind.MARKDOWN else None
    text = cell.source.replace("\r\n", "\n").replace("\r", "\n").lstrip()
    if heading is None or heading.text != title or not text.startswith(heading.source.lstrip()):
        return cell.source
    losses.append(f"the heading of cell {number} is the title")
    return text.removeprefix(heading.source.lstrip())


def _normal_code(cell: Cell, language: str, number: int, names: set[str], losses: list[str]) -> Cell:
    cell_language = language_named(cell.language) or language
    name = cell.filename
    if not _NAME.fullmatch(name):
        if name:
            losses.append(f"the name {name!r} of cell {number} is not one that srcmd can hold")
        name = _free_name(number + 1, cell_language, names)
    source = cell.source.replace("\r\n", "\n").replace("\r", "\n")
    name_language = language_of_file(name)
    is_other = name_language != cell_language and {name_language, cell_language} != set(SCRIPTS)
    if cell.filename == name and is_other:
        losses.append(f"cell {number} is {cell_language}, and {name_language} in srcmd by its name {name!r}")
    return Cell(Kind.CODE, source, name_language, name)


def _free_name(number: int, language: str, names: set[str]) -> str:
    name = f"cell-{number}.{extension_of(language)}"
    while name in names:
        name = f"_{name}"
    names.add(name)
    return name


def _normal_prose(source: str, number: int, losses: list[str]) -> str:
    """Prose without what means something else in srcmd: titles, names of files, and a fence that never ends."""
    pieces: list[Block] = []
    for block in blocks(source):
        match block:
            case Heading(level=1 | 6 as level):
                losses.append(
                    f"the text of cell {number}: a level-{level} heading is now of level {2 if level == 1 else 5}"
                )
                pieces.append(replace(block, source=f"{'##' if level == 1 else '#####'} {block.text}".rstrip()))
            case Fence(closed=False):
                losses.append(f"the text of cell {number}: a fence that never ended is closed")
                mark = fence_for(block.content)
                pieces.append(replace(block, source=f"{mark}{block.info}\n{block.content}\n{mark}"))
            case _:
                pieces.append(block)
    text = joined(pieces)
    if OPENING in text:
        losses.append(f"the text of cell {number}: {OPENING} is now {NO_OPENING}, as it would begin a file")
    return text.replace(OPENING, NO_OPENING)


# -- reading -----------------------------------------------------------------------------------------------------------------


def decode(text: str, files: Mapping[str, str] | None = None) -> Notebook:
    """The notebook in a file. `files` has the sources that the external form links to, by their links."""
    about, rest = _metadata(text)
    whole = list(blocks(rest))
    title, content = (whole[0] if whole else None), whole[1:]
    if not isinstance(title, Heading) or title.level != 1:
        raise InvalidFormat(
            "the first block is not a level-1 heading", hint="a srcmd file begins with its title: # Title"
        )
    if any(isinstance(block, Heading) and block.level == 1 for block in content):
        raise InvalidFormat("there are two level-1 headings", hint="one title; use ## for sections")
    language = about.pop("language")
    cells = decode_cells(content, files)
    if sum(cell.filename == PACKAGE for cell in cells) > 1:
        raise InvalidFormat("there are two package.json cells", hint="keep one")
    return Notebook(title.text, language, tuple(cells), about)


def _metadata(text: str) -> tuple[JsonObject, str]:
    """The metadata of a file, with its language, and the text after it."""
    text = text.replace("\r\n", "\n")
    comment = _COMMENT.match(text)
    if comment is None:
        raise InvalidFormat("there is no metadata comment", hint='begin with <!-- srcbook:{"language":"python"} -->')
    try:
        about: Any = json.loads(comment["json"])
    except ValueError as error:
        raise InvalidFormat(
            "the metadata comment is not JSON", hint='for example <!-- srcbook:{"language":"python"} -->'
        ) from error
    language = cast("JsonObject", about).get("language") if isinstance(about, dict) else None
    if not isinstance(language, str) or not language.strip():
        raise InvalidFormat("the metadata names no language", hint='for example {"language":"python"}')
    return {**about, "language": language_named(language)}, text[comment.end() :]


def decode_cells(content: Sequence[Block], files: Mapping[str, str] | None = None) -> list[Cell]:
    """The cells in the blocks of a file that follow its title."""
    cells: list[Cell] = []
    prose: list[Block] = []
    file_name: str | None = None
    for block in content:
        if file_name is not None:
            cell, prose_after = _code(file_name, block, files)
            cells.append(cell)
            prose += prose_after
            file_name = None
        elif isinstance(block, Heading) and _names_a_file(block):
            _take_prose(cells, prose)
            file_name = _valid_file_name(block.text)
        elif isinstance(block, Heading) and block.level == 1:
            raise InvalidFormat("there is a level-1 heading among the cells", hint="use ## for sections")
        else:
            prose.append(block)
    if file_name is not None:
        raise InvalidFormat(f"nothing follows the file name {file_name!r}", hint="a fenced code block follows it")
    _take_prose(cells, prose)
    return cells


def _take_prose(cells: list[Cell], prose: list[Block]) -> None:
    if prose:
        cells.append(Cell(Kind.MARKDOWN, joined(prose)))
    prose.clear()


def _valid_file_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise InvalidFormat(
            f"a level-6 heading is a file's name, and {text[:60]!r} is none",
            hint="letters, digits, _ and - with an extension",
        )
    return text


def _code(name: str, block: Block, files: Mapping[str, str] | None) -> tuple[Cell, list[Block]]:
    """The cell that a name introduces, and the prose that follows a link in the same block."""
    language = language_of_file(name)
    if isinstance(block, Fence) and block.closed:
        return Cell(Kind.CODE, block.content, language, name), []
    link = _link(block)
    if link is not None:
        target, rest = link
        source = (files or {}).get(target)
        if source is None:
            raise InvalidFormat(
                f"the file {target!r} that {name!r} links to was not given",
                hint="put the code into a fenced block under the file name, or give the file as source, with those it "
                "links to beside it",
            )
        cell = Cell(Kind.CODE, source.removesuffix("\n"), language, name)
        return cell, [Prose(rest)] if rest else []
    raise InvalidFormat(f"no code follows the file name {name!r}", hint="a fenced code block, or a link to the file")


def _link(block: Block) -> tuple[str, str] | None:
    """The target of the link with which a block begins, and the prose after it; None if the block begins with anything else."""
    if not isinstance(block, Prose):
        return None
    first, _, rest = block.source.partition("\n\n")
    link = _LINK.fullmatch(first.strip())
    return None if link is None else (link["target"], rest.lstrip("\n") if rest.strip() else "")


def links(text: str) -> list[str]:
    """The files that a notebook in the external form links to, in their order; none for any other text."""
    candidates = [_link(block) for name, block in pairwise(blocks(text)) if _names_a_file(name)]
    return list(dict.fromkeys(link[0] for link in candidates if link is not None))


def with_files(text: str, files: Mapping[str, str]) -> str:
    """A notebook of the external form as one file: each link to one of these files is replaced by the code in it."""
    comment = _COMMENT.match(text)
    content = list(blocks(text[comment.end() :] if comment else text))
    for index, (name, block) in enumerate(pairwise(tuple(content)), 1):
        link = _link(block) if _names_a_file(name) else None
        if link is not None and link[0] in files:
            source = files[link[0]].removesuffix("\n")
            fence = fence_for(source)
            code = f"{fence}\n{source}\n{fence}"
            content[index] = replace(block, source=f"{code}\n\n{link[1]}" if link[1] else code)
    return f"{comment[0] if comment else ''}\n{joined(content)}\n"


def _names_a_file(block: Block) -> bool:
    return isinstance(block, Heading) and block.level == 6  # noqa: PLR2004


def encode_external(notebook: Notebook) -> tuple[Encoded, dict[str, str]]:
    """The notebook as a README with links, and the files that they lead to."""
    whole, losses = normal(notebook)
    files: dict[str, str] = {}
    pieces = [_comment(whole), f"# {whole.title}"]
    for cell in whole.cells:
        if cell.kind is not Kind.CODE:
            pieces.append(cell.source)
            continue
        target = f"./{cell.filename}" if cell.filename == PACKAGE else f"./src/{cell.filename}"
        files[target] = f"{cell.source}\n"
        pieces += [f"###### {cell.filename}", f"[{cell.filename}]({target})"]
    return Encoded("\n\n".join(pieces) + "\n", MIME, (*losses, *_output_losses(notebook))), files
