"""One table in LanceDB. If the library fails, LanceFailed is raised; the caller does without the table, and it is rebuilt."""

import importlib
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from cellwright.storage.lance.filters import filter_of
from cellwright.storage.lance.place import lance_errors
from cellwright.storage.lance.rows import IndexedRow
from cellwright.storage.search.engines import Ranked
from cellwright.storage.search.port import Query
from cellwright.storage.search.words import LONGEST_WORD, parts_of_names, plain_words, signs_in_pairs

if TYPE_CHECKING:
    from cellwright.storage.search.embeddings.port import Vectors

STAMP_ID = 0
"""The id of the row that has the stamp. The ids of entries begin at 1."""
FLAT_BELOW = 20_000
"""Fewer vectors than this are compared one by one, which is quick enough and exact."""
KEPT = timedelta(minutes=5)
"""How long old versions are kept for readers that still use them."""
REFINED = 5
LONGEST = 4 * LONGEST_WORD
"""The longest word, in bytes."""
ENTRIES = f"id != {STAMP_ID}"
"""The condition for rows that are entries."""


class LanceTable:
    """Rows of entries: their words, their vectors, and the values by which they are filtered."""

    def __init__(self, table: Any, name: str, dimensions: int) -> None:  # noqa: ANN401
        self._table = table
        self.name = name
        self._dimensions = dimensions
        self._stamped: tuple[int, str | None] = (-1, None)

    def stamp(self) -> str | None:
        """The stamp of the last batch. LanceDB is asked once for each version of the table."""
        with lance_errors():
            version = self._table.version
            if self._stamped[0] != version:
                rows = self._table.search().where(f"id = {STAMP_ID}").select(["words"]).limit(1).to_arrow().to_pylist()
                self._stamped = (version, rows[0]["words"] if rows else None)
        return self._stamped[1]

    def fits(self, rows: Sequence[IndexedRow]) -> bool:
        """Whether the vectors have as many dimensions as the table's."""
        return all(row.vector is None or len(row.vector) == self._dimensions for row in rows)

    def write(self, rows: Sequence[IndexedRow], deleted: Sequence[int], stamp: str) -> None:
        """Insert rows, or replace those with the same id, and delete others. Doing it twice does no harm."""
        with lance_errors():
            merge = self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            merge.execute(_arrow(rows, stamp, self._dimensions))
            if deleted:
                self._table.delete(f"id IN ({', '.join(map(str, deleted))})")

    def by_words(self, query: Query, words: Sequence[str], *, every: bool, limit: int) -> Ranked:
        lance: Any = importlib.import_module("lancedb.query")
        with lance_errors():
            match = lance.MatchQuery(" ".join(map(signs_in_pairs, words)), "words", operator="AND" if every else "OR")
            search = self._table.search(match, query_type="fts").where(
                f"{ENTRIES} AND {filter_of(query)}", prefilter=True
            )
            rows = search.limit(limit).select(["id", "_score"]).to_arrow().to_pylist()
        return [(row["id"], row["_score"]) for row in rows]

    def by_meaning(self, query: Query, model: str, vector: "Vectors", limit: int) -> Ranked | None:
        """Entries nearest to the vector. None if the table's vectors have another number of dimensions."""
        if len(vector) != self._dimensions:
            return None
        where = f"{ENTRIES} AND {filter_of(query, model)}"
        with lance_errors():
            search = self._table.search(vector, vector_column_name="vector").distance_type("cosine")
            nearest = search.where(where, prefilter=True).nprobes(50).refine_factor(REFINED).limit(limit)
            rows = nearest.select(["id", "_distance"]).to_arrow().to_pylist()
        return [(row["id"], 1 - row["_distance"]) for row in rows]

    def tidy(self) -> None:
        """Join small fragments, add new rows to the indexes, and create an index of vectors once there are many."""
        lance: Any = importlib.import_module("lancedb.index")
        with lance_errors():
            self._table.optimize(cleanup_older_than=KEPT)
            indexed = {column for index in self._table.list_indices() for column in index.columns}
            if self._dimensions and "vector" not in indexed and self._table.count_rows("model != ''") >= FLAT_BELOW:
                self._table.create_index("vector", config=lance.IvfSq(distance_type="cosine"))


