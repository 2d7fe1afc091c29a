"""Conversions as jobs of a worker process. Notebooks are passed in our own JSON form."""

from typing import Any

from cellwright.notebook.formats import native
from cellwright.notebook.formats.registry import format_named
from cellwright.notebook.formats.writing import written


def write(notebook: bytes, format_name: str, *, measured: bool) -> dict[str, Any]:
    """The notebook as text. With `measured`, the losses are all that does not come back, not only what the format names itself."""
    decoded = native.unpacked(notebook)
    if measured:
        whole = written(decoded, format_name)
        return {"text": whole.text, "mime_type": whole.mime_type, "losses": whole.losses}
    encoded = format_named(format_name).encode(decoded)
    return {"text": encoded.text, "mime_type": encoded.mime_type, "losses": list(encoded.losses)}


def read(text: str, format_name: str) -> bytes:
    """The notebook in a text."""
    return native.packed(format_named(format_name).decode(text))
