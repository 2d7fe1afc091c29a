"""HTML and SVG outputs as documents of their own, for a frame that may do nothing.

The browser is told to treat them as of no origin, to run nothing and to load nothing. What could ask for more than that is taken
out beforehand, so that nothing has to be refused; the frame's policy does not rely on it.
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
# Gone with all that is in them.
DROPPED = frozenset(
    ["applet", "audio", "canvas", "dialog", "embed", "frame", "frameset", "noscript", "object", "portal", "select", "template", "video"]
)  # fmt: skip
# Here tags mean nothing until the end of the element. All of them are gone but styles.
RAW = frozenset(["iframe", "noembed", "noframes", "plaintext", "script", "style", "textarea", "title", "xmp"])
# Gone alone: they fetch, move on, or end the document.
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
    """The HTML without what runs, fetches, or leads away, written anew: nothing of it is passed on as it was spelt.

    Each character is looked at once. (The parser of the standard library takes minutes for 40 KB of `<a `.)
    """
    kept: list[str] = []
    inside: list[str] = []
    place = 0
    while 0 <= place < len(html):
        start = html.find("<", place)
        text = html[place : start if start >= 0 else len(html)]
        if text and not inside:
            kept.append(escape(unescape(text), quote=False))
        if start < 0:
            break
        place = _markup(html, start, kept, inside)
    return "".join(kept)


def _markup(html: str, start: int, kept: list[str], inside: list[str]) -> int:
    """One tag or comment, beginning at `start`; where the text goes on, or -1 if it never ends."""
    tag = _TAG.match(html, start)
    if tag is None:
        return _no_tag(html, start, kept, inside)
    name = tag["name"].lower()
    attributes, place = _attributes(html, tag.end())
    if tag["end"]:
        _close(name, kept, inside)
    elif name in RAW and place >= 0:
        content, place = _raw(html, name, place)
        if name == "style" and not inside:
            loads = _LOADS.search(_INSIDE_CALL.sub("", content)) or "<" in content or "&" in content
            kept.append(f"<style>{'' if loads else content}</style>")
    elif place >= 0:
        _open(name, attributes, kept, inside, ends=html.startswith("/>", place - 2))
    return place


def _no_tag(html: str, start: int, kept: list[str], inside: list[str]) -> int:
    if html.startswith("<!--", start):
        return _after(html, "-->", start + 2)
    if html.startswith(("<!", "<?", "</"), start):
        return _after(html, ">", start)
    if not inside:
        kept.append("&lt;")
    return start + 1


def _open(name: str, attributes: list[tuple[str, str]], kept: list[str], inside: list[str], *, ends: bool) -> None:
    if name in DROPPED:
        inside += [name] if not ends and name not in VOID and len(inside) < DEEPEST else []
    elif not inside and name not in SKIPPED:
        # In HTML a slash at the end means nothing, but in SVG it ends the element.
        closed = f"</{_cased(name)}>" if ends and name not in VOID else ""
        kept.append(f"<{_cased(name)}{''.join(_attribute(*one) for one in attributes)}>{closed}")


def _close(name: str, kept: list[str], inside: list[str]) -> None:
    if inside:
        if name in inside:
            del inside[inside.index(name) :]
    elif name not in SKIPPED and name not in DROPPED and name not in VOID and name not in RAW:
        kept.append(f"</{_cased(name)}>")


def _attributes(html: str, place: int) -> tuple[list[tuple[str, str]], int]:
    """The attributes of a tag, and where it ends; -1 if it does not."""
    found: list[tuple[str, str]] = []
    while one := _ATTRIBUTE.match(html, place):
        value = one["double"] or one["single"] or one["bare"] or ""
        found.append((one["name"].lower(), unescape(value)))
        place = one.end()
    end = _TAG_END.match(html, place)
    return (found, end.end()) if end else (found, _after(html, ">", place))


def _raw(html: str, name: str, place: int) -> tuple[str, int]:
    """The content of an element in which tags mean nothing, and where the text goes on."""
    end = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(html, place)
    return (html[place : end.start()], _after(html, ">", end.end())) if end else ("", -1)


def _after(html: str, what: str, start: int) -> int:
    found = html.find(what, start)
    return found + len(what) if found >= 0 else -1


def _attribute(name: str, value: str | None) -> str:
    if not _NAME.fullmatch(name) or name.startswith("on") or name == "autofocus":
        return ""
    text = value or ""
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
    """SVG knows capitals; the parser does not keep them. (Inside HTML the browser mends them too.)"""
    return _CASED.get(name, name)
