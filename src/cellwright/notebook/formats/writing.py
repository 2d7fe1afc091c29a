"""A notebook as text, with all that is lost on the way: what the format names itself, and what does not come back."""

from dataclasses import dataclass

from cellwright.notebook.formats.losses import difference, reported_losses
from cellwright.notebook.formats.registry import FORMATS, format_named
from cellwright.notebook.model import InvalidFormat, Notebook


@dataclass(frozen=True, slots=True)
class WrittenNotebook:
    """A notebook as text, and sentences about everything that is not in it."""

    text: str
    mime_type: str
    losses: list[str]


def written(notebook: Notebook, format_name: str) -> WrittenNotebook:
    encoded = format_named(format_name).encode(notebook)
    losses = reported_losses(encoded.losses, _measured_losses(notebook, encoded.text, format_name))
    return WrittenNotebook(encoded.text, encoded.mime_type, losses)


def _measured_losses(notebook: Notebook, text: str, format_name: str) -> dict[str, str]:
    if format_name == "html":
        return {}
    try:
        return difference(notebook, FORMATS[format_name].decode(text), format_name)
    except InvalidFormat as error:
        # The format has a bug: a text with this warning is better than no text.
        return {"all": f"this text cannot be read back as {format_name}: {error.message}"}
