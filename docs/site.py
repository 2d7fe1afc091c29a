"""The documentation as a site: every page of docs/ as HTML in site/, beside its Markdown and llms.txt. Run by `make docs`."""

import re
import shutil
import sys
from html import escape
from itertools import pairwise
from os.path import relpath
from pathlib import Path

from markdown_it import MarkdownIt
from pages import SUMMARY, pages, pages_in_order, title_of

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
KEPT = {".css", ".md", ".svg", ".png", ".txt", ".ipynb"}


def slug(heading: str) -> str:
    """The anchor of a heading, as forges make it, so that links work in both places."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def render(text: str) -> str:
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = markdown.parse(text)
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", slug(re.sub(r"[`*]|\]\([^)]*\)|\[", "", inline.content)))
    body = markdown.renderer.render(tokens, markdown.options, {})
    return re.sub(r'(href="(?!https?:|[a-z]+:)[^"#]*)\.md([#"])', r"\1.html\2", body)


def navigation(page: Path) -> str:
    parts: list[str] = []
    for section, listed in pages_in_order(DOCS, pages(DOCS)).items():
        parts.append(f"<h2>{section}</h2><ul>")
        for other in listed:
            there = relpath(other.with_suffix(".html"), page.parent)
            here = ' aria-current="page"' if other == page else ""
            inner = ' class="inner"' if other.parent != DOCS else ""
            title = escape(title_of(other.read_text(encoding="utf-8")).partition(": ")[0])
            parts.append(f'<li{inner}><a href="{there}"{here}>{title}</a></li>')
        parts.append("</ul>")
    return "".join(parts)


def whole(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    up = relpath(DOCS, page.parent)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'self'; img-src 'self'\">"
        f'<meta name="description" content="{escape(SUMMARY)}"><title>{escape(title_of(text))} · cellwright</title>'
        f'<link rel="stylesheet" href="{up}/site.css">'
        f"<nav>{navigation(page)}</nav><main>{render(text)}</main></html>\n"
    )


def build(site: Path) -> None:
    """Write the site, new from the start."""
    shutil.rmtree(site, ignore_errors=True)
    for file in DOCS.rglob("*"):
        if file.is_file() and file.suffix in KEPT:
            to = site / file.relative_to(DOCS)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, to)
    for page in pages(DOCS):
        (site / page.relative_to(DOCS)).with_suffix(".html").write_text(whole(page), encoding="utf-8")


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site")
