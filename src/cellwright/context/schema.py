"""The tables of project context. The project leads every key, then, where it is a person's own, the caller."""

from cellwright.storage.migrations import Migration

TABLES = (
    """CREATE TABLE context_sessions (
        project TEXT NOT NULL,
        tenant TEXT NOT NULL,
        id TEXT NOT NULL,
        client TEXT NOT NULL,
        process TEXT NOT NULL,
        status TEXT NOT NULL,
        started REAL NOT NULL,
        last REAL NOT NULL,
        ended REAL,
        calls INTEGER NOT NULL,
        failures INTEGER NOT NULL,
        discoveries INTEGER NOT NULL,
        topics TEXT NOT NULL,
        PRIMARY KEY (project, tenant, id)
    ) STRICT""",
    "CREATE INDEX context_sessions_by_time ON context_sessions (project, tenant, started DESC)",
    "CREATE INDEX context_sessions_by_status ON context_sessions (project, status, last)",
    """CREATE TABLE context_touched (
        project TEXT NOT NULL,
        tenant TEXT NOT NULL,
        session TEXT NOT NULL,
        kind TEXT NOT NULL,
        path TEXT NOT NULL,
        uri TEXT NOT NULL,
        count INTEGER NOT NULL,
        first REAL NOT NULL,
        last REAL NOT NULL,
        PRIMARY KEY (project, tenant, session, kind, path)
    ) STRICT""",
    """CREATE TABLE context_discoveries (
        project TEXT NOT NULL,
        id TEXT NOT NULL,
        type TEXT NOT NULL,
        content TEXT NOT NULL,
        module TEXT NOT NULL,
        solution TEXT NOT NULL,
        session TEXT NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        times INTEGER NOT NULL,
        PRIMARY KEY (project, id)
    ) STRICT""",
    """CREATE TABLE context_uses (
        project TEXT NOT NULL,
        item TEXT NOT NULL,
        accesses INTEGER NOT NULL,
        last REAL NOT NULL,
        archived INTEGER NOT NULL,
        PRIMARY KEY (project, item)
    ) STRICT""",
)
MIGRATIONS = (Migration("context", 1, TABLES),)
