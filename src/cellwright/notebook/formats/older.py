"""Converts notebooks of nbformat 1 to 3 to version 4. The library that does it comes with Jupyter."""

import json
from typing import Any, cast

from cellwright.notebook.model import InvalidFormat, JsonObject

CURRENT = 4
FAILURES = (ArithmeticError, AttributeError, LookupError, NameError, RecursionError, TypeError, ValueError)
"""What that library raises for a notebook that is not what it claims. It has no errors of its own, and in places uses unset names."""


def as_current(notebook: JsonObject, version: int) -> JsonObject:
    """The notebook in the current version, converted as Jupyter does it."""
    try:
        import nbformat  # noqa: PLC0415 - only old notebooks need it
    except ImportError:
        raise InvalidFormat(
            f"this notebook has nbformat {version}, and what converts it is not installed",
            hint="pip install nbformat, or open and save it in JupyterLab, which writes version 4",
        ) from None
    library: Any = nbformat
    try:
        converted: Any = library.convert(library.reader.reads(json.dumps(notebook)), CURRENT)
    except (*FAILURES, library.ValidationError) as error:
        raise InvalidFormat(
            f"this notebook says that it has nbformat {version} and has not: {type(error).__name__}: {error}"[:300],
            hint="open it in the program that wrote it and save it again",
        ) from error
    return cast("JsonObject", converted)
