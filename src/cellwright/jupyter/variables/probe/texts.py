"""Values as one line of text. Only of types whose own text is the interpreter's or a known library's is it asked for."""

from __future__ import annotations

import math
import types
from typing import Any

from cellwright.jupyter.variables.probe.kinds import (
    LONGEST_TEXT,
    attributes_of,
    cut,
    fields_of,
    instance_names,
    is_a,
    known_as,
    library_of,
    module_names,
    names_in,
    qualified_name,
    type_name,
)
from cellwright.jupyter.variables.probe.shapes import shape_line

LONGEST_LABEL = 80
EXACT_BITS = 1_024
FEW_ITEMS = 5
MANY_ITEMS = 60
FEW_LEVELS = 2
ZONES = ("builtins", "datetime", "zoneinfo", "pytz", "dateutil")
"""Where the time zones are from whose names and offsets may be asked for: a time zone can be code of the notebook."""
PLAIN_TEXT = {
    ("decimal", "Decimal"),
    ("uuid", "UUID"),
    ("datetime", "date"),
    ("datetime", "timedelta"),
    ("pathlib", "PosixPath"),
    ("pathlib", "WindowsPath"),
    ("pathlib", "PurePosixPath"),
    ("pathlib", "PureWindowsPath"),
    ("pandas", "Timedelta"),
    ("pandas", "Period"),
    ("pandas", "Interval"),
    ("pandas", "NaTType"),
    ("pandas", "NAType"),
    ("ipaddress", "IPv4Address"),
    ("ipaddress", "IPv6Address"),
}
NUMPY_NUMBERS = "biufcmM"


def exact(text: str) -> str:
    """The characters of a text whose class may be the notebook's."""
    return str.__getitem__(text, slice(0, LONGEST_TEXT))


def number_text(number: int) -> str:
    """A whole number in full, or by its size: to write a huge one takes long."""
    bits = int.bit_length(number)
    if bits <= EXACT_BITS:
        return cut(int.__repr__(number))
    magnitude = abs(int(number))
    shift = bits - 64
    logarithm = math.log10(magnitude >> shift) + shift * math.log10(2)
    sign = "-" if number < 0 else ""
    return f"about {sign}{10 ** (logarithm % 1):.3f}e+{int(logarithm)} ({bits:,} bits)"


def string_text(text: str, limit: int = LONGEST_TEXT) -> str:
    length = str.__len__(text)
    start = str.__repr__(str.__getitem__(text, slice(0, limit)))
    return start if length <= limit else f"{start}… ({length:,} characters)"


