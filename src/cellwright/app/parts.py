"""What the parts keep, and where: known to the workspace and to the commands that look after the database."""

from cellwright.app.settings import Settings
from cellwright.context.schema import MIGRATIONS as CONTEXT
from cellwright.scratch.schema import MIGRATIONS as SCRATCH
from cellwright.storage.database import Database
from cellwright.storage.embeddings.models import Models
from cellwright.storage.embeddings.port import EmbeddingChoice
from cellwright.storage.indexed import IndexedSearch
from cellwright.storage.location import Location, locate
from cellwright.storage.open_search import open_search
from cellwright.storage.search_schema import MIGRATIONS as SEARCH
from cellwright.thinking.schema import MIGRATIONS as THINKING

MIGRATIONS = (*SEARCH, *SCRATCH, *THINKING, *CONTEXT)


def database_location(settings: Settings) -> Location:
    return locate(settings.database.reveal() if settings.database else "", settings.state_dir)


def search_of(settings: Settings, database: Database) -> IndexedSearch:
    """The search index of the database, with the model that the settings name."""
    choice = EmbeddingChoice(settings.embedding_model, settings.embedding_url, settings.embedding_key)
    return open_search(database, Models(choice))
