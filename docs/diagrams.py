"""The pictures of the ways to run cellwright: boxes in columns, arrows between them, in light and dark."""

from dataclasses import dataclass, field
from html import escape

COLUMN, ROW = 250, 96
WIDTH, HEIGHT = 176, 62
EDGE = 18
STYLE = """
    .box { fill: #fff; stroke: #334155; stroke-width: 1.4 }
    .ours { fill: #e0f2fe; stroke: #0369a1; stroke-width: 1.4 }
    .frame { fill: none; stroke: #64748b; stroke-width: 1.2; stroke-dasharray: 5 4 }
    .line { stroke: #475569; stroke-width: 1.6; fill: none; marker-end: url(#head) }
    .asks { stroke-dasharray: 4 4 }
    .name { font-weight: 600; fill: #0f172a } .small { font-size: 12px; fill: #334155 }
    @media (prefers-color-scheme: dark) {
      .box { fill: #0f172a; stroke: #94a3b8 } .ours { fill: #082f49; stroke: #38bdf8 } .frame { stroke: #94a3b8 }
      .line { stroke: #94a3b8 } .name { fill: #f8fafc } .small { fill: #cbd5e1 }
    }
"""


@dataclass(frozen=True)
class Box:
    """Something that runs, or somebody, in a column and a row; both may be halves."""

    column: float
    row: float
    name: str
    detail: str = ""
    ours: bool = False

    @property
    def left(self) -> float:
        return EDGE + self.column * COLUMN

    @property
    def top(self) -> float:
        return EDGE + 26 + self.row * ROW

    @property
    def middle(self) -> float:
        return self.top + HEIGHT / 2

    def svg(self) -> str:
        kind = "ours" if self.ours else "box"
        centre = self.left + WIDTH / 2
        rows = [f'<rect class="{kind}" x="{self.left:g}" y="{self.top:g}" width="{WIDTH}" height="{HEIGHT}" rx="8"/>']
        at = self.middle + (-3 if self.detail else 5)
        rows.append(f'<text class="name" x="{centre:g}" y="{at:g}" text-anchor="middle">{escape(self.name)}</text>')
        if self.detail:
            rows.append(
                f'<text class="small" x="{centre:g}" y="{at + 19:g}" text-anchor="middle">{escape(self.detail)}</text>'
            )
        return "\n  ".join(rows)


@dataclass(frozen=True)
class Arrow:
    """Who speaks to whom, and how."""

    start: str
    end: str
    label: str = ""
    asks: bool = False
    """Dashed: a question on the side."""


@dataclass(frozen=True)
class Diagram:
    """A picture with its words for those who cannot see it."""

    alt: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    frame: tuple[str, tuple[str, ...]] | None = None
    """Boxes that are one process, and what it is called."""
    _named: dict[str, Box] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_named", {box.name: box for box in self.boxes})

    def svg(self) -> str:
        width = max(box.left for box in self.boxes) + WIDTH + EDGE
        height = max(box.top for box in self.boxes) + HEIGHT + EDGE + 10
        parts = [self._frame(), *(self._arrow(arrow) for arrow in self.arrows), *(box.svg() for box in self.boxes)]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="system-ui, sans-serif" '
            f'font-size="14" role="img" aria-label="{escape(self.alt, quote=True)}">\n  <style>{STYLE}  </style>\n'
            '  <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0 8 4 0 8z" fill="#64748b"/></marker></defs>\n  '
            + "\n  ".join(part for part in parts if part)
            + "\n</svg>\n"
        )

    def _frame(self) -> str:
        if self.frame is None:
            return ""
        name, inside = self.frame
        boxes = [self._named[one] for one in inside]
        left, top = min(box.left for box in boxes) - 14, min(box.top for box in boxes) - 30
        width = max(box.left for box in boxes) + WIDTH + 14 - left
        height = max(box.top for box in boxes) + HEIGHT + 14 - top
        return (
            f'<rect class="frame" x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="10"/>\n  '
            f'<text class="small" x="{left + 12:g}" y="{top + 18:g}">{escape(name)}</text>'
        )

    def _arrow(self, arrow: Arrow) -> str:
        start, end = self._named[arrow.start], self._named[arrow.end]
        kind = "line asks" if arrow.asks else "line"
        if start.column == end.column:
            down = end.row > start.row
            x = start.left + WIDTH / 2
            ends = (start.top + HEIGHT, end.top - 3) if down else (start.top, end.top + HEIGHT + 3)
            return self._labelled(
                f"M{x:g} {ends[0]:g} V{ends[1]:g}", kind, arrow.label, x + 8, sum(ends) / 2 + 4, "start"
            )
        x1, x2 = start.left + WIDTH, end.left - 3
        turn = (x1 + x2) / 2
        path = f"M{x1:g} {start.middle:g} C{turn:g} {start.middle:g} {turn:g} {end.middle:g} {x2:g} {end.middle:g}"
        return self._labelled(path, kind, arrow.label, turn, (start.middle + end.middle) / 2 - 7, "middle")

    @staticmethod
    def _labelled(path: str, kind: str, label: str, x: float, y: float, anchor: str) -> str:
        text = f'<text class="small" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(label)}</text>' if label else ""
        return f'<path class="{kind}" d="{path}"/>{text}'


