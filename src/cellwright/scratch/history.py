"""Earlier versions of a pad. Each change keeps how to undo it, which is small; an earlier version is reached by undoing backwards."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from cellwright.core.errors import NotFound
from cellwright.scratch import rows
from cellwright.scratch.model import Cell, JsonObject, Pad, PadDraft, SharedSchema
from cellwright.scratch.rows import PadKey
from cellwright.storage.database import Transaction

State = tuple[PadDraft, list[Cell], list[SharedSchema]]


class Undo:
    """How to take a change back, as JSON: made here, read here."""

    @staticmethod
    def whole(tx: Transaction, key: PadKey, pad: Pad) -> JsonObject:
        return {
            "about": rows.about_as_json(pad.about),
            "cells": [rows.cell_as_json(cell) for cell in rows.read_cells(tx, key)],
            "schemas": [_schema_as_json(schema) for schema in rows.read_schemas(tx, key)],
        }

    @staticmethod
    def about(pad: Pad) -> JsonObject:
        return {"about": rows.about_as_json(pad.about)}

    @staticmethod
    def removal(ids: Sequence[str]) -> JsonObject:
        return {"remove": list(ids)}

    @staticmethod
    def replacement(cell: Cell) -> JsonObject:
        return {"put": rows.cell_as_json(cell)}

    @staticmethod
    def schema(schema_id: str, before: SharedSchema | None) -> JsonObject:
        return {"schema": {"id": schema_id, "before": _schema_as_json(before) if before else None}}

    @staticmethod
    def state_at(tx: Transaction, key: PadKey, pad: Pad, version: int) -> State:
        """The pad as it was when it had this version."""
        state: State = (pad.about, rows.read_cells(tx, key), rows.read_schemas(tx, key))
        undone = pad.version
        changes = tx.rows(
            "SELECT version, undo FROM pad_changes WHERE tenant = ? AND pad = ? AND version > ? ORDER BY version DESC",
            key.tenant,
            key.id,
            version,
        )
        for number, undo in changes:
            if cast("int", number) != undone:
                break
            state = _undone(state, rows.loaded(undo))
            undone -= 1
        if undone != version or version < 1:
            raise NotFound(
                f"version {version} of pad {key.id!r} is not kept", hint="scratch_history shows the versions there are"
            )
        return state


def _undone(state: State, undo: JsonObject) -> State:
    about, cells, schemas = state
    if "about" in undo:
        about = rows.about_from_json(undo["about"])
    if "cells" in undo:
        cells = [rows.cell_from_json(cell) for cell in undo["cells"]]
        schemas = [_schema_from_json(schema) for schema in undo["schemas"]]
    if "remove" in undo:
        cells = [cell for cell in cells if cell.id not in undo["remove"]]
    if "put" in undo:
        put = rows.cell_from_json(undo["put"])
        cells = [cell for cell in cells if cell.id != put.id]
        cells.insert(put.index, put)
    if "schema" in undo:
        schemas = [schema for schema in schemas if schema.id != undo["schema"]["id"]]
        if undo["schema"]["before"] is not None:
            schemas.append(_schema_from_json(undo["schema"]["before"]))
    return about, [replace(cell, index=index) for index, cell in enumerate(cells)], schemas


def record(tx: Transaction, key: PadKey, version: int, now: int, what: str, undo: JsonObject, keep: int) -> None:
    """Remember a change, and forget the one that is too old now."""
    tx.run(
        "INSERT INTO pad_changes (tenant, pad, version, at, what, undo) VALUES (?, ?, ?, ?, ?, ?)",
        key.tenant,
        key.id,
        version,
        now,
        what,
        rows.dumped(undo),
    )
    if version > keep:
        oldest = version - keep
        tx.run("DELETE FROM pad_changes WHERE tenant = ? AND pad = ? AND version <= ?", key.tenant, key.id, oldest)


def forget_history(tx: Transaction, key: PadKey) -> None:
    tx.run("DELETE FROM pad_changes WHERE tenant = ? AND pad = ?", key.tenant, key.id)


def changes(tx: Transaction, key: PadKey, limit: int) -> list[JsonObject]:
    """What was changed, newest first: each with the version it made."""
    found = tx.rows(
        "SELECT version, at, what FROM pad_changes WHERE tenant = ? AND pad = ? ORDER BY version DESC LIMIT ?",
        key.tenant,
        key.id,
        limit,
    )
    return [{"version": version, "at": at, "change": what} for version, at, what in found]


def _schema_as_json(schema: SharedSchema) -> JsonObject:
    return {"id": schema.id, "name": schema.name, "description": schema.description, "schema": schema.schema}


def _schema_from_json(found: JsonObject) -> SharedSchema:
    return SharedSchema(**found)
