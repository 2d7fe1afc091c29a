"""The table of the places that were put into the search index, so that only those that changed are read again."""

from cellwright.storage.migrations import Migration

TABLES = (
    """CREATE TABLE finding_things (
        tenant TEXT NOT NULL,
        kind TEXT NOT NULL,
        thing TEXT NOT NULL,
        stamp TEXT NOT NULL,
        parts TEXT NOT NULL,
        seen REAL NOT NULL,
        PRIMARY KEY (tenant, kind, thing)
    ) STRICT""",
    "CREATE INDEX finding_things_by_age ON finding_things (kind, seen)",
)
MIGRATIONS = (Migration("finding", 1, TABLES),)
