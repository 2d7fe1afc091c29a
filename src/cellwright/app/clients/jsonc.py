"""JSON with comments, edited in place: everything but the edited value stays as it was, character for character.

Reads what editors accept in their settings files: `//` and `/* */` comments, trailing commas, a byte order mark.

    put(text, ("mcpServers", "x"), {...})   makes the value at that path equal to the given one
    drop(text, ("mcpServers", "x"))         removes it; undoes a `put` into an object that existed
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

BYTE_ORDER_MARK = "\ufeff"
DEPTH_LIMIT = 100

_MAY_BE_BLANK = frozenset(" \t\r\n/")
_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_REST_OF_LINE = re.compile(r"[ \t]*(?:/\*(?:[^*\r\n]|\*(?!/))*\*/[ \t]*)*(?://[^\r\n]*)?(?=[\r\n])")
_SPACES = re.compile(r"[ \t]*")
_STRING = re.compile(r'"[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*"')
_LITERAL = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


class EditError(ValueError):
    """A text that cannot be read or edited, with the place of the fault."""

    def __init__(self, reason: str, text: str, offset: int) -> None:
        self.reason = reason
        self.line, self.column = position(text, offset)
        super().__init__(f"line {self.line}, column {self.column}: {reason}")


@dataclass(frozen=True, slots=True)
class _Member:
    key: str
    start: int
    node: "_Node"
    comma: int | None
    """Where the comma after this member stands."""

    @property
    def end(self) -> int:
        return self.node.end if self.comma is None else self.comma + 1


@dataclass(frozen=True, slots=True)
class _Node:
    start: int
    end: int
    data: Json
    members: tuple[_Member, ...] = ()


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column, counted from 1 as editors show them."""
    before = text[:offset].removeprefix(BYTE_ORDER_MARK)
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def newline_of(text: str) -> str:
    """The line ending of a text: that of its first line."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def loads(text: str) -> Json:
    """The value of a document. An empty document is an empty object, as for editors."""
    return {} if _is_blank(text) else _parse(text).data


def put(text: str, path: Sequence[str], value: Json) -> str:
    """The text with `value` at `path`. Missing objects on the way are added; equal parts are not touched."""
    if _is_blank(text):
        return _new_document(text, path, value)
    root = node = _parse(text)
    for depth, key in enumerate(path):
        member = _member(text, node, key)
        if member is None:
            return _insert(text, root, node, path[depth:], value)
        parent, node = node, member.node
        if depth == len(path) - 1 and not (isinstance(node.data, dict) and isinstance(value, dict)):
            return _replace(text, root, parent, node, value)
    assert isinstance(node.data, dict)
    assert isinstance(value, dict)
    for key, part in value.items():
        if key not in node.data or node.data[key] != part:
            text = put(text, (*path, key), part)
    for key in [key for key in node.data if key not in value]:
        text = drop(text, (*path, key))
    return text


def drop(text: str, path: Sequence[str]) -> str:
    """The text without the member at `path`, even if it occurs more than once."""
    if _is_blank(text):
        return text
    node = _parse(text)
    for key in path[:-1]:
        member = _member(text, node, key)
        if member is None:
            return text
        node = member.node
    target = _member(text, node, path[-1])
    if target is None:
        return text
    shorter = _cut(text, node, node.members.index(target))
    occurs_once = sum(member.key == path[-1] for member in node.members) == 1
    return shorter if occurs_once else drop(shorter, path)


def _is_blank(text: str) -> bool:
    return _skip(text, 1 if text.startswith(BYTE_ORDER_MARK) else 0) == len(text)


def _parse(text: str) -> _Node:
    root = _value(text, _skip(text, 1 if text.startswith(BYTE_ORDER_MARK) else 0), 0)
    end = _skip(text, root.end)
    if end < len(text):
        raise EditError("there is text after the end of the document", text, end)
    return root


def _skip(text: str, at: int) -> int:
    if text[at : at + 1] not in _MAY_BE_BLANK:
        return at
    match = _BLANK.match(text, at)
    end = match.end() if match else at
    if text.startswith("/*", end):
        raise EditError("the comment is not closed", text, end)
    return end


def _value(text: str, at: int, depth: int) -> _Node:
    if depth > DEPTH_LIMIT:
        raise EditError(f"more than {DEPTH_LIMIT} levels of nesting", text, at)
    opening = text[at : at + 1]
    if opening == "{":
        members = tuple(_members(text, at, depth))
        end = _skip(text, members[-1].end if members else at + 1) + 1
        return _Node(at, end, {member.key: member.node.data for member in members}, members)
    if opening == "[":
        items = list(_items(text, at, depth))
        return _Node(at, _skip(text, items[-1].end if items else at + 1) + 1, [item.node.data for item in items])
    if opening == '"':
        return _scalar(text, at, _STRING, "the string is not closed on its line")
    return _scalar(text, at, _LITERAL, "expected a value")


def _scalar(text: str, at: int, pattern: re.Pattern[str], otherwise: str) -> _Node:
    match = pattern.match(text, at)
    if match is None:
        raise EditError(otherwise, text, at)
    if pattern is _STRING and "\\" not in match[0]:
        return _Node(at, match.end(), match[0][1:-1])
    try:
        # Editors accept a raw tab inside a string, strict JSON does not.
        return _Node(at, match.end(), json.loads(match[0], strict=False))
    except ValueError as error:
        raise EditError("expected a valid string or number", text, at + getattr(error, "pos", 0)) from error


def _members(text: str, opening: int, depth: int) -> Iterator[_Member]:
    at = _skip(text, opening + 1)
    while text[at : at + 1] != "}":
        if text[at : at + 1] != '"':
            raise EditError("expected a name in double quotes, or '}'", text, at)
        key = _value(text, at, depth)
        colon = _skip(text, key.end)
        if text[colon : colon + 1] != ":":
            raise EditError("expected ':' after the name", text, colon)
        node = _value(text, _skip(text, colon + 1), depth + 1)
        comma = _comma(text, node.end, "}")
        member = _Member(str(key.data), at, node, comma)
        yield member
        at = _skip(text, member.end)


def _items(text: str, opening: int, depth: int) -> Iterator[_Member]:
    at = _skip(text, opening + 1)
    while text[at : at + 1] != "]":
        node = _value(text, at, depth + 1)
        item = _Member("", at, node, _comma(text, node.end, "]"))
        yield item
        at = _skip(text, item.end)


def _comma(text: str, at: int, closing: str) -> int | None:
    following = _skip(text, at)
    if text[following : following + 1] == ",":
        return following
    if text[following : following + 1] != closing:
        raise EditError(f"expected ',' or '{closing}'", text, following)
    return None


def _member(text: str, node: _Node, key: str) -> _Member | None:
    """The last member of that name: where a name occurs twice, readers take the last."""
    if not isinstance(node.data, dict):
        raise EditError(f"expected an object in which {key!r} can stand", text, node.start)
    return next((member for member in reversed(node.members) if member.key == key), None)


def _nested(path: Sequence[str], value: Json) -> Json:
    for key in reversed(path):
        value = {key: value}
    return value


def _new_document(text: str, path: Sequence[str], value: Json) -> str:
    line = newline_of(text)
    body = render(_nested(path, value), line, "  ") + line
    comments = text.removeprefix(BYTE_ORDER_MARK).strip()
    return text + ("" if not comments or text.endswith("\n") else line) + body


def _replace(text: str, root: _Node, parent: _Node, node: _Node, value: Json) -> str:
    if node.data == value:
        return text
    if _on_one_line(text, parent):
        new = json.dumps(value, ensure_ascii=False)
    else:
        new = render(value, newline_of(text) + _indent_at(text, node.start), _unit(text, root))
    return text[: node.start] + new + text[node.end :]


def _insert(text: str, root: _Node, parent: _Node, path: Sequence[str], value: Json) -> str:
    name, value = json.dumps(path[0], ensure_ascii=False), _nested(path[1:], value)
    unit = _unit(text, root)
    indent = _indent_at(text, parent.members[0].start) if parent.members else _indent_at(text, parent.start) + unit
    lead = newline_of(text) + indent
    short = f"{name}: {json.dumps(value, ensure_ascii=False)}"
    long = f"{name}: {render(value, lead, unit)}"
    if not parent.members:
        inside = parent.start + 1
        if _on_one_line(text, root):
            return text[:inside] + short + text[inside:]
        layouts = _layouts_in_empty(text, parent, lead, long)
        # `drop` does not remove objects that had to be added, so only the innermost one has to be undone exactly.
        for layout in layouts if len(path) == 1 else ():
            if _cut(layout, _value(layout, parent.start, 0), 0) == text:
                return layout
        return layouts[0]
    last = parent.members[-1]
    if _on_one_line(text, parent):
        return _append(text, last, " " + short, last.end)
    after = _REST_OF_LINE.match(text, last.end)
    return _append(text, last, lead + long, after.end() if after else last.end)


def _append(text: str, last: _Member, addition: str, at: int) -> str:
    """Append a member. A comment behind the last member stays behind it, and a file with a trailing comma keeps one."""
    if last.comma is not None:
        return text[:at] + addition + "," + text[at:]
    return text[: last.end] + "," + text[last.end : at] + addition + text[at:]


def _layouts_in_empty(text: str, parent: _Node, lead: str, pair: str) -> list[str]:
    """Ways to write the first member of an empty object, the nicest first."""
    start, end = parent.start + 1, parent.end - 1
    plain = text[:start] + pair + text[start:]
    if start == end:
        return [text[:start] + lead + pair + newline_of(text) + _indent_at(text, parent.start) + text[end:], plain]
    after = _REST_OF_LINE.match(text, start, end)
    return [text[: after.end()] + lead + pair + text[after.end() :], plain] if after else [plain]


def _cut(text: str, parent: _Node, index: int) -> str:
    member, follows = parent.members[index], index + 1 < len(parent.members)
    begin, starts_line = _line_break_before(text, member.start)
    following_text = text[member.end :]
    before_comma = text[member.node.end : member.end].removesuffix(",")
    if before_comma.strip():
        following_text = before_comma + following_text
    if not starts_line:
        shares_line = index == 0 and follows
    elif _REST_OF_LINE.match(following_text):
        shares_line = False
    else:
        gap = text[parent.members[index - 1].end if index else parent.start + 1 : begin]
        shares_line = follows or _ends_in_line_comment(gap)
    if shares_line:
        # The text behind the member takes its place on the line.
        begin, following_text = member.start, following_text.lstrip(" \t")
    if member.comma is None and index:
        comma = parent.members[index - 1].end - 1
        return text[:comma] + text[comma + 1 : begin] + following_text
    if starts_line and begin == parent.start + 1:
        closing = newline_of(text) + _indent_at(text, parent.start)
        following_text = (
            following_text.removeprefix(closing) if following_text.startswith(closing + "}") else following_text
        )
    return text[:begin] + following_text


def _line_break_before(text: str, at: int) -> tuple[int, bool]:
    """Where the blanks before `at` begin, including one line break, and whether there is a line break."""
    begin = at
    while begin and text[begin - 1] in " \t":
        begin -= 1
    if not begin or text[begin - 1] != "\n":
        return begin, False
    return begin - (2 if text[begin - 2 : begin] == "\r\n" else 1), True


def _ends_in_line_comment(gap: str) -> bool:
    comments = _COMMENT.findall(gap)
    return bool(comments) and comments[-1].startswith("//")


def _on_one_line(text: str, node: _Node) -> bool:
    return bool(node.members) and "\n" not in text[node.start : node.members[0].start]


def _indent_at(text: str, at: int) -> str:
    line_start = text.rfind("\n", 0, at) + 1
    spaces = _SPACES.match(text, line_start)
    return spaces[0] if spaces else ""


def _unit(text: str, root: _Node) -> str:
    """One level of indentation in this document."""
    if not root.members or _on_one_line(text, root):
        return "  "
    return _indent_at(text, root.members[0].start).removeprefix(_indent_at(text, root.start)) or "  "


def render(value: Json, line: str, unit: str) -> str:
    """JSON as people write it: each member of an object on its own line, a list on one line. `line` begins every new line."""
    if not isinstance(value, Mapping) or not value:
        return json.dumps(value, ensure_ascii=False)
    rows = [f"{json.dumps(key, ensure_ascii=False)}: {render(part, line + unit, unit)}" for key, part in value.items()]
    return "{" + ",".join(line + unit + row for row in rows) + line + "}"
