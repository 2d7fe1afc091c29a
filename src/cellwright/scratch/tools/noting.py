"""What answers show of a pad, noted for the changes that follow them."""

from collections.abc import Sequence

from cellwright.core.types import Call
from cellwright.notebook.model import Cell
from cellwright.scratch.sight.memory import Basis, Expect, Sights
from cellwright.scratch.tools.common import PREVIEW, CellText, PadHead
from cellwright.scratch.views import PadView
from cellwright.storage.cells import NotebookKey


def basis_of(call: Call, expect: Expect | None) -> Basis:
    """What a change goes by: what was shown to this caller, or what they say they saw."""
    return Basis(call.session, expect)


def note_page(sights: Sights, call: Call, view: PadView, head: PadHead, page: Sequence[CellText]) -> None:
    """Note a page of a pad."""
    key = NotebookKey(call.principal.id, view.pad.id)
    cut_ids = {text["cell_id"] for text in page if "content_uri" in text}
    shown_ids = {text["cell_id"] for text in page}
    whole = [cell for cell in view.cells if cell.id in shown_ids - cut_ids]
    cut = [cell for cell in view.cells if cell.id in cut_ids]
    metadata = head.get("metadata")
    everything = metadata is not None and "schemas_left_out" not in head and len(whole) == view.pad.cell_count
    sights.note_reading(call.session, key, view.pad, whole, cut, everything=everything)
    if metadata is not None:
        schemas = [schema for schema in view.schemas if schema.name in metadata.get("schemas", {})]
        sights.note_about(call.session, key, view.pad)
        sights.note_schemas(call.session, key, view.pad, schemas)


def note_previews(sights: Sights, call: Call, view: PadView, cells: Sequence[Cell]) -> None:
    """Note cells of which the first characters were shown."""
    key = NotebookKey(call.principal.id, view.pad.id)
    whole = [cell for cell in cells if len(cell.source) <= PREVIEW and cell.check.schema is None]
    cut = [cell for cell in cells if cell not in whole]
    sights.note_reading(call.session, key, view.pad, whole, cut)


def note_cells(sights: Sights, call: Call, view: PadView) -> None:
    """Note that all cells of the view were shown."""
    key, everything = NotebookKey(call.principal.id, view.pad.id), len(view.cells) == view.pad.cell_count
    sights.note_reading(call.session, key, view.pad, view.cells, everything=everything)
