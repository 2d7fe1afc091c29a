"""What a tool call was about, for the record of sessions: the places it names, as their shelves know them, and what it is looking for."""

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
"""The tool with which something learnt is kept."""
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
    """Reads the arguments of calls. Who names places in them is given."""

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
        """The places alone."""
        places = [
            one.named(name)
            for one in self._naming
            for argument in one.arguments(tool)
            if (name := _text(arguments, argument))
        ]
        # A name in an address may be one that nothing has.
        return [_touched(place) for place in places if place is not None and can_be_given(place.id)]


def _touched(place: Place) -> Touched:
    """A file is read through us, whoever else can open it."""
    uri = file_uri(place.id) if place.kind is PlaceKind.FILE else place.uri
    return Touched(place.kind.value, place.id, uri)


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


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    # What the database refuses must not be able to stop the record of everything else.
    return value if isinstance(value, str) and len(value) <= LONGEST and can_be_given(value) else ""


def _terms(query: str) -> list[str]:
    words = [word for word in words_of(query) if len(word) >= SHORTEST_TERM and not word.isdigit()]
    return [word for word in words if word not in SMALL_WORDS][:MOST_TERMS]
