"""Remembers what each caller was last shown of each pad, in the memory of this process: what is forgotten counts as never shown."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from cellwright.notebook.model import Cell, revision_of
from cellwright.scratch import rows
from cellwright.scratch.model import Pad, PadDraft, SharedSchema
from cellwright.scratch.rows import dumped
from cellwright.storage.cells import NotebookKey

REMEMBERED = 20_000
"""Parts of pads, of all callers together: some megabytes."""
Expect = int | Literal["any"]
Part = str
"""A part of a pad that one change replaces: its words, one cell or one schema; or all of the pad."""
WHOLE: Part = ""
ABOUT: Part = "about"


@dataclass(frozen=True, slots=True)
class Basis:
    """What a change goes by: who makes it, and the version of the pad that they say they saw."""

    session: str = ""
    """Under this key it is remembered what the caller was shown; nothing is remembered of callers without one."""
    expect: Expect | None = None


UNSEEN = Basis()
"""For a caller to whom nothing was shown: they may change a pad as it is, but not replace one as a whole."""
ANY = Basis(expect="any")


@dataclass(frozen=True, slots=True)
class PadSight:
    """A part of a pad as it was shown: at which version of the pad, and a short name for what it was."""

    version: int
    name: str


def cell_part(cell_id: str) -> Part:
    return f"cells/{cell_id}"


def schema_part(schema_id: str) -> Part:
    return f"schemas/{schema_id}"


def name_of_pad(pad: Pad) -> str:
    """The same for all versions of a pad, and another for a pad that was deleted and created again."""
    return str(pad.created)


def name_of_about(about: PadDraft) -> str:
    return revision_of(dumped(rows.about_as_json(about)))


def name_of_schema(schema: SharedSchema) -> str:
    return revision_of(dumped(rows.schema_as_json(schema)))


def name_of_cell(cell: Cell) -> str:
    attributes = dumped([cell.language, cell.metadata, cell.tags, cell.check.schema])
    return revision_of(f"{attributes}\n{cell.source}")


class PadSights:
    """The sights of all callers. The threads of the database read them while the event loop writes them, hence the lock."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._sights: OrderedDict[tuple[str, NotebookKey, Part], PadSight] = OrderedDict()
        self._refusals: OrderedDict[tuple[str, NotebookKey, Part], PadSight] = OrderedDict()

    def of(self, session: str, key: NotebookKey, part: Part) -> PadSight | None:
        with self._lock:
            return self._sights.get((session, key, part))

    def saw_refusal(self, session: str, key: NotebookKey, part: Part, pad: Pad, version: int) -> bool:
        """Whether a refusal showed what had become of this part, or of the whole pad, at this version."""
        shown_diff = PadSight(version, name_of_pad(pad))
        with self._lock:
            return shown_diff in (self._refusals.get((session, key, part)), self._refusals.get((session, key, WHOLE)))

    def note_refusal(self, session: str, key: NotebookKey, part: Part, pad: Pad) -> None:
        """Note that a refusal showed the caller what has become of a part at this version of the pad."""
        if session:
            self._remember(self._refusals, (session, key, part), PadSight(pad.version, name_of_pad(pad)))

    def note(self, session: str, key: NotebookKey, part: Part, sight: PadSight) -> None:
        if session:
            self._remember(self._sights, (session, key, part), sight)

    def forget(self, session: str, key: NotebookKey, part: Part) -> None:
        with self._lock:
            self._sights.pop((session, key, part), None)

    def note_cells(self, session: str, key: NotebookKey, pad: Pad, cells: Iterable[Cell]) -> None:
        if session:
            for cell in cells:
                self.note(session, key, cell_part(cell.id), PadSight(pad.version, name_of_cell(cell)))

    def note_reading(
        self,
        session: str,
        key: NotebookKey,
        pad: Pad,
        cells: Iterable[Cell],
        cut: Iterable[Cell] = (),
    ) -> None:
        """Note that these cells were shown, those of `cut` only in part, which counts where nothing was shown before."""
        self.note_cells(session, key, pad, cells)
        self.note_cells(session, key, pad, [cell for cell in cut if self.of(session, key, cell_part(cell.id)) is None])
        if self.of(session, key, WHOLE) is None:
            self.note_pad(session, key, pad)

    def note_about(self, session: str, key: NotebookKey, pad: Pad) -> None:
        self.note(session, key, ABOUT, PadSight(pad.version, name_of_about(pad.about)))

    def note_schemas(self, session: str, key: NotebookKey, pad: Pad, schemas: Iterable[SharedSchema]) -> None:
        for schema in schemas:
            self.note(session, key, schema_part(schema.id), PadSight(pad.version, name_of_schema(schema)))

    def note_if_all_seen(
        self, session: str, key: NotebookKey, pad: Pad, cells: Sequence[Cell], schemas: Sequence[SharedSchema]
    ) -> None:
        """Note the pad if all of it has been shown as it is now. It may have taken several answers. `cells` are all it has."""
        parts = [
            (ABOUT, lambda: name_of_about(pad.about)),
            *((schema_part(schema.id), partial(name_of_schema, schema)) for schema in schemas),
            *((cell_part(cell.id), partial(name_of_cell, cell)) for cell in cells),
        ]
        if self.knows(session, key, pad):
            return
        sights = ((self.of(session, key, part), name) for part, name in parts)
        if all(sight is not None and sight.name == name() for sight, name in sights):
            self.note_pad(session, key, pad)

    def note_pad(self, session: str, key: NotebookKey, pad: Pad) -> None:
        """Note that all of the pad is known to the caller."""
        self.note(session, key, WHOLE, PadSight(pad.version, name_of_pad(pad)))

    def note_all(
        self, session: str, key: NotebookKey, pad: Pad, cells: Iterable[Cell], schemas: Iterable[SharedSchema]
    ) -> None:
        """Note that the caller knows the pad and each of its parts, because they made it so."""
        self.note_pad(session, key, pad)
        self.note_about(session, key, pad)
        self.note_cells(session, key, pad, cells)
        self.note_schemas(session, key, pad, schemas)

    def note_change(self, session: str, key: NotebookKey, pad: Pad) -> None:
        """Note that the caller changed the pad: whoever knew it before, or was shown nothing of it, knows it after the change."""
        sight = self.of(session, key, WHOLE)
        knew_pad = sight is None or sight == PadSight(pad.version - 1, name_of_pad(pad))
        if knew_pad or self.saw_refusal(session, key, WHOLE, pad, pad.version - 1):
            self.note_pad(session, key, pad)

    def knows(self, session: str, key: NotebookKey, pad: Pad) -> bool:
        """Whether all of the pad is known to the caller."""
        return self.of(session, key, WHOLE) == PadSight(pad.version, name_of_pad(pad))

    def _remember(
        self,
        entries: OrderedDict[tuple[str, NotebookKey, Part], PadSight],
        key: tuple[str, NotebookKey, Part],
        sight: PadSight,
    ) -> None:
        with self._lock:
            entries[key] = sight
            entries.move_to_end(key)
            if len(entries) > self._most:
                entries.popitem(last=False)
