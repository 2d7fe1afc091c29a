"""Search in PostgreSQL: tsvector for words, pgvector for meaning. Without pgvector it searches by words only.

Texts are split into words here, as FTS5 splits them, because PostgreSQL's own parser takes `os.path` for the name of a host. The values
that an entry is filtered by are indexed as words too, after an underscore, which no other word has; the rows are checked as well.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from cellwright.storage.database import Database, Transaction
from cellwright.storage.search.embeddings.models import Models
from cellwright.storage.search.engines import Ranked, all_then_any, ranked_in_scope
from cellwright.storage.search.entries import PutEntry, WaitingEntry
from cellwright.storage.search.indexed import IndexedSearch
from cellwright.storage.search.port import Entry, Query
from cellwright.storage.search.words import parts_of_names, plain_words, scope_of, scope_token
from cellwright.storage.values import Value

if TYPE_CHECKING:
    from cellwright.storage.search.embeddings.port import Vectors

log = logging.getLogger(__name__)

MOST_BYTES = 200_000
"""The words of one text are cut to this: a tsvector holds no more than a megabyte."""
MOST_DIMENSIONS = 4_000
WRITE_WORDS = (
    "INSERT INTO search_words (entry, words) VALUES (?, setweight(to_tsvector('cellwright_words', ?), 'A') "
    "|| setweight(to_tsvector('cellwright_words', ?), 'B') || setweight(to_tsvector('cellwright_words', ?), 'C') "
    "|| array_to_tsvector(string_to_array(?, ' '))) ON CONFLICT (entry) DO UPDATE SET words = excluded.words"
)
# Weights of scope, parts of names, body and title, as in FTS5. The last number makes a word in a short text count more.
RANK = "ts_rank('{0, 0.125, 0.25, 1}', w.words, q.wanted, 1)"


class PostgresSearch(IndexedSearch):
    """The index of a PostgreSQL database. Without models it searches by words only."""

    def __init__(self, database: Database, models: Models | None = None) -> None:
        super().__init__(database, TsWords(), PgVectors(), models)


class TsWords:
    def write(self, tx: Transaction, put: PutEntry, entry: Entry) -> None:
        tokens = scope_of(entry.key.tenant, entry.key.kind, entry.namespace, entry.tags).split()
        scope = {f"_{token}" for token in tokens}
        texts = (entry.title, entry.text, parts_of_names(entry.text))
        tx.run(WRITE_WORDS, put.id, *(_cut(plain_words(text)) for text in texts), " ".join(scope))

    def remove(self, tx: Transaction, entry: int) -> None:
        tx.run("DELETE FROM search_words WHERE entry = ?", entry)

    def clear(self, tx: Transaction) -> None:
        tx.run("DELETE FROM search_words")

    def ranked(self, tx: Transaction, query: Query, words: Sequence[str], limit: int) -> Ranked:
        def matches(operator: str) -> Ranked:
            return ranked_in_scope(tx, query, limit, lambda depth: _best(tx, query, words, operator, depth))

        return all_then_any(words, limit, lambda every: matches("&&" if every else "||"))


def _cut(words: str) -> str:
    """The words of a long text: its beginning unchanged, then each word that is not in it once, as far as there is room."""
    if len(words) * 4 <= MOST_BYTES or len(words.encode()) <= MOST_BYTES:
        return words
    half = words.rfind(" ", 0, len(_first_bytes(words, MOST_BYTES // 2))) + 1
    first_half = set(words[:half].split())
    others = [word for word in dict.fromkeys(words[half:].split()) if word not in first_half]
    return _first_bytes(words[:half] + " ".join(others), MOST_BYTES)


def _first_bytes(text: str, most: int) -> str:
    return text.encode()[:most].decode(errors="ignore")


def _best(tx: Transaction, query: Query, words: Sequence[str], operator: str, limit: int) -> Ranked:
    phrases = f" {operator} ".join(["phraseto_tsquery('cellwright_words', ?)"] * len(words))
    rows = tx.rows(
        f"SELECT w.entry, {RANK} FROM search_words w, (SELECT {phrases} AS wanted, ?::tsquery AS scope) q "  # noqa: S608
        # A question from which the parser drops every word would match everything.
        "WHERE numnode(q.wanted) > 0 AND w.words @@ (q.scope && q.wanted) ORDER BY 2 DESC, w.entry LIMIT ?",
        *(*words, scope_query(query), limit),
    )
    return [(cast("int", entry), cast("float", score)) for entry, score in rows]


def scope_query(query: Query) -> str:
    """The filters as a tsquery: every filter must match, each by any of its values."""
    filters = [("t", (query.tenant,)), ("k", query.kinds), ("n", query.namespaces), ("g", query.tags)]
    groups = [" | ".join(f"'_{scope_token(kind, value)}'" for value in values) for kind, values in filters if values]
    return " & ".join(f"({group})" for group in groups)


class PgVectors:
    """Half-precision vectors with an HNSW index for each number of dimensions. The server says in which schema pgvector is."""

    def __init__(self) -> None:
        self._schema: str | None = None

    def prepare(self, tx: Transaction, model: str, dimensions: int) -> bool:
        if dimensions > MOST_DIMENSIONS:
            log.warning("too_many_dimensions model=%s dimensions=%s", model, dimensions)
            return False
        # One process after the other, because "if not exists" does not see what another transaction creates at the same time.
        # A table is locked before the transaction takes its snapshot, so the second process sees what the first has created.
        tx.run("LOCK TABLE cellwright_migrations IN SHARE UPDATE EXCLUSIVE MODE")
        if not _ensure_pgvector(tx):
            log.warning("no_pgvector hint=%s", "install the extension `vector` in the database to search by meaning")
            return False
        schema = self._pgvector_schema(tx)
        tx.run(
            "CREATE TABLE IF NOT EXISTS search_vectors (entry BIGINT PRIMARY KEY, tenant TEXT NOT NULL, "
            f"model TEXT NOT NULL, digest BYTEA NOT NULL, dimensions BIGINT NOT NULL, vector {schema}.halfvec NOT NULL)"
        )
        tx.run("CREATE INDEX IF NOT EXISTS search_vectors_tenant ON search_vectors (tenant)")
        tx.run(
            f"CREATE INDEX IF NOT EXISTS search_vectors_{dimensions} ON search_vectors USING hnsw "
            f"((vector::{schema}.halfvec({dimensions})) {schema}.halfvec_cosine_ops) WHERE dimensions = {dimensions}"
        )
        return True

    def _pgvector_schema(self, tx: Transaction) -> str | None:
        """The schema of pgvector, quoted; None if the extension is missing."""
        if self._schema is None:
            row = tx.row(
                "SELECT quote_ident(n.nspname) FROM pg_extension x JOIN pg_namespace n ON n.oid = x.extnamespace "
                "WHERE x.extname = 'vector'"
            )
            self._schema = cast("str", row[0]) if row else None
        return self._schema

    def is_there(self, tx: Transaction) -> bool:
        return tx.row("SELECT 1 WHERE to_regclass('search_vectors') IS NOT NULL") is not None

    def write(self, tx: Transaction, model: str, waiting: Sequence[WaitingEntry], vectors: "Vectors") -> None:
        schema = self._pgvector_schema(tx)
        for entry, vector in zip(waiting, vectors, strict=True):
            tx.run(
                "INSERT INTO search_vectors (entry, tenant, model, digest, dimensions, vector) "  # noqa: S608 - the server's own name
                f"VALUES (?, ?, ?, ?, ?, ?::{schema}.halfvec) ON CONFLICT (entry) DO UPDATE SET tenant = excluded.tenant, "
                "model = excluded.model, digest = excluded.digest, dimensions = excluded.dimensions, vector = excluded.vector",
                *(entry.id, entry.tenant, model, entry.digest, len(vector), literal(vector)),
            )

    def rescope(self, tx: Transaction, tenant: str, entry: int) -> None:
        """Nothing to do: filters are read from the entries themselves."""

    def remove(self, tx: Transaction, tenant: str, entry: int) -> None:
        if self.is_there(tx):
            tx.run("DELETE FROM search_vectors WHERE tenant = ? AND entry = ?", tenant, entry)

    def clear(self, tx: Transaction) -> None:
        if self.is_there(tx):
            tx.run("DELETE FROM search_vectors")

    def ranked(self, tx: Transaction, query: Query, model: str, vector: "Vectors", limit: int) -> Ranked:
        schema = self._pgvector_schema(tx)
        if schema is None or not self.is_there(tx):
            return []
        # The scan continues along the graph until it has found enough entries of this tenant.
        tx.run(
            "SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', '100', true)"
        )
        filters, values = _filters(query)
        kind = f"{schema}.halfvec({len(vector)})"
        distance = f"(v.vector::{kind}) OPERATOR({schema}.<=>) ?::{kind}"
        rows = tx.rows(
            f"SELECT v.entry, 1 - ({distance}) FROM search_vectors v JOIN search_entries e ON e.id = v.entry "  # noqa: S608
            f"WHERE v.tenant = ? AND e.tenant = ? AND v.model = ? AND v.dimensions = {len(vector)}{filters} "
            f"ORDER BY {distance} LIMIT ?",
            *(literal(vector), query.tenant, query.tenant, model, *values, literal(vector), limit),
        )
        ranked = [(cast("int", entry), cast("float", score)) for entry, score in rows]
        return sorted(ranked, key=lambda entry: -entry[1])


def _ensure_pgvector(tx: Transaction) -> bool:
    """Create the extension if it is missing and may be created. Whether the database has it now."""
    if tx.row("SELECT 1 FROM pg_extension WHERE extname = 'vector'"):
        return True
    allowed = tx.row(
        "SELECT 1 FROM pg_available_extension_versions WHERE name = 'vector' AND (NOT superuser OR trusted OR "
        "(SELECT rolsuper FROM pg_roles WHERE rolname = current_user)) "
        "AND has_database_privilege(current_database(), 'CREATE') LIMIT 1"
    )
    if allowed is None:
        return False
    tx.run("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    return True


def _filters(query: Query) -> tuple[str, list[Value]]:
    text, values = "", list[Value]()
    for column, allowed in (("e.kind", query.kinds), ("e.namespace", query.namespaces)):
        if allowed:
            text += f" AND {column} IN ({', '.join('?' * len(allowed))})"
            values += allowed
    if query.tags:
        text += f" AND jsonb_exists_any(e.tags::jsonb, ARRAY[{', '.join('?' * len(query.tags))}]::text[])"
        values += query.tags
    return text, values


def literal(vector: "Vectors") -> str:
    return "[" + ",".join(f"{number:.5g}" for number in vector.tolist()) + "]"
