"""Choosing a notebook to work in, and looking at what the server has: notebooks, files, kernels."""

import asyncio
from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.errors import Conflict, InvalidArgument, LimitReached, NotFound
from cellwright.core.text.clean import clean
from cellwright.core.toolset import Reply
from cellwright.core.types import Call
from cellwright.jupyter.files.paths import DocPath, NotebookPath, folder_path
from cellwright.jupyter.inside.permitted import require_run
from cellwright.jupyter.model import FileInfo, FileKind
from cellwright.jupyter.port import Documents
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.common import KernelLeft, how_old, incomplete_note, kernel_left
from cellwright.jupyter.tools.current.common import CurrentCells, Offset, paged, table_of
from cellwright.jupyter.tools.current.notebooks import InUse
from cellwright.jupyter.tools.looking import NotebookStat, get_nb_stat

NOTEBOOK_COLUMNS = ("Path", "Name", "Current", "Kernel_ID", "Kernel_State")
FILE_COLUMNS = ("Path", "Type", "Size", "Last_Modified")
KERNEL_COLUMNS = ("ID", "Name", "State", "Connections", "Last_Activity", "Notebooks")
SPEC_COLUMNS = ("Name", "Display_Name", "Language", "Default", "Interpreter", "From")
CONCURRENT_FOLDERS = 8
MAX_FILES = 20_000

Depth = Annotated[int, Field(ge=1, le=20, description="1 is the folder alone")]
Mode = Annotated[Literal["connect", "create"], Field(description="create makes a new file")]


class NotebookRow(TypedDict):
    path: str
    name: str | None
    current: bool
    kernel_id: str | None
    kernel_state: str | None


class NotebookTable(TypedDict):
    notebooks: list[NotebookRow]
    total: int | None
    """None if nobody knows how many there are."""
    next_offset: int | None
    current: str | None
    age_seconds: NotRequired[float]
    note: NotRequired[str]


async def list_notebook(cells: CurrentCells, call: Call, offset: Offset = 0) -> Reply[NotebookTable]:
    """All notebooks as a table, yours first: path, the name you use it by, whether it is current, its running kernel."""
    connected = await cells.notebooks.connected(call)
    jupyter = connected.found.jupyter
    listing = await jupyter.documents.listing(folder_path(connected.found.folder), ".ipynb")
    used = cells.current.of(call)
    running = {
        session.path: (session.kernel.id, connected.kernels.state_of(session.kernel))
        for session in await jupyter.kernels.sessions()
        if session.kernel
    }
    used_paths = sorted({notebook.path.text for notebook in used})
    paths = [*used_paths, *sorted({file.path for file in listing.files} - set(used_paths))]
    implied = cells.current.implied(call)
    current = implied.text if implied else None
    rows = [_notebook_row(path, used, running.get(path), current=path == current) for path in paths]
    page = paged(rows, offset)
    data: NotebookTable = {
        "notebooks": page.rows,
        "total": page.total if listing.files.complete else None,
        "next_offset": page.next_offset,
        "current": current,
        **how_old(listing),
    }
    blocks = page.blocks(NOTEBOOK_COLUMNS)
    notes: list[str] = []
    if "age_seconds" in data:
        notes.append(f"this list is {data['age_seconds']:g} s old; list_nbs with refresh asks the server anew")
    if not listing.files.complete:
        notes.append(incomplete_note(""))
    if notes:
        data["note"] = "; ".join(notes)
    return Reply(data, (*blocks, *notes))


def _notebook_row(path: str, used: tuple[InUse, ...], kernel: tuple[str, str] | None, *, current: bool) -> NotebookRow:
    names = ", ".join(notebook.name for notebook in used if notebook.path.text == path) or None
    kernel_id, state = kernel or (None, None)
    return {"path": path, "name": names, "current": current, "kernel_id": kernel_id, "kernel_state": state}


class UsedNotebook(NotebookStat):
    message: str
    name: str
    kernel_ended: NotRequired[str]


async def use_notebook(
    cells: CurrentCells,
    call: Call,
    notebook_name: Annotated[str, Field(description="your name for it")],
    notebook_path: Annotated[str | None, Field(description="not needed for a name in use")] = None,
    mode: Mode = "connect",
    kernel_id: Annotated[str | None, Field(max_length=200, description="running kernel to bind it to")] = None,
) -> UsedNotebook:
    """Work in a notebook from now on: the other tools mean it when none is named. Its kernel starts with the first run."""
    cells.current.check(call, notebook_name)
    path = _path_to_use(cells, call, notebook_name, notebook_path, mode)
    if kernel_id is not None:
        require_run(call, "binding a kernel", "leave kernel_id out")
        await _check_kernel(cells, call, path, kernel_id)
    documents = (await cells.notebooks.connected(call)).found.jupyter.documents
    await (_create(cells.notebooks, call, path) if mode == "create" else _check_exists(documents, path))
    ended_kernel_id = await _bind(cells, call, path, kernel_id) if kernel_id is not None else None
    stat = await get_nb_stat(cells.notebooks, call, path.text)
    previous_path = cells.current.use(call, notebook_name, path)
    answer: UsedNotebook = {
        "message": _message(notebook_name, path, mode, previous_path),
        "name": notebook_name,
        **stat,
    }
    if ended_kernel_id is not None:
        answer["kernel_ended"] = ended_kernel_id
    return answer


