"""Reads and writes the rows of notebooks and executions. Their cells are in the table of all cells."""

from collections.abc import Iterable
from typing import Any, cast

from cellwright.storage.cells import CellRows, NotebookKey, dumped, loaded
from cellwright.storage.database import Transaction
from cellwright.storage.values import Row
from cellwright.thinking.model import ThinkingNotebook
from cellwright.thinking.reading import RunRecord

CELLS = CellRows("thinking")
_COLUMNS = "id, session, title, language, pattern, metadata, created, modified, used, executed, executions, cell_count, version, kernel"
_HAS_ERRORS = (
    f"EXISTS (SELECT 1 FROM notebook_cells AS c WHERE c.shelf = '{CELLS.shelf}' AND c.owner = thinking_notebooks.owner "  # noqa: S608
    "AND c.notebook = thinking_notebooks.id AND c.failed = 1)"
)
_NOTEBOOK = f"SELECT {_COLUMNS}, {_HAS_ERRORS} FROM thinking_notebooks"  # noqa: S608


def read_notebook(tx: Transaction, key: NotebookKey, oldest_use: int) -> ThinkingNotebook | None:
    """The notebook, unless nobody has used it since `oldest_use`."""
    row = tx.row(f"{_NOTEBOOK} WHERE owner = ? AND id = ? AND used > ?", key.owner, key.id, oldest_use)
    return None if row is None else _notebook_of(row)


def read_notebooks(tx: Transaction, owner: str, oldest_use: int) -> list[ThinkingNotebook]:
    """All of one owner, last used first."""
    rows = tx.rows(f"{_NOTEBOOK} WHERE owner = ? AND used > ? ORDER BY used DESC, id", owner, oldest_use)
    return [_notebook_of(row) for row in rows]


def _notebook_of(row: Row) -> ThinkingNotebook:
    values: list[Any] = [*row]
    values[5], values[-1] = loaded(row[5]), bool(row[-1])
    return ThinkingNotebook(*values)


def insert_notebook(tx: Transaction, owner: str, notebook: ThinkingNotebook) -> None:
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


def delete_notebook(tx: Transaction, key: NotebookKey) -> bool:
    CELLS.delete(tx, key)
    tx.run("DELETE FROM thinking_executions WHERE owner = ? AND notebook = ?", key.owner, key.id)
    return bool(tx.run("DELETE FROM thinking_notebooks WHERE owner = ? AND id = ?", key.owner, key.id))


def read_execution(tx: Transaction, key: NotebookKey, execution_id: str) -> RunRecord | None:
    row = tx.row(
        "SELECT body FROM thinking_executions WHERE owner = ? AND notebook = ? AND id = ?",
        key.owner,
        key.id,
        execution_id,
    )
    return None if row is None else loaded(row[0])


def write_execution(tx: Transaction, key: NotebookKey, execution_id: str, created: int, body: RunRecord) -> None:
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


def execution_sizes(tx: Transaction, key: NotebookKey) -> list[tuple[str, int]]:
    """The notebook's executions, newest first, with how large each is."""
    rows = tx.rows(
        "SELECT id, size FROM thinking_executions WHERE owner = ? AND notebook = ? ORDER BY created DESC, id",
        key.owner,
        key.id,
    )
    return cast("list[tuple[str, int]]", rows)


def delete_executions(tx: Transaction, key: NotebookKey, ids: Iterable[str]) -> None:
    for execution_id in ids:
        tx.run(
            "DELETE FROM thinking_executions WHERE owner = ? AND notebook = ? AND id = ?",
            key.owner,
            key.id,
            execution_id,
        )
