"""Validation for callers: takes cells, returns findings, and ends within the given time whatever the cells hold."""

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields, replace

from cellwright.scratch.validation import jobs
from cellwright.scratch.validation.check import failed, skipped
from cellwright.scratch.validation.languages import find_language
from cellwright.scratch.validation.model import (
    CellToCheck,
    Diagnostic,
    Validation,
    ValidationTimeout,
    validation_from_json,
)
from cellwright.scratch.validation.references import too_deep
from cellwright.workers.pool import TooMuchWork, WorkerPool, WorkerSession
from cellwright.workers.process import WorkerDied

CELL_FIELDS = tuple(field.name for field in fields(CellToCheck))

log = logging.getLogger(__name__)


class Validators:
    """Checks of cells and schemas, each in a worker process of the pool."""

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool

    async def validate(
        self, cells: Sequence[CellToCheck], schemas: Mapping[str, object], seconds: float, *, caller: str = ""
    ) -> list[Validation]:
        """Check cells, in their order. `schemas` are the shared ones, under their names and under their ids.

        `seconds` limit the whole call, with the wait for a free process; after that there is no partial result. `caller` is
        the one that the work counts for when several callers wait.
        """
        unchecked = {index: reason for index, cell in enumerate(cells) if (reason := _skip_reason(cell))}
        if len(unchecked) == len(cells):
            return [skipped(cell, unchecked[index]) for index, cell in enumerate(cells)]
        async with self._session(schemas, seconds, caller, f"{len(cells)} cell(s)") as session:
            return [
                skipped(cell, unchecked[index]) if index in unchecked else await _check(session, cell)
                for index, cell in enumerate(cells)
            ]

    async def check_schema(
        self, schema: object, schemas: Mapping[str, object], seconds: float, *, caller: str = ""
    ) -> tuple[Diagnostic, ...]:
        """What is wrong with a schema: errors if it is no JSON Schema, warnings for references that lead nowhere."""
        if too_deep(schema):
            return (Diagnostic("error", "the schema is nested too deeply", path="$", source="json-schema"),)
        async with self._session(schemas, seconds, caller, "the schema") as session:
            try:
                findings = await session.ask(jobs.schema, definition=schema)
            except TooMuchWork as error:
                return (Diagnostic("error", error.message, path="$", source="validator"),)
            except WorkerDied as died:
                message = f"the validator ended while it read this schema ({died.reason})"
                return (Diagnostic("error", message, path="$", source="validator"),)
        return tuple(Diagnostic(**finding) for finding in findings)

    @asynccontextmanager
    async def _session(
        self, schemas: Mapping[str, object], seconds: float, caller: str, subject: str
    ) -> AsyncGenerator[WorkerSession]:
        try:
            async with self.pool.session(seconds, caller) as session:
                session.brief(
                    jobs.remember, schemas={key: schema for key, schema in schemas.items() if not too_deep(schema)}
                )
                yield session
        except TimeoutError as error:
            message = f"{subject} could not be checked within {seconds:g} s; there is no partial result"
            hint = "check fewer or smaller cells at once, or raise scratch_validation_timeout"
            raise ValidationTimeout(message, hint=hint) from error


def _skip_reason(cell: CellToCheck) -> str:
    """Why a cell is not checked at all; empty if it is."""
    language = find_language(cell.language)
    if language is None:
        return f"no validator is known for {cell.language!r}; the cell is stored as it is"
    return "" if language.checker else "plain text needs no validation"


async def _check(session: WorkerSession, cell: CellToCheck) -> Validation:
    if too_deep(cell.schema):
        result = await _check(session, replace(cell, schema=None))
        warning = Diagnostic("warning", "the schema is nested too deeply; it was not applied", source="json-schema")
        status = "undecided" if result.status in {"valid", "warning"} else result.status
        return replace(result, status=status, diagnostics=(*result.diagnostics, warning))
    try:
        # Not `asdict`, which would copy the whole schema on the event loop.
        answer = await session.ask(jobs.cell, **{name: getattr(cell, name) for name in CELL_FIELDS})
    except TooMuchWork as error:
        return failed(cell, error.message)
    except WorkerDied as died:
        log.warning("validator_died language=%s reason=%s", cell.language, died.reason)
        return failed(cell, f"the validator ended while it read this cell ({died.reason}); it could not be checked")
    return validation_from_json(answer)
