"""Hostile texts, lists and objects of every size, put into every argument of every tool and every template of a resource."""

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

SIZES = (1_000, 30_000, 900_000)
SHAPES: Mapping[str, Callable[[int], str]] = {
    "one letter": lambda size: "a" * size,
    "blanks in a heading": lambda size: "# a" + " " * size + "b",
    "borders": lambda size: "|a|b|\n|" + "- " * (size // 2) + "x",
    "brackets": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "accents": lambda size: "a" + "\u0301\u0327" * (size // 4),
    "short lines": lambda size: "x\n" * (size // 2),
    "different lines": lambda size: "\n".join(f"{number} = {number * 7919 % 10007}" for number in range(size // 16)),
    "ticks": lambda size: "`" * size,
    "emphasis": lambda size: "*a_b**c__" * (size // 9),
    "links": lambda size: "[a](b" * (size // 5),
    "formulas": lambda size: "$a$1" * (size // 4),
    "colours": lambda size: "\x1b[31mr\x1b[0m" * (size // 10),
    "overwriting": lambda size: "ab\r\b" * (size // 4),
    "hidden": lambda size: "a\u200b\u202e" * (size // 7),
    "wide letters": lambda size: "\N{GRINNING FACE}" + "x" * size,
    "ideographs": lambda size: "漢字" * (size // 6),
    "names": lambda size: "getUserName_and_id." * (size // 19),
    "quotes": lambda size: "\"'\\" * (size // 3),
    "json": lambda size: '{"a":[' * (size // 6),
    "imports": lambda size: "import " * (size // 7),
    "fences": lambda size: "```py\n1\n```\n" * (size // 12),
    "tags": lambda size: "<a b='" * (size // 6),
    "comments": lambda size: "/*" * (size // 2),
    "dollars": lambda size: "$" * size,
    "numbers": lambda size: "9" * size,
    "long lines": lambda size: ("word " * 2_000 + "\n") * (size // 10_001 + 1),
}
KNOWN: Mapping[str, Any] = {
    "path": "n.ipynb",
    "notebook_path": "n.ipynb",
    "notebook": "n.ipynb",
    "cell": 0,
    "cell_index": 0,
    "scratch_id": "pad",
    "cell_id": "c",
    "language": "md",
    "cellType": "markdown",
    "into": "scratchpad://imported",
    "to": "html",
    "format": "md",
    "kind": "pattern",
    "category": "pattern",
}


DEEPEST = 90
"""Levels of nesting: a few more are refused at the door."""
MOST_VALUES = 90_000
MANY, NESTING, KEYS = "many items", "nesting", "many keys"
FOLDERS_DEEP = 60


@dataclass(frozen=True, slots=True)
class Probe:
    """One argument of one tool, with the shape of what is put into it."""

    tool: str
    argument: str
    """Its name, or `outer.inner` for what is in an object or in the objects of a list."""
    shape: str
    arguments: Mapping[str, Any]
    """The others."""
    item: Any = "x"
    """Of a list: what it has many of."""

    @property
    def name(self) -> str:
        return f"{self.tool}({self.argument}: {self.shape})"

    def call(self, size: int) -> dict[str, Any]:
        value = self._value(size)
        outer, _, inner = self.argument.partition(".")
        if not inner:
            return {**self.arguments, outer: value}
        around: Any = self.arguments[outer]
        if not isinstance(around, list):
            return {**self.arguments, outer: {**around, inner: value}}
        first: dict[str, Any] = self.arguments[outer][0]
        return {**self.arguments, outer: [{**first, inner: value}]}

    def _value(self, size: int) -> Any:
        match self.shape:
            case "many items":
                return many_of(self.item, size)
            case "nesting":
                return nested(size)
            case "many keys":
                return {f"key{number}": number for number in range(min(size // 16, MOST_VALUES // 2))}
            case _:
                return SHAPES[self.shape](size)


@dataclass(frozen=True, slots=True)
class ResourceProbe:
    """One template of resources, with the shape of text that is put into all of its places."""

    template: str
    shape: str

    @property
    def name(self) -> str:
        return f"{self.template} ({self.shape})"

    def uri(self, size: int) -> str:
        text = quote(SHAPES[self.shape](size)[: size // 3], safe="")
        plain = re.sub(r"\{\?(\w+)[^}]*\}", lambda found: f"?{found[1]}={text}", self.template)
        return re.sub(r"\{[^}]+\}", lambda _: text, plain, count=1).replace("{", "").replace("}", "")


def many_of(item: Any, size: int) -> list[Any]:
    """A list of so many bytes, about; texts and numbers in it differ."""
    if isinstance(item, str):
        return [f"{item}{number}" for number in range(min(size // 10, MOST_VALUES))]
    if isinstance(item, int):
        return list(range(1, min(size // 7, MOST_VALUES)))
    text = json.dumps(item)
    values = 1 + sum(map(text.count, ",[{"))
    return [item] * max(1, min(size // (len(text) + 2), MOST_VALUES // values))


def nested(size: int) -> dict[str, Any]:
    """Objects and lists in each other, as deep as is taken, and as many as it takes to have the size."""
    inner: Any = "leaf"
    for level in range(DEEPEST - 10):
        inner = [inner] if level % 2 else {"a": inner}
    return {f"k{number}": inner for number in range(max(1, min(size // 300, MOST_VALUES // (2 * DEEPEST))))}


def probes_of(tools: Sequence[Any], known: Mapping[str, Any]) -> Iterator[Probe]:
    """Every argument that takes a text, a list or an object, with every shape; the others are ones that the tool takes."""
    for tool in tools:
        schema: dict[str, Any] = tool.input_schema
        definitions: dict[str, Any] = schema.get("$defs", {})
        others = {
            name: _valid(name, schema["properties"][name], definitions, known) for name in schema.get("required", ())
        }
        for name, raw in schema.get("properties", {}).items():
            described = _resolved(raw, definitions)
            given = {**others, name: _valid(name, described, definitions, known)}
            yield from _shaped(tool.name, name, described, definitions, known, given)
            held = _resolved(described.get("items", {}), definitions) if described.get("type") == "array" else described
            for inner, inner_raw in held.get("properties", {}).items():
                inner_described = _resolved(inner_raw, definitions)
                yield from _shaped(tool.name, f"{name}.{inner}", inner_described, definitions, known, given)


def resource_probes(templates: Sequence[str]) -> list[ResourceProbe]:
    return [ResourceProbe(template, shape) for template in templates for shape in SHAPES]


def in_order(probes: Sequence[Probe], seed: int) -> list[Probe]:
    """All of them by chance, but first each argument once."""
    chosen = random.Random(seed)
    shuffled = list(probes)
    chosen.shuffle(shuffled)
    first: dict[tuple[str, str], Probe] = {}
    for probe in shuffled:
        first.setdefault((probe.tool, probe.argument), probe)
    once = list(first.values())
    return [*once, *(probe for probe in shuffled if first[probe.tool, probe.argument] is not probe)]


def grow_folders(root: Path, count: int) -> None:
    """So many folders below the root, in chains that are as deep as people's folders never are, each with a file."""
    for chain in range(count // FOLDERS_DEEP + 1):
        folder = root / f"chain{chain}" / "/".join(["d"] * (FOLDERS_DEEP - 1))
        if folder.is_dir():
            continue
        folder.mkdir(parents=True)
        while folder != root:
            (folder / "note.md").write_text("a word\n", encoding="utf-8")
            folder = folder.parent


def _shaped(
    tool: str,
    place: str,
    described: Mapping[str, Any],
    definitions: Mapping[str, Any],
    known: Mapping[str, Any],
    given: Mapping[str, Any],
) -> Iterator[Probe]:
    if _is_text(described):
        for shape in SHAPES:
            yield Probe(tool, place, shape, given)
    elif described.get("type") == "array":
        item = _valid("", described.get("items", {}), definitions, known)
        yield Probe(tool, place, MANY, given, item)
    elif described.get("type") == "object":
        yield Probe(tool, place, NESTING, given)
        yield Probe(tool, place, KEYS, given)


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref", "")
    return definitions[reference.rpartition("/")[2]] if reference else schema


def _is_text(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type")
    return (kinds == "string" or (isinstance(kinds, list) and "string" in kinds)) and "enum" not in schema


def _valid(name: str, schema: Mapping[str, Any], definitions: Mapping[str, Any], known: Mapping[str, Any]) -> Any:
    schema = _resolved(schema, definitions)
    is_known = name in known and schema.get("type") not in ("object", "array")
    if is_known or "enum" in schema:
        return known[name] if is_known else schema["enum"][0]
    match schema.get("type"):
        case "array":
            return [_valid("", schema.get("items", {}), definitions, known)]
        case "object":
            properties = schema.get("properties", {})
            return {key: _valid(key, properties[key], definitions, known) for key in schema.get("required", ())}
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case _:
            return "x"
