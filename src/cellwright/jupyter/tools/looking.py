"""Looking around, for the toolset `notebooks`: the server, its notebooks and kernels, and the state of one notebook."""

import asyncio
from functools import partial
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.text.clean import clean
from cellwright.core.types import Call
from cellwright.jupyter.documents.open_document import OpenDocument
from cellwright.jupyter.documents.people import Present, others_in
from cellwright.jupyter.files.paths import DocPath, NotebookPath, folder_path, path_from_url
from cellwright.jupyter.model import FileInfo, FileKind, FoundFile, FoundFiles, KernelSpec
from cellwright.jupyter.notebooks.meanwhile import ViewShown
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.port import Documents
from cellwright.jupyter.service import Connected, LiveNotebooks
from cellwright.jupyter.staleness.service import AskedSession, asked_session
from cellwright.jupyter.staleness.words import StatesShown, mark_of, states_shown
from cellwright.jupyter.tools.common import (
    ListAge,
    Path,
    SavedState,
    first_of,
    how_old,
    incomplete_note,
    saved_state,
)

PAGE_TOKENS = 5_000
PAGE_ENTRIES = 100


class ServerAddress(TypedDict):
    base_url: str


async def get_base_url(notebooks: LiveNotebooks, call: Call) -> ServerAddress:
    """The address of the Jupyter server."""
    return {"base_url": (await notebooks.connected(call)).found.jupyter.documents.url}


class PathFromUrl(ServerAddress):
    original_url: str
    notebook_path: str


async def nb_path_from_url(notebooks: LiveNotebooks, call: Call, url: str) -> PathFromUrl:
    """The notebook path in a JupyterLab address that a person copied from the browser."""
    base_url = (await notebooks.connected(call)).found.jupyter.documents.url
    return {"original_url": url, "base_url": base_url, "notebook_path": path_from_url(url, base_url).text}


class ListedNotebook(TypedDict):
    path: str
    name: str
    last_modified: str
    created: str
    size: int | None
    writable: bool
    url: str | None


class ListRemarks(ListAge, total=False):
    note: str


class NotebookList(ListRemarks):
    notebooks: list[ListedNotebook]
    total: int | None
    """None if nobody knows how many there are."""
    next_offset: int | None


class BriefNotebook(TypedDict):
    path: str
    size: int | None
    last_modified: str


class BriefNotebooks(ListRemarks, total=False):
    """A list without empty values: a missing key says the same in fewer tokens."""

    notebooks: list[BriefNotebook]
    total: int
    next_offset: int


class BriefNotebookList(BriefNotebooks):
    url_of: str


async def list_nbs(
    notebooks: LiveNotebooks,
    call: Call,
    path: str = "",
    offset: Annotated[int, Field(ge=0)] = 0,
    brief: Annotated[bool, Field(description="only paths, sizes and times")] = False,
    refresh: Annotated[bool, Field(description="ask the server anew: age_seconds tells how old the list is")] = False,
) -> NotebookList | BriefNotebookList:
    """Notebooks below a folder, recursively, by paths from the server's root. A long list has pages: go on with next_offset."""
    connected = await notebooks.connected(call)
    documents = connected.found.jupyter.documents
    listing = await documents.listing(folder_path(path or connected.found.folder), ".ipynb", refresh=refresh)
    files = listing.files
    pages = await documents.pages()
    infos = await documents.describe(files[offset : offset + PAGE_ENTRIES])
    total = len(files) if files.complete else None
    remarks: ListRemarks = {**how_old(listing)}
    if not files.complete:
        remarks["note"] = listing.cut or incomplete_note(path)
    if brief:
        brief_page = first_of(map(_brief_row, infos), PAGE_TOKENS)
        next_offset = _next_offset(offset + len(brief_page), files)
        return {
            **_brief_list(brief_page, total, remarks, next_offset),
            "url_of": f"{pages}/PATH" if pages else "this server shows no pages",
        }
    page = first_of((_full_row(info, pages) for info in infos), PAGE_TOKENS)
    return {
        "notebooks": page,
        "total": total,
        **remarks,
        "next_offset": _next_offset(offset + len(page), files),
    }


def _brief_list(
    page: list[BriefNotebook], total: int | None, remarks: ListRemarks, next_offset: int | None
) -> BriefNotebooks:
    answer: BriefNotebooks = {}
    if page:
        answer["notebooks"] = page
    if total is not None:
        answer["total"] = total
    answer = {**answer, **remarks}
    if next_offset is not None:
        answer["next_offset"] = next_offset
    return answer


def _next_offset(offset: int, files: FoundFiles) -> int | None:
    return offset if offset < len(files) else None


def _brief_row(info: FileInfo) -> BriefNotebook:
    return {"path": info.path, "size": info.size, "last_modified": info.last_modified.isoformat(timespec="seconds")}


def _full_row(info: FileInfo, pages: str | None) -> ListedNotebook:
    return {
        "path": info.path,
        "name": info.name,
        "last_modified": info.last_modified.isoformat(),
        "created": info.created.isoformat(),
        "size": info.size,
        "writable": info.writable,
        "url": f"{pages}/{DocPath(info.path).quoted}" if pages else None,
    }


class KernelState(TypedDict):
    name: str
    id: str
    state: str


class NotebookKernel(TypedDict):
    """The notebook's kernel, None if it has none. A note says if the caller may not know, or that it is new since their last run."""

    kernel: KernelState | None
    kernel_note: NotRequired[str]


