"""The commands that look after the database: backup, restore, vacuum, reindex."""

import asyncio
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from cellwright.app.parts import MIGRATIONS, database_location, search_of
from cellwright.app.settings import Settings
from cellwright.core.text.counting import counted
from cellwright.storage.location import open_database
from cellwright.storage.maintenance import Progress, backup, restore, vacuum

BAR_WIDTH = 30


@contextmanager
def progress_bar(label: str) -> Generator[Progress]:
    """Show a progress bar on stderr while the block runs, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return

    def show(completed: int, total: int) -> None:
        fraction = completed / total if total else 1.0
        bar = "█" * round(fraction * BAR_WIDTH)
        print(f"\r{label} {bar:░<{BAR_WIDTH}} {fraction:4.0%}", end="", file=sys.stderr, flush=True)  # noqa: T201

    try:
        yield show
    finally:
        print(file=sys.stderr)  # noqa: T201


def back_up(settings: Settings, file: Path) -> int:
    with progress_bar("backup") as progress:
        copy = backup(database_location(settings), file, progress)
    print(f"{file}: {copy.size:,} bytes, as of {counted(copy.commits, 'change')}")  # noqa: T201
    return 0


def restore_from(settings: Settings, file: Path, *, force: bool) -> int:
    with progress_bar("restore") as progress:
        previous = restore(database_location(settings), file, MIGRATIONS, force=force, progress=progress)
    print(f"restored from {file}" + (f"; what was there before is in {previous}" if previous else ""))  # noqa: T201
    return 0


def give_room_back(settings: Settings) -> int:
    with progress_bar("vacuum") as progress:
        freed = vacuum(database_location(settings), progress)
    print(f"{freed:,} bytes are free again")  # noqa: T201
    return 0


def index_again(settings: Settings) -> int:
    with progress_bar("reindex") as progress:
        count = asyncio.run(_reindex(settings, progress))
    print(f"Indexed {counted(count, 'text')}")  # noqa: T201
    return 0


async def _reindex(settings: Settings, progress: Progress) -> int:
    database = open_database(database_location(settings), MIGRATIONS)
    search = search_of(settings, database)
    try:
        return await search.reindex(progress)
    finally:
        await search.close()
        await database.close()
