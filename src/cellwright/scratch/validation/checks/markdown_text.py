"""Checks Markdown. Any text is Markdown, so there are only warnings, for what the writer hardly intended."""

import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from cellwright.scratch.validation.checked import Checked
from cellwright.scratch.validation.languages import Language
from cellwright.scratch.validation.model import Diagnostic

_FRONT_MATTER = re.compile(r"---[ \t]*\n(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_REFERENCE = re.compile(r"\[[^\[\]]+\]\[([^\[\]]+)\]")
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")
_HTML_ANCHOR = re.compile(r"""\b(?:id|name)\s*=\s*["']?([^"'\s>]+)""")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*$")


def check(text: str, _language: Language) -> Checked:
    front = _FRONT_MATTER.match(text)
    # The lines of the front matter stay as empty ones, so that all others keep their numbers.
    body = "\n" * front.group().count("\n") + text[front.end() :] if front else text
    tokens = MarkdownIt("commonmark").enable("table").parse(body)
    lines = body.split("\n")
    findings = [*_open_fences(tokens, lines), *_heading_jumps(tokens), *_links(tokens), *_references(tokens)]
    return Checked(tuple(sorted(findings, key=lambda finding: finding.line or 0)))


def _warning(message: str, token: Token) -> Diagnostic:
    return Diagnostic("warning", message, token.map[0] + 1 if token.map else None, 1, source="markdown")


def _open_fences(tokens: Sequence[Token], lines: Sequence[str]) -> Iterator[Diagnostic]:
    for token in tokens:
        if token.type != "fence" or token.map is None or token.level > 0:
            continue
        first, end = token.map
        closing = _FENCE.match(lines[end - 1].rstrip("\r")) if end - 1 > first and end <= len(lines) else None
        if closing is None or not closing[1].startswith(token.markup):
            yield _warning(f"this {token.markup} is never closed: all that follows is code", token)


def _heading_jumps(tokens: Sequence[Token]) -> Iterator[Diagnostic]:
    previous_level = 0
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag[1:])
            if previous_level and level > previous_level + 1:
                yield _warning(f"heading of level {level} follows one of level {previous_level}", token)
            previous_level = level


def _anchors(tokens: Sequence[Token]) -> set[str]:
    """The anchors of headings, as most renderers make them, and those of HTML elements."""
    anchors: set[str] = set()
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            name = _NOT_IN_ANCHORS.sub("", tokens[index + 1].content.lower()).strip().replace(" ", "-")
            number = 0
            while (anchor := f"{name}-{number}" if number else name) in anchors:
                number += 1
            anchors.add(anchor)
        parts = [token, *(token.children or ())]
        anchors |= {
            name.lower()
            for part in parts
            if part.type.startswith("html")
            for name in _HTML_ANCHOR.findall(part.content)
        }
    return anchors


def _links(tokens: Sequence[Token]) -> Iterator[Diagnostic]:
    anchors = _anchors(tokens)
    for token in tokens:
        for part in token.children or ():
            if part.type != "link_open":
                continue
            target = str(part.attrs.get("href", ""))
            if not target:
                yield _warning("a link leads nowhere", token)
            elif target.startswith("#") and len(target) > 1 and unquote(target[1:]).lower() not in anchors:
                yield _warning(f"there is no heading here for the link {target}", token)


def _references(tokens: Sequence[Token]) -> Iterator[Diagnostic]:
    """`[text][name]` that stayed text, because nothing defines the name."""
    for token in tokens:
        for part in token.children or ():
            if part.type == "text":
                for name in _REFERENCE.findall(part.content):
                    yield _warning(f"nothing defines the link [{name}]", token)
