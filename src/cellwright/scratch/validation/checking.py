"""Validation of pads' cells: what the validators are asked, and what becomes of what they say."""

from collections.abc import Sequence

from cellwright.core.errors import CellwrightError, InvalidArgument
from cellwright.notebook.model import Cell
from cellwright.scratch.model import SharedSchema
from cellwright.scratch.validation.model import CellToCheck, Diagnostic, Validation
from cellwright.scratch.validation.validators import Validators


class Checking:
    """The validators, with the time that one question may take."""

    def __init__(self, validators: Validators, seconds: float) -> None:
        self._validators = validators
        self._seconds = seconds

    async def check(self, tenant: str, cells: Sequence[Cell], schemas: Sequence[SharedSchema]) -> list[Validation]:
        known = {name: schema.schema for schema in schemas for name in (schema.id, schema.name)}
        asked = [CellToCheck(cell.id, cell.language, cell.source, cell.check.schema) for cell in cells]
        return await self._validators.validate(asked, known, self._seconds, caller=tenant)

    async def check_stored(
        self, tenant: str, cells: Sequence[Cell], schemas: Sequence[SharedSchema]
    ) -> tuple[list[Validation], dict[str, str]]:
        """Check what was stored already, whatever this says: results, and the statuses to note with the cells."""
        try:
            results = await self.check(tenant, cells, schemas)
        except CellwrightError as error:
            why = Diagnostic("warning", f"it was stored, but not checked: {error.message}", source="validator")
            return [Validation(cell.id, "failed", cell.language, (why,)) for cell in cells], {}
        return results, {result.cell_id: result.status for result in results}

    async def check_schema(self, tenant: str, schema: SharedSchema) -> None:
        """InvalidArgument if it is no JSON Schema."""
        found = await self._validators.check_schema(schema.schema, {}, self._seconds, caller=tenant)
        errors = [one for one in found if one.severity == "error"]
        if errors:
            raise InvalidArgument(
                f"the schema {(schema.name or schema.id)!r} is no JSON Schema: {errors[0].message}",
                hint=f"look at {errors[0].path or '$'} of it",
                details={"errors": [{"path": one.path, "message": one.message} for one in errors]},
            )
