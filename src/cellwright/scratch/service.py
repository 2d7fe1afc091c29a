"""Scratch notebooks of one workspace: checks what is given, runs the transactions, validates, tells who watches."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cellwright.core.errors import CellwrightError, InvalidArgument
from cellwright.core.resources import Changes
from cellwright.scratch import listing, rows
from cellwright.scratch.checking import Checking
from cellwright.scratch.drafts import checked_draft, new_cells, pad_draft, schema_draft
from cellwright.scratch.history import changes as changes_of
from cellwright.scratch.model import (
    Cell,
    CellDraft,
    JsonObject,
    Limits,
    Pad,
    PadDraft,
    SharedSchema,
    checked_id,
    checked_namespace,
    checked_namespaces,
    no_pad,
    not_in_namespaces,
    wanted_tags,
)
from cellwright.scratch.rows import PadKey
from cellwright.scratch.store import Created, PadStore, existing, new_id, schema_named
from cellwright.scratch.uses import Uses, idle_since, touch
from cellwright.scratch.validation.model import Validation
from cellwright.scratch.validation.validators import Validators
from cellwright.scratch.views import View, Written, canonical, union
from cellwright.scratch.watched import Watched
from cellwright.storage.database import Database, Transaction
from cellwright.storage.search import Found, Mode, Query, SearchIndex

log = logging.getLogger(__name__)

SHOWN_CELLS = 50


@dataclass(frozen=True, slots=True)
class Policy:
    """What happens to pads that nobody uses."""

    eviction: str = "discard"
    """`discard`: at capacity the least recently used goes. `fail`: a create is refused. `preempt`: idle ones go by and by."""
    preempt_age: float = 86_400.0
    preempt_interval: float = 600.0
    validation_seconds: float = 10.0


class Pads:
    """The service of the scratch tools. Every method takes the tenant, and no other pad is ever seen by it."""

    def __init__(
        self,
        database: Database,
        index: SearchIndex,
        validators: Validators,
        changes: Changes,
        *,
        limits: Limits,
        policy: Policy,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._index = index
        self._limits = limits
        self._policy = policy
        self._clock = clock
        self._store = PadStore(index, limits, evicts=policy.eviction == "discard")
        self._checking = Checking(validators, policy.validation_seconds)
        self._uses = Uses(database, self._now)
        self._sweeping: asyncio.Task[None] | None = None
        self.watched = Watched(changes)

    # -- whole pads ----------------------------------------------------------------------------------------------------------

    async def create(
        self, tenant: str, pad_id: str | None, metadata: Mapping[str, object], drafts: Sequence[CellDraft]
    ) -> Written:
        """A new pad, or the pad of this id reset; refused as a whole or done as a whole."""
        return await self._create(tenant, pad_id, metadata, drafts, self._store.create)

    async def create_new(
        self, tenant: str, pad_id: str | None, metadata: Mapping[str, object], drafts: Sequence[CellDraft]
    ) -> Written:
        """A new pad; Conflict if there is one of this id, also if it came a moment ago."""
        return await self._create(tenant, pad_id, metadata, drafts, self._store.create_new)

    async def _create(
        self,
        tenant: str,
        pad_id: str | None,
        metadata: Mapping[str, object],
        drafts: Sequence[CellDraft],
        store: Callable[[Transaction, PadKey, PadDraft, Sequence[Cell], Sequence[SharedSchema], int], Created],
    ) -> Written:
        key = PadKey(tenant, new_id() if pad_id is None else checked_id(pad_id))
        about, schemas = pad_draft(metadata, self._limits)
        for schema in schemas:
            await self._checking.check_schema(tenant, schema)
        cells = new_cells(drafts, self._limits)
        noted, now = self._uses.noted(), self._now()
        self._sweep_if_wanted()

        def work(tx: Transaction) -> Created:
            touch(tx, noted)
            return store(tx, key, about, cells, schemas, now)

        made = await self._database.write(work)
        self._uses.forget(noted)
        for evicted in made.evicted:
            log.info("pad_evicted pad=%s policy=discard", evicted)
            self.watched.replaced(PadKey(tenant, evicted))
        self.watched.replaced(key)
        shown = View(made.pad, made.cells[:SHOWN_CELLS], union(cell.tags for cell in made.cells))
        checked = await self._check_written(key, made.pad, made.cells, schemas)
        return Written(shown, checked, made.reset, tuple(made.evicted))

    async def read(
        self,
        tenant: str,
        pad_id: str,
        *,
        cell_ids: Sequence[str] | None = None,
        tags: Sequence[str] = (),
        namespaces: Sequence[str] | None = None,
    ) -> View:
        """The pad with the cells asked for: by id first, then by tag."""
        key = PadKey(tenant, checked_id(pad_id))
        wanted = set(wanted_tags(tags))
        within = None if namespaces is None else checked_namespaces(namespaces)

        def work(tx: Transaction) -> View:
            pad = rows.read_pad(tx, key)
            if within is not None and (pad is None or pad.about.namespace not in within):
                raise not_in_namespaces(key.id)
            if pad is None:
                raise no_pad(key.id)
            all_tags = rows.read_tags(tx, key)
            found = (
                rows.read_cells(tx, key, tags=all_tags) if cell_ids is None else self._store.cells_of(tx, key, cell_ids)
            )
            kept = [cell for cell in found if not wanted or wanted & set(cell.tags)]
            return View(pad, kept, union(all_tags.values()))

        view = await self._database.read(work)
        self._uses.note(key)
        return view

    async def delete(self, tenant: str, pad_id: str) -> bool:
        key = PadKey(tenant, checked_id(pad_id))
        deleted = await self._database.write(lambda tx: self._store.delete(tx, key))
        self._uses.drop(key)
        if deleted:
            self.watched.replaced(key)
        return deleted

    async def update(self, tenant: str, pad_id: str, given: Mapping[str, object]) -> Written:
        """Other words about the pad: what is given replaces, null removes, the rest stays."""
        key, now = PadKey(tenant, checked_id(pad_id)), self._now()

        def work(tx: Transaction) -> View:
            before = existing(tx, key).about
            known = {name: value for name, value in canonical(before).items() if value is not None}
            merged: JsonObject = {**before.metadata, **known, **given}
            for name in [name for name, value in given.items() if value is None]:
                del merged[name]
            about, schemas = pad_draft(merged, self._limits)
            if schemas:
                raise InvalidArgument("schemas are not changed here", hint="use scratch_upsert_schema")
            return self._shown(tx, key, self._store.update(tx, key, about, now))

        written = await self._written(key, work)
        self.watched.listed(tenant)
        return written

    async def page(
        self, tenant: str, namespaces: Sequence[str], tags: Sequence[str], limit: int, cursor: str | None
    ) -> listing.Page:
        wanted, within = wanted_tags(tags), checked_namespaces(namespaces)
        return await self._database.read(lambda tx: listing.list_pads(tx, tenant, within, wanted, limit, cursor))

    async def history(self, tenant: str, pad_id: str, limit: int) -> tuple[Pad, list[JsonObject]]:
        key = PadKey(tenant, checked_id(pad_id))
        return await self._database.read(lambda tx: (existing(tx, key), changes_of(tx, key, limit)))

    async def restore(self, tenant: str, pad_id: str, version: int) -> Written:
        key, now = PadKey(tenant, checked_id(pad_id)), self._now()
        view = await self._database.write(lambda tx: self._shown(tx, key, self._store.restore(tx, key, version, now)))
        self.watched.replaced(key)
        return Written(view)

    # -- cells ---------------------------------------------------------------------------------------------------------------

    async def insert(self, tenant: str, pad_id: str, draft: CellDraft, index: int | None = None) -> Written:
        """A new cell at this place, or at the end."""
        key, now = PadKey(tenant, checked_id(pad_id)), self._now()
        (cell,) = new_cells([draft], self._limits)

        def work(tx: Transaction) -> View:
            return self._shown(tx, key, self._store.insert(tx, key, [cell], index, now))

        return await self._written(key, work, check=cell.id if cell.validate else None)

    async def replace_cell(
        self, tenant: str, pad_id: str, cell_id: str, draft: CellDraft, new_index: int | None = None
    ) -> Written:
        key, now = PadKey(tenant, checked_id(pad_id)), self._now()
        checked = checked_draft(draft, self._limits)

        def work(tx: Transaction) -> View:
            pad, _cell = self._store.replace_cell(tx, key, cell_id, checked, new_index, now)
            return self._shown(tx, key, pad)

        return await self._written(key, work, check=cell_id if draft.validate else None, cell=cell_id)

    async def delete_cell(self, tenant: str, pad_id: str, cell_id: str) -> Written:
        key, now = PadKey(tenant, checked_id(pad_id)), self._now()
        return await self._written(
            key, lambda tx: self._shown(tx, key, self._store.delete_cell(tx, key, cell_id, now)), cell=cell_id
        )

    def _shown(self, tx: Transaction, key: PadKey, pad: Pad) -> View:
        """A reply about a long pad shows its last cells; listing shows them all."""
        tags = rows.read_tags(tx, key)
        return View(pad, rows.read_last_cells(tx, key, SHOWN_CELLS, tags), union(tags.values()))

    async def _written(
        self,
        key: PadKey,
        work: Callable[[Transaction], View],
        *,
        check: str | None = None,
        cell: str | None = None,
    ) -> Written:
        view = await self._database.write(work)
        self.watched.changed(key, cell)
        if check is None:
            return Written(view)
        cells, schemas = await self._database.read(
            lambda tx: (rows.read_cells(tx, key, [check]), rows.read_schemas(tx, key))
        )
        return Written(view, await self._check_written(key, view.pad, cells, schemas))

    # -- validation ----------------------------------------------------------------------------------------------------------

    async def validate(self, tenant: str, pad_id: str, cell_ids: Sequence[str] | None) -> list[tuple[Cell, Validation]]:
        """Check cells as they are; nothing is changed by it."""
        key = PadKey(tenant, checked_id(pad_id))

        def work(tx: Transaction) -> tuple[list[Cell], list[SharedSchema]]:
            existing(tx, key)
            found = rows.read_cells(tx, key) if not cell_ids else self._store.cells_of(tx, key, cell_ids)
            return found, rows.read_schemas(tx, key)

        cells, schemas = await self._database.read(work)
        results = await self._checking.check(tenant, cells, schemas)
        return list(zip(cells, results, strict=True))

    async def _check_written(
        self, key: PadKey, pad: Pad, cells: Sequence[Cell], schemas: Sequence[SharedSchema]
    ) -> list[Validation] | None:
        """Check what was just stored, where the caller wanted it."""
        wanted = [cell for cell in cells if cell.validate]
        if not wanted:
            return None
        results, statuses = await self._checking.check_stored(key.tenant, wanted, schemas)
        if statuses:
            await self._database.write(lambda tx: self._store.note_status(tx, key, statuses, pad.version))
        return results

    # -- schemas -------------------------------------------------------------------------------------------------------------

    async def schemas(self, tenant: str, pad_id: str) -> list[SharedSchema]:
        key = PadKey(tenant, checked_id(pad_id))

        def work(tx: Transaction) -> list[SharedSchema]:
            existing(tx, key)
            return rows.read_schemas(tx, key)

        return await self._database.read(work)

    async def schema(self, tenant: str, pad_id: str, named: str) -> SharedSchema:
        return schema_named(await self.schemas(tenant, pad_id), PadKey(tenant, pad_id), named)

    async def put_schema(self, tenant: str, pad_id: str, given: Mapping[str, object]) -> SharedSchema:
        key, now = PadKey(tenant, checked_id(pad_id)), self._now()
        draft, by_id = schema_draft(given, self._limits)
        await self._checking.check_schema(tenant, draft)
        stored = await self._database.write(lambda tx: self._store.put_schema(tx, key, draft, by_id=by_id, now=now))
        self.watched.changed(key)
        return stored

    async def delete_schema(self, tenant: str, pad_id: str, named: str) -> SharedSchema:
        key, now = PadKey(tenant, checked_id(pad_id)), self._now()
        gone = await self._database.write(lambda tx: self._store.delete_schema(tx, key, named, now))
        self.watched.changed(key)
        return gone

    # -- tags, namespaces, search --------------------------------------------------------------------------------------------

    async def tags(self, tenant: str, namespaces: Sequence[str]) -> tuple[list[str], list[str]]:
        within = checked_namespaces(namespaces)
        return await self._database.read(lambda tx: listing.all_tags(tx, tenant, within))

    async def namespaces(self, tenant: str) -> list[JsonObject]:
        return await self._database.read(lambda tx: listing.list_namespaces(tx, tenant))

    async def create_namespace(self, tenant: str, name: str) -> tuple[str, bool]:
        checked, now = checked_namespace(name), self._now()
        return checked, await self._database.write(lambda tx: self._store.create_namespace(tx, tenant, checked, now))

    async def rename_namespace(self, tenant: str, old: str, new: str, *, migrate: bool) -> tuple[str, int]:
        checked, now = checked_namespace(new), self._now()
        moved = await self._database.write(
            lambda tx: listing.rename_namespace(self._store, tx, tenant, old.strip(), checked, migrate=migrate, now=now)
        )
        for pad in moved:
            self.watched.changed(PadKey(tenant, pad))
        self.watched.listed(tenant)
        return checked, len(moved)

    async def delete_namespace(self, tenant: str, name: str, *, with_pads: bool) -> tuple[bool, int]:
        deleted, pads = await self._database.write(
            lambda tx: listing.delete_namespace(self._store, tx, tenant, name.strip(), with_pads=with_pads)
        )
        for pad in pads:
            self.watched.replaced(PadKey(tenant, pad))
        return deleted, len(pads)

    async def search(
        self, tenant: str, text: str, namespaces: Sequence[str], tags: Sequence[str], limit: int, mode: Mode
    ) -> Found:
        wanted, within = wanted_tags(tags), checked_namespaces(namespaces)
        return await self._index.search(Query(tenant, text, ("pad",), within, wanted, limit, mode))

    # -- idle pads -----------------------------------------------------------------------------------------------------------

    def _sweep_if_wanted(self) -> None:
        if self._policy.eviction == "preempt" and (self._sweeping is None or self._sweeping.done()):
            self._sweeping = asyncio.ensure_future(self._sweep())

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._policy.preempt_interval)
            await self.sweep_once()

    async def sweep_once(self) -> int:
        """Delete the pads of everyone that nobody has used for long. How many went."""
        await self._uses.write()
        oldest = self._now() - int(self._policy.preempt_age * 1e6)

        def work(tx: Transaction) -> list[PadKey]:
            keys = idle_since(tx, oldest)
            for key in keys:
                self._store.delete(tx, key)
            return keys

        try:
            gone = await self._database.write(work)
        except CellwrightError as error:
            log.warning("pad_sweep_failed error=%s", error.code)
            return 0
        for key in gone:
            log.info("pad_evicted pad=%s policy=preempt", key.id)
            self.watched.replaced(key)
        return len(gone)

    def _now(self) -> int:
        return int(self._clock() * 1e6)

    async def close(self) -> None:
        """Write what is not written yet; stop what runs beside."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        await self._uses.close()
        await self._checking.close()
