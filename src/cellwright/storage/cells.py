"""The cells of all notebooks that are kept in the database: one table, in which each part has a shelf of its own."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from cellwright.notebook.model import UNCHECKED, Cell, Check, Kind
from cellwright.storage.database import Transaction
from cellwright.storage.migrations import Migration
from cellwright.storage.values import Value

TABLE = (
    # Long columns come last: an engine that reads the others can skip them.
    """CREATE TABLE notebook_cells (
        shelf TEXT NOT NULL,
        owner TEXT NOT NULL,
        notebook TEXT NOT NULL,
        id TEXT NOT NULL,
        position INTEGER NOT NULL,
        kind TEXT NOT NULL,
        language TEXT NOT NULL,
        filename TEXT NOT NULL,
        failed INTEGER NOT NULL,
        execution_count INTEGER,
        validate_on_write INTEGER NOT NULL,
        validation TEXT,
        metadata TEXT NOT NULL,
        json_schema TEXT,
        source TEXT NOT NULL,
        outputs TEXT NOT NULL,
        PRIMARY KEY (shelf, owner, notebook, id)
    ) STRICT""",
    "CREATE INDEX notebook_cells_in_order ON notebook_cells (shelf, owner, notebook, position)",
    # Partial, because most cells never fail: adding one does not touch this index.
    "CREATE INDEX notebook_cells_failed ON notebook_cells (shelf, owner, notebook) WHERE failed = 1",
)
MIGRATIONS = (Migration("cells", 1, TABLE),)

COLUMNS = (
    "id, position, kind, language, filename, failed, execution_count, validate_on_write, validation, metadata, json_schema, "
    "source, outputs"
)
INSERT = (
    f"INSERT INTO notebook_cells (shelf, owner, notebook, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "  # noqa: S608
    "ON CONFLICT (shelf, owner, notebook, id) DO "
)
REPLACE = f"{INSERT}UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in COLUMNS.split(", ")[1:])
WITHIN = "WHERE shelf = ? AND owner = ? AND notebook = ?"
Tags = Mapping[str, tuple[str, ...]]
"""The tags of each cell that has any, by the cell's id."""


@dataclass(frozen=True, slots=True)
class NotebookKey:
    """One notebook of one owner. The database is never asked for a notebook in any other way."""

    owner: str
    id: str


