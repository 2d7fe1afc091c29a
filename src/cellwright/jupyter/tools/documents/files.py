"""Files for the toolset `documents`: listed, created, deleted, renamed and copied. Nothing is overwritten unasked."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.errors import CellwrightError, Conflict, Forbidden, InvalidArgument, NotFound
from cellwright.core.toolset import Reply
from cellwright.core.types import Call, Scope
from cellwright.jupyter.files.creating import create
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.model import FileKind
from cellwright.jupyter.notebooks.notebookjson import notebook_json
from cellwright.jupyter.notebooks.whole import whole_json
from cellwright.jupyter.port import Documents
from cellwright.jupyter.service import Connected, LiveNotebooks
from cellwright.jupyter.tools.common import compact, first_of
from cellwright.jupyter.tools.documents.common import PAGE_TOKENS, DescribedFile, DocumentFiles, Path, described
from cellwright.notebook.model import joined

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
    infos = await documents.folder(files.folder(path or connected.found.folder))
    visible = [info for info in infos if files.allow_hidden or not info.name.startswith(".")]
    pages = await documents.pages()
    page = first_of((described(info, pages) for info in visible[offset : offset + PAGE_ENTRIES]), PAGE_TOKENS)
    next_offset = offset + len(page)
    more = len(visible) - next_offset if next_offset < len(visible) else 0
    data: FolderPage = {
        "documents": page,
        "total": len(visible),
        "next": {"offset": next_offset, "left_out": more} if more else None,
    }
    note = (f"{more} of {len(visible)} are left out: go on with offset {next_offset}",) if more else ()
    return Reply(data, (compact(page), *note))


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
    doc_path = files.path(path)
    kind = {"notebook": FileKind.NOTEBOOK, "directory": FileKind.DIRECTORY}.get(type, FileKind.FILE)
    if doc_path.is_notebook != (kind is FileKind.NOTEBOOK):
        allowed_types = '"notebook"' if doc_path.is_notebook else '"file", "markdown" or "directory"'
        raise InvalidArgument(
            f"{doc_path} is no path for a {type}",
            hint=f"A notebook's path ends with .ipynb, no other does: give the type {allowed_types}",
        )
    if kind is FileKind.DIRECTORY and content is not None:
        raise InvalidArgument("a folder has no content", hint="Create it, then the files in it")
    body = notebook_json(content) if kind is FileKind.NOTEBOOK and content is not None else content
    documents = (await files.notebooks.connected(call)).found.jupyter.documents
    created = await create(documents, doc_path, kind, body)
    return {
        "message": f"Created {type} {doc_path}",
        "path": doc_path.text,
        "type": type,
        "created_folders": list(created.folders),
    }


class KernelOfGoneFile(TypedDict):
    """Whether the kernel of a deleted notebook was ended."""

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
    doc_path = files.path(path)
    connected = await files.notebooks.connected(call)
    documents = connected.found.jupyter.documents
    info = await documents.stat(doc_path)
    if info.kind is FileKind.DIRECTORY and (entry_count := len(await documents.folder(doc_path))):
        raise Conflict(
            f"the folder {doc_path} has {entry_count} entries; nothing was deleted", hint="Delete what is in it first"
        )
    people = await connected.rooms.let_go(doc_path)
    await documents.delete(doc_path)
    deleted: DeletedDocument = {"message": f"Deleted {doc_path}", "path": doc_path.text, "people": list(people)}
    if doc_path.is_notebook and (kernel := await _end_kernel(files.notebooks, call, NotebookPath(doc_path.text))):
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
    doc_path, target = files.path(path), files.path(new_path)
    connected = await files.notebooks.connected(call)
    documents = connected.found.jupyter.documents
    info = await documents.stat(doc_path)
    if f"{target}/".startswith(f"{doc_path}/") and target != doc_path:
        raise InvalidArgument(f"{doc_path} cannot be moved into itself", hint="name a place outside it")
    if info.kind is not FileKind.DIRECTORY and doc_path.is_notebook != target.is_notebook:
        raise InvalidArgument(
            f"{target} would make a {'text file' if doc_path.is_notebook else 'notebook'} of {doc_path}",
            hint="A notebook's path ends with .ipynb, no other does",
        )
    await _check_free(documents, target)
    people = await connected.rooms.let_go(doc_path)
    await documents.rename(doc_path, target)
    files.notebooks.moved(doc_path, target)
    files.shown.moved(doc_path, target)
    kernels_note = await _move_kernels(connected, doc_path, target)
    renamed: RenamedDocument = {
        "message": f"Renamed {doc_path} to {target}",
        "old_path": doc_path.text,
        "new_path": target.text,
        "people": list(people),
    }
    if kernels_note:
        renamed["kernels"] = kernels_note
    return renamed


class CopiedDocument(TypedDict):
    message: str
    original_path: str
    copy_path: str


async def copy_document(
    files: DocumentFiles, call: Call, path: Path, copy_path: Annotated[str, Field(alias="copyPath")]
) -> CopiedDocument:
    """Copy a file or notebook as it is now, with what people have not saved. Fails if copyPath exists."""
    doc_path, target = files.path(path), files.path(copy_path)
    connected = await files.notebooks.connected(call)
    documents = connected.found.jupyter.documents
    info = await documents.stat(doc_path)
    if info.kind is FileKind.DIRECTORY:
        raise InvalidArgument(
            f"{doc_path} is a folder; only files can be copied", hint="copy the files in it one by one"
        )
    if doc_path.is_notebook != target.is_notebook:
        raise InvalidArgument(f"{target} is of another kind than {doc_path}", hint="Keep the ending .ipynb as it is")
    await _check_free(documents, target)
    if info.kind is FileKind.NOTEBOOK:
        async with connected.rooms.notebook(NotebookPath(doc_path.text)) as notebook:
            content: object = await whole_json(notebook.view)
        await documents.create(target, FileKind.NOTEBOOK, content)
    else:
        await _copy_file(connected, doc_path, target)
    return {"message": f"Copied {doc_path} to {target}", "original_path": doc_path.text, "copy_path": target.text}


async def _copy_file(connected: Connected, path: DocPath, target: DocPath) -> None:
    """Copy byte for byte, or the text that people see if they have changed it and not saved."""
    documents = connected.found.jupyter.documents
    stored = await documents.read(path, FileKind.FILE)
    if stored.format == "text":
        async with connected.rooms.document(path) as document:
            text, on_disk = document.view.text, document.view.adapted(joined(stored.content))
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
    """Raise if the name is taken or its folder does not exist. Jupyter itself answers both with a bare failure."""
    await _check_folder_of(documents, target)
    try:
        await documents.stat(target)
    except NotFound:
        return
    raise Conflict(f"{target} exists already; nothing was changed", hint="Choose another path")


async def _move_kernels(connected: Connected, before: DocPath, after: DocPath) -> str:
    """Bind kernels to the new paths of their notebooks, also of a whole folder. A person's open tab does this too.

    Returns an empty text, or why they were not moved: people may move files and not be allowed to touch sessions.
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
    """End the kernel of a deleted notebook, which Jupyter would go on running, if this caller may end it."""
    kernels = (await notebooks.connected(call)).found.jupyter.kernels
    try:
        session = await kernels.session_of(path)
    except Forbidden as denied:
        return {"ended": False, "note": f"if one runs, it goes on: {denied.message}"}
    if session is None or session.kernel is None:
        return None
    kernel = session.kernel

    def not_ended(note: str) -> KernelOfGoneFile:
        return {"id": kernel.id, "name": kernel.name, "ended": False, "note": note}

    others = [other.path for other in await kernels.sessions() if other.kernel and other.kernel.id == kernel.id]
    others = sorted({*others} - {path.text})
    if others:
        return not_ended(f"it goes on for {', '.join(others[:5])}")
    if not call.principal.may(Scope.RUN):
        return not_ended("Jupyter goes on running it: the token lacks the scope 'run' that ending it needs")
    try:
        await notebooks.shut_down(call, path)
    except CellwrightError as error:
        # The file is gone, which is what was asked for.
        return not_ended(f"Jupyter did not end it: {error.message}")
    return {"id": kernel.id, "name": kernel.name, "ended": True}
