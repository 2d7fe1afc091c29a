"""One filter, three engines, one meaning; and no value that becomes anything else."""

from contextlib import closing
from dataclasses import dataclass

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.core.errors import InvalidArgument
from cellwright.storage.database import Database, Transaction
from cellwright.storage.expressions import (
    And,
    Between,
    Equals,
    Expression,
    HasAll,
    HasAny,
    In,
    Not,
    Or,
    Related,
    StartsWith,
    after_prefix,
    literal,
    to_lance,
    to_sql,
)
from cellwright.storage.sqlite_file import execute
from requirements import requirement

FIELDS = {
    "id": "cells.id",
    "name": "cells.name",
    "number": "cells.number",
    "tags": Related("tags", "tag", "tags.cell = cells.id"),
}
NAMES = frozenset({"id", "name", "number", "tags"})
NASTY = [
    "o'brien",
    "' OR '1'='1",
    "x'); DROP TABLE cells; --",
    "\\'",
    "''",
    '"',
    "`",
    "%",
    "_",
    "?",
    "%s",
    "$1",
    "日本",
    "日",
    "🎉🎉",
    "🎉",
    "\ud7ff",
    "\ue000",
    "\U0010ffff",
    "\u202e",
    "a",
    "ab",
    "ab/c",
    "aB",
    "b",
]


@dataclass(frozen=True)
class Cell:
    id: int
    name: str | None
    number: int | None
    tags: frozenset[str]


CELLS = [
    Cell(number, None if number % 7 == 3 else text, None if number % 5 == 4 else number * 10, frozenset({text, "all"}))
    for number, text in enumerate(NASTY, start=1)
] + [Cell(100, "", 0, frozenset())]


def holds(expression: Expression, cell: Cell) -> bool:
    """What the filter means, in Python."""
    match expression:
        case And(parts):
            return all(holds(part, cell) for part in parts)
        case Or(parts):
            return any(holds(part, cell) for part in parts)
        case Not(part):
            return not holds(part, cell)
        case HasAny(_, values):
            return bool(cell.tags & set(values))
        case HasAll(_, values):
            return cell.tags >= set(values)
        case _:
            return compares(expression, getattr(cell, expression.field))


def compares(expression: Equals | In | StartsWith | Between, found: str | int | None) -> bool:
    match expression:
        case Equals(_, value):
            return found == value
        case In(_, values):
            return found in values
        case StartsWith(_, prefix):
            return isinstance(found, str) and found.startswith(prefix)
        case Between(_, low, high):
            if found is None:
                return False
            # In Python too, text compares by code point.
            bounds = [one for one in (low, found, high) if one is not None]
            return bounds == sorted(
                bounds, key=lambda one: (str(one) if isinstance(one, str) else "", 0 if isinstance(one, str) else one)
            )


texts = st.sampled_from(NASTY)
numbers = st.integers(-5, 260)
leaves: st.SearchStrategy[Expression] = st.one_of(
    st.builds(Equals, st.just("name"), st.none() | texts),
    st.builds(Equals, st.just("number"), st.none() | numbers),
    st.builds(In, st.just("name"), st.lists(texts, max_size=3).map(tuple)),
    st.builds(HasAny, st.just("tags"), st.lists(texts, max_size=3).map(tuple)),
    st.builds(HasAll, st.just("tags"), st.lists(texts | st.just("all"), max_size=2).map(tuple)),
    st.builds(StartsWith, st.just("name"), texts | st.just("")),
    st.builds(Between, st.just("number"), st.none() | numbers, st.none() | numbers),
    st.builds(Between, st.just("name"), st.none() | texts, st.none() | texts),
)
expressions: st.SearchStrategy[Expression] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=6,
)


