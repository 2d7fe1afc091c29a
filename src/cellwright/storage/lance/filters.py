"""Which rows of a LanceDB table a question is about. LanceDB binds no values, so they stand in the text, as literals."""

from collections.abc import Sequence

from cellwright.storage.search.port import Query
from cellwright.storage.values import check_text


def literal(value: str) -> str:
    """The text as a literal. Doubling the quote is all that LanceDB's parser asks for: it knows no escapes."""
    check_text(value)
    return "'" + value.replace("'", "''") + "'"


def filter_of(query: Query, model: str = "") -> str:
    """The rows that a question is about; with `model`, those that have a vector of it."""
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
