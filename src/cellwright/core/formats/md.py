"""`md`: a book as plain Markdown for reading. Read back, each fenced block with a language is a code cell."""

from typing import cast

from cellwright.core.formats.blocks import Fence, Heading, Prose, blocks, fence_for
from cellwright.core.formats.model import Book, BookCell, Encoded, JsonObject, Kind, language_named

MIME = "text/markdown"
NOT_CODE = ("", "text", "txt", "output", "mermaid")
MAX_OUTPUT = 4_000


def encode(book: Book) -> Encoded:
    """Prose as it is, code in fences, text outputs after it. Pictures and ids are named as left out."""
    losses: list[str] = []
    # A notebook often begins with its title; it need not stand there twice.
    pieces = [] if book.cells and _begins_with(book.cells[0], f"# {book.title}") else [f"# {book.title}"]
    for number, cell in enumerate(book.cells, 1):
        if cell.kind is not Kind.CODE:
            pieces.append(cell.source.strip("\n"))
            continue
        if cell.filename:
            losses.append(f"the name {cell.filename!r} of cell {number} is not in md")
        fence = fence_for(cell.source)
        pieces.append(f"{fence}{cell.language or book.language}\n{cell.source}\n{fence}")
        for output in cell.outputs:
            pieces += _output(output, number, losses)
    return Encoded("\n\n".join(piece for piece in pieces if piece) + "\n", MIME, tuple(losses))


def _begins_with(cell: BookCell, line: str) -> bool:
    return cell.kind is Kind.MARKDOWN and cell.source.lstrip("\n").partition("\n")[0].rstrip() == line


def _output(output: JsonObject, number: int, losses: list[str]) -> list[str]:
    found = output.get("data")
    data = cast("JsonObject", found) if isinstance(found, dict) else {}
    text = output.get("text", data.get("text/plain", ""))
    if output.get("output_type") == "error":
        text = f"{output.get('ename', '')}: {output.get('evalue', '')}"
    shown = "".join(map(str, cast("list[object]", text))) if isinstance(text, list) else str(text)
    others = [mime for mime in data if mime != "text/plain"]
    if others:
        losses.append(f"an output of cell {number} has {', '.join(others)}, which is not in md")
    if len(shown) > MAX_OUTPUT:
        losses.append(f"an output of cell {number} is cut to {MAX_OUTPUT} of {len(shown)} characters")
        shown = shown[:MAX_OUTPUT]
    if not shown.strip():
        return []
    fence = fence_for(shown)
    return [f"{fence}output\n{shown.rstrip(chr(10))}\n{fence}"]


def decode(text: str) -> Book:
    """Any Markdown is a book: its first level-1 heading is the title, its code fences are cells."""
    title, language = "", ""
    cells: list[BookCell] = []
    prose: list[str] = []

    def take_prose() -> None:
        if prose:
            cells.append(BookCell(Kind.MARKDOWN, "\n\n".join(prose)))
            prose.clear()

    for block in blocks(text):
        match block:
            case Heading(level=1) if not title:
                title = block.text
            case Fence() if block.info.split(" ")[0].lower() not in NOT_CODE:
                take_prose()
                own = language_named(block.info.split(" ")[0].strip("{}."))
                language = language or own
                cells.append(BookCell(Kind.CODE, block.content, own))
            case Fence(info="output"):
                # An output of the export above: not ours to keep, since nothing ran.
                continue
            case Prose() | Heading() | Fence():
                prose.append(block.source)
    take_prose()
    own_language = language or "python"
    made = tuple(
        BookCell(cell.kind, cell.source, "" if cell.language == own_language else cell.language) for cell in cells
    )
    return Book(title or "Untitled", own_language, made)
