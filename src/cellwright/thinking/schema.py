"""The tables of thinking notebooks. The owner leads every key, so no query can forget it and stay fast.

Cells are in the table of all cells, whose migrations come first.
"""

from cellwright.storage.migrations import Migration

TABLES = (
    """CREATE TABLE thinking_sessions (
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        handle TEXT NOT NULL,
        used INTEGER NOT NULL,
        PRIMARY KEY (owner, name)
    ) STRICT""",
    """CREATE TABLE thinking_notebooks (
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        session TEXT NOT NULL,
        title TEXT NOT NULL,
        language TEXT NOT NULL,
        pattern TEXT NOT NULL,
        metadata TEXT NOT NULL,
        created INTEGER NOT NULL,
        modified INTEGER NOT NULL,
        used INTEGER NOT NULL,
        executed INTEGER,
        executions INTEGER NOT NULL,
        cell_count INTEGER NOT NULL,
        version INTEGER NOT NULL,
        kernel TEXT NOT NULL,
        PRIMARY KEY (owner, id)
    ) STRICT""",
    "CREATE INDEX thinking_notebooks_by_use ON thinking_notebooks (used)",
    """CREATE TABLE thinking_cells (
        owner TEXT NOT NULL,
        notebook TEXT NOT NULL,
        id TEXT NOT NULL,
        position INTEGER NOT NULL,
        kind TEXT NOT NULL,
        language TEXT NOT NULL,
        filename TEXT NOT NULL,
        failed INTEGER NOT NULL,
        execution_count INTEGER,
        metadata TEXT NOT NULL,
        source TEXT NOT NULL,
        outputs TEXT NOT NULL,
        PRIMARY KEY (owner, notebook, id)
    ) STRICT""",
    "CREATE INDEX thinking_cells_failed ON thinking_cells (owner, notebook, failed)",
    """CREATE TABLE thinking_executions (
        owner TEXT NOT NULL,
        notebook TEXT NOT NULL,
        id TEXT NOT NULL,
        created INTEGER NOT NULL,
        size INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (owner, notebook, id)
    ) STRICT""",
)

ONLY_FAILED = (
    "DROP INDEX thinking_cells_failed",
    # Most cells never fail: adding one need not touch it.
    "CREATE INDEX thinking_cells_failed ON thinking_cells (owner, notebook) WHERE failed = 1",
)

NOT_BY_USE = (
    # Every change of a notebook moved it in there; what it saved is a look through a few thousand rows now and then.
    "DROP INDEX thinking_notebooks_by_use",
)

ONE_TABLE = (
    (
        "INSERT INTO notebook_cells (shelf, owner, notebook, id, position, kind, language, filename, failed, execution_count, "
        "validate_on_write, metadata, source, outputs) SELECT 'thinking', owner, notebook, id, position, kind, language, filename, "
        "failed, execution_count, 0, metadata, source, outputs FROM thinking_cells"
    ),
    "DROP TABLE thinking_cells",
)
"""Cells are in the table of all cells."""

MIGRATIONS = (
    Migration("thinking", 1, TABLES),
    Migration("thinking", 2, ONLY_FAILED),
    Migration("thinking", 3, NOT_BY_USE),
    Migration("thinking", 4, ONE_TABLE),
)
