"""`project.yaml` as text: parsed with its comments, checked with line numbers, and written back with only the changes.

Every plain scalar is text here: `runtime: 3.10` means the version 3.10, not a number, and is written back as it was.
"""

# ruamel.yaml has no types of its own.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import re
from collections.abc import Callable
from io import StringIO
from typing import Any, TypeVar

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.scalarstring import DoubleQuotedScalarString
from ruamel.yaml.tokens import FlowMappingEndToken, FlowMappingStartToken, FlowSequenceEndToken, FlowSequenceStartToken

from cellwright.context.model import BrokenProjectFile, Issue, KeyFile, Module, Project
from cellwright.core.text.names import on_one_line

T = TypeVar("T")
YamlMap = CommentedMap
WIDEST = 1_000_000
"""Lines are never folded, so that a person's long line stays one line."""
DEEPEST = 100
_BRACKET = re.compile(r"[\[\]{}]")
AMBIGUOUS = frozenset({"", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", "="})


class _TextResolver(VersionedResolver):
    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:  # noqa: ANN401 - ruamel's own signature
        plain = kind is ScalarNode and implicit[0]
        return super().resolve(kind, "text" if plain and value != "<<" else value, implicit)


def _yaml(text: str) -> YAML:
    yaml = YAML()
    yaml.Resolver = _TextResolver
    yaml.preserve_quotes = True
    yaml.width = WIDEST
    yaml.allow_unicode = True
    indent, offset = _indentation(text)
    yaml.indent(mapping=2, sequence=indent, offset=offset)
    return yaml


_FIRST_ITEM = re.compile(
    r"^( *(?:: +)?)[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*( *)-( +)\S", re.MULTILINE
)


def _indentation(text: str) -> tuple[int, int]:
    """How the file indents its lists: the distance from a key to the text of its items, and to their dash."""
    match = _FIRST_ITEM.search(text)
    if match is None:
        return 4, 2
    dash = max(len(match[2]) - len(match[1]), 0)
    return dash + 1 + len(match[3]), dash


TRIPPED_OVER = (
    YAMLError, RecursionError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError,
)  # fmt: skip
"""What the library raises for text that it does not understand: `? a: {}`, `!!bool x`, "\\UFFFFFFFF"."""


def parse(text: str, file_name: str) -> YamlMap:
    """The document of a file; an empty map for an empty one. BrokenProjectFile names the line."""
    if _brackets_deep(text) > DEEPEST and _is_too_deep(text):
        # The parser would take very long before it failed.
        raise BrokenProjectFile(f"{file_name} has brackets more than {DEEPEST:,} deep", hint="mend it by hand")
    try:
        document: object = _yaml("").load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file_name} line {mark.line + 1}" if mark else file_name
        # The parser's own message about a key that occurs twice would show both values.
        twice = isinstance(error, DuplicateKeyError)
        why = "a key stands there that stood before" if twice else error.problem or "not YAML"
        raise BrokenProjectFile(f"{where}: {why}", hint="mend that line") from error
    except TRIPPED_OVER as error:
        raise BrokenProjectFile(f"{file_name} is not YAML that can be read", hint="mend it by hand") from error
    if document is None or document == "":
        return _with_comments_of(text)
    if not isinstance(document, CommentedMap):
        raise BrokenProjectFile(f"{file_name} line 1: not a mapping of keys to values", hint="it begins with project:")
    return document


def _brackets_deep(text: str) -> int:
    """An upper limit of how deep brackets are nested: brackets in quoted texts count as well."""
    depth = deepest = 0
    for bracket in _BRACKET.findall(text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _is_too_deep(text: str) -> bool:
    """Whether lists and maps in brackets are nested too deep. Brackets in texts do not count. Scans no further than it must."""
    depth = 0
    try:
        for token in _yaml("").scan(text):
            depth += isinstance(token, FlowSequenceStartToken | FlowMappingStartToken)
            depth -= isinstance(token, FlowSequenceEndToken | FlowMappingEndToken)
            if depth > DEEPEST:
                return True
    except TRIPPED_OVER:
        pass  # the parser fails on it as well, and says where
    return False


def _with_comments_of(text: str) -> YamlMap:
    """An empty document with the comments of a file that has no keys."""
    document = CommentedMap()
    comment = "\n".join(line.strip().removeprefix("#").removeprefix(" ") for line in text.splitlines() if line.strip())
    if comment:
        document.yaml_set_start_comment(comment)
    return document


def dump(document: YamlMap, before: str) -> str:
    """The document as text, indented as `before` was."""
    out = StringIO()
    _yaml(before).dump(document, out)
    return out.getvalue()


def quoted(text: str) -> str:
    """Text in quotes if other programs would not read it as text without."""
    looks_like_a_value = text.casefold() in AMBIGUOUS or text[:1] in "0123456789+-." or text != text.strip()
    return DoubleQuotedScalarString(text) if looks_like_a_value or not text.isprintable() else text


# -- from the document to values ---------------------------------------------------------------------------------------------


_NO_TEXT = re.compile(r"[\x00\ud800-\udfff]")
"""Characters that YAML can write, but that no database and no message takes."""


class _Reading:
    """Reads values from a document, and names the line of a wrong one."""

    def __init__(self, file_name: str) -> None:
        self.file_name = file_name

    def broken_file(self, where: str, line: int, expected: str) -> BrokenProjectFile:
        return BrokenProjectFile(
            f"{self.file_name} line {line}: {on_one_line(where)} must be {expected}", hint="mend that line"
        )

    def map(self, parent: YamlMap, key: str, where: str) -> YamlMap:
        child = parent.get(key)
        if child is None or child == "":
            return CommentedMap()
        if not isinstance(child, CommentedMap):
            raise self.broken_file(where, line_of(parent, key), "a mapping")
        return child

    def text(self, parent: YamlMap, key: str, where: str) -> str:
        value: object = parent.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.broken_file(where, line_of(parent, key), "text")
        return self.one_text(value, line_of(parent, key), where)

    def list(self, parent: YamlMap, key: str, where: str, read_item: Callable[[Any, int, str], T]) -> tuple[T, ...]:
        items = parent.get(key)
        if items is None or items == "":
            return ()
        if not isinstance(items, CommentedSeq):
            raise self.broken_file(where, line_of(parent, key), "a list")
        return tuple(
            read_item(value, _item_line(items, number), f"{where}[{number}]") for number, value in enumerate(items)
        )

    def one_text(self, value: Any, line: int, where: str) -> str:  # noqa: ANN401 - what stands in the file
        if not isinstance(value, str):
            raise self.broken_file(where, line, "text")
        if _NO_TEXT.search(value):
            raise self.broken_file(where, line, "text without NUL and without halves of characters")
        return str(value)

    def key_file(self, value: Any, line: int, where: str) -> KeyFile:  # noqa: ANN401
        if isinstance(value, str):
            return KeyFile(self.one_text(value, line, where))
        if not isinstance(value, CommentedMap):
            raise self.broken_file(where, line, "a mapping with path and role")
        return KeyFile(*(self.text(value, key, f"{where}.{key}") for key in ("path", "role", "description")))

    def issue(self, value: Any, line: int, where: str) -> Issue:  # noqa: ANN401
        if isinstance(value, str):
            return Issue(self.one_text(value, line, where))
        if not isinstance(value, CommentedMap):
            raise self.broken_file(where, line, "a mapping with description and solution")
        keys = ("description", "solution", "discoveredAt", "sessionId")
        return Issue(*(self.text(value, key, f"{where}.{key}") for key in keys))

    def module(self, name: str, value: YamlMap, where: str) -> Module:
        return Module(
            name,
            self.text(value, "description", f"{where}.description"),
            self.list(value, "keyFiles", f"{where}.keyFiles", self.key_file),
            self.list(value, "patterns", f"{where}.patterns", self.one_text),
            self.list(value, "businessRules", f"{where}.businessRules", self.one_text),
            self.list(value, "commonIssues", f"{where}.commonIssues", self.issue),
            self.list(value, "dependencies", f"{where}.dependencies", self.one_text),
            self.list(value, "decisions", f"{where}.decisions", self.one_text),
        )


def project_of(document: YamlMap, file_name: str) -> Project:
    """The document as values; BrokenProjectFile with the line of the first value that is wrong."""
    read = _Reading(file_name)
    project = read.map(document, "project", "project")
    tech = read.map(document, "tech", "tech")
    architecture = read.map(document, "architecture", "architecture")
    modules = read.map(document, "modules", "modules")
    module_names: list[str] = list(modules)
    return Project(
        *(read.text(project, key, f"project.{key}") for key in ("name", "type", "path")),
        stack=read.list(tech, "stack", "tech.stack", read.one_text),
        runtime=read.text(tech, "runtime", "tech.runtime"),
        package_manager=read.text(tech, "packageManager", "tech.packageManager"),
        pattern=read.text(architecture, "pattern", "architecture.pattern"),
        description=read.text(architecture, "description", "architecture.description"),
        modules={
            read.one_text(name, line_of(modules, name), "the name of a module"): read.module(
                str(name), read.map(modules, name, f"modules.{name}"), f"modules.{name}"
            )
            for name in module_names
        },
        notes=read.module("", read.map(document, "notes", "notes"), "notes"),
    )


def line_of(parent: YamlMap, key: str) -> int:
    """The line on which a key stands, counted from 1."""
    try:
        line: int = parent.lc.key(key)[0]
    except (KeyError, TypeError):
        return 1
    return line + 1


def _item_line(parent: CommentedSeq, number: int) -> int:
    try:
        line: int = parent.lc.item(number)[0]
    except (KeyError, TypeError):
        return 1
    return line + 1
