"""Notebooks, cells and executions from and to rows. Nothing here decides anything."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from cellwright.core.formats.model import Kind
from cellwright.storage.database import Transaction
from cellwright.storage.values import Row, Value
from cellwright.thinking.model import Cell, JsonObject, Key, Notebook

_COLUMNS = "id, session, title, language, pattern, metadata, created, modified, used, executed, executions, cell_count, version, kernel"
_HAS_ERRORS = (
    "EXISTS (SELECT 1 FROM thinking_cells AS c WHERE c.owner = thinking_notebooks.owner "
    "AND c.notebook = thinking_notebooks.id AND c.failed = 1)"
)
_NOTEBOOK = f"SELECT {_COLUMNS}, {_HAS_ERRORS} FROM thinking_notebooks"  # noqa: S608
_CELL_COLUMNS = "id, kind, language, filename, failed, execution_count, metadata, source, outputs"


def dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def loaded(value: Value) -> Any:  # noqa: ANN401 - JSON that we wrote
    return json.loads(cast("str", value))


def read_notebook(tx: Transaction, key: Key, oldest_use: int) -> Notebook | None:
    """The notebook, unless nobody has used it since `oldest_use`."""
    row = tx.row(f"{_NOTEBOOK} WHERE owner = ? AND id = ? AND used > ?", key.owner, key.id, oldest_use)
    return None if row is None else _notebook_of(row)


def read_notebooks(tx: Transaction, owner: str, oldest_use: int) -> list[Notebook]:
    """All of one owner, last used first."""
    rows = tx.rows(f"{_NOTEBOOK} WHERE owner = ? AND used > ? ORDER BY used DESC, id", owner, oldest_use)
    return [_notebook_of(row) for row in rows]


def _notebook_of(row: Row) -> Notebook:
    values: list[Any] = [*row]
    values[5], values[-1] = loaded(row[5]), bool(row[-1])
    return Notebook(*values)


def insert_notebook(tx: Transaction, owner: str, notebook: Notebook) -> None:
    tx.run(
        f"INSERT INTO thinking_notebooks (owner, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        owner,
        notebook.id,
        notebook.session,
        notebook.title,
        notebook.language,
        notebook.pattern,
        dumped(dict(notebook.metadata)),
        notebook.created,
        notebook.modified,
        notebook.used,
        notebook.executed,
        notebook.executions,
        notebook.cell_count,
        notebook.version,
        notebook.kernel,
    )


def delete_notebook(tx: Transaction, key: Key) -> bool:
    tx.run("DELETE FROM thinking_cells WHERE owner = ? AND notebook = ?", key.owner, key.id)
    tx.run("DELETE FROM thinking_executions WHERE owner = ? AND notebook = ?", key.owner, key.id)
    return bool(tx.run("DELETE FROM thinking_notebooks WHERE owner = ? AND id = ?", key.owner, key.id))


def read_cells(tx: Transaction, key: Key) -> list[Cell]:
    """The notebook's cells, in order."""
    rows = tx.rows(
        f"SELECT {_CELL_COLUMNS} FROM thinking_cells WHERE owner = ? AND notebook = ? ORDER BY position",  # noqa: S608
        key.owner,
        key.id,
    )
    return [_cell_of(row) for row in rows]


def read_cell(tx: Transaction, key: Key, cell_id: str) -> tuple[Cell, int] | None:
    """A cell and its place."""
    row = tx.row(
        f"SELECT position, {_CELL_COLUMNS} FROM thinking_cells WHERE owner = ? AND notebook = ? AND id = ?",  # noqa: S608
        key.owner,
        key.id,
        cell_id,
    )
    return None if row is None else (_cell_of(row[1:]), cast("int", row[0]))


def _cell_of(row: Sequence[Value]) -> Cell:
    cell_id, kind, language, filename, failed, count, metadata, source, outputs = cast("Any", row)
    status = "failed" if failed else "idle"
    return Cell(
        cell_id, Kind(kind), source, language, filename, loaded(metadata), count, tuple(loaded(outputs)), status
    )


def write_cell(tx: Transaction, key: Key, cell: Cell, position: int) -> None:
    """Insert the cell or make its row this one."""
    tx.run(
        "INSERT INTO thinking_cells "
        "(owner, notebook, id, position, kind, language, filename, failed, execution_count, metadata, source, outputs) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (owner, notebook, id) DO UPDATE SET "
        "position = excluded.position, kind = excluded.kind, language = excluded.language, filename = excluded.filename, "
        "failed = excluded.failed, execution_count = excluded.execution_count, metadata = excluded.metadata, "
        "source = excluded.source, outputs = excluded.outputs",
        key.owner,
        key.id,
        cell.id,
        position,
        cell.kind.value,
        cell.language,
        cell.filename,
        int(cell.status == "failed"),
        cell.execution_count,
        dumped(dict(cell.metadata)),
        cell.source,
        dumped(cell.outputs),
    )


def delete_cell(tx: Transaction, key: Key, cell_id: str) -> None:
    tx.run("DELETE FROM thinking_cells WHERE owner = ? AND notebook = ? AND id = ?", key.owner, key.id, cell_id)


def shift_cells(tx: Transaction, key: Key, start: int, by: int) -> None:
    """Move the cells from this position on, to make room or to close a gap."""
    tx.run(
        "UPDATE thinking_cells SET position = position + ? WHERE owner = ? AND notebook = ? AND position >= ?",
        by,
        key.owner,
        key.id,
        start,
    )


def write_outcome(tx: Transaction, key: Key, cell: Cell) -> None:
    """What a run left in a cell; nothing if the cell is gone by now."""
    tx.run(
        "UPDATE thinking_cells SET failed = ?, execution_count = ?, outputs = ? WHERE owner = ? AND notebook = ? AND id = ?",
        int(cell.status == "failed"),
        cell.execution_count,
        dumped(cell.outputs),
        key.owner,
        key.id,
        cell.id,
    )


def read_execution(tx: Transaction, key: Key, execution_id: str) -> JsonObject | None:
    row = tx.row(
        "SELECT body FROM thinking_executions WHERE owner = ? AND notebook = ? AND id = ?",
        key.owner,
        key.id,
        execution_id,
    )
    return None if row is None else loaded(row[0])


def write_execution(tx: Transaction, key: Key, execution_id: str, created: int, body: JsonObject) -> None:
    text = dumped(body)
    tx.run(
        "INSERT INTO thinking_executions (owner, notebook, id, created, size, body) VALUES (?, ?, ?, ?, ?, ?)",
        key.owner,
        key.id,
        execution_id,
        created,
        len(text),
        text,
    )


def execution_sizes(tx: Transaction, key: Key) -> list[tuple[str, int]]:
    """The notebook's executions, newest first, with how large each is."""
    rows = tx.rows(
        "SELECT id, size FROM thinking_executions WHERE owner = ? AND notebook = ? ORDER BY created DESC, id",
        key.owner,
        key.id,
    )
    return cast("list[tuple[str, int]]", rows)


def delete_executions(tx: Transaction, key: Key, ids: Iterable[str]) -> None:
    for execution_id in ids:
        tx.run(
            "DELETE FROM thinking_executions WHERE owner = ? AND notebook = ? AND id = ?",
            key.owner,
            key.id,
            execution_id,
        )