def bytes_text(data: Any, limit: int = LONGEST_TEXT // 4) -> str:
    kind = bytes if is_a(data, bytes) else bytearray
    length = kind.__len__(data)
    start = bytes(kind.__getitem__(data, slice(0, limit))).__repr__()
    return start if length <= limit else f"{start}… ({length:,} bytes)"


def scalar_text(value: Any, limit: int = LONGEST_TEXT) -> str | None:
    """The text of a value that has no parts; None for all others."""
    if value is None or value is Ellipsis or value is NotImplemented:
        return repr(value)
    member = enum_text(value)
    if member is not None:
        return member
    if is_a(value, bool):
        return bool.__repr__(value)
    if is_a(value, int):
        return number_text(value)
    if is_a(value, float):
        # numpy's float64 is a float, and its own text names the type.
        return float.__repr__(value)
    if is_a(value, complex):
        return complex.__repr__(value)
    if is_a(value, str):
        return string_text(value, limit)
    if is_a(value, bytes) or is_a(value, bytearray):
        return bytes_text(value)
    return library_text(value) or code_text(value)


def enum_text(value: Any) -> str | None:
    enum = module_names("enum").get("Enum")
    if enum is None or not is_a(value, enum):
        return None
    name = (instance_names(value) or {}).get("_name_")
    return f"{qualified_name(type(value))}.{name}" if type(name) is str else qualified_name(type(value))


def library_text(value: Any) -> str | None:
    """The text of dates, decimals, paths, numbers of numpy and the like, if the type is exactly that."""
    library, name = known_as(value)
    if (library, name) in PLAIN_TEXT:
        return cut(str(value))
    if (library, name) in (("datetime", "datetime"), ("datetime", "time"), ("pandas", "Timestamp")):
        zone = value.tzinfo
        if zone is None or library_of(type(zone)) in ZONES:
            return cut(str(value))
        return f"{cut(str(value.replace(tzinfo=None)))} (in a time zone of the notebook's)"
    generic = module_names("numpy").get("generic")
    if library == "numpy" and generic is not None and is_a(value, generic):
        return cut(str(value)) if value.dtype.kind in NUMPY_NUMBERS else None
    if (library, name) == ("builtins", "range"):
        return repr(value)
    return None


def code_text(value: Any) -> str | None:
    """The text of functions, classes and modules."""
    if type(value) is types.FunctionType:
        code = value.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return cut(f"function {exact(value.__qualname__)}({', '.join(names)})")
    if type(value) is types.BuiltinFunctionType:
        return cut(f"function {exact(value.__qualname__)}")
    if type(value) is types.MethodType:
        function = value.__func__
        return cut(f"method {exact(function.__qualname__)}") if type(function) is types.FunctionType else "method"
    if is_a(value, type):
        return cut(f"class {type_name(value)}")
    if is_a(value, types.ModuleType):
        name = (instance_names(value) or {}).get("__name__")
        return cut(f"module {name}") if type(name) is str else "module"
    return None


def items_of(value: Any) -> tuple[int, Any] | None:
    """How many items a container has, and an iterator over them, by the means of its builtin type; None for all else."""
    ordered = module_names("collections").get("OrderedDict")
    deque = module_names("collections").get("deque")
    if ordered is not None and is_a(value, ordered):
        return dict.__len__(value), iter(ordered.items(value))
    for kind in (dict, list, tuple, set, frozenset, deque):
        if kind is not None and is_a(value, kind):
            items = dict.items(value) if kind is dict else kind.__iter__(value)
            return kind.__len__(value), iter(items)
    return None


def brackets_of(value: Any) -> tuple[str, str]:
    for kind, pair in ((dict, "{}"), (set, "{}"), (frozenset, "{}"), (tuple, "()")):
        if is_a(value, kind):
            return pair[0], pair[1]
    return "[", "]"


def line(value: Any, limit: int = LONGEST_TEXT, level: int = 0, inside: tuple[int, ...] = ()) -> str:
    """The value as one line: containers with their first items, everything else that has no text of its own by its type."""
    scalar = scalar_text(value, limit)
    if scalar is not None:
        return cut(scalar, limit + 40)
    contents = items_of(value)
    if contents is None:
        return object_line(value)
    length, items = contents
    opening, closing = brackets_of(value)
    own = "" if library_of(type(value)) == "builtins" else type_name(type(value))
    if id(value) in inside:
        return f"{own}{opening}… itself …{closing}"
    if length and level >= FEW_LEVELS:
        return f"{own}{opening}… {length:,} …{closing}"
    texts: list[str] = []
    fields = fields_of(value)
    for item in items:
        if len(texts) >= (FEW_ITEMS if level else MANY_ITEMS) or sum(map(len, texts)) > limit:
            texts.append(f"… {length - len(texts):,} more")
            break
        deeper = (*inside, id(value))
        if is_a(value, dict):
            texts.append(
                f"{line(item[0], limit // 2, level + 1, deeper)}: {line(item[1], limit // 2, level + 1, deeper)}"
            )
        else:
            field = f"{fields[len(texts)]}=" if len(texts) < len(fields) else ""
            texts.append(field + line(item, limit // 2, level + 1, deeper))
    comma = "," if opening == "(" and length == 1 and not fields else ""
    return cut(f"{own}{opening}{', '.join(texts)}{comma}{closing}", limit + 39)


def object_line(value: Any) -> str:
    """An object by its type and its size, or the names of what it keeps."""
    size = shape_line(value)
    if size:
        return cut(f"<{type_name(type(value))} {size}>")
    names = [name for name in attributes_of(value) if not name.startswith("_")]
    about = f" with {', '.join(names[:FEW_ITEMS])}{', …' if len(names) > FEW_ITEMS else ''}" if names else ""
    return cut(f"<{type_name(type(value))}{about}>")


def label(value: Any) -> str:
    """A key or the name of a column, as a person would say it."""
    if type(value) is str:
        return cut(value, LONGEST_LABEL)
    return line(value, LONGEST_LABEL)


def has_own_text(value: Any) -> bool:
    """Whether the notebook's class says how its values are written."""
    for kind in type.__dict__["__mro__"].__get__(type(value)):
        if "__repr__" in names_in(kind) or "__str__" in names_in(kind):
            return library_of(kind) != "builtins"
    return False
