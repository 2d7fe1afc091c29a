"""Editing JSON with comments, on documents that were made together with the value they mean."""

import json
import re
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.app.clients.jsonc import EditError, Json, drop, loads, put
from requirements import requirement

SERVERS = "mcpServers"
OWN = "cellwright"
PATH = (SERVERS, OWN)
ENTRY: dict[str, Json] = {"command": "uvx", "args": ["cellwright", "--x"], "env": {"A": "1"}}
OTHER: dict[str, Json] = {"type": "http", "url": "https://example.com/mcp", "args": []}

COMMENT_TEXTS = ("note", 'a "quoted" word', "{", "}", "[1,", "// again", '"cellwright": {}', "*", "ü")


@dataclass(frozen=True)
class Document:
    text: str
    value: dict[str, Json]


class Writer:
    """Writes a value as JSON with random blank space and comments, in one style of line ending."""

    def __init__(self, draw: st.DrawFn, newline: str) -> None:
        self.draw = draw
        self.newline = newline
        self.mark = "keep"

    def gap(self) -> str:
        return "".join(self.piece() for _ in range(self.draw(st.integers(0, 3))))

    def piece(self) -> str:
        kind = self.draw(st.sampled_from(("space", "tab", "line", "indent", "block", "long block", "comment")))
        note = f"<{self.mark} {self.draw(st.sampled_from(COMMENT_TEXTS))}>"
        return {
            "space": " ",
            "tab": "\t",
            "line": self.newline,
            "indent": self.newline + "  ",
            "block": f"/* {note} */",
            "long block": f"/* {note}{self.newline} */",
            "comment": f"// {note}{self.newline}",
        }[kind]

    def write(self, value: Json) -> str:
        if isinstance(value, dict):
            return self.sequence("{", [self.pair(key, self.write(part)) for key, part in value.items()], "}")
        if isinstance(value, list):
            return self.sequence("[", [self.write(part) for part in value], "]")
        return json.dumps(value, ensure_ascii=self.draw(st.booleans()))

    def pair(self, key: str, text: str) -> str:
        return f"{json.dumps(key)}{self.gap()}:{self.gap()}{text}"

    def sequence(self, opening: str, parts: list[str], closing: str) -> str:
        commas = [","] * len(parts)
        if parts and self.draw(st.booleans()):
            commas[-1] = ""
        body = "".join(self.gap() + part + self.gap() + comma for part, comma in zip(parts, commas, strict=True))
        return opening + body + self.gap() + closing


texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    ("// no", "/* no */", "a,}", '\\"')
)
values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
other_names = texts.filter(lambda name: name not in {OWN, SERVERS})
newlines = st.sampled_from(("\n", "\r\n"))
# A busy machine is no fault of the text.
unhurried = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def documents(draw: st.DrawFn, *, with_own: bool) -> Document:
    """A document with a servers object; with or without our entry in it, at any place."""
    writer = Writer(draw, draw(newlines))
    servers = list(draw(st.dictionaries(other_names, values, max_size=3)).items())
    members = [writer.pair(name, writer.write(value)) for name, value in servers]
    own: Json = draw(values)
    if with_own:
        writer.mark = "own"
        place = draw(st.integers(0, len(members)))
        members.insert(place, writer.pair(OWN, writer.write(own)))
        servers.insert(place, (OWN, own))
        writer.mark = "keep"
    root = list(draw(st.dictionaries(other_names, values, max_size=2)).items())
    place = draw(st.integers(0, len(root)))
    pairs = [writer.pair(name, writer.write(value)) for name, value in root]
    pairs.insert(place, writer.pair(SERVERS, writer.sequence("{", members, "}")))
    root.insert(place, (SERVERS, dict(servers)))
    mark = draw(st.sampled_from(("", "\ufeff")))
    return Document(mark + writer.gap() + writer.sequence("{", pairs, "}") + writer.gap(), dict(root))


