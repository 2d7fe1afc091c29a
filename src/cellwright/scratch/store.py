"""Pads in the database. Each method is the work of one transaction, so it is done as a whole or not at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from cellwright.core.errors import InvalidArgument, LimitReached, NotFound
from cellwright.core.text.counting import counted
from cellwright.notebook.model import Cell, Check
from cellwright.scratch import rows, uses
from cellwright.scratch.differences import brief_difference, brief_schemas
from cellwright.scratch.drafts import checked_draft
from cellwright.scratch.history import (
    ChangeSubject,
    PadChange,
    State,
    Undo,
    bytes_of_state,
    changed_fields,
    forget_history,
    moved_cell,
    record,
    state_of,
)
from cellwright.scratch.model import (
    ID,
    InvalidId,
    InvalidIndex,
    Pad,
    PadCellDraft,
    PadDraft,
    PadLimits,
    SharedSchema,
    kind_of,
    no_pad,
)
from cellwright.scratch.rows import CELLS
from cellwright.scratch.sight.guard import Guard
from cellwright.scratch.views import WrittenSchema
from cellwright.scratch.weight import add_bytes
from cellwright.storage.cells import NotebookKey
from cellwright.storage.database import Transaction
from cellwright.storage.search.port import Entry, Key, SearchIndex

KIND = "pad"
MOST_IDS_IN_QUERY = 500
"""For more ids than this all cells are read: each id is a parameter of the statement, and engines limit those."""


@dataclass(frozen=True, slots=True)
class CreatedPad:
    pad: Pad
    cells: list[Cell]
    reset: bool
    evicted: list[str]
    diff: str
    """What a reset did; empty for a new pad."""


@dataclass(frozen=True, slots=True)
class ReplacedCell:
    pad: Pad
    before: Cell
    after: Cell
    merged: str
    """The changes of others that were merged into the cell, as a diff; empty if there were none."""


@dataclass(frozen=True, slots=True)
class PadStore:
    """What the transactions share: the search index and the limits of a tenant."""

    index: SearchIndex
    limits: PadLimits
    evicts: bool
    """Whether a create at capacity evicts the least recently used pad; otherwise it is refused."""

    # -- whole pads ----------------------------------------------------------------------------------------------------------

    def create(
        self,
        tx: Transaction,
        key: NotebookKey,
        about: PadDraft,
        cells: Sequence[Cell],
        schemas: Sequence[SharedSchema],
        guard: Guard,
        now: int,
    ) -> CreatedPad:
        """Create a pad, or reset an existing one if the guard lets the caller."""
        old_pad = rows.read_pad(tx, key)
        if old_pad is not None:
            guard.check_reset(tx, key, old_pad)
        before = state_of(tx, key, old_pad) if old_pad is not None else None
        evicted = [] if old_pad is not None else self._make_room(tx, key.owner)
        pad = Pad(
            key.id,
            about,
            old_pad.created if old_pad else now,
            now,
            old_pad.version + 1 if old_pad else 1,
            len(cells),
        )
        self._replace_all(tx, key, pad, cells, schemas)
        size = bytes_of_state((about, cells, schemas))
        if before is None:
            uses.begin(tx, key, now)
            add_bytes(tx, key, size, 0, self.limits)
        else:
            self._record(tx, key, pad, PadChange("reset", Undo.pad(before)), size - bytes_of_state(before))
        diff = "" if before is None else brief_difference(before, (about, cells, schemas))
        return CreatedPad(pad, list(cells), old_pad is not None, evicted, diff)

    def _replace_all(
        self, tx: Transaction, key: NotebookKey, pad: Pad, cells: Sequence[Cell], schemas: Sequence[SharedSchema]
    ) -> None:
        rows.delete_cells(tx, key)
        rows.delete_schemas(tx, key)
        self.index.remove(tx, key.owner, KIND, key.id)
        rows.write_pad(tx, key.owner, pad)
        self._ensure_namespace(tx, key.owner, pad.about.namespace, pad.updated)
        rows.insert_cells(tx, key, cells)
        for schema in schemas:
            rows.write_schema(tx, key, schema)
        self.index.put(tx, [_pad_entry(key, pad), *(_cell_entry(key, pad, cell) for cell in cells)])

    def _make_room(self, tx: Transaction, tenant: str) -> list[str]:
        """Count one more pad of this tenant. Over the limit, delete the least recently used ones or refuse. Returns the deleted ones."""
        tx.run(
            "INSERT INTO tenants (tenant, pads) VALUES (?, 1) ON CONFLICT (tenant) DO UPDATE SET pads = tenants.pads + 1",
            tenant,
        )
        (count,) = tx.row("SELECT pads FROM tenants WHERE tenant = ?", tenant) or (1,)
        over = cast("int", count) - self.limits.pads
        if self.limits.pads == 0 or over <= 0:
            return []
        if not self.evicts:
            raise LimitReached(
                f"there are {self.limits.pads} pads already, the limit of --scratch-max-pads",
                hint="delete some with scratch_delete",
                details={"limit": self.limits.pads},
            )
        evicted = uses.least_used(tx, tenant, over)
        for pad_id in evicted:
            self.delete(tx, NotebookKey(tenant, pad_id))
        return evicted

    def create_namespace(self, tx: Transaction, tenant: str, name: str, now: int) -> bool:
        """Create a namespace unless it exists. Returns whether it is new; LimitReached if there are too many."""
        new = tx.run(
            "INSERT INTO namespaces (tenant, name, created) VALUES (?, ?, ?) ON CONFLICT (tenant, name) DO NOTHING",
            tenant,
            name,
            now,
        )
        if new and self.limits.namespaces:
            (count,) = tx.row("SELECT COUNT(*) FROM namespaces WHERE tenant = ?", tenant) or (0,)
            if cast("int", count) > self.limits.namespaces:
                raise LimitReached(
                    f"there are {self.limits.namespaces} namespaces already, the limit of --scratch-max-namespaces",
                    hint="use one of them (scratch_namespace_list), or delete some with scratch_namespace_delete",
                    details={"limit": self.limits.namespaces},
                )
        return bool(new)

    def _ensure_namespace(self, tx: Transaction, tenant: str, name: str | None, now: int) -> None:
        if name is not None:
            self.create_namespace(tx, tenant, name, now)

    def delete(self, tx: Transaction, key: NotebookKey) -> bool:
        """Delete the pad with everything that belongs to it. Returns whether there was one."""
        deleted = tx.row("DELETE FROM pads WHERE tenant = ? AND id = ? RETURNING bytes", key.owner, key.id)
        if deleted is None:
            return False
        tx.run("DELETE FROM pad_tags WHERE tenant = ? AND pad = ?", key.owner, key.id)
        tx.run("DELETE FROM pad_uses WHERE tenant = ? AND pad = ?", key.owner, key.id)
        tx.run("UPDATE tenants SET pads = pads - 1, bytes = bytes - ? WHERE tenant = ?", deleted[0], key.owner)
        rows.delete_cells(tx, key)
        rows.delete_schemas(tx, key)
        forget_history(tx, key)
        self.index.remove(tx, key.owner, KIND, key.id)
        return True

    def update(self, tx: Transaction, key: NotebookKey, about: PadDraft, now: int) -> Pad:
        """Replace the pad's fields and metadata; its cells stay."""
        old_pad = require_pad(tx, key)
        pad = replace(old_pad, about=about, updated=now, version=old_pad.version + 1)
        rows.write_pad(tx, key.owner, pad)
        self._ensure_namespace(tx, key.owner, about.namespace, now)
        fields: ChangeSubject = {"fields": changed_fields(old_pad.about, about)}
        added = rows.bytes_of_about(about) - rows.bytes_of_about(old_pad.about)
        self._record(tx, key, pad, PadChange("update", Undo.about(old_pad), fields), added)
        # Entries of cells hold the pad's title, namespace and tags. One cell at a time: together they may be large.
        self.index.put(tx, [_pad_entry(key, pad)])
        for cell_id in CELLS.read_ids(tx, key):
            self.index.put(tx, [_cell_entry(key, pad, cell) for cell in rows.read_cells(tx, key, [cell_id])])
        return pad

    def move_namespace(self, tx: Transaction, tenant: str, pads: Sequence[str], name: str, now: int) -> list[Pad]:
        """Move pads into another namespace, which exists already."""
        keys = [NotebookKey(tenant, pad_id) for pad_id in pads]
        return [self.update(tx, key, replace(require_pad(tx, key).about, namespace=name), now) for key in keys]

    def restore(
        self, tx: Transaction, key: NotebookKey, version: int, guard: Guard, now: int
    ) -> tuple[Pad, State, str]:
        """The pad as it was at an earlier version, as a new version. Returns all of it, and what the change did."""
        old_pad = require_pad(tx, key)
        guard.check_whole(tx, key, old_pad)
        before = state_of(tx, key, old_pad)
        after = about, cells, schemas = Undo.state_at(tx, key, before, old_pad.version, version)
        pad = replace(old_pad, about=about, updated=now, version=old_pad.version + 1, cell_count=len(cells))
        self._replace_all(tx, key, pad, cells, schemas)
        added = bytes_of_state(after) - bytes_of_state(before)
        self._record(tx, key, pad, PadChange(f"restore {version}", Undo.pad(before)), added)
        return pad, after, brief_difference(before, after)

    def _record(self, tx: Transaction, key: NotebookKey, pad: Pad, change: PadChange, added: int) -> None:
        """Write the change that made this version into the history, and count the bytes that were added to the pad."""
        in_history = record(tx, key, pad.version, pad.updated, change)
        add_bytes(tx, key, added, in_history, self.limits)

    # -- cells ---------------------------------------------------------------------------------------------------------------

    def insert(
        self, tx: Transaction, key: NotebookKey, drafts: Sequence[Cell], index: int | None, guard: Guard, now: int
    ) -> tuple[Pad, list[Cell]]:
        """Insert cells at an index, or at the end. The indexes of the drafts are ignored."""
        old_pad = require_pad(tx, key)
        guard.check_version(tx, key, old_pad)
        start = old_pad.cell_count if index is None else index
        if not 0 <= start <= old_pad.cell_count:
            raise InvalidIndex(
                f"index {start} is outside pad {key.id!r}, which has {counted(old_pad.cell_count, 'cell')}",
                hint=f"give 0 to {old_pad.cell_count}, or none to append",
            )
        if self.limits.cells and old_pad.cell_count + len(drafts) > self.limits.cells:
            raise LimitReached(
                f"pad {key.id!r} would have more than {self.limits.cells} cells, the limit of --scratch-max-cells",
                hint="start another pad",
                details={"limit": self.limits.cells},
            )
        cells = [replace(cell, index=start + offset) for offset, cell in enumerate(drafts)]
        if start < old_pad.cell_count:
            CELLS.shift(tx, key, start, len(cells))
        duplicate_id = rows.insert_cells(tx, key, cells)
        if duplicate_id is not None:
            raise InvalidId(
                f"pad {key.id!r} has a cell {duplicate_id!r} already", hint="leave cell_id out, one is made"
            )
        pad = self._next_version(tx, key, old_pad, len(cells), now)
        subject: ChangeSubject = {"cells": [{"cell_id": cell.id, "index": cell.index} for cell in cells]}
        change = PadChange("insert", Undo.removal([cell.id for cell in cells]), subject)
        self._record(tx, key, pad, change, sum(map(rows.bytes_of_cell, cells)))
        self.index.put(tx, [_cell_entry(key, pad, cell) for cell in cells])
        return pad, cells

    def replace_cell(
        self,
        tx: Transaction,
        key: NotebookKey,
        cell_id: str,
        draft: PadCellDraft,
        new_index: int | None,
        guard: Guard,
        now: int,
    ) -> ReplacedCell:
        """Replace a cell's content and move it to `new_index`; metadata, tags and schema that are not given stay."""
        old_pad = require_pad(tx, key)
        guard.check_version(tx, key, old_pad)
        (before,) = self.cells_of(tx, key, [cell_id])
        draft, merged = guard.merged_cell(tx, key, old_pad, before, draft)
        draft = checked_draft(draft, self.limits) if merged else draft
        target = before.index if new_index is None else new_index
        if not 0 <= target < old_pad.cell_count:
            raise InvalidIndex(
                f"new_index {target} is outside pad {key.id!r}, which has {counted(old_pad.cell_count, 'cell')}",
                hint=f"give 0 to {old_pad.cell_count - 1}",
            )
        after = replace(
            before,
            index=target,
            kind=kind_of(draft.language),
            language=draft.language,
            source=draft.content,
            metadata=before.metadata if draft.metadata is None else draft.metadata,
            tags=before.tags if draft.tags is None else draft.tags,
            check=Check(before.check.schema if draft.json_schema is None else draft.json_schema, draft.validate),
        )
        rows.replace_cell(tx, key, before, after)
        pad = self._next_version(tx, key, old_pad, 0, now)
        subject: ChangeSubject = {"cells": [moved_cell(before, after)]}
        added = rows.bytes_of_cell(after) - rows.bytes_of_cell(before)
        self._record(tx, key, pad, PadChange("replace", Undo.replacement(before), subject), added)
        self.index.put(tx, [_cell_entry(key, pad, after)])
        return ReplacedCell(pad, before, after, merged)

    def delete_cell(self, tx: Transaction, key: NotebookKey, cell_id: str, guard: Guard, now: int) -> tuple[Pad, Cell]:
        """Delete a cell. Returns the pad without the cell, and the cell."""
        old_pad = require_pad(tx, key)
        guard.check_version(tx, key, old_pad)
        (before,) = self.cells_of(tx, key, [cell_id])
        guard.check_deletion(tx, key, old_pad, before)
        CELLS.take_out(tx, key, before)
        rows.delete_tags(tx, key, cell_id)
        pad = self._next_version(tx, key, old_pad, -1, now)
        subject: ChangeSubject = {"cells": [moved_cell(before, before)]}
        change = PadChange("delete", Undo.replacement(before), subject)
        self._record(tx, key, pad, change, -rows.bytes_of_cell(before))
        self.index.remove(tx, key.owner, KIND, key.id, cell_id)
        return pad, before

    def cells_of(self, tx: Transaction, key: NotebookKey, ids: Sequence[str]) -> list[Cell]:
        """These cells, in the order of the ids, each once; InvalidId if the pad lacks one."""
        unique_ids = list(dict.fromkeys(ids))
        # An engine may refuse a query for a text that cannot be an id, and no cell has such an id.
        valid_ids = [cell_id for cell_id in unique_ids if ID.fullmatch(cell_id)]
        cells = rows.read_cells(tx, key, valid_ids if len(valid_ids) <= MOST_IDS_IN_QUERY else None)
        by_id = {cell.id: cell for cell in cells}
        missing = [cell_id for cell_id in unique_ids if cell_id not in by_id]
        if missing:
            raise InvalidId(
                f"pad {key.id!r} has no cell {missing[0][:80]!r}",
                hint="scratch_list_cells shows its cells",
                details={"cell_ids": missing[:20]},
            )
        return [by_id[cell_id] for cell_id in unique_ids]

    def note_status(self, tx: Transaction, key: NotebookKey, statuses: Mapping[str, str], version: int) -> None:
        """Store the results of validation, unless the pad has changed since this version."""
        row = tx.row("SELECT version FROM pads WHERE tenant = ? AND id = ?", key.owner, key.id)
        if row is None or row[0] != version:
            return
        for cell_id, status in statuses.items():
            CELLS.write_validation(tx, key, cell_id, status)

    def _next_version(self, tx: Transaction, key: NotebookKey, old_pad: Pad, added_cells: int, now: int) -> Pad:
        """Update the pad's row after a change of its cells or schemas: version, time and number of cells."""
        pad = replace(old_pad, updated=now, version=old_pad.version + 1, cell_count=old_pad.cell_count + added_cells)
        tx.run(
            "UPDATE pads SET updated = ?, version = ?, cell_count = ? WHERE tenant = ? AND id = ?",
            now,
            pad.version,
            pad.cell_count,
            key.owner,
            key.id,
        )
        return pad

    # -- schemas -------------------------------------------------------------------------------------------------------------

    def put_schema(
        self, tx: Transaction, key: NotebookKey, draft: SharedSchema, guard: Guard, *, by_id: bool, now: int
    ) -> WrittenSchema:
        """Add a shared schema, or replace the one with this id or this name. A replaced schema keeps its id.

        It also keeps its name if the draft has only an id.
        """
        old_pad = require_pad(tx, key)
        guard.check_version(tx, key, old_pad)
        schemas = rows.read_schemas(tx, key)
        same_id = next((schema for schema in schemas if by_id and schema.id == draft.id), None)
        if same_id is not None and not draft.name:
            draft = replace(draft, name=same_id.name)
        draft = replace(draft, name=draft.name or draft.id)
        same_name = next((schema for schema in schemas if schema.name == draft.name), None)
        if same_id is not None and same_name is not None and same_name.id != same_id.id:
            raise InvalidArgument(f"pad {key.id!r} has another schema named {draft.name!r}", hint="choose another name")
        previous = same_id or same_name
        if by_id and same_id is None and same_name is not None:
            raise InvalidArgument(
                f"the schema {draft.name!r} has the id {same_name.id!r}, not {draft.id!r}", hint="leave the id out"
            )
        if previous is None and self.limits.schemas and len(schemas) >= self.limits.schemas:
            raise LimitReached(
                f"pad {key.id!r} has {counted(len(schemas), 'schema')} already, the limit of --scratch-max-schemas",
                hint="change one of them, delete one with scratch_delete_schema, or use another pad",
                details={"limit": self.limits.schemas},
            )
        if previous is not None:
            guard.check_schema(tx, key, old_pad, previous)
        stored = replace(draft, id=previous.id) if previous else draft
        rows.write_schema(tx, key, stored)
        pad = self._next_version(tx, key, old_pad, 0, now)
        subject: ChangeSubject = {"schema": {"id": stored.id, "name": stored.name}}
        added = rows.bytes_of_schema(stored) - rows.bytes_of_schema(previous)
        self._record(tx, key, pad, PadChange("schema", Undo.schema(stored.id, previous), subject), added)
        return WrittenSchema(stored, pad, brief_schemas([previous] if previous else [], [stored]))

    def delete_schema(
        self, tx: Transaction, key: NotebookKey, id_or_name: str, guard: Guard, now: int
    ) -> WrittenSchema:
        old_pad = require_pad(tx, key)
        guard.check_version(tx, key, old_pad)
        schema = schema_named(rows.read_schemas(tx, key), key, id_or_name)
        guard.check_schema(tx, key, old_pad, schema)
        rows.delete_schemas(tx, key, schema.id)
        pad = self._next_version(tx, key, old_pad, 0, now)
        subject: ChangeSubject = {"schema": {"id": schema.id, "name": schema.name}}
        change = PadChange("schema", Undo.schema(schema.id, schema), subject)
        self._record(tx, key, pad, change, -rows.bytes_of_schema(schema))
        return WrittenSchema(schema, pad, brief_schemas([schema], []))


