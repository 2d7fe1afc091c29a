"""The pads of one workspace: checks arguments, runs the transactions, validates cells and announces changes."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cellwright.core.errors import CellwrightError, InvalidArgument
from cellwright.core.events import event_keys
from cellwright.core.resources import Changes
from cellwright.notebook.model import Cell
from cellwright.scratch import listing, rows
from cellwright.scratch.differences import (
    PadDifference,
    brief_cells,
    brief_removal,
    brief_replacement,
    brief_words,
    change_at,
    changes_with_diffs,
    is_cut,
)
from cellwright.scratch.drafts import checked_draft, new_cells, pad_draft, schema_draft
from cellwright.scratch.history import PadVersion, State
from cellwright.scratch.model import (
    Pad,
    PadCellDraft,
    PadLimits,
    SharedSchema,
    checked_id,
    checked_namespace,
    checked_namespace_filter,
    checked_tag_filter,
    new_id,
    no_pad,
    not_in_namespaces,
)
from cellwright.scratch.rows import CELLS
from cellwright.scratch.sight.guard import Guard
from cellwright.scratch.sight.memory import UNSEEN, Basis, PadSights, cell_part, schema_part
from cellwright.scratch.store import CreatedPad, PadStore, require_pad, schema_named
from cellwright.scratch.uses import Uses, idle_since, touch
from cellwright.scratch.validation.checking import Checking
from cellwright.scratch.validation.model import Validation
from cellwright.scratch.validation.validators import Validators
from cellwright.scratch.views import PadView, WrittenPad, WrittenSchema, canonical, union
from cellwright.scratch.watched import Watched
from cellwright.storage.cells import NotebookKey
from cellwright.storage.database import Database, Transaction
from cellwright.storage.search.port import Found, Mode, Query, SearchIndex
from cellwright.workers.conversions import Conversions

log = logging.getLogger(__name__)

SHOWN_WHOLE = 8
"""A reply to a change shows all cells of a pad with at most so many; of a larger pad only those that were changed."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Which pads are deleted when, and how long a validation may take."""

    eviction: str = "discard"
    """`discard`: at the limit the least recently used pad is deleted. `fail`: a create is refused. `preempt`: idle pads are deleted."""
    preempt_age: float = 86_400.0
    preempt_interval: float = 600.0
    validation_seconds: float = 10.0


