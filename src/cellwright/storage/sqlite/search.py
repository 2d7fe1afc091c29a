"""Search in the same SQLite file, and in the same transactions, as what is searched: FTS5 for words, codes of vectors for meaning.

Tenant, kind, namespace and tags are indexed as words too, so a filter needs no join and applies before the limit.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from cellwright.storage.database import Database, Transaction
from cellwright.storage.search import schema as search_schema
from cellwright.storage.search.embeddings.models import Models
from cellwright.storage.search.engines import Ranked, all_then_any, ranked_in_scope
from cellwright.storage.search.entries import PutEntry, WaitingEntry
from cellwright.storage.search.indexed import IndexedSearch
from cellwright.storage.search.port import Entry, Query
from cellwright.storage.search.words import is_plain, parts_of_names, plain_words, scope_of, scope_token

if TYPE_CHECKING:
    from cellwright.storage.search.embeddings.port import Vectors
    from cellwright.storage.search.vectors import Codes

MIGRATIONS = search_schema.MIGRATIONS
RANK = "bm25(search_words, 0.0, 4.0, 1.0, 0.5)"
RESCORED = 200
"""The vectors of so many candidates are compared: this finds 99 % of the exact top ten."""
MOST_CACHED = 2_000_000
"""The codes of so many entries are kept in memory, for all tenants together: 160 MB."""
CHANGES_KEPT = 50_000


class SqliteSearch(IndexedSearch):
    """The index of a SQLite database. Without models it searches by words only."""

    def __init__(self, database: Database, models: Models | None = None) -> None:
        super().__init__(database, FtsWords(), CodeVectors(), models)


class FtsWords:
    """A contentless FTS5 table: it stores where words occur, not the texts."""

    def write(self, tx: Transaction, put: PutEntry, entry: Entry) -> None:
        if not put.is_new:
            self.remove(tx, put.id)
        tx.run(
            "INSERT INTO search_words (rowid, scope, title, body, parts) VALUES (?, ?, ?, ?, ?)",
            put.id,
            scope_of(entry.key.tenant, entry.key.kind, entry.namespace, entry.tags),
            *(text if is_plain(text) else plain_words(text) for text in (entry.title, entry.text)),
            parts_of_names(entry.text),
        )

    def remove(self, tx: Transaction, entry: int) -> None:
        tx.run("DELETE FROM search_words WHERE rowid = ?", entry)

    def clear(self, tx: Transaction) -> None:
        tx.run("DROP TABLE search_words")
        tx.run(search_schema.SQLITE[0])

    def ranked(self, tx: Transaction, query: Query, words: Sequence[str], limit: int) -> Ranked:
        quoted = [f'"{word}"' for word in words]

        def matches(operator: str) -> Ranked:
            expression = f" {operator} ".join(quoted)
            match = f"scope : ({scope_query(query)}) AND {{title body parts}} : ({expression})"
            return ranked_in_scope(tx, query, limit, lambda depth: _best(tx, match, depth))

        return all_then_any(words, limit, lambda every: matches("AND" if every else "OR"))


def _best(tx: Transaction, match: str, limit: int) -> Ranked:
    rows = tx.rows(
        f"SELECT rowid, {RANK} FROM search_words WHERE search_words MATCH ? ORDER BY 2 LIMIT ?",  # noqa: S608
        *(match, limit),
    )
    return [(cast("int", entry), -cast("float", score)) for entry, score in rows]


def scope_query(query: Query) -> str:
    """The filters as an FTS5 expression: every filter must match, each by any of its values."""
    filters = [("t", (query.tenant,)), ("k", query.kinds), ("n", query.namespaces), ("g", query.tags)]
    groups = [" OR ".join(scope_token(kind, value) for value in values) for kind, values in filters if values]
    return " AND ".join(f"({group})" for group in groups)


class TenantCodes:
    """One tenant's codes in memory, and the last change that they include."""

    __slots__ = ("change", "codes", "mark", "model")

    def __init__(self, codes: "Codes", model: str, change: int, mark: bytes) -> None:
        self.codes = codes
        self.model = model
        self.change = change
        self.mark = mark


