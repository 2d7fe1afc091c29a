"""Toolset `scratch_plus`: what the scratch tools lack to be complete."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.errors import InvalidArgument
from cellwright.core.toolset import Toolset, read, write
from cellwright.core.types import Call
from cellwright.scratch.conversion import drafts_of, not_in_a_notebook, notebook_of
from cellwright.scratch.history import ChangeSubject, PadVersion, SchemaName
from cellwright.scratch.model import failure
from cellwright.scratch.service import Pads
from cellwright.scratch.tools.common import CellInput, PadId, PadOutline, PadWritten, change_reply

Format = Literal["ipynb", "srcmd", "md", "json"]


async def scratch_insert_cell(pads: Pads, call: Call, scratch_id: PadId, index: int, cell: CellInput) -> PadWritten:
    """Insert a cell at a position; -1 appends."""
    return change_reply(await pads.insert(call.principal.id, scratch_id, cell.draft(), None if index == -1 else index))


async def scratch_delete_cell(pads: Pads, call: Call, scratch_id: PadId, cell_id: str) -> PadWritten:
    """Delete a cell. scratch_history can bring it back."""
    return change_reply(await pads.delete_cell(call.principal.id, scratch_id, cell_id))


async def scratch_update(
    pads: Pads,
    call: Call,
    scratch_id: PadId,
    metadata: Annotated[
        dict[str, Any], Field(description="title, description, summary, namespace, tags, your own; null removes")
    ],
) -> PadWritten:
    """Change what is said about a pad; what is not given stays."""
    return change_reply(await pads.update(call.principal.id, scratch_id, metadata))


class SchemaDeletion(TypedDict):
    ok: Literal[True]
    deleted: Literal[True]
    schema: SchemaName


async def scratch_delete_schema(pads: Pads, call: Call, scratch_id: PadId, schema_id: str) -> SchemaDeletion:
    """Delete a shared schema, by id or name."""
    deleted = await pads.delete_schema(call.principal.id, scratch_id, schema_id)
    return {"ok": True, "deleted": True, "schema": {"id": deleted.id, "name": deleted.name}}


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
) -> PadHistory:
    """A pad's earlier versions, newest first; or one as a diff; or bring one back."""
    if restore is not None and diff is not None:
        raise InvalidArgument("restore and diff are two questions", hint="look with diff first, then restore")
    if restore is not None:
        restored = change_reply(await pads.restore(call.principal.id, scratch_id, restore))
        return {"ok": True, "scratchpad": restored["scratchpad"]}
    if diff is not None:
        return {"ok": True, "scratch_id": scratch_id, **await pads.change(call.principal.id, scratch_id, diff)}
    pad, changes = await pads.history(call.principal.id, scratch_id, limit)
    return {"ok": True, "scratch_id": pad.id, "version": pad.version, "changes": changes}


class PadFile(TypedDict):
    """A pad as the text of a notebook file."""

    ok: Literal[True]
    format: Format
    content: str
    losses: list[str]
    uri: str


async def scratch_export(
    pads: Pads,
    call: Call,
    scratch_id: PadId,
    format: Format,  # noqa: A002 - the contract's name
) -> PadFile:
    """A pad as a notebook file; `losses` says what the format cannot hold."""
    view = await pads.read(call.principal.id, scratch_id)
    file = await pads.conversions.write(notebook_of(view.pad, view.cells), format, call.principal.id)
    schemas = await pads.schemas(call.principal.id, scratch_id)
    losses = [*file.losses, *not_in_a_notebook(view.cells, len(schemas))]
    uri = f"scratchpad://{scratch_id}/{format}"
    return {"ok": True, "format": format, "content": file.text, "losses": losses, "uri": uri}


class ImportedPad(PadWritten):
    losses: list[str]


async def scratch_import(
    pads: Pads,
    call: Call,
    content: str,
    format: Format,  # noqa: A002
    scratch_id: PadId | None = None,
) -> ImportedPad:
    """A new pad from a notebook file. An existing pad is never overwritten."""
    metadata, drafts, losses = drafts_of(await pads.conversions.read(content, format, call.principal.id))
    created = await pads.create_new(call.principal.id, scratch_id, metadata, drafts)
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
            write(scratch_import),
            write(scratch_history),
        ),
        pads,
        failure,
    )
