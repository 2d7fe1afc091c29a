"""Decides, inside the transaction of a change, whether it would overwrite what the caller has not seen: then it is merged or refused.

A caller who names the version that they expect is refused at any other version. For all others the base is what they were last shown:
a part that is still the same is changed; one that is not is merged with their change if the two do not touch, and else refused. A caller
who was shown nothing of a part changes it as it is, and `any` overwrites whatever is there.
"""

from dataclasses import dataclass, replace

from cellwright.core.errors import Conflict, NotFound
from cellwright.notebook.model import Cell
from cellwright.scratch.differences import brief_cells, brief_difference, brief_schemas, brief_words, is_cut
from cellwright.scratch.history import Undo, about_at, cell_at, schema_at, state_of
from cellwright.scratch.model import JsonObject, Pad, PadCellDraft, SharedSchema
from cellwright.scratch.sight.memory import (
    ABOUT,
    WHOLE,
    Basis,
    PadSight,
    PadSights,
    Part,
    cell_part,
    name_of_about,
    name_of_cell,
    name_of_pad,
    name_of_schema,
    schema_part,
)
from cellwright.scratch.sight.merging import merged_fields
from cellwright.scratch.views import all_words
from cellwright.storage.cells import NotebookKey
from cellwright.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class Guard:
    """One change by one caller. Every method takes the pad as the transaction of the change reads it."""

    sights: PadSights
    basis: Basis

    def check_version(self, tx: Transaction, key: NotebookKey, pad: Pad) -> None:
        """Refuse a change that expects another version of the pad."""
        expected = self.basis.expect
        if isinstance(expected, int) and expected != pad.version:
            sight = self.sights.of(self.basis.session, key, WHOLE)
            # The expected version may come from an answer that did not show all that others had done before it.
            is_behind = sight is not None and sight.name == name_of_pad(pad) and sight.version < expected < pad.version
            since = sight.version if sight is not None and is_behind else expected
            diff = _changes_since(tx, key, pad, since)
            raise Conflict(
                f"pad {key.id!r} is at version {pad.version}, not {expected}; nothing was done",
                hint=self._next_step(key, pad, WHOLE, diff),
                details=_details(pad, diff),
            )

    def check_whole(self, tx: Transaction, key: NotebookKey, pad: Pad) -> None:
        """Refuse to delete or replace all of a pad that was changed after the caller saw it."""
        self.check_version(tx, key, pad)
        sight = self._outdated(key, pad, WHOLE, name_of_pad(pad))
        if sight is not None:
            same_pad = sight.name == name_of_pad(pad)
            diff = _changes_since(tx, key, pad, sight.version) if same_pad else None
            raise self._refusal(f"pad {key.id!r}", key, pad, WHOLE, diff)

    def check_reset(self, tx: Transaction, key: NotebookKey, pad: Pad) -> None:
        """Refuse to reset a pad unless the caller says that they know of it."""
        if self.basis.expect is None:
            raise Conflict(
                f"there is a pad {key.id!r} already, at version {pad.version}; it stays as it is",
                hint=f"choose another scratch_id or leave it out; expect: {pad.version} resets that pad",
                details={"scratch_id": key.id, "version": pad.version},
            )
        self.check_whole(tx, key, pad)

    def merged_cell(
        self, tx: Transaction, key: NotebookKey, pad: Pad, current: Cell, draft: PadCellDraft
    ) -> tuple[PadCellDraft, str]:
        """The draft merged with the changes of others since the caller saw the cell, and those as a diff, empty if there are none."""
        sight = self._outdated(key, pad, cell_part(current.id), name_of_cell(current))
        if sight is None:
            return draft, ""
        base = _as_seen(cell_at(tx, key, current, pad.version, sight.version), sight)
        if base is not None and self._merges:
            merged = merged_fields(_fields_of(base), _fields_of_draft(draft), _fields_of(current))
            if merged is not None:
                return replace(draft, **merged), brief_cells([base], [current])
        raise self._cell_refusal(key, pad, base, current)

    def check_deletion(self, tx: Transaction, key: NotebookKey, pad: Pad, current: Cell) -> None:
        """Refuse to delete a cell that was changed after the caller saw it."""
        sight = self._outdated(key, pad, cell_part(current.id), name_of_cell(current))
        if sight is not None:
            base = _as_seen(cell_at(tx, key, current, pad.version, sight.version), sight)
            raise self._cell_refusal(key, pad, base, current)

    def merged_words(
        self, tx: Transaction, key: NotebookKey, pad: Pad, new_fields: JsonObject
    ) -> tuple[JsonObject, str]:
        """The new fields merged with the changes of others since the caller saw them, and those as a diff, empty if there are none."""
        sight = self._outdated(key, pad, ABOUT, name_of_about(pad.about))
        if sight is None:
            return new_fields, ""
        base = about_at(tx, key, pad, sight.version)
        if base is None or name_of_about(base) != sight.name:
            raise self._refusal(f"what is said about pad {key.id!r}", key, pad, ABOUT, None)
        diff = brief_words(base, pad.about)
        merged = merged_fields(all_words(base), new_fields, all_words(pad.about)) if self._merges else None
        if merged is None:
            raise self._refusal(f"what is said about pad {key.id!r}", key, pad, ABOUT, diff)
        return merged, diff

    def check_schema(self, tx: Transaction, key: NotebookKey, pad: Pad, current: SharedSchema) -> None:
        """Refuse to change or delete a schema that was changed after the caller saw it."""
        part = schema_part(current.id)
        sight = self._outdated(key, pad, part, name_of_schema(current))
        if sight is not None:
            base = schema_at(tx, key, current, pad.version, sight.version)
            diff = None if base is None else brief_schemas([base], [current])
            raise self._refusal(f"schema {current.name!r} of pad {key.id!r}", key, pad, part, diff)

    @property
    def _merges(self) -> bool:
        """Whether changes that do not touch are merged. Whoever expects a version wants no other."""
        return self.basis.expect is None

    def _outdated(self, key: NotebookKey, pad: Pad, part: Part, name: str) -> PadSight | None:
        """What the caller was shown of a part that was changed since, so that they may not overwrite it; None if they may."""
        session, expected = self.basis.session, self.basis.expect
        sight = self.sights.of(session, key, part)
        if expected == "any" or sight is None:
            return None
        if sight.name == name and (part != WHOLE or sight.version == pad.version):
            return None
        # A version is in every answer, also in one that does not show what others did before it.
        if expected is not None and self.sights.saw_refusal(session, key, part, pad, expected):
            return None
        return sight

    def _cell_refusal(self, key: NotebookKey, pad: Pad, base: Cell | None, current: Cell) -> Conflict:
        diff = None if base is None else brief_cells([base], [current])
        return self._refusal(f"cell {current.id!r} of pad {key.id!r}", key, pad, cell_part(current.id), diff)

    def _refusal(self, subject: str, key: NotebookKey, pad: Pad, part: Part, diff: str | None) -> Conflict:
        return Conflict(
            f"{subject} was changed after it was last shown to you; nothing was done",
            hint=self._next_step(key, pad, part, diff),
            details=_details(pad, diff),
        )

    def _next_step(self, key: NotebookKey, pad: Pad, part: Part, diff: str | None) -> str:
        """What to do after a refusal. Whoever is shown all that others did may repeat the change without reading again."""
        if diff is None or is_cut(diff):
            return "read it again before you change it"
        self.sights.note_refusal(self.basis.session, key, part, pad)
        return f"look at the diff; if your change is still right, repeat it with expect: {pad.version}"


