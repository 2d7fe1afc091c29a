"""Names of files, folders and modules: which can be given, what they turn into, and how they are shown on one line."""

import re
import unicodedata
from urllib.parse import unquote

from cellwright.core.text.clean import clean
from cellwright.core.text.sight import pictured

# Tab and line breaks are legal in names on most machines; the rest of the controls only ever mean trouble, and what is no UTF-8 on the
# disk cannot be given back to anybody.
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
    """Whether a name that is on the disk, or in the arguments of a call, has only characters that our tools take."""
    return _TROUBLE.search(name) is None


def is_disguised(name: str) -> bool:
    """Whether the name turns into a step out of its folder once it is decoded or normalised by somebody else."""
    previous = ""
    while name != previous:
        previous, name = name, unicodedata.normalize("NFKC", unquote(name))
    return name in ("", ".", "..") or "/" in name or "\\" in name or "\x00" in name


def on_one_line(name: str) -> str:
    """The name as it is shown: a picture for each tab, line break or other control, and nothing hidden."""
    if name.isascii() and name.isprintable():
        return name
    return clean(pictured(name).translate(_BREAKS)).text