def servers_of(value: Json) -> dict[str, Json]:
    assert isinstance(value, dict)
    servers = value[SERVERS]
    assert isinstance(servers, dict)
    return servers


def without_own(value: dict[str, Json]) -> dict[str, Json]:
    others: Json = {name: part for name, part in servers_of(value).items() if name != OWN}
    return {**value, SERVERS: others}


def kept_comments(text: str) -> list[str]:
    return re.findall(r"<keep [^<>]*>", text)


@requirement("clients:jsonc:reads")
@unhurried
@given(documents(with_own=True))
def test_a_document_means_the_value_it_was_written_for(document: Document) -> None:
    assert loads(document.text) == document.value


@requirement("clients:jsonc:undo", "clients:jsonc:others")
@unhurried
@given(documents(with_own=False))
def test_adding_then_removing_gives_back_the_text(document: Document) -> None:
    added = put(document.text, PATH, ENTRY)
    assert loads(added) == document.value | {SERVERS: servers_of(document.value) | {OWN: ENTRY}}
    assert kept_comments(added) == kept_comments(document.text)
    assert drop(added, PATH) == document.text


@requirement("clients:jsonc:others")
@unhurried
@given(documents(with_own=True))
def test_removing_leaves_every_other_value_and_comment(document: Document) -> None:
    removed = drop(document.text, PATH)
    assert loads(removed) == without_own(document.value)
    assert kept_comments(removed) == kept_comments(document.text)


@requirement("clients:jsonc:others")
@unhurried
@given(documents(with_own=True))
def test_replacing_leaves_everything_outside_the_entry(document: Document) -> None:
    replaced = put(document.text, PATH, ENTRY)
    assert loads(replaced) == document.value | {SERVERS: servers_of(document.value) | {OWN: ENTRY}}
    assert list(servers_of(loads(replaced))) == list(servers_of(document.value)), "it keeps its place"
    assert drop(replaced, PATH) == drop(document.text, PATH)


@requirement("clients:jsonc:idempotent")
@unhurried
@given(documents(with_own=True), st.sampled_from((ENTRY, OTHER)))
def test_adding_what_is_there_changes_no_character(document: Document, entry: dict[str, Json]) -> None:
    once = put(document.text, PATH, entry)
    assert put(once, PATH, entry) == once


@requirement("clients:jsonc:newlines")
@unhurried
@given(documents(with_own=False).filter(lambda document: "\r\n" in document.text), st.booleans())
def test_crlf_files_keep_crlf(document: Document, removed: bool) -> None:
    changed = put(document.text, PATH, ENTRY)
    changed = drop(put(changed, PATH, OTHER), PATH) if removed else changed
    assert re.findall(r"[^\r]\n|\r(?!\n)", changed) == []


@requirement("clients:jsonc:minimal")
def test_updating_an_entry_touches_only_the_part_that_differs() -> None:
    text = """{
  // mine
  "mcpServers": {
    "cellwright": { // see the wiki
      "args": ["cellwright", "--x"], /* as agreed */
      "command": "old", // was new once
      "timeout": 5,
      "env": {"A": "1"}
    },
  }
}
"""
    kept: dict[str, Json] = {**ENTRY, "timeout": 5}
    assert put(text, PATH, kept) == text.replace('"old"', '"uvx"')
    assert put(text, PATH, ENTRY) == text.replace('"old"', '"uvx"').replace('\n      "timeout": 5,', "")


@requirement("clients:jsonc:others")
def test_of_two_entries_of_one_name_the_effective_one_is_replaced_and_both_are_removed() -> None:
    text = '{"mcpServers": {"cellwright": 1, "b": 2, "cellwright": 3}}'
    assert put(text, PATH, "new") == '{"mcpServers": {"cellwright": 1, "b": 2, "cellwright": "new"}}'
    assert drop(text, PATH) == '{"mcpServers": {"b": 2}}'


