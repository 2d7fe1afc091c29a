"""Toolset `scratch_plus`: what the scratch tools lack to be complete."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.errors import InvalidArgument
from cellwright.core.toolset import Toolset, read, write
from cellwright.core.types import Call
from cellwright.notebook.model import ReadableFormat
from cellwright.scratch.conversion import drafts_of, not_in_a_notebook, notebook_of
from cellwright.scratch.history import ChangeSubject, PadVersion, SchemaName
from cellwright.scratch.model import failure
from cellwright.scratch.service import Pads
from cellwright.scratch.tools.common import CellInput, Expected, PadId, PadOutline, PadWritten, change_reply
from cellwright.scratch.tools.noting import basis_of, note_cells
from cellwright.scratch.tools.pages import fitting

LISTED_TOKENS = 3_000


async def scratch_insert_cell(
    pads: Pads, call: Call, scratch_id: PadId, index: int, cell: CellInput, expect: Expected = None
) -> PadWritten:
    """Insert a cell at a position; -1 appends."""
    position, basis = None if index == -1 else index, basis_of(call, expect)
    return change_reply(await pads.insert(call.principal.id, scratch_id, cell.draft(), position, basis))


async def scratch_delete_cell(
    pads: Pads, call: Call, scratch_id: PadId, cell_id: str, expect: Expected = None
) -> PadWritten:
    """Delete a cell. scratch_history can bring it back."""
    return change_reply(await pads.delete_cell(call.principal.id, scratch_id, cell_id, basis_of(call, expect)))


async def scratch_update(
    pads: Pads,
    call: Call,
    scratch_id: PadId,
    metadata: Annotated[
        dict[str, Any], Field(description="title, description, summary, namespace, tags, your own; null removes")
    ],
    expect: Expected = None,
) -> PadWritten:
    """Change what is said about a pad; what is not given stays."""
    return change_reply(await pads.update(call.principal.id, scratch_id, metadata, basis_of(call, expect)))


class SchemaDeletion(TypedDict):
    ok: Literal[True]
    deleted: Literal[True]
    schema: SchemaName
    version: int
    diff: str


async def scratch_delete_schema(
    pads: Pads, call: Call, scratch_id: PadId, schema_id: str, expect: Expected = None
) -> SchemaDeletion:
    """Delete a shared schema, by id or name."""
    deleted = await pads.delete_schema(call.principal.id, scratch_id, schema_id, basis_of(call, expect))
    schema: SchemaName = {"id": deleted.schema.id, "name": deleted.schema.name}
    return {"ok": True, "deleted": True, "schema": schema, "version": deleted.pad.version, "diff": deleted.diff}


class PadHistory(ChangeSubject):
    """The versions of a pad, or what one change did, or the pad with an earlier version brought back."""

    ok: Literal[True]
    scratch_id: NotRequired[str]
    version: NotRequired[int]
    changes: NotRequired[list[PadVersion]]
    at: NotRequired[str]
    change: NotRequired[str]
    diff: NotRequired[str]
    scratchpad: NotRequired[PadOutline]


async def scratch_history(
    pads: Pads,
    call: Call,
    scratch_id: PadId,
    restore: Annotated[int | None, Field(ge=1, description="bring this version back, as a new one")] = None,
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
    diff: Annotated[int | None, Field(ge=1, description="show what the change to this version did")] = None,
    expect: Expected = None,
) -> PadHistory:
    """A pad's earlier versions, newest first; or one as a diff; or bring one back."""
    if restore is not None and diff is not None:
        raise InvalidArgument("restore and diff are two questions", hint="look with diff first, then restore")
    if restore is None and expect is not None:
        raise InvalidArgument("expect is for restore, which changes the pad", hint="leave it out, or give restore")
    if restore is not None:
        outcome = await pads.restore(call.principal.id, scratch_id, restore, basis_of(call, expect))
        return {"ok": True, "scratchpad": change_reply(outcome)["scratchpad"], "diff": outcome.diff}
    if diff is not None:
        return {"ok": True, "scratch_id": scratch_id, **await pads.change(call.principal.id, scratch_id, diff)}
    pad, changes = await pads.history(call.principal.id, scratch_id, limit)
    return {"ok": True, "scratch_id": pad.id, "version": pad.version, "changes": _fitting_diffs(changes)}


def _fitting_diffs(changes: Sequence[PadVersion]) -> list[PadVersion]:
    """The changes, of which as many of the newest keep their diffs as fit into an answer."""
    with_diffs = len(fitting(changes, LISTED_TOKENS))
    without = [cast("PadVersion", {name: change[name] for name in change if name != "diff"}) for change in changes]
    return [*changes[:with_diffs], *without[with_diffs:]]


class PadFile(TypedDict):
    """A pad as the text of a notebook file."""

    ok: Literal[True]
    format: ReadableFormat
    content: str
    losses: list[str]
    uri: str


async def scratch_export(
    pads: Pads,
    call: Call,
    scratch_id: PadId,
    format: ReadableFormat,  # noqa: A002 - the contract's name
) -> PadFile:
    """A pad as a notebook file; `losses` says what the format cannot hold."""
    view = await pads.read(call.principal.id, scratch_id)
    note_cells(pads.sights, call, view)
    file = await pads.conversions.write(notebook_of(view.pad, view.cells), format, call.principal.id)
    _pad, schemas = await pads.schemas(call.principal.id, scratch_id)
    losses = [*file.losses, *not_in_a_notebook(view.cells, len(schemas))]
    uri = f"scratchpad://{scratch_id}/{format}"
    return {"ok": True, "format": format, "content": file.text, "losses": losses, "uri": uri}


class ImportedPad(PadWritten):
    losses: list[str]


async def scratch_import(
    pads: Pads,
    call: Call,
    content: str,
    format: ReadableFormat,  # noqa: A002
    scratch_id: PadId | None = None,
    expect: Expected = None,
) -> ImportedPad:
    """A new pad from a notebook file; with expect it resets the one of this id."""
    metadata, drafts, losses = drafts_of(await pads.conversions.read(content, format, call.principal.id))
    created = await pads.create(call.principal.id, scratch_id, metadata, drafts, basis_of(call, expect))
    return {**change_reply(created), "losses": losses}


def scratch_plus_toolset(pads: Pads) -> Toolset:
    return Toolset(
        "scratch_plus",
        "insert and delete single cells of pads, change what is said about a pad, earlier versions",
        (
            write(scratch_insert_cell),
            write(scratch_delete_cell),
            write(scratch_update, idempotent=True),
            write(scratch_delete_schema, destructive=True, idempotent=True),
            read(scratch_export),
            write(scratch_import, destructive=True),
            write(scratch_history),
        ),
        pads,
        failure,
    )