def require_pad(tx: Transaction, key: NotebookKey) -> Pad:
    pad = rows.read_pad(tx, key)
    if pad is None:
        raise no_pad(key.id)
    return pad


def schema_named(schemas: Sequence[SharedSchema], key: NotebookKey, id_or_name: str) -> SharedSchema:
    """The schema of this id or name; if there is none, the one whose id differs only in hyphens or case."""
    plain = id_or_name.replace("-", "").lower()
    for schema in schemas:
        if id_or_name in (schema.id, schema.name):
            return schema
    for schema in schemas:
        if schema.id.replace("-", "").lower() == plain:
            return schema
    raise NotFound(f"pad {key.id!r} has no schema {id_or_name[:80]!r}", hint="scratch_list_schemas shows them")


def _pad_entry(key: NotebookKey, pad: Pad) -> Entry:
    about = pad.about
    text = "\n".join(part for part in (about.description, about.summary) if part)
    return Entry(Key(key.owner, KIND, key.id), text, about.title or "", about.namespace or "", about.tags)


def _cell_entry(key: NotebookKey, pad: Pad, cell: Cell) -> Entry:
    tags = tuple(dict.fromkeys((*cell.tags, *pad.about.tags)))
    entry_key = Key(key.owner, KIND, key.id, cell.id)
    return Entry(entry_key, cell.source, pad.about.title or "", pad.about.namespace or "", tags, cell.language)
