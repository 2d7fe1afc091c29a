"""What is inside a line of Markdown as HTML: emphasis, code, links, pictures. Everything else is escaped text."""

import re
from collections.abc import Mapping
from html import escape
from urllib.parse import unquote

Pictures = Mapping[str, str]
DEEPEST = 6
LONGEST = 2_000
"""How far ahead the end of something is searched for. What is longer is text."""
TRIED = 8
"""How many possible ends of an emphasis are tried before it is text."""
BREAK = "\0"
"""Marks a line break. Text has no such character here, because it was cleaned before."""
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_TICKS = re.compile(r"`+")
_TARGET = r"(<[^<>\n]{0,1000}>|[^\s()]{0,2000}(?:\([^\s()]{0,500}\)[^\s()]{0,500})?)"
_TITLE = r"(?:[ ]+[\"'][^\"'\n]{0,300}[\"'])?"
_LINK = re.compile(rf"(!?)\[([^\[\]]{{0,1000}})\]\([ ]?{_TARGET}{_TITLE}[ ]?\)")
_NESTED = re.compile(r"\[(!\[[^\[\]]{0,500}\]\([^()\s]{0,2000}\))\]\(([^\s()]{0,2000})\)")
_PICTURE = re.compile(r"!\[([^\[\]]{0,1000})\]\((data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*)\)")
_ADDRESS = re.compile(r"<((?:https?://|mailto:)[^\s<>]{1,2000})>")
_BARE = re.compile(r"https?://[^\s<>\"'`]{1,2000}")
_SAFE = re.compile(r"(?:https?://|mailto:)[^\s<>\"'`]+", re.IGNORECASE)
_MATH = re.compile(r"\$\$[^$]{1,1000}\$\$|\$(?![ $])[^$\n]{1,1000}?(?<! )\$(?!\d)")
_WORD = re.compile(r"\w")
_BEGINS = re.compile(r"[\\`!\[<*_~$h]")
_MARKS = (("**", "strong"), ("__", "strong"), ("~~", "del"), ("*", "em"), ("_", "em"))


def inline(text: str, pictures: Pictures, depth: int = 0) -> str:
    """One run of text as HTML."""
    pieces: list[str] = []
    at = text_start = 0
    while (mark := _BEGINS.search(text, at)) is not None:
        span = _span_at(text, mark.start(), pictures, depth)
        if span is None:
            at = mark.end()
            continue
        html, end = span
        pieces += (_text(text[text_start : mark.start()]), html)
        at = text_start = end
    return "".join((*pieces, _text(text[text_start:])))


def _text(text: str) -> str:
    return escape(text).replace(f"{BREAK}\n", "<br>\n").replace(BREAK, "")


def _span_at(text: str, at: int, pictures: Pictures, depth: int) -> tuple[str, int] | None:
    """The HTML of the span that begins here, and where the span ends; None if this is only text."""
    match text[at]:
        case "`":
            return _code(text, at)
        case "!" | "[":
            return _link(text, at, pictures, depth)
        case "h":
            return _bare_address(text, at)
        case "\\" | "<" | "$" as first:
            return _by_expression(text, at, first)
        case _:
            return _emphasis(text, at, pictures, depth)


def _by_expression(text: str, at: int, first: str) -> tuple[str, int] | None:
    """An escaped character, an address in brackets, or a formula."""
    expression = {"\\": _ESCAPED, "<": _ADDRESS, "$": _MATH}[first]
    match = expression.match(text, at)
    if match is None:
        return None
    if first == "$":
        return f'<span class="math">{escape(match[0])}</span>', match.end()
    return escape(match[1]) if first == "\\" else _anchor(match[1], escape(match[1])), match.end()


def _code(text: str, at: int) -> tuple[str, int] | None:
    opening = _TICKS.match(text, at)
    assert opening is not None
    ticks = opening[0]
    end = text.find(ticks, opening.end(), opening.end() + LONGEST)
    while end >= 0 and (text.startswith("`", end + len(ticks)) or text[end - 1] == "`"):
        end = text.find(ticks, end + len(ticks) + 1, opening.end() + LONGEST)
    if end < 0:
        # All these ticks are text: the later ones among them open nothing either.
        return escape(ticks), opening.end()
    inside = text[opening.end() : end].replace(BREAK, "").replace("\n", " ")
    if inside.strip() and inside[0] == inside[-1] == " ":
        inside = inside[1:-1]
    return f"<code>{escape(inside)}</code>", end + len(ticks)


def _link(text: str, at: int, pictures: Pictures, depth: int) -> tuple[str, int] | None:
    if (picture := _PICTURE.match(text, at)) is not None:
        return f'<img src="{picture[2]}" alt="{escape(picture[1])}">', picture.end()
    if (nested := _NESTED.match(text, at)) is not None:
        return _anchor(nested[2], inline(nested[1], pictures, depth + 1)), nested.end()
    link = _LINK.match(text, at)
    if link is None:
        return None
    label, target = link[2], link[3].removeprefix("<").removesuffix(">")
    if not link[1]:
        inside = inline(label, pictures, depth + 1) if depth < DEEPEST else escape(label)
        return _anchor(target, inside), link.end()
    address = pictures.get(unquote(target.removeprefix("attachment:")))
    if address is not None:
        return f'<img src="{escape(address)}" alt="{escape(label)}">', link.end()
    return f'<span class="elsewhere">{escape(label or "picture")}</span> {_anchor(target, "")}'.rstrip(), link.end()


def _anchor(target: str, label: str) -> str:
    """A link, if it leads to the web or to a mail address; else its label with the target beside it."""
    if _SAFE.fullmatch(target) is None:
        return f'{label} <span class="elsewhere">({escape(target)})</span>' if target else label
    return f'<a href="{escape(target)}" rel="noopener noreferrer">{label or escape(target)}</a>'


def _bare_address(text: str, at: int) -> tuple[str, int] | None:
    if at and _WORD.match(text[at - 1]):
        return None
    match = _BARE.match(text, at)
    if match is None:
        return None
    address = match[0].rstrip(".,:;!?*_~)]" + BREAK)
    return _anchor(address, escape(address)), at + len(address)


def _emphasis(text: str, at: int, pictures: Pictures, depth: int) -> tuple[str, int] | None:
    for mark, tag in _MARKS:
        if text.startswith(mark, at):
            end = _closing(text, at, mark) if depth < DEEPEST else -1
            if end < 0:
                continue
            inside = inline(text[at + len(mark) : end], pictures, depth + 1)
            return f"<{tag}>{inside}</{tag}>", end + len(mark)
    return None


def _closing(text: str, at: int, mark: str) -> int:
    """Where the emphasis that begins here ends; -1 if none begins here, or if it never ends."""
    start = at + len(mark)
    if start >= len(text) or text[start].isspace() or (mark[0] == "_" and at and _WORD.match(text[at - 1])):
        return -1
    end = text.find(mark, start + 1, start + LONGEST)
    for _ in range(TRIED):
        if end < 0:
            break
        after = text[end + len(mark) : end + len(mark) + 1]
        inside_word = mark[0] == "_" and after and _WORD.match(after)
        longer = len(mark) == 1 and (after == mark or text[end - 1] == mark)
        if not text[end - 1].isspace() and not inside_word and not longer:
            return end
        end = text.find(mark, end + 1 + (longer and after == mark), start + LONGEST)
    return -1
