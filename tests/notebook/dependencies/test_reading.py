"""Reading cells of any text, and as a job."""

import importlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.notebook.dependencies.foreign import grammars
from cellwright.notebook.dependencies.jobs import names_from, read_cells
from cellwright.notebook.dependencies.model import NOTHING
from cellwright.notebook.dependencies.reading import names_of
from cellwright.workers.pool import WorkerPool
from requirements import requirement

LANGUAGES = ("python", "javascript", "julia", "bash", "R", "")
PIECES = (
    *(
        "x",
        "a",
        "=",
        "(",
        ")",
        "[",
        "]",
        ":",
        "\n",
        " ",
        "    ",
        ".",
        ",",
        "def f",
        "class",
        "for",
        "in",
        "if",
        "import",
        "lambda",
        "*",
    ),
    *(
        "%",
        "%%time",
        "!",
        "?",
        "$x",
        "{a}",
        "'",
        '"',
        "@",
        "del",
        "global",
        "await",
        "try",
        "except",
        "with",
        "as",
        "yield",
        "return",
    ),
    *(
        "break",
        "raise",
        "\\",
        "#",
        ";",
        "&&",
        "|",
        "<-",
        "->",
        "=>",
        "end",
        "function",
        "begin",
        "let",
        "\x00",
        "\ud800",
        "é",
    ),
)
texts = st.text(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join)


@requirement("stale:reading:any-text")
@pytest.mark.parametrize("language", LANGUAGES)
@given(text=texts)
def test_any_text_is_read_or_said_to_be_unknown(language: str, text: str) -> None:
    names = names_of(text, language)
    assert not (names.unknown and (names.defines or names.uses))
    assert not names.defines & names.perhaps


@requirement("stale:reading:any-text")
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + ")" * 10_000,
        "x = " + "1+" * 500_000 + "1",
        "x = 1\x00",
        "x = '\ud800'",
        "-" * 100_000 + "1",
        "a" + ".b" * 50_000,
        "%%time\n" * 3_000 + "x = 1",
        "x" + "[0]" * 3_000,
        "{" * 5_000,
        "f(" * 3_000,
    ],
    ids=[
        "parentheses",
        "megabyte",
        "nul",
        "surrogate",
        "signs",
        "attributes",
        "magic",
        "subscripts",
        "braces",
        "calls",
    ],
)
def test_hostile_texts_are_unknown(language: str, text: str) -> None:
    began = time.monotonic()
    names_of(text, language)
    assert time.monotonic() - began < 20


@requirement("stale:reading:any-text")
def test_functions_that_call_each_other_cost_no_more_than_there_are() -> None:
    pairs = [
        f"def f{i}(a): return f{i - 1}(a) + g{i - 1}(a)\ndef g{i}(a): return f{i - 1}(a) + g{i - 1}(a)"
        for i in range(1, 60)
    ]
    names = names_of("\n".join(["def f0(a): a.pop(x)\ndef g0(a): return y", *pairs, "f59(q)"]), "python")
    assert {"x", "y", "q"} <= names.uses


@requirement("stale:reading:job")
def test_cells_are_read_as_a_job() -> None:
    sources = [
        "x = a",
        "def f(p):\n    p.append(g)\n    h(p)",
        "b = c['k']\nb.sort()\nq(b)",
        "(",
        "exec(t)",
        "class A:\n    def m(self): self.x = 1",
    ]
    answer = json.loads(json.dumps(read_cells(sources, "python")()))
    assert names_from(answer) == [names_of(source, "python") for source in sources]
    assert names_from({"cells": [{}]}) == [NOTHING]


@requirement("stale:reading:job")
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("language", "source"),
    [("python", "%time x = a\n!ls {b}"), ("julia", "x = a"), ("javascript", "let x = a"), ("R", "x")],
)
async def test_the_job_can_be_done_by_a_confined_process(language: str, source: str) -> None:
    pool = WorkerPool(processes=1)
    try:
        answer = await pool.run(read_cells, size=1_000_000, sources=[source, "(" * 20_000], language=language)
    finally:
        await pool.close()
    first, second = names_from(answer)
    assert first == names_of(source, language)
    assert second.unknown


