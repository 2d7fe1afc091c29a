"""Conversions as jobs of a worker process: a notebook travels in our own JSON form."""

from typing import Any

from cellwright.notebook.formats import native
from cellwright.notebook.formats.registry import format_named
from cellwright.notebook.formats.writing import written


def write(notebook: bytes, format_name: str, *, measured: bool) -> dict[str, Any]:
    """The notebook as text; `measured`: with all that does not come back of it, not only what the format says itself."""
    decoded = native.unpacked(notebook)
    if measured:
        whole = written(decoded, format_name)
        return {"text": whole.text, "mime_type": whole.mime_type, "losses": whole.losses}
    made = format_named(format_name).encode(decoded)
    return {"text": made.text, "mime_type": made.mime_type, "losses": list(made.losses)}


def read(text: str, format_name: str) -> bytes:
    """The notebook in a text."""
    return native.packed(format_named(format_name).decode(text))
