"""What answers show of a pad, noted for the changes that follow them."""

from collections.abc import Sequence

from cellwright.core.types import Call
from cellwright.notebook.model import Cell
from cellwright.scratch.model import Pad, SharedSchema
from cellwright.scratch.sight.memory import Basis, Expect, PadSights
from cellwright.scratch.tools.common import PREVIEW, CellText, PadHead
from cellwright.scratch.views import PadView
from cellwright.storage.cells import NotebookKey


def basis_of(call: Call, expect: Expect | None) -> Basis:
    """What a change goes by: what was shown to this caller, or what they say they saw."""
    return Basis(call.session, expect)


def note_page(sights: PadSights, call: Call, view: PadView, head: PadHead, page: Sequence[CellText]) -> None:
    """Note a page of a pad."""
    session, key = call.session, NotebookKey(call.principal.id, view.pad.id)
    shown_ids = {text["cell_id"] for text in page}
    cut_ids = {text["cell_id"] for text in page if "content_uri" in text}
    whole_cells = [cell for cell in view.cells if cell.id in shown_ids - cut_ids]
    sights.note_reading(session, key, view.pad, whole_cells, [cell for cell in view.cells if cell.id in cut_ids])
    metadata = head.get("metadata")
    if metadata is not None:
        schemas = [schema for schema in view.schemas if schema.name in metadata.get("schemas", {})]
        sights.note_about(session, key, view.pad)
        sights.note_schemas(session, key, view.pad, schemas)
        if len(view.cells) == view.pad.cell_count:
            sights.note_if_all_seen(session, key, view.pad, view.cells, view.schemas)


def note_previews(sights: PadSights, call: Call, view: PadView, cells: Sequence[Cell]) -> None:
    """Note cells of which the first characters were shown."""
    key = NotebookKey(call.principal.id, view.pad.id)
    whole_cells = [cell for cell in cells if len(cell.source) <= PREVIEW and cell.check.schema is None]
    cut_cells = [cell for cell in cells if len(cell.source) > PREVIEW or cell.check.schema is not None]
    sights.note_reading(call.session, key, view.pad, whole_cells, cut_cells)


def note_cells(sights: PadSights, call: Call, view: PadView) -> None:
    """Note that all cells of the view were shown."""
    sights.note_reading(call.session, NotebookKey(call.principal.id, view.pad.id), view.pad, view.cells)


def note_schemas(sights: PadSights, call: Call, pad: Pad, schemas: Sequence[SharedSchema]) -> None:
    sights.note_schemas(call.session, NotebookKey(call.principal.id, pad.id), pad, schemas)
