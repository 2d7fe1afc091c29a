"""What a tool call was about, for the record of sessions: the one place that knows the arguments of all the parts."""

import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote, unquote

from cellwright.context.model import THINKING, Touched
from cellwright.context.names import can_be_given
from cellwright.context.recorder import Trace
from cellwright.storage.words import words_of

LONGEST = 400
SHORTEST_TERM = 3
MOST_TERMS = 6
FILE_ARGUMENTS = ("path", "notebook_path", "newPath", "new_path", "copyPath", "copy_path")
QUERY_ARGUMENTS = ("query", "pattern")
KIND_ARGUMENTS = ("cell_type", "cellType", "kind", "type", "language")
SOURCE_ARGUMENTS = ("source", "content", "text", "cell_source")
MARKDOWN = ("markdown", "md")
LONGEST_HEADING = 60
_HEADING = re.compile(r"\s*#{1,6}[ \t]+([^\n]+)")
# Words that say nothing about what a search was for.
SMALL_WORDS = frozenset(
    ["and", "are", "class", "def", "does", "find", "for", "from", "function", "how", "import", "not", "return", "that", "the", "this",
     "use", "used", "what", "when", "where", "which", "with"]
)  # fmt: skip
FOLDER_TOOLS = frozenset({"list_nbs", "list_documents", "list_files", "search_nbs"})
EXCHANGE_TOOLS = frozenset({"export_notebook", "import_notebook"})
NOBODY = ("", "scratchpad://", "notebook://", "notebook://current")
"""Addresses that name nothing by themselves."""


def trace_of(tool: str, arguments: Mapping[str, Any]) -> Trace:
    """The things and terms that a call names. Whatever the arguments are, this does not fail."""
    terms = [term for name in QUERY_ARGUMENTS if (query := _text(arguments, name)) for term in _terms(query)]
    terms += _headings(arguments)
    if tool == "context_record" and (module := _text(arguments, "module")):
        terms.append(module)
    return Trace(tuple(touched_by(tool, arguments)), tuple(terms), discovery=tool == "context_record")


def touched_by(tool: str, arguments: Mapping[str, Any]) -> list[Touched]:
    """The things alone."""
    touched = [
        _file(value) for name in FILE_ARGUMENTS if (value := _text(arguments, name)) and tool not in FOLDER_TOOLS
    ]
    pad = _text(arguments, "scratch_id")
    if pad:
        touched.append(Touched("pad", pad, f"scratchpad://{quote(pad, safe='')}"))
    thinking = _text(arguments, "notebook_id") or _text(arguments, "notebookId")
    if thinking:
        touched.append(Touched(THINKING, thinking))
    if tool in EXCHANGE_TOOLS:
        touched += [_addressed(value) for name in ("source", "into") if (value := _text(arguments, name)) not in NOBODY]
    # A name in an address may be one that nothing has.
    return [one for one in touched if can_be_given(one.path)]


def _headings(arguments: Mapping[str, Any]) -> list[str]:
    """The headings of markdown that a call writes: what the author says it is about."""
    inner: object = arguments.get("cells")
    cells = cast("list[object]", inner)[:MOST_TERMS] if isinstance(inner, list) else []
    written = (arguments, arguments.get("cell"), *cells)
    found = [_heading(cast("Mapping[str, Any]", one)) for one in written if isinstance(one, Mapping)]
    return [heading for heading in found if heading]


def _heading(cell: Mapping[str, Any]) -> str:
    if not any(cell.get(name) in MARKDOWN for name in KIND_ARGUMENTS):
        return ""
    source = next((value for name in SOURCE_ARGUMENTS if isinstance(value := cell.get(name), str)), "")
    found = _HEADING.match(source[:LONGEST])
    text = found[1].strip() if found else ""
    return text if len(text) <= LONGEST_HEADING and text.isprintable() else ""


def _addressed(given: str) -> Touched:
    """What is named as the conversions name things: a pad, a thinking notebook, else a file."""
    scheme, _, rest = given.partition("://")
    if scheme == "scratchpad":
        pad = rest.partition("/")[0]
        return Touched("pad", pad, f"scratchpad://{quote(pad, safe='')}")
    if scheme == "notebook":
        return Touched("thinking", rest.rpartition("/")[2], f"notebook://{quote(rest)}")
    return _file(unquote(rest) if scheme == "jupyter" and rest else given)


def _file(path: str) -> Touched:
    clean = path.removeprefix("./").lstrip("/")
    if clean.endswith(".ipynb"):
        return Touched("notebook", clean, f"jupyter://{quote(clean)}")
    return Touched("file", clean, f"context://file/{quote(clean)}")


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    # What the database refuses must not be able to stop the record of everything else.
    return value if isinstance(value, str) and len(value) <= LONGEST and can_be_given(value) else ""


def _terms(query: str) -> list[str]:
    words = [word for word in words_of(query) if len(word) >= SHORTEST_TERM and not word.isdigit()]
    return [word for word in words if word not in SMALL_WORDS][:MOST_TERMS]