def _path_to_use(cells: CurrentCells, call: Call, name: str, path: str | None, mode: str) -> NotebookPath:
    if path is not None:
        return NotebookPath(path)
    if mode == "create":
        raise InvalidArgument("a new notebook needs notebook_path", hint="folder/name.ipynb")
    return cells.current.named(call, name).path


def _message(name: str, path: NotebookPath, mode: str, previous_path: NotebookPath | None) -> str:
    message = (
        f"Created {path} with an empty cell, now current as {name!r}"
        if mode == "create"
        else f"{path} is now current as {name!r}"
    )
    return f"{message}; that name meant {previous_path} before" if previous_path not in (None, path) else message


async def _check_exists(documents: Documents, path: NotebookPath) -> None:
    try:
        await documents.stat(path)
    except NotFound as missing:
        hint = 'list_notebook shows what there is; mode "create" makes a new one'
        raise NotFound(missing.message, hint=hint) from missing


async def _create(notebooks: LiveNotebooks, call: Call, path: NotebookPath) -> None:
    try:
        await notebooks.create(call, path, ())
    except Conflict as exists:
        raise Conflict(exists.message, hint='mode "connect" uses it as it is') from exists


async def _check_kernel(cells: CurrentCells, call: Call, path: NotebookPath, kernel_id: str) -> None:
    """Raise, before anything is changed, if the kernel does not run, or if binding would end a kernel of other notebooks."""
    kernels = (await cells.notebooks.connected(call)).found.jupyter.kernels
    if kernel_id in await cells.notebooks.kernels_of_others(call):
        # In the server's own words: the answer must not reveal whether the kernel exists.
        raise NotFound(
            f"no kernel {kernel_id} on the Jupyter server {kernels.url}", hint="list_kernels shows the running ones"
        )
    try:
        await kernels.kernel(kernel_id)
    except NotFound as missing:
        raise NotFound(missing.message, hint="list_kernels shows the running ones") from missing
    sessions = await kernels.sessions()
    bound_kernel_id = next(
        (session.kernel.id for session in sessions if session.path == path.text and session.kernel), None
    )
    others = [
        session.path
        for session in sessions
        if session.kernel and session.kernel.id == bound_kernel_id and session.path != path.text
    ]
    if bound_kernel_id not in (None, kernel_id) and others:
        raise Conflict(
            f"{path} runs in kernel {bound_kernel_id} together with {', '.join(others[:5])}; leaving it would end that kernel",
            hint="bind the others elsewhere first, or go on without kernel_id",
        )


async def _bind(cells: CurrentCells, call: Call, path: NotebookPath, kernel_id: str) -> str | None:
    """Let the notebook run in this kernel. Returns the id of the kernel it had, which the server ends."""
    connected = await cells.notebooks.connected(call)
    kernels = connected.found.jupyter.kernels
    session = await kernels.session_of(path)
    if session is not None and session.kernel is not None and session.kernel.id == kernel_id:
        return None
    cells.notebooks.note_own_kernel(call, path)
    if session is None or session.kernel is None:
        await kernels.start_session(path, kernel_id=kernel_id)
        return None
    await kernels.switch_kernel(session.id, kernel_id=kernel_id)
    await connected.kernels.note_shutdown(session.kernel.id)
    return session.kernel.id


class UnusedNotebook(KernelLeft):
    message: str
    path: str
    current: str | None
    kernel_ended: str | None


async def unuse_notebook(
    cells: CurrentCells, call: Call, notebook_name: str, shutdown_kernel: bool = False
) -> UnusedNotebook:
    """Let go of a notebook; its kernel runs on, unless shutdown_kernel. If it was current, the one you chose before it is current again."""
    path = cells.current.named(call, notebook_name).path
    if shutdown_kernel:
        cells.path_to_change(call, notebook_name)
    shutdown = await cells.notebooks.shut_down(call, path) if shutdown_kernel else None
    released = cells.current.let_go(call, notebook_name)
    current = cells.current.current(call)
    now = f"current is {current.path} ({current.name!r})" if current else "none is current"
    answer: UnusedNotebook = {
        "message": f"Let go of {released.name!r} ({released.path}); {now}",
        "path": released.path.text,
        "current": current.path.text if current else None,
        "kernel_ended": shutdown.kernel.id if shutdown else None,
    }
    if shutdown_kernel:
        return answer
    return {**answer, **await kernel_left(cells.notebooks, call, released.path, "shutdown_nb_kernel")}


class RestartedNotebook(TypedDict):
    message: str
    path: str
    kernel_id: str | None
    restarted: bool