class CellRows:
    """The cells of one part's notebooks, in their order."""

    def __init__(self, shelf: str) -> None:
        self.shelf = shelf

    def read(
        self, tx: Transaction, key: NotebookKey, ids: Sequence[str] | None = None, tags: Tags | None = None
    ) -> list[Cell]:
        """The notebook's cells in order; with `ids`, only these."""
        if ids is not None and not ids:
            return []
        rows = tx.rows(
            f"SELECT {COLUMNS} FROM notebook_cells {self._where(ids)} ORDER BY position",  # noqa: S608
            *self._bind(key, ids),
        )
        return [_cell_of(row, tags or {}) for row in rows]

    def read_one(self, tx: Transaction, key: NotebookKey, cell_id: str) -> Cell | None:
        return next(iter(self.read(tx, key, [cell_id])), None)

    def read_outline(
        self, tx: Transaction, key: NotebookKey, ids: Sequence[str] | None = None, tags: Tags | None = None
    ) -> list[Cell]:
        """The same cells without source and outputs."""
        rows = tx.rows(
            f"SELECT id, position, kind, language, filename, metadata, validation FROM notebook_cells {self._where(ids)} "  # noqa: S608
            "ORDER BY position",
            *self._bind(key, ids),
        )
        tags = tags or {}
        return [
            Cell(
                Kind(kind),
                "",
                language,
                filename,
                cell_id,
                metadata=loaded(metadata),
                tags=tags.get(cell_id, ()),
                check=UNCHECKED if validation is None else Check(status=validation),
                index=position,
            )
            for cell_id, position, kind, language, filename, metadata, validation in cast("list[Any]", rows)
        ]

    def read_ids(self, tx: Transaction, key: NotebookKey) -> list[str]:
        """The ids of the notebook's cells, in order."""
        rows = tx.rows(f"SELECT id FROM notebook_cells {WITHIN} ORDER BY position", *self._bind(key))  # noqa: S608
        return [cast("str", cell_id) for (cell_id,) in rows]

    def bytes_of(self, tx: Transaction, key: NotebookKey) -> int:
        """How many bytes all cells of the notebook take together."""
        row = tx.row(
            # Minus 2 for the brackets of the list of outputs.
            "SELECT coalesce(sum(octet_length(source) + octet_length(outputs) - 2 + octet_length(metadata) "  # noqa: S608
            f"+ coalesce(octet_length(json_schema), 0)), 0) FROM notebook_cells {WITHIN}",
            *self._bind(key),
        )
        assert row is not None
        return int(cast("int", row[0]))

    def insert(self, tx: Transaction, key: NotebookKey, cell: Cell) -> bool:
        """Add a cell at its index. False, and nothing changes, if the notebook already has a cell with this id."""
        return bool(tx.run(f"{INSERT}NOTHING", *self._values(key, cell)))

    def write(self, tx: Transaction, key: NotebookKey, cell: Cell) -> None:
        """Insert the cell at its index, or overwrite the row that has its id."""
        tx.run(REPLACE, *self._values(key, cell))

    def write_outcome(self, tx: Transaction, key: NotebookKey, cell: Cell) -> None:
        """Store what a run left in a cell. Does nothing if the cell no longer exists."""
        tx.run(
            f"UPDATE notebook_cells SET failed = ?, execution_count = ?, outputs = ? {WITHIN} AND id = ?",  # noqa: S608
            int(cell.status == "failed"),
            cell.execution_count,
            dumped(cell.outputs),
            *self._bind(key, [cell.id]),
        )

    def write_validation(self, tx: Transaction, key: NotebookKey, cell_id: str, status: str) -> None:
        tx.run(
            f"UPDATE notebook_cells SET validation = ? {WITHIN} AND id = ?",  # noqa: S608
            status,
            *self._bind(key, [cell_id]),
        )

    def delete(self, tx: Transaction, key: NotebookKey, cell_id: str | None = None) -> None:
        """Delete one cell, or all cells of the notebook. The positions of the others do not change."""
        ids = None if cell_id is None else [cell_id]
        tx.run(f"DELETE FROM notebook_cells {self._where(ids)}", *self._bind(key, ids))  # noqa: S608

    def replace(self, tx: Transaction, key: NotebookKey, before: Cell, after: Cell) -> None:
        """Overwrite a cell with its new state, and move it if its index changed."""
        if after.index != before.index:
            self.take_out(tx, key, before)
            self.shift(tx, key, after.index, 1)
        self.write(tx, key, after)

    def take_out(self, tx: Transaction, key: NotebookKey, cell: Cell) -> None:
        """Delete the cell and close the gap."""
        self.delete(tx, key, cell.id)
        self.shift(tx, key, cell.index + 1, -1)

    def shift(self, tx: Transaction, key: NotebookKey, start: int, by: int) -> None:
        """Move all cells from position `start` on, to make room or to close a gap."""
        tx.run(
            f"UPDATE notebook_cells SET position = position + ? {WITHIN} AND position >= ?",  # noqa: S608
            by,
            *self._bind(key),
            start,
        )

    def _where(self, ids: Sequence[str] | None) -> str:
        return WITHIN if ids is None else f"{WITHIN} AND id IN ({', '.join('?' * len(ids))})"

    def _bind(self, key: NotebookKey, ids: Sequence[str] | None = None) -> tuple[str, ...]:
        return (self.shelf, key.owner, key.id, *(ids or ()))

    def _values(self, key: NotebookKey, cell: Cell) -> tuple[Value, ...]:
        return (
            *self._bind(key),
            cell.id,
            cell.index,
            cell.kind.value,
            cell.language,
            cell.filename,
            int(cell.status == "failed"),
            cell.execution_count,
            int(cell.check.on_write),
            cell.check.status,
            dumped(dict(cell.metadata)),
            None if cell.check.schema is None else dumped(cell.check.schema),
            cell.source,
            dumped(cell.outputs),
        )


def _cell_of(row: Sequence[Value], tags: Tags) -> Cell:
    values = cast("Any", row)
    cell_id, position, kind, language, filename, failed, count = values[:7]
    on_write, validation, metadata, schema, source, outputs = values[7:]
    checked = schema is not None or on_write or validation is not None
    return Cell(
        Kind(kind),
        source,
        language,
        filename,
        cell_id,
        count,
        () if outputs == "[]" else tuple(loaded(outputs)),
        loaded(metadata),
        "failed" if failed else "idle",
        tags.get(cell_id, ()),
        Check(None if schema is None else loaded(schema), bool(on_write), validation) if checked else UNCHECKED,
        position,
    )


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def dumped(value: object) -> str:
    return _ENCODER.encode(value)


def loaded(value: Value) -> Any:  # noqa: ANN401 - JSON that we wrote
    # Most cells have no metadata, and there are many of them.
    return {} if value == "{}" else json.loads(cast("str", value))
