"""`md`: a notebook as plain Markdown for reading. When it is read back, each fenced block with a language is a code cell."""

from typing import cast

from cellwright.core.text.counting import counted
from cellwright.notebook.formats.blocks import Block, Fence, Heading, Prose, blocks, fence_for, joined
from cellwright.notebook.formats.losses import cells_named
from cellwright.notebook.model import UNTITLED, Cell, Encoded, JsonObject, Kind, Notebook, language_named

MIME = "text/markdown"
OUTPUT = "output"
NOT_CODE = ("", "text", "txt", OUTPUT, "mermaid")
MAX_OUTPUT = 4_000
NAMED = 6


def encode(notebook: Notebook) -> Encoded:
    """Prose as it is, code in fences, and text outputs after the code. The losses name what is left out or differs when read back."""
    losses: list[str] = []
    pieces: list[str] = []
    # A notebook often has its title as a heading, which need not be there twice.
    if notebook.title != (_first_heading(notebook) or UNTITLED):
        pieces.append(f"# {notebook.title}")
        losses.append("the title is a heading in md, and in the first cell when that is read back")
    for number, cell in enumerate(notebook.cells):
        if cell.kind is not Kind.CODE:
            pieces.append(cell.source.strip("\n"))
            continue
        fence = fence_for(cell.source)
        pieces.append(f"{fence}{cell.language or notebook.language}\n{cell.source}\n{fence}")
        for output in cell.outputs:
            pieces += _output_block(output, number, losses)
    text = "\n\n".join(piece for piece in pieces if piece) + "\n"
    return Encoded(text, MIME, (*losses, *_read_back_losses(notebook)))


def _first_heading(notebook: Notebook) -> str:
    """The heading that would be the title if the text were read; empty if there is none."""
    texts = (cell.source for cell in notebook.cells if cell.kind is not Kind.CODE)
    headings = (block for text in texts for block in blocks(text) if isinstance(block, Heading) and block.level == 1)
    return next((heading.text for heading in headings if heading.text), "")


def _read_back_losses(notebook: Notebook) -> list[str]:
    """What differs when the text is read back, of all cells together."""
    is_text = [cell.kind is not Kind.CODE for cell in notebook.cells]
    merged = [number for number in range(1, len(is_text)) if is_text[number - 1] and is_text[number]]
    losses = [f"{cells_named(merged)}: joined to the text before when md is read back"] if merged else []
    fenced = [
        number for number, cell in enumerate(notebook.cells) if is_text[number] and _has_output_fence(cell.source)
    ]
    if fenced:
        losses.append(f"the text of {cells_named(fenced)} has a fence named output, left out when md is read back")
    names = [cell.filename for cell in notebook.cells if cell.filename and cell.kind is Kind.CODE]
    if names:
        first_names = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
        losses.append(f"the file names of {counted(len(names), 'cell')} are not in md: {first_names}")
    with_outputs = sum(1 for cell in notebook.cells if cell.outputs)
    if with_outputs:
        cells = counted(with_outputs, "cell")
        losses.append(f"the outputs of {cells} are text in md, and are left out when that is read back")
    return losses


def _has_output_fence(text: str) -> bool:
    return any(isinstance(block, Fence) and block.info == OUTPUT for block in blocks(text))


def _output_block(output: JsonObject, number: int, losses: list[str]) -> list[str]:
    """The text of an output in a fence; nothing if it has no text."""
    data = output.get("data")
    bundle = cast("JsonObject", data) if isinstance(data, dict) else {}
    value = output.get("text", bundle.get("text/plain", ""))
    if output.get("output_type") == "error":
        value = f"{output.get('ename', '')}: {output.get('evalue', '')}"
    text = "".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(value)
    others = [mime for mime in bundle if mime != "text/plain"]
    if others:
        losses.append(f"an output of cell {number} has {', '.join(others)}, which is not in md")
    if len(text) > MAX_OUTPUT:
        losses.append(f"an output of cell {number} is cut to {MAX_OUTPUT} of {len(text)} characters")
        text = text[:MAX_OUTPUT]
    if not text.strip():
        return []
    fence = fence_for(text)
    return [f"{fence}{OUTPUT}\n{text.rstrip(chr(10))}\n{fence}"]


def decode(text: str) -> Notebook:
    """Any Markdown is a notebook: the first level-1 heading is the title and stays in the text, and code fences are code cells."""
    title, language = "", ""
    cells: list[Cell] = []
    prose: list[Block] = []

    def take_prose() -> None:
        if prose:
            cells.append(Cell(Kind.MARKDOWN, joined(prose)))
            prose.clear()

    for block in blocks(text):
        match block:
            case Fence() if block.info.split(" ")[0].lower() not in NOT_CODE:
                take_prose()
                fence_language = language_named(block.info.split(" ")[0].strip("{}."))
                language = language or fence_language
                cells.append(Cell(Kind.CODE, block.content, fence_language))
            case Fence(info="output"):
                # An output that `encode` wrote. It is not kept, because nothing ran here.
                continue
            case Prose() | Heading() | Fence():
                if isinstance(block, Heading) and block.level == 1:
                    title = title or block.text
                prose.append(block)
    take_prose()
    language = language or "python"
    notebook_cells = (
        Cell(cell.kind, cell.source, "" if cell.language == language else cell.language) for cell in cells
    )
    return Notebook(title or UNTITLED, language, tuple(notebook_cells))