async def restart_notebook(
    cells: CurrentCells, call: Call, notebook_name: Annotated[str, Field(description="name or path")]
) -> RestartedNotebook:
    """Restart the notebook's kernel: variables are lost, cells and outputs stay. Runs nothing."""
    path = cells.path_to_change(call, notebook_name)
    before = await (await cells.notebooks.connected(call)).found.jupyter.kernels.session_of(path)
    session = await cells.notebooks.restart(call, path, None)
    what = "Restarted the kernel" if before else "There was no kernel to restart; started one"
    return {
        "message": f"{what} of {path}" if before else f"{what} for {path}",
        "path": path.text,
        "kernel_id": session.kernel.id if session.kernel else None,
        "restarted": before is not None,
    }


class FileRow(TypedDict):
    path: str
    type: str
    size: int | None
    last_modified: str


class FileTable(TypedDict):
    files: list[FileRow]
    total: int
    next_offset: int | None


async def list_files(
    cells: CurrentCells, call: Call, path: str = "", max_depth: Depth = 3, offset: Offset = 0
) -> Reply[FileTable]:
    """Files and folders below a folder as a table, without hidden ones: path, type, size, last modified."""
    connected = await cells.notebooks.connected(call)
    folder = folder_path(path or connected.found.folder)
    if folder is not None and folder.is_hidden:
        raise NotFound(f"no folder {folder} on the Jupyter server", hint="hidden folders are not shown")
    infos = await _files_below(connected.found.jupyter.documents, folder, max_depth)
    page = paged([_file_row(info) for info in infos], offset)
    data: FileTable = {"files": page.rows, "total": page.total, "next_offset": page.next_offset}
    return Reply(data, page.blocks(FILE_COLUMNS))


def _file_row(info: FileInfo) -> FileRow:
    return {
        "path": info.path,
        "type": info.kind.value,
        "size": info.size,
        "last_modified": info.last_modified.isoformat(),
    }


async def _files_below(documents: Documents, folder: DocPath | None, depth: int) -> list[FileInfo]:
    """Files level by level, no deeper than requested: deeper levels may take longer than anybody wants to wait."""
    files: list[FileInfo] = []
    level: list[DocPath | None] = [folder]
    for step in range(depth):
        level_files: list[FileInfo] = []
        for start in range(0, len(level), CONCURRENT_FOLDERS):
            batch = level[start : start + CONCURRENT_FOLDERS]
            for infos in await asyncio.gather(
                *(_visible_files(documents, subfolder, first=step == 0) for subfolder in batch)
            ):
                level_files += infos
            if len(files) + len(level_files) > MAX_FILES:
                raise LimitReached(
                    f"more than {MAX_FILES} files below {folder or '/'}",
                    hint="give a smaller max_depth, or a folder further down",
                )
        files += level_files
        level = [subfolder for info in level_files if (subfolder := _subfolder(info)) is not None]
    return sorted(files, key=lambda info: info.path)


async def _visible_files(documents: Documents, folder: DocPath | None, *, first: bool) -> list[FileInfo]:
    """The visible files of a folder. A subfolder may vanish meanwhile; the requested (first) folder must exist."""
    try:
        return [info for info in await documents.folder(folder) if not info.name.startswith(".")]
    except NotFound:
        if first:
            raise
        return []


def _subfolder(info: FileInfo) -> DocPath | None:
    if info.kind is not FileKind.DIRECTORY:
        return None
    try:
        return DocPath(info.path)
    except InvalidArgument:
        # The server has this name, but no tool accepts it: the folder is listed and not entered.
        return None


class KernelRow(TypedDict):
    id: str
    name: str
    state: str
    connections: int
    last_activity: str | None
    notebooks: str | None


KernelKindRow = TypedDict(
    "KernelKindRow",
    {
        "name": str,
        "display_name": str,
        "language": str,
        "default": bool,
        "interpreter": str | None,
        "from": str | None,
    },
)


class KernelTables(TypedDict):
    kernels: list[KernelRow]
    kernelspecs: list[KernelKindRow]


async def list_kernels(cells: CurrentCells, call: Call) -> Reply[KernelTables]:
    """Two tables: running kernels with the notebooks bound to them, and the kinds of kernel that can be started."""
    connected = await cells.notebooks.connected(call)
    kernels = connected.found.jupyter.kernels
    sessions = await kernels.sessions()
    running: list[KernelRow] = []
    hidden = await cells.notebooks.kernels_of_others(call)
    for kernel in await kernels.kernels():
        if kernel.id in hidden:
            continue
        bound = [session.path for session in sessions if session.kernel and session.kernel.id == kernel.id]
        running.append(
            {
                "id": kernel.id,
                "name": kernel.name,
                "state": connected.kernels.state_of(kernel),
                "connections": kernel.connections,
                "last_activity": kernel.last_activity.isoformat() if kernel.last_activity else None,
                "notebooks": ", ".join(bound) or None,
            }
        )
    kinds: list[KernelKindRow] = [
        {
            "name": spec.name,
            "display_name": clean(spec.display_name).text,
            "language": clean(spec.language).text,
            "default": spec.is_default,
            "interpreter": clean(spec.interpreter).text or None,
            "from": clean(spec.origin).text or None,
        }
        for spec in await kernels.specs()
    ]
    data: KernelTables = {"kernels": running, "kernelspecs": kinds}
    return Reply(data, (table_of(KERNEL_COLUMNS, running), table_of(SPEC_COLUMNS, kinds)))