class Pads:
    """The service of the scratch tools. Every method takes the tenant and sees only the pads of this tenant."""

    def __init__(
        self,
        database: Database,
        index: SearchIndex,
        validators: Validators,
        changes: Changes,
        *,
        limits: PadLimits,
        policy: Policy,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self.index = index
        self._limits = limits
        self._policy = policy
        self._clock = clock
        self._store = PadStore(index, limits, evicts=policy.eviction == "discard")
        self.conversions = Conversions(validators.pool)
        self._checking = Checking(validators, policy.validation_seconds)
        self._uses = Uses(database, self._now)
        self._sweeping: asyncio.Task[None] | None = None
        self.watched = Watched(changes)
        self.sights = PadSights()

    # -- whole pads ----------------------------------------------------------------------------------------------------------

    async def create(
        self,
        tenant: str,
        pad_id: str | None,
        metadata: Mapping[str, object],
        drafts: Sequence[PadCellDraft],
        basis: Basis = UNSEEN,
    ) -> WrittenPad:
        """Create a pad, all of it or nothing. One of this id is reset if the caller expects one, else Conflict."""
        key = NotebookKey(tenant, new_id() if pad_id is None else checked_id(pad_id))
        about, schemas = pad_draft(metadata, self._limits)
        for schema in schemas:
            await self._checking.check_schema(tenant, schema)
        cells = new_cells(drafts, self._limits)
        guard, pending_uses, now = Guard(self.sights, basis), self._uses.pending(), self._now()
        self._start_sweeping()

        def work(tx: Transaction) -> CreatedPad:
            touch(tx, pending_uses)
            return self._store.create(tx, key, about, cells, schemas, guard, now)

        created = await self._database.write(work)
        self._uses.forget(pending_uses)
        for evicted_id in created.evicted:
            self._announce_eviction(NotebookKey(tenant, evicted_id), "discard")
        self.watched.replaced(key)
        self.sights.note_all(basis.session, key, created.pad, created.cells, schemas)
        view = PadView(created.pad, created.cells, union(cell.tags for cell in created.cells), tuple(schemas))
        validation = await self._check_written(key, created.pad, created.cells, schemas)
        evicted = tuple(created.evicted)
        return WrittenPad(view, validation=validation, reset=created.reset, evicted=evicted, diff=created.diff)

    async def read(
        self,
        tenant: str,
        pad_id: str,
        *,
        cell_ids: Sequence[str] | None = None,
        tags: Sequence[str] = (),
        namespaces: Sequence[str] | None = None,
        with_schemas: bool = False,
    ) -> PadView:
        """The pad with its cells: those of these ids and of these tags, where any are given."""
        key = NotebookKey(tenant, checked_id(pad_id))
        tag_filter = set(checked_tag_filter(tags))
        namespace_filter = None if namespaces is None else checked_namespace_filter(namespaces)

        def work(tx: Transaction) -> PadView:
            pad = rows.read_pad(tx, key)
            if namespace_filter is not None and (pad is None or pad.about.namespace not in namespace_filter):
                raise not_in_namespaces(key.id)
            if pad is None:
                raise no_pad(key.id)
            all_tags = rows.read_tags(tx, key)
            cells = (
                rows.read_cells(tx, key, tags=all_tags) if cell_ids is None else self._store.cells_of(tx, key, cell_ids)
            )
            if tag_filter:
                cells = [cell for cell in cells if tag_filter & set(cell.tags)]
            schemas = tuple(rows.read_schemas(tx, key)) if with_schemas else ()
            return PadView(pad, cells, union(all_tags.values()), schemas)

        view = await self._database.read(work)
        self._uses.note(key)
        return view

    async def delete(self, tenant: str, pad_id: str, basis: Basis = UNSEEN) -> tuple[bool, str]:
        """Delete a pad. Returns whether there was one, and what went with it as lines."""
        key, guard = NotebookKey(tenant, checked_id(pad_id)), Guard(self.sights, basis)

        def work(tx: Transaction) -> tuple[bool, str]:
            pad = rows.read_pad(tx, key)
            if pad is None:
                return False, ""
            guard.check_whole(tx, key, pad)
            diff = brief_removal(tx, key)
            return self._store.delete(tx, key), diff

        deleted, diff = await self._database.write(work)
        self._uses.drop(key)
        if deleted:
            self.watched.replaced(key)
        return deleted, diff

    async def update(
        self, tenant: str, pad_id: str, metadata: Mapping[str, object], basis: Basis = UNSEEN
    ) -> WrittenPad:
        """Change the pad's fields and metadata: given values replace, null removes, the rest stays."""
        key, guard, now = NotebookKey(tenant, checked_id(pad_id)), Guard(self.sights, basis), self._now()

        def work(tx: Transaction) -> WrittenPad:
            old_pad = require_pad(tx, key)
            guard.check_version(tx, key, old_pad)
            new_fields, merged_with = guard.merged_words(tx, key, old_pad, dict(metadata))
            before = old_pad.about
            stored_fields = {name: value for name, value in canonical(before).items() if value is not None}
            merged = {**before.metadata, **stored_fields, **new_fields}
            for name in [name for name, value in new_fields.items() if value is None]:
                del merged[name]
            about, schemas = pad_draft(merged, self._limits)
            stored_schemas = rows.read_schemas(tx, key)
            bodies = {schema.name: schema.schema for schema in stored_schemas}
            if any(bodies.get(schema.name) != schema.schema for schema in schemas):
                raise InvalidArgument("schemas are not changed here", hint="use scratch_upsert_schema")
            view = self._changed_view(tx, key, self._store.update(tx, key, about, now), ())
            view = replace(view, schemas=tuple(stored_schemas))
            return WrittenPad(view, frozenset(), diff=brief_words(before, about), merged=merged_with)

        outcome = await self._database.write(work)
        self.watched.changed(key)
        self.watched.list_changed(tenant)
        self.sights.note_change(basis.session, key, outcome.view.pad)
        self.sights.note_about(basis.session, key, outcome.view.pad)
        return outcome

    async def page(
        self, tenant: str, namespaces: Sequence[str], tags: Sequence[str], limit: int, cursor: str | None
    ) -> listing.PadPage:
        tag_filter, namespace_filter = checked_tag_filter(tags), checked_namespace_filter(namespaces)
        return await self._database.read(
            lambda tx: listing.list_pads(tx, tenant, namespace_filter, tag_filter, limit, cursor)
        )

    async def history(self, tenant: str, pad_id: str, limit: int) -> tuple[Pad, list[PadVersion]]:
        key = NotebookKey(tenant, checked_id(pad_id))

        def work(tx: Transaction) -> tuple[Pad, list[PadVersion]]:
            pad = require_pad(tx, key)
            return pad, changes_with_diffs(tx, key, pad, limit)

        return await self._database.read(work)

    async def change(self, tenant: str, pad_id: str, version: int) -> PadDifference:
        """What one change was about, with the lines that it removed and added."""
        key = NotebookKey(tenant, checked_id(pad_id))
        return await self._database.read(lambda tx: change_at(tx, key, require_pad(tx, key), version))

    async def restore(self, tenant: str, pad_id: str, version: int, basis: Basis = UNSEEN) -> WrittenPad:
        key, guard, now = NotebookKey(tenant, checked_id(pad_id)), Guard(self.sights, basis), self._now()

        def work(tx: Transaction) -> tuple[WrittenPad, State]:
            pad, state, diff = self._store.restore(tx, key, version, guard, now)
            view = self._changed_view(tx, key, pad, None)
            return WrittenPad(replace(view, schemas=tuple(rows.read_schemas(tx, key))), diff=diff), state

        outcome, state = await self._database.write(work)
        self.watched.replaced(key)
        self.sights.note_change(basis.session, key, outcome.view.pad)
        # A restored version may hold what the caller never saw. They know it only if they knew the pad and the diff shows all.
        if not is_cut(outcome.diff) and self.sights.knows(basis.session, key, outcome.view.pad):
            self.sights.note_all(basis.session, key, outcome.view.pad, *state[1:])
        return outcome

    # -- cells ---------------------------------------------------------------------------------------------------------------

    async def insert(
        self, tenant: str, pad_id: str, draft: PadCellDraft, index: int | None = None, basis: Basis = UNSEEN
    ) -> WrittenPad:
        """Insert a cell at this index, or at the end."""
        key, guard, now = NotebookKey(tenant, checked_id(pad_id)), Guard(self.sights, basis), self._now()
        (cell,) = new_cells([draft], self._limits)

        def work(tx: Transaction) -> WrittenPad:
            pad, cells = self._store.insert(tx, key, [cell], index, guard, now)
            view = self._changed_view(tx, key, pad, [cell.id])
            return WrittenPad(view, frozenset((cell.id,)), diff=brief_cells([], cells))

        outcome = await self._database.write(work)
        self.watched.changed(key)
        self._note_cell(basis, key, outcome, cell)
        return await self._validated(key, outcome, cell.id, check=cell.check.on_write)

    async def replace_cell(
        self,
        tenant: str,
        pad_id: str,
        cell_id: str,
        draft: PadCellDraft,
        new_index: int | None = None,
        basis: Basis = UNSEEN,
    ) -> WrittenPad:
        key, guard, now = NotebookKey(tenant, checked_id(pad_id)), Guard(self.sights, basis), self._now()
        checked_cell = checked_draft(draft, self._limits)

        def work(tx: Transaction) -> tuple[WrittenPad, Cell]:
            replacement = self._store.replace_cell(tx, key, cell_id, checked_cell, new_index, guard, now)
            view = self._changed_view(tx, key, replacement.pad, [cell_id])
            diff = brief_replacement(replacement.before, replacement.after)
            return WrittenPad(view, frozenset((cell_id,)), diff=diff, merged=replacement.merged), replacement.after

        outcome, after = await self._database.write(work)
        self.watched.changed(key, cell_id)
        self._note_cell(basis, key, outcome, after)
        return await self._validated(key, outcome, cell_id, check=draft.validate)

    async def delete_cell(self, tenant: str, pad_id: str, cell_id: str, basis: Basis = UNSEEN) -> WrittenPad:
        key, guard, now = NotebookKey(tenant, checked_id(pad_id)), Guard(self.sights, basis), self._now()

        def work(tx: Transaction) -> WrittenPad:
            pad, deleted = self._store.delete_cell(tx, key, cell_id, guard, now)
            view = self._changed_view(tx, key, pad, ())
            return WrittenPad(view, frozenset(), deleted=deleted, diff=brief_cells([deleted], []))

        outcome = await self._database.write(work)
        self.watched.changed(key, cell_id)
        self.sights.note_change(basis.session, key, outcome.view.pad)
        self.sights.forget(basis.session, key, cell_part(cell_id))
        return outcome

    def _note_cell(self, basis: Basis, key: NotebookKey, outcome: WrittenPad, cell: Cell) -> None:
        """Note that the caller knows this cell: it is as they wrote it, or the answer shows what else is in it."""
        self.sights.note_change(basis.session, key, outcome.view.pad)
        if not is_cut(outcome.merged):
            self.sights.note_cells(basis.session, key, outcome.view.pad, [cell])

    def _changed_view(self, tx: Transaction, key: NotebookKey, pad: Pad, touched_ids: Sequence[str] | None) -> PadView:
        """The pad for the reply to a change: all cells of a small pad, else only those that were touched (None: all)."""
        tags = rows.read_tags(tx, key)
        cell_ids = None if touched_ids is None or pad.cell_count <= SHOWN_WHOLE else touched_ids
        cells = [] if cell_ids is not None and not cell_ids else CELLS.read_outline(tx, key, cell_ids, tags)
        return PadView(pad, cells, union(tags.values()))

    async def _validated(self, key: NotebookKey, outcome: WrittenPad, cell_id: str, *, check: bool) -> WrittenPad:
        """The outcome of a change of one cell, with its validation if `check` is set."""
        if not check:
            return outcome
        cells, schemas = await self._database.read(
            lambda tx: (rows.read_cells(tx, key, [cell_id]), rows.read_schemas(tx, key))
        )
        return replace(outcome, validation=await self._check_written(key, outcome.view.pad, cells, schemas))

    # -- validation ----------------------------------------------------------------------------------------------------------

    async def validate(self, tenant: str, pad_id: str, cell_ids: Sequence[str] | None) -> list[tuple[Cell, Validation]]:
        """Check cells as they are stored; nothing is changed."""
        key = NotebookKey(tenant, checked_id(pad_id))

        def work(tx: Transaction) -> tuple[list[Cell], list[SharedSchema]]:
            require_pad(tx, key)
            cells = self._store.cells_of(tx, key, cell_ids) if cell_ids else rows.read_cells(tx, key)
            return cells, rows.read_schemas(tx, key)

        cells, schemas = await self._database.read(work)
        results = await self._checking.check(tenant, cells, schemas)
        return list(zip(cells, results, strict=True))

    async def _check_written(
        self, key: NotebookKey, pad: Pad, cells: Sequence[Cell], schemas: Sequence[SharedSchema]
    ) -> list[Validation] | None:
        """Check those cells that are to be checked when they are written; None if there are none."""
        to_check = [cell for cell in cells if cell.check.on_write]
        if not to_check:
            return None
        results, statuses = await self._checking.check_stored(key.owner, to_check, schemas)
        if statuses:
            await self._database.write(lambda tx: self._store.note_status(tx, key, statuses, pad.version))
        return results

    # -- schemas -------------------------------------------------------------------------------------------------------------

    async def schemas(self, tenant: str, pad_id: str) -> tuple[Pad, list[SharedSchema]]:
        key = NotebookKey(tenant, checked_id(pad_id))
        return await self._database.read(lambda tx: (require_pad(tx, key), rows.read_schemas(tx, key)))

    async def schema(self, tenant: str, pad_id: str, id_or_name: str) -> tuple[Pad, SharedSchema]:
        pad, schemas = await self.schemas(tenant, pad_id)
        return pad, schema_named(schemas, NotebookKey(tenant, pad_id), id_or_name)

    async def put_schema(
        self, tenant: str, pad_id: str, fields: Mapping[str, object], basis: Basis = UNSEEN
    ) -> WrittenSchema:
        key, guard, now = NotebookKey(tenant, checked_id(pad_id)), Guard(self.sights, basis), self._now()
        draft, by_id = schema_draft(fields, self._limits)
        await self._checking.check_schema(tenant, draft)
        outcome = await self._database.write(
            lambda tx: self._store.put_schema(tx, key, draft, guard, by_id=by_id, now=now)
        )
        self.watched.changed(key)
        self.sights.note_change(basis.session, key, outcome.pad)
        self.sights.note_schemas(basis.session, key, outcome.pad, [outcome.schema])
        return outcome

    async def delete_schema(self, tenant: str, pad_id: str, id_or_name: str, basis: Basis = UNSEEN) -> WrittenSchema:
        key, guard, now = NotebookKey(tenant, checked_id(pad_id)), Guard(self.sights, basis), self._now()
        outcome = await self._database.write(lambda tx: self._store.delete_schema(tx, key, id_or_name, guard, now))
        self.watched.changed(key)
        self.sights.note_change(basis.session, key, outcome.pad)
        self.sights.forget(basis.session, key, schema_part(outcome.schema.id))
        return outcome

    # -- tags, namespaces, search --------------------------------------------------------------------------------------------

    async def tags(self, tenant: str, namespaces: Sequence[str]) -> tuple[list[str], list[str]]:
        namespace_filter = checked_namespace_filter(namespaces)
        return await self._database.read(lambda tx: listing.all_tags(tx, tenant, namespace_filter))

    async def namespaces(self, tenant: str) -> list[listing.NamespaceEntry]:
        return await self._database.read(lambda tx: listing.list_namespaces(tx, tenant))

    async def create_namespace(self, tenant: str, name: str) -> tuple[str, bool]:
        checked_name, now = checked_namespace(name), self._now()
        return checked_name, await self._database.write(
            lambda tx: self._store.create_namespace(tx, tenant, checked_name, now)
        )

    async def rename_namespace(
        self, tenant: str, old_name: str, new_name: str, *, migrate: bool, session: str = ""
    ) -> tuple[str, int]:
        checked_name, now = checked_namespace(new_name), self._now()
        moved = await self._database.write(
            lambda tx: listing.rename_namespace(
                self._store, tx, tenant, old_name.strip(), checked_name, migrate=migrate, now=now
            )
        )
        for pad in moved:
            key = NotebookKey(tenant, pad.id)
            self.watched.changed(key)
            self.sights.note_change(session, key, pad)
        self.watched.list_changed(tenant)
        return checked_name, len(moved)

    async def delete_namespace(self, tenant: str, name: str, *, with_pads: bool) -> tuple[bool, int]:
        deleted, pad_ids = await self._database.write(
            lambda tx: listing.delete_namespace(self._store, tx, tenant, name.strip(), with_pads=with_pads)
        )
        for pad_id in pad_ids:
            self.watched.replaced(NotebookKey(tenant, pad_id))
        return deleted, len(pad_ids)

    async def search(
        self, tenant: str, text: str, namespaces: Sequence[str], tags: Sequence[str], limit: int, mode: Mode
    ) -> Found:
        tag_filter, namespace_filter = checked_tag_filter(tags), checked_namespace_filter(namespaces)
        return await self.index.search(Query(tenant, text, ("pad",), namespace_filter, tag_filter, limit, mode))

    # -- idle pads -----------------------------------------------------------------------------------------------------------

    def _start_sweeping(self) -> None:
        """Start the task that deletes idle pads, if the policy asks for it and it does not run."""
        if self._policy.eviction == "preempt" and (self._sweeping is None or self._sweeping.done()):
            self._sweeping = asyncio.ensure_future(self._keep_sweeping())

    async def _keep_sweeping(self) -> None:
        while True:
            await asyncio.sleep(self._policy.preempt_interval)
            await self.sweep_once()

    async def sweep_once(self) -> int:
        """Delete the pads of all tenants that were not used for long. Returns how many were deleted."""
        await self._uses.write()
        oldest = self._now() - int(self._policy.preempt_age * 1e6)

        def work(tx: Transaction) -> list[NotebookKey]:
            keys = idle_since(tx, oldest)
            for key in keys:
                self._store.delete(tx, key)
            return keys

        try:
            deleted = await self._database.write(work)
        except CellwrightError as error:
            log.warning("pad_sweep_failed", extra=event_keys(error=error.code))
            return 0
        for key in deleted:
            self._announce_eviction(key, "preempt")
        return len(deleted)

    def _announce_eviction(self, key: NotebookKey, policy: str) -> None:
        log.info("pad_evicted", extra=event_keys(pad=key.id, principal=key.owner, policy=policy))
        self.watched.replaced(key)

    def _now(self) -> int:
        return int(self._clock() * 1e6)

    async def close(self) -> None:
        """Stop the sweeping and write the uses that are not written yet."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        await self._uses.close()
