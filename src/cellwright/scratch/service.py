"""Scratch notebooks of one workspace: checks what is given, runs the transactions, validates, tells who watches."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from cellwright.core.errors import CellwrightError, InvalidArgument
from cellwright.core.formats.formats import FORMATS
from cellwright.core.resources import Changes, ResourceListChanged, ResourceUpdated
from cellwright.scratch import listing, rows
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
    checked_tags,
    not_in_namespaces,
)
from cellwright.scratch.rows import PadKey
from cellwright.scratch.store import Created, PadStore, existing, new_id, schema_named, touch
from cellwright.scratch.validation.model import CellToCheck, Diagnostic, Validation
from cellwright.scratch.validation.validators import Validators
from cellwright.storage.database import Database, Transaction
from cellwright.storage.search import Found, Mode, Query, SearchIndex

log = logging.getLogger(__name__)

SHOWN_CELLS = 50
TOUCH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Policy:
    """What happens to pads that nobody uses."""

    eviction: str = "discard"
    """`discard`: at capacity the least recently used goes. `fail`: a create is refused. `preempt`: idle ones go by and by."""
    preempt_age: float = 86_400.0
    preempt_interval: float = 600.0
    validation_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class View:
    """A pad, with those of its cells that a reply is about."""

    pad: Pad
    cells: list[Cell]
    cell_tags: list[str]


@dataclass(frozen=True, slots=True)
class Written:
    """What a change led to."""

    view: View
    validation: list[Validation] | None = None
    reset: bool = False
    evicted: tuple[str, ...] = ()


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
        self._validators = validators
        self._changes = changes
        self._limits = limits
        self._policy = policy
        self._clock = clock
        self._store = PadStore(index, limits, evicts=policy.eviction == "discard")
        self._uses: dict[PadKey, int] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._noting: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None

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
            await self._check_schema(tenant, schema)
        cells = new_cells(drafts, self._limits)
        uses, now = dict(self._uses), self._now()
        self._sweep_if_wanted()

        def work(tx: Transaction) -> tuple[Created, list[str]]:
            touch(tx, uses)
            return store(tx, key, about, cells, schemas, now), listing.cell_tags(tx, key)

        made, tags = await self._database.write(work)
        self._forget_uses(uses)
        for evicted in made.evicted:
            log.info("pad_evicted pad=%s policy=discard", evicted)
            self._tell(PadKey(tenant, evicted), listed=False)
        self._tell(key, listed=True)
        shown = View(made.pad, made.cells[:SHOWN_CELLS], tags)
        checked = await self._validate_written(key, made.pad, made.cells, schemas)
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
        wanted = set(checked_tags(tuple(tags)))
        within = None if namespaces is None else checked_namespaces(namespaces)

        def work(tx: Transaction) -> View:
            pad = rows.read_pad(tx, key)
            if within is not None and (pad is None or pad.about.namespace not in within):
                raise not_in_namespaces(key.id)
            pad = pad or existing(tx, key)
            found = rows.read_cells(tx, key) if cell_ids is None else self._store.cells_of(tx, key, cell_ids)
            kept = [cell for cell in found if not wanted or wanted & set(cell.tags)]
            return View(pad, kept, listing.cell_tags(tx, key))

        view = await self._database.read(work)
        self._note_use(key)
        return view

    async def delete(self, tenant: str, pad_id: str) -> bool:
        key = PadKey(tenant, checked_id(pad_id))
        deleted = await self._database.write(lambda tx: self._store.delete(tx, key))
        self._uses.pop(key, None)
        if deleted:
            self._tell(key, listed=True)
        return deleted

    async def update(self, tenant: str, pad_id: str, given: Mapping[str, object]) -> Written:
        """Other words about the pad: what is given replaces, null removes, the rest stays."""
        key, now = PadKey(tenant, checked_id(pad_id)), self._now()

        def work(tx: Transaction) -> View:
            before = existing(tx, key).about
            merged: JsonObject = {**before.metadata, **canonical(before), **given}
            about, schemas = pad_draft(
                {name: value for name, value in merged.items() if value is not None}, self._limits
            )
            if schemas:
                raise InvalidArgument("schemas are not changed here", hint="use scratch_upsert_schema")
            return self._shown(tx, key, self._store.update(tx, key, about, now))

        return await self._written(key, work, listed=True)

    async def page(
        self, tenant: str, namespaces: Sequence[str], tags: Sequence[str], limit: int, cursor: str | None
    ) -> listing.Page:
        wanted, within = checked_tags(tuple(tags)), checked_namespaces(namespaces)
        return await self._database.read(lambda tx: listing.list_pads(tx, tenant, within, wanted, limit, cursor))

    async def history(self, tenant: str, pad_id: str, limit: int) -> tuple[Pad, list[JsonObject]]:
        key = PadKey(tenant, checked_id(pad_id))
        return await self._database.read(lambda tx: (existing(tx, key), changes_of(tx, key, limit)))

    async def restore(self, tenant: str, pad_id: str, version: int) -> Written:
        key, now = PadKey(tenant, checked_id(pad_id)), self._now()
        return await self._written(
            key, lambda tx: self._shown(tx, key, self._store.restore(tx, key, version, now)), listed=True
        )

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
        return View(pad, rows.read_last_cells(tx, key, SHOWN_CELLS), listing.cell_tags(tx, key))

    async def _written(
        self,
        key: PadKey,
        work: Callable[[Transaction], View],
        *,
        check: str | None = None,
        cell: str | None = None,
        listed: bool = False,
    ) -> Written:
        view = await self._database.write(work)
        self._tell(key, listed=listed, cell=cell)
        if check is None:
            return Written(view)
        cells, schemas = await self._database.read(
            lambda tx: (rows.read_cells(tx, key, [check]), rows.read_schemas(tx, key))
        )
        return Written(view, await self._validate_written(key, view.pad, cells, schemas))

    # -- validation ----------------------------------------------------------------------------------------------------------

    async def validate(self, tenant: str, pad_id: str, cell_ids: Sequence[str] | None) -> list[tuple[Cell, Validation]]:
        """Check cells as they are; nothing is changed by it."""
        key = PadKey(tenant, checked_id(pad_id))

        def work(tx: Transaction) -> tuple[list[Cell], list[SharedSchema]]:
            existing(tx, key)
            found = rows.read_cells(tx, key) if not cell_ids else self._store.cells_of(tx, key, cell_ids)
            return found, rows.read_schemas(tx, key)

        cells, schemas = await self._database.read(work)
        results = await self._check(tenant, cells, schemas)
        return list(zip(cells, results, strict=True))

    async def _check(self, tenant: str, cells: Sequence[Cell], schemas: Sequence[SharedSchema]) -> list[Validation]:
        known = {name: schema.schema for schema in schemas for name in (schema.id, schema.name)}
        asked = [CellToCheck(cell.id, cell.language, cell.content, cell.json_schema) for cell in cells]
        return await self._validators.validate(asked, known, self._policy.validation_seconds, caller=tenant)

    async def _check_schema(self, tenant: str, schema: SharedSchema) -> None:
        found = await self._validators.check_schema(schema.schema, {}, self._policy.validation_seconds, caller=tenant)
        errors = [one for one in found if one.severity == "error"]
        if errors:
            raise InvalidArgument(
                f"the schema {schema.name!r} is no JSON Schema: {errors[0].message}",
                hint=f"look at {errors[0].path or '$'} of it",
                details={"errors": [{"path": one.path, "message": one.message} for one in errors]},
            )

    async def _validate_written(
        self, key: PadKey, pad: Pad, cells: Sequence[Cell], schemas: Sequence[SharedSchema]
    ) -> list[Validation] | None:
        """Check what was just stored, where the caller wanted it. It is stored whatever this says."""
        wanted = [cell for cell in cells if cell.validate]
        if not wanted:
            return None
        try:
            results = await self._check(key.tenant, wanted, schemas)
        except CellwrightError as error:
            why = Diagnostic("warning", f"it was stored, but not checked: {error.message}", source="validator")
            return [Validation(cell.id, "failed", cell.language, (why,)) for cell in wanted]
        statuses = {result.cell_id: result.status for result in results}
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
        await self._check_schema(tenant, draft)
        stored = await self._database.write(lambda tx: self._store.put_schema(tx, key, draft, by_id=by_id, now=now))
        self._tell(key, listed=False)
        return stored

    async def delete_schema(self, tenant: str, pad_id: str, named: str) -> SharedSchema:
        key, now = PadKey(tenant, checked_id(pad_id)), self._now()
        gone = await self._database.write(lambda tx: self._store.delete_schema(tx, key, named, now))
        self._tell(key, listed=False)
        return gone

    # -- tags, namespaces, search --------------------------------------------------------------------------------------------

    async def tags(self, tenant: str, namespaces: Sequence[str]) -> tuple[list[str], list[str]]:
        within = checked_namespaces(namespaces)
        return await self._database.read(lambda tx: listing.all_tags(tx, tenant, within))

    async def namespaces(self, tenant: str) -> list[JsonObject]:
        return await self._database.read(lambda tx: listing.list_namespaces(tx, tenant))

    async def create_namespace(self, tenant: str, name: str) -> tuple[str, bool]:
        checked, now = checked_namespace(name), self._now()
        return checked, await self._database.write(lambda tx: listing.create_namespace(tx, tenant, checked, now))

    async def rename_namespace(self, tenant: str, old: str, new: str, *, migrate: bool) -> tuple[str, int]:
        checked, now = checked_namespace(new), self._now()
        moved = await self._database.write(
            lambda tx: listing.rename_namespace(self._store, tx, tenant, old.strip(), checked, migrate=migrate, now=now)
        )
        self._changes.publish(ResourceListChanged(tenant))
        return checked, moved

    async def delete_namespace(self, tenant: str, name: str, *, with_pads: bool) -> tuple[bool, int]:
        deleted, pads = await self._database.write(
            lambda tx: listing.delete_namespace(self._store, tx, tenant, name.strip(), with_pads=with_pads)
        )
        for pad in pads:
            self._tell(PadKey(tenant, pad), listed=False)
        self._changes.publish(ResourceListChanged(tenant))
        return deleted, len(pads)

    async def search(
        self, tenant: str, text: str, namespaces: Sequence[str], tags: Sequence[str], limit: int, mode: Mode
    ) -> Found:
        wanted, within = checked_tags(tuple(tags)), checked_namespaces(namespaces)
        return await self._index.search(Query(tenant, text, ("pad",), within, wanted, limit, mode))

    # -- uses and idle pads --------------------------------------------------------------------------------------------------

    def _note_use(self, key: PadKey) -> None:
        """Remember the time of a read; it is written a moment later with others, so that reading costs no commit."""
        self._uses[key] = self._now()
        if self._noting is None or self._noting.done():
            self._noting = self._spawn(self._write_uses_soon())

    async def _write_uses_soon(self) -> None:
        await asyncio.sleep(TOUCH_SECONDS)
        await self._write_uses()

    async def _write_uses(self) -> None:
        uses = dict(self._uses)
        try:
            await self._database.write(lambda tx: touch(tx, uses))
        except CellwrightError as error:
            # A read must not fail because its time could not be noted.
            log.warning("pad_uses_not_noted error=%s", error.code)
        else:
            self._forget_uses(uses)

    def _forget_uses(self, written: Mapping[PadKey, int]) -> None:
        """Only once they are written: a pad that was read must not count as idle because a write was refused."""
        for key, used in written.items():
            if self._uses.get(key) == used:
                del self._uses[key]

    def _sweep_if_wanted(self) -> None:
        if self._policy.eviction == "preempt" and (self._sweeping is None or self._sweeping.done()):
            self._sweeping = self._spawn(self._sweep())

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._policy.preempt_interval)
            await self.sweep_once()

    async def sweep_once(self) -> int:
        """Delete the pads of everyone that nobody has used for long. How many went."""
        await self._write_uses()
        oldest = self._now() - int(self._policy.preempt_age * 1e6)

        def work(tx: Transaction) -> list[PadKey]:
            found = tx.rows("SELECT tenant, pad FROM pad_uses WHERE used < ? LIMIT 1000", oldest)
            keys = [PadKey(str(tenant), str(pad)) for tenant, pad in found]
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
            self._tell(key, listed=True)
        return len(gone)

    def _now(self) -> int:
        return int(self._clock() * 1e6)

    def _tell(self, key: PadKey, *, listed: bool, cell: str | None = None) -> None:
        # The list shows how many cells each pad has and which changed last: it changes with every pad.
        changed = [key.id, *(f"{key.id}/{name}" for name in FORMATS), "list"]
        if cell is not None:
            changed.append(f"{key.id}/cells/{cell}")
        for name in changed:
            self._changes.publish(ResourceUpdated(f"scratchpad://{name}", principal_id=key.tenant))
        if listed:
            self._changes.publish(ResourceListChanged(key.tenant))

    def _spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def close(self) -> None:
        """Write what is not written yet; stop what runs beside."""
        for task in tuple(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._uses:
            await self._write_uses()
        await self._validators.close()


def canonical(about: PadDraft) -> JsonObject:
    """What a pad's metadata says in its own fields."""
    return {
        "title": about.title,
        "description": about.description,
        "summary": about.summary,
        "namespace": about.namespace,
        "tags": list(about.tags),
    }
