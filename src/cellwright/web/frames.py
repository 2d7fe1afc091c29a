"""HTML and SVG outputs as documents of their own, for a frame that may do nothing.

The frame's policy makes the browser treat them as of no origin, run nothing and load nothing. Whatever would need more than that is
removed before, so that the browser has nothing to refuse. The policy does not rely on it.
"""

import re
from html import escape, unescape

from cellwright.web.responses import COMMON_HEADERS

FRAME_HEADERS = {
    **COMMON_HEADERS,
    "content-security-policy": (
        "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; base-uri 'none'; "
        "form-action 'none'"
    ),
    "x-frame-options": "SAMEORIGIN",
    "cache-control": "no-store",
}
MOST_HTML = 1_000_000
DEEPEST = 100
STYLE = (
    ":root{color-scheme:light dark}body{margin:0;font:14px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}"
    "table,table[border]{border-collapse:collapse;border:0}"
    "td,th{padding:.25em .6em;text-align:right;border:0 solid #8884;border-bottom-width:1px}"
    "img,svg{max-width:100%;height:auto}"
)
# Removed with all that is in them.
DROPPED = frozenset(
    ["applet", "audio", "canvas", "dialog", "embed", "frame", "frameset", "noscript", "object", "portal", "select", "template", "video"]
)  # fmt: skip
# In these elements tags mean nothing until the element ends. All of them are removed but styles.
RAW = frozenset(["iframe", "noembed", "noframes", "plaintext", "script", "style", "textarea", "title", "xmp"])
# Only the tags are removed, not what is between them: they fetch, lead elsewhere, or end the document.
SKIPPED = frozenset(
    ["animate", "animatemotion", "animatetransform", "area", "base", "body", "button", "discard", "feimage",
     "foreignobject", "form", "handler", "head", "html", "input", "link", "listener", "meta", "param", "set",
     "source", "track"]
)  # fmt: skip
VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
     "wbr"]
)  # fmt: skip
ADDRESSES = frozenset(
    ["action", "background", "by", "cite", "codebase", "data", "dynsrc", "formaction", "from", "href",
     "imagesrcset", "longdesc", "lowsrc", "manifest", "ping", "poster", "src", "srcdoc", "srcset", "target",
     "to", "values", "xlink:href"]
)  # fmt: skip
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+")
_LOADS = re.compile(
    r"url\s*\(|@import|image-set|image\s*\(|src\s*\(|element\s*\(|expression|behavior|-moz-binding|\\", re.IGNORECASE
)
_INSIDE = re.compile(r"#[\w.:-]+")
_INSIDE_CALL = re.compile(r"url\(\s*[\"']?#[\w.:-]+[\"']?\s*\)")
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9:-]*+)(?=[\s/>])")
_ATTRIBUTE = re.compile(
    r"[\s/]*+(?P<name>[^\s/>=\"'<][^\s/>=]*+)(?:\s*+=\s*+(?:\"(?P<double>[^\"]*+)\"|'(?P<single>[^']*+)'|(?P<bare>[^\s>\"'][^\s>]*+)))?+"
)
_TAG_END = re.compile(r"[\s/]*+>")
_NAME = re.compile(r"[A-Za-z][\w:.-]*")


def frame(html: str) -> bytes:
    """The output as a whole document."""
    too_long = f"<p>An output of {len(html):,} characters, too long to be shown here.</p>"
    body = harmless(html) if len(html) <= MOST_HTML else too_long
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>output</title><style>{STYLE}</style>'
    return (head + body).encode("utf-8", "replace")


def harmless(html: str) -> str:
    """The HTML without what runs, fetches, or leads elsewhere. It is written anew: nothing is passed on as it was spelt.

    Each character is looked at once. (The parser of the standard library takes minutes for 40 KB of `<a `.)
    """
    pieces: list[str] = []
    dropped: list[str] = []  # the dropped elements that are open at this place
    place = 0
    while 0 <= place < len(html):
        start = html.find("<", place)
        text = html[place : start if start >= 0 else len(html)]
        if text and not dropped:
            pieces.append(escape(unescape(text), quote=False))
        if start < 0:
            break
        place = _markup(html, start, pieces, dropped)
    return "".join(pieces)


