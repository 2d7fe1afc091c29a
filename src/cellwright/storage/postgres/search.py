"""Search in PostgreSQL: tsvector for words, pgvector for meaning. Without pgvector, by words alone.

The words are cut here, as FTS5 cuts them, because PostgreSQL's own parser takes `os.path` for the name of a host. What an entry is filtered
by stands among them behind an underscore, which no word of ours has; the rows are checked as well.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from cellwright.storage.database import Database, Transaction
from cellwright.storage.search.embeddings.models import Models
from cellwright.storage.search.engines import Ranked
from cellwright.storage.search.entries import PutEntry, WaitingEntry, matching
from cellwright.storage.search.indexed import IndexedSearch
from cellwright.storage.search.port import Entry, Query
from cellwright.storage.search.words import parts_of_names, plain_words, scope_of, scope_token
from cellwright.storage.values import Value

if TYPE_CHECKING:
    from cellwright.storage.search.embeddings.port import Vectors

log = logging.getLogger(__name__)

MOST_BYTES = 200_000
"""Of the words of one text: a tsvector holds no more than a megabyte."""
MOST_DIMENSIONS = 4_000
WRITE_WORDS = (
    "INSERT INTO search_words (entry, words) VALUES (?, setweight(to_tsvector('cellwright_words', ?), 'A') "
    "|| setweight(to_tsvector('cellwright_words', ?), 'B') || setweight(to_tsvector('cellwright_words', ?), 'C') "
    "|| array_to_tsvector(string_to_array(?, ' '))) ON CONFLICT (entry) DO UPDATE SET words = excluded.words"
)
# Of scope, parts of names, body, title: as in FTS5. The last number makes a word in a short text count more.
RANK = "ts_rank('{0, 0.125, 0.25, 1}', w.words, q.wanted, 1)"


class PostgresSearch(IndexedSearch):
    """The index of a PostgreSQL database. Without models, by words alone."""

    def __init__(self, database: Database, models: Models | None = None) -> None:
        super().__init__(database, TsWords(), PgVectors(), models)


class TsWords:
    def write(self, tx: Transaction, put: PutEntry, entry: Entry) -> None:
        scope = {f"_{one}" for one in scope_of(entry.key.tenant, entry.key.kind, entry.namespace, entry.tags).split()}
        texts = (entry.title, entry.text, parts_of_names(entry.text))
        tx.run(WRITE_WORDS, put.id, *(_cut(plain_words(text)) for text in texts), " ".join(scope))

    def remove(self, tx: Transaction, entry: int) -> None:
        tx.run("DELETE FROM search_words WHERE entry = ?", entry)

    def clear(self, tx: Transaction) -> None:
        tx.run("DELETE FROM search_words")

    def ranked(self, tx: Transaction, query: Query, words: Sequence[str], limit: int) -> Ranked:
        found = _matching(tx, query, words, "&&", limit)
        if len(found) < limit and len(words) > 1:
            known = {entry for entry, _ in found}
            some = _matching(tx, query, words, "||", limit)
            found += [one for one in some if one[0] not in known][: limit - len(found)]
        return found


def _cut(words: str) -> str:
    """The words of a long text: its beginning as it is, then each word once that is not in it, as far as there is room."""
    if len(words) * 4 <= MOST_BYTES or len(words.encode()) <= MOST_BYTES:
        return words
    half = words.rfind(" ", 0, len(_first_bytes(words, MOST_BYTES // 2))) + 1
    begun = set(words[:half].split())
    others = [word for word in dict.fromkeys(words[half:].split()) if word not in begun]
    return _first_bytes(words[:half] + " ".join(others), MOST_BYTES)


def _first_bytes(text: str, most: int) -> str:
    return text.encode()[:most].decode(errors="ignore")


def _matching(tx: Transaction, query: Query, words: Sequence[str], joined: str, limit: int) -> Ranked:
    wanted = f" {joined} ".join(["phraseto_tsquery('cellwright_words', ?)"] * len(words))
    asked = limit
    while True:
        rows = tx.rows(
            f"SELECT w.entry, {RANK} FROM search_words w, (SELECT {wanted} AS wanted, ?::tsquery AS scope) q "  # noqa: S608
            # A question of which the parser leaves nothing would find everything.
            "WHERE numnode(q.wanted) > 0 AND w.words @@ (q.scope && q.wanted) ORDER BY 2 DESC, w.entry LIMIT ?",
            *(*words, scope_query(query), asked),
        )
        ours = matching(tx, query, [cast("int", row[0]) for row in rows])
        found = [(cast("int", entry), cast("float", score)) for entry, score in rows if entry in ours]
        # A word of the scope is a digest. Should two be alike, the rows tell, and others follow.
        if len(found) >= limit or len(rows) < asked:
            return found[:limit]
        asked *= 4


def scope_query(query: Query) -> str:
    """The filters as a tsquery: all of them, each by any of its values."""
    wanted = [("t", (query.tenant,)), ("k", query.kinds), ("n", query.namespaces), ("g", query.tags)]
    groups = [" | ".join(f"'_{scope_token(kind, value)}'" for value in values) for kind, values in wanted if values]
    return " & ".join(f"({group})" for group in groups)


class PgVectors:
    """Half-precision vectors with an HNSW index for each number of dimensions. Where pgvector is, the server tells."""

    def __init__(self) -> None:
        self._schema: str | None = None

    def prepare(self, tx: Transaction, model: str, dimensions: int) -> bool:
        if dimensions > MOST_DIMENSIONS:
            log.warning("too_many_dimensions model=%s dimensions=%s", model, dimensions)
            return False
        # One after the other: "if not exists" does not see what another transaction is making at the same time. A lock of
        # a table is had before the transaction's view of the database is taken, so that the second sees what the first made.
        tx.run("LOCK TABLE cellwright_migrations IN SHARE UPDATE EXCLUSIVE MODE")
        if not _extended(tx):
            log.warning("no_pgvector hint=%s", "install the extension `vector` in the database to search by meaning")
            return False
        schema = self._where(tx)
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

    def _where(self, tx: Transaction) -> str | None:
        """The schema of pgvector, quoted; None if there are no vectors here."""
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
        schema = self._where(tx)
        for one, vector in zip(waiting, vectors, strict=True):
            tx.run(
                "INSERT INTO search_vectors (entry, tenant, model, digest, dimensions, vector) "  # noqa: S608 - the server's own name
                f"VALUES (?, ?, ?, ?, ?, ?::{schema}.halfvec) ON CONFLICT (entry) DO UPDATE SET tenant = excluded.tenant, "
                "model = excluded.model, digest = excluded.digest, dimensions = excluded.dimensions, vector = excluded.vector",
                *(one.id, one.tenant, model, one.digest, len(vector), literal(vector)),
            )

    def rescope(self, tx: Transaction, tenant: str, entry: int) -> None:
        """Filters are read from the entries themselves."""

    def remove(self, tx: Transaction, tenant: str, entry: int) -> None:
        if self.is_there(tx):
            tx.run("DELETE FROM search_vectors WHERE tenant = ? AND entry = ?", tenant, entry)

    def clear(self, tx: Transaction) -> None:
        if self.is_there(tx):
            tx.run("DELETE FROM search_vectors")

    def ranked(self, tx: Transaction, query: Query, model: str, vector: "Vectors", limit: int) -> Ranked:
        schema = self._where(tx)
        if schema is None or not self.is_there(tx):
            return []
        # Goes on along the graph until enough of what it finds is this tenant's.
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
        found = [(cast("int", entry), cast("float", score)) for entry, score in rows]
        return sorted(found, key=lambda one: -one[1])


def _extended(tx: Transaction) -> bool:
    """Whether the database has pgvector, or can have it: then it has it now."""
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
    for column, wanted in (("e.kind", query.kinds), ("e.namespace", query.namespaces)):
        if wanted:
            text += f" AND {column} IN ({', '.join('?' * len(wanted))})"
            values += wanted
    if query.tags:
        text += f" AND jsonb_exists_any(e.tags::jsonb, ARRAY[{', '.join('?' * len(query.tags))}]::text[])"
        values += query.tags
    return text, values


def literal(vector: "Vectors") -> str:
    return "[" + ",".join(f"{number:.5g}" for number in vector.tolist()) + "]"