def _details(pad: Pad, diff: str | None) -> JsonObject:
    details: JsonObject = {"scratch_id": pad.id, "version": pad.version}
    return details if diff is None else {**details, "diff": diff}


def _changes_since(tx: Transaction, key: NotebookKey, pad: Pad, version: int) -> str | None:
    """What was changed after this version; None if the version is not kept."""
    current = state_of(tx, key, pad)
    try:
        return brief_difference(Undo.state_at(tx, key, current, pad.version, version), current)
    except NotFound:
        return None


def _as_seen(cell: Cell | None, sight: PadSight) -> Cell | None:
    """The cell, if it is the one that was shown: a pad may have been deleted and created again since."""
    return cell if cell is not None and name_of_cell(cell) == sight.name else None


def _fields_of(cell: Cell) -> JsonObject:
    return {
        "language": cell.language,
        "content": cell.source,
        "metadata": dict(cell.metadata),
        "tags": cell.tags,
        "json_schema": cell.check.schema,
    }


def _fields_of_draft(draft: PadCellDraft) -> JsonObject:
    """The fields that are given."""
    fields: JsonObject = {
        "language": draft.language,
        "content": draft.content,
        "metadata": draft.metadata,
        "tags": draft.tags,
        "json_schema": draft.json_schema,
    }
    return {name: value for name, value in fields.items() if value is not None}
