"""YAML from its events: nothing is constructed but plain data, and nothing is ever expanded.

Data is read by YAML 1.2. Aliases share what they name, so a bomb stays as small as its text; how large it would become is
counted, and what would become too large is refused.
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
"""What scalars have in common; never written to."""


@dataclass(slots=True)
class _Node:
    """A value with its place and with its size after all aliases are followed."""

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
    seen: set[Any] = field(default_factory=set[Any])
    merged: list[_Node] = field(default_factory=list[_Node])


class _Refused(ValueError):
    """Reading ends here."""

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
        self.said: Counter[Severity] = Counter()

    def say(self, severity: Severity, message: str, position: Position, path: str = "") -> None:
        # Many warnings must not hide an error; one more than is shown tells that there are more.
        self.said[severity] += 1
        if self.said[severity] <= MAX_DIAGNOSTICS + 1:
            self.findings.append(Diagnostic(severity, shortened(message), *position, path=path, source="yaml"))

    def take(self, event: Event) -> None:
        mark = event.start_mark
        position = (mark.line + 1, mark.column + 1)
        if isinstance(event, yaml.ScalarEvent):
            node = _Node(self.scalar(event, position), position)
            self.name(event, node)
            self.add(node)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.anchors = {}
        elif isinstance(event, yaml.AliasEvent):
            self.add(self.named(str(cast("Any", event).anchor), position))
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self.check_tag(event, position)
            empty: Data = {} if isinstance(event, yaml.MappingStartEvent) else []
            node = _Node(empty, position, finished=False, places={})
            self.name(event, node)
            self.stack.append(_Open(node))
            if len(self.stack) > DEEPEST:
                # The parser's time grows with the square of the depth.
                message = f"nested deeper than {DEEPEST:,} levels; what follows was not checked"
                raise _Refused(message, position, "warning")
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self.close()

    def name(self, event: Event, node: _Node) -> None:
        if event.anchor is not None:
            self.anchors[event.anchor] = node

    def named(self, anchor: str, position: Position) -> _Node:
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
            return event.value if event.tag in {None, "!"} else _tagged(event.tag, event.value)
        is_value = bool(self.stack) and (self.stack[-1].node.is_list or self.stack[-1].key is not None)
        older = older_meaning(event.value) if is_value else ""
        if older:
            message = f"{event.value!r} is {older} to YAML 1.1 readers such as PyYAML; quote it, or write what you mean"
            self.say("warning", message, position)
        return plain_value(event.value)

    def check_tag(self, event: Event, position: Position) -> None:
        if event.tag is not None and event.tag.startswith(f"{STANDARD}python/"):
            self.say("warning", f"the tag {event.tag!r} asks a reader to run code; it is taken as plain data", position)

    def close(self) -> None:
        container = self.stack.pop()
        for source in container.merged:
            self.merge(container.node, source)
        container.node.finished = True
        self.add(container.node)

    def merge(self, into: _Node, source: _Node) -> None:
        sources = list(source.places.values()) if source.is_list else [source]
        for one in sources:
            if not isinstance(one.value, dict):
                self.say("error", "<< merges mappings only", source.position)
                return
            for key, place in one.places.items():
                if key not in into.places:
                    into.value[key] = place.value
                    into.places[key] = place

    def add(self, node: _Node) -> None:
        if not self.stack:
            self.documents.append(Document(node.value, lambda paths: _places(node, paths)))
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
        """Where the key `name` of the innermost container stands."""
        outer = self.stack[:-1]
        return (*(len(one.node.value) if one.key is None else _key_text(one.key.value) for one in outer), name)

    def add_pair(self, container: _Open, key: _Node, value: _Node) -> None:
        if key.value == MERGE:
            container.merged.append(value)
            return
        identity = repr(key.value)
        name = _key_text(key.value)
        if identity in container.seen:
            self.say("error", f"the key {name!r} stands twice in one mapping", key.position, path_text(self.path(name)))
        container.seen.add(identity)
        container.node.value[name] = value.value
        container.node.places[name] = value


def _tagged(tag: str, text: str) -> Data:
    kind = tag.removeprefix(STANDARD)
    if kind in {"int", "float", "bool", "null"}:
        return plain_value(text)
    return text


def _key_text(value: Data) -> str:
    """JSON has text keys only."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value) if isinstance(value, int | float) else shortened(repr(value))


def _places(root: _Node, paths: Sequence[Path]) -> dict[Path, Position]:
    found: dict[Path, Position] = {}
    for path in paths:
        node: _Node | None = root
        for step in path:
            node = node.places.get(step) if node is not None else None
        if node is not None:
            found[path] = node.position
    return found


def check(text: str, _language: Language) -> Checked:
    reader = _Reader()
    try:
        for event in _parse(text, Loader=_LOADER):
            reader.take(event)
    except yaml.YAMLError as wrong:
        return Checked((*reader.findings, _explained(wrong)))
    except _Refused as refused:
        reader.say(refused.severity, refused.message, refused.position)
        return Checked(tuple(reader.findings))
    if not reader.documents:
        reader.documents.append(Document(None))
    return Checked(tuple(reader.findings), tuple(reader.documents))


def _explained(wrong: yaml.YAMLError) -> Diagnostic:
    mark: Any = getattr(wrong, "problem_mark", None)
    message = str(getattr(wrong, "problem", None) or getattr(wrong, "reason", None) or wrong)
    context = getattr(wrong, "context", None)
    whole = shortened(f"{message} ({context})" if context else message)
    if mark is None:
        return Diagnostic("error", whole, source="yaml")
    return Diagnostic("error", whole, mark.line + 1, mark.column + 1, source="yaml")
