"""The grammars of other languages, if they are installed."""

import importlib
import warnings
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from cellwright.notebook.dependencies.foreign import bash, javascript, julia
from cellwright.notebook.dependencies.foreign.walking import ForeignWalk
from cellwright.notebook.dependencies.model import CellNames

if TYPE_CHECKING:
    from tree_sitter import Parser

_LANGUAGES: dict[str, tuple[str, Callable[[], ForeignWalk]]] = {
    "julia": ("julia", julia.JuliaWalk),
    "javascript": ("javascript", javascript.JavaScriptWalk),
    "js": ("javascript", javascript.JavaScriptWalk),
    "node": ("javascript", javascript.JavaScriptWalk),
    "bash": ("bash", bash.BashWalk),
    "sh": ("bash", bash.BashWalk),
    "shell": ("bash", bash.BashWalk),
}


def names_in(source: str, language: str) -> CellNames:
    """The names of a cell. What the grammar cannot read is not known."""
    if language not in _LANGUAGES:
        return CellNames(unknown=f"cells in {language} are not read" if language else "its language is not known")
    grammar, make = _LANGUAGES[language]
    parser = load(language)
    if parser is None:
        return CellNames(
            unknown=f"no grammar for {language} is installed: install tree-sitter and tree-sitter-{grammar}"
        )
    root = parser.parse(source.encode()).root_node
    if root.has_error:
        return CellNames(unknown=f"it is no {language} that can be read", broken=True)
    walk = make()
    walk.visit(root)
    return walk.names()


def load(language: str) -> "Parser | None":
    """The parser of a language; None if its package is not installed, or if the language is not read at all."""
    return _parser(_LANGUAGES[language][0]) if language in _LANGUAGES else None


@cache
def _parser(grammar: str) -> "Parser | None":
    try:
        # Slow to import, and not installed everywhere.
        from tree_sitter import Language, Parser  # noqa: PLC0415

        module = importlib.import_module(f"tree_sitter_{grammar}")
    except ModuleNotFoundError:
        return None
    with warnings.catch_warnings():
        # A few grammars still return their pointer as a number, which works but is deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        pointer: object = module.language()
        return Parser(Language(pointer))


def forget() -> None:
    """Look for the grammars again when they are next needed."""
    _parser.cache_clear()
