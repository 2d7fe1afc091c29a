"""What calls are about, without a workspace: to name places, shelves ask nothing of their parts."""

from pathlib import Path
from typing import cast

from cellwright.app.exchange.service import Exchange
from cellwright.context.traces import Traces
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.shelf import NotebookShelf
from cellwright.notebook.places import Naming
from cellwright.notebook.shelf import Shelf
from cellwright.scratch.service import Pads
from cellwright.scratch.shelf import PadShelf
from cellwright.thinking.service import Thinking
from cellwright.thinking.shelf import ThinkingShelf
from cellwright.workers.conversions import Conversions

NOTHING = cast("Conversions", None)
SHELVES: tuple[Shelf, ...] = (
    NotebookShelf(cast("LiveNotebooks", None), Path(), NOTHING),
    PadShelf(cast("Pads", None)),
    ThinkingShelf(cast("Thinking", None), 60.0),
)
NAMING: tuple[Naming, ...] = (*SHELVES, Exchange(SHELVES, NOTHING))
TRACES = Traces(NAMING)
