"""The filter of a question, as LanceDB reads it: the rows that are meant, and no value that becomes anything else."""

from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import apsw
import lancedb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.core.errors import InvalidArgument
from cellwright.storage.lance.filters import filter_of, literal
from cellwright.storage.search.port import Query
from cellwright.storage.sqlite.file import execute
from requirements import requirement

NASTY = (
    "o'brien", "' OR '1'='1", "x'); DROP TABLE entries; --", "\\'", "''", '"', "`", "%", "_", "?", "%s", "$1", "日本", "日",
    "🎉🎉", "🎉", "\ud7ff", "\ue000", "\U0010ffff", "\u202e", "a", "ab", "ab/c", "aB", "b",
)  # fmt: skip


@requirement("storage:filter:same")
def test_a_filter_finds_in_lancedb_what_it_means(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": number, "tenant": text, "kind": "pad", "namespace": text, "model": "", "tags": [text, "all"]}
        for number, text in enumerate(NASTY)
    ]
    rows += [{**row, "id": row["id"] + 100, "tenant": "other"} for row in rows]
    place: Any = lancedb.connect(str(tmp_path))
    table = place.create_table("entries", rows)
    for text, tag in product(NASTY, ("all", "'", None)):
        tags = (text, tag) if tag else (text,)
        query = Query(text, "", kinds=("pad", "x'y"), namespaces=(text, "nowhere"), tags=tags)
        found = table.search().where(filter_of(query)).limit(100).select(["id"]).to_arrow().to_pylist()
        assert [row["id"] for row in found] == [NASTY.index(text)], query
        assert table.count_rows(filter_of(query, "a model")) == 0


@requirement("storage:filter:injection")
@settings(max_examples=200, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.sampled_from(NASTY))
def test_a_literal_is_read_as_exactly_its_value(text: str) -> None:
    """SQLite's parser is the judge: it reads standard literals, as LanceDB's does."""
    with closing(apsw.Connection(":memory:")) as connection:
        assert execute(connection, f"SELECT {literal(text)}, 1") == [(text, 1)]


@requirement("storage:filter:injection")
@pytest.mark.parametrize("value", ["a\0b", "\ud83c"], ids=["nul", "surrogate"])
def test_what_cannot_be_a_literal_is_refused(value: str) -> None:
    with pytest.raises(InvalidArgument):
        filter_of(Query(value, ""))
