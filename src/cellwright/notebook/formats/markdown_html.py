"""Markdown as HTML that is safe by construction: every piece of text is escaped, and the only tags are those written here.

It knows the usual Markdown of notebooks: headings, lists, tables, quotes, fences, links, pictures, emphasis. HTML and formulas are shown as
plain text. How far a search looks ahead and how deep nesting goes are limited, so hostile text costs no more than long text.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

from cellwright.notebook.formats.blocks import MOST_INDENT, Fence, Heading, Prose, blocks, indent_of, without_indent
from cellwright.notebook.formats.markdown_inline import Pictures, inline

DEEPEST = 8
_ITEM = re.compile(r"(?P<indent> {0,12})(?P<mark>[-*+]|\d{1,9}[.)])(?: +|$)(?P<text>.*)$")
_TASK = re.compile(r"\[([ xX])\] ")
_RULE = re.compile(r" {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$")
_DASHES = re.compile(r":?-+:?")
_QUOTE = re.compile(r" {0,3}> ?")
_CELL_BORDER = re.compile(r"(?<!\\)\|")

Lines = Sequence[str]
Code = Callable[[str, str], str]
"""Makes the content of <code> from the source and the language of a fence."""


def plain_code(source: str, _language: str) -> str:
    return escape(source)


def to_html(text: str, pictures: Pictures | None = None, code: Code = plain_code) -> str:
    """The text as HTML. `pictures` are the data: addresses of pictures that the text may show, by their names."""
    return _Writer(pictures or {}, code).whole(text.replace("\0", "").expandtabs(4), 0)


class _Writer:
    def __init__(self, pictures: Pictures, code: Code) -> None:
        self._pictures: Mapping[str, str] = pictures
        self._code = code

    def whole(self, text: str, depth: int) -> str:
        if depth > DEEPEST:
            return f"<p>{escape(text)}</p>"
        return "\n".join(self._pieces(text, depth))

    def _pieces(self, text: str, depth: int) -> Iterator[str]:
        # Lists and quotes come first, because a fence or heading inside of them belongs to them.
        for kind, lines in _regions(text.split("\n")):
            if kind == "list":
                yield self._list(lines, depth)
            elif kind == "quote":
                quoted_text = "\n".join(_QUOTE.sub("", line, count=1) for line in lines)
                yield f"<blockquote>\n{self.whole(quoted_text, depth + 1)}\n</blockquote>"
            else:
                yield from self._blocks("\n".join(lines))

    def _blocks(self, text: str) -> Iterator[str]:
        for block in blocks(text):
            match block:
                case Heading():
                    yield f"<h{block.level}>{self._inline(block.text)}</h{block.level}>"
                case Fence():
                    language = block.info.split(" ")[0].strip("{}.").lower()
                    yield f"<pre><code>{self._code(block.content, language)}</code></pre>"
                case Prose():
                    yield from self._prose(block.source.split("\n"))

    def _prose(self, lines: Lines) -> Iterator[str]:
        for paragraph in _paragraphs(lines):
            if len(paragraph) == 1 and _RULE.match(paragraph[0]):
                yield "<hr>"
            elif all(line.startswith("    ") for line in paragraph):
                yield f"<pre><code>{escape(chr(10).join(line[4:] for line in paragraph))}</code></pre>"
            elif paragraph[0].lstrip().startswith("$$"):
                yield f'<pre class="math">{escape(chr(10).join(paragraph))}</pre>'
            elif (start := _table_at(paragraph)) is not None:
                if start:
                    yield f"<p>{self._inline(_joined(paragraph[:start]))}</p>"
                yield self._table(paragraph[start:])
            else:
                yield f"<p>{self._inline(_joined(paragraph))}</p>"

    def _table(self, lines: Lines) -> str:
        head, body = _row(lines[0]), [_row(line) for line in lines[2:]]
        cells = "".join(f"<th>{self._inline(cell)}</th>" for cell in head)
        rows = "".join(
            f"<tr>{''.join(f'<td>{self._inline(cell)}</td>' for cell in row[: len(head)])}</tr>\n" for row in body
        )
        return f"<table><thead><tr>{cells}</tr></thead><tbody>\n{rows}</tbody></table>"

    def _list(self, lines: Lines, depth: int) -> str:
        first = _ITEM.match(lines[0])
        assert first is not None
        number = first["mark"].rstrip(".)")
        ordered = number.isdigit()
        start = f' start="{int(number)}"' if ordered and int(number) != 1 else ""
        items = "".join(f"<li>{self._item(item, depth)}</li>\n" for item in _items(lines))
        return f"<ol{start}>\n{items}</ol>" if ordered else f"<ul>\n{items}</ul>"

    def _item(self, text: str, depth: int) -> str:
        box = ""
        if (task := _TASK.match(text)) is not None:
            box, text = ("☑ " if task[1] != " " else "☐ "), text[task.end() :]
        if depth >= DEEPEST:
            return box + escape(text)
        pieces = list(self._pieces(text, depth + 1))
        if sum(piece.startswith("<p>") for piece in pieces) == 1:
            # One paragraph, perhaps with a list below it, is written without <p>.
            pieces = [
                piece.removeprefix("<p>").removesuffix("</p>") if piece.startswith("<p>") else piece for piece in pieces
            ]
        return box + "\n".join(pieces)

    def _inline(self, text: str) -> str:
        return inline(text, self._pictures)


def _regions(lines: Lines) -> Iterator[tuple[str, Lines]]:
    """The lines in regions that are a list, a quote, or neither, which is "". A fence is never split."""
    kind, region, fence = "", list[str](), ""
    for line in lines:
        line_kind = _kind_of(line, kind, fence)
        if line_kind != kind or (line_kind == "list" and _is_other_list(region, line)):
            if region:
                yield kind, region
            kind, region = line_kind, []
        fence = _fence_after(line, fence) if kind == "" else ""
        region.append(line)
    if region:
        yield kind, region


def _kind_of(line: str, before: str, fence: str) -> str:
    if fence:
        return ""
    if before == "list" and (not line.strip() or line.startswith("  ")):
        return "list"
    if _ITEM.match(line) and not _RULE.match(line) and not line.startswith("    "):
        return "list"
    if _QUOTE.match(line) or (before == "quote" and line.strip()):
        return "quote"
    return ""


def _is_other_list(region: Lines, line: str) -> bool:
    """Whether an item at the left begins a list of the other kind: numbered after plain, or the reverse."""
    first, item = _ITEM.match(region[0]), _ITEM.match(line)
    if first is None or item is None or len(item["indent"]) > len(first["indent"]) + 1:
        return False
    return first["mark"][:-1].isdigit() != item["mark"][:-1].isdigit()


def _fence_after(line: str, fence: str) -> str:
    """The mark of the fence that is open after this line, if `fence` was open before it; empty if none is."""
    mark = re.match(r" {0,3}(`{3,}|~{3,})", line)
    if mark is None:
        return fence
    if not fence:
        return mark[1]
    closes = mark[1][0] == fence[0] and len(mark[1]) >= len(fence) and not line.strip().strip(mark[1][0])
    return "" if closes else fence


def _items(lines: Lines) -> Iterator[str]:
    """The text of each item with the lines below it, without their indent."""
    first = _ITEM.match(lines[0])
    assert first is not None
    list_indent = len(first["indent"])
    item: list[str] = []
    width = 2
    for line in lines:
        opening = _ITEM.match(line)
        if opening is not None and len(opening["indent"]) <= list_indent + 1:
            if item:
                yield "\n".join(item).strip("\n")
            item, width = [opening["text"]], opening.start("text")
        else:
            item.append(without_indent(line, width))
    yield "\n".join(item).strip("\n")


def _paragraphs(lines: Lines) -> Iterator[list[str]]:
    paragraph: list[str] = []
    for line in lines:
        is_rule = _RULE.match(line) is not None
        if paragraph and (not line.strip() or is_rule):
            yield paragraph
            paragraph = []
        if is_rule:
            yield [line]
        elif line.strip():
            paragraph.append(line)
    if paragraph:
        yield paragraph


def _joined(lines: Lines) -> str:
    """The text of a paragraph. Two spaces or a backslash at the end of a line are a line break, which is marked by \\0."""
    pieces = [
        f"{line.rstrip(' ').removesuffix(chr(92))}\0" if line.endswith(("  ", "\\")) else line.strip(" ")
        for line in lines[:-1]
    ]
    return "\n".join((*pieces, lines[-1].strip(" ")))


def _table_at(lines: Lines) -> int | None:
    """The line where a table begins; None if there is no table."""
    for at in range(1, len(lines)):
        if "|" in lines[at] and "|" in lines[at - 1] and _is_border(lines[at]):
            return at - 1
    return None


def _is_border(line: str) -> bool:
    """Whether this is the line below a table's head."""
    if indent_of(line) > MOST_INDENT:
        return False
    cells = line.strip(" \t").removeprefix("|").removesuffix("|").split("|")
    return all(_DASHES.fullmatch(cell.strip(" \t")) for cell in cells)


def _row(line: str) -> list[str]:
    trimmed = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip().replace("\\|", "|") for cell in _CELL_BORDER.split(trimmed)]