@requirement("stale:reading:unknown")
def test_what_cannot_be_read_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no python that can be read" in names_of("x = (", "python").unknown
    assert names_of("x <- 1", "R").unknown == "cells in r are not read"
    assert "language is not known" in names_of("x", "").unknown

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    grammars.forget()
    assert names_of("x = 1", "julia").unknown == (
        "no grammar for julia is installed: install tree-sitter and tree-sitter-julia"
    )
    monkeypatch.undo()
    grammars.forget()
    assert names_of("x = 1", "julia").defines == {"x"}


@requirement("stale:reading:languages")
@pytest.mark.parametrize(
    ("language", "source", "defines", "perhaps", "changes", "uses"),
    [
        ("javascript", "const {a, b: [c]} = f(x.y); let z = a", "a c z", "", "", "f x"),
        ("javascript", "x.k = 1; n++; delete o.k; xs.push(1)", "n", "", "o x xs", "n o x xs"),
        ("javascript", "for (const i of xs) { w = i }", "", "w", "", "xs"),
        ("javascript", "if (t) { let s = 1; r = s }", "", "r", "", "t"),
        ("javascript", "const h = (d, e = k) => { d.push(g) }; h(es)", "h", "", "es", "es g k"),
        ("javascript", "class A extends B { m() { return z } }", "A", "", "", "B"),
        ("javascript", "import d from 'e'; import {x as y} from 'z'", "d y", "", "", ""),
        ("javascript", "xs.map(x => x + k)", "", "", "", "k xs"),
        ("julia", "x = a + 1; y, z = f(b)", "x y z", "", "", "a b f"),
        ("julia", 'd["k"] = 1\no.f = 2\npush!(ys, i)\nn += 1', "n", "", "d o ys", "d i n o push! ys"),
        ("julia", "for i in xs\n  s = i\nend", "", "s", "", "xs"),
        ("julia", "g(p) = p + w", "", "g", "", ""),
        ("julia", "function g(p; q=k)\n  p[1] = 2\nend\ng(v)", "", "g", "v", "g k v"),
        ("julia", "[e for e in es if e > t]", "", "", "", "es t"),
        ("julia", "using A: b\nimport C\n@time t = f(1)", "C b t", "", "", "f"),
        ("bash", "X=$A\nexport Y=$X", "X Y", "", "", "A"),
        ("bash", "for i in $L; do echo $i; done", "", "i", "", "L"),
        ("bash", "A+=b; read R; unset V", "R V", "", "A", "A"),
        ("bash", "(X=1); echo $X", "", "", "", "X"),
        ("bash", "echo x > y.txt", "<file y.txt>", "", "<any file>", "<folder>"),
        ("bash", "f() { local q=$1; echo $q $G; }\nf", "<command f>", "", "", "G"),
    ],
)  # fmt: skip
def test_other_languages(language: str, source: str, defines: str, perhaps: str, changes: str, uses: str) -> None:
    names = names_of(source, language)
    assert names.unknown == ""
    found = [" ".join(sorted(each)) for each in (names.defines, names.perhaps, names.changes, names.uses)]
    assert found == [defines, perhaps, changes, uses]


@requirement("stale:reading:languages")
@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("javascript", "eval(x)"), ("javascript", "const a = require('./a')"), ("javascript", "import './a.js'"),
        ("julia", 'include("a.jl")'), ("julia", "eval(x)"), ("julia", "@model f(x)"), ("julia", "using A"),
        ("bash", "source ./a.sh"), ("bash", "eval $x"), ("bash", "$x a"),
    ],
)  # fmt: skip
def test_other_languages_say_what_hides_names(language: str, source: str) -> None:
    names = names_of(source, language)
    assert names.opaque or names.stars
