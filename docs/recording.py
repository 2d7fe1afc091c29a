"""The picture of a run in README: real calls of a real client and what was answered, drawn as a transcript.

python docs/recording.py            records a run into img/run.json and draws img/run.svg
python docs/recording.py --draw     draws what was recorded before
"""

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

FOLDER = Path(__file__).parent / "img"
RECORD, DRAWING = FOLDER / "run.json", FOLDER / "run.svg"
NOTEBOOK = "analysis/tides.ipynb"
TIDES = "day,level\nMon,2.4\nTue,2.9\nWed,n/a\nThu,3.1\n"
CELLS = (
    {"type": "markdown", "content": "# Tides"},
    {"content": "import csv\nrows = list(csv.DictReader(open('../tides.csv')))\nlen(rows)"},
    {"content": "levels = [float(row['level']) for row in rows]\nmax(levels)"},
    {"content": "f'{len(levels)} days, {sum(levels) / len(levels):.2f} m on average'"},
)


@dataclass(frozen=True)
class Step:
    """A call and its answer."""

    tool: str
    arguments: dict[str, Any]
    failed: bool
    answer: dict[str, Any]


@contextmanager
def server() -> Generator[StdioServerParameters]:
    """How to start cellwright on a folder with a file in it, and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "work")
        root.mkdir()
        (root / "tides.csv").write_text(TIDES, encoding="utf-8")
        environ = {name: value for name, value in os.environ.items() if not name.startswith("CELLWRIGHT_")}
        yield StdioServerParameters(
            command=sys.executable,
            args=["-m", "cellwright", "--root", str(root), "--state-dir", f"{folder}/state", "--log-level", "error"],
            env={**environ, "JUPYTER_RUNTIME_DIR": f"{folder}/runtime"},
        )


async def record() -> list[Step]:
    """Do it: a notebook in a new folder, a cell that fails, mended, and the rest run."""
    steps: list[Step] = []
    with server() as parameters:
        async with Client(parameters, cache=None) as client:

            async def call(tool: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
                result = await client.call_tool(tool, {"path": NOTEBOOK, **arguments})
                steps.append(Step(tool, arguments, bool(result.is_error), dict(result.structured_content or {})))
                return steps[-1].answer

            created = await call("create_nb", cells=list(CELLS))
            failed = created["cells"][2]["id"]
            await call("execute_nb_cells", cells="all")
            await call("edit_nb_cell", cell=failed, old="in rows]", new="in rows if row['level'] != 'n/a']")
            await call("execute_nb_cells", cells="below", ranges=[{"id": failed}])
    return steps


# -- as a transcript -------------------------------------------------------------------------------------------------------------

Line = tuple[str, str]
"""How it is meant, and what it says."""


def transcript(steps: list[Step]) -> Iterator[Line]:
    """What a person would want to see of it, line by line."""
    for number, step in enumerate(steps):
        if number:
            yield "gap", ""
        yield "call", f"{step.tool}  {_arguments(step)}".rstrip()
        if step.tool == "create_nb":
            for cell in CELLS:
                yield from _source(cell)
        yield from _answer(step)


def _source(cell: Mapping[str, str]) -> Iterator[Line]:
    kind = "text" if cell.get("type") == "markdown" else "code"
    for number, line in enumerate(cell["content"].split("\n")):
        yield "source", f"  {'' if number else kind:4}  {line}"


def _arguments(step: Step) -> str:
    shown = {"path": NOTEBOOK, **{name: value for name, value in step.arguments.items() if name != "cells"}}
    if isinstance(step.arguments.get("cells"), str):
        shown["cells"] = step.arguments["cells"]
    return "  ".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in shown.items()
    )


def _answer(step: Step) -> Iterator[Line]:
    answer = step.answer
    if "diff" in answer:
        for line in answer["diff"].split("\n"):
            if re.match(r"[-+](?![-+])", line):
                yield {"-": "removed", "+": "added"}[line[0]], f"  {line[0]} {line[1:]}"
    for run in answer.get("execution_results", []):
        for output in run["outputs"]:
            if output["output_type"] == "error":
                yield "error", f"  [{run['execution_count']}] {output['ename']}: {output['evalue']}"
            else:
                yield "output", f"  [{run['execution_count']}] {output['data']['text/plain']}"
        if hint := run.get("error", {}).get("hint"):
            yield "hint", f"      → {hint}"
    folders = "".join(f", in the new folder {name}/" for name in answer.get("created_folders", []))
    yield "failed" if step.failed else "done", f"  {answer['message']}{folders}"


# -- as a drawing ----------------------------------------------------------------------------------------------------------------

WIDTH, EDGE, LETTER, LINE, BAR = 860, 22, 7.8, 20, 40
LONGEST = int((WIDTH - 2 * EDGE) / LETTER)
STYLE = """
    text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre }
    .window { fill: #ffffff; stroke: #cbd5e1 } .bar { fill: #f1f5f9 } .dot { fill: #cbd5e1 } .head { fill: #475569 }
    .call { fill: #0369a1; font-weight: 600 } .source { fill: #334155 } .output { fill: #0f172a } .hint { fill: #92400e }
    .error, .failed, .removed { fill: #b91c1c } .done, .added { fill: #15803d }
    @media (prefers-color-scheme: dark) {
      .window { fill: #0f172a; stroke: #334155 } .bar { fill: #1e293b } .dot { fill: #475569 } .head { fill: #cbd5e1 }
      .call { fill: #7dd3fc } .source { fill: #cbd5e1 } .output { fill: #f8fafc } .hint { fill: #fcd34d }
      .error, .failed, .removed { fill: #fca5a5 } .done, .added { fill: #86efac }
    }
"""


def drawing(steps: list[Step]) -> str:
    """The transcript as a window, in the reader's light or dark."""
    lines = [(kind, piece) for kind, text in transcript(steps) for piece in _pieces(text)]
    tops: list[str] = []
    y = BAR + LINE
    for kind, text in lines:
        if text:
            tops.append(f'  <text class="{kind}" x="{EDGE}" y="{y}">{escape(text, quote=False)}</text>')
        y += LINE // 2 if kind == "gap" else LINE
    height = y - LINE // 4
    said = "; ".join(text.strip() for kind, text in lines if kind in ("call", "failed", "done"))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(said)}">',
            f"  <style>{STYLE}  </style>",
            f'  <rect class="window" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
            f'  <path class="bar" d="M1 {BAR - 8}V9a8 8 0 0 1 8-8H{WIDTH - 9}a8 8 0 0 1 8 8V{BAR - 8}z"/>',
            *(f'  <circle class="dot" cx="{EDGE + 18 * at}" cy="17" r="5"/>' for at in range(3)),
            f'  <text class="head" x="{EDGE + 62}" y="22">calls of an MCP client, and what cellwright answered</text>',
            *tops,
            "</svg>\n",
        ]
    )


def _pieces(text: str) -> Iterator[str]:
    """The line, and what does not fit below it, further in."""
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    while len(text) > LONGEST:
        at = text.rfind(" ", len(indent) + 1, LONGEST)
        at = at if at > 0 else LONGEST
        yield text[:at].rstrip()
        text = indent + text[at:].lstrip()
    yield text


def recorded() -> list[Step]:
    return [Step(**step) for step in json.loads(RECORD.read_text(encoding="utf-8"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="draw what was recorded before")
    if not parser.parse_args().draw:
        steps = asyncio.run(record())
        text = json.dumps([asdict(step) for step in steps], indent=1, ensure_ascii=False)
        RECORD.write_text(text + "\n", encoding="utf-8")
    DRAWING.write_text(drawing(recorded()), encoding="utf-8")


if __name__ == "__main__":
    main()
