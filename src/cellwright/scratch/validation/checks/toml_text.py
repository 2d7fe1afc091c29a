"""TOML, by the standard library's reader."""

import datetime as dt
import re
import tomllib
from typing import Any, cast

from cellwright.scratch.validation.checked import Checked, Data, Document
from cellwright.scratch.validation.languages import Language
from cellwright.scratch.validation.lines import LineIndex
from cellwright.scratch.validation.model import Diagnostic, shortened

_PLACE = re.compile(r" ?\(at (?:line (\d+), column (\d+)|end of document)\)$")


def check(text: str, _language: Language) -> Checked:
    try:
        data = tomllib.loads(text)
    except ValueError as wrong:
        return Checked((_explained(text, str(wrong)),))
    except RecursionError:
        return Checked((Diagnostic("warning", "nested too deeply to be read", 1, 1, source="toml"),))
    return Checked(documents=(Document(_plain(data)),))


def _explained(text: str, message: str) -> Diagnostic:
    place = _PLACE.search(message)
    if place is None:
        return Diagnostic("error", shortened(message), source="toml")
    line, column = place.groups()
    where = (int(line), int(column)) if line else LineIndex(text).position(len(text))
    return Diagnostic("error", shortened(message[: place.start()]), *where, source="toml")


def _plain(value: Data) -> Data:
    """TOML has dates and times; JSON Schema sees them as the text they are."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return value
