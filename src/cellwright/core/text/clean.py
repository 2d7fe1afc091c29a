"""Makes untrusted text (outputs, files, notebooks of others) safe to read: what a person would see, and nothing else.

- Terminal sequences are applied or dropped as `terminal` says; other control characters are removed, except newline and tab.
- Hidden characters are removed and counted. These are the characters that Unicode does not display (Default_Ignorable_Code_Point:
  tags, bidirectional controls, zero-width characters, variation selectors, soft hyphen, byte order mark, invisible
  operators, Hangul fillers), the interlinear annotation marks, and code points that are no characters (such as U+FFFE).
- Some of these do change what is seen, and stay: joiners inside emoji, U+FE0E/F after a symbol that has an emoji form or in a
  keycap, the tags of the three subdivision flags (England, Scotland, Wales), ZWJ and ZWNJ between letters of Arabic and
  Indic scripts, Mongolian variation selectors after a Mongolian letter, the joiners of hieroglyphs after a hieroglyph. All
  other variation selectors are removed: they only pick a glyph, and can carry any text unseen.
- Terminal sequences and control characters are not counted: programs write them all the time, and not to hide anything.
- Lone surrogates become U+FFFD; a pair becomes its character.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.entities import html5
from typing import Any, cast

from cellwright.core.text.terminal import lay_out, strip_escapes

PIECE = 1 << 18
"""Characters that one expression works on at a time."""
LONGEST_SEQUENCE = 256
"""The longest sequence that programs write to a terminal, apart from pictures and the like."""
_ALWAYS = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0"
    "\ufdd0-\ufdef\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000))
)
_SELECTOR = "\ufe0e\ufe0f"
_JOINER = "\u200c\u200d"
_MONGOLIAN = "\u180b-\u180f"
_EGYPTIAN = "\U00013430-\U00013440\U00013447-\U00013455"
"""They only say how the hieroglyphs before and after them are arranged."""

_SYMBOL = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001f1e5\U0001f200-\U0001faff"
)
"""Where the symbols with an emoji form are, in whole blocks; regional indicators (flags) take neither selector nor joiner."""

_JOINING = (
    "\u0620-\u06dc\u06de-\u06ff\u0710-\u077f\u0840-\u085b\u0860-\u088e\u0898-\u08e1\u08e3-\u0dff\u0f00-\u109f"
    "\u1780-\u17b3\u17b6-\u17d3\u1820-\u18aa\u1a20-\u1aad\u1b00-\u1bff\ua8e0-\ua8ff\uaa60-\uaa7f\ufb50-\ufdff\ufe70-\ufefc"
)
"""Letters and marks of scripts whose spelling uses ZWJ and ZWNJ. None of them may itself be hidden."""

# The character itself is matched first, for speed, and its neighbours afterwards. A character is only kept because of neighbours
# that are never removed themselves, so a second pass finds nothing more.
_HIDDEN = re.compile(
    f"[{_ALWAYS}{_SELECTOR}{_JOINER}{_MONGOLIAN}{_EGYPTIAN}](?:"
    f"(?<=[{_ALWAYS}])"
    f"|(?<=[{_SELECTOR}])(?<![{_SYMBOL}].)(?!(?<=[0-9#*]\ufe0f)\u20e3)"
    f"|(?<=[{_JOINER}])(?!(?<=[{_JOINING}].)[{_JOINING}])"
    f"(?!(?:(?<=[{_SYMBOL}]\u200d)|(?<=[{_SYMBOL}]\ufe0f\u200d))[{_SYMBOL}])"
    f"|(?<=[{_MONGOLIAN}])(?<![\u1820-\u18aa].)"
    f"|(?<=[{_EGYPTIAN}])(?<![\U00013000-\U0001342f].))"
)
_SUBDIVISION_FLAG = re.compile(
    "(\U0001f3f4\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f)"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
# ESC, carriage return and backspace are left to `terminal`.
_CONTROL = re.compile("[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]+")
_NO_CONTROL = dict.fromkeys(code for code in range(0x80) if _CONTROL.match(chr(code)))
_ASCII_CONTROLS = tuple(chr(code) for code in (*range(0x20), 0x7F) if chr(code) not in "\t\n")
_UNSHOWN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
_WRITTEN_CONTROLS = ("\x7f", "\\u00", "\\b", "\\f", "\\r")
"""How control characters are written in JSON."""
_SUSPECT = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_ALWAYS}{_SELECTOR}{_JOINER}{_MONGOLIAN}{_EGYPTIAN}\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Text as a person would see it, and how many hidden characters were removed from it."""

    text: str
    hidden: int


def clean(text: str) -> Cleaned:
    """The text as a person would see it. Never fails. Cleaning twice changes nothing more. The result has no ESC."""
    text = text.replace("\r\n", "\n")
    if text.isascii():
        if not any(map(text.__contains__, _ASCII_CONTROLS)):
            return Cleaned(text, 0)
        return Cleaned(lay_out(_without_controls(text)), 0)
    if not _is_suspect(text):
        return Cleaned(text, 0)
    written = _without_controls(_without_surrogates(text))
    # Before the layout, because hidden characters take no column; after it, because a backspace can break up an emoji.
    visible = _without_hidden(written)
    laid_out = lay_out(visible)
    result = laid_out if laid_out == visible else _without_hidden(laid_out)
    return Cleaned(result, len(written) - len(visible) + len(laid_out) - len(result))


