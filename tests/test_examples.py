"""What people are invited to try works in a plain installation."""

import ast
import json
import re
import sys
from collections.abc import Iterator

from cellwright.app.offers.prompts import EXPLORE, REPRODUCE, RESUME, SUMMARISE
from cellwright.notebook.model import Kind
from cellwright.thinking.templates import TEMPLATES
from locations import ROOT
from requirements import requirement

EXAMPLES = ROOT / "examples"
ALWAYS_THERE = {*sys.stdlib_module_names, "IPython"}
NEEDS_A_PACKAGE = re.compile(r"\b(plot\w*|chart\w*|matplotlib|pandas|numpy|seaborn|plotly|dataframe)\b", re.IGNORECASE)


def imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module).partition(".")[0]


@requirement("python:examples")
def test_example_notebooks_need_nothing_but_python() -> None:
    files = sorted(EXAMPLES.rglob("*.ipynb"))
    assert files
    for file in files:
        for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code":
                assert set(imported(source)) <= ALWAYS_THERE, file
            assert not NEEDS_A_PACKAGE.search(source), file


@requirement("python:examples")
def test_prompts_and_templates_need_nothing_but_python() -> None:
    for passages in (EXPLORE, REPRODUCE, RESUME, SUMMARISE):
        assert not NEEDS_A_PACKAGE.search("".join(passage.text for passage in passages))
    for template in TEMPLATES.values():
        for cell in template.notebook.cells:
            if cell.kind is Kind.CODE:
                assert set(imported(cell.source)) <= ALWAYS_THERE, template.name
