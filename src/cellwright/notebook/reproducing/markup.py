"""HTML and SVG as texts that can be compared: what a person would read of a page, and a drawing without its random names."""

import re
from html.parser import HTMLParser

_UNSEEN = frozenset({"script", "style", "head", "template", "title"})
_CELLS = frozenset({"td", "th"})
_BREAKS = frozenset({"p", "div", "br", "tr", "table", "caption", "li", "ul", "ol", "pre", "h1", "h2", "h3", "h4", "hr"})
_COMMENT = re.compile(r"<!--.*?-->|<metadata>.*?</metadata>|<metadata\s[^>]*>.*?</metadata>", re.DOTALL)
_ID = re.compile(r"""\bid=["']([^"']{1,200})["']""")
_BETWEEN_TAGS = re.compile(r">\s+<")


class _Reader(HTMLParser):
    """Collects what can be read, each cell of a table and each block in a line of its own."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._lines: list[str] = []
        self._parts: list[str] = []
        self._unseen = 0
        self.pictures: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _UNSEEN:
            self._unseen += 1
        elif tag in _CELLS or tag in _BREAKS:
            self._end_line()
        elif tag == "img":
            self.pictures.append(dict(attrs).get("src") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in _UNSEEN:
            self._unseen = max(0, self._unseen - 1)
        elif tag in _CELLS or tag in _BREAKS:
            self._end_line(cell=tag in _CELLS)

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self._parts.append(data)

    def lines(self) -> list[str]:
        self._end_line()
        return self._lines

    def _end_line(self, *, cell: bool = False) -> None:
        line = " ".join("".join(self._parts).split())
        self._parts.clear()
        if line or cell:
            # An empty cell of a table is one, too: without it the others would move.
            self._lines.append(line or "·")


def readable(html: str) -> tuple[str, list[str]]:
    """What a person would read of the page, in lines, and the sources of its pictures."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return "\n".join(reader.lines()), reader.pictures


def plain_drawing(svg: str) -> str:
    """The drawing without comments and metadata, and with its ids numbered in their order."""
    text = _COMMENT.sub("", svg)
    names = {name: f"id{number}" for number, name in enumerate(dict.fromkeys(_ID.findall(text)))}
    if names:
        known = re.compile(r"(?<=[\"'#])([^\"'#()\s]{1,200})(?=[\"')])")
        text = known.sub(lambda match: names.get(match[1], match[1]), text)
    return _BETWEEN_TAGS.sub(">\n<", text)
