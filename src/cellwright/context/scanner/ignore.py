"""`.gitignore`, as git reads it: the last pattern that fits decides, the file in the deeper folder before the one above it.

What is inside an ignored folder is ignored, whatever later patterns say; the walk takes care of that by not entering.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Pattern:
    matches: re.Pattern[str]
    by_name: bool
    """Fits a name anywhere below; else the path from the folder of the file."""
    negated: bool
    folders_only: bool


class Rules:
    """The patterns of one `.gitignore`, for paths relative to its folder."""

    def __init__(self, data: bytes) -> None:
        # git compares bytes: as Latin-1 every byte is a character, so `?` means one byte here too.
        text = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
        found = [made for line in text.split("\n") if (made := _pattern(line)) is not None]
        self._patterns = tuple(reversed(found))
        sources = ["(?:" + one.matches.pattern + ")" for one in found if one.by_name]
        # Most names fit no pattern at all: one look at all of them together tells.
        self._any_name = re.compile("|".join(sources), re.DOTALL) if sources else None
        self._by_path = any(not one.by_name for one in found)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def verdict(self, path: str, name: str, *, is_folder: bool) -> bool | None:
        """True if it is ignored, False if a pattern says it is not, None if none fits."""
        if not path.isascii():
            path, name = _as_bytes(path), _as_bytes(name)
        if not self._by_path and (self._any_name is None or self._any_name.fullmatch(name) is None):
            return None
        for one in self._patterns:
            if one.folders_only and not is_folder:
                continue
            if one.matches.fullmatch(name if one.by_name else path) is not None:
                return not one.negated
        return None


def _as_bytes(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _pattern(line: str) -> _Pattern | None:
    text = _without_trailing_spaces(line.removesuffix("\r"))
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text.removeprefix("!") if negated else text
    folders_only = text.endswith("/")
    text = text.removesuffix("/")
    if not text:
        return None
    by_name = "/" not in text
    source = _translate(text.removeprefix("/"), by_name=by_name)
    if source is None:
        return None
    try:
        return _Pattern(re.compile(source, re.DOTALL), by_name, negated, folders_only)
    except re.error:
        return None


def _without_trailing_spaces(line: str) -> str:
    while line.endswith(" "):
        escapes = len(line[:-1]) - len(line[:-1].rstrip("\\"))
        if escapes % 2:
            break
        line = line[:-1]
    return line


def _translate(text: str, *, by_name: bool) -> str | None:
    """The pattern as an expression; None for one that git never matches."""
    if by_name:
        return _segment(text)
    if text == "**":
        return ".+"
    anywhere = text.startswith("**/")
    while text.startswith("**/"):
        text = text[3:]
    tail = ""
    while text.endswith("/**"):
        tail, text = "/.+", text[:-3]
    made: list[str] = []
    *firsts, last = re.split(r"(?:/\*\*)+/", text)
    for number, piece in enumerate([*firsts, last]):
        source = _segment(piece)
        if source is None:
            return None
        loose = anywhere or number > 0
        if loose and number < len(firsts):
            # The first place where it fits is as good as any, for what follows may begin anywhere after it.
            made.append(f"(?>(?:[^/]+/)*?{source}/)")
        elif loose:
            made.append(f"(?:[^/]+/)*?{source}")
        else:
            made.append(source + ("/" if firsts else ""))
    return "".join(made) + tail


def _segment(text: str) -> str | None:
    """Part of a pattern without `**`. Each star but the last commits to the first fit: no pattern takes long."""
    chunks: list[list[str]] = [[]]
    position = 0
    while position < len(text):
        if text[position] == "*":
            position += 1
            if chunks[-1] or len(chunks) == 1:
                chunks.append([])
            continue
        one = _one(text, position)
        if one is None:
            return None
        chunks[-1].append(one[0])
        position = one[1]
    first, *rest = ("".join(chunk) for chunk in chunks)
    if not rest:
        return first
    return first + "".join(f"(?>[^/]*?{chunk})" for chunk in rest[:-1]) + "[^/]*" + rest[-1]


def _one(text: str, position: int) -> tuple[str, int] | None:
    """What matches the one character that a pattern names here, and where the pattern goes on."""
    letter = text[position]
    if letter == "?":
        return "[^/]", position + 1
    if letter == "[":
        return _group(text, position + 1)
    if letter == "\\":
        return (re.escape(text[position + 1]), position + 2) if position + 1 < len(text) else None
    return re.escape(letter), position + 1


_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": " \\t", "cntrl": "\\x00-\\x1f\\x7f", "digit": "0-9", "graph": "!-~",
    "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~", "space": " \\t-\\r", "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


def _group(text: str, position: int) -> tuple[str, int] | None:
    """A bracket expression from after its `[`: the expression for it, and where it ends. None if it never ends."""
    negated = text[position : position + 1] in ("!", "^")
    position += negated
    items: list[str] = []
    first = True
    while position < len(text):
        letter = text[position]
        if letter == "]" and not first:
            body = "".join(items)
            return (f"(?!/)[{'^' if negated else ''}{body}]" if body else ("[^/]" if negated else "(?!)")), position + 1
        first = False
        if text.startswith("[:", position) and (end := text.find(":]", position)) > 0:
            known = _CLASSES.get(text[position + 2 : end])
            if known is None:
                return None
            items.append(known)
            position = end + 2
            continue
        low, position = _member(text, position)
        if low is None:
            return None
        if text[position : position + 1] == "-" and text[position + 1 : position + 2] not in ("", "]"):
            high, position = _member(text, position + 1)
            if high is None:
                return None
            if low <= high:
                items.append(f"{re.escape(low)}-{re.escape(high)}")
            continue
        items.append(re.escape(low))
    return None


def _member(text: str, position: int) -> tuple[str | None, int]:
    if text[position] == "\\":
        position += 1
        if position >= len(text):
            return None, position
    return text[position], position + 1
