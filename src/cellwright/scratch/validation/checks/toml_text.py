"""Checks TOML with the standard library's reader."""

import datetime as dt
import re
import tomllib

from cellwright.scratch.validation.checked import Checked, Data, Document, is_list, is_object
from cellwright.scratch.validation.languages import Language
from cellwright.scratch.validation.lines import LineIndex
from cellwright.scratch.validation.model import Diagnostic, shortened

_PLACE = re.compile(r" ?\(at (?:line (\d+), column (\d+)|end of document)\)$")


def check(text: str, _language: Language) -> Checked:
    try:
        data = tomllib.loads(text)
    except ValueError as error:
        return Checked((_syntax_error(text, str(error)),))
    except RecursionError:
        return Checked((Diagnostic("warning", "nested too deeply to be read", 1, 1, source="toml"),))
    return Checked(documents=(Document(_plain(data)),))


def _syntax_error(text: str, message: str) -> Diagnostic:
    place = _PLACE.search(message)
    if place is None:
        return Diagnostic("error", shortened(message), source="toml")
    line, column = place.groups()
    position = (int(line), int(column)) if line else LineIndex(text).position(len(text))
    return Diagnostic("error", shortened(message[: place.start()]), *position, source="toml")


def _plain(value: Data) -> Data:
    """The data with dates and times as text, because JSON Schema does not know them."""
    if is_object(value):
        return {key: _plain(item) for key, item in value.items()}
    if is_list(value):
        return [_plain(item) for item in value]
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return value
