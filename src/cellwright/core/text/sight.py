"""Code, diffs and names as text in which nothing is hidden.

Outputs are laid out as in a terminal. For code that would hide what runs: to Python a carriage return ends the line, but a terminal
goes back to the start of the line and overwrites it.
"""

import re

from cellwright.core.text.clean import Cleaned, clean

UNSEEN = "\N{REPLACEMENT CHARACTER}"
_PICTURES = 0x2400
"""The first of the symbols for control characters. Each symbol is one character."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def pictured(text: str) -> str:
    """The text with a symbol for each control character except newline and tab. Its length does not change."""
    return _CONTROL.sub(lambda control: _picture(control[0]), text)


def seen(source: str) -> Cleaned:
    """Source code as it is shown: cleaned, with symbols for control characters."""
    cleaned = clean(source)
    return cleaned if cleaned.text == source else clean(pictured(source.replace("\r\n", "\n")))


def has_controls(source: str) -> bool:
    """Whether `seen` puts symbols into the source."""
    return _CONTROL.search(source.replace("\r\n", "\n")) is not None


def spelt(name: str) -> str:
    """A file's name without surrogates, which Python uses for bytes that are not UTF-8."""
    return _SURROGATE.sub(UNSEEN, name)


def _picture(control: str) -> str:
    code = ord(control)
    return chr(_PICTURES + code) if code < 0x20 else "\N{SYMBOL FOR DELETE}" if code == 0x7F else UNSEEN  # noqa: PLR2004


def cut_for_people(text: str, limit: int) -> tuple[str, bool]:
    """The cleaned text, with a line in its middle that says how much is left out; and whether anything is left out."""
    cleaned = clean(text).text
    if len(cleaned) <= limit:
        return cleaned, False
    head, tail = limit * 3 // 5, limit * 2 // 5
    left_out = len(cleaned) - head - tail
    return f"{cleaned[:head]}\n… {left_out:,} of {len(cleaned):,} characters left out …\n{cleaned[-tail:]}", True
