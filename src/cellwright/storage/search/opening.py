"""The search index that goes with a database."""

from cellwright.storage.database import Database, Engine
from cellwright.storage.postgres.search import PostgresSearch
from cellwright.storage.search.embeddings.models import Models
from cellwright.storage.search.indexed import IndexedSearch
from cellwright.storage.sqlite.search import SqliteSearch


def open_search(database: Database, models: Models | None = None) -> IndexedSearch:
    """Cheap: neither the database nor a model is touched before the first use. Without models, search is by words only."""
    return PostgresSearch(database, models) if database.engine is Engine.POSTGRESQL else SqliteSearch(database, models)
