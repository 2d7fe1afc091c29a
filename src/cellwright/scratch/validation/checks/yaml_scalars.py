"""What an unquoted YAML scalar means by YAML 1.2, and whether a YAML 1.1 reader would take it for something else."""

import re
from decimal import Decimal

from cellwright.scratch.validation.checked import Data

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE"))
_FALSE = frozenset(("false", "False", "FALSE"))
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BEYOND_FLOATS = Decimal("1e400")
"""Stands for infinity and not-a-number, which JSON Schema does not have: a number above every limit."""

_OLD_TRUE = re.compile(r"yes|Yes|YES|on|On|ON")
_OLD_FALSE = re.compile(r"no|No|NO|off|Off|OFF")
_OLD_OCTAL = re.compile(r"[-+]?0[0-7]+")
_OLD_SIXTIES = re.compile(r"[-+]?[1-9][0-9]*(?::[0-5]?[0-9])+")
_OLD_GROUPED = re.compile(r"[-+]?(?:0b[01_]+|[0-9][0-9]*_[0-9_]*)")
LONGEST_NUMBER = 4000


def plain_value(text: str) -> Data:
    """The value of an unquoted scalar by the core schema of YAML 1.2."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    return _number(text) if len(text) < LONGEST_NUMBER and text[0] in "0123456789+-." else text


def _number(text: str) -> Data:
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
        return int(text, 0)
    if _NOT_FINITE.fullmatch(text):
        return _BEYOND_FLOATS
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if abs(number) != float("inf") else Decimal(text)
    return text


def older_meaning(text: str) -> str:
    """What a YAML 1.1 reader takes it for, if that differs from YAML 1.2; else empty."""
    if _OLD_TRUE.fullmatch(text):
        return "true"
    if _OLD_FALSE.fullmatch(text):
        return "false"
    if _OLD_OCTAL.fullmatch(text):
        return f"the octal number {int(text, 8)}"
    if _OLD_SIXTIES.fullmatch(text):
        return "a number to the base of sixty"
    return "a number" if _OLD_GROUPED.fullmatch(text) else ""
