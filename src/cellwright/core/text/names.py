"""Names of files, folders and modules: which our tools accept, which are disguised, and how they are shown on one line."""

import re
import unicodedata
from urllib.parse import unquote

from cellwright.core.text.clean import clean
from cellwright.core.text.sight import pictured

# Tabs and line breaks are legal in names on most systems. Other control characters only cause trouble, and a name that is not UTF-8 on
# the disk cannot be returned to a caller.
_TROUBLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_BREAKS = str.maketrans(
    {
        "\t": "\N{SYMBOL FOR HORIZONTAL TABULATION}",
        "\n": "\N{SYMBOL FOR LINE FEED}",
        "\N{LINE SEPARATOR}": "\N{SYMBOL FOR NEWLINE}",
        "\N{PARAGRAPH SEPARATOR}": "\N{SYMBOL FOR NEWLINE}",
    }
)


def can_be_given(name: str) -> bool:
    """Whether a name on the disk or in an argument has only characters that our tools accept."""
    return _TROUBLE.search(name) is None


def is_disguised(name: str) -> bool:
    """Whether the name leads out of its folder once another program decodes or normalises it."""
    previous = ""
    while name != previous:
        previous, name = name, unicodedata.normalize("NFKC", unquote(name))
    return name in ("", ".", "..") or "/" in name or "\\" in name or "\x00" in name


def on_one_line(name: str) -> str:
    """The name as it is shown: with a symbol for each tab, line break or other control character, and nothing hidden."""
    if name.isascii() and name.isprintable():
        return name
    return clean(pictured(name).translate(_BREAKS)).text
