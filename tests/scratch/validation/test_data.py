"""JSON, YAML, TOML, Markdown and Python: what is said about their content, and where."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from cellwright.scratch.validation.checked import Path
from cellwright.scratch.validation.checks import yaml_text
from cellwright.scratch.validation.checks.json_scan import NotJson, find, scan
from cellwright.scratch.validation.languages import LANGUAGES
from cellwright.scratch.validation.model import CellToCheck, Diagnostic, Validation
from cellwright.scratch.validation.validators import Validators
from cellwright.workers.pool import WorkerPool
from requirements import requirement

pytestmark = pytest.mark.anyio

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
PLAIN_TEXT = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), max_size=8)
YAML_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | PLAIN_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PLAIN_TEXT, inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
async def validators() -> AsyncIterator[Validators]:
    running = Validators(WorkerPool())
    yield running
    await running.pool.close()


async def checked(validators: Validators, language: str, text: str, schema: object = None) -> Validation:
    (found,) = await validators.validate([CellToCheck("c", language, text, schema)], {}, 30.0)
    return found


def places(found: Validation) -> list[tuple[str, int | None, int | None]]:
    return [(one.severity, one.line, one.column) for one in found.diagnostics]


def said(found: Validation) -> str:
    return " | ".join(one.message for one in found.diagnostics)


def strict(text: str) -> bool:
    def no(_name: str) -> Any:
        raise ValueError

    try:
        json.loads(text, parse_constant=no)
    except ValueError:
        return False
    return True


def scanned(text: str) -> bool:
    try:
        scan(text)
    except NotJson:
        return False
    return True


@requirement("scratch:validation:json")
@given(JSON_VALUES.map(json.dumps), st.data())
@settings(max_examples=150, deadline=None)
def test_our_reader_of_json_agrees_with_the_standard_one(text: str, data: st.DataObject) -> None:
    """Also on texts that were damaged in one place."""
    at = data.draw(st.integers(0, len(text)))
    damaged = (
        text[:at] + data.draw(st.sampled_from(list('{}[]",:\\0-.e \n1nt'))) + text[at + data.draw(st.integers(0, 1)) :]
    )
    for candidate in (text, damaged):
        assert scanned(candidate) == strict(candidate)


def walk(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    elif isinstance(value, list):
        inner = list(enumerate(value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return [(path, value), *(found for key, child in inner for found in walk(child, (*path, key)))]


@requirement("scratch:validation:places")
@given(JSON_VALUES, st.sampled_from([None, 2]))
@settings(max_examples=100, deadline=None)
def test_every_value_in_json_is_found_at_its_place(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    wanted = dict(walk(value))
    found = scan(text, wanted.keys()).places
    assert found.keys() == wanted.keys()
    assert find(text, wanted.keys()) == found
    for path, offset in found.items():
        assert json.JSONDecoder().raw_decode(text, offset)[0] == wanted[path]


@requirement("scratch:validation:yaml")
@given(YAML_VALUES)
@settings(max_examples=60, deadline=None)
def test_yaml_is_read_as_another_reader_of_version_1_2_reads_it(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    (yaml,) = [language for language in LANGUAGES if language.name == "yaml"]
    result = yaml_text.check(text, yaml)
    other: Any = YAML(typ="safe", pure=True)
    assert [document.data for document in result.documents] == [other.load(text)]


@requirement("scratch:validation:json")
@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('{"a": [1, NaN]}', (1, 11), "NaN"),
        ("[1,\n -Infinity]", (2, 2), "Infinity"),
        ("{'a': 1}", (1, 2), "double quotes"),
        ("[1, 2,\n]", (1, 6), "comma"),
        ('{"a" 1}', (1, 6), "expected :"),
        ("[1] [2]", (1, 5), "more text"),
        ('"a\tb"', (1, 3), "escaped"),
        ('"\\x"', (1, 2), "escape"),
        ('"abc', (1, 1), "never ends"),
        ("[True]", (1, 2), "Python"),
        ("// x\n1", (1, 1), "comments"),
        ("", (1, 1), "text ends"),
        ("01", (1, 2), "more text"),
    ],
)
async def test_json_is_strict_and_says_what_is_wrong_where(
    validators: Validators, text: str, place: tuple[int, int], words: str
) -> None:
    found = await checked(validators, "json", text)
    assert (found.status, places(found)) == ("invalid", [("error", *place)])
    assert words in said(found)


@requirement("scratch:validation:json")
async def test_a_key_that_stands_twice_is_a_warning_with_its_place(validators: Validators) -> None:
    found = await checked(validators, "json", '{"o": [{"a": 1,\n  "a": 2}]}')
    assert (found.status, places(found), found.diagnostics[0].path) == ("warning", [("warning", 2, 3)], "$.o[0].a")


@requirement("scratch:validation:json")
async def test_large_numbers_are_json(validators: Validators) -> None:
    found = await checked(validators, "json", f"[1e999, {'9' * 5000}]")
    assert found.status == "valid"


@requirement("scratch:validation:yaml")
async def test_yaml_with_several_documents_and_anchors_is_valid(validators: Validators) -> None:
    text = "base: &base {a: 1}\nmore:\n  <<: *base\n  b: 2\n---\n- x\n---\nthird: yes indeed\n"
    assert (await checked(validators, "yml", text)).status == "valid"


@requirement("scratch:validation:yaml")
async def test_a_yaml_key_that_stands_twice_is_an_error_with_its_place(validators: Validators) -> None:
    found = await checked(validators, "yaml", "list:\n  - a: 1\n  - b: 1\n    c: 2\n    b: 3\n")
    assert (found.status, places(found), found.diagnostics[0].path) == ("invalid", [("error", 5, 5)], "$.list[1].b")


@requirement("scratch:validation:yaml")
@pytest.mark.parametrize(
    ("value", "meaning"), [("no", "false"), ("On", "true"), ("0644", "420"), ("22:30", "sixty"), ("1_000", "number")]
)
async def test_values_that_older_readers_take_for_something_else_are_warned_of(
    validators: Validators, value: str, meaning: str
) -> None:
    found = await checked(validators, "yaml", f"a: {value}\nb: '{value}'\n{value}: key\n")
    assert (found.status, places(found)) == ("warning", [("warning", 1, 4)])
    assert meaning in said(found)


@requirement("scratch:validation:yaml")
@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("a: &a [1, *a]", "invalid", "contains itself"),
        ("a: *b", "invalid", "nothing is named"),
        ("a: !!python/object/apply:os.system ['id']", "warning", "asks a reader to run code"),
        ("a:\n\t- b", "invalid", "found"),
        ("<<: [1]\n", "invalid", "merges mappings"),
        ("a: \x01", "invalid", "control characters are not allowed"),
        ("a: !Ref b\nc: !!int 3\n? [x, y]\n: z\n", "valid", ""),
    ],
)
async def test_yaml_findings(validators: Validators, text: str, status: str, words: str) -> None:
    found = await checked(validators, "yaml", text)
    assert (found.status, words in said(found)) == (status, True)


@requirement("scratch:validation:toml")
@pytest.mark.parametrize(("text", "place"), [("a = 1\na = 2\n", (2, 6)), ("a = [1,\n", (2, 1))])
async def test_toml_findings_have_their_place(validators: Validators, text: str, place: tuple[int, int]) -> None:
    found = await checked(validators, "toml", text)
    assert (found.status, places(found)) == ("invalid", [("error", *place)])


@requirement("scratch:validation:markdown")
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("# A\n\n~~~~py\nx\n~~~\n", 3, "never closed"),
        ("# A\n\n#### B\n", 3, "level 4"),
        ("# A b\n\n[x](#a-c)\n", 3, "#a-c"),
        ("text\n\n[x][nowhere]\n", 3, "[nowhere]"),
        ("a [x]() b\n", 1, "nowhere"),
    ],
)
async def test_markdown_is_always_valid_and_slips_are_warned_of(
    validators: Validators, text: str, line: int, words: str
) -> None:
    found = await checked(validators, "md", text)
    assert (found.status, [one.line for one in found.diagnostics]) == ("warning", [line])
    assert words in said(found)


@requirement("scratch:validation:markdown")
async def test_good_markdown_has_no_warnings(validators: Validators) -> None:
    text = (
        "---\ntitle: x\n---\n\n# Ä & b `c`\n\n[a](#ä--b-c) [b](#here) [c][d] [e](https://x.example/#frag)\n\n<a id='here'></a>\n\n"
        "- item\n  ```sh\n  ls\n  ```\n\n> ```\n> x\n> ```\n\n````md\n```\n````\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n[d]: http://x.example\n"
    )
    assert said(await checked(validators, "markdown", text)) == ""


@requirement("scratch:validation:python")
@pytest.mark.parametrize(
    "text",
    [
        "%matplotlib inline\nfiles = !ls *.py\nprint?\nfor x in y:\n    %time f(x)\n    !echo {x}\nawait z\n",
        "%%timeit -n 3\nf(1)\n",
        "x = (a\n     % b)\n",
        "\n%%time\nx = 1\n",
        "# -*- coding: nonsense -*-\nx = 'é'\n",
        "@__import__('os').system\ndef f(): ...\n",
    ],
)
async def test_python_as_notebooks_have_it_is_valid(validators: Validators, text: str) -> None:
    found = await checked(validators, "python", text)
    assert (found.status, said(found)) == ("valid", "")


@requirement("scratch:validation:python")
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("%load_ext x\nx = (1\n", (2, 5)),
        ("%%time\n\nx = = 1\n", (3, 5)),
        ("def f():\nreturn 1\n", (2, 1)),
        ("return 1\n", (1, 1)),
    ],
)
async def test_python_errors_have_their_place(validators: Validators, text: str, place: tuple[int, int]) -> None:
    found = await checked(validators, "py", text)
    assert (found.status, places(found)) == ("invalid", [("error", *place)])


@requirement("scratch:validation:python")
async def test_what_the_compiler_warns_of_is_a_warning_and_other_languages_magics_are_left_alone(
    validators: Validators,
) -> None:
    warned = await checked(validators, "python", "x = 1\nif x is 1: pass\n")
    assert (warned.status, warned.diagnostics[0].line) == ("warning", 2)
    other = await checked(validators, "python", "%%bash\nif [ -f x ]; then (\n")
    assert (other.status, [one.severity for one in other.diagnostics]) == ("valid", ["info"])


@requirement("scratch:validation:bounded")
async def test_findings_are_capped_and_say_so_with_errors_first(validators: Validators) -> None:
    text = "\n".join(f"k{number}: no" for number in range(60)) + "\nk1: 1\n"
    found = await checked(validators, "yaml", text)
    assert len(found.diagnostics) == 51
    assert found.diagnostics[-1] == Diagnostic(
        "info", "only the first 50 findings are shown; there are more", source="validator"
    )
    assert found.status == "invalid"
    assert found.diagnostics[0].severity == "error"
