"""Opens the search index of a database together with one in LanceDB. Imported only if the settings ask for it."""

import logging

from cellwright.storage.database import Database, Engine
from cellwright.storage.lance.place import LanceFailed, LancePlace, check_installed
from cellwright.storage.lance.search import LanceSearch
from cellwright.storage.postgres.search import PgVectors, TsWords
from cellwright.storage.search.embeddings.models import Models
from cellwright.storage.sqlite.search import CodeVectors, FtsWords

log = logging.getLogger(__name__)


def open_lance_search(database: Database, place: LancePlace, models: Models | None = None) -> LanceSearch:
    """The index in LanceDB answers when it is up to date, else the database does. ConfigError if LanceDB cannot be used there."""
    check_installed()
    try:
        place.check()
    except LanceFailed as error:
        # The database answers until the store can be reached.
        log.warning("lance_index_not_reached error=%s", error.message)
    if database.engine is Engine.POSTGRESQL:
        return LanceSearch(database, TsWords(), PgVectors(), place, models)
    return LanceSearch(database, FtsWords(), CodeVectors(), place, models)
