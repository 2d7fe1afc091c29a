"""What a tool call was about, for the record of sessions: the places that it names and the terms that it searches for."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from cellwright.context.model import Touched
from cellwright.context.recorder import Trace
from cellwright.context.uris import file_uri
from cellwright.core.text.names import can_be_given
from cellwright.notebook.places import Naming, Place, PlaceKind
from cellwright.storage.search.words import words_of

LONGEST = 400
SHORTEST_TERM = 3
MOST_TERMS = 6
RECORDING = "context_record"
"""The tool that records a discovery."""
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


class Traces:
    """Reads the arguments of calls. `naming` are the shelves that know which of them name places."""

    def __init__(self, naming: Sequence[Naming]) -> None:
        self._naming = naming

    def trace_of(self, tool: str, arguments: Mapping[str, Any]) -> Trace:
        """The places and terms that a call names. Whatever the arguments are, this does not fail."""
        terms = [term for name in QUERY_ARGUMENTS if (query := _text(arguments, name)) for term in _terms(query)]
        terms += _headings(arguments)
        if tool == RECORDING and (module := _text(arguments, "module")):
            terms.append(module)
        return Trace(tuple(self.touched_by(tool, arguments)), tuple(terms), discovery=tool == RECORDING)

    def touched_by(self, tool: str, arguments: Mapping[str, Any]) -> list[Touched]:
        """The places that a call names."""
        places = [
            shelf.named(name)
            for shelf in self._naming
            for argument in shelf.arguments(tool)
            if (name := _text(arguments, argument))
        ]
        # An address may hold a name that nothing can have.
        return [_touched(place) for place in places if place is not None and can_be_given(place.id)]


def _touched(place: Place) -> Touched:
    """A file gets our own address, even if others can open it, too."""
    uri = file_uri(place.id) if place.kind is PlaceKind.FILE else place.uri
    return Touched(place.kind.value, place.id, uri)


def _headings(arguments: Mapping[str, Any]) -> list[str]:
    """The headings of the markdown that a call writes: there the author says what it is about."""
    inner: object = arguments.get("cells")
    cells = cast("list[object]", inner)[:MOST_TERMS] if isinstance(inner, list) else []
    cells_to_write = (arguments, arguments.get("cell"), *cells)
    headings = [_heading(cast("Mapping[str, Any]", cell)) for cell in cells_to_write if isinstance(cell, Mapping)]
    return [heading for heading in headings if heading]


def _heading(cell: Mapping[str, Any]) -> str:
    if not any(cell.get(name) in MARKDOWN for name in KIND_ARGUMENTS):
        return ""
    source = next((value for name in SOURCE_ARGUMENTS if isinstance(value := cell.get(name), str)), "")
    match = _HEADING.match(source[:LONGEST])
    text = match[1].strip() if match else ""
    return text if len(text) <= LONGEST_HEADING and text.isprintable() else ""


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    # A text that the database refuses must not stop the record of everything else.
    return value if isinstance(value, str) and len(value) <= LONGEST and can_be_given(value) else ""


def _terms(query: str) -> list[str]:
    words = [word for word in words_of(query) if len(word) >= SHORTEST_TERM and not word.isdigit()]
    return [word for word in words if word not in SMALL_WORDS][:MOST_TERMS]
