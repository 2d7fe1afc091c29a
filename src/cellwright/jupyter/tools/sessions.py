"""Toolset `sessions`: which documents this server has open together with people, since when, and leaving them."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from cellwright.core.errors import InvalidArgument
from cellwright.core.toolset import Toolset, read, write
from cellwright.core.types import Call
from cellwright.jupyter.documents.open_document import OpenRoom
from cellwright.jupyter.files.paths import DocPath, NotebookPath, folder_path
from cellwright.jupyter.inside.permitted import ENDING, require_run
from cellwright.jupyter.model import FileKind, RoomKind
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.common import KernelLeft, Path, kernel_left


class DocumentSession(TypedDict):
    """Whether a document is open here, and when it was last used."""

    path: str
    session_id: str | None
    file_id: str | None
    status: Literal["connected", "disconnected", "not_found"]
    last_activity: str | None
    message: str
    live: bool | None
    people: list[str] | None
    """Those who have announced themselves; None if nobody knows."""


class NotebookSession(DocumentSession):
    cell_count: int | None


class NotebookSessions(TypedDict):
    root_path: str
    sessions: list[NotebookSession]
    total_sessions: int
    active_sessions: int


async def query_nb_sessions(notebooks: LiveNotebooks, call: Call, root_path: str = "") -> NotebookSessions:
    """Notebooks below a folder that this server has open, or had open in the last hour. Opens nothing."""
    connected = await notebooks.connected(call)
    folder = folder_path(root_path or connected.found.folder)
    documents = connected.found.jupyter.documents
    if folder is not None and (await documents.stat(folder)).kind is not FileKind.DIRECTORY:
        raise InvalidArgument(f"{folder} is not a folder", hint="query_document_session asks about one document")
    prefix = f"{folder}/" if folder else ""
    rooms = [
        room for room in connected.rooms.open_rooms() if room.kind is RoomKind.NOTEBOOK and room.path.startswith(prefix)
    ]
    return {
        "root_path": folder.text if folder else "",
        "sessions": [
            {**_session(room), "cell_count": room.cell_count} for room in sorted(rooms, key=lambda room: room.path)
        ],
        "total_sessions": len(rooms),
        "active_sessions": sum(room.connected for room in rooms),
    }


class EndedSession(TypedDict):
    path: str
    status: Literal["disconnected", "not_found"]
    message: str
    saved: bool | None


class EndedNotebookSession(EndedSession, KernelLeft):
    kernel_ended: NotRequired[str | None]


async def end_nb_session(
    notebooks: LiveNotebooks, call: Call, path: Path, shutdown_kernel: bool = False
) -> EndedNotebookSession:
    """Save a notebook and leave it; its kernel goes on unless shutdown_kernel. The next call opens it again. Refused during a run."""
    if shutdown_kernel:
        require_run(call, "shutting down a kernel", "leave shutdown_kernel out", needed=ENDING)
    notebook_path = NotebookPath(path)
    ended = await _end(notebooks, call, notebook_path)
    if not shutdown_kernel:
        return {**ended, **await kernel_left(notebooks, call, notebook_path, "this call with shutdown_kernel")}
    shutdown = await notebooks.shut_down(call, notebook_path)
    return {**ended, "kernel_ended": shutdown.kernel.id if shutdown else None}


async def query_document_session(notebooks: LiveNotebooks, call: Call, path: Path) -> DocumentSession:
    """Whether this server has a document open, and when it was last used. Opens nothing."""
    doc_path = DocPath(path)
    room = (await notebooks.connected(call)).rooms.find(doc_path, _kind(doc_path))
    if room is not None:
        return _session(room)
    return {
        "path": doc_path.text,
        "session_id": None,
        "file_id": None,
        "status": "not_found",
        "last_activity": None,
        "message": "Not open, and not in the last hour",
        "live": None,
        "people": None,
    }


async def end_document_session(notebooks: LiveNotebooks, call: Call, path: Path) -> EndedSession:
    """Save a document and leave it. The next call opens it again. Refused while it is in use."""
    return await _end(notebooks, call, DocPath(path))


def _kind(path: DocPath) -> RoomKind:
    return RoomKind.NOTEBOOK if path.is_notebook else RoomKind.TEXT


def _session(room: OpenRoom) -> DocumentSession:
    return {
        "path": room.path,
        "session_id": room.room_id,
        "file_id": room.file_id,
        "status": "connected" if room.connected else "disconnected",
        "last_activity": room.last_activity.isoformat(),
        "message": _message(room),
        "live": room.live,
        "people": list(room.others) if room.connected and room.live else None,
    }


def _message(room: OpenRoom) -> str:
    if not room.connected:
        return f"Ended at {room.left.isoformat()}" if room.left else "Ended"
    where = "Open" if room.live else "Open from its file: this Jupyter shares no documents"
    return f"{where}, in use now" if room.in_use else where


async def _end(notebooks: LiveNotebooks, call: Call, path: DocPath) -> EndedSession:
    rooms = (await notebooks.connected(call)).rooms
    kind = _kind(path)
    ended = await rooms.end(path, kind)
    room = rooms.find(path, kind)
    if room is None:
        return {"path": path.text, "status": "not_found", "message": "It was not open", "saved": None}
    if not ended:
        message = f"It had been left already, at {room.left.isoformat() if room.left else room.last_activity}"
    elif room.saved is False:
        message = "Left. Its last changes are not on disk: Jupyter did not confirm that it wrote the file"
    else:
        message = "Saved and left" if room.saved else "Left; there was nothing to save"
    return {"path": path.text, "status": "disconnected", "message": message, "saved": room.saved}


def sessions_toolset(notebooks: LiveNotebooks) -> Toolset:
    tools = (
        read(query_nb_sessions),
        write(end_nb_session, idempotent=True),
        read(query_document_session),
        write(end_document_session, idempotent=True),
    )
    return Toolset("sessions", "which documents are open together with people, and leaving them", tools, notebooks)
