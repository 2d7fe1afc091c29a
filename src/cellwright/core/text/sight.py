"""Code, diffs and names as text in which nothing is hidden.

Outputs are laid out as a terminal does it. In code the same would hide what runs: Python takes a carriage return for the end
of a line, a terminal goes back to its start and writes over it.
"""

import re

from cellwright.core.text.clean import Cleaned, clean

UNSEEN = "\N{REPLACEMENT CHARACTER}"
_PICTURES = 0x2400
"""Where the pictures of the control characters begin: one for each, of the same length."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def pictured(text: str) -> str:
    """The text, as long as it was, with a picture for each control character except newline and tab."""
    return _CONTROL.sub(lambda found: _picture(found[0]), text)


def seen(source: str) -> Cleaned:
    """Source code as it is shown: cleaned, and what controls a terminal is a picture."""
    cleaned = clean(source)
    return cleaned if cleaned.text == source else clean(pictured(source.replace("\r\n", "\n")))


def has_controls(source: str) -> bool:
    """Whether `seen` puts pictures into it."""
    return _CONTROL.search(source.replace("\r\n", "\n")) is not None


def spelt(name: str) -> str:
    """A file's name as it can be told. One that is not UTF-8 on the disk has pieces that are no characters."""
    return _SURROGATE.sub(UNSEEN, name)


def _picture(control: str) -> str:
    code = ord(control)
    return chr(_PICTURES + code) if code < 0x20 else "\N{SYMBOL FOR DELETE}" if code == 0x7F else UNSEEN  # noqa: PLR2004


def cut_for_people(text: str, limit: int) -> tuple[str, bool]:
    """The text cleaned, with a line in its middle that says how much is left out of it; and whether anything is."""
    cleaned = clean(text).text
    if len(cleaned) <= limit:
        return cleaned, False
    head, tail = limit * 3 // 5, limit * 2 // 5
    left_out = len(cleaned) - head - tail
    return f"{cleaned[:head]}\n… {left_out:,} of {len(cleaned):,} characters left out …\n{cleaned[-tail:]}", True
