"""What a terminal would finally show of a stream of text: without escape sequences, and with overwriting applied.

Carriage return, backspace, the cursor moves of progress bars (up, down, right, left, to a column) and "erase line" are
applied. Colours, links, titles, clipboard writes, pictures and every other sequence leave no trace. Columns are counted in
characters, as JupyterLab does.
"""

import re

_EIGHT_BIT = {
    "\x90": "\x1bP",
    "\x98": "\x1bX",
    "\x9b": "\x1b[",
    "\x9c": "\x1b\\",
    "\x9d": "\x1b]",
    "\x9e": "\x1b^",
    "\x9f": "\x1b_",
}

_CURSOR = r"\[[0-9]{0,3}[A-DGK]"
# A string sequence (link, title, clipboard, picture) ends with BEL or ESC \. One that never ends must not remove the text
# after it: a payload without white space (a picture) may have any length, others 4,096 characters; without an end, at most
# 256 characters of the line are removed. No part can match an ESC, so the whole scan is linear.
_ESCAPE = re.compile(
    rf"""\x1b(?:
        \[ [0-9;:]*+ m
      | (?!{_CURSOR}) \[ [0-?]{{0,64}}+ [\x20-/]{{0,8}}+ [@-~]?
      | [\]PX^_] (?: [^\s\x07\x1b]*+ (?:\x07|\x1b\\)
                   | [^\x07\x1b]{{0,4096}}+ (?:\x07|\x1b\\)
                   | [^\r\n\x07\x1b]{{0,256}}+ )
      | (?!\[) [\x20-/]{{0,4}}+ [0-~]?
    )""",
    re.VERBOSE,
)
_MOVE = re.compile(rf"\r+|\x08+|\x1b{_CURSOR}")


def strip_escapes(text: str) -> str:
    """The text without escape sequences, except the cursor moves that `lay_out` applies."""
    if not text.isascii():
        for eight_bit, seven_bit in _EIGHT_BIT.items():
            text = text.replace(eight_bit, seven_bit)
    return _ESCAPE.sub("", text)


def lay_out(text: str) -> str:
    """The text after applying its carriage returns, backspaces and cursor moves. Takes the result of `strip_escapes`."""
    text = text.replace("\r\n", "\n")
    if not any(map(text.__contains__, "\r\x08\x1b")):
        return text
    screen = _Screen(padding=len(text))
    start = 0
    for move in _MOVE.finditer(text):
        if start < move.start():
            screen.write(text[start : move.start()])
        screen.move(move[0])
        start = move.end()
    screen.write(text[start:])
    return screen.text()


class _Screen:
    """Rows of text and a cursor. A row is a string until something inside it changes."""

    def __init__(self, *, padding: int) -> None:
        self._rows: list[str | list[str]] = [""]
        self._row = 0
        self._column = 0
        # Moves to the right insert blanks. Their number is limited, so that a short hostile text cannot become a huge one.
        self._padding = padding

    def write(self, text: str) -> None:
        first, *lines = text.split("\n")
        self._put(first)
        for line in lines:
            self._row += 1
            self._column = 0
            if self._row == len(self._rows):
                self._rows.append("")
            self._put(line)

    def move(self, control: str) -> None:
        count = int(control[2:-1] or 1) if control[0] == "\x1b" else len(control)
        match control[-1]:
            case "\r":
                self._column = 0
            case "\x08":
                self._backspace(count)
            case "A":
                self._row = max(0, self._row - count)
            case "B":
                self._row = min(len(self._rows) - 1, self._row + count)
            case "C":
                self._column += count
            case "D":
                self._column = max(0, self._column - count)
            case "G":
                self._column = max(0, count - 1)
            case _:
                self._erase(control[2:-1])

    def text(self) -> str:
        return "\n".join(row if isinstance(row, str) else "".join(row) for row in self._rows)

    def _put(self, run: str) -> None:
        if not run:
            return
        if self._column == 0 and len(run) >= len(self._rows[self._row]):
            self._rows[self._row] = run
        else:
            row = self._characters()
            self._pad(row)
            row[self._column : self._column + len(run)] = run
        self._column += len(run)

    def _pad(self, row: list[str]) -> None:
        gap = self._column - len(row)
        if gap > self._padding:
            self._column = len(row)
        elif gap > 0:
            self._padding -= gap
            row.extend(" " * gap)

    def _backspace(self, count: int) -> None:
        """Delete at the end of a row, as JupyterLab does; inside a row only step back, as terminals do."""
        column = max(0, self._column - count)
        if self._column == len(self._rows[self._row]):
            del self._characters()[column:]
        self._column = column

    def _erase(self, part: str) -> None:
        """Erase to the end of the row, or all of it. Erasing to its start ("1") is not supported: nobody uses it."""
        if part in {"", "0"}:
            if self._column < len(self._rows[self._row]):
                del self._characters()[self._column :]
        elif part == "2":
            self._characters().clear()

    def _characters(self) -> list[str]:
        row = self._rows[self._row]
        if isinstance(row, str):
            row = self._rows[self._row] = list(row)
        return row
