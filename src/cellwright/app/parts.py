"""What the parts keep, and where: known to the workspace and to the commands that look after the database."""

from cellwright.app.context_traces import trace_of
from cellwright.app.finding.schema import MIGRATIONS as FINDING
from cellwright.app.settings import Settings
from cellwright.context.schema import MIGRATIONS as CONTEXT
from cellwright.context.service import Addresses, Limits, ProjectContext, no_addresses
from cellwright.core.resources import Changes
from cellwright.scratch.schema import MIGRATIONS as SCRATCH
from cellwright.storage.database import Database
from cellwright.storage.embeddings.models import Models
from cellwright.storage.embeddings.port import EmbeddingChoice
from cellwright.storage.indexed import IndexedSearch
from cellwright.storage.location import Location, locate
from cellwright.storage.open_search import open_search
from cellwright.storage.search import SearchIndex
from cellwright.storage.search_schema import MIGRATIONS as SEARCH
from cellwright.thinking.schema import MIGRATIONS as THINKING

MIGRATIONS = (*SEARCH, *SCRATCH, *THINKING, *CONTEXT, *FINDING)


def database_location(settings: Settings) -> Location:
    return locate(settings.database.reveal() if settings.database else "", settings.state_dir)


def search_of(settings: Settings, database: Database) -> IndexedSearch:
    """The search index of the database, with the model that the settings name."""
    models = Models(EmbeddingChoice(settings.embedding_model, settings.embedding_url, settings.embedding_key))
    if settings.search_index == "lancedb":
        # An optional part.
        from cellwright.storage.lance_place import lance_place  # noqa: PLC0415
        from cellwright.storage.open_lance import open_lance_search  # noqa: PLC0415

        return open_lance_search(database, lance_place(settings.lance_uri, settings.state_dir), models)
    return open_search(database, models)


def project_context(
    settings: Settings,
    database: Database,
    search: SearchIndex,
    changes: Changes,
    addresses: Addresses = no_addresses,
) -> ProjectContext:
    """What is known of the project in the workspace's root: for the server, and for the commands that show it."""
    limits = Limits(settings.context_window, settings.allow_secret_files, settings.context_idle * 60)
    return ProjectContext(settings.root, database, search, changes, trace_of, limits=limits, addresses=addresses)
