"""A notebook in short: a line for each cell, in pages that cost a model little."""

from collections.abc import Callable
from dataclasses import dataclass

from cellwright.core.text.budget import estimate_tokens
from cellwright.core.text.sight import seen
from cellwright.jupyter.model import CellHead
from cellwright.jupyter.notebooks.cells import UnreadableCell

WIDTHS = (60, 30, 15)
"""Characters of a first line that are shown: the widest with which all remaining cells fit into a page."""
PAGE_TOKENS = 4_400
INDEX_TOKENS = 5
"""The most that the index before a line, and the quotes and comma around it, cost."""
MARK_TOKENS = 2
ID_CHARACTERS = 12
FIRST_CHARACTERS = 500
KINDS = {"code": "code", "markdown": "md"}


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A cell's line in the outline without its index, at each width, with its cost in tokens."""

    texts: tuple[str, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OutlinePage:
    """Lines of an outline, and the offset of the next page; None at the end."""

    lines: tuple[str, ...]
    next_offset: int | None


def entry_of(head: CellHead) -> OutlineEntry:
    """A cell in short: id, kind, count, size, state, first line."""
    first = next(iter(seen(head.source.strip()[:FIRST_CHARACTERS]).text.splitlines()), "")
    start = _line_start(head)
    texts = tuple(start + (first if len(first) <= width else first[: width - 1] + "…") for width in WIDTHS)
    costs = {text: estimate_tokens(text) + text.count('"') + text.count("\\") + INDEX_TOKENS for text in set(texts)}
    return OutlineEntry(texts, tuple(costs[text] for text in texts))


def _line_start(head: CellHead) -> str:
    lines = head.source.count("\n") + 1 if head.source else 0
    kind = KINDS.get(head.cell_type) or one_word(head.cell_type)
    count = f"[{head.execution_count}] " if head.execution_count is not None else ""
    marks = ("running " if head.running else "") + ("failed " if head.failed else "")
    marks += "unreadable " if isinstance(head, UnreadableCell) else ""
    outputs = f"{head.output_count}out " if head.output_count else ""
    return f"{one_word(head.id) or '-'} {kind} {count}{lines}L {outputs}{marks}| "


def one_word(text: str) -> str:
    """Somebody else's id or type, made such that it cannot look like several words of the line."""
    cut = text[:ID_CHARACTERS]
    return (
        cut
        if cut.isalnum()
        else "".join(character if character.isprintable() and not character.isspace() else "?" for character in cut)
    )


def with_mark(entry: OutlineEntry, mark: str) -> OutlineEntry:
    """The entry with a word for its cell's state."""
    texts = tuple(text.replace("| ", f"{mark} | ", 1) for text in entry.texts)
    return OutlineEntry(texts, tuple(tokens + MARK_TOKENS for tokens in entry.tokens))


def outline_page(entry: Callable[[int], OutlineEntry], offset: int, count: int) -> OutlinePage:
    """The lines of cells from `offset` on, as many as a page holds. Only these of the `count` cells are read."""
    end, number = offset, 0
    for number in range(len(WIDTHS)):
        end = _page_end(entry, offset, count, number)
        if end == count:
            break
    lines = tuple(f"{index} {entry(index).texts[number]}" for index in range(offset, end))
    return OutlinePage(lines, end if end < count else None)


def _page_end(entry: Callable[[int], OutlineEntry], offset: int, count: int, width: int) -> int:
    tokens_left = PAGE_TOKENS
    for index in range(offset, count):
        tokens_left -= entry(index).tokens[width]
        if tokens_left < 0:
            return max(index, offset + 1)
    return count


def whole_outline(entry: Callable[[int], OutlineEntry], count: int) -> list[str]:
    """All lines, at the narrowest width unless all of them fit into a page."""
    page = outline_page(entry, 0, count)
    if page.next_offset is None:
        return list(page.lines)
    return [f"{index} {entry(index).texts[-1]}" for index in range(count)]
