"""A notebook as text, with all that is lost on the way: what the format says itself, and what does not come back."""

from dataclasses import dataclass

from cellwright.notebook.formats.losses import difference, told
from cellwright.notebook.formats.registry import FORMATS, format_named
from cellwright.notebook.model import InvalidFormat, Notebook


@dataclass(frozen=True, slots=True)
class WrittenNotebook:
    """A notebook as text, and in words everything that is not in it."""

    text: str
    mime_type: str
    losses: list[str]


def written(notebook: Notebook, format_name: str) -> WrittenNotebook:
    made = format_named(format_name).encode(notebook)
    return WrittenNotebook(made.text, made.mime_type, told(made.losses, _measured(notebook, made.text, format_name)))


def _measured(notebook: Notebook, text: str, format_name: str) -> dict[str, str]:
    if format_name == "html":
        return {}
    try:
        return difference(notebook, FORMATS[format_name].decode(text), format_name)
    except InvalidFormat as wrong:
        # A fault of ours in the format: better a text that says so than none.
        return {"all": f"this text cannot be read back as {format_name}: {wrong.message}"}
