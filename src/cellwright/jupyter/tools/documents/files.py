"""Files for the toolset `documents`: listed, created, deleted, renamed and copied. Nothing is overwritten unasked."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.errors import CellwrightError, Conflict, Forbidden, InvalidArgument, NotFound
from cellwright.core.toolset import Reply
from cellwright.core.types import Call, Scope
from cellwright.jupyter.files.creating import create
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.model import FileKind, joined
from cellwright.jupyter.notebooks.notebookjson import notebook_json
from cellwright.jupyter.notebooks.whole import whole_json
from cellwright.jupyter.port import Documents
from cellwright.jupyter.service import Connected, LiveNotebooks
from cellwright.jupyter.tools.common import compact, first_of
from cellwright.jupyter.tools.documents.common import PAGE_TOKENS, DescribedFile, DocumentFiles, Path, described

PAGE_ENTRIES = 100


class RestOfFolder(TypedDict):
    offset: int
    left_out: int


class FolderPage(TypedDict):
    documents: list[DescribedFile]
    total: int
    next: RestOfFolder | None


async def list_documents(
    files: DocumentFiles, call: Call, path: str = "", offset: Annotated[int, Field(ge=0)] = 0
) -> Reply[FolderPage]:
    """Files, notebooks and folders in one folder. A long list comes in pages: go on with next.offset."""
    connected = await files.notebooks.connected(call)
    documents = connected.found.jupyter.documents
    found = await documents.folder(files.folder(path or connected.found.folder))
    listed = [info for info in found if files.allow_hidden or not info.name.startswith(".")]
    pages = await documents.pages()
    page = first_of((described(info, pages) for info in listed[offset : offset + PAGE_ENTRIES]), PAGE_TOKENS)
    following = offset + len(page)
    more = len(listed) - following if following < len(listed) else 0
    data: FolderPage = {
        "documents": page,
        "total": len(listed),
        "next": {"offset": following, "left_out": more} if more else None,
    }
    told = (f"{more} of {len(listed)} are left out: go on with offset {following}",) if more else ()
    return Reply(data, (compact(page), *told))


class CreatedDocument(TypedDict):
    message: str
    path: str
    type: Literal["notebook", "file", "markdown", "directory"]
    created_folders: list[str]


async def create_document(
    files: DocumentFiles,
    call: Call,
    path: Path,
    type: Literal["notebook", "file", "markdown", "directory"] = "notebook",  # noqa: A002 - the contract's name
    content: Annotated[str | None, Field(description="text; of a notebook its JSON")] = None,
) -> CreatedDocument:
    """Create a notebook, text file or folder; missing folders above it too. Fails if there is something under that path already."""
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
    body = notebook_json(content) if kind is FileKind.NOTEBOOK and content is not None else content
    documents = (await files.notebooks.connected(call)).found.jupyter.documents
    created = await create(documents, checked, kind, body)
    return {
        "message": f"Created {type} {checked}",
        "path": checked.text,
        "type": type,
        "created_folders": list(created.folders),
    }


class KernelOfGoneFile(TypedDict):
    """What became of the kernel of a notebook that was deleted."""

    id: NotRequired[str]
    name: NotRequired[str]
    ended: bool
    note: NotRequired[str]


class DeletedDocument(TypedDict):
    message: str
    path: str
    people: list[str]
    kernel: NotRequired[KernelOfGoneFile]


async def delete_document(files: DocumentFiles, call: Call, path: Path) -> DeletedDocument:
    """Delete a file, notebook (its kernel ends) or empty folder. People who have it open keep its text, but it is no longer saved."""
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
    deleted: DeletedDocument = {"message": f"Deleted {checked}", "path": checked.text, "people": list(people)}
    if checked.is_notebook and (kernel := await _end_kernel(files.notebooks, call, NotebookPath(checked.text))):
        deleted["kernel"] = kernel
    return deleted


class RenamedDocument(TypedDict):
    message: str
    old_path: str
    new_path: str
    people: list[str]
    kernels: NotRequired[str]


async def rename_document(
    files: DocumentFiles, call: Call, path: Path, new_path: Annotated[str, Field(alias="newPath")]
) -> RenamedDocument:
    """Rename or move a file, notebook or folder. Fails if newPath exists. People who have it open go on under the new name."""
    checked, target = files.path(path), files.path(new_path)
    connected = await files.notebooks.connected(call)
    documents = connected.found.jupyter.documents
    info = await documents.stat(checked)
    if f"{target}/".startswith(f"{checked}/") and target != checked:
        raise InvalidArgument(f"{checked} cannot be moved into itself", hint="name a place outside it")
    if info.kind is not FileKind.DIRECTORY and checked.is_notebook != target.is_notebook:
        raise InvalidArgument(
            f"{target} would make a {'text file' if checked.is_notebook else 'notebook'} of {checked}",
            hint="A notebook's path ends with .ipynb, no other does",
        )
    await _check_free(documents, target)
    people = await connected.rooms.let_go(checked)
    await documents.rename(checked, target)
    files.notebooks.proposals.moved(checked, target)
    stayed = await _move_kernels(connected, checked, target)
    renamed: RenamedDocument = {
        "message": f"Renamed {checked} to {target}",
        "old_path": checked.text,
        "new_path": target.text,
        "people": list(people),
    }
    if stayed:
        renamed["kernels"] = stayed
    return renamed


class CopiedDocument(TypedDict):
    message: str
    original_path: str
    copy_path: str


async def copy_document(
    files: DocumentFiles, call: Call, path: Path, copy_path: Annotated[str, Field(alias="copyPath")]
) -> CopiedDocument:
    """Copy a file or notebook as it is now, with what people have not saved. Fails if copyPath exists."""
    checked, target = files.path(path), files.path(copy_path)
    connected = await files.notebooks.connected(call)
    documents = connected.found.jupyter.documents
    info = await documents.stat(checked)
    if info.kind is FileKind.DIRECTORY:
        raise InvalidArgument(
            f"{checked} is a folder; only files can be copied", hint="copy the files in it one by one"
        )
    if checked.is_notebook != target.is_notebook:
        raise InvalidArgument(f"{target} is of another kind than {checked}", hint="Keep the ending .ipynb as it is")
    await _check_free(documents, target)
    if info.kind is FileKind.NOTEBOOK:
        async with connected.rooms.notebook(NotebookPath(checked.text)) as notebook:
            content: object = await whole_json(notebook.view)
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


async def _move_kernels(connected: Connected, before: DocPath, after: DocPath) -> str:
    """Kernels go with their notebooks, also with those of a whole folder. A person's tab does this too, if there is one.

    Empty, or why they stayed: files may be moved by people who may not touch sessions.
    """
    kernels = connected.found.jupyter.kernels
    try:
        for session in await kernels.sessions():
            if session.type == "notebook" and f"{session.path}/".startswith(f"{before}/"):
                await kernels.move_session(session.id, NotebookPath(after.text + session.path[len(before.text) :]))
    except Forbidden as denied:
        return f"if one runs, it stays bound to the old path: {denied.message}"
    return ""


async def _end_kernel(notebooks: LiveNotebooks, call: Call, path: NotebookPath) -> KernelOfGoneFile | None:
    """End the kernel that Jupyter would go on running under a path that is gone, unless it is not this caller's to end."""
    kernels = (await notebooks.connected(call)).found.jupyter.kernels
    try:
        session = await kernels.session_of(path)
    except Forbidden as denied:
        return {"ended": False, "note": f"if one runs, it goes on: {denied.message}"}
    if session is None or session.kernel is None:
        return None
    kernel = session.kernel

    def left(note: str) -> KernelOfGoneFile:
        return {"id": kernel.id, "name": kernel.name, "ended": False, "note": note}

    others = [one.path for one in await kernels.sessions() if one.kernel and one.kernel.id == kernel.id]
    others = sorted({*others} - {path.text})
    if others:
        return left(f"it goes on for {', '.join(others[:5])}")
    if not call.principal.may(Scope.RUN):
        return left("Jupyter goes on running it: the token lacks the scope 'run' that ending it needs")
    try:
        await notebooks.shut_down(call, path)
    except CellwrightError as error:
        # The file is gone, which is what was asked for.
        return left(f"Jupyter did not end it: {error.message}")
    return {"id": kernel.id, "name": kernel.name, "ended": True}
