"""One small language for filters, said to each engine in its own way.

    And((Equals("tenant", "a"), HasAny("tags", ("x", "y")), Not(StartsWith("namespace", "old/"))))

Truth has two values here: what is missing equals nothing, so `Not(Equals("language", "python"))` finds rows that have no language.
`to_sql` binds every value; SQLite and PostgreSQL take the same text. `to_lance` writes literals, because LanceDB binds none.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from cellwright.core.errors import InvalidArgument
from cellwright.storage.values import Value, check_text

Scalar = str | int | float | bool
MOST_TERMS = 1_000
DEEPEST = 50
LAST_CHARACTER = "\U0010ffff"
# Between these two are the surrogates, which are not characters.
BEFORE_SURROGATES, AFTER_SURROGATES = "\ud7ff", "\ue000"


@dataclass(frozen=True, slots=True)
class Equals:
    field: str
    value: Scalar | None
    """None finds rows without a value."""


@dataclass(frozen=True, slots=True)
class In:
    field: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class HasAny:
    """A field of many values, such as tags, has at least one of these."""

    field: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HasAll:
    field: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartsWith:
    field: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Between:
    """From `low` to `high`, both included; None is no bound."""

    field: str
    low: Scalar | None = None
    high: Scalar | None = None


@dataclass(frozen=True, slots=True)
class And:
    parts: "tuple[Expression, ...]"
    """All of them; of none, everything."""


@dataclass(frozen=True, slots=True)
class Or:
    parts: "tuple[Expression, ...]"
    """At least one of them; of none, nothing."""


@dataclass(frozen=True, slots=True)
class Not:
    part: "Expression"


Expression = Equals | In | HasAny | HasAll | StartsWith | Between | And | Or | Not


@dataclass(frozen=True, slots=True)
class Related:
    """A field of many values, kept as rows of another table."""

    table: str
    column: str
    joined: str
    """The condition that ties its rows to the row that is filtered: "tags.cell = cells.id"."""


Fields = Mapping[str, str | Related]
"""Which column, or which other table, each field is. Written by our code, never by callers."""
Sql = tuple[str, list[Value]]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check(expression: Expression, deep: int = 0) -> int:
    """How many terms there are; InvalidArgument if there are too many, or one inside the other too often."""
    if deep > DEEPEST:
        raise InvalidArgument("the filter is nested too deeply", hint=f"at most {DEEPEST} levels")
    match expression:
        case And(parts) | Or(parts):
            terms = 1 + sum(check(part, deep + 1) for part in parts)
        case Not(part):
            terms = 1 + check(part, deep + 1)
        case In(_, values) | HasAny(_, values) | HasAll(_, values):
            terms = 1 + len(values)
        case _:
            terms = 1
    if terms > MOST_TERMS:
        raise InvalidArgument("the filter has too many terms", hint=f"at most {MOST_TERMS}")
    return terms


def after_prefix(prefix: str) -> str | None:
    """The first text, by code points, that comes after everything that starts with the prefix; None if there is none."""
    for last in range(len(prefix) - 1, -1, -1):
        if prefix[last] != LAST_CHARACTER:
            return prefix[:last] + (
                AFTER_SURROGATES if prefix[last] == BEFORE_SURROGATES else chr(ord(prefix[last]) + 1)
            )
    return None


def to_sql(expression: Expression, fields: Fields) -> Sql:
    """A condition for WHERE, and its values in order."""
    check(expression)
    return _sql(expression, fields)


def _sql(expression: Expression, fields: Fields) -> Sql:
    match expression:
        case And(parts):
            return _joined(" AND ", "1 = 1", [_sql(part, fields) for part in parts])
        case Or(parts):
            return _joined(" OR ", "1 = 0", [_sql(part, fields) for part in parts])
        case Not(part):
            text, values = _sql(part, fields)
            return f"(({text}) IS NOT TRUE)", values
        case HasAny(field, wanted):
            return _has_any(_related(fields, field), wanted)
        case HasAll(field, wanted):
            return _joined(" AND ", "1 = 1", [_has_any(_related(fields, field), (one,)) for one in wanted])
        case _:
            return _compared(expression, _column(fields, expression.field))


def _joined(word: str, empty: str, parts: list[Sql]) -> Sql:
    if not parts:
        return empty, []
    return f"({word.join(text for text, _ in parts)})", [value for _, values in parts for value in values]


def _compared(expression: Equals | In | StartsWith | Between, column: str) -> Sql:
    match expression:
        case Equals(_, None):
            return f"{column} IS NULL", []
        case Equals(_, value):
            return f"{column} = ?", [value]
        case In(_, values):
            return (f"{column} IN ({_marks(values)})", list(values)) if values else ("1 = 0", [])
        case StartsWith(_, prefix):
            bounds = [(f"{column} >= ?", prefix), (f"{column} < ?", after_prefix(prefix))]
        case Between(_, low, high):
            bounds = [(f"{column} >= ?", low), (f"{column} <= ?", high)]
    # Without any bound, what is there at all.
    given: list[Sql] = [(text, [value]) for text, value in bounds if value not in {None, ""}]
    return _joined(" AND ", f"{column} IS NOT NULL", given)


def _has_any(related: Related, wanted: tuple[str, ...]) -> Sql:
    if not wanted:
        return "1 = 0", []
    found = f"{related.table} WHERE {related.joined} AND {related.table}.{related.column} IN ({_marks(wanted)})"
    return f"EXISTS (SELECT 1 FROM {found})", list(wanted)  # noqa: S608 - names are ours, values are bound


def _marks(values: tuple[Scalar, ...]) -> str:
    return ", ".join("?" * len(values))


def _column(fields: Fields, field: str) -> str:
    found = _field(fields, field)
    if isinstance(found, Related):
        raise InvalidArgument(f"`{field}` has many values", hint="ask which of them it has")
    return found


def _related(fields: Fields, field: str) -> Related:
    found = _field(fields, field)
    if isinstance(found, str):
        raise InvalidArgument(f"`{field}` has one value", hint="compare it")
    return found


def _field(fields: Fields, field: str) -> str | Related:
    if field not in fields:
        raise InvalidArgument("the filter names a field that does not exist", hint=f"there are: {', '.join(fields)}")
    return fields[field]


def to_lance(expression: Expression, names: frozenset[str]) -> str:
    """The filter as LanceDB reads it. `names` are the columns there are; a field of many values is a list column."""
    check(expression)
    return _lance(expression, names)


def _lance(expression: Expression, names: frozenset[str]) -> str:
    match expression:
        case And(parts):
            return _words(" AND ", "true", [_lance(part, names) for part in parts])
        case Or(parts):
            return _words(" OR ", "false", [_lance(part, names) for part in parts])
        case Not(part):
            return f"(({_lance(part, names)}) IS NOT TRUE)"
        case HasAny(field, wanted) | HasAll(field, wanted):
            if not wanted:
                return "false" if isinstance(expression, HasAny) else "true"
            function = "array_has_any" if isinstance(expression, HasAny) else "array_has_all"
            return f"{function}({_name(names, field)}, [{', '.join(map(literal, wanted))}])"
        case _:
            return _lance_compared(expression, _name(names, expression.field))


def _words(word: str, empty: str, parts: list[str]) -> str:
    return f"({word.join(parts)})" if parts else empty


def _lance_compared(expression: Equals | In | StartsWith | Between, column: str) -> str:
    match expression:
        case Equals(_, None):
            return f"{column} IS NULL"
        case Equals(_, value):
            return f"{column} = {literal(value)}"
        case In(_, values):
            return f"{column} IN ({', '.join(map(literal, values))})" if values else "false"
        case StartsWith(_, prefix):
            return f"starts_with({column}, {literal(prefix)})" if prefix else f"{column} IS NOT NULL"
        case Between(_, low, high):
            bounds = [f"{column} {sign} {literal(end)}" for sign, end in ((">=", low), ("<=", high)) if end is not None]
            return _words(" AND ", f"{column} IS NOT NULL", bounds)


def _name(names: frozenset[str], field: str) -> str:
    if field not in names or not _NAME.fullmatch(field):
        raise InvalidArgument(
            "the filter names a field that does not exist", hint=f"there are: {', '.join(sorted(names))}"
        )
    return f"`{field}`"


def literal(value: Scalar | None) -> str:
    """The value as text of an expression. Doubling the quote is all that LanceDB's parser asks for: it knows no escapes."""
    if isinstance(value, str):
        check_text(value)
        return "'" + value.replace("'", "''") + "'"
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidArgument("a number in the filter is not finite", hint="leave the bound out")
    return repr(value)
