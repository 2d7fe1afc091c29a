"""The tables of scratch notebooks. Cells are rows; the tenant leads every key, so no query can forget it and stay fast."""

from cellwright.storage.migrations import Migration

TABLES = (
    """CREATE TABLE tenants (
        tenant TEXT NOT NULL PRIMARY KEY,
        pads INTEGER NOT NULL
    ) STRICT""",
    """CREATE TABLE pads (
        tenant TEXT NOT NULL,
        id TEXT NOT NULL,
        namespace TEXT,
        title TEXT,
        description TEXT,
        summary TEXT,
        metadata TEXT NOT NULL,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        version INTEGER NOT NULL,
        cell_count INTEGER NOT NULL,
        PRIMARY KEY (tenant, id)
    ) STRICT""",
    "CREATE INDEX pads_by_time ON pads (tenant, updated DESC, id)",
    "CREATE INDEX pads_by_namespace ON pads (tenant, namespace, updated DESC)",
    """CREATE TABLE pad_uses (
        tenant TEXT NOT NULL,
        pad TEXT NOT NULL,
        used INTEGER NOT NULL,
        PRIMARY KEY (tenant, pad)
    ) STRICT""",
    "CREATE INDEX pad_uses_by_time ON pad_uses (tenant, used)",
    """CREATE TABLE cells (
        tenant TEXT NOT NULL,
        pad TEXT NOT NULL,
        id TEXT NOT NULL,
        position INTEGER NOT NULL,
        language TEXT NOT NULL,
        content TEXT NOT NULL,
        metadata TEXT NOT NULL,
        json_schema TEXT,
        validate_on_write INTEGER NOT NULL,
        status TEXT,
        PRIMARY KEY (tenant, pad, id)
    ) STRICT""",
    "CREATE INDEX cells_in_order ON cells (tenant, pad, position)",
    """CREATE TABLE pad_tags (
        tenant TEXT NOT NULL,
        tag TEXT NOT NULL,
        pad TEXT NOT NULL,
        place INTEGER NOT NULL,
        PRIMARY KEY (tenant, tag, pad)
    ) STRICT""",
    "CREATE INDEX pad_tags_of_pad ON pad_tags (tenant, pad)",
    """CREATE TABLE cell_tags (
        tenant TEXT NOT NULL,
        tag TEXT NOT NULL,
        pad TEXT NOT NULL,
        cell TEXT NOT NULL,
        place INTEGER NOT NULL,
        PRIMARY KEY (tenant, tag, pad, cell)
    ) STRICT""",
    "CREATE INDEX cell_tags_of_pad ON cell_tags (tenant, pad, cell)",
    """CREATE TABLE namespaces (
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        created INTEGER NOT NULL,
        PRIMARY KEY (tenant, name)
    ) STRICT""",
    """CREATE TABLE shared_schemas (
        tenant TEXT NOT NULL,
        pad TEXT NOT NULL,
        id TEXT NOT NULL,
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (tenant, pad, id),
        UNIQUE (tenant, pad, name)
    ) STRICT""",
    """CREATE TABLE pad_changes (
        tenant TEXT NOT NULL,
        pad TEXT NOT NULL,
        version INTEGER NOT NULL,
        at INTEGER NOT NULL,
        what TEXT NOT NULL,
        undo TEXT NOT NULL,
        PRIMARY KEY (tenant, pad, version)
    ) STRICT, WITHOUT ROWID""",
)

MIGRATIONS = (Migration("scratch", 1, TABLES),)