class CodeVectors:
    """Vectors in the file, their codes in memory: read when a tenant is first searched, then updated with what changed."""

    def __init__(self) -> None:
        self._cache: OrderedDict[str, TenantCodes] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """How many bytes the codes in memory take."""
        with self._lock:
            return sum(cached.codes.nbytes for cached in self._cache.values())

    def prepare(self, tx: Transaction, model: str, dimensions: int) -> bool:  # noqa: ARG002 - any model will do
        return True

    def is_there(self, tx: Transaction) -> bool:  # noqa: ARG002 - always
        return True

    def write(self, tx: Transaction, model: str, waiting: Sequence[WaitingEntry], vectors: "Vectors") -> None:
        from cellwright.storage.search.vectors import code_of, quantized  # noqa: PLC0415 - numpy is an optional part

        for entry, vector in zip(waiting, vectors, strict=True):
            tx.run(
                "INSERT OR REPLACE INTO search_vectors (tenant, entry, model, digest, code, vector) VALUES (?, ?, ?, ?, ?, ?)",
                *(entry.tenant, entry.id, model, entry.digest, code_of(vector), quantized(vector)),
            )
            self.rescope(tx, entry.tenant, entry.id)
        tx.run("DELETE FROM search_changes WHERE number <= (SELECT max(number) FROM search_changes) - ?", CHANGES_KEPT)

    def rescope(self, tx: Transaction, tenant: str, entry: int) -> None:
        tx.run("INSERT INTO search_changes (tenant, entry) VALUES (?, ?)", tenant, entry)

    def remove(self, tx: Transaction, tenant: str, entry: int) -> None:
        if tx.run("DELETE FROM search_vectors WHERE tenant = ? AND entry = ?", tenant, entry):
            self.rescope(tx, tenant, entry)

    def clear(self, tx: Transaction) -> None:
        tx.run("DELETE FROM search_vectors")
        tx.run("DELETE FROM search_changes")

    def ranked(self, tx: Transaction, query: Query, model: str, vector: "Vectors", limit: int) -> Ranked:
        from cellwright.storage.search.vectors import cosines  # noqa: PLC0415 - numpy is an optional part

        candidates = self._codes(tx, query.tenant, model).nearest(vector, query, max(RESCORED, limit))
        if not candidates:
            return []
        rows = tx.rows(
            "SELECT entry, vector FROM search_vectors WHERE tenant = ? AND model = ? "  # noqa: S608 - our own numbers
            f"AND entry IN ({', '.join(map(str, candidates))})",
            *(query.tenant, model),
        )
        if not rows:
            return []
        scores = cosines(vector, [cast("bytes", row[1]) for row in rows]).tolist()
        ranked = [(cast("int", row[0]), score) for row, score in zip(rows, scores, strict=True)]
        return sorted(ranked, key=lambda entry: -entry[1])[:limit]

    def _codes(self, tx: Transaction, tenant: str, model: str) -> "Codes":
        from cellwright.storage.search.vectors import codes_of  # noqa: PLC0415 - numpy is an optional part

        with self._lock:
            cached = self._cache.get(tenant)
            change, mark = cast("tuple[int, bytes]", tx.row(f"{LAST_CHANGE} ORDER BY number DESC LIMIT 1") or (0, b""))
            if cached is None or cached.model != model or not _can_update(tx, cached):
                cached = TenantCodes(codes_of(tx.rows(CODES, tenant, model)), model, change, mark)
            elif cached.change < change:
                cached = self._updated(tx, tenant, cached, change, mark)
            self._cache[tenant] = cached
            self._cache.move_to_end(tenant)
            while len(self._cache) > 1 and sum(len(entry.codes.ids) for entry in self._cache.values()) > MOST_CACHED:
                self._cache.popitem(last=False)
            return cached.codes

    def _updated(self, tx: Transaction, tenant: str, cached: TenantCodes, change: int, mark: bytes) -> TenantCodes:
        from cellwright.storage.search.vectors import codes_of  # noqa: PLC0415 - numpy is an optional part

        changed = tx.rows(
            "SELECT DISTINCT entry FROM search_changes WHERE number > ? AND tenant = ?", cached.change, tenant
        )
        ids = [cast("int", entry) for (entry,) in changed]
        if not ids:
            return TenantCodes(cached.codes, cached.model, change, mark)
        if not len(cached.codes.ids) or len(ids) > len(cached.codes.ids) // 2:
            return TenantCodes(codes_of(tx.rows(CODES, tenant, cached.model)), cached.model, change, mark)
        rows = tx.rows(f"{CODES} AND v.entry IN ({', '.join(map(str, ids))})", tenant, cached.model)
        return TenantCodes(cached.codes.changed(ids, rows), cached.model, change, mark)


LAST_CHANGE = "SELECT number, mark FROM search_changes"
CODES = (
    "SELECT v.entry, v.code, e.kind, e.namespace, e.tags FROM search_vectors v "
    "JOIN search_entries e ON e.id = v.entry AND e.tenant = v.tenant WHERE v.tenant = ? AND v.model = ?"
)


def _can_update(tx: Transaction, cached: TenantCodes) -> bool:
    """Whether the table has all changes since the cached one. Not if that is too long ago, or was in another file."""
    row = tx.row(f"{LAST_CHANGE} WHERE number = ?", cached.change)
    return row is not None and row[1] == cached.mark