class PersonThere(TypedDict):
    """Somebody in the notebook. What is not known of them is left out."""

    name: str
    cell: NotRequired[str]
    index: NotRequired[int]
    selection: NotRequired[str]
    agent: NotRequired[bool]


class PeopleThere(TypedDict):
    people: list[PersonThere] | None
    """None if nobody knows."""
    people_note: NotRequired[str]


class NotebookStat(NotebookKernel, PeopleThere, SavedState, ViewShown, StatesShown):
    path: str
    cell_count: int
    last_modified: str
    live: bool
    outline: NotRequired[list[str]]
    next_offset: NotRequired[int | None]


async def get_nb_stat(
    notebooks: LiveNotebooks,
    call: Call,
    path: Path,
    outline: bool = False,
    offset: Annotated[int, Field(ge=0, description="first cell of the outline")] = 0,
) -> NotebookStat:
    """Cell count, kernel, people. With outline: a line per cell, with its state unless fresh. Starts nothing."""
    notebook_path = NotebookPath(path)
    connected = await notebooks.connected(call)
    jupyter = connected.found.jupyter
    info, session = await asyncio.gather(
        _file_info(jupyter.documents, notebook_path), asked_session(connected, notebook_path)
    )
    kernel = _kernel_shown(notebooks, call, connected, notebook_path, session)
    async with notebooks.open(call, notebook_path) as document:
        states = await notebooks.states.look(call, connected, document, session) if outline else None
        page = None if states is None else document.view.outline_page(offset, partial(mark_of, states, document.view))
        sight = notebooks.sight(call, notebook_path)
        stat: NotebookStat = {
            "path": notebook_path.text,
            "cell_count": document.view.cell_count,
            "last_modified": info.last_modified.isoformat(),
            **kernel,
            "live": document.live,
            **(StatesShown() if states is None else states_shown(states, document.view)),
            **_people_in(notebooks, document),
            **saved_state(document.on_disk()),
            **(
                ViewShown(view=sight.keep(document.view))
                if page is None
                else sight.outline_shown(document.view, offset, len(page.lines))
            ),
        }
    if page is not None:
        stat["outline"] = list(page.lines)
        stat["next_offset"] = page.next_offset
    return stat


async def _file_info(documents: Documents, path: NotebookPath) -> FileInfo:
    """Read from the disk if possible, which takes a tenth of the work that the server's answer takes."""
    described = await documents.describe([FoundFile(path.text, FileKind.NOTEBOOK)])
    return described[0] if described else await documents.stat(path)


def _people_in(notebooks: LiveNotebooks, document: OpenDocument[LiveNotebook]) -> PeopleThere:
    room = document.room
    if room is None:
        return {"people": None, "people_note": "unknown: this Jupyter shares no documents"}
    there: PeopleThere = {"people": [_person(person, document.view) for person in others_in(room, document.view)]}
    if stranger := notebooks.strangers.seen_in(document.path.text, room):
        there["people_note"] = stranger
    elif not there["people"]:
        there["people_note"] = f"nobody has announced themselves; here since {room.seconds_here:.0f} s"
    return there


def _person(person: Present, view: LiveNotebook) -> PersonThere:
    there: PersonThere = {"name": person.name}
    if person.cell is not None:
        there["cell"] = clean(person.cell).text
        there["index"] = view.index_of(person.cell)
    if person.selection is not None:
        there["selection"] = person.selection
    if person.agent:
        there["agent"] = True
    return there


def _kernel_shown(
    notebooks: LiveNotebooks, call: Call, connected: Connected, path: NotebookPath, session: AskedSession
) -> NotebookKernel:
    if session.denied:
        return {"kernel": None, "kernel_note": f"whether it has one is not shown: {session.denied}"}
    kernel = session.session.kernel if session.session else None
    shown: NotebookKernel = {"kernel": None}
    if kernel is not None:
        shown["kernel"] = {"name": kernel.name, "id": kernel.id, "state": connected.kernels.state_of(kernel)}
    if lost := notebooks.lost_state(call, path, connected.kernels.life_of(kernel) if kernel else None):
        shown["kernel_note"] = lost
    return shown


KernelKind = TypedDict(
    "KernelKind",
    {
        "name": str,
        "display_name": str,
        "language": str,
        "path": str,
        "default": bool,
        "from": str,
        "interpreter": NotRequired[str],
        "version": NotRequired[str],
    },
)


class KernelKinds(TypedDict):
    kernels: list[KernelKind]
    unusable: NotRequired[list[str]]


async def list_available_kernels(notebooks: LiveNotebooks, call: Call) -> KernelKinds:
    """Kernels that can be started: language, interpreter and where it comes from. A notebook that names none runs in the default."""
    specs = await (await notebooks.connected(call)).found.jupyter.kernels.specs()
    listed: KernelKinds = {"kernels": [_kernel_kind(spec) for spec in specs]}
    if unusable := await notebooks.unusable_environments(call):
        listed["unusable"] = [clean(reason).text for reason in unusable]
    return listed


def _kernel_kind(spec: KernelSpec) -> KernelKind:
    kind: KernelKind = {
        "name": spec.name,
        "display_name": clean(spec.display_name).text,
        "language": clean(spec.language).text,
        "path": clean(next(iter(spec.resources.values()), "").rpartition("/")[0]).text,
        "default": spec.is_default,
        "from": clean(spec.origin).text or "installed for Jupyter",
    }
    if spec.interpreter:
        kind["interpreter"] = clean(spec.interpreter).text
    if spec.version:
        kind["version"] = clean(spec.version).text
    return kind
