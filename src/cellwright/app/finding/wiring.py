"""The finder of a workspace: which places there are, and under whose names."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from cellwright.app.finding.addresses import FolderInJupyter
from cellwright.app.finding.background import Indexing
from cellwright.app.finding.model import Kind, Place
from cellwright.app.finding.service import Finder
from cellwright.app.finding.sources import ContentsPlace, ProjectPlace, ThinkingPlace
from cellwright.app.settings import Settings
from cellwright.context.service import ProjectContext
from cellwright.core.resources import Changes
from cellwright.core.types import Call
from cellwright.jupyter.discovery import runtime_dir
from cellwright.jupyter.service import LiveNotebooks
from cellwright.storage.database import Database
from cellwright.storage.search import SearchIndex
from cellwright.thinking.service import Thinking


def make_finder(
    settings: Settings,
    database: Database,
    index: SearchIndex,
    changes: Changes,
    parts: tuple[LiveNotebooks, Thinking, ProjectContext],
    server: str,
) -> Finder:
    """`server` names the Jupyter server whose contents API is asked for notebooks; empty if they are the files of the root."""
    notebooks, thinking, context = parts
    files = f"workspace:{_digest(os.path.realpath(settings.root))}"
    shared = {
        Kind.FILE: files,
        Kind.NOTEBOOK: f"notebooks:{_digest(server)}" if server else files,
        Kind.DISCOVERY: context.search_tenant,
    }
    folder = ProjectPlace(files, context.files, with_notebooks=not server)

    def places(call: Call) -> Sequence[Place]:
        own = ThinkingPlace(thinking, call, settings.notebook_ttl * 60)
        return (folder, own, ContentsPlace(shared[Kind.NOTEBOOK], notebooks, call)) if server else (folder, own)

    async def at_the_root() -> str:
        return ""

    here = FolderInJupyter(settings.root, runtime_dir(os.environ, Path.home()))
    return Finder(
        index,
        Indexing(database, index),
        changes,
        shared=shared,
        places=places,
        folder=at_the_root if server else here,
    )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
