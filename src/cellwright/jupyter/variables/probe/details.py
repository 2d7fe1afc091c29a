"""Everything that is told of one value: a row for the list of all, or its details."""

from __future__ import annotations

from typing import Any

from cellwright.jupyter.variables.probe.arrays import array_detail, array_text
from cellwright.jupyter.variables.probe.kinds import (
    Budget,
    attributes_of,
    cut,
    fields_of,
    full_name,
    instance_names,
    is_a,
    known_as,
    library_of,
    module_names,
    type_name,
)
from cellwright.jupyter.variables.probe.pictures import picture_of
from cellwright.jupyter.variables.probe.shapes import array_head, plain_array
from cellwright.jupyter.variables.probe.tables import (
    first_cells,
    is_lazy,
    series_detail,
    series_of,
    table_detail,
    table_of,
)
from cellwright.jupyter.variables.probe.texts import (
    has_own_text,
    items_of,
    label,
    line,
    object_line,
    scalar_text,
)

ITEMS = (20, 8, 4)
"""How many items are shown of a container, by how deep it is; deeper ones are a line."""
ATTRIBUTES = (30, 10, 5)
LONG_STRING = 2_000
LONG_LINE = 260


def row_of(value: Any) -> dict[str, Any]:
    """One short row: type, size, and the beginning of the value."""
    row: dict[str, Any] = {"type": full_name(type(value))}
    table = table_of(value)
    if table is not None:
        names = [label(table.labels[position]) for position in range(min(8, table.columns))]
        more = ", …" if table.columns > len(names) else ""
        text = cut(f"columns {', '.join(names)}{more}", LONG_LINE)
        return {**row, "shape": str((table.rows, table.columns)), "length": table.rows, "value": text}
    head = array_head(value)
    if head is not None:
        array = plain_array(value)
        length = {"length": array.shape[0]} if array is not None and array.ndim else {}
        text = object_line(value) if array is None else cut(array_text(array), LONG_LINE)
        return {**row, **head, **length, "value": text}
    column = series_of(value)
    if column is not None:
        shape = {"shape": str((column.length,)), "dtype": column.dtype, "length": column.length}
        return {**row, **shape, "value": cut(f"[{', '.join(first_cells(column))}]", LONG_LINE)}
    if is_numpy_scalar(value):
        row.update({"shape": "()", "dtype": cut(str(value.dtype))})
    return {**row, **size_of(value), "value": line(value, LONG_LINE)}


def is_numpy_scalar(value: Any) -> bool:
    generic = module_names("numpy").get("generic")
    return generic is not None and is_a(value, generic) and library_of(type(value)) == "numpy"


def size_of(value: Any) -> dict[str, int]:
    for kind in (str, bytes, bytearray):
        if is_a(value, kind):
            return {"length": kind.__len__(value)}
    contents = items_of(value)
    return {} if contents is None else {"length": contents[0]}


def detail_of(value: Any, budget: Budget) -> dict[str, Any]:
    """All that is told of one value: its row, and what is in it."""
    detail = row_of(value)
    picture = picture_of(value, budget)
    if picture is not None:
        return {**detail, **picture}
    if is_lazy(value):
        return {**detail, **parts(value, budget, 0, ()), "note": "lazy: nothing was computed"}
    table = table_of(value)
    if table is not None:
        return {**detail, **table_detail(table, budget)}
    if array_head(value) is not None:
        return {**detail, **array_detail(value, budget)}
    column = series_of(value)
    if column is not None:
        return {**detail, **series_detail(column, budget)}
    return {**detail, **parts(value, budget, 0, ())}


def parts(value: Any, budget: Budget, level: int, inside: tuple[int, ...]) -> dict[str, Any]:
    """A value by what is in it: items of a container, attributes of an object, the text of all else."""
    text = scalar_text(value, LONG_STRING if level == 0 else LONG_LINE)
    if text is not None:
        return {"value": text, **code_detail(value)}
    about: dict[str, Any] = {}
    contents = items_of(value)
    deeper = (*inside, id(value))
    if contents is not None:
        about.update(items_detail(value, contents, budget, level, deeper))
    attributes = attributes_of(value)
    if attributes:
        about.update(attributes_detail(attributes, budget, level, deeper))
    elif contents is None:
        about["value"] = object_line(value)
    if level == 0 and has_own_text(value):
        about["note"] = "its class says how it is written; that code was not run"
    elif level == 0 and contents is None and not attributes:
        about["note"] = "nothing more can be told without running its code"
    return about


def items_detail(value: Any, contents: Any, budget: Budget, level: int, inside: tuple[int, ...]) -> dict[str, Any]:
    length, items = contents
    fields = fields_of(value)
    shown: list[Any] = []
    named: dict[str, Any] = {}
    for item in items:
        if len(shown) + len(named) >= ITEMS[level] or not budget.take():
            break
        if is_a(value, dict):
            key = item[0] if type(item[0]) is str else line(item[0], 80)
            named[distinct(cut(key, 80), named)] = part(item[1], budget, level + 1, inside)
        elif len(named) < len(fields):
            named[fields[len(named)]] = part(item, budget, level + 1, inside)
        else:
            shown.append(part(item, budget, level + 1, inside))
    about: dict[str, Any] = {}
    if shown:
        about["items"] = shown
    if named:
        about["entries"] = named
    left = length - len(shown) - len(named)
    return {**about, "more": left} if left > 0 else about


def distinct(name: str, names: dict[str, Any]) -> str:
    """The number 1 and the text "1" are different keys, which look the same here."""
    while name in names:
        name += "*"
    return name


def attributes_detail(
    attributes: dict[str, Any], budget: Budget, level: int, inside: tuple[int, ...]
) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, content in attributes.items():
        if len(shown) >= ATTRIBUTES[level] or not budget.take():
            break
        shown[cut(name, 80)] = part(content, budget, level + 1, inside)
    left = len(attributes) - len(shown)
    return {"attributes": shown, "more_attributes": left} if left > 0 else {"attributes": shown}


def part(value: Any, budget: Budget, level: int, inside: tuple[int, ...]) -> Any:
    """A part of a value: a line, or, where it has parts itself and there is room, a description of its own."""
    if any(id(value) == outer for outer in inside):
        return f"<{type_name(type(value))}: contains itself>"
    if table_of(value) is not None or array_head(value) is not None or series_of(value) is not None:
        return row_of(value)
    deep = level < len(ITEMS) and (items_of(value) is not None or attributes_of(value))
    if not deep or scalar_text(value) is not None or is_small(value):
        return line(value, LONG_LINE)
    return {"type": full_name(type(value)), **size_of(value), **parts(value, budget, level, inside)}


def is_small(value: Any) -> bool:
    """Whether a line tells all of it: a few items without parts of their own."""
    contents = items_of(value)
    if contents is None or library_of(type(value)) != "builtins" or contents[0] > 5:  # noqa: PLR2004
        return False
    items = [part for item in contents[1] for part in (item if is_a(value, dict) else (item,))]
    return all(scalar_text(item) is not None for item in items)


def code_detail(value: Any) -> dict[str, Any]:
    """The first line of what a function or class says of itself, and the value of a member of an enumeration."""
    names = instance_names(value)
    enum = module_names("enum").get("Enum")
    if enum is not None and is_a(value, enum) and names is not None:
        return {"attributes": {"value": line(names.get("_value_"))}}
    if known_as(value) == ("builtins", "function"):
        text = value.__doc__
        return {"doc": cut(text.strip().partition("\n")[0])} if type(text) is str and text.strip() else {}
    return {}
