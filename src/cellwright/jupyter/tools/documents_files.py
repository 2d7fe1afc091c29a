"""Files for the toolset `documents`: listed, created, deleted, renamed and copied. Nothing is overwritten unasked."""

import json
from typing import Annotated, Any, Literal, cast

from pydantic import Field

from cellwright.core.budget import estimate_tokens
from cellwright.core.errors import Conflict, InvalidArgument, NotFound
from cellwright.core.toolset import Reply
from cellwright.core.types import Call
from cellwright.jupyter.model import CellType, FileKind, JsonObject, joined
from cellwright.jupyter.paths import DocPath, NotebookPath
from cellwright.jupyter.port import Documents
from cellwright.jupyter.service import Connected
from cellwright.jupyter.tools.common import compact
from cellwright.jupyter.tools.documents_common import PAGE_TOKENS, DocumentFiles, Path, described

PAGE_ENTRIES = 100
FORMAT = 4


async def list_documents(
    files: DocumentFiles, call: Call, path: str = "", offset: Annotated[int, Field(ge=0)] = 0
) -> Reply[dict[str, Any]]:
    """Files, notebooks and folders in one folder. A long list comes in pages: go on with next.offset."""
    connected = await files.notebooks.connected(call)
    documents = connected.found.jupyter.documents
    found = await documents.folder(files.folder(path or connected.found.folder))
    listed = [info for info in found if files.allow_hidden or not info.name.startswith(".")]
    page: list[JsonObject] = []
    left = PAGE_TOKENS
    for info in listed[offset : offset + PAGE_ENTRIES]:
        entry = described(info, documents.url)
        left -= estimate_tokens(compact(entry))
        if left < 0 and page:
            break
        page.append(entry)
    following = offset + len(page)
    more = len(listed) - following if following < len(listed) else 0
    data: JsonObject = {
        "documents": page,
        "total": len(listed),
        "next": {"offset": following, "left_out": more} if more else None,
    }
    told = (f"{more} of {len(listed)} are left out: go on with offset {following}",) if more else ()
    return Reply(data, (compact(page), *told))


async def create_document(
    files: DocumentFiles,
    call: Call,
    path: Path,
    type: Literal["notebook", "file", "markdown", "directory"] = "notebook",  # noqa: A002 - the contract's name
    content: Annotated[str | None, Field(description="text; of a notebook its JSON")] = None,
) -> dict[str, Any]:
    """Create a notebook, text file or folder. Fails if there is something under that path already."""
    checked = files.path(path)
    kind = {"notebook": FileKind.NOTEBOOK, "directory": FileKind.DIRECTORY}.get(type, FileKind.FILE)
    if checked.is_notebook != (kind is FileKind.NOTEBOOK):
        wanted = '"notebook"' if checked.is_notebook else '"file", "markdown" or "directory"'
        raise InvalidArgument(
            f"{checked} is no path for a {type}",
            hint=f"A notebook's path ends with .ipynb, no other does: give the type {wanted}",
        )
    if kind is FileKind.DIRECTORY and content is not None:
        raise InvalidArgument("a folder has no content", hint="Create it, then the files in it")
    made = _notebook_json(content) if kind is FileKind.NOTEBOOK and content is not None else content
    documents = (await files.notebooks.connected(call)).found.jupyter.documents
    await _check_folder_of(documents, checked)
    await documents.create(checked, kind, made)
    return {"message": f"Created {type} {checked}", "path": checked.text, "type": type}


def _notebook_json(content: str) -> JsonObject:
    """A notebook as its file has it."""
    wrong = InvalidArgument(
        "content is not the JSON of a notebook",
        hint='Leave it out and use insert_nb_cells; or give {"cells": [...], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}',
    )
    try:
        parsed: object = json.loads(content)
    except (ValueError, RecursionError):
        raise wrong from None
    if not isinstance(parsed, dict):
        raise wrong
    notebook: JsonObject = {"metadata": {}, "nbformat": 4, "nbformat_minor": 5, **cast("JsonObject", parsed)}
    cells: object = notebook.get("cells")
    sound = isinstance(cells, list) and all(map(_is_cell, cast("list[object]", cells)))
    if not sound or not isinstance(notebook["metadata"], dict) or not isinstance(notebook["nbformat_minor"], int):
        raise wrong
    if notebook["nbformat"] != FORMAT:
        raise InvalidArgument(f"content is a notebook of format {notebook['nbformat']!r:.20}, not {FORMAT}")
    return notebook


def _is_cell(given: object) -> bool:
    """Whether Jupyter can write it, with what it cannot do without put in; what it only warns of is the caller's business."""
    if not isinstance(given, dict):
        return False
    cell = cast("JsonObject", given)
    source: object = cell.get("source")
    lines = cast("list[object]", source) if isinstance(source, list) else [source]
    kinds = {kind.value for kind in CellType}
    return (
        cell.get("cell_type") in kinds
        and all(isinstance(line, str) for line in lines)
        and isinstance(cell.setdefault("metadata", {}), dict)
        and (cell["cell_type"] != CellType.CODE or isinstance(cell.setdefault("outputs", []), list))
    )


