"""What a code cell does with names, in any language."""

from cellwright.notebook.dependencies.foreign import grammars
from cellwright.notebook.dependencies.model import NOTHING, CellNames
from cellwright.notebook.dependencies.python import ipython
from cellwright.notebook.dependencies.python.statements import names_in_python

LONGEST = 200_000
"""Cells with more characters are not read."""
PYTHON = frozenset({"python", "python3", "python2", "ipython", "ipython3", "xpython", "sage", "py"})


def names_of(source: str, language: str) -> CellNames:
    """The names of one code cell in its kernel's language. What cannot be known is said, and never guessed."""
    if not source.strip():
        return NOTHING
    if len(source) > LONGEST:
        return CellNames(unknown=f"it has {len(source):,} characters; at most {LONGEST:,} are read")
    try:
        if language.lower() in PYTHON:
            return names_in_python(source)
        return grammars.names_in(source, language.lower())
    except (SyntaxError, ValueError) as error:
        reason = f"it is no {language} that can be read: {str(error)[:200] or type(error).__name__}"
        return CellNames(unknown=reason, broken=True)
    except (RecursionError, MemoryError):
        return CellNames(unknown="it is nested too deeply")


def load(language: str) -> None:
    """Import what reading this language needs, while files may still be opened."""
    if language.lower() in PYTHON:
        ipython.load()
    else:
        grammars.load(language.lower())
