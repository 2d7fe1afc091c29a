"""New files and folders, with the folders above them made on the way. A failure leaves nothing behind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cellwright.core.errors import CellwrightError, Conflict, InvalidArgument, LimitReached, NotFound
from cellwright.core.text.counting import counted
from cellwright.jupyter.errors import UnknownOutcome
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.model import FileInfo, FileKind, JsonObject, NewCell
from cellwright.jupyter.notebooks.cells import new_cell_json
from cellwright.jupyter.notebooks.guards import check_count
from cellwright.jupyter.port import Documents

MOST_FOLDERS = 20


@dataclass(frozen=True, slots=True)
class CreatedFile:
    """A new file or folder, and the folders above it that were made for it."""

    info: FileInfo
    folders: tuple[str, ...]


async def create(documents: Documents, path: DocPath, kind: FileKind, content: object = None) -> CreatedFile:
    """Make a file or folder, and the missing folders above it. Raises Conflict if the path is taken."""
    folders = await make_folders(documents, path.parent)
    try:
        info = await documents.create(path, kind, content)
    except UnknownOutcome:
        # The file may be there, or still come: the folders stay for it.
        raise
    except CellwrightError:
        await _remove_empty(documents, folders)
        raise
    return CreatedFile(info, tuple(folder.text for folder in folders))


async def make_folders(documents: Documents, folder: DocPath | None) -> list[DocPath]:
    """Make a folder and those above it, as far as they are missing. Returns the new folders, outermost first."""
    missing = await _missing(documents, folder)
    if len(missing) > MOST_FOLDERS:
        raise LimitReached(
            f"{missing[-1]} needs {counted(len(missing), 'new folder')}; at most {MOST_FOLDERS} are made at once",
            hint="Choose a path that is less deep",
        )
    new_folders: list[DocPath] = []
    for path in missing:
        try:
            await documents.create(path, FileKind.DIRECTORY)
        except Conflict:
            # Somebody else made the folder meanwhile: it is there, and not ours.
            if not await _is_folder(documents, path):
                raise
        except CellwrightError:
            await _remove_empty(documents, new_folders)
            raise
        else:
            new_folders.append(path)
    return new_folders


async def _missing(documents: Documents, folder: DocPath | None) -> list[DocPath]:
    """This folder and those above it that are not there, outermost first."""
    folders: list[DocPath] = []
    while folder is not None:
        folders.insert(0, folder)
        folder = folder.parent
    # From the outermost on: Jupyter fails for a path that leads through a file.
    while folders and await _is_folder(documents, folders[0]):
        folders.pop(0)
    return folders


async def _is_folder(documents: Documents, path: DocPath) -> bool:
    try:
        kind = (await documents.stat(path)).kind
    except NotFound:
        return False
    if kind is not FileKind.DIRECTORY:
        raise InvalidArgument(f"{path} is not a folder", hint="Choose a path whose folders are folders")
    return True


async def _remove_empty(documents: Documents, folders: Sequence[DocPath]) -> None:
    """Remove folders that were made for a file that could not be made. A folder in which somebody put something stays."""
    for folder in reversed(folders):
        try:
            if await documents.folder(folder):
                return
            await documents.delete(folder)
        except CellwrightError:
            # An empty folder is in nobody's way. The caller should learn why the file could not be made.
            return


def new_notebook(cells: Sequence[NewCell], kernelspec: Mapping[str, str] | None) -> JsonObject:
    """A notebook with these cells; with one empty cell if there are none.

    As JupyterLab makes it: a server that shares documents adds that cell anyway.
    """
    check_count(len(cells))
    new_cells: list[JsonObject] = []
    used_ids: set[str] = set()
    for cell in cells or (NewCell(""),):
        new_cells.append(new_cell_json(cell, used_ids))
        used_ids.add(str(new_cells[-1]["id"]))
    metadata: JsonObject = {} if kernelspec is None else {"kernelspec": dict(kernelspec)}
    return {"cells": new_cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
