"""Signatures as schemas, and the strict check of what comes in."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel
from typing_extensions import TypedDict

from cellwright.core.arguments import MOST_ITEMS, Signature, nearest, signature_of
from cellwright.core.errors import InvalidArgument
from cellwright.core.types import Call
from requirements import requirement


@dataclass(frozen=True)
class Span:
    start: int
    end: int | None = None


@dataclass(frozen=True)
class Found:
    path: str
    spans: list[Span]


async def find(
    _service: object,
    _call: Call,
    path: str,
    max_cell_data: Annotated[int, Field(alias="maxCellData", ge=1)] = 100,
    spans: list[Span] | None = None,
    mode: Literal["fast", "slow"] = "fast",
    exact: bool = False,
    share: float = 0.5,
) -> Found:
    """Find things."""
    raise NotImplementedError(path, max_cell_data, spans, mode, exact, share)


SIGNATURE = signature_of(find)


def refused(**arguments: Any) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        SIGNATURE.parse({"path": "a", **arguments})
    return caught.value


@requirement("tools:arguments:unknown")
@pytest.mark.parametrize(("wrong", "meant"), [("pth", "path"), ("maxCelData", "maxCellData"), ("MODE", "mode")])
def test_an_unknown_argument_names_the_nearest(wrong: str, meant: str) -> None:
    error = refused(**{wrong: 1})
    assert f"did you mean {meant!r}" in str(error)
    assert error.details["nearest"] == meant


@requirement("tools:arguments:unknown")
def test_an_unknown_argument_like_nothing_lists_what_there_is() -> None:
    assert "maxCellData, mode, path" in str(refused(zzzzzzzz=1)).replace("exact, ", "")


@requirement("tools:arguments:unknown")
def test_an_unknown_name_inside_a_value_is_refused_too() -> None:
    assert "spans.0.stop" in str(refused(spans=[{"start": 1, "stop": 2}]))


@requirement("tools:arguments:strict")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxCellData", True),
        ("maxCellData", "5"),
        ("maxCellData", 5.0),
        ("maxCellData", 0),
        ("maxCellData", None),
        ("exact", 1),
        ("exact", "true"),
        ("share", "0.5"),
        ("share", float("inf")),
        ("share", float("nan")),
        ("path", 7),
        ("path", None),
        ("mode", "medium"),
        ("spans", "[]"),
        ("spans", {"start": 1}),
        ("spans", [{"start": True}]),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_and_named(name: str, value: object) -> None:
    error = refused(**{name: value})
    assert name in error.message


def test_a_whole_number_is_a_number() -> None:
    assert SIGNATURE.parse({"path": "a", "share": 1})["share"] == 1.0


@requirement("tools:arguments:unicode")
@pytest.mark.parametrize("value", ["\ud800", "a\udfffb"])
def test_a_lone_surrogate_is_refused(value: str) -> None:
    assert "Unicode" in str(refused(path=value))


@requirement("tools:arguments:nesting")
@pytest.mark.parametrize("levels", [202, 300, 900, 5_000])
def test_arguments_that_are_nested_too_deeply_are_told_so(levels: int) -> None:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    assert "nested deeper than" in str(refused(path=value))
    assert "nested" not in str(refused(path=[[[]]]))


@requirement("costs:loop")
def test_a_list_of_more_than_can_be_looked_at_is_refused_unread() -> None:
    assert f"spans: has {MOST_ITEMS + 1:,} items; at most {MOST_ITEMS:,}" in str(
        refused(spans=[None] * (MOST_ITEMS + 1))
    )
    most = SIGNATURE.parse({"path": "a", "spans": [{"start": 1}] * MOST_ITEMS})
    assert len(most["spans"]) == MOST_ITEMS


@requirement("tools:arguments:spellings")
def test_both_spellings_are_taken_once() -> None:
    assert SIGNATURE.parse({"path": "a", "max_cell_data": 3}) == SIGNATURE.parse({"path": "a", "maxCellData": 3})
    assert "twice" in str(refused(max_cell_data=3, maxCellData=3))


@requirement("tools:schema:compact")
def test_schemas_are_compact_and_closed() -> None:
    assert SIGNATURE.input_schema["additionalProperties"] is False
    assert SIGNATURE.input_schema["required"] == ["path"]
    assert SIGNATURE.input_schema["properties"]["spans"]["type"] == "array"
    assert "title" not in str(SIGNATURE.input_schema)
    assert "$ref" not in str(SIGNATURE.input_schema)
    assert SIGNATURE.output_schema == {"type": "object"}


class Row(TypedDict):
    path: str
    note: NotRequired[str]


class Model(BaseModel):
    path: str


class Rows(RootModel[list[str]]):
    pass


@pytest.mark.parametrize(
    "returns",
    [dict[str, Any], Mapping[str, int], Row, Found, Model, Row | Found, Annotated[Row | dict[str, Any], "said"]],
)
def test_a_result_that_is_an_object_is_said_to_be_one(returns: object) -> None:
    assert Signature(BaseModel, takes_call=False, returns=returns).output_schema == {"type": "object"}


@pytest.mark.parametrize("returns", [str, list[Row], Row | None, Row | list[Row], Rows, None, Any, Literal["a"]])
def test_a_result_that_may_be_something_else_has_no_schema(returns: object) -> None:
    assert Signature(BaseModel, takes_call=False, returns=returns).output_schema is None


def test_a_property_called_title_is_kept() -> None:
    async def make(_service: object, title: str) -> Found:
        raise NotImplementedError(title)

    assert signature_of(make).input_schema["properties"] == {"title": {"type": "string"}}


@given(
    st.dictionaries(
        st.text(max_size=20), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists), max_size=4
    )
)
def test_whatever_comes_in_is_taken_or_refused_in_words(arguments: dict[str, Any]) -> None:
    with suppress(InvalidArgument):
        SIGNATURE.parse(arguments)


def test_nearest_knows_when_nothing_is_near() -> None:
    assert nearest("workspac", ["workspace_status", "workspace"]) == "workspace"
    assert nearest("zzzz", ["workspace"]) is None
