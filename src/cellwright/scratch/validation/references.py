"""Resolves the references in schemas before any engine sees them, so that nothing is ever fetched.

Every reference that cannot be resolved is removed from a copy of the schema, and its place is marked: `doubts` decides what can
be said about the data all the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

from cellwright.scratch.validation.checked import Data, is_list, is_object

SHARED = "scratchpad://schemas/"
META_SCHEMAS = ("http://json-schema.org/draft-", "https://json-schema.org/draft/")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
NOT_SCHEMAS = frozenset(("const", "enum", "default", "examples", "example"))
BY_NAME = frozenset(("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"))
"""Keywords that hold a mapping of any names to schemas."""
ANCHORS = ("$anchor", "$dynamicAnchor")
UNRESOLVED = "\0unresolved"
"""Marks the place in a copied schema from which a reference was removed."""
DEEPEST = 200

DRAFT_4 = "http://json-schema.org/draft-04/schema"
DRAFT_6 = "http://json-schema.org/draft-06/schema"
DRAFT_7 = "http://json-schema.org/draft-07/schema"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
ALONE = frozenset((DRAFT_4, DRAFT_6, DRAFT_7))
"""In these drafts everything beside a `$ref` is ignored."""
_DRAFTS = {address.partition("://")[2]: address for address in (DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019, DRAFT_2020)}
"""By the address without its scheme, because people write `https` for `http`."""


class SchemaTooDeep(ValueError):
    """Nested deeper than the engine follows."""


def too_deep(schema: object) -> bool:
    """Whether it is nested deeper than the engine follows. To be called before anything recurses into it."""
    pending: list[tuple[object, int]] = [(schema, 0)]
    while pending:
        node, depth = pending.pop()
        if depth > DEEPEST:
            return True
        if is_object(node):
            pending += [(child, depth + 1) for child in node.values()]
        elif is_list(node):
            pending += [(child, depth + 1) for child in node]
    return False


def draft_of(schema: Data) -> str | None:
    """The draft that a schema names in its `$schema`, 2020-12 if it names none; None if the draft is unknown."""
    draft = schema.get("$schema", DRAFT_2020) if is_object(schema) else DRAFT_2020
    if not isinstance(draft, str) or not draft.startswith(("http://", "https://")):
        return None
    return _DRAFTS.get(draft.removesuffix("#").partition("://")[2])


@dataclass(frozen=True, slots=True)
class Prepared:
    """A schema in which every reference resolves, with the shared schemas that it refers to, by their addresses."""

    root: Data
    resources: dict[str, Any]
    reached: tuple[str, ...]
    unresolved: tuple[str, ...]
    unknown_drafts: tuple[str, ...] = ()
    """Shared schemas in an unknown draft: references to them count as unresolved."""
    foreign: tuple[str, ...] = ()
    """The `$schema` of parts that are written in another draft than the schema around them: such parts count as missing."""

    @property
    def is_whole(self) -> bool:
        return not self.unresolved and not self.foreign


def shared_key(reference: str) -> str | None:
    """The name or id in `scratchpad://schemas/<name>`, without a fragment; None if it is no such reference."""
    return unquote(urldefrag(reference).url[len(SHARED) :]) if reference.startswith(SHARED) else None


def address(key: str) -> str:
    return SHARED + quote(key, safe="")


def join(base: str, reference: str) -> str:
    """The reference as an absolute address by RFC 3986. `urljoin` follows its rules only for a few schemes, this for all."""
    scheme = urlsplit(base).scheme
    if not scheme or not base.startswith(f"{scheme}://") or urlsplit(reference).scheme:
        return urljoin(base, reference)
    return scheme + urljoin(f"http{base[len(scheme) :]}", reference).removeprefix("http")


def subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Everything inside a schema that is or may be a schema, each with its keyword."""
    for keyword, value in schema.items():
        if keyword in NOT_SCHEMAS:
            continue
        if is_object(value):
            for child in value.values() if keyword in BY_NAME else (value,):
                yield keyword, child
        elif is_list(value):
            for child in value:
                yield keyword, child


@dataclass(slots=True)
class _Names:
    """The ids and anchors in one schema, and which of its parts are schemas."""

    draft: str | None
    ids: set[str] = field(default_factory=set[str])
    anchors: set[str] = field(default_factory=set[str])
    schemas: set[int] = field(default_factory=set[int])
    """By `id()`: whether a mapping is a schema depends on its place; the value of `$defs` is none."""

    @property
    def id_keyword(self) -> str:
        return "id" if self.draft == DRAFT_4 else "$id"

    def base(self, schema: Mapping[str, Any], base: str) -> str:
        """The address that references inside this schema are relative to."""
        schema_id = schema.get(self.id_keyword)
        if not isinstance(schema_id, str) or schema_id.startswith("#") or (self.draft in ALONE and "$ref" in schema):
            return base
        return urldefrag(join(base, schema_id)).url

    def has(self, resource: Data, fragment: str) -> bool:
        """Whether a fragment names a schema: by a pointer into `resource`, or by an anchor."""
        if not fragment.startswith("/"):
            return not fragment or fragment in self.anchors
        target = at_pointer(resource, fragment)
        return target is not None and (isinstance(target[0], bool) or id(target[0]) in self.schemas)


