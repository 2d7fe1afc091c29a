"""The probe as one program that runs in a kernel, which does not have our package."""

import ast
from functools import cache
from importlib.resources import files

PROBE = "cellwright.jupyter.variables.probe"
LOOKING = ("kinds", "shapes", "texts", "arrays", "tables", "pictures", "walking", "details", "looking")
"""The modules of the probe that look at variables, each after those that it needs."""
PROCESS = ("process",)


@cache
def joined(modules: tuple[str, ...]) -> str:
    """The sources of these modules as one, without what they import from each other."""
    texts = ["from __future__ import annotations\n"]
    for module in modules:
        source = (files(PROBE) / f"{module}.py").read_text(encoding="utf-8")
        lines = source.splitlines()
        for node in ast.parse(source).body:
            if isinstance(node, ast.ImportFrom) and node.module is not None and not is_foreign(node.module):
                lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
        texts.append("\n".join(lines))
    return "\n".join(texts)


def is_foreign(module: str) -> bool:
    return module != "__future__" and not module.startswith(PROBE)
