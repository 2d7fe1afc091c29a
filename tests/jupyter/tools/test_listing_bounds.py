"""A list of notebooks has an end, however many folders there are, and says so."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cellwright.app.workspace import local_user
from cellwright.core.types import Call
from cellwright.jupyter.files import on_disk as localfiles
from cellwright.jupyter.files.on_disk import walk_local
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.inside import contents as local_contents
from cellwright.jupyter.port import Jupyter
from cellwright.jupyter.remote import snapshots
from cellwright.jupyter.server.connect import FoundServer
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.notebooks import list_nbs
from cellwright.jupyter.tools.search import search_nbs
from jupyter_support import JupyterServer
from requirements import requirement

pytestmark = pytest.mark.anyio
EMPTY = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
MOST = 6


def make_tree(root: Path) -> None:
    """Three folders in a row, each with a notebook, beside ten that are empty."""
    place = root
    for name in ("a", "b", "c"):
        place /= name
        place.mkdir(parents=True)
        (place / "n.ipynb").write_text(EMPTY, encoding="utf-8")
    for number in range(10):
        (root / "a" / f"z{number}").mkdir()


@requirement("listing:bounded")
def test_what_is_near_is_found_before_the_walk_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tree(tmp_path)
    whole = walk_local(tmp_path, None, ".ipynb", 100)
    assert ([one.path for one in whole], whole.complete) == (["a/b/c/n.ipynb", "a/b/n.ipynb", "a/n.ipynb"], True)
    monkeypatch.setattr(localfiles, "MOST_FOLDERS", MOST)
    part = walk_local(tmp_path, None, ".ipynb", 100)
    assert ([one.path for one in part], part.complete) == (["a/b/n.ipynb", "a/n.ipynb"], False)
    monkeypatch.setattr(localfiles, "MOST_FOLDERS", 14)
    assert walk_local(tmp_path, None, ".ipynb", 100).complete, "exactly as many as there are"
    monkeypatch.setattr(localfiles, "WALK_SECONDS", -1.0)
    assert not walk_local(tmp_path, None, ".ipynb", 100).complete, "time is up at once"


@requirement("listing:bounded")
async def test_a_server_is_not_asked_for_ever(
    jupyter: Jupyter, jupyter_server: JupyterServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree(jupyter_server.root / folder)
    # A list that took long is kept for a while, and this one is asked for twice.
    monkeypatch.setattr(snapshots, "QUICK_SECONDS", 3600.0)
    # Neither adapter knows the disk then: each folder is asked for.
    monkeypatch.setattr(local_contents.LocalContents, "root", None)
    whole = await jupyter.documents.find(DocPath(folder), ".ipynb")
    assert (len(whole), whole.complete) == (3, True)
    monkeypatch.setattr(snapshots, "MAX_FOLDERS", 2)
    monkeypatch.setattr(local_contents, "MOST_FOLDERS_ASKED", 2)
    part = await jupyter.documents.find(DocPath(folder), ".ipynb")
    assert (len(part) < 3, part.complete) == (True, False)


@requirement("listing:bounded")
async def test_tools_say_that_there_is_more(
    jupyter: Jupyter, jupyter_server: JupyterServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree(jupyter_server.root / folder)
    # A list that took long is kept for a while, and this one is asked for twice.
    monkeypatch.setattr(snapshots, "QUICK_SECONDS", 3600.0)

    async def connect() -> FoundServer:
        return FoundServer(jupyter, "named")

    notebooks = LiveNotebooks(connect, lambda: datetime.now(UTC))
    call = Call(local_user())
    listed = await list_nbs(notebooks, call, folder)
    assert (listed["total"], "note" in listed) == (3, False)
    assert (await search_nbs(notebooks, call, "needle", folder))["more"] is False
    monkeypatch.setattr(localfiles, "MOST_FOLDERS", 2)
    monkeypatch.setattr(snapshots, "MAX_FOLDERS", 2)
    monkeypatch.setattr(local_contents, "MOST_FOLDERS_ASKED", 2)
    listed = await list_nbs(notebooks, call, folder)
    assert listed["total"] is None
    assert "folders" in listed["note"]
    assert "further down" in listed["note"], "what to do"
    assert (await search_nbs(notebooks, call, "needle", folder))["more"] is True
