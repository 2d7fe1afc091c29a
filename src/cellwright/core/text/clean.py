"""Untrusted text (outputs, files, notebooks of others) made fit to be read: what a person would see, and nothing else.

- Terminal sequences are applied or dropped as `terminal` says; other control characters go, except newline and tab.
- Hidden characters go and are counted. Hidden is what Unicode says a reader is not shown (Default_Ignorable_Code_Point:
  tags, bidirectional controls, zero-width characters, variation selectors, soft hyphen, byte order mark, invisible
  operators, Hangul fillers), the interlinear annotation marks, and what is no character at all (U+FFFE and its like).
- Not hidden, because it changes what is seen: joiners inside emoji, U+FE0E/F after a symbol that has an emoji form or in a
  keycap, the tags of the three subdivision flags (England, Scotland, Wales), ZWJ and ZWNJ between letters of Arabic and
  Indic scripts, Mongolian variation selectors after a Mongolian letter, the joiners of hieroglyphs after a hieroglyph. All
  other variation selectors are removed: they only pick a glyph, and can carry any text unseen.
- Terminal sequences and control characters are not counted: they are the ordinary noise of programs, not disguise.
- Lone surrogates become U+FFFD; two that make a character become it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.entities import html5
from typing import Any, cast

from cellwright.core.text.terminal import lay_out, strip_escapes

PIECE = 1 << 18
"""Characters that one expression works on at a time."""
LONGEST_SEQUENCE = 256
"""Of what programs write to a terminal, pictures and the like left aside."""
_ALWAYS = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0"
    "\ufdd0-\ufdef\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000))
)
_SELECTOR = "\ufe0e\ufe0f"
_JOINER = "\u200c\u200d"
_MONGOLIAN = "\u180b-\u180f"
_EGYPTIAN = "\U00013430-\U00013440\U00013447-\U00013455"
"""They only say how the hieroglyphs before and after them stand to each other."""

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

# The one character comes first, for speed, and looks around itself afterwards. What saves a character is always something
# that is itself never removed, so a second pass finds nothing more.
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
"""How control characters stand in JSON."""
_SUSPECT = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_ALWAYS}{_SELECTOR}{_JOINER}{_MONGOLIAN}{_EGYPTIAN}\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Text as a person would see it, and how many hidden characters were taken out of it."""

    text: str
    hidden: int


def clean(text: str) -> Cleaned:
    """The text as a person would see it. Never fails; cleaning twice changes nothing more; no ESC is left."""
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
    shown = lay_out(visible)
    result = shown if shown == visible else _without_hidden(shown)
    return Cleaned(result, len(written) - len(visible) + len(shown) - len(result))


def shown(value: Any) -> Any:  # noqa: ANN401 - JSON
    """JSON in which nothing is hidden: what is left of hidden and control characters in its texts and keys is spelt as JSON does it.

    Prose, code and outputs were cleaned where they were read. This is for whatever else is said: names, ids, metadata, errors. Who
    writes such a spelling into an argument, which is JSON as well, gives the very character. Newline, tab and CR LF stay.
    """
    if isinstance(value, str):
        return _spelt(value)
    if isinstance(value, Mapping):
        found = cast("Mapping[object, object]", value)
        return {shown(key): shown(item) for key, item in found.items()}
    if isinstance(value, list | tuple):
        return [shown(item) for item in cast("Sequence[object]", value)]
    return value


def may_hide(written: str) -> bool:
    """Whether there may be anything for `shown` to do in what was written as this JSON. Costs next to nothing for plain text."""
    return any(map(written.__contains__, _WRITTEN_CONTROLS)) or not (written.isascii() or not _is_suspect(written))


def _is_suspect(text: str) -> bool:
    if len(text) <= PIECE:
        return _SUSPECT.search(text) is not None
    return any(_SUSPECT.search(text, start, start + PIECE) is not None for start in range(0, len(text), PIECE))


def _spelt(text: str) -> str:
    if text.isascii():
        if not any(map(text.__contains__, _ASCII_CONTROLS)):
            return text
        return "".join(_UNSHOWN.sub(_as_json, piece) for piece in in_pieces(text))
    if not _is_suspect(text):
        return text
    return "".join(map(_piece_spelt, in_pieces(_without_surrogates(text))))


def _piece_spelt(text: str) -> str:
    pieces = _SUBDIVISION_FLAG.split(text)
    pieces[::2] = [_UNSHOWN.sub(_as_json, _HIDDEN.sub(_as_json, piece)) for piece in pieces[::2]]
    return "".join(pieces)


def _as_json(character: re.Match[str]) -> str:
    return json.dumps(character[0])[1:-1] if character[0] != "\x7f" else "\\u007f"


def _without_surrogates(text: str) -> str:
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def in_pieces(text: str) -> Iterator[str]:
    """A long text in pieces that end with a line: an expression lets nobody else work until it is through with what it was given.

    A terminal sequence that goes on over several lines may be cut in two; what is left of it is then shown as the text it is.
    """
    start = 0
    while len(text) - start > PIECE:
        end = text.rfind("\n", start, start + PIECE) + 1
        if not end:
            # In the middle of a line, not in the middle of a sequence.
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
    # For ASCII, and only there, `translate` is ten times as fast as the expression.
    return text.translate(_NO_CONTROL) if text.isascii() else _CONTROL.sub("", text)


def _without_hidden(text: str) -> str:
    return "".join(map(_piece_without_hidden, in_pieces(text)))


def _piece_without_hidden(text: str) -> str:
    pieces = _SUBDIVISION_FLAG.split(text)
    pieces[::2] = [_HIDDEN.sub("", piece) for piece in pieces[::2]]
    return "".join(pieces)


_HIDDEN_NAMES = sorted((name for name, value in html5.items() if _HIDDEN.fullmatch(value)), reverse=True)
_REFERENCE = re.compile(
    r"&(?:\#[xX]0*+(?P<hex>[0-9a-fA-F]{1,6})(?![0-9a-fA-F]);?"
    r"|\#0*+(?P<decimal>[0-9]{1,7})(?![0-9]);?"
    rf"|(?P<name>{'|'.join(_HIDDEN_NAMES)}))"
)


def clean_html(text: str) -> Cleaned:
    """`clean` for HTML: hidden characters written as references (`&#8203;`, `&zwj;`) are found too.

    Numeric references to characters outside ASCII become these characters, which is the same HTML.
    """
    cleaned = clean(_REFERENCE.sub(_referenced, text))
    # What still reads as a reference was pieced together by a removal; a browser shows it as these very letters.
    return Cleaned(_REFERENCE.sub(_spelled_out, cleaned.text), cleaned.hidden)


def _referenced(reference: re.Match[str]) -> str:
    if reference["name"]:
        return html5[reference["name"]]
    code = int(reference["hex"], 16) if reference["hex"] else int(reference["decimal"])
    # HTML reads 0x80-0x9F as Windows-1252, so there is nothing hidden there.
    plain = code < 0xA0 or 0xD800 <= code <= 0xDFFF or code > 0x10FFFF  # noqa: PLR2004
    return reference[0] if plain else chr(code)


def _spelled_out(reference: re.Match[str]) -> str:
    return reference[0] if _referenced(reference) == reference[0] else "&amp;" + reference[0][1:]
