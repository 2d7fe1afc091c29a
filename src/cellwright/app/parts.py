"""What the parts store, and where. The workspace uses this, and the commands that look after the database."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cellwright.app.http.tokens import FILE_NAME as TOKENS
from cellwright.app.http.tokens import SERVE_FILE as SERVE_TOKEN
from cellwright.app.search.schema import MIGRATIONS as FINDING
from cellwright.app.settings import Settings
from cellwright.context.schema import MIGRATIONS as CONTEXT
from cellwright.context.service import Addresses, ContextLimits, ProjectContext
from cellwright.core.resources import Changes
from cellwright.notebook.places import Naming
from cellwright.scratch.schema import MIGRATIONS as SCRATCH
from cellwright.storage.cells import MIGRATIONS as CELLS
from cellwright.storage.database import Database
from cellwright.storage.location import FILE_NAME as DATABASE
from cellwright.storage.location import Location, locate
from cellwright.storage.search.embeddings.models import Models
from cellwright.storage.search.embeddings.port import EmbeddingChoice
from cellwright.storage.search.indexed import IndexedSearch
from cellwright.storage.search.opening import open_search
from cellwright.storage.search.port import SearchIndex
from cellwright.storage.search.schema import MIGRATIONS as SEARCH
from cellwright.system.folders import config_file, expanded, home_folder, jupyter_private_places
from cellwright.system.reach import Reach
from cellwright.thinking.schema import MIGRATIONS as THINKING

MIGRATIONS = (*SEARCH, *CELLS, *SCRATCH, *THINKING, *CONTEXT, *FINDING)


STATE_NAMES = (TOKENS, SERVE_TOKEN, DATABASE, "config.toml", "embedded-jupyter.log", "jupyter-runtime")
"""The files in the state folder. They are listed one by one for users whose workspace is that folder."""
DATABASE_SUFFIXES = ("", "-wal", "-shm", "-journal")


def reach_of(settings: Settings, environ: Mapping[str, str] = os.environ) -> Reach:
    """What tools may read in this workspace: neither our own keys, state and settings, nor Jupyter's, wherever they are."""
    home = home_folder()
    database = database_location(settings)
    private_places = [
        settings.state_dir,
        *(settings.state_dir / name for name in STATE_NAMES),
        config_file(environ, home, sys.platform),
        *settings.read_from,
        *((settings.token_file,) if settings.token_file else ()),
        *((expanded(settings.lance_uri),) if settings.lance_uri and "://" not in settings.lance_uri else ()),
        *jupyter_private_places(environ, home, sys.platform),
    ]
    if isinstance(database, Path):
        private_places += [database.with_name(f"{database.name}{suffix}") for suffix in DATABASE_SUFFIXES]
    return Reach.of(settings.root, private_places, secrets=settings.allow_secret_files)


def database_location(settings: Settings) -> Location:
    return locate(settings.database.reveal() if settings.database else "", settings.state_dir)


def search_of(settings: Settings, database: Database) -> IndexedSearch:
    """The search index of the database, with the model that the settings name."""
    models = Models(EmbeddingChoice(settings.embedding_model, settings.embedding_url, settings.embedding_key))
    if settings.search_index == "lancedb":
        # Imported here because LanceDB is optional.
        from cellwright.storage.lance.opening import open_lance_search  # noqa: PLC0415
        from cellwright.storage.lance.place import lance_place  # noqa: PLC0415

        return open_lance_search(database, lance_place(settings.lance_uri, settings.state_dir), models)
    return open_search(database, models)


def project_context(
    settings: Settings,
    database: Database,
    search: SearchIndex,
    changes: Changes,
    naming: Sequence[Naming] = (),
    addresses: Mapping[str, Addresses] | None = None,
) -> ProjectContext:
    """The context of the project in the workspace's root, for the server and for the commands that show it."""
    limits = ContextLimits(settings.context_window, settings.context_idle * 60)
    return ProjectContext(
        settings.root,
        database,
        search,
        changes,
        naming,
        limits=limits,
        reach=reach_of(settings),
        addresses=addresses,
    )
