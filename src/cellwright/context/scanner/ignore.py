"""`.gitignore`, as git reads it: the last pattern that matches decides, and a file in a deeper folder comes before one above it.

Everything inside an ignored folder is ignored, whatever later patterns say; the walk takes care of that by not entering it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MOST_PATTERNS = 5_000
"""The most patterns of one file. The largest files that people write have a few hundred."""


@dataclass(frozen=True, slots=True)
class _Pattern:
    by_name: bool
    """Whether it is compared with names anywhere below; else with paths from the folder of the file."""
    negated: bool
    folders_only: bool
    plain: str = ""
    """The name that it matches, if it has no wildcards; with a leading `*`, all names with that ending."""
    shape: re.Pattern[str] | None = None
    """The expression of a pattern with other wildcards."""

    def fits(self, folder: str, name: str) -> bool:
        if self.shape is not None:
            return self.shape.fullmatch(name if self.by_name else folder + name) is not None
        return name.endswith(self.plain[1:]) if self.plain[0] == "*" else name == self.plain


class _Candidates:
    """Tells quickly that a name matches none of many patterns, as most names do."""

    def __init__(self, patterns: Sequence[_Pattern]) -> None:
        name_patterns = [pattern for pattern in patterns if pattern.by_name]
        self._names = frozenset(pattern.plain for pattern in name_patterns if pattern.plain and pattern.plain[0] != "*")
        self._endings = tuple(pattern.plain[1:] for pattern in name_patterns if pattern.plain[:1] == "*")
        self._shapes = _either(pattern.shape for pattern in name_patterns if pattern.shape)
        self._paths = _either(pattern.shape for pattern in patterns if pattern.shape and not pattern.by_name)

    def maybe(self, folder: str, name: str) -> bool:
        return (
            name in self._names
            or name.endswith(self._endings)
            or (self._shapes is not None and self._shapes.fullmatch(name) is not None)
            or (self._paths is not None and self._paths.fullmatch(folder + name) is not None)
        )


def _either(shapes: Iterable[re.Pattern[str]]) -> re.Pattern[str] | None:
    joined = "|".join(f"(?:{shape.pattern})" for shape in shapes)
    return re.compile(joined, re.DOTALL) if joined else None


class Rules:
    """The patterns of one `.gitignore`, for paths relative to its folder."""

    def __init__(self, data: bytes) -> None:
        # git compares bytes: as Latin-1 every byte is a character, so `?` means one byte here too.
        text = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
        lines = text.split("\n", MOST_PATTERNS)[:MOST_PATTERNS]
        patterns = [pattern for line in lines if (pattern := _pattern(line)) is not None]
        self._patterns = tuple(reversed(patterns))
        self._for_folders = _Candidates(patterns)
        self._for_files = _Candidates([pattern for pattern in patterns if not pattern.folders_only])

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def verdict(self, folder: str, name: str, *, is_folder: bool) -> bool | None:
        """True if the file is ignored, False if a pattern says it is not, None if none matches. `folder` ends with `/` or is empty."""
        if not (name.isascii() and folder.isascii()):
            folder, name = _as_bytes(folder), _as_bytes(name)
        if not (self._for_folders if is_folder else self._for_files).maybe(folder, name):
            return None
        for pattern in self._patterns:
            if (is_folder or not pattern.folders_only) and pattern.fits(folder, name):
                return not pattern.negated
        return None


def _as_bytes(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


_PLAIN = re.compile(r"\*?[^*?\[\\]+")


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
    if by_name and _PLAIN.fullmatch(text):
        return _Pattern(by_name, negated, folders_only, text)
    source = _translate(text.removeprefix("/"), by_name=by_name)
    if source is None:
        return None
    try:
        return _Pattern(by_name, negated, folders_only, shape=re.compile(source, re.DOTALL))
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
    parts: list[str] = []
    *firsts, last = re.split(r"(?:/\*\*)+/", text)
    for number, piece in enumerate([*firsts, last]):
        source = _segment(piece)
        if source is None:
            return None
        loose = anywhere or number > 0
        if loose and number < len(firsts):
            # The first match is as good as any, because what follows may begin anywhere after it.
            parts.append(f"(?>(?:[^/]+/)*?{source}/)")
        elif loose:
            parts.append(f"(?:[^/]+/)*?{source}")
        else:
            parts.append(source + ("/" if firsts else ""))
    return "".join(parts) + tail


def _segment(text: str) -> str | None:
    """Translates a part of a pattern without `**`. Each star but the last commits to its first match, so no pattern takes long."""
    chunks: list[list[str]] = [[]]
    position = 0
    while position < len(text):
        if text[position] == "*":
            position += 1
            if chunks[-1] or len(chunks) == 1:
                chunks.append([])
            continue
        character = _character(text, position)
        if character is None:
            return None
        expression, position = character
        chunks[-1].append(expression)
    first_chunk, *later_chunks = ("".join(chunk) for chunk in chunks)
    if not later_chunks:
        return first_chunk
    return first_chunk + "".join(f"(?>[^/]*?{chunk})" for chunk in later_chunks[:-1]) + "[^/]*" + later_chunks[-1]


def _character(text: str, position: int) -> tuple[str, int] | None:
    """The expression for the one character that a pattern names here, and where the pattern goes on."""
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
    """The expression for a bracket that begins before `position`, and where it ends. None if it never ends."""
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
            members = _CLASSES.get(text[position + 2 : end])
            if members is None:
                return None
            items.append(members)
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
