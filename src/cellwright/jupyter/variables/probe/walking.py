"""The way from a variable to something in it, by attributes and keys, without running what its classes define."""

from __future__ import annotations

import types
from typing import Any

from cellwright.jupyter.variables.probe.kinds import (
    Budget,
    attributes_of,
    bases_of,
    fields_of,
    is_a,
    module_names,
    names_in,
    type_name,
)
from cellwright.jupyter.variables.probe.shapes import is_tensor, plain_array
from cellwright.jupyter.variables.probe.tables import table_of
from cellwright.jupyter.variables.probe.texts import items_of, label

MOST_NEAR = 500


class NotThere(Exception):
    """There is no such thing in a value. `names` has those that there are, among which the caller may have meant one."""

    def __init__(self, message: str, wanted: str = "", names: list[str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.wanted = wanted
        self.names = (names or [])[:MOST_NEAR]


def walk(value: Any, steps: list[Any], budget: Budget) -> Any:
    """`steps` are pairs: "attribute" and a name, or "key" and a key as `key_of` reads it."""
    for manner, name in steps:
        value = attribute(value, name) if manner == "attribute" else item(value, key_of(name), budget)
    return value


def key_of(written: Any) -> Any:
    """A key as it was sent: JSON has neither tuples nor bytes."""
    if type(written) is dict:
        if "tuple" in written:
            return tuple(key_of(part) for part in written["tuple"])
        return bytes(written["bytes"])
    return written


def attribute(value: Any, name: str) -> Any:
    attributes = attributes_of(value)
    if name in attributes:
        return attributes[name]
    fields = fields_of(value)
    if is_a(value, tuple) and name in fields:
        return tuple.__getitem__(value, fields.index(name))
    table = table_of(value)
    if table is not None:
        return column_named(table, name)
    for kind in bases_of(value) if is_a(value, type) else bases_of(type(value)):
        if name in names_in(kind):
            content = names_in(kind)[name]
            if any("__get__" in names_in(base) for base in bases_of(type(content))) and not is_function(content):
                raise NotThere(f"{name} of {type_name(type(value))} is computed by code, which is not run")
            return content
    raise NotThere(f"{type_name(type(value))} keeps no attribute {name}", name, [*attributes, *fields])


def is_function(content: Any) -> bool:
    return any(
        type(content) is kind for kind in (types.FunctionType, types.BuiltinFunctionType, staticmethod, classmethod)
    )


def item(value: Any, key: Any, budget: Budget) -> Any:
    modules = module_names("torch.nn.modules.module").get("Module")
    if modules is not None and is_a(value, modules):
        return entry(attributes_of(value), str(key) if type(key) is int else key, budget)
    if is_a(value, dict):
        return entry(value, key, budget)
    table = table_of(value)
    if table is not None:
        return column_named(table, key)
    deque = module_names("collections").get("deque")
    for kind in (list, tuple, str, bytes, deque):
        if kind is not None and is_a(value, kind):
            return element(value, kind, key)
    array = plain_array(value)
    if array is None and is_tensor(value):
        array = value.detach()
    if array is None:
        raise NotThere(f"{type_name(type(value))} cannot be looked into by a key without running its code")
    places = key if type(key) is tuple else (key,)
    inside = len(places) <= len(array.shape) and all(
        type(place) is int and -side <= place < side for place, side in zip(places, array.shape)
    )
    if not inside:
        raise NotThere(f"it has no element {label(key)}: its shape is {tuple(array.shape)}")
    return array[places]


def element(value: Any, kind: Any, key: Any) -> Any:
    length = kind.__len__(value)
    if type(key) is not int or not -length <= key < length:
        raise NotThere(f"{type_name(type(value))} has no element {label(key)}: it has {length:,}")
    return kind.__getitem__(value, key)


def entry(value: Any, key: Any, budget: Budget) -> Any:
    """What a dictionary has for the key. Not by a lookup, which may compare the key with objects of the notebook."""
    names: list[str] = []
    contents = items_of(value)
    for other, content in contents[1] if contents is not None else ():
        if same(other, key):
            return content
        if len(names) < MOST_NEAR:
            names.append(label(other))
        elif budget.late:
            raise NotThere(f"there was no time to look for the key {label(key)}")
    raise NotThere(f"{type_name(type(value))} has no key {label(key)}", label(key), names)


def same(other: Any, key: Any) -> bool:
    if type(key) is tuple and is_a(other, tuple):
        parts = list(tuple.__iter__(other))
        return len(parts) == len(key) and all(same(part, key[place]) for place, part in enumerate(parts))
    for kind in (str, bytes, int, float):
        if is_a(key, kind):
            return is_a(other, kind) and kind.__eq__(other, key) is True
    return other is key


def column_named(table: Any, name: Any) -> Any:
    names: list[str] = []
    for position in range(table.columns):
        column = table.labels[position]
        if same(column, name):
            return table.series(position)
        if len(names) < MOST_NEAR:
            names.append(label(column))
    raise NotThere(f"it has no column {label(name)}", label(name), names)
