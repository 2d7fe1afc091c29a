"""The promises and their proofs, checked in both directions."""

import ast
from pathlib import Path

from locations import TESTS
from requirements import REQUIREMENTS


def _named_in(file: Path) -> list[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [
        str(argument.value)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Name)
        and decorator.func.id == "requirement"
        for argument in decorator.args
        if isinstance(argument, ast.Constant)
    ]


def test_every_promise_has_a_proof_and_every_proof_a_promise() -> None:
    named = {name for file in TESTS.rglob("test_*.py") for name in _named_in(file)}
    assert named - REQUIREMENTS.keys() == set(), "tests name promises that do not exist"
    assert REQUIREMENTS.keys() - named == set(), "promises without a test"


def test_every_promise_is_a_sentence() -> None:
    assert [name for name, sentence in REQUIREMENTS.items() if not sentence.endswith(".")] == []
