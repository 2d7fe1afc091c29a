"""Search in the same SQLite file and transaction as what is searched: FTS5 for words, codes of vectors for meaning.

The tenant, the kind, the namespace and the tags are words of the index as well, so a filter costs no join and holds before the limit.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from cellwright.storage.database import Database, Transaction
from cellwright.storage.search import schema as search_schema
from cellwright.storage.search.embeddings.models import Models
from cellwright.storage.search.engines import Ranked
from cellwright.storage.search.entries import PutEntry, WaitingEntry, matching
from cellwright.storage.search.indexed import IndexedSearch
from cellwright.storage.search.port import Entry, Query
from cellwright.storage.search.words import is_plain, parts_of_names, plain_words, scope_of, scope_token

if TYPE_CHECKING:
    from cellwright.storage.search.embeddings.port import Vectors
    from cellwright.storage.search.vectors import Codes

MIGRATIONS = search_schema.MIGRATIONS
RANK = "bm25(search_words, 0.0, 4.0, 1.0, 0.5)"
RESCORED = 200
"""Candidates by code whose vectors are compared: keeps 99 % of the exact top ten."""
MOST_CACHED = 2_000_000
"""Entries whose codes are kept in memory, over all tenants: 160 MB."""
CHANGES_KEPT = 50_000


class SqliteSearch(IndexedSearch):
    """The index of a SQLite database. Without models, by words alone."""

    def __init__(self, database: Database, models: Models | None = None) -> None:
        super().__init__(database, FtsWords(), CodeVectors(), models)


class FtsWords:
    """A contentless FTS5 table: it keeps where words are, not the texts."""

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
        found = _matching(tx, query, " AND ".join(quoted), limit)
        if len(found) < limit and len(words) > 1:
            known = {entry for entry, _ in found}
            some = _matching(tx, query, " OR ".join(quoted), limit)
            found += [one for one in some if one[0] not in known][: limit - len(found)]
        return found


def _matching(tx: Transaction, query: Query, wanted: str, limit: int) -> Ranked:
    match = f"scope : ({scope_query(query)}) AND {{title body parts}} : ({wanted})"
    asked = limit
    while True:
        rows = tx.rows(
            f"SELECT rowid, {RANK} FROM search_words WHERE search_words MATCH ? ORDER BY 2 LIMIT ?",  # noqa: S608
            *(match, asked),
        )
        ours = matching(tx, query, [cast("int", row[0]) for row in rows])
        found = [(cast("int", entry), -cast("float", score)) for entry, score in rows if entry in ours]
        # A word of the scope is a digest. Should two be alike, the rows tell, and others follow.
        if len(found) >= limit or len(rows) < asked:
            return found[:limit]
        asked *= 4


def scope_query(query: Query) -> str:
    """The filters as an FTS5 expression: all of them, each by any of its values."""
    wanted = [("t", (query.tenant,)), ("k", query.kinds), ("n", query.namespaces), ("g", query.tags)]
    groups = [" OR ".join(scope_token(kind, value) for value in values) for kind, values in wanted if values]
    return " AND ".join(f"({group})" for group in groups)


class TenantCodes:
    """One tenant's codes in memory, as of a change."""

    __slots__ = ("change", "codes", "mark", "model")

    def __init__(self, codes: "Codes", model: str, change: int, mark: bytes) -> None:
        self.codes = codes
        self.model = model
        self.change = change
        self.mark = mark


class CodeVectors:
    """Vectors in the file, their codes in memory: read when a tenant is first searched, then kept up to date by what changed."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, TenantCodes] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """What the codes in memory take."""
        with self._lock:
            return sum(held.codes.nbytes for held in self._held.values())

    def prepare(self, tx: Transaction, model: str, dimensions: int) -> bool:  # noqa: ARG002 - any model will do
        return True

    def is_there(self, tx: Transaction) -> bool:  # noqa: ARG002 - always
        return True

    def write(self, tx: Transaction, model: str, waiting: Sequence[WaitingEntry], vectors: "Vectors") -> None:
        from cellwright.storage.search.vectors import code_of, quantized  # noqa: PLC0415 - numpy is an optional part

        for one, vector in zip(waiting, vectors, strict=True):
            tx.run(
                "INSERT OR REPLACE INTO search_vectors (tenant, entry, model, digest, code, vector) VALUES (?, ?, ?, ?, ?, ?)",
                *(one.tenant, one.id, model, one.digest, code_of(vector), quantized(vector)),
            )
            self.rescope(tx, one.tenant, one.id)
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
        found = sorted(((cast("int", row[0]), score) for row, score in zip(rows, scores, strict=True)), key=_by_score)
        return found[:limit]

    def _codes(self, tx: Transaction, tenant: str, model: str) -> "Codes":
        from cellwright.storage.search.vectors import codes_of  # noqa: PLC0415 - numpy is an optional part

        with self._lock:
            held = self._held.get(tenant)
            change, mark = cast("tuple[int, bytes]", tx.row(f"{LAST_CHANGE} ORDER BY number DESC LIMIT 1") or (0, b""))
            if held is None or held.model != model or not _continues(tx, held):
                held = TenantCodes(codes_of(tx.rows(CODES, tenant, model)), model, change, mark)
            elif held.change < change:
                held = self._refreshed(tx, tenant, held, change, mark)
            self._held[tenant] = held
            self._held.move_to_end(tenant)
            while len(self._held) > 1 and sum(len(one.codes.ids) for one in self._held.values()) > MOST_CACHED:
                self._held.popitem(last=False)
            return held.codes

    def _refreshed(self, tx: Transaction, tenant: str, held: TenantCodes, change: int, mark: bytes) -> TenantCodes:
        from cellwright.storage.search.vectors import codes_of  # noqa: PLC0415 - numpy is an optional part

        found = tx.rows(
            "SELECT DISTINCT entry FROM search_changes WHERE number > ? AND tenant = ?", held.change, tenant
        )
        ids = [cast("int", entry) for (entry,) in found]
        if not ids:
            return TenantCodes(held.codes, held.model, change, mark)
        if not len(held.codes.ids) or len(ids) > len(held.codes.ids) // 2:
            return TenantCodes(codes_of(tx.rows(CODES, tenant, held.model)), held.model, change, mark)
        rows = tx.rows(f"{CODES} AND v.entry IN ({', '.join(map(str, ids))})", tenant, held.model)
        return TenantCodes(held.codes.changed(ids, rows), held.model, change, mark)


LAST_CHANGE = "SELECT number, mark FROM search_changes"
CODES = (
    "SELECT v.entry, v.code, e.kind, e.namespace, e.tags FROM search_vectors v "
    "JOIN search_entries e ON e.id = v.entry AND e.tenant = v.tenant WHERE v.tenant = ? AND v.model = ?"
)


def _continues(tx: Transaction, held: TenantCodes) -> bool:
    """Whether everything since the change that memory knows is told; not so if it was long ago, or in another file."""
    row = tx.row(f"{LAST_CHANGE} WHERE number = ?", held.change)
    return row is not None and row[1] == held.mark


def _by_score(found: tuple[int, float]) -> float:
    return -found[1]
