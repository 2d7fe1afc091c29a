"""New files and folders, with the folders above them made on the way. What fails leaves nothing behind."""

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
    """Make a file or folder, and the folders above it that are missing. Conflict if there is one under this path."""
    folders = await make_folders(documents, path.parent)
    try:
        info = await documents.create(path, kind, content)
    except UnknownOutcome:
        # It may be there, or come yet: the folders stay for it.
        raise
    except CellwrightError:
        await _remove_empty(documents, folders)
        raise
    return CreatedFile(info, tuple(folder.text for folder in folders))


async def make_folders(documents: Documents, folder: DocPath | None) -> list[DocPath]:
    """Make a folder with those above it, as far as they are missing. Those that were made, outermost first."""
    missing = await _missing(documents, folder)
    if len(missing) > MOST_FOLDERS:
        raise LimitReached(
            f"{missing[-1]} needs {counted(len(missing), 'new folder')}; at most {MOST_FOLDERS} are made at once",
            hint="Choose a path that is less deep",
        )
    made: list[DocPath] = []
    for place in missing:
        try:
            await documents.create(place, FileKind.DIRECTORY)
        except Conflict:
            # Somebody else made it meanwhile: it is theirs, and there.
            if not await _is_folder(documents, place):
                raise
        except CellwrightError:
            await _remove_empty(documents, made)
            raise
        else:
            made.append(place)
    return made


async def _missing(documents: Documents, folder: DocPath | None) -> list[DocPath]:
    """This folder and those above it that are not there, outermost first."""
    places: list[DocPath] = []
    while folder is not None:
        places.insert(0, folder)
        folder = folder.parent
    # From outside in: asked about something inside of a file, Jupyter fails.
    while places and await _is_folder(documents, places[0]):
        places.pop(0)
    return places


async def _is_folder(documents: Documents, path: DocPath) -> bool:
    try:
        kind = (await documents.stat(path)).kind
    except NotFound:
        return False
    if kind is not FileKind.DIRECTORY:
        raise InvalidArgument(f"{path} is not a folder", hint="Choose a path whose folders are folders")
    return True


async def _remove_empty(documents: Documents, folders: Sequence[DocPath]) -> None:
    """Take back folders that were made for something that did not come. Who else put something there keeps it."""
    for folder in reversed(folders):
        try:
            if await documents.folder(folder):
                return
            await documents.delete(folder)
        except CellwrightError:
            # An empty folder is in nobody's way: why the file could not be made is what counts.
            return


def new_notebook(cells: Sequence[NewCell], kernelspec: Mapping[str, str] | None) -> JsonObject:
    """A notebook with these cells; with one empty cell if there are none.

    As JupyterLab makes it: a server that shares documents adds that cell anyway.
    """
    check_count(len(cells))
    made: list[JsonObject] = []
    taken: set[str] = set()
    for cell in cells or (NewCell(""),):
        made.append(new_cell_json(cell, taken))
        taken.add(str(made[-1]["id"]))
    metadata: JsonObject = {} if kernelspec is None else {"kernelspec": dict(kernelspec)}
    return {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
