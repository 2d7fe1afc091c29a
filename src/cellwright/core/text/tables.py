"""Tables as tab-separated text: one line per row, whatever the cells contain.

A tab, a line break, a backslash and every unprintable character is escaped as in a Python string (`\\t`, `\\n`, `\\\\`, `\\u202e`),
so a cell can neither look like two cells nor hide anything, and can be read back exactly.
"""

from collections.abc import Iterable, Sequence

SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"}
ONE_BYTE = 0xFF
TWO_BYTES = 0xFFFF


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A line of column names and a line for each row. None becomes an empty cell, booleans become yes or no."""
    return "\n".join("\t".join(_cell_text(value) for value in row) for row in (columns, *rows))


def escaped(text: str) -> str:
    """The text as it is written in a cell."""
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(_escaped_character(character) for character in text)


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escaped(str(value))


def _escaped_character(character: str) -> str:
    if character in SHORT:
        return SHORT[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code <= ONE_BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= TWO_BYTES else f"\\U{code:08x}"
