"""Search in the same SQLite file and transaction as what is searched: FTS5 for words.

The tenant, the kind, the namespace and the tags are words of the index as well, so a filter costs no join and holds before the limit.
"""

import json
from collections.abc import Sequence
from typing import cast

from cellwright.storage.database import Database, Transaction, Value
from cellwright.storage.migrations import Migration, PerEngine
from cellwright.storage.search import Entry, Found, Hit, Key, Mode, Query
from cellwright.storage.words import parts_of_names, scope_of, scope_token, words_of

WORDS = (
    "CREATE VIRTUAL TABLE search_words USING fts5(scope, title, body, parts, content='', contentless_delete=1, "
    'tokenize="porter unicode61 remove_diacritics 2")'
)
MIGRATIONS = (
    Migration(
        "search",
        1,
        (
            """CREATE TABLE search_entries (
                id INTEGER PRIMARY KEY,
                tenant TEXT NOT NULL,
                kind TEXT NOT NULL,
                thing TEXT NOT NULL,
                part TEXT NOT NULL,
                namespace TEXT NOT NULL,
                tags TEXT NOT NULL,
                language TEXT NOT NULL,
                title TEXT NOT NULL,
                body TEXT NOT NULL,
                UNIQUE (tenant, kind, thing, part)
            ) STRICT""",
            PerEngine(sqlite=(WORDS,)),
        ),
    ),
)
COLUMNS = "e.tenant, e.kind, e.thing, e.part, e.body, e.title, e.namespace, e.tags, e.language"
RANK = "bm25(search_words, 0.0, 4.0, 1.0, 0.5)"


class SqliteSearch:
    """The index of a SQLite database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, tx: Transaction, entries: Sequence[Entry]) -> None:
        for entry in entries:
            key = entry.key
            row = tx.row(
                "INSERT INTO search_entries (tenant, kind, thing, part, namespace, tags, language, title, body) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, kind, thing, part) DO UPDATE SET "
                "namespace = excluded.namespace, tags = excluded.tags, language = excluded.language, title = excluded.title, "
                "body = excluded.body RETURNING id",
                key.tenant,
                key.kind,
                key.thing,
                key.part,
                entry.namespace,
                json.dumps(entry.tags, ensure_ascii=False),
                entry.language,
                entry.title,
                entry.text,
            )
            assert row is not None
            tx.run("DELETE FROM search_words WHERE rowid = ?", row[0])
            tx.run(
                "INSERT INTO search_words (rowid, scope, title, body, parts) VALUES (?, ?, ?, ?, ?)",
                row[0],
                scope_of(key.tenant, key.kind, entry.namespace, entry.tags),
                entry.title,
                entry.text,
                parts_of_names(entry.text),
            )

    def remove(self, tx: Transaction, tenant: str, kind: str, thing: str, part: str | None = None) -> None:
        only = "" if part is None else " AND part = ?"
        values = (tenant, kind, thing) if part is None else (tenant, kind, thing, part)
        gone = tx.rows(
            f"DELETE FROM search_entries WHERE tenant = ? AND kind = ? AND thing = ?{only} RETURNING id",  # noqa: S608
            *values,
        )
        for (entry,) in gone:
            tx.run("DELETE FROM search_words WHERE rowid = ?", entry)

    async def search(self, query: Query) -> Found:
        words = words_of(query.text)
        if not words:
            return Found((), Mode.TEXT)
        return Found(tuple(await self._database.read(lambda tx: _by_words(tx, query, words))), Mode.TEXT)


def _by_words(tx: Transaction, query: Query, words: Sequence[str]) -> list[Hit]:
    """Entries that have all the words; if these are few, then those that have any."""
    hits = _matching(tx, query, " AND ".join(f'"{word}"' for word in words))
    if len(hits) < query.limit and len(words) > 1:
        known = {hit.entry.key for hit in hits}
        some = _matching(tx, query, " OR ".join(f'"{word}"' for word in words))
        hits += [hit for hit in some if hit.entry.key not in known][: query.limit - len(hits)]
    return hits


def _matching(tx: Transaction, query: Query, wanted: str) -> list[Hit]:
    # The scope is checked once more on the rows: a word of the index is a digest, the row has the tenant itself.
    rows = tx.rows(
        f"SELECT {COLUMNS}, {RANK} FROM search_words JOIN search_entries e ON e.id = search_words.rowid "  # noqa: S608
        f"WHERE search_words MATCH ? AND e.tenant = ? ORDER BY {RANK} LIMIT ?",
        f"scope : ({scope_query(query)}) AND {{title body parts}} : ({wanted})",
        query.tenant,
        query.limit,
    )
    return [Hit(entry_of(row), -cast("float", row[9])) for row in rows]


def scope_query(query: Query) -> str:
    """The filters as an FTS5 expression: all of them, each by any of its values."""
    wanted = [("t", (query.tenant,)), ("k", query.kinds), ("n", query.namespaces), ("g", query.tags)]
    groups = [" OR ".join(scope_token(kind, value) for value in values) for kind, values in wanted if values]
    return " AND ".join(f"({group})" for group in groups)


def entry_of(row: Sequence[Value]) -> Entry:
    tenant, kind, thing, part, body, title, namespace, tags, language = cast("tuple[str, ...]", row[:9])
    return Entry(Key(tenant, kind, thing, part), body, title, namespace, tuple(json.loads(tags)), language)