@requirement("clients:jsonc:layout")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "mcpServers": {\n    "cellwright": {\n      "a": ["b"]\n    }\n  }\n}\n'),
        ("{\n}\n", '{\n  "mcpServers": {\n    "cellwright": {\n      "a": ["b"]\n    }\n  }\n}\n'),
        ("// mine", '// mine\n{\n  "mcpServers": {\n    "cellwright": {\n      "a": ["b"]\n    }\n  }\n}\n'),
        ('{"x": 1}', '{"x": 1, "mcpServers": {"cellwright": {"a": ["b"]}}}'),
        ('{"mcpServers": {}}', '{"mcpServers": {"cellwright": {"a": ["b"]}}}'),
        (
            '{\n\t"mcpServers": {},\n}\n',
            '{\n\t"mcpServers": {\n\t\t"cellwright": {\n\t\t\t"a": ["b"]\n\t\t}\n\t},\n}\n',
        ),
        (
            '{\n "mcpServers": {\n  "b": 1 // last\n }\n}\n',
            '{\n "mcpServers": {\n  "b": 1, // last\n  "cellwright": {\n   "a": ["b"]\n  }\n }\n}\n',
        ),
        (
            '{\n  "mcpServers": {\n    "b": 1,\n  },\n}\n',
            '{\n  "mcpServers": {\n    "b": 1,\n    "cellwright": {\n      "a": ["b"]\n    },\n  },\n}\n',
        ),
    ],
)
def test_an_added_entry_looks_like_its_surroundings(before: str, after: str) -> None:
    assert put(before, PATH, {"a": ["b"]}) == after


@requirement("clients:jsonc:undo")
@pytest.mark.parametrize(
    "inside", ["", " ", "\n", "\n  ", "\n\n  ", "\r\n  ", " // none\n  ", "\n    // none\n  ", "/* none */"]
)
def test_an_empty_object_is_given_back_as_it_was(inside: str) -> None:
    text = '{\n  "mcpServers": {' + inside + "}\n}\n"
    added = put(text, PATH, ENTRY)
    assert loads(added) == {SERVERS: {OWN: ENTRY}}
    assert drop(added, PATH) == text


@requirement("clients:jsonc:layout")
def test_what_stood_behind_the_removed_entry_keeps_its_line() -> None:
    assert drop('{"mcpServers": {\n  "cellwright": 1, "b": 2\n}}', PATH) == '{"mcpServers": {\n  "b": 2\n}}'


@requirement("clients:jsonc:layout")
def test_a_line_comment_never_swallows_what_stood_behind_the_removed_entry() -> None:
    assert drop('{"mcpServers": { // c\n  "cellwright": 1 }}', PATH) == '{"mcpServers": { // c\n  }}'
    assert drop('{"mcpServers": { // c\n  "cellwright": 1, "b": 2}}', PATH) == '{"mcpServers": { // c\n  "b": 2}}'


@requirement("clients:jsonc:refuses")
@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3, "expected ',' or '}'"),
        ("{\r\n  a: 1\r\n}", 2, 3, "expected a name in double quotes"),
        ('\ufeff{"a" 1}', 1, 6, "expected ':'"),
        ('{"a": [1, 2}', 1, 12, "expected ',' or ']'"),
        ('{"a": "b\n"}', 1, 7, "not closed on its line"),
        ('{"a": "\\q"}', 1, 8, "valid string"),
        ('{"a": tru}', 1, 7, "expected a value"),
        ('{"a": 01}', 1, 8, "expected ',' or '}'"),
        ('{"a": NaN}', 1, 7, "expected a value"),
        ('{"a": 1}\n{', 2, 1, "after the end"),
        ('{"a": 1 /* open', 1, 9, "comment is not closed"),
        ('{"a": 1', 1, 8, "expected ',' or '}'"),
        ("[" * 200, 1, 102, "levels of nesting"),
        ("[1]", 1, 1, "expected an object"),
        ('{"mcpServers": null}', 1, 16, "expected an object"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(EditError, match=re.escape(reason)) as caught:
        put(text, PATH, ENTRY)
    assert (caught.value.line, caught.value.column) == (line, column)
