"""Writers of pads that are killed: for each line on stdin one is forked, which changes pads until it is.

It says `pid N`, then before each change `try [...]` and after its acknowledgement `ack`; `dead` when it is gone.
"""

import asyncio
import json
import os
import random
import sys
from contextlib import suppress
from pathlib import Path

from cellwright.core.errors import CellwrightError
from cellwright.core.resources import Changes
from cellwright.scratch.model import PadCellDraft, PadLimits
from cellwright.scratch.schema import MIGRATIONS
from cellwright.scratch.service import Pads, Policy
from cellwright.scratch.sight.memory import ANY
from cellwright.scratch.validation.validators import Validators
from cellwright.storage.cells import MIGRATIONS as CELLS
from cellwright.storage.location import open_database
from cellwright.storage.search.opening import open_search
from cellwright.storage.search.schema import MIGRATIONS as SEARCH
from cellwright.workers.pool import WorkerPool

Change = tuple[str, str, str, int, str]
"""What is done, to which pad, to which cell, where, with which text."""


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def open_pads(file: Path) -> Pads:
    database = open_database(file, (*SEARCH, *CELLS, *MIGRATIONS))
    return Pads(
        database,
        open_search(database),
        Validators(WorkerPool()),
        Changes(),
        limits=PadLimits(pads=0, cells=8),
        policy=Policy(),
    )


def changed(model: dict[str, list[tuple[str, str]]], change: Change) -> dict[str, list[tuple[str, str]]]:
    """The pads after this change, as it should be: each a list of cells, each with its id and text."""
    what, pad, cell, place, text = change
    after = {name: list(cells) for name, cells in model.items()}
    cells = after.get(pad)
    if what == "create":
        after[pad] = [(cell, text)]
    elif what == "delete":
        after.pop(pad, None)
    elif cells is None:
        return model
    elif what == "append" and len(cells) < 8 and cell not in dict(cells):
        cells.append((cell, text))
    elif what == "move" and cell in dict(cells) and place < len(cells):
        cells.remove((cell, dict(cells)[cell]))
        cells.insert(place, (cell, text))
    elif what == "remove" and cell in dict(cells):
        cells.remove((cell, dict(cells)[cell]))
    return after


async def change_pads(pads: Pads, change: Change) -> None:
    what, pad, cell, place, text = change
    draft = PadCellDraft("py", text, cell)
    if what == "create":
        await pads.create("ann", pad, {}, [draft], ANY)
    elif what == "delete":
        await pads.delete("ann", pad)
    elif what == "append":
        await pads.insert("ann", pad, draft)
    elif what == "move":
        await pads.replace_cell("ann", pad, cell, draft, place)
    else:
        await pads.delete_cell("ann", pad, cell)


async def change_until_killed(file: Path) -> None:
    pads = open_pads(file)
    chosen = random.Random()
    while True:
        what = chosen.choices(("create", "append", "move", "remove", "delete"), (2, 8, 5, 2, 1))[0]
        pad, cell = f"p{chosen.randrange(4)}", f"c{chosen.randrange(10)}"
        change: Change = (what, pad, cell, chosen.randrange(8), "x" * chosen.randrange(3_000))
        say(f"try {json.dumps(change)}")
        # A refusal changes nothing, which the model knows as well.
        with suppress(CellwrightError):
            await change_pads(pads, change)
        say("ack")


def main() -> None:
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            asyncio.run(change_until_killed(Path(sys.argv[1])))
        say(f"pid {pid}")
        os.waitpid(pid, 0)
        say("dead")


if __name__ == "__main__":
    main()
