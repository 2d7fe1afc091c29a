"""New notebooks and folders, for the toolset `notebooks`."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.errors import Conflict, InvalidArgument
from cellwright.core.text.counting import counted
from cellwright.core.types import Call
from cellwright.jupyter.files.creating import make_folders
from cellwright.jupyter.files.paths import NotebookPath, folder_path
from cellwright.jupyter.notebooks.views import Order, Sight
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.common import CellWhereabouts, Insertion
from cellwright.notebook.model import revision_of


class CreatedFolder(TypedDict):
    message: str
    path: str
    created_folders: list[str]


class CreatedNotebook(CreatedFolder):
    cells: list[CellWhereabouts]
    view: str
    kernel_name: str | None


async def create_nb(
    notebooks: LiveNotebooks,
    call: Call,
    path: Annotated[str, Field(description="new notebook; a folder if it ends with /")],
    cells: list[Insertion] | None = None,
    kernel_name: str | None = None,
) -> CreatedNotebook | CreatedFolder:
    """Create a notebook, or a folder; missing folders above it too. Runs nothing. Refused if it exists."""
    if path.endswith("/"):
        if cells or kernel_name:
            raise InvalidArgument("a folder has no cells and no kernel", hint="A notebook's path ends with .ipynb")
        return await _create_folder(notebooks, call, path)
    notebook_path = NotebookPath(path)
    try:
        content, created = await notebooks.create(
            call, notebook_path, [insertion.cell() for insertion in cells or ()], kernel_name
        )
    except Conflict as exists:
        hint = "read_nb_cells reads it, insert_nb_cells adds cells; or choose another path"
        raise Conflict(exists.message, hint=hint) from exists
    where: list[CellWhereabouts] = [
        {"index": index, "id": cell["id"], "revision": revision_of(cell["source"])}
        for index, cell in enumerate(content["cells"])
    ]
    ids, revisions = [cell["id"] for cell in where], [str(cell["revision"]) for cell in where]
    sight = Sight(Order(tuple(ids)), tuple(revisions), (None,) * len(ids))
    return {
        "message": f"Created {notebook_path} with {counted(len(where), 'cell')}",
        "path": notebook_path.text,
        "created_folders": list(created.folders),
        "cells": where,
        "view": notebooks.sight(call, notebook_path).show_all(sight),
        "kernel_name": content["metadata"]["kernelspec"]["name"] if content["metadata"] else None,
    }


async def _create_folder(notebooks: LiveNotebooks, call: Call, path: str) -> CreatedFolder:
    folder = folder_path(path)
    documents = (await notebooks.connected(call)).found.jupyter.documents
    created = await make_folders(documents, folder)
    if folder is None or not created:
        raise Conflict(f"the folder {folder or '/'} exists already", hint="Use it as it is")
    return {
        "message": f"Created the folder {folder}",
        "path": folder.text,
        "created_folders": [created_folder.text for created_folder in created],
    }
