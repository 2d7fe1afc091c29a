"""Values that can be stored: those that both engines return unchanged. A value that one of them would change is refused for both."""

import math

from cellwright.core.errors import InvalidArgument

Value = str | int | float | bytes | None
Row = tuple[Value, ...]

LARGEST = 2**63


def storable(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """The values as they are bound. InvalidArgument for one that cannot be stored unchanged."""
    for value in values:
        kind = type(value)
        if kind is str:
            check_text(value)  # pyright: ignore[reportArgumentType]
        elif kind is int:
            if not -LARGEST <= value < LARGEST:  # pyright: ignore[reportOptionalOperand,reportOperatorIssue]
                raise InvalidArgument("a whole number is too large to be stored", hint="it must fit in 64 bits")
        elif kind is float:
            if math.isnan(value):  # pyright: ignore[reportArgumentType]
                raise InvalidArgument("a number to be stored is not a number (NaN)", hint="leave it out")
        elif kind is bool:
            return tuple(int(item) if isinstance(item, bool) else item for item in values)
    return values


def check_text(text: str) -> None:
    """InvalidArgument for text that cannot be stored unchanged."""
    if "\0" in text:
        raise InvalidArgument("a text to be stored holds a NUL character", hint="remove U+0000 from it")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise unencodable() from error


def unencodable() -> InvalidArgument:
    return InvalidArgument("a text to be stored holds half of a surrogate pair", hint="remove it: it is no character")
