"""Earlier versions of a pad. Each change is stored with how to undo it, which is small; undoing backwards reaches a version."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NotRequired, cast

from typing_extensions import TypedDict

from cellwright.core.errors import NotFound
from cellwright.notebook.model import Cell
from cellwright.scratch import rows
from cellwright.scratch.model import Pad, PadDraft, SharedSchema, iso_time
from cellwright.scratch.rows import AboutRecord, PadCellRecord, SchemaRecord, schema_as_json
from cellwright.scratch.views import all_words
from cellwright.storage.cells import NotebookKey
from cellwright.storage.database import Transaction

HISTORY_KEPT = 100
_WIDE = re.compile("[\U00010000-\U0010ffff]")
State = tuple[PadDraft, Sequence[Cell], Sequence[SharedSchema]]


def state_of(tx: Transaction, key: NotebookKey, pad: Pad) -> State:
    """The whole pad as it is now."""
    return pad.about, rows.read_cells(tx, key), rows.read_schemas(tx, key)


def bytes_of_state(state: State) -> int:
    about, cells, schemas = state
    return rows.bytes_of_about(about) + sum(map(rows.bytes_of_cell, cells)) + sum(map(rows.bytes_of_schema, schemas))


class SchemaBefore(TypedDict):
    """The shared schema of this id before a change."""

    id: str
    before: SchemaRecord | None


class UndoRecord(TypedDict, total=False):
    """What undoes a change. `cells` and `schemas` come together."""

    about: AboutRecord
    cells: list[PadCellRecord]
    schemas: list[SchemaRecord]
    remove: list[str]
    put: PadCellRecord
    schema: SchemaBefore


class Undo:
    """How to undo a change, as JSON: written here and read here."""

    @staticmethod
    def pad(state: State) -> UndoRecord:
        about, cells, schemas = state
        return {
            "about": rows.about_as_json(about),
            "cells": [rows.cell_as_json(cell) for cell in cells],
            "schemas": [schema_as_json(schema) for schema in schemas],
        }

    @staticmethod
    def about(pad: Pad) -> UndoRecord:
        return {"about": rows.about_as_json(pad.about)}

    @staticmethod
    def removal(ids: Sequence[str]) -> UndoRecord:
        return {"remove": list(ids)}

    @staticmethod
    def replacement(cell: Cell) -> UndoRecord:
        return {"put": rows.cell_as_json(cell)}

    @staticmethod
    def schema(schema_id: str, before: SharedSchema | None) -> UndoRecord:
        return {"schema": {"id": schema_id, "before": schema_as_json(before) if before else None}}

    @staticmethod
    def state_at(tx: Transaction, key: NotebookKey, state: State, state_version: int, version: int) -> State:
        """The pad at `version`, reached by undoing changes from `state`, which is the pad at `state_version`."""
        reached = state_version
        # Records are read one after the other, because each may hold a whole pad.
        while reached > version >= 1 and (undo := read_undo(tx, key, reached)) is not None:
            state = undo_change(state, undo)
            reached -= 1
        if reached != version or version < 1:
            raise NotFound(
                f"version {version} of pad {key.id!r} is not kept", hint="scratch_history shows the versions there are"
            )
        return state


def read_undo(tx: Transaction, key: NotebookKey, version: int) -> UndoRecord | None:
    row = tx.row(
        "SELECT undo FROM pad_changes WHERE tenant = ? AND pad = ? AND version = ?", key.owner, key.id, version
    )
    return None if row is None else rows.loaded(row[0])


def undo_change(state: State, undo: UndoRecord) -> State:
    about, cells, schemas = state[0], list(state[1]), list(state[2])
    if "about" in undo:
        about = rows.about_from_json(undo["about"])
    if "cells" in undo:
        cells = [rows.cell_from_json(cell) for cell in undo["cells"]]
    if "schemas" in undo:
        schemas = [SharedSchema(**schema) for schema in undo["schemas"]]
    if "remove" in undo:
        cells = [cell for cell in cells if cell.id not in undo["remove"]]
    if "put" in undo:
        earlier = rows.cell_from_json(undo["put"])
        cells = [cell for cell in cells if cell.id != earlier.id]
        cells.insert(earlier.index, earlier)
    if "schema" in undo:
        schemas = [schema for schema in schemas if schema.id != undo["schema"]["id"]]
        if undo["schema"]["before"] is not None:
            schemas.append(SharedSchema(**undo["schema"]["before"]))
    return about, [replace(cell, index=index) for index, cell in enumerate(cells)], schemas


def cell_at(tx: Transaction, key: NotebookKey, current: Cell, latest: int, version: int) -> Cell | None:
    """The cell as it was at `version`; `current` is the cell at version `latest`. None if the history does not tell."""
    for later in range(version + 1, latest + 1):
        undo = read_undo(tx, key, later)
        if undo is None or current.id in undo.get("remove", ()):
            return None
        records = [undo["put"]] if "put" in undo else undo.get("cells", [])
        record = next((record for record in records if record["id"] == current.id), None)
        if record is not None or "cells" in undo:
            return None if record is None else rows.cell_from_json(record)
    return current


def about_at(tx: Transaction, key: NotebookKey, pad: Pad, version: int) -> PadDraft | None:
    """The pad's fields and metadata as they were at `version`; None if the history does not tell."""
    for later in range(version + 1, pad.version + 1):
        undo = read_undo(tx, key, later)
        if undo is None:
            return None
        if "about" in undo:
            return rows.about_from_json(undo["about"])
    return pad.about