def family_of(owner: str) -> str:
    """The prefix of the names of a database's tables."""
    return f"entries_{owner}_"


def open_table(place: Any, name: str, dimensions: int) -> LanceTable:  # noqa: ANN401
    with lance_errors():
        return LanceTable(place.open_table(name), name, dimensions)


def create_table(place: Any, family: str, name: str, dimensions: int, stamp: str) -> LanceTable:  # noqa: ANN401
    """Create an empty table with its indexes. All other tables of this family in this place are dropped."""
    lance: Any = importlib.import_module("lancedb.index")
    with lance_errors():
        for old in place.list_tables().tables:
            if old.startswith(family):
                place.drop_table(old, ignore_missing=True)
        table = place.create_table(name, schema=_schema(dimensions), mode="overwrite")
        # Without it, two writers that insert the same new row at the same time leave it there twice.
        table.set_unenforced_primary_key("id")
        words = lance.FTS(
            base_tokenizer="whitespace",
            stem=True,
            remove_stop_words=False,
            ascii_folding=False,
            max_token_length=LONGEST,
        )
        for column, config in (
            ("words", words),
            ("id", lance.BTree()),
            ("tenant", lance.Bitmap()),
            ("kind", lance.Bitmap()),
            ("namespace", lance.BTree()),
            ("tags", lance.LabelList()),
        ):
            table.create_index(column, config=config)
    lance_table = LanceTable(table, name, dimensions)
    lance_table.write([], [], stamp)
    return lance_table


def _schema(dimensions: int) -> Any:  # noqa: ANN401
    pa: Any = importlib.import_module("pyarrow")
    texts = [(name, pa.string()) for name in ("tenant", "kind", "namespace", "model", "words")]
    vector = [("vector", pa.list_(pa.float32(), dimensions))] if dimensions else []
    return pa.schema([pa.field("id", pa.int64(), nullable=False), *texts, ("tags", pa.list_(pa.string())), *vector])


def _arrow(rows: Sequence[IndexedRow], stamp: str, dimensions: int) -> Any:  # noqa: ANN401
    pa: Any = importlib.import_module("pyarrow")
    columns: dict[str, Any] = {
        "id": [STAMP_ID, *(row.id for row in rows)],
        "tenant": ["", *(row.entry.key.tenant for row in rows)],
        "kind": ["", *(row.entry.key.kind for row in rows)],
        "namespace": ["", *(row.entry.namespace for row in rows)],
        "model": ["", *(row.model for row in rows)],
        "words": [stamp, *(_words(row) for row in rows)],
        "tags": [[], *(list(row.entry.tags) for row in rows)],
    }
    if dimensions:
        columns["vector"] = _vectors(pa, rows, dimensions)
    return pa.table(columns, schema=_schema(dimensions))


def _vectors(pa: Any, rows: Sequence[IndexedRow], dimensions: int) -> Any:  # noqa: ANN401
    import numpy as np  # noqa: PLC0415 - an optional part

    # LanceDB takes no nulls here. The rows with a placeholder have no model, so queries leave them out.
    flat = np.zeros((len(rows) + 1, dimensions), np.float32)
    flat[:, 0] = 1.0
    for number, row in enumerate(rows, 1):
        if row.vector is not None:
            flat[number] = row.vector
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.ravel()), dimensions)


def _words(row: IndexedRow) -> str:
    """The plain words of an entry. Those of the title are there twice, so that they count more."""
    title, text = plain_words(row.entry.title), row.entry.text
    words = " ".join([title, title, plain_words(text), plain_words(parts_of_names(text))])
    return words if words.isascii() else f"{words} {signs_in_pairs(words)}"