def shown(value: Any) -> Any:  # noqa: ANN401 - JSON
    """JSON in which nothing is hidden: hidden and control characters in its texts and keys are written as JSON escapes.

    Prose, code and outputs were cleaned where they were read. This is for everything else: names, ids, metadata, errors. A caller who
    copies such an escape into an argument, which is JSON as well, passes the same character. Newline, tab and CR LF stay.
    """
    if isinstance(value, str):
        return _escaped(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {shown(key): shown(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [shown(item) for item in cast("Sequence[object]", value)]
    return value


def may_hide(written: str) -> bool:
    """Whether `shown` may have to change the value that was written as this JSON. Costs next to nothing for plain text."""
    return any(map(written.__contains__, _WRITTEN_CONTROLS)) or not (written.isascii() or not _is_suspect(written))


def _is_suspect(text: str) -> bool:
    if len(text) <= PIECE:
        return _SUSPECT.search(text) is not None
    return any(_SUSPECT.search(text, start, start + PIECE) is not None for start in range(0, len(text), PIECE))


def _escaped(text: str) -> str:
    if text.isascii():
        if not any(map(text.__contains__, _ASCII_CONTROLS)):
            return text
        return "".join(_UNSHOWN.sub(_as_json, piece) for piece in in_pieces(text))
    if not _is_suspect(text):
        return text
    return _outside_flags(_without_surrogates(text), lambda part: _UNSHOWN.sub(_as_json, _HIDDEN.sub(_as_json, part)))


def _outside_flags(text: str, change: Callable[[str], str]) -> str:
    """The text with everything changed except the subdivision flags, which have hidden characters."""
    changed: list[str] = []
    for piece in in_pieces(text):
        parts = _SUBDIVISION_FLAG.split(piece)
        parts[::2] = [change(part) for part in parts[::2]]
        changed += parts
    return "".join(changed)


def _as_json(character: re.Match[str]) -> str:
    return json.dumps(character[0])[1:-1] if character[0] != "\x7f" else "\\u007f"


def _without_surrogates(text: str) -> str:
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def in_pieces(text: str) -> Iterator[str]:
    """A long text in pieces that end at line ends: a regular expression blocks everything else until it has read its whole input.

    A terminal sequence over several lines may be cut in two; the rest of it is then shown as text.
    """
    start = 0
    while len(text) - start > PIECE:
        end = text.rfind("\n", start, start + PIECE) + 1
        if not end:
            # Cut in the middle of a line, but not of a terminal sequence.
            end = start + PIECE
            sequence = text.rfind("\x1b", end - LONGEST_SEQUENCE, end)
            end = sequence if sequence > start else end
        yield text[start:end]
        start = end
    yield text[start:]


def _without_controls(text: str) -> str:
    return "".join(map(_piece_without_controls, in_pieces(text)))


def _piece_without_controls(text: str) -> str:
    text = strip_escapes(text)
    # Only for ASCII is `translate` faster than the expression, by ten times.
    return text.translate(_NO_CONTROL) if text.isascii() else _CONTROL.sub("", text)


def _without_hidden(text: str) -> str:
    return _outside_flags(text, lambda part: _HIDDEN.sub("", part))


_HIDDEN_NAMES = sorted((name for name, value in html5.items() if _HIDDEN.fullmatch(value)), reverse=True)
_REFERENCE = re.compile(
    r"&(?:\#[xX]0*+(?P<hex>[0-9a-fA-F]{1,6})(?![0-9a-fA-F]);?"
    r"|\#0*+(?P<decimal>[0-9]{1,7})(?![0-9]);?"
    rf"|(?P<name>{'|'.join(_HIDDEN_NAMES)}))"
)


def clean_html(text: str) -> Cleaned:
    """`clean` for HTML, which also finds hidden characters that are written as references (`&#8203;`, `&zwj;`).

    Numeric references to characters outside ASCII become these characters, which is the same HTML.
    """
    cleaned = clean(_REFERENCE.sub(_referenced, text))
    # A reference that exists now was put together by a removal. It is escaped, so that a browser shows these very letters.
    return Cleaned(_REFERENCE.sub(_escaped_reference, cleaned.text), cleaned.hidden)


def _referenced(reference: re.Match[str]) -> str:
    if reference["name"]:
        return html5[reference["name"]]
    code = int(reference["hex"], 16) if reference["hex"] else int(reference["decimal"])
    # HTML reads 0x80-0x9F as Windows-1252, where nothing is hidden.
    plain = code < 0xA0 or 0xD800 <= code <= 0xDFFF or code > 0x10FFFF  # noqa: PLR2004
    return reference[0] if plain else chr(code)


def _escaped_reference(reference: re.Match[str]) -> str:
    return reference[0] if _referenced(reference) == reference[0] else "&amp;" + reference[0][1:]
