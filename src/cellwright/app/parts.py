"""What the parts keep, and where: known to the workspace and to the commands that look after the database."""

from cellwright.app.settings import Settings
from cellwright.scratch.schema import MIGRATIONS as SCRATCH
from cellwright.storage.location import Location, locate
from cellwright.storage.sqlite_search import MIGRATIONS as SEARCH

MIGRATIONS = (*SEARCH, *SCRATCH)


def database_location(settings: Settings) -> Location:
    return locate(settings.database.reveal() if settings.database else "", settings.state_dir)
