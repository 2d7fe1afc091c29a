"""Validation for callers: cells in, findings out, within the time, whatever the cells hold."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from typing import Any

from cellwright.core.errors import Unavailable
from cellwright.scratch.validation.check import failed, skipped
from cellwright.scratch.validation.languages import find_language
from cellwright.scratch.validation.model import (
    CellToCheck,
    Diagnostic,
    Validation,
    ValidationTimeout,
    validation_from_json,
)
from cellwright.scratch.validation.process import Worker, WorkerDied
from cellwright.scratch.validation.references import too_deep
from cellwright.scratch.validation.slots import Slot, Slots

PROCESSES = 4
MEMORY_BYTES = 1 << 30
IDLE_SECONDS = 60.0
CELL_FIELDS = tuple(field.name for field in fields(CellToCheck))

log = logging.getLogger(__name__)


class Validators:
    """The validators of one server. Nothing is started before the first cell that needs it."""

    def __init__(
        self, *, processes: int = PROCESSES, memory_bytes: int = MEMORY_BYTES, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._slots = Slots(processes)
        self._memory_bytes = memory_bytes
        self._idle_seconds = idle_seconds
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    async def validate(
        self, cells: Sequence[CellToCheck], schemas: Mapping[str, object], seconds: float, *, caller: str = ""
    ) -> list[Validation]:
        """Check cells, in their order. `schemas` are the shared ones, under their names and under their ids.

        `seconds` bound the whole call, the wait for a free process included; after it there is no partial result. `caller` is
        whom the work counts for when several want to be served.
        """
        unchecked = {index: why for index, cell in enumerate(cells) if (why := _why_not(cell))}
        if len(unchecked) == len(cells):
            return [skipped(cell, unchecked[index]) for index, cell in enumerate(cells)]
        async with self._session(schemas, seconds, caller, f"{len(cells)} cell(s)") as session:
            return [
                skipped(cell, unchecked[index]) if index in unchecked else await session.check(cell)
                for index, cell in enumerate(cells)
            ]

    async def check_schema(
        self, schema: object, schemas: Mapping[str, object], seconds: float, *, caller: str = ""
    ) -> tuple[Diagnostic, ...]:
        """What is wrong with a schema: errors if it is no JSON Schema, warnings for references that lead nowhere."""
        if too_deep(schema):
            return (Diagnostic("error", "the schema is nested too deeply", path="$", source="json-schema"),)
        async with self._session(schemas, seconds, caller, "the schema") as session:
            return await session.check_schema(schema)

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that are there now."""
        return tuple(slot.worker.pid for slot in self._slots.all if slot.worker is not None)

    async def close(self) -> None:
        """End all processes; what is under way fails as unavailable."""
        self._closed = True
        for slot in self._slots.all:
            if slot.expiry is not None:
                slot.expiry.cancel()
            if slot.worker is not None:
                await slot.worker.kill()
        await asyncio.gather(*self._ending)

    @asynccontextmanager
    async def _session(
        self, schemas: Mapping[str, object], seconds: float, caller: str, what: str
    ) -> AsyncGenerator["_Session"]:
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout_at(deadline), self._slots.one_for(caller) as slot:
                if slot.expiry is not None:
                    slot.expiry.cancel()
                try:
                    yield _Session(self, slot, schemas, deadline)
                finally:
                    await self._leave(slot)
        except TimeoutError as error:
            message = f"{what} could not be checked within {seconds:g} s; there is no partial result"
            hint = "check fewer or smaller cells at once, or raise scratch_validation_timeout"
            raise ValidationTimeout(message, hint=hint) from error

    async def start_worker(self) -> Worker:
        self.refuse_if_closed()
        return await Worker.start(self._memory_bytes)

    def refuse_if_closed(self) -> None:
        if self._closed:
            raise Unavailable("the server is shutting down; nothing is validated any more")

    async def _leave(self, slot: Slot) -> None:
        worker = slot.worker
        if worker is None:
            return
        if worker.usable and not self._closed:
            slot.expiry = asyncio.get_running_loop().call_later(self._idle_seconds, self._expire, slot)
            return
        slot.worker = None
        await worker.kill()

    def _expire(self, slot: Slot) -> None:
        worker, slot.worker = slot.worker, None
        if worker is not None:
            ending = asyncio.create_task(worker.end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)


def _why_not(cell: CellToCheck) -> str:
    language = find_language(cell.language)
    if language is None:
        return f"no validator is known for {cell.language!r}; the cell is stored as it is"
    return "" if language.checker else "plain text needs no validation"


class _Session:
    """One caller's time with one worker. If the worker dies, the next question gets a new one."""

    def __init__(self, validators: Validators, slot: Slot, schemas: Mapping[str, object], deadline: float) -> None:
        self._validators = validators
        self._slot = slot
        self._schemas = {key: schema for key, schema in schemas.items() if not too_deep(schema)}
        self._deadline = deadline
        self._briefed: Worker | None = None

    async def check(self, cell: CellToCheck) -> Validation:
        if too_deep(cell.schema):
            found = await self.check(replace(cell, schema=None))
            warning = Diagnostic("warning", "the schema is nested too deeply; it was not applied", source="json-schema")
            status = "warning" if found.status == "valid" else found.status
            return replace(found, status=status, diagnostics=(*found.diagnostics, warning))
        try:
            # Not `asdict`: that copies the schema, and this is the event loop.
            question = {name: getattr(cell, name) for name in CELL_FIELDS}
            answer = await self._ask({"cell": question})
        except WorkerDied as died:
            log.warning("a validator died: language=%s reason=%s", cell.language, died.reason)
            return failed(cell, f"the validator ended while it read this cell ({died.reason}); it could not be checked")
        return validation_from_json(answer["validation"])

    async def check_schema(self, schema: object) -> tuple[Diagnostic, ...]:
        try:
            answer = await self._ask({"schema": schema})
        except WorkerDied as died:
            message = f"the validator ended while it read this schema ({died.reason})"
            return (Diagnostic("error", message, path="$", source="validator"),)
        return tuple(Diagnostic(**found) for found in answer["diagnostics"])

    async def _ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        left_by_others = self._slot.worker is not None and self._slot.worker is not self._briefed
        try:
            return await self._ask_once(question)
        except WorkerDied:
            if not left_by_others:
                raise
            # It may have died before we came, which is not this cell's fault.
            return await self._ask_once(question)

    async def _ask_once(self, question: Mapping[str, Any]) -> dict[str, Any]:
        worker = await self._worker()
        left = self._deadline - asyncio.get_running_loop().time()
        try:
            return await worker.ask({**question, "seconds": max(left, 0.0)})
        except WorkerDied as died:
            if died.was_its_own_alarm:
                raise TimeoutError from died
            self._validators.refuse_if_closed()
            raise

    async def _worker(self) -> Worker:
        worker = self._slot.worker
        if worker is None or not worker.usable:
            if worker is not None:
                await worker.kill()
            worker = self._slot.worker = await self._validators.start_worker()
        if self._briefed is not worker:
            await worker.tell({"schemas": self._schemas})
            self._briefed = worker
        return worker
