"""Every error that is raised says what to do next, and sentences are right."""

import ast
import importlib
import pkgutil
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import cellwright
from cellwright.core.text.counting import counted
from locations import DOCS
from requirements import requirement

SOURCE = Path(cellwright.__file__).parent
STARTS_THE_PROGRAM = "cellwright.__main__"


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program that finds the messages, with every kind of error loaded."""
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    for module in pkgutil.walk_packages(cellwright.__path__, "cellwright."):
        if module.name != STARTS_THE_PROGRAM:
            importlib.import_module(module.name)
    found = importlib.import_module("messages")
    assert Path(str(found.__file__)).parent == DOCS
    return found


@requirement("truth:hints")
def test_every_error_has_a_remedy(messages: Any) -> None:
    assert len(messages.messages(SOURCE)) > 400
    assert messages.without_remedy(SOURCE) == []


@requirement("truth:hints")
def test_an_error_without_a_remedy_is_found(messages: Any, tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text(
        'NotFound("no such thing here")\n'
        'NotFound("no such thing there", hint="look elsewhere")\n'
        'NotFound("No such thing", details={"reason": "there is none"})\n'
        'NotFound("no such thing anywhere", details={"other": 1})\n',
        encoding="utf-8",
    )
    assert messages.without_remedy(tmp_path) == [
        "part.py:1 no such thing here",
        "part.py:4 no such thing anywhere",
    ]


NOUNS = (
    "cells|ranges|outputs|occurrences|pads|schemas|notebooks|lines|files|folders|modules|blocks|kernels|rows|texts|keys"
)
PLURAL = re.compile(rf"^ (?:[a-z]+ )?(?:{NOUNS})\b")
COUNT = re.compile(r"^len\(|count|total|number|changed|checked|found|foreign|gone$")


def plurals(text: str) -> list[str]:
    """Where a sentence puts a noun in the plural after a number that may be one."""
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        pieces = node.values if isinstance(node, ast.JoinedStr) else []
        for value, after in pairwise(pieces):
            if (
                isinstance(value, ast.FormattedValue)
                and isinstance(after, ast.Constant)
                and PLURAL.match(str(after.value))
            ):
                number = ast.unparse(value.value)
                found += [f"{number}{after.value}"] if COUNT.search(number) and not number.isupper() else []
    return found


@requirement("truth:counted")
def test_a_number_agrees_with_its_noun() -> None:
    assert plurals('f"Inserted {len(ids)} cells"') == ["len(ids) cells"]
    wrong = {str(file): found for file in SOURCE.rglob("*.py") if (found := plurals(file.read_text(encoding="utf-8")))}
    assert wrong == {}
    said = [counted(number, "cell") for number in (0, 1, 2, 1_000)]
    assert said == ["0 cells", "1 cell", "2 cells", "1,000 cells"]
    assert [counted(2, noun) for noun in ("more match", "entry", "key", "box")] == [
        *("2 more matches", "2 entries", "2 keys", "2 boxes")
    ]
