"""Checks Python with its own compiler. Nothing is run, imported or read; a coding comment has no meaning in text.

Cells come from notebooks, so top-level `await` and the lines that IPython understands (`%magic`, `!command`, `name?`) are valid.
"""

import ast
import re
import sys
import warnings

from cellwright.scratch.validation.checked import Checked
from cellwright.scratch.validation.languages import Language
from cellwright.scratch.validation.model import Diagnostic, shortened

SOURCE = f"Python {sys.version_info.major}.{sys.version_info.minor}"
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
PYTHON_CELL_MAGICS = frozenset(("time", "timeit", "capture", "prun", "debug", "python_", "memit", "mprun", "lprun"))
_MAGIC_LINE = re.compile(
    r"""(?P<indent>[ \t]*)(?:
        [%!?][^\n]*                                    # %magic  !command  ?name
      | [A-Za-z_][\w.]*\??\?[ \t]*                     # name?  name??
      | [A-Za-z_][\w., \t]*=[ \t]*[%!][^\n]*           # files = !ls
    )$""",
    re.MULTILINE | re.VERBOSE,
)


def check(text: str, _language: Language) -> Checked:
    body = text.lstrip("\ufeff")
    cell_magic = _CELL_MAGIC.match(body)
    if cell_magic is None:
        return Checked(tuple(_findings(body)))
    if cell_magic[1] not in PYTHON_CELL_MAGICS:
        message = f"%%{cell_magic[1]} hands this cell to another program; it was not checked"
        return Checked((Diagnostic("info", message, 1, 1, source=SOURCE),))
    return Checked(tuple(_findings(_without_first_line(body))))


def _without_first_line(body: str) -> str:
    """The text with an empty line for the magic, so that the lines below keep their numbers."""
    start = body.index("%%")
    end = body.find("\n", start)
    return body[:start].replace(" ", "") + (body[end:] if end >= 0 else "")


def _findings(body: str) -> list[Diagnostic]:
    findings = _compile(body)
    if not any(finding.severity == "error" for finding in findings) or not _MAGIC_LINE.search(body):
        return findings
    return _compile(_MAGIC_LINE.sub(r"\g<indent>pass", body))


def _compile(body: str) -> list[Diagnostic]:
    with warnings.catch_warnings(record=True) as compiler_warnings:
        warnings.simplefilter("always")
        try:
            compile(body, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except SyntaxError as error:
            column = error.offset if error.offset and error.offset > 0 else None
            return [Diagnostic("error", shortened(error.msg), error.lineno, column, source=SOURCE)]
        except MemoryError:
            # The parser raises this when its own stack is full; memory is not short.
            raise RecursionError from None
        except ValueError as error:
            return [Diagnostic("error", shortened(str(error)), source=SOURCE)]
    return [
        Diagnostic("warning", shortened(str(warning.message)), warning.lineno, source=SOURCE)
        for warning in compiler_warnings
        if warning.filename == "<cell>"
    ]