def schema_at(
    tx: Transaction, key: NotebookKey, current: SharedSchema, latest: int, version: int
) -> SharedSchema | None:
    """The schema as it was at `version`; `current` is the schema at version `latest`. None if the history does not tell."""
    for later in range(version + 1, latest + 1):
        undo = read_undo(tx, key, later)
        if undo is None:
            return None
        if "schemas" in undo:
            return next((SharedSchema(**schema) for schema in undo["schemas"] if schema["id"] == current.id), None)
        if "schema" in undo and undo["schema"]["id"] == current.id:
            before = undo["schema"]["before"]
            return None if before is None else SharedSchema(**before)
    return current


class CellMove(TypedDict):
    """A cell that was changed: its index, and its index before if it was moved."""

    cell_id: str
    index: int
    moved_from: NotRequired[int]


class SchemaName(TypedDict):
    id: str
    name: str


class ChangeSubject(TypedDict, total=False):
    """What a change was about, for a reader; empty if it was about the whole pad."""

    cells: list[CellMove]
    fields: list[str]
    schema: SchemaName


class PadVersion(ChangeSubject):
    """A version of a pad, and the change that made it."""

    version: int
    at: str
    change: str
    diff: NotRequired[str]


@dataclass(frozen=True, slots=True)
class PadChange:
    """What was done, how to undo it, and for a reader what it was about."""

    action: str
    undo: UndoRecord
    subject: ChangeSubject = field(default_factory=ChangeSubject)


def changed_fields(before: PadDraft, after: PadDraft) -> list[str]:
    """The names of the pad's fields and metadata that differ."""
    old, new = all_words(before), all_words(after)
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def moved_cell(before: Cell, after: Cell) -> CellMove:
    place: CellMove = {"cell_id": after.id, "index": after.index}
    return place if before.index == after.index else {**place, "moved_from": before.index}


def record(tx: Transaction, key: NotebookKey, version: int, now: int, change: PadChange) -> int:
    """Store a change, and delete those that are too old now. Returns how many bytes the history has grown."""
    # A single character beyond U+FFFF makes Python use four bytes for every character of the text.
    wide = any(_WIDE.search(cell["content"]) for cell in change.undo.get("cells", ()))
    undo = rows.dumped(change.undo, ascii_only=wide)
    size = rows.bytes_of_text(undo)
    tx.run(
        "INSERT INTO pad_changes (tenant, pad, version, at, what, undo, touched, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        key.owner,
        key.id,
        version,
        now,
        change.action,
        undo,
        rows.dumped(change.subject),
        size,
    )
    return size - (forget_until(tx, key, version - HISTORY_KEPT) if version > HISTORY_KEPT else 0)


def forget_until(tx: Transaction, key: NotebookKey, version: int) -> int:
    """Delete the changes up to this version. Returns how many bytes those had."""
    deleted = tx.rows(
        "DELETE FROM pad_changes WHERE tenant = ? AND pad = ? AND version <= ? RETURNING bytes",
        key.owner,
        key.id,
        version,
    )
    return sum(cast("int", size) for (size,) in deleted)


def forget_history(tx: Transaction, key: NotebookKey) -> None:
    tx.run("DELETE FROM pad_changes WHERE tenant = ? AND pad = ?", key.owner, key.id)


def changes(tx: Transaction, key: NotebookKey, limit: int) -> list[PadVersion]:
    """The changes, newest first: each with the version it made, when, and what it was about."""
    change_rows = tx.rows(
        "SELECT version, at, what, touched FROM pad_changes WHERE tenant = ? AND pad = ? ORDER BY version DESC LIMIT ?",
        key.owner,
        key.id,
        limit,
    )
    versions: list[PadVersion] = []
    for version, at, action, subject_json in cast("list[tuple[int, int, str, str | None]]", change_rows):
        subject: ChangeSubject = {} if subject_json is None else rows.loaded(subject_json)
        versions.append({"version": version, "at": iso_time(at), "change": action, **subject})
    return versions