def _markup(html: str, start: int, pieces: list[str], dropped: list[str]) -> int:
    """Write the tag or comment that begins at `start`, and return where the text goes on; -1 if the tag or comment never ends."""
    tag = _TAG.match(html, start)
    if tag is None:
        return _no_tag(html, start, pieces, dropped)
    name = tag["name"].lower()
    attributes, place = _attributes(html, tag.end())
    if tag["end"]:
        _close(name, pieces, dropped)
    elif name in RAW and place >= 0:
        content, place = _raw_content(html, name, place)
        if name == "style" and not dropped:
            loads = _LOADS.search(_INSIDE_CALL.sub("", content)) or "<" in content or "&" in content
            pieces.append(f"<style>{'' if loads else content}</style>")
    elif place >= 0:
        _open(name, attributes, pieces, dropped, ends=html.startswith("/>", place - 2))
    return place


def _no_tag(html: str, start: int, pieces: list[str], dropped: list[str]) -> int:
    if html.startswith("<!--", start):
        return _after(html, "-->", start + 2)
    if html.startswith(("<!", "<?", "</"), start):
        return _after(html, ">", start)
    if not dropped:
        pieces.append("&lt;")
    return start + 1


def _open(name: str, attributes: list[tuple[str, str]], pieces: list[str], dropped: list[str], *, ends: bool) -> None:
    if name in DROPPED:
        if not ends and name not in VOID and len(dropped) < DEEPEST:
            dropped.append(name)
    elif not dropped and name not in SKIPPED:
        # In HTML a slash at the end means nothing, but in SVG it ends the element.
        closing_tag = f"</{_cased(name)}>" if ends and name not in VOID else ""
        safe_attributes = "".join(_attribute(*attribute) for attribute in attributes)
        pieces.append(f"<{_cased(name)}{safe_attributes}>{closing_tag}")


def _close(name: str, pieces: list[str], dropped: list[str]) -> None:
    if dropped:
        if name in dropped:
            del dropped[dropped.index(name) :]
    elif name not in SKIPPED and name not in DROPPED and name not in VOID and name not in RAW:
        pieces.append(f"</{_cased(name)}>")


def _attributes(html: str, place: int) -> tuple[list[tuple[str, str]], int]:
    """The attributes of a tag, and where the tag ends; -1 if it never does."""
    attributes: list[tuple[str, str]] = []
    while match := _ATTRIBUTE.match(html, place):
        value = match["double"] or match["single"] or match["bare"] or ""
        attributes.append((match["name"].lower(), unescape(value)))
        place = match.end()
    end = _TAG_END.match(html, place)
    return attributes, end.end() if end else _after(html, ">", place)


def _raw_content(html: str, name: str, place: int) -> tuple[str, int]:
    """The content of an element in which tags mean nothing, and where the text goes on."""
    end = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(html, place)
    return (html[place : end.start()], _after(html, ">", end.end())) if end else ("", -1)


def _after(html: str, ending: str, start: int) -> int:
    """The place after the next `ending`; -1 if there is none."""
    place = html.find(ending, start)
    return place + len(ending) if place >= 0 else -1


def _attribute(name: str, text: str) -> str:
    """The attribute as it is written; empty if it may not be."""
    if not _NAME.fullmatch(name) or name.startswith("on") or name == "autofocus":
        return ""
    if name in ADDRESSES and not (_PICTURE.fullmatch(text) or _INSIDE.fullmatch(text)):
        return ""
    if _LOADS.search(_INSIDE_CALL.sub("", text)) and name not in {"alt", "title", "d", "class", "id"}:
        return ""
    return f' {_cased(name)}="{escape(text)}"'


_CASED = {
    name.lower(): name
    for name in ("viewBox", "preserveAspectRatio", "clipPath", "linearGradient", "radialGradient", "gradientUnits", "gradientTransform",
                 "patternUnits", "patternTransform", "clipPathUnits", "markerWidth", "markerHeight", "refX", "refY", "textPath",
                 "spreadMethod", "startOffset", "textLength", "lengthAdjust")
}  # fmt: skip


def _cased(name: str) -> str:
    """The name with the capitals that it has in SVG. (Inside HTML the browser restores them too.)"""
    return _CASED.get(name, name)
