"""Where a grammar is sure that code is broken, and where it only warns."""

from collections.abc import AsyncIterator

import pytest

from cellwright.scratch.validation.model import CellToCheck
from cellwright.scratch.validation.validators import Validators
from cellwright.workers.pool import WorkerPool
from requirements import requirement

pytestmark = pytest.mark.anyio

BROKEN = {
    "typescript": (
        "function f(a: string {\n  return a;\n}\n",
        "class A {\n  f() { return [1, 2; }\n}\n",
        "const a = { b: 1 ;\n",
        "if (x) { y(); }}\n",
    ),
    "c": ("int main(void) {\n  return 0;\n", "int f(int a { return a; }\n", "int x[3 = {1, 2, 3};\n"),
    "cpp": ("class A { public: int f( { return 1; } };\n", "int main() { std::vector<int> v{1, 2; }\n"),
    "c-header": ("struct a { int x;\n", "int f(int a;\n"),
    "css": ("a { color: red;\n", "a { color: red; }}\n", "a { color: rgb(1, 2; }\n"),
    "ruby": ("class A\n  def f\n    1\n  end\n", "puts [1, 2\nx = 3\n", "def f(x\n  x\nend\n"),
    "php": ("<?php\nfunction f() {\n  return 1;\n", "<?php\n$a = ;\n", "echo (1;\n"),
    "bash": (
        "if [ -f x ]; then\n  echo yes\n",
        "for f in a b; do\n  echo $f\n",
        "while true; do\n  if x; then y; fi\n",
        "if true; then echo",
        "for i in 1 2; do echo $i",
    ),
}
SOUND = {
    "typescript": (
        "const a = `${b}_${`${c}`}`;\nconst r = /[({]/.test(s) ? '(' : \"[\"; // :-(\n",
        "export const f: import('./m').F<string, (a: number) => void> = g;\n",
        "type R<T> = T extends `${infer A}{${infer B}` ? [A, B] : never;\n",
    ),
    "c": (
        "#if A\nint f(int a) {\n#else\nint f(void) {\n#endif\n  return 0;\n}\n",
        "#define OPEN {\n#define TEXT \"(\"\nint main(void) OPEN return '('; }\n",
        "#define BOTH(a) \\\n  do { (a); \\\n  } while (0)\nvoid f(void) { BOTH(1); }\n",
    ),
    "cpp": (
        "template <class T> auto f(T t) -> decltype(t[0]) { return t[{}]; }\n",
        'auto raw = R"x(({[)x"; // {\n',
        "#ifdef A\nnamespace a {\n#endif\nint x;\n#ifdef A\n}\n#endif\n",
    ),
    "c-header": ("#ifndef A_H\n#define A_H\nextern int f(int (*g)(char [2]));\n#endif\n",),
    "css": ('a::before { content: "{(["; }\n', "@supports not (display: grid) { a { b: url(data:x;base64,AA==) } }\n"),
    "ruby": (
        'puts "#{a.map { |x| "#{x})" }.join}" if %w(a b).any?\n',
        "x = <<~A\n  ((({ #{y}\nA\nr = /[(]/\nc = ?(\n",
    ),
    "php": ("<?php\n$a = \"{$b['c']} ${d} (\"; // (\n?>\n<p>:-(</p>\n", "<?php if ($a): ?>\n(\n<?php endif;\n"),
    "bash": (
        'case $1 in\n  a) echo "(";;\n  (b) echo ${c#\\(};;\nesac\n',
        "cat <<'E'\nif ( { [\nE\n",
        'x=$(( (1 + 2) << 3 ))\n[[ $x =~ ^\\($ ]] && echo "${x:-)}"\n',
    ),
}
# Broken, but not provably so: their grammars say the same of some good code.
DOUBTFUL = {
    "typescript": "interface A { x: ; }\nconst y: number = ;\n",
    "c": "int main(void) { int x = ; }\n",
    "css": "a { : ; }\n",
    "bash": "f() {\n  echo hi\n",
    "tsx": "const A = <B x={ />;\n",
}


@pytest.fixture(scope="module")
async def validators() -> AsyncIterator[Validators]:
    running = Validators(WorkerPool())
    yield running
    await running.pool.close()


def cells(samples: dict[str, tuple[str, ...]]) -> list[CellToCheck]:
    return [CellToCheck(text, language, text) for language, texts in samples.items() for text in texts]


@requirement("scratch:validation:certain")
async def test_code_that_is_certainly_broken_is_invalid_with_its_place(validators: Validators) -> None:
    for found in await validators.validate(cells(BROKEN), {}, 30.0):
        assert (found.status, found.valid) == ("invalid", False), (found.language, found.cell_id)
        assert found.diagnostics[0].line is not None
    (found,) = await validators.validate([CellToCheck("c", "ts", "let a = f(1;\nlet b = 2;\n")], {}, 30.0)
    first = found.diagnostics[0]
    assert (first.severity, first.message, first.line, first.column) == ("error", "'(' is never closed", 1, 10)


@requirement("scratch:validation:certain")
async def test_sound_code_is_never_called_invalid(validators: Validators) -> None:
    for found in await validators.validate(cells(SOUND), {}, 30.0):
        assert found.status in {"valid", "warning"}, (found.language, found.cell_id, found.diagnostics)


@requirement("scratch:validation:certain")
async def test_what_is_not_certain_is_a_warning(validators: Validators) -> None:
    asked = [CellToCheck(language, language, text) for language, text in DOUBTFUL.items()]
    for found in await validators.validate(asked, {}, 30.0):
        assert (found.status, found.valid) == ("warning", True), (found.language, found.diagnostics)
