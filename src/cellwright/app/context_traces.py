"""What a tool call was about, for the record of sessions: the one place that knows the arguments of all the parts."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from cellwright.context.model import Touched
from cellwright.context.recorder import Trace
from cellwright.storage.words import words_of

LONGEST = 400
SHORTEST_TERM = 3
MOST_TERMS = 6
FILE_ARGUMENTS = ("path", "notebook_path", "newPath", "new_path", "copyPath", "copy_path")
QUERY_ARGUMENTS = ("query", "pattern")
# Words that say nothing about what a search was for.
SMALL_WORDS = frozenset(
    ["and", "are", "class", "def", "does", "find", "for", "from", "function", "how", "import", "not", "return", "that", "the", "this",
     "use", "used", "what", "when", "where", "which", "with"]
)  # fmt: skip
FOLDER_TOOLS = frozenset({"list_nbs", "list_documents", "list_files", "search_nbs"})


def trace_of(tool: str, arguments: Mapping[str, Any]) -> Trace:
    """The things and terms that a call names. Whatever the arguments are, this does not fail."""
    touched = [
        _file(value) for name in FILE_ARGUMENTS if (value := _text(arguments, name)) and tool not in FOLDER_TOOLS
    ]
    pad = _text(arguments, "scratch_id")
    if pad:
        touched.append(Touched("pad", pad, f"scratchpad://{quote(pad, safe='')}"))
    thinking = _text(arguments, "notebook_id") or _text(arguments, "notebookId")
    if thinking:
        touched.append(Touched("thinking", thinking, f"notebook://{quote(thinking, safe='')}"))
    terms = [term for name in QUERY_ARGUMENTS for term in _terms(_text(arguments, name))]
    if tool == "context_record" and (module := _text(arguments, "module")):
        terms.append(module)
    return Trace(tuple(touched), tuple(terms), discovery=tool == "context_record")


def _file(path: str) -> Touched:
    clean = path.removeprefix("./").lstrip("/")
    if clean.endswith(".ipynb"):
        return Touched("notebook", clean, f"jupyter://{quote(clean)}")
    return Touched("file", clean, f"context://file/{quote(clean)}")


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    # What the database refuses must not be able to stop the record of everything else.
    return value if isinstance(value, str) and len(value) <= LONGEST and value.isprintable() else ""


def _terms(query: str) -> list[str]:
    words = [word for word in words_of(query) if len(word) >= SHORTEST_TERM and not word.isdigit()]
    return [word for word in words if word not in SMALL_WORDS][:MOST_TERMS]