DIAGRAMS = {
    "stdio": Diagram(
        "The client starts cellwright as its child and speaks to it over pipes; cellwright and people use the same Jupyter server.",
        (
            Box(0, 0, "MCP client", "editor or desktop app"),
            Box(1, 0, "cellwright", "child of the client", ours=True),
            Box(2, 0.5, "Jupyter server", "yours, or our own child"),
            Box(1, 1, "you", "JupyterLab in a browser"),
            Box(3, 0.5, "kernels", "where cells run"),
        ),
        (
            Arrow("MCP client", "cellwright", "pipes"),
            Arrow("cellwright", "Jupyter server"),
            Arrow("you", "Jupyter server"),
            Arrow("Jupyter server", "kernels"),
        ),
    ),
    "http": Diagram(
        "Several agents, each with a token, call one cellwright server over HTTP; it uses the Jupyter server that people use.",
        (
            Box(0, 0, "agent A", "POST /mcp, token A"),
            Box(0, 1, "agent B", "POST /mcp, token B"),
            Box(1, 0.5, "the gate", "token, scope, limits", ours=True),
            Box(2, 0.5, "cellwright", "MCP server", ours=True),
            Box(3, 0, "Jupyter server", "documents and kernels"),
            Box(3, 1, "people", "JupyterLab, the page"),
        ),
        (
            Arrow("agent A", "the gate"),
            Arrow("agent B", "the gate"),
            Arrow("the gate", "cellwright"),
            Arrow("cellwright", "Jupyter server"),
            Arrow("people", "Jupyter server"),
        ),
        ("cellwright serve, one process", ("the gate", "cellwright")),
    ),
    "extension": Diagram(
        "Agents and people reach one Jupyter process; inside it cellwright works on the same contents, kernels and documents.",
        (
            Box(0, 0, "agent", "/mcp, Jupyter's token"),
            Box(0, 1, "people", "/lab in a browser"),
            Box(1, 0.5, "web server", "login and authorizer"),
            Box(2, 0, "cellwright", "calls, no network", ours=True),
            Box(2, 1, "Jupyter's managers", "files, documents, kernels"),
            Box(3, 1, "kernels", "where cells run"),
        ),
        (
            Arrow("agent", "web server"),
            Arrow("people", "web server"),
            Arrow("web server", "cellwright"),
            Arrow("web server", "Jupyter's managers"),
            Arrow("cellwright", "Jupyter's managers"),
            Arrow("Jupyter's managers", "kernels"),
        ),
        ("Jupyter Server, one process", ("web server", "cellwright", "Jupyter's managers")),
    ),
    "hub": Diagram(
        "Through JupyterHub's proxy each user's agent reaches that user's own server, with cellwright inside it.",
        (
            Box(0, 0, "agent of user A", "A's token of the Hub"),
            Box(0, 1, "agent of user B", "B's token of the Hub"),
            Box(1, 0.5, "the Hub's proxy", "/user/NAME/mcp"),
            Box(2, 0, "A's server", "with cellwright inside", ours=True),
            Box(2, 1, "B's server", "with cellwright inside", ours=True),
            Box(3, 0.5, "JupyterHub", "knows whose token it is"),
        ),
        (
            Arrow("agent of user A", "the Hub's proxy"),
            Arrow("agent of user B", "the Hub's proxy"),
            Arrow("the Hub's proxy", "A's server"),
            Arrow("the Hub's proxy", "B's server"),
            Arrow("A's server", "JupyterHub", asks=True),
            Arrow("B's server", "JupyterHub", asks=True),
        ),
    ),
}