def _names(root: Data, base: str) -> _Names:
    names = _Names(draft_of(root))
    pending: list[tuple[Any, str, int]] = [(root, base, 0)]
    while pending:
        node, base, depth = pending.pop()
        if depth > DEEPEST:
            raise SchemaTooDeep
        if is_list(node):
            pending += [(child, base, depth + 1) for child in node]
        if not is_object(node):
            continue
        base = names.base(node, base)
        names.schemas.add(id(node))
        names.ids.add(base)
        names.anchors |= {anchor for key in ANCHORS if isinstance(anchor := node.get(key), str)}
        # Before draft 2019-09 an id that begins with # was an anchor.
        if isinstance(schema_id := node.get(names.id_keyword), str) and schema_id.startswith("#"):
            names.anchors.add(schema_id[1:])
        pending += [(child, base, depth + 1) for _, child in subschemas(node)]
    return names


def at_pointer(root: Data, pointer: str) -> tuple[Data] | None:
    """The value that a JSON pointer leads to, in a tuple because it may be None; None if it leads nowhere."""
    node = root
    for raw in pointer.split("/")[1:]:
        step = unquote(raw).replace("~1", "/").replace("~0", "~")
        if is_object(node) and step in node:
            node = node[step]
        elif is_list(node) and step.isdecimal() and int(step) < len(node):
            node = node[int(step)]
        else:
            return None
    return (node,)


@dataclass(frozen=True, slots=True)
class _Shared:
    """The shared schemas by their keys, and the keys by the schemas' own ids."""

    schemas: Mapping[str, Any]
    by_id: Mapping[str, str]
    names: dict[str, _Names] = field(default_factory=dict[str, _Names])

    def key(self, absolute: str) -> str | None:
        return shared_key(absolute) or self.by_id.get(urldefrag(absolute).url)

    def has(self, key: str, fragment: str) -> bool:
        """Whether there is such a schema, and the fragment names a schema in it."""
        if key not in self.schemas:
            return False
        if key not in self.names:
            self.names[key] = _names(self.schemas[key], address(key))
        return self.names[key].has(self.schemas[key], fragment)


class _Rewriter:
    """Copies one schema, with references made canonical or removed."""

    def __init__(self, root: Data, base: str, shared: _Shared) -> None:
        self.names = _names(root, base)
        self.root = root
        self.base = base
        self.shared = shared
        self.reached: list[str] = []
        self.unresolved: list[str] = []
        self.unknown_drafts: list[str] = []
        self.foreign: list[str] = []

    def copied(self) -> Data:
        return self.copy(self.root, self.base, self.root)

    def copy(self, schema: Data, base: str, resource: Data) -> Data:
        if is_list(schema):
            return [self.copy(child, base, resource) for child in schema]
        if not is_object(schema):
            return schema
        if "$schema" in schema and draft_of(schema) != self.names.draft:
            self.foreign.append(str(schema["$schema"]))
            return {UNRESOLVED: True, **{key: schema[key] for key in (self.names.id_keyword,) if key in schema}}
        own_base = self.names.base(schema, base)
        resource = schema if own_base != base else resource
        copied: dict[str, Any] = {}
        for key, value in schema.items():
            if key in REFERENCES and isinstance(value, str):
                target = self.target(value, own_base, resource)
                if target is None:
                    self.unresolved.append(value)
                    copied[UNRESOLVED] = True
                else:
                    copied[key] = target
            elif key == "$schema":
                copied[key] = self.names.draft
            elif key in BY_NAME and is_object(value):
                copied[key] = {name: self.copy(child, own_base, resource) for name, child in value.items()}
            else:
                copied[key] = value if key in NOT_SCHEMAS else self.copy(value, own_base, resource)
        return copied

    def target(self, reference: str, base: str, resource: Data) -> str | None:
        """The reference in the form that the engine gets; None if it cannot be resolved."""
        if reference.startswith("#") or not reference:
            return reference if self.names.has(resource, reference[1:]) else None
        absolute = join(base, reference)
        url, fragment = urldefrag(absolute)
        if url in self.names.ids:
            return reference
        key = self.shared.key(absolute) or self.shared.key(reference)
        if key is not None:
            return self.shared_target(key, fragment)
        return reference if url.startswith(META_SCHEMAS) else None

    def shared_target(self, key: str, fragment: str) -> str | None:
        if not self.shared.has(key, fragment):
            return None
        if draft_of(self.shared.schemas[key]) is None:
            self.unknown_drafts.append(key)
            return None
        self.reached.append(key)
        return f"{address(key)}#{fragment}" if fragment else address(key)


def prepare(schema: Data, shared: Mapping[str, Any], key: str | None = None) -> Prepared:
    """Follow all references from `schema` through the shared ones. `key` is its own key if it is a shared one."""
    by_id = {urldefrag(schema_id).url: name for name, body in shared.items() if (schema_id := _own_id(body))}
    shared_schemas = _Shared(shared, by_id)
    first = _Rewriter(schema, "" if key is None else address(key), shared_schemas)
    root = first.copied()
    rewriters, pending = [first], list(first.reached)
    resources: dict[str, Any] = {}
    while pending:
        name = pending.pop(0)
        if address(name) in resources:
            continue
        rewriter = _Rewriter(shared[name], address(name), shared_schemas)
        resources[address(name)] = rewriter.copied()
        rewriters.append(rewriter)
        pending += rewriter.reached
    return Prepared(
        root,
        resources,
        tuple(dict.fromkeys(name for rewriter in rewriters for name in rewriter.reached)),
        tuple(dict.fromkeys(name for rewriter in rewriters for name in rewriter.unresolved)),
        tuple(dict.fromkeys(name for rewriter in rewriters for name in rewriter.unknown_drafts)),
        tuple(dict.fromkeys(name for rewriter in rewriters for name in rewriter.foreign)),
    )


def _own_id(schema: Data) -> str:
    if not is_object(schema):
        return ""
    schema_id = schema.get("id" if draft_of(schema) == DRAFT_4 else "$id")
    return schema_id if isinstance(schema_id, str) else ""
