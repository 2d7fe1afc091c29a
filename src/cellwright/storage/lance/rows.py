"""Entries with the vectors that the database has, so that nothing is embedded again for another index."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from cellwright.storage.database import Engine, Transaction
from cellwright.storage.search.engines import VectorIndex
from cellwright.storage.search.entries import COLUMNS, entry_of, read_state
from cellwright.storage.search.port import Entry
from cellwright.storage.values import Value

if TYPE_CHECKING:
    from cellwright.storage.search.embeddings.port import Vectors


@dataclass(frozen=True, slots=True)
class IndexedRow:
    """An entry with its vector, if it has one of the present model."""

    id: int
    entry: Entry
    model: str
    vector: "Vectors | None"


class Source:
    """Reads entries and vectors for an index from the database."""

    def __init__(self, engine: Engine, vectors: VectorIndex) -> None:
        self.engine = engine
        self._vectors = vectors

    def some(self, tx: Transaction, ids: Sequence[int]) -> list[IndexedRow]:
        if not ids:
            return []
        return self._read(tx, f"WHERE e.id IN ({', '.join(map(str, ids))})")

    def after(self, tx: Transaction, last: int, limit: int) -> list[IndexedRow]:
        return self._read(tx, "WHERE e.id > ? ORDER BY e.id LIMIT ?", last, limit)

    def progress(self, tx: Transaction, copied: int) -> tuple[int, int]:
        """How many entries are copied, if all up to id `copied` are (all of them if it is negative), and how many there are."""
        row = tx.row("SELECT count(*) FILTER (WHERE ? < 0 OR id <= ?), count(*) FROM search_entries", copied, copied)
        assert row is not None
        return cast("int", row[0]), cast("int", row[1])

    def dimensions(self, tx: Transaction) -> int:
        """The number of dimensions of the present model's vectors; 0 if there are none."""
        if not self._vectors.is_there(tx):
            return 0
        column = "vector::text" if self.engine is Engine.POSTGRESQL else "vector"
        row = tx.row(f"SELECT {column} FROM search_vectors WHERE model = ? LIMIT 1", read_state(tx).model)  # noqa: S608
        return len(_vector(row[0])) if row else 0

    def _read(self, tx: Transaction, condition: str, *values: Value) -> list[IndexedRow]:
        column = "v.vector::text" if self.engine is Engine.POSTGRESQL else "v.vector"
        join = "LEFT JOIN search_vectors v ON v.entry = e.id AND v.tenant = e.tenant AND v.model = ? "
        model = read_state(tx).model
        has_vectors = self._vectors.is_there(tx)
        rows = tx.rows(
            f"SELECT {COLUMNS}, e.id, {column if has_vectors else 'NULL'} FROM search_entries e "  # noqa: S608
            f"{join if has_vectors else ''}{condition}",
            *((model,) if has_vectors else ()),
            *values,
        )
        return [_indexed(row, model) for row in rows]


def _indexed(row: Sequence[Value], model: str) -> IndexedRow:
    vector = None if row[10] is None else _vector(row[10])
    return IndexedRow(cast("int", row[9]), entry_of(row), "" if vector is None else model, vector)


def _vector(stored: Value) -> "Vectors":
    import numpy as np  # noqa: PLC0415 - an optional part

    vector = (
        np.frombuffer(stored, np.int8).astype(np.float32)
        if isinstance(stored, bytes)
        else np.array(json.loads(cast("str", stored)), np.float32)
    )
    return vector / max(float(np.linalg.norm(vector)), 1e-9)
