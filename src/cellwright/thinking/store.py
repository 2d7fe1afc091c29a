"""Operations on thinking notebooks, each within one transaction. They check owners, limits and the time to live."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from cellwright.core.errors import InvalidArgument, LimitReached, NotFound
from cellwright.notebook.model import Cell
from cellwright.storage.cells import NotebookKey
from cellwright.storage.database import Transaction
from cellwright.thinking import rows
from cellwright.thinking.model import (
    JsonObject,
    ThinkingLimits,
    ThinkingNotebook,
    checked_handle,
    new_session_handle,
    no_notebook,
)
from cellwright.thinking.reading import RunRecord
from cellwright.thinking.rows import CELLS

KEPT_EXECUTIONS = 50
KEPT_EXECUTION_CHARACTERS = 8 * 1024 * 1024
SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class ExpiredNotebook:
    """A notebook that was deleted because nobody used it for too long, and the kernel it had."""

    key: NotebookKey
    session: str
    kernel: str


class NotebookStore:
    def __init__(self, limits: ThinkingLimits) -> None:
        self._limits = limits

    def oldest_use(self, now: int) -> int:
        """A notebook that was not used since this time is gone, even if it is not deleted yet."""
        return now - int(self._limits.ttl * SECOND)

    # -- sessions ------------------------------------------------------------------------------------------------------------

    def ensure_session(self, tx: Transaction, owner: str, name: str, now: int) -> str:
        """The handle of a connection's session, or of the owner's if there are no connections; made when first needed."""
        tx.run(
            "INSERT INTO thinking_sessions (owner, name, handle, used) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (owner, name) DO UPDATE SET used = excluded.used",
            owner,
            name,
            new_session_handle(),
            now,
        )
        return cast("str", self.find_session(tx, owner, name))

    def find_session(self, tx: Transaction, owner: str, name: str) -> str | None:
        """The handle of a connection's session, or of the owner's if there are no connections; None if it was never needed."""
        row = tx.row("SELECT handle FROM thinking_sessions WHERE owner = ? AND name = ?", owner, name)
        return None if row is None else cast("str", row[0])

    def use_session(self, tx: Transaction, owner: str, handle: str, now: int) -> str:
        """Note the use of a session by its handle; NotFound if this owner has none with that handle."""
        updated = tx.run(
            "UPDATE thinking_sessions SET used = ? WHERE owner = ? AND handle = ?", now, owner, checked_handle(handle)
        )
        if not updated:
            raise NotFound("Session not found", hint="leave session out, or give a sessionId from notebook_create")
        return handle

    # -- notebooks -----------------------------------------------------------------------------------------------------------

    def existing(self, tx: Transaction, key: NotebookKey, now: int, session: str | None = None) -> ThinkingNotebook:
        """The notebook; NotFound if it is gone, or not in `session` where that is given."""
        notebook = rows.read_notebook(tx, key, self.oldest_use(now))
        if notebook is None or session not in (None, notebook.session):
            raise no_notebook()
        return notebook

    def all_of(self, tx: Transaction, owner: str, now: int) -> list[ThinkingNotebook]:
        return rows.read_notebooks(tx, owner, self.oldest_use(now))

    def create(
        self, tx: Transaction, owner: str, notebook: ThinkingNotebook, cells: Sequence[Cell], now: int
    ) -> ThinkingNotebook:
        if len(self.all_of(tx, owner, now)) >= self._limits.notebooks:
            raise LimitReached(
                f"you have {self._limits.notebooks} notebooks already (--thinking-max-notebooks)",
                hint="notebook_close one that is no longer needed; notebook://list shows them",
            )
        self._check_count(len(cells))
        rows.insert_notebook(tx, owner, replace(notebook, cell_count=len(cells)))
        key = NotebookKey(owner, notebook.id)
        for cell in cells:
            CELLS.write(tx, key, cell)
        self._check_size(tx, key)
        return self.existing(tx, key, now)

    def _check_count(self, cells: int) -> None:
        if cells > self._limits.cells:
            raise LimitReached(
                f"a notebook has at most {self._limits.cells} cells (--thinking-max-cells)",
                hint="delete cells, or go on in another notebook",
            )

    def _check_size(self, tx: Transaction, key: NotebookKey) -> None:
        size = CELLS.bytes_of(tx, key)
        if size > self._limits.notebook_bytes:
            raise LimitReached(
                f"the notebook would have {size} bytes with its outputs, more than the limit of --thinking-max-bytes, "
                f"{self._limits.notebook_bytes}",
                hint="delete cells, or go on in another notebook",
            )

    def touch(self, tx: Transaction, key: NotebookKey, now: int) -> None:
        """Note that the notebook was used, though not changed."""
        tx.run("UPDATE thinking_notebooks SET used = ? WHERE owner = ? AND id = ?", now, key.owner, key.id)

    def note_change(
        self, tx: Transaction, key: NotebookKey, notebook: ThinkingNotebook, now: int, added_cells: int
    ) -> ThinkingNotebook:
        """Note that the notebook was changed and has so many cells more."""
        tx.run(
            "UPDATE thinking_notebooks SET used = ?, modified = ?, version = version + 1, cell_count = cell_count + ? "
            "WHERE owner = ? AND id = ?",
            now,
            now,
            added_cells,
            key.owner,
            key.id,
        )
        count = notebook.cell_count + added_cells
        return replace(notebook, used=now, modified=now, version=notebook.version + 1, cell_count=count)

    def owners_of_kernels(self, tx: Transaction) -> dict[str, str]:
        kernels = tx.rows("SELECT kernel, owner FROM thinking_notebooks WHERE kernel <> ''")
        return dict(cast("list[tuple[str, str]]", kernels))

    def note_kernel(self, tx: Transaction, key: NotebookKey, kernel: str) -> None:
        tx.run("UPDATE thinking_notebooks SET kernel = ? WHERE owner = ? AND id = ?", kernel, key.owner, key.id)

    def delete_expired(self, tx: Transaction, now: int) -> list[ExpiredNotebook]:
        """Delete the notebooks whose time is over, and the sessions that nobody used and that have no notebook."""
        oldest = self.oldest_use(now)
        notebook_rows = tx.rows("SELECT owner, id, session, kernel FROM thinking_notebooks WHERE used <= ?", oldest)
        expired = [
            ExpiredNotebook(NotebookKey(owner, notebook_id), session, kernel)
            for owner, notebook_id, session, kernel in cast("list[tuple[str, ...]]", notebook_rows)
        ]
        for notebook in expired:
            rows.delete_notebook(tx, notebook.key)
        tx.run(
            "DELETE FROM thinking_sessions WHERE used <= ? AND NOT EXISTS (SELECT 1 FROM thinking_notebooks AS n "
            "WHERE n.owner = thinking_sessions.owner AND n.session = thinking_sessions.handle)",
            oldest,
        )
        return expired

    # -- cells ---------------------------------------------------------------------------------------------------------------

    def insert(
        self, tx: Transaction, key: NotebookKey, notebook: ThinkingNotebook, cell: Cell, index: int | None, now: int
    ) -> tuple[ThinkingNotebook, Cell]:
        """The notebook with the new cell, and the cell with its index."""
        self._check_count(notebook.cell_count + 1)
        cell = replace(cell, index=notebook.cell_count if index is None else _checked_index(index, notebook.cell_count))
        if cell.index < notebook.cell_count:
            CELLS.shift(tx, key, cell.index, 1)
        CELLS.write(tx, key, cell)
        self._check_size(tx, key)
        return self.note_change(tx, key, notebook, now, 1), cell

    def replace(
        self, tx: Transaction, key: NotebookKey, notebook: ThinkingNotebook, cell: Cell, index: int | None, now: int
    ) -> tuple[ThinkingNotebook, Cell]:
        """Give a cell new content, and a new index if one is given."""
        before = self.cell(tx, key, cell.id)
        cell = replace(cell, index=before.index if index is None else _checked_index(index, notebook.cell_count - 1))
        CELLS.replace(tx, key, before, cell)
        self._check_size(tx, key)
        return self.note_change(tx, key, notebook, now, 0), cell

    def delete(
        self, tx: Transaction, key: NotebookKey, notebook: ThinkingNotebook, cell_id: str, now: int
    ) -> ThinkingNotebook:
        CELLS.take_out(tx, key, self.cell(tx, key, cell_id))
        return self.note_change(tx, key, notebook, now, -1)

    def cell(self, tx: Transaction, key: NotebookKey, cell_id: str) -> Cell:
        cell = CELLS.read_one(tx, key, cell_id)
        if cell is None:
            raise no_cell(cell_id)
        return cell

    # -- runs ----------------------------------------------------------------------------------------------------------------

    def note_outcomes(self, tx: Transaction, key: NotebookKey, cells: Sequence[Cell], now: int) -> bool:
        """Store the outputs that a run has left in its cells so far. False if the notebook is gone."""
        for cell in cells:
            CELLS.write_outcome(tx, key, cell)
        if CELLS.bytes_of(tx, key) > self._limits.notebook_bytes:
            for cell in cells:
                CELLS.write_outcome(tx, key, replace(cell, outputs=(LEFT_OUT,)))
        return bool(
            tx.run(
                "UPDATE thinking_notebooks SET used = ?, executed = ?, version = version + 1 WHERE owner = ? AND id = ?",
                now,
                now,
                key.owner,
                key.id,
            )
        )

    def note_execution(self, tx: Transaction, key: NotebookKey, execution_id: str, record: RunRecord, now: int) -> None:
        """Store how a run ended, and delete the oldest runs if there are too many."""
        updated = tx.run(
            "UPDATE thinking_notebooks SET executions = executions + 1 WHERE owner = ? AND id = ?", key.owner, key.id
        )
        if not updated:
            return
        rows.write_execution(tx, key, execution_id, now, record)
        total, too_old = 0, list[str]()
        for number, (stored_id, size) in enumerate(rows.execution_sizes(tx, key)):
            total += size
            if number and (number >= KEPT_EXECUTIONS or total > KEPT_EXECUTION_CHARACTERS):
                too_old.append(stored_id)
        rows.delete_executions(tx, key, too_old)


LEFT_OUT: JsonObject = {
    "output_type": "stream",
    "name": "stderr",
    "text": "[cellwright: what this put out is left out: the notebook is as large as --thinking-max-bytes lets it be]\n",
}


def no_cell(cell_id: str) -> NotFound:
    return NotFound(f"Cell not found: {cell_id[:80]!r}", hint="the notebook's …/cells resource lists them")


def _checked_index(index: int, last: int) -> int:
    if not 0 <= index <= last:
        raise InvalidArgument(f"index is {index}, not between 0 and {last}", hint="leave index out to append")
    return index