@requirement("storage:filter:same")
@pytest.mark.anyio
async def test_filters_mean_the_same_everywhere(database: Database) -> None:
    def fill(tx: Transaction) -> None:
        for cell in CELLS:
            tx.run("INSERT INTO cells (id, name, number) VALUES (?, ?, ?)", cell.id, cell.name, cell.number)
            for tag in cell.tags:
                tx.run("INSERT INTO tags VALUES (?, ?)", cell.id, tag)

    await database.write(fill)
    chosen: list[Expression] = []

    @settings(
        max_examples=150, database=None, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(expressions)
    def choose(expression: Expression) -> None:
        chosen.append(expression)

    choose()

    def compare(tx: Transaction) -> None:
        for expression in chosen:
            where, values = to_sql(expression, FIELDS)
            found = tx.rows(f"SELECT id FROM cells WHERE {where} ORDER BY id", *values)
            assert [id_ for (id_,) in found] == [cell.id for cell in CELLS if holds(expression, cell)], expression

    await database.read(compare)


@requirement("storage:filter:injection")
@pytest.mark.parametrize("text", NASTY)
def test_no_value_is_part_of_the_sql(text: str) -> None:
    asked: list[tuple[Expression, str]] = [
        (Equals("name", text), "cells.name = ?"),
        (In("name", (text, text)), "cells.name IN (?, ?)"),
        (Between("name", text), "(cells.name >= ?)"),
        (HasAny("tags", (text,)), "EXISTS (SELECT 1 FROM tags WHERE tags.cell = cells.id AND tags.tag IN (?))"),
    ]
    for expression, sql in asked:
        where, values = to_sql(expression, FIELDS)
        assert where == sql
        assert values == [text] * sql.count("?")


@requirement("storage:filter:injection")
@settings(max_examples=200, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | texts)
def test_a_literal_is_read_as_exactly_its_value(text: str) -> None:
    """SQLite's parser is the judge: it reads standard literals, as LanceDB's does."""
    with closing(apsw.Connection(":memory:")) as connection:
        assert execute(connection, f"SELECT {literal(text)}, 1") == [(text, 1)]


@requirement("storage:filter:injection")
def test_a_lance_filter_holds_its_values_as_literals() -> None:
    expression = And(
        (
            Equals("name", "o'brien"),
            Not(Equals("number", 3)),
            HasAny("tags", ("a'b", "日本")),
            HasAll("tags", ("x",)),
            StartsWith("name", "it's"),
            Between("number", 1, 2.5),
            In("name", ("p", "q")),
            Or((Equals("name", None), Equals("number", True))),
        )
    )
    assert to_lance(expression, NAMES) == (
        "(`name` = 'o''brien' AND ((`number` = 3) IS NOT TRUE) AND array_has_any(`tags`, ['a''b', '日本']) AND "
        "array_has_all(`tags`, ['x']) AND starts_with(`name`, 'it''s') AND (`number` >= 1 AND `number` <= 2.5) AND "
        "`name` IN ('p', 'q') AND (`name` IS NULL OR `number` = true))"
    )
    nothing = Or((And(()), Or(()), In("name", ()), HasAny("tags", ()), HasAll("tags", ()), StartsWith("name", "")))
    assert to_lance(nothing, NAMES) == "(true OR false OR false OR false OR true OR `name` IS NOT NULL)"


@requirement("storage:filter:injection")
@pytest.mark.parametrize(
    "value", ["a\0b", "\ud83c", float("inf"), float("nan")], ids=["nul", "surrogate", "inf", "nan"]
)
def test_what_cannot_be_a_literal_is_refused(value: str | float) -> None:
    with pytest.raises(InvalidArgument):
        to_lance(Equals("name", value), NAMES)


@requirement("storage:filter:bounded")
@pytest.mark.parametrize("field", ["nosuch", "name` OR 1=1", "name; DROP TABLE cells", ""])
def test_unknown_fields_are_refused(field: str) -> None:
    with pytest.raises(InvalidArgument, match="does not exist") as met:
        to_sql(Equals(field, "a"), FIELDS)
    assert "name" in met.value.hint
    with pytest.raises(InvalidArgument, match="does not exist"):
        to_lance(Equals(field, "a"), NAMES | {"name` OR 1=1"} - {"nosuch"})


@requirement("storage:filter:bounded")
def test_filters_have_bounds() -> None:
    with pytest.raises(InvalidArgument, match="too many terms"):
        to_sql(In("name", ("a",) * 1_001), FIELDS)
    deep: Expression = Equals("name", "a")
    for _ in range(2_000):
        deep = Not(deep)
    with pytest.raises(InvalidArgument, match="nested too deeply"):
        to_lance(deep, NAMES)
    with pytest.raises(InvalidArgument, match="many values"):
        to_sql(Equals("tags", "a"), FIELDS)
    with pytest.raises(InvalidArgument, match="one value"):
        to_sql(HasAny("name", ("a",)), FIELDS)


@requirement("storage:filter:same")
@pytest.mark.parametrize(
    ("prefix", "after"),
    [
        ("a", "b"),
        ("ab", "ac"),
        ("a\U0010ffff", "b"),
        ("\U0010ffff\U0010ffff", None),
        ("x\ud7ff", "x\ue000"),
        ("", None),
    ],
)
def test_what_comes_after_a_prefix(prefix: str, after: str | None) -> None:
    assert after_prefix(prefix) == after
