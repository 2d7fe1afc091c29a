"""Python, by its own compiler: nothing is run, imported or read, a coding comment means nothing in text.

Cells come from notebooks, so top-level `await` and the lines that IPython understands (`%magic`, `!command`, `name?`) are good.
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
        return Checked(tuple(_compiled(body)))
    if cell_magic[1] not in PYTHON_CELL_MAGICS:
        message = f"%%{cell_magic[1]} hands this cell to another program; it was not checked"
        return Checked((Diagnostic("info", message, 1, 1, source=SOURCE),))
    return Checked(tuple(_compiled(_without_first_line(body))))


def _without_first_line(body: str) -> str:
    """The magic's line becomes an empty one, so that the lines below keep their numbers."""
    start = body.index("%%")
    end = body.find("\n", start)
    return body[:start].replace(" ", "") + (body[end:] if end >= 0 else "")


def _compiled(body: str) -> list[Diagnostic]:
    found = _attempt(body)
    if not any(finding.severity == "error" for finding in found) or not _MAGIC_LINE.search(body):
        return found
    return _attempt(_MAGIC_LINE.sub(r"\g<indent>pass", body))


def _attempt(body: str) -> list[Diagnostic]:
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        try:
            compile(body, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except SyntaxError as wrong:
            return [_error(wrong)]
        except MemoryError:
            # The parser's own stack is full, not the machine's memory.
            raise RecursionError from None
        except ValueError as wrong:
            return [Diagnostic("error", shortened(str(wrong)), source=SOURCE)]
    return [
        Diagnostic("warning", shortened(str(warning.message)), warning.lineno, source=SOURCE)
        for warning in noticed
        if warning.filename == "<cell>"
    ]


def _error(wrong: SyntaxError) -> Diagnostic:
    column = wrong.offset if wrong.offset and wrong.offset > 0 else None
    return Diagnostic("error", shortened(wrong.msg), wrong.lineno, column, source=SOURCE)
