"""What a value really is: its type and attributes, read past everything that its class defines."""

from __future__ import annotations

import sys
import types
from typing import Any

LONGEST_TEXT = 200
PLAIN_ROOTS = ("builtins", "collections")
HEAP_TYPE = 1 << 9
"""The flag of types that a class statement, or its like in C, has made."""
_NAMES = type.__dict__
_MISSING = object()


class Budget:
    """What may still be spent: time, parts of the answer, and pictures."""

    def __init__(self, deadline: float, clock: Any, parts: int, pictures: int) -> None:
        self.deadline = deadline
        self.clock = clock
        self.parts = parts
        self.pictures = pictures

    @property
    def late(self) -> bool:
        return self.clock() > self.deadline

    def take(self) -> bool:
        """Whether there is room for another part."""
        self.parts -= 1
        return self.parts >= 0 and not self.late


def bases_of(kind: type) -> tuple[type, ...]:
    """The type and all it inherits from, whatever its metaclass says."""
    return _NAMES["__mro__"].__get__(kind)


def names_in(kind: type) -> Any:
    """The names that the class itself has."""
    return _NAMES["__dict__"].__get__(kind)


def is_a(value: Any, kind: type) -> bool:
    """`isinstance` asks the value for its `__class__`, and `in` the metaclass for `==`, which may be code; this does not."""
    return any(base is kind for base in bases_of(type(value)))


def module_of(kind: type) -> str:
    module = _NAMES["__module__"].__get__(kind)
    return module if type(module) is str else ""


def qualified_name(kind: type) -> str:
    return str(_NAMES["__qualname__"].__get__(kind))[:200]


def module_names(module: str) -> dict[str, Any]:
    """The names of a module that is loaded already. Nothing is imported, because that may run the notebook's files."""
    loaded = sys.modules.get(module)
    return (instance_names(loaded) if is_a(loaded, types.ModuleType) else None) or {}


def library_of(kind: type) -> str:
    """The top package that the class really comes from: a class that only claims a module is not found in it."""
    module = module_of(kind)
    name = qualified_name(kind)
    holder: Any = module_names(module).get(name.partition(".")[0])
    for part in name.split(".")[1:]:
        holder = names_in(holder).get(part) if is_a(holder, type) else None
    if holder is kind:
        return module.partition(".")[0]
    # Types of the interpreter that stand in no module (function, generator, NoneType) are not made by a class statement.
    made_by_class_statement = _NAMES["__flags__"].__get__(kind) & HEAP_TYPE
    return "builtins" if module in PLAIN_ROOTS and not made_by_class_statement else ""


def known_as(value: Any) -> tuple[str, str]:
    """The library and the name of the value's type, both empty where the type is not where it says it is from."""
    kind = type(value)
    library = library_of(kind)
    return (library, qualified_name(kind)) if library else ("", "")


def type_name(kind: type) -> str:
    module, name = module_of(kind), qualified_name(kind)
    if not module or module in ("builtins", "__main__"):
        return name
    # The top package is what people import; where in it a class is defined does not matter to them.
    return "{}.{}".format(module.partition(".")[0] if library_of(kind) else module[:200], name)


def full_name(kind: type) -> str:
    """The name with the whole module, `builtins` too."""
    return cut(f"{module_of(kind)}.{qualified_name(kind)}")


def instance_names(value: Any) -> dict[str, Any] | None:
    """The value's own `__dict__`, even where its class defines another one; None if it has none."""
    for kind in bases_of(type(value)):
        entry = names_in(kind).get("__dict__")
        if type(entry) is types.GetSetDescriptorType or (entry is not None and kind is types.ModuleType):
            names = entry.__get__(value)
            return names if type(names) is dict else None
    return None


def slot_names(value: Any) -> dict[str, Any]:
    """What the value keeps in slots of Python classes."""
    slots: dict[str, Any] = {}
    for kind in bases_of(type(value)):
        if "__slots__" not in names_in(kind):
            continue
        for name, entry in list(names_in(kind).items()):
            if type(entry) is types.MemberDescriptorType and type(name) is str and name not in slots:
                content = slot_content(entry, value)
                if content is not _MISSING:
                    slots[name] = content
    return slots


def slot_content(entry: Any, value: Any) -> Any:
    try:
        return entry.__get__(value)
    except AttributeError:
        return _MISSING


def attributes_of(value: Any) -> dict[str, Any]:
    """What the value keeps, in its slots and in its `__dict__`; nothing that is computed."""
    attributes = slot_names(value)
    for name, content in list((instance_names(value) or {}).items()):
        if type(name) is str:
            attributes[name] = content
    modules = module_names("torch.nn.modules.module").get("Module")
    if modules is not None and is_a(value, modules):
        return torch_parts(attributes)
    return attributes


def torch_parts(attributes: dict[str, Any]) -> dict[str, Any]:
    """The layers and parameters of a torch module stand in dictionaries of it, and are its attributes to people."""
    shown: dict[str, Any] = {}
    for group in ("_modules", "_parameters", "_buffers"):
        parts = attributes.get(group)
        if parts is not None and is_a(parts, dict):
            shown.update(dict.items(parts))
    shown.update({name: content for name, content in attributes.items() if not name.startswith("_")})
    return shown


def fields_of(value: Any) -> tuple[str, ...]:
    """The names of a namedtuple's fields."""
    for kind in bases_of(type(value)):
        fields = names_in(kind).get("_fields")
        if type(fields) is tuple and all(type(name) is str for name in fields):
            return fields
    return ()


def cut(text: str, limit: int = LONGEST_TEXT) -> str:
    return text if len(text) <= limit else text[:limit] + "…"
