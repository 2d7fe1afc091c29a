"""Checks YAML by its events: only plain data is constructed, and nothing is ever expanded.

Data is read by YAML 1.2. Aliases share the value that they name, so a bomb takes no more memory than its text. The size that it
would expand to is counted, and a document that would become too large is refused.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from cellwright.scratch.validation.checked import Checked, Data, Document, Path, Position, path_text
from cellwright.scratch.validation.checks.yaml_scalars import older_meaning, plain_value
from cellwright.scratch.validation.languages import Language
from cellwright.scratch.validation.model import MAX_DIAGNOSTICS, Diagnostic, Severity, shortened

EXPANDED_VALUES = 200_000
DEEPEST = 1_000
STANDARD = "tag:yaml.org,2002:"
MERGE = "<<"
Event = Any
_parse: Any = cast("Any", yaml).parse
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


_NO_PLACES: dict[str | int, "_Node"] = {}
"""Shared by all scalars; never written to."""


@dataclass(slots=True)
class _Node:
    """A value with its position, and with its size when all aliases are expanded."""

    value: Data
    position: Position
    size: int = 1
    finished: bool = True
    places: dict[str | int, "_Node"] = field(default_factory=lambda: _NO_PLACES)

    @property
    def is_list(self) -> bool:
        return isinstance(self.value, list)


@dataclass(slots=True)
class _Open:
    """A container that is being read."""

    node: _Node
    key: _Node | None = None
    keys: set[str] = field(default_factory=set[str])
    merged: list[_Node] = field(default_factory=list[_Node])


class _Refused(ValueError):
    """Reading stops here, with this finding."""

    def __init__(self, message: str, position: Position, severity: Severity = "error") -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.severity: Severity = severity


class _Reader:
    def __init__(self) -> None:
        self.findings: list[Diagnostic] = []
        self.documents: list[Document] = []
        self.anchors: dict[str, _Node] = {}
        self.stack: list[_Open] = []
        self.expanded = 0
        self.counts: Counter[Severity] = Counter()

    def report(self, severity: Severity, message: str, position: Position, path: str = "") -> None:
        # Counted by severity, so that warnings do not crowd out an error. One more than is shown means that there are more.
        self.counts[severity] += 1
        if self.counts[severity] <= MAX_DIAGNOSTICS + 1:
            self.findings.append(Diagnostic(severity, shortened(message), *position, path=path, source="yaml"))

    def handle(self, event: Event) -> None:
        mark = event.start_mark
        position = (mark.line + 1, mark.column + 1)
        if isinstance(event, yaml.ScalarEvent):
            node = _Node(self.scalar(event, position), position)
            self.remember_anchor(event, node)
            self.add(node)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.anchors = {}
        elif isinstance(event, yaml.AliasEvent):
            self.add(self.aliased(str(cast("Any", event).anchor), position))
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self.check_tag(event, position)
            empty: Data = {} if isinstance(event, yaml.MappingStartEvent) else []
            node = _Node(empty, position, finished=False, places={})
            self.remember_anchor(event, node)
            self.stack.append(_Open(node))
            if len(self.stack) > DEEPEST:
                # The parser's time grows with the square of the depth.
                message = f"nested deeper than {DEEPEST:,} levels; what follows was not checked"
                raise _Refused(message, position, "warning")
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self.close()

    def remember_anchor(self, event: Event, node: _Node) -> None:
        if event.anchor is not None:
            self.anchors[event.anchor] = node

    def aliased(self, anchor: str, position: Position) -> _Node:
        node = self.anchors.get(anchor)
        if node is None:
            raise _Refused(f"nothing is named &{anchor} before *{anchor}", position)
        if not node.finished:
            raise _Refused(f"&{anchor} contains itself through *{anchor}", position)
        self.expanded += node.size
        if self.expanded > EXPANDED_VALUES:
            message = f"its aliases would expand to more than {EXPANDED_VALUES:,} values; such a document is refused"
            raise _Refused(message, position)
        return node

    def scalar(self, event: Event, position: Position) -> Data:
        self.check_tag(event, position)
        if not event.implicit[0]:
            is_typed = event.tag is not None and event.tag.removeprefix(STANDARD) in {"int", "float", "bool", "null"}
            return plain_value(event.value) if is_typed else event.value
        is_value = bool(self.stack) and (self.stack[-1].node.is_list or self.stack[-1].key is not None)
        older = older_meaning(event.value) if is_value else ""
        if older:
            message = f"{event.value!r} is {older} to YAML 1.1 readers such as PyYAML; quote it, or write what you mean"
            self.report("warning", message, position)
        return plain_value(event.value)

    def check_tag(self, event: Event, position: Position) -> None:
        if event.tag is not None and event.tag.startswith(f"{STANDARD}python/"):
            self.report(
                "warning", f"the tag {event.tag!r} asks a reader to run code; it is taken as plain data", position
            )

    def close(self) -> None:
        container = self.stack.pop()
        for source in container.merged:
            self.merge(container.node, source)
        container.node.finished = True
        self.add(container.node)

    def merge(self, into: _Node, source: _Node) -> None:
        mappings = list(source.places.values()) if source.is_list else [source]
        for mapping in mappings:
            if not isinstance(mapping.value, dict):
                self.report("error", "<< merges mappings only", source.position)
                return
            for key, place in mapping.places.items():
                if key not in into.places:
                    into.value[key] = place.value
                    into.places[key] = place

    def add(self, node: _Node) -> None:
        if not self.stack:
            self.documents.append(Document(node.value, lambda paths: _positions(node, paths)))
            return
        container = self.stack[-1]
        container.node.size += node.size
        if container.node.is_list:
            container.node.places[len(container.node.value)] = node
            container.node.value.append(node.value)
        elif container.key is None:
            container.key = node
        else:
            self.add_pair(container, container.key, node)
            container.key = None

    def path(self, name: str) -> Path:
        """The path of the key `name` in the innermost container."""
        outer = self.stack[:-1]
        steps = (
            len(container.node.value) if container.key is None else _key_text(container.key.value)
            for container in outer
        )
        return (*steps, name)

    def add_pair(self, container: _Open, key: _Node, value: _Node) -> None:
        if key.value == MERGE:
            container.merged.append(value)
            return
        identity = repr(key.value)
        name = _key_text(key.value)
        if identity in container.keys:
            self.report(
                "error", f"the key {name!r} stands twice in one mapping", key.position, path_text(self.path(name))
            )
        container.keys.add(identity)
        container.node.value[name] = value.value
        container.node.places[name] = value


def _key_text(value: Data) -> str:
    """The key as text, because JSON has no other keys."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value) if isinstance(value, int | float) else shortened(repr(value))


def _positions(root: _Node, paths: Sequence[Path]) -> dict[Path, Position]:
    positions: dict[Path, Position] = {}
    for path in paths:
        node: _Node | None = root
        for step in path:
            node = node.places.get(step) if node is not None else None
        if node is not None:
            positions[path] = node.position
    return positions


def check(text: str, _language: Language) -> Checked:
    reader = _Reader()
    try:
        for event in _parse(text, Loader=_LOADER):
            reader.handle(event)
    except yaml.YAMLError as error:
        return Checked((*reader.findings, _syntax_error(error)))
    except _Refused as refused:
        reader.report(refused.severity, refused.message, refused.position)
        return Checked(tuple(reader.findings))
    if not reader.documents:
        reader.documents.append(Document(None))
    return Checked(tuple(reader.findings), tuple(reader.documents))


def _syntax_error(error: yaml.YAMLError) -> Diagnostic:
    mark: Any = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    context = getattr(error, "context", None)
    message = shortened(f"{problem} ({context})" if context else problem)
    if mark is None:
        return Diagnostic("error", message, source="yaml")
    return Diagnostic("error", message, mark.line + 1, mark.column + 1, source="yaml")
