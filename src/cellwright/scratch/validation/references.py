"""References in schemas: what they lead to, decided before any engine sees them, so that nothing is ever fetched.

Every reference that leads nowhere known is taken out of a copy of the schema and named in a warning; the rest still counts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote, unquote, urldefrag, urljoin

from cellwright.scratch.validation.checked import Data

SHARED = "scratchpad://schemas/"
META_SCHEMAS = ("http://json-schema.org/draft-", "https://json-schema.org/draft/")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
NOT_SCHEMAS = frozenset(("const", "enum", "default", "examples", "example"))
ANCHORS = ("$anchor", "$dynamicAnchor")
DEEPEST = 200


class SchemaTooDeep(ValueError):
    """Nested deeper than the engine would follow."""


def too_deep(schema: object) -> bool:
    """Whether it is nested deeper than the engine follows. Asked before anything that would recurse sees it."""
    pending: list[tuple[object, int]] = [(schema, 0)]
    while pending:
        node, depth = pending.pop()
        if depth > DEEPEST:
            return True
        if isinstance(node, dict):
            pending += [(child, depth + 1) for child in cast("dict[str, object]", node).values()]
        elif isinstance(node, list):
            pending += [(child, depth + 1) for child in cast("list[object]", node)]
    return False


@dataclass(frozen=True, slots=True)
class Prepared:
    """A schema whose every reference resolves, with the shared schemas that it reaches under their addresses."""

    root: Data
    resources: dict[str, Any]
    reached: tuple[str, ...]
    unresolved: tuple[str, ...]


def shared_key(reference: str) -> str | None:
    """The name or id in `scratchpad://schemas/<name>`, without a fragment; None if it is no such reference."""
    return unquote(urldefrag(reference).url[len(SHARED) :]) if reference.startswith(SHARED) else None


def address(key: str) -> str:
    return SHARED + quote(key, safe="")


def _subschemas(node: Data) -> Iterator[Any]:
    if isinstance(node, dict):
        for key, value in cast("dict[str, Any]", node).items():
            if key not in NOT_SCHEMAS:
                yield value
    elif isinstance(node, list):
        yield from cast("list[Any]", node)


@dataclass(slots=True)
class _Names:
    """What the parts of one schema call themselves."""

    ids: set[str] = field(default_factory=set[str])
    anchors: set[str] = field(default_factory=set[str])


def _names(root: Data) -> _Names:
    found = _Names()
    pending: list[tuple[Any, str, int]] = [(root, "", 0)]
    while pending:
        node, base, depth = pending.pop()
        if depth > DEEPEST:
            raise SchemaTooDeep
        base = _own_base(node, base)
        if isinstance(node, dict):
            mapping = cast("dict[str, Any]", node)
            found.ids.add(base)
            found.anchors |= {anchor for key in ANCHORS if isinstance(anchor := mapping.get(key), str)}
            if isinstance(old := mapping.get("$id", mapping.get("id")), str) and old.startswith("#"):
                found.anchors.add(old[1:])
        pending += [(child, base, depth + 1) for child in _subschemas(node)]
    return found


def _own_base(node: Data, base: str) -> str:
    if isinstance(node, dict):
        own = cast("dict[str, Any]", node).get("$id")
        if isinstance(own, str) and not own.startswith("#"):
            return urldefrag(urljoin(base, own)).url
    return base


def has_pointer(root: Data, pointer: str) -> bool:
    """Whether a JSON pointer leads somewhere in this data."""
    node = root
    for raw in pointer.split("/")[1:]:
        step = unquote(raw).replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and step in node:
            node = cast("dict[str, Any]", node)[step]
        elif isinstance(node, list) and step.isdecimal() and int(step) < len(cast("list[Any]", node)):
            node = cast("list[Any]", node)[int(step)]
        else:
            return False
    return True


class _Rewriter:
    """Copies one schema, with references made canonical or taken out."""

    def __init__(self, root: Data, shared: Mapping[str, Any], by_id: Mapping[str, str]) -> None:
        self.names = _names(root)
        self.root = root
        self.shared = shared
        self.by_id = by_id
        self.reached: list[str] = []
        self.unresolved: list[str] = []

    def copy(self, node: Data, base: str, resource: Data) -> Data:
        if isinstance(node, list):
            return [self.copy(child, base, resource) for child in cast("list[Any]", node)]
        if not isinstance(node, dict):
            return node
        mapping = cast("dict[str, Any]", node)
        own = _own_base(mapping, base)
        resource = mapping if own != base else resource
        made: dict[str, Any] = {}
        for key, value in mapping.items():
            if key in REFERENCES and isinstance(value, str):
                target = self.target(value, own, resource)
                if target is None:
                    self.unresolved.append(value)
                else:
                    made[key] = target
            else:
                made[key] = value if key in NOT_SCHEMAS else self.copy(value, own, resource)
        return made

    def target(self, reference: str, base: str, resource: Data) -> str | None:
        """The reference as the engine shall see it; None if it leads nowhere."""
        if reference.startswith("#") or not reference:
            return reference if self.has_fragment(resource, reference[1:]) else None
        url, fragment = urldefrag(reference)
        key = shared_key(reference) or self.by_id.get(url)
        if key is not None:
            return self.shared_target(key, fragment)
        absolute = urldefrag(urljoin(base, reference)).url
        known = absolute in self.names.ids or absolute.startswith(META_SCHEMAS)
        return reference if known and absolute else None

    def shared_target(self, key: str, fragment: str) -> str | None:
        if key not in self.shared or (fragment.startswith("/") and not has_pointer(self.shared[key], fragment)):
            return None
        self.reached.append(key)
        return f"{address(key)}#{fragment}" if fragment else address(key)

    def has_fragment(self, resource: Data, fragment: str) -> bool:
        if not fragment:
            return True
        if fragment.startswith("/"):
            return has_pointer(resource, fragment) or has_pointer(self.root, fragment)
        return fragment in self.names.anchors


def prepare(schema: Data, shared: Mapping[str, Any]) -> Prepared:
    """Follow all references from `schema` through the shared ones."""
    by_id = {
        urldefrag(own).url: key
        for key, one in shared.items()
        if isinstance(one, dict) and isinstance(own := cast("dict[str, Any]", one).get("$id"), str)
    }
    first = _Rewriter(schema, shared, by_id)
    root = first.copy(schema, "", schema)
    unresolved, pending = list(first.unresolved), list(first.reached)
    resources: dict[str, Any] = {}
    reached: dict[str, None] = {}
    while pending:
        key = pending.pop(0)
        if key in reached:
            continue
        reached[key] = None
        rewriter = _Rewriter(shared[key], shared, by_id)
        resources[address(key)] = rewriter.copy(shared[key], "", shared[key])
        unresolved += rewriter.unresolved
        pending += rewriter.reached
    return Prepared(root, resources, tuple(reached), tuple(dict.fromkeys(unresolved)))
