"""One table of a TOML file, edited in place: every other table, key and comment stays as it was, character for character.

put(text, ("mcp_servers", "x"), {...})   makes that table equal to the given one
drop(text, ("mcp_servers", "x"))         removes it, in whatever form it is written; undoes a `put`
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import TypeAlias

from cellwright.app.clients.jsonc import BYTE_ORDER_MARK, EditError, Json, newline_of

Toml: TypeAlias = "Json | datetime | date | time | list[Toml] | dict[str, Toml]"
_Edit: TypeAlias = tuple[int, int, str]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_KEY_PART = re.compile(r'[ \t]*([A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')[ \t]*(\.?)')
_STRING = r'"""(?:\\.|[^\\])*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:\'{0,2})|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\''
_TOKEN = re.compile(rf"{_STRING}|(?P<comment>#[^\n]*)|(?P<line>\r?\n)|[^\s\[\]{{}}\"'#]+|.", re.DOTALL)
_NESTING = {"[": 1, "{": 1, "]": -1, "}": -1}
_PLACE = re.compile(r" *\(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class _Statement:
    key: tuple[str, ...]
    """From the root of the document."""
    start: int
    end: int
    """Behind the line break."""
    value: tuple[int, int] | None
    """Where the value stands; None for the head of a table."""

    def within(self, path: tuple[str, ...]) -> bool:
        return self.key[: len(path)] == path


def loads(text: str) -> dict[str, Toml]:
    """The value of a document. The error for invalid TOML has the place of the fault."""
    try:
        return tomllib.loads(text.removeprefix(BYTE_ORDER_MARK))
    except tomllib.TOMLDecodeError as error:
        reason = str(error)
        raise EditError(_PLACE.sub("", reason), text, _offset_of_fault(text, reason)) from error


def put(text: str, path: Sequence[str], value: Mapping[str, Toml]) -> str:
    """The text with the table `path` equal to `value`. Keys that are equal already are not touched."""
    table_path, statements = tuple(path), list(_statements(text))
    old = _table(text, statements, table_path) or {}
    head = next(
        (statement for statement in statements if statement.key == table_path and statement.value is None), None
    )
    if head is None:
        return _append(drop(text, table_path), table_path, value)
    changed = {key: part for key, part in value.items() if key not in old or old[key] != part}
    spans = {
        statement.key[-1]: statement.value
        for statement in statements
        if statement.value and statement.key[:-1] == table_path
    }
    added = {key: part for key, part in changed.items() if key not in spans}
    edits = [(*spans[key], _render(part)) for key, part in changed.items() if key in spans]
    for key in [*(old.keys() - value.keys()), *added]:
        edits += _removals(text, statements, (*table_path, key))
    return _apply(text, [*edits, _addition(text, statements, head, added)])


def drop(text: str, path: Sequence[str]) -> str:
    """The text without the table `path`, its sub-tables and the comments inside it."""
    where, statements = tuple(path), list(_statements(text))
    if not _exists(loads(text), where):
        return text
    _table(text, statements, where)
    return _apply(text, _removals(text, statements, where))


def _offset_of_fault(text: str, message: str) -> int:
    place = _PLACE.search(message)
    if place is None or place[1] is None:
        return len(text)
    body = text.removeprefix(BYTE_ORDER_MARK)
    before = body.split("\n")[: int(place[1]) - 1]
    return len(text) - len(body) + sum(len(line) + 1 for line in before) + int(place[2]) - 1


def _exists(node: Toml, path: tuple[str, ...]) -> bool:
    for key in path:
        if not isinstance(node, dict) or key not in node:
            return False
        node = node[key]
    return True


def _table(text: str, statements: list[_Statement], path: tuple[str, ...]) -> dict[str, Toml] | None:
    """The current table. Refuses a document in which it cannot be a table of its own."""
    node: Toml = loads(text)
    for depth, key in enumerate(path, start=1):
        assert isinstance(node, dict)
        if key not in node:
            return None
        node = node[key]
        inline = any(statement.key == path[:depth] and statement.value for statement in statements)
        if not isinstance(node, dict) or (inline and depth < len(path)):
            place = next(statement.start for statement in statements if statement.within(path[:depth]))
            name, expected = (".".join(map(_render_key, part)) for part in (path[:depth], path))
            raise EditError(f"{name} is not written as tables such as [{expected}]", text, place)
    assert isinstance(node, dict)
    return {**node}


def _statements(text: str) -> Iterator[_Statement]:
    """The statements of a valid document, with their keys made absolute."""
    loads(text)
    at = len(text) - len(text.removeprefix(BYTE_ORDER_MARK))
    table: tuple[str, ...] = ()
    while at < len(text):
        start, at = at, _after(text, at, " \t")
        opening = text[at : at + 1]
        if opening == "[":
            table, at = _key(text, _after(text, at, "["))
            _, end = _value(text, _after(text, at, "]"))
            yield _Statement(table, start, end, None)
        elif opening and opening not in "#\r\n":
            key, equals = _key(text, at)
            first = _after(text, equals + 1, " \t")
            last, end = _value(text, first)
            yield _Statement(table + key, start, end, (first, last))
        else:
            _, end = _value(text, at)
        at = end


def _after(text: str, at: int, characters: str) -> int:
    while at < len(text) and text[at] in characters:
        at += 1
    return at


def _key(text: str, at: int) -> tuple[tuple[str, ...], int]:
    parts: list[str] = []
    while part := _KEY_PART.match(text, at):
        quoted = part[1][0] in "\"'"
        parts.append(tomllib.loads(f"key = {part[1]}")["key"] if quoted else part[1])
        at = part.end()
        if not part[2]:
            break
    return tuple(parts), at


def _value(text: str, at: int) -> tuple[int, int]:
    """Where the value that starts at `at` ends, and where the line after it starts."""
    depth, last = 0, at
    for token in _TOKEN.finditer(text, at):
        if token["line"]:
            if depth == 0:
                return last, token.end()
        elif not token["comment"] and not token[0].isspace():
            last = token.end()
            depth += _NESTING.get(token[0], 0)
    return last, len(text)


def _removals(text: str, statements: list[_Statement], path: tuple[str, ...]) -> list[_Edit]:
    """The edits that remove all statements of a table: one edit for statement run of adjacent statements."""
    runs: list[list[_Statement]] = []
    inside = False
    for statement in statements:
        if statement.within(path):
            if not inside:
                runs.append([])
            runs[-1].append(statement)
        inside = statement.within(path)
    return [_removal(text, run[0], run[-1].end) for run in runs]


def _removal(text: str, first: _Statement, end: int) -> _Edit:
    begin = first.start
    shorter = _without_line_break(text[:begin])
    if first.value is None and (not shorter or shorter.endswith(("\n", BYTE_ORDER_MARK))):
        begin = len(shorter)
    if end == len(text) and not text.endswith("\n"):
        begin = len(_without_line_break(text[:begin]))
    return begin, end, ""


def _without_line_break(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def _addition(text: str, statements: list[_Statement], head: _Statement, values: Mapping[str, Toml]) -> _Edit:
    """The edit that adds new keys behind the last key of the table, before its sub-tables."""
    last = head
    for statement in statements[statements.index(head) + 1 :]:
        if statement.value is None:
            break
        last = statement
    line = newline_of(text)
    rows = [f"{_render_key(key)} = {_render(part)}" for key, part in values.items()]
    if text[: last.end].endswith("\n"):
        return last.end, last.end, "".join(row + line for row in rows)
    return last.end, last.end, "".join(line + row for row in rows)


def _append(text: str, path: tuple[str, ...], value: Mapping[str, Toml]) -> str:
    line = newline_of(text)
    head = f"[{'.'.join(map(_render_key, path))}]"
    table = line.join([head, *(f"{_render_key(key)} = {_render(part)}" for key, part in value.items())])
    if not text.removeprefix(BYTE_ORDER_MARK):
        return text + table + line
    return text + line + table + line if text.endswith("\n") else text + line * 2 + table


def _apply(text: str, edits: list[_Edit]) -> str:
    # From the end of the text, so that no edit moves the places of others.
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _render_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _render(key)


def _render(value: Toml) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        pairs = ", ".join(f"{_render_key(key)} = {_render(part)}" for key, part in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list):
        return f"[{', '.join(_render(part) for part in value)}]"
    return value.isoformat() if isinstance(value, datetime | date | time) else repr(value)
