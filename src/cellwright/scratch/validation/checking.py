"""Validation of pads' cells: passes cells and schemas to the validators, and prepares their results for storing."""

from collections.abc import Sequence

from cellwright.core.errors import CellwrightError, InvalidArgument
from cellwright.notebook.model import Cell
from cellwright.scratch.model import SharedSchema
from cellwright.scratch.validation.model import CellToCheck, Diagnostic, Validation
from cellwright.scratch.validation.validators import Validators


class Checking:
    """The validators, with the time that one request may take."""

    def __init__(self, validators: Validators, seconds: float) -> None:
        self._validators = validators
        self._seconds = seconds

    async def check(self, tenant: str, cells: Sequence[Cell], schemas: Sequence[SharedSchema]) -> list[Validation]:
        shared = {name: schema.schema for schema in schemas for name in (schema.id, schema.name)}
        to_check = [CellToCheck(cell.id, cell.language, cell.source, cell.check.schema) for cell in cells]
        return await self._validators.validate(to_check, shared, self._seconds, caller=tenant)

    async def check_stored(
        self, tenant: str, cells: Sequence[Cell], schemas: Sequence[SharedSchema]
    ) -> tuple[list[Validation], dict[str, str]]:
        """Check cells that are stored already. Returns the results, and the statuses to store with the cells."""
        try:
            results = await self.check(tenant, cells, schemas)
        except CellwrightError as error:
            warning = Diagnostic("warning", f"it was stored, but not checked: {error.message}", source="validator")
            return [Validation(cell.id, "failed", cell.language, (warning,)) for cell in cells], {}
        return results, {result.cell_id: result.status for result in results}

    async def check_schema(self, tenant: str, schema: SharedSchema) -> None:
        """InvalidArgument if it is no JSON Schema."""
        diagnostics = await self._validators.check_schema(schema.schema, {}, self._seconds, caller=tenant)
        errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]
        if errors:
            raise InvalidArgument(
                f"the schema {(schema.name or schema.id)!r} is no JSON Schema: {errors[0].message}",
                hint=f"look at {errors[0].path or '$'} of it",
                details={"errors": [{"path": error.path, "message": error.message} for error in errors]},
            )
