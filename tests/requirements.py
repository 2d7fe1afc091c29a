"""Every promise cellwright makes, as data: an id and a sentence.

A test names the promise it proves with `@requirement("id")`. `test_requirements.py` checks both directions: every promise has a
test, every test names a promise that exists, and no id is given twice.
"""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from locations import TESTS

F = TypeVar("F", bound=Callable[..., object])


def _promises(file: Path) -> dict[str, str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                assert isinstance(key, ast.Constant), f"{file.name}: keys are literal ids"
                name = str(key.value)
                assert name not in found, f"{file.name}: {name} stands twice"
                found[name] = str(ast.literal_eval(value))
    return found


def all_promises() -> dict[str, str]:
    """Read as syntax, not imported: a Python dict would hide an id that stands twice."""
    merged: dict[str, str] = {}
    for file in sorted((TESTS / "promises").glob("*.py")):
        for name, sentence in _promises(file).items():
            assert name not in merged, f"{name} is promised in two files"
            merged[name] = sentence
    return merged


REQUIREMENTS = all_promises()


def requirement(*ids: str) -> Callable[[F], F]:
    """Mark a test as the proof of these promises."""
    for name in ids:
        assert name in REQUIREMENTS, f"no promise {name!r} in tests/promises"

    def mark(test: F) -> F:
        return pytest.mark.requirement(*ids)(test)

    return mark