async def delete_document(files: DocumentFiles, call: Call, path: Path) -> dict[str, Any]:
    """Delete a file, notebook or empty folder. People who have it open keep its text in their tab, but it is no longer saved."""
    checked = files.path(path)
    connected = await files.notebooks.connected(call)
    documents = connected.found.jupyter.documents
    info = await documents.stat(checked)
    if info.kind is FileKind.DIRECTORY and (inside := len(await documents.folder(checked))):
        raise Conflict(
            f"the folder {checked} has {inside} entries; nothing was deleted", hint="Delete what is in it first"
        )
    people = await connected.rooms.let_go(checked)
    await documents.delete(checked)
    kernel = await _kernel_of(connected, checked)
    return {"message": f"Deleted {checked}", "path": checked.text, "people": list(people), **kernel}


async def rename_document(
    files: DocumentFiles, call: Call, path: Path, new_path: Annotated[str, Field(alias="newPath")]
) -> dict[str, Any]:
    """Rename or move a file, notebook or folder. Fails if newPath exists. People who have it open go on under the new name."""
    checked, target = files.path(path), files.path(new_path)
    connected = await files.notebooks.connected(call)
    documents = connected.found.jupyter.documents
    info = await documents.stat(checked)
    if f"{target}/".startswith(f"{checked}/") and target != checked:
        raise InvalidArgument(f"{checked} cannot be moved into itself")
    if info.kind is not FileKind.DIRECTORY and checked.is_notebook != target.is_notebook:
        raise InvalidArgument(
            f"{target} would make a {'text file' if checked.is_notebook else 'notebook'} of {checked}",
            hint="A notebook's path ends with .ipynb, no other does",
        )
    await _check_free(documents, target)
    people = await connected.rooms.let_go(checked)
    await documents.rename(checked, target)
    files.notebooks.proposals.moved(checked, target)
    await _move_kernels(connected, checked, target)
    return {
        "message": f"Renamed {checked} to {target}",
        "old_path": checked.text,
        "new_path": target.text,
        "people": list(people),
    }


async def copy_document(
    files: DocumentFiles, call: Call, path: Path, copy_path: Annotated[str, Field(alias="copyPath")]
) -> dict[str, Any]:
    """Copy a file or notebook as it is now, with what people have not saved. Fails if copyPath exists."""
    checked, target = files.path(path), files.path(copy_path)
    connected = await files.notebooks.connected(call)
    documents = connected.found.jupyter.documents
    info = await documents.stat(checked)
    if info.kind is FileKind.DIRECTORY:
        raise InvalidArgument(f"{checked} is a folder; only files can be copied")
    if checked.is_notebook != target.is_notebook:
        raise InvalidArgument(f"{target} is of another kind than {checked}", hint="Keep the ending .ipynb as it is")
    await _check_free(documents, target)
    if info.kind is FileKind.NOTEBOOK:
        async with connected.rooms.notebook(NotebookPath(checked.text)) as notebook:
            content: object = notebook.view.as_json()
        await documents.create(target, FileKind.NOTEBOOK, content)
    else:
        await _copy_file(connected, checked, target)
    return {"message": f"Copied {checked} to {target}", "original_path": checked.text, "copy_path": target.text}


async def _copy_file(connected: Connected, path: DocPath, target: DocPath) -> None:
    """Byte for byte, unless people have changed it and not saved: then what they see."""
    documents = connected.found.jupyter.documents
    found = await documents.read(path, FileKind.FILE)
    if found.format == "text":
        async with connected.rooms.document(path) as document:
            text, on_disk = document.view.text, document.view.adapted(joined(found.content))
        if text != on_disk:
            await documents.create(target, FileKind.FILE, text)
            return
    await documents.copy(path, target)


async def _check_folder_of(documents: Documents, path: DocPath) -> None:
    if path.parent is None:
        return
    try:
        kind = (await documents.stat(path.parent)).kind
    except NotFound as missing:
        raise NotFound(f"no folder {path.parent} on the Jupyter server", hint="Create the folder first") from missing
    if kind is not FileKind.DIRECTORY:
        raise InvalidArgument(f"{path.parent} is not a folder", hint="list_documents shows what there is")


async def _check_free(documents: Documents, target: DocPath) -> None:
    """Before anything is touched: a free name in a folder that is there. Jupyter answers both with a bare failure."""
    await _check_folder_of(documents, target)
    try:
        await documents.stat(target)
    except NotFound:
        return
    raise Conflict(f"{target} exists already; nothing was changed", hint="Choose another path")


async def _move_kernels(connected: Connected, before: DocPath, after: DocPath) -> None:
    """Kernels go with their notebooks, also with those of a whole folder. A person's tab does this too, if there is one."""
    kernels = connected.found.jupyter.kernels
    for session in await kernels.sessions():
        if session.type == "notebook" and f"{session.path}/".startswith(f"{before}/"):
            await kernels.move_session(session.id, NotebookPath(after.text + session.path[len(before.text) :]))


async def _kernel_of(connected: Connected, path: DocPath) -> JsonObject:
    """A kernel that Jupyter goes on running under a path that is gone."""
    if not path.is_notebook:
        return {}
    session = await connected.found.jupyter.kernels.session_of(NotebookPath(path.text))
    if session is None or session.kernel is None:
        return {}
    note = f"Jupyter still runs its kernel under {path}"
    return {"kernel": {"id": session.kernel.id, "name": session.kernel.name, "note": note}}
