"""Filters for rows of a LanceDB table. LanceDB cannot bind values, so they are written as literals."""

from collections.abc import Sequence

from cellwright.storage.search.port import Query
from cellwright.storage.values import check_text


def literal(value: str) -> str:
    """The text as a literal. Doubling the quote is enough: LanceDB's parser has no escapes."""
    check_text(value)
    return "'" + value.replace("'", "''") + "'"


def filter_of(query: Query, model: str = "") -> str:
    """The condition for the rows that pass the query's filters; with `model`, only those that have a vector of it."""
    conditions = [f"tenant = {literal(query.tenant)}"]
    if model:
        conditions.append(f"model = {literal(model)}")
    if query.kinds:
        conditions.append(f"kind IN ({_literals(query.kinds)})")
    if query.namespaces:
        conditions.append(f"namespace IN ({_literals(query.namespaces)})")
    if query.tags:
        conditions.append(f"array_has_any(tags, [{_literals(query.tags)}])")
    return " AND ".join(conditions)


def _literals(values: Sequence[str]) -> str:
    return ", ".join(map(literal, values))
