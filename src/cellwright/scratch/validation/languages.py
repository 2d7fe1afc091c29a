"""The languages a cell may be in: their names, their aliases, and what checks them.

A grammar may call content invalid if it was wrong about fewer than one in a thousand of thousands of real files. Some others may
do so only with a proof that does not depend on them: brackets that do not pair, or an end that is missing at the very end. All
else is a warning: such a grammar does not know every construct of its language, and the content may be right. A cell in any
language that is not here is stored as it is and not validated.
"""

from dataclasses import dataclass
from typing import Literal

Checker = Literal["json_text", "yaml_text", "toml_text", "markdown_text", "python_text", "syntax", ""]


@dataclass(frozen=True, slots=True)
class Grammar:
    """A tree-sitter grammar: its package, the function that returns it, and how far its errors are trusted."""

    module: str
    function: str = "language"
    severity: Literal["error", "warning"] = "warning"
    brackets: bool = False
    """Content in which the grammar finds an error and whose brackets do not pair is certainly wrong."""
    unclear_with: tuple[str, ...] = ()
    """In content with one of these, brackets need not pair: the preprocessor of C makes several texts of it."""
    reads_into_strings: bool = False
    """The grammar takes brackets in strings and comments for real ones, so content that has them proves nothing."""
    endings: tuple[str, ...] = ()
    """Where one of these is missing at the very end, and nothing else is wrong, the content is certainly wrong."""
    with_text: str = ""
    """Used only for content that contains this."""
    without_text: str = ""
    """Used only for content that does not contain this."""

    def fits(self, content: str) -> bool:
        return self.with_text in content and not (self.without_text and self.without_text in content)

    @property
    def distribution(self) -> str:
        return self.module.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Language:
    """One language under its canonical name. Of several grammars the one with the fewest findings counts."""

    name: str
    aliases: tuple[str, ...] = ()
    checker: Checker = "syntax"
    grammars: tuple[Grammar, ...] = ()


def _sure(name: str, *aliases: str, module: str = "", function: str = "language") -> Language:
    grammar = Grammar(f"tree_sitter_{module or name}", function, "error")
    return Language(name, aliases, grammars=(grammar,))


def _unsure(name: str, *aliases: str, module: str = "", function: str = "language") -> Language:
    grammar = Grammar(f"tree_sitter_{module or name}", function)
    return Language(name, aliases, grammars=(grammar,))


def _paired(module: str, function: str = "language") -> Grammar:
    """A grammar whose errors count where brackets do not pair either."""
    preprocessed = ("#if", "# if", "#define", "# define") if module in {"c", "cpp"} else ()
    return Grammar(
        f"tree_sitter_{module}",
        function,
        brackets=True,
        unclear_with=preprocessed,
        reads_into_strings=module == "css",
    )


SEED_LANGUAGES = (
    Language("json", checker="json_text"),
    Language("yaml", ("yml",), checker="yaml_text"),
    Language("toml", checker="toml_text"),
    Language("markdown", ("md",), checker="markdown_text"),
    Language("python", ("py", "python3", "ipython"), checker="python_text"),
    Language("text", ("txt", "plain", "plaintext"), checker=""),
    _sure("javascript", "js", "mjs", "cjs", "ecmascript"),
    _sure("jsx", "javascriptreact", module="javascript"),
    Language("typescript", ("ts", "mts", "cts"), grammars=(_paired("typescript", "language_typescript"),)),
    _unsure("tsx", "typescriptreact", module="typescript", function="language_tsx"),
    _sure("rust", "rs"),
    Language("c", grammars=(_paired("c"),)),
    Language("c-header", ("h",), grammars=(_paired("c"), _paired("cpp"))),
    Language("cpp", ("c++", "cc", "cxx", "hpp", "hh", "hxx"), grammars=(_paired("cpp"),)),
    Language(
        "bash",
        ("sh", "shell", "shellscript"),
        grammars=(Grammar("tree_sitter_bash", endings=("fi", "done", "esac", "}", ")")),),
    ),
    Language("css", grammars=(_paired("css"),)),
    _sure("html", "htm"),
    _sure("java"),
    _sure("go", "golang"),
    _sure("ruby", "rb"),
    Language(
        "php",
        grammars=(
            Grammar("tree_sitter_php", "language_php", "error", with_text="<?"),
            # Without an opening tag PHP takes everything for plain text, but in a cell it is code.
            Grammar("tree_sitter_php", "language_php_only", "error", without_text="<?"),
        ),
    ),
    _sure("csharp", "cs", "c#", "c-sharp", module="c_sharp"),
)

MORE_LANGUAGES = (
    _unsure("sql"),
    _unsure("scala", "sc"),
    _unsure("kotlin", "kt", "kts"),
    _unsure("swift"),
    _unsure("lua"),
    _unsure("perl", "pl", "pm"),
    _unsure("haskell", "hs"),
    _unsure("ocaml", "ml", function="language_ocaml"),
    _unsure("ocaml-interface", "mli", module="ocaml", function="language_ocaml_interface"),
    _unsure("julia", "jl"),
    _unsure("elixir", "ex", "exs"),
    _unsure("dart"),
    _unsure("powershell", "ps1", "pwsh"),
    _unsure("xml", "svg", "xsd", "xsl", function="language_xml"),
    _unsure("hcl", "tf", "terraform"),
    _unsure("dockerfile", "docker"),
    _unsure("make", "makefile", "mk"),
    _unsure("zig"),
    _unsure("solidity", "sol"),
    _unsure("fortran", "f90", "f95", "f03"),
    _unsure("nix"),
    _unsure("objective-c", "objc", "objectivec", "m", module="objc"),
    _unsure("svelte"),
)

LANGUAGES = (*SEED_LANGUAGES, *MORE_LANGUAGES)


_BY_NAME = {name: language for language in LANGUAGES for name in (language.name, *language.aliases)}


def find_language(name: str) -> Language | None:
    """The language under any of its names, in any case; None if it is not one of ours."""
    return _BY_NAME.get(name.strip().lower())


def canonical_language(name: str) -> str:
    """The canonical name of a language; of one that is not ours, the name itself in lower case."""
    language = find_language(name)
    return language.name if language else name.strip().lower()
