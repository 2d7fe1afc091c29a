"""`md`: a notebook as plain Markdown for reading. Read back, each fenced block with a language is a code cell."""

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
    """Prose as it is, code in fences, text outputs after it. What stays behind, or is different when it is read back, is named."""
    losses: list[str] = []
    pieces: list[str] = []
    # A notebook often has its title as a heading; it need not stand there twice.
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
            pieces += _output(output, number, losses)
    text = "\n\n".join(piece for piece in pieces if piece) + "\n"
    return Encoded(text, MIME, (*losses, *_not_read_back(notebook)))


def _first_heading(notebook: Notebook) -> str:
    """The heading that would be the title if the text were read; empty if there is none."""
    texts = (cell.source for cell in notebook.cells if cell.kind is not Kind.CODE)
    headings = (block for text in texts for block in blocks(text) if isinstance(block, Heading) and block.level == 1)
    return next((heading.text for heading in headings if heading.text), "")


def _not_read_back(notebook: Notebook) -> list[str]:
    """What is different when the text is read back, of all cells together."""
    texts = [cell.kind is not Kind.CODE for cell in notebook.cells]
    joined = [number for number in range(1, len(texts)) if texts[number - 1] and texts[number]]
    losses = [f"{cells_named(joined)}: joined to the text before when md is read back"] if joined else []
    fenced = [number for number, cell in enumerate(notebook.cells) if texts[number] and _has_output_fence(cell.source)]
    if fenced:
        losses.append(f"the text of {cells_named(fenced)} has a fence named output, left out when md is read back")
    names = [cell.filename for cell in notebook.cells if cell.filename and cell.kind is Kind.CODE]
    shown = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
    losses += [f"the file names of {counted(len(names), 'cell')} are not in md: {shown}"] if names else []
    ran = sum(1 for cell in notebook.cells if cell.outputs)
    if ran:
        losses.append(f"the outputs of {counted(ran, 'cell')} are text in md, and are left out when that is read back")
    return losses


def _has_output_fence(text: str) -> bool:
    return any(isinstance(block, Fence) and block.info == OUTPUT for block in blocks(text))


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
    return [f"{fence}{OUTPUT}\n{shown.rstrip(chr(10))}\n{fence}"]


def decode(text: str) -> Notebook:
    """Any Markdown is a notebook: its first level-1 heading is the title and stays in the text, its code fences are cells."""
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
                own = language_named(block.info.split(" ")[0].strip("{}."))
                language = language or own
                cells.append(Cell(Kind.CODE, block.content, own))
            case Fence(info="output"):
                # An output of the export above: not ours to keep, since nothing ran.
                continue
            case Prose() | Heading() | Fence():
                if isinstance(block, Heading) and block.level == 1:
                    title = title or block.text
                prose.append(block)
    take_prose()
    own_language = language or "python"
    made = tuple(Cell(cell.kind, cell.source, "" if cell.language == own_language else cell.language) for cell in cells)
    return Notebook(title or UNTITLED, own_language, made)
