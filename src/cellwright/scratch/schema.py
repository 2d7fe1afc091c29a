"""The tables of pads. Every key begins with the tenant, so a query that forgets it is slow and gets noticed.

Cells are in the table of all cells, whose migrations come first.
"""

from cellwright.storage.migrations import Migration, PerEngine

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

TOUCHED = ("ALTER TABLE pad_changes ADD COLUMN touched TEXT",)
"""What a change was about, as JSON for a reader; NULL for changes from before this column."""


def _counts(length: str) -> tuple[str, ...]:
    """Statements that count what is stored already. `length` is the engine's expression for the bytes of a text."""

    def of(*columns: str) -> str:
        return " + ".join(f"COALESCE({length.format(column)}, 0)" for column in columns)

    def within(table: str, size: str) -> str:
        return f"COALESCE((SELECT SUM({size}) FROM {table} x WHERE x.tenant = pads.tenant AND x.pad = pads.id), 0)"  # noqa: S608

    parts = (
        of("title", "description", "summary", "metadata"),
        within("cells", of("x.content", "x.metadata", "x.json_schema")),
        within("shared_schemas", of("x.description", "x.body")),
        within("pad_changes", "x.bytes"),
    )
    return (
        f"UPDATE pad_changes SET bytes = {of('undo')}",  # noqa: S608
        f"UPDATE pads SET bytes = {' + '.join(parts)}",  # noqa: S608
        "UPDATE tenants SET bytes = COALESCE((SELECT SUM(p.bytes) FROM pads p WHERE p.tenant = tenants.tenant), 0)",
    )


COUNT = PerEngine(sqlite=_counts("length(CAST({} AS BLOB))"), postgresql=_counts("octet_length({})"))
BYTES = (
    *(
        f"ALTER TABLE {table} ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0"
        for table in ("tenants", "pads", "pad_changes")
    ),
    COUNT,
)
"""The bytes of a tenant, of a pad with its earlier versions, and of each of those."""

ONE_TABLE = (
    (
        "INSERT INTO notebook_cells (shelf, owner, notebook, id, position, kind, language, filename, failed, validate_on_write, "
        "validation, metadata, json_schema, source, outputs) SELECT 'scratch', tenant, pad, id, position, "
        "CASE WHEN lower(language) IN ('markdown', 'md') THEN 'markdown' WHEN lower(language) IN ('text', 'txt') THEN 'raw' "
        "ELSE 'code' END, language, '', 0, validate_on_write, status, metadata, json_schema, content, '[]' FROM cells"
    ),
    "DROP TABLE cells",
)
"""Moves the cells of pads into the table of all cells."""

MIGRATIONS = (
    Migration("scratch", 1, TABLES),
    Migration("scratch", 2, TOUCHED),
    Migration("scratch", 3, BYTES),
    Migration("scratch", 4, ONE_TABLE),
)
