"""The tables of search. Everything in them is derived and can be rebuilt.

`search_entries` repeats the texts on purpose: snippets, embedding and reindexing then do not have to ask the parts, and a hit is read from
one row. It costs about as much room as the cells themselves.
"""

from cellwright.storage.migrations import Migration, PerEngine

# The primary key begins with the tenant, because one tenant's codes are read together.
SQLITE = (
    (
        "CREATE VIRTUAL TABLE search_words USING fts5(scope, title, body, parts, content='', contentless_delete=1, "
        'tokenize="porter unicode61 remove_diacritics 2")'
    ),
    """CREATE TABLE search_vectors (
        tenant TEXT NOT NULL,
        entry INTEGER NOT NULL,
        model TEXT NOT NULL,
        digest BLOB NOT NULL,
        code BLOB NOT NULL,
        vector BLOB NOT NULL,
        PRIMARY KEY (tenant, entry)
    ) STRICT, WITHOUT ROWID""",
    # From this the codes in memory are updated. The mark shows whether the database was replaced by a backup.
    """CREATE TABLE search_changes (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        tenant TEXT NOT NULL,
        entry INTEGER NOT NULL,
        mark BLOB NOT NULL DEFAULT (randomblob(8))
    ) STRICT""",
)
POSTGRESQL = (
    # Stems as FTS5's porter does, and no stop words: `for` and `in` are words of code.
    "CREATE TEXT SEARCH DICTIONARY cellwright_stem (TEMPLATE = snowball, Language = english)",
    "CREATE TEXT SEARCH CONFIGURATION cellwright_words (COPY = pg_catalog.simple)",
    (
        "ALTER TEXT SEARCH CONFIGURATION cellwright_words ALTER MAPPING FOR asciiword, word, numword, asciihword, hword, "
        "numhword, hword_part, hword_asciipart, hword_numpart WITH cellwright_stem"
    ),
    "CREATE TABLE search_words (entry BIGINT PRIMARY KEY, words tsvector NOT NULL)",
    "CREATE INDEX search_words_found ON search_words USING gin (words)",
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
                digest BLOB NOT NULL,
                body TEXT NOT NULL,
                UNIQUE (tenant, kind, thing, part)
            ) STRICT""",
            # Entries that have no vector of their present text. The newest are embedded first, so that no backlog delays them.
            "CREATE TABLE search_pending (entry INTEGER NOT NULL PRIMARY KEY, since INTEGER NOT NULL) STRICT",
            "CREATE INDEX search_pending_newest ON search_pending (since)",
            # Which model the vectors are of, and up to which entry those of an earlier model were replaced.
            "CREATE TABLE search_state (model TEXT NOT NULL, done INTEGER NOT NULL, goal INTEGER NOT NULL) STRICT",
            "INSERT INTO search_state VALUES ('', 0, 0)",
            PerEngine(SQLITE, POSTGRESQL),
        ),
    ),
)
