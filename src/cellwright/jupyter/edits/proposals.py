"""Proposals: edits of a notebook that nobody sees until they are merged. Each lives in a fork that the Jupyter server keeps.

A proposal follows its notebook: whenever it is used, it first takes in what people did since, so that cells are named, checked and
compared as they are now. Merging changes only the differences, in the notebook as it is then.
"""

import asyncio
import hashlib
import json
import logging
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from pycrdt import Map

from cellwright.core.errors import CellwrightError, Conflict, LimitReached, NotFound
from cellwright.core.types import Call
from cellwright.jupyter.documents.forks import ForkBacking, ForksNotOffered, ProposalEnded
from cellwright.jupyter.documents.open_document import OpenDocument
from cellwright.jupyter.documents.presence import Collaborator
from cellwright.jupyter.documents.room import Room
from cellwright.jupyter.documents.rooms import Rooms
from cellwright.jupyter.edits.edited import Edited, compared
from cellwright.jupyter.edits.recasting import check_recastable, plain, recast
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.model import RoomKind
from cellwright.jupyter.notebooks.cellindex import OWN_NOTES
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.port import Documents, Fork
from cellwright.notebook.merging import CellChange, Met, Plain, PlainCell, compare, three_way

log = logging.getLogger(__name__)

MAX_OWN = 20
MAX_ALL = 200
REMEMBERED = 500
MARK = "cellwright proposal"
FOLLOW = "follow"
BEGIN = "An edit with propose: true begins a new one"


@dataclass(frozen=True, slots=True)
class Desk:
    """The Jupyter server that keeps the proposals, and who we are there."""

    documents: Documents
    rooms: Rooms
    who: Collaborator


@dataclass(slots=True, eq=False)
class Proposal:
    """One open proposal, as it was when it was last used."""

    id: str
    owner: str
    session: str
    path: NotebookPath
    title: str
    made: datetime
    changed: datetime
    root: str
    """The room that was forked. A notebook in a folder that was renamed has another room now."""
    fork: Fork
    base: Plain = ()
    """The notebook as the proposal last took it in."""
    cells: Plain = ()
    """The notebook as the proposal wants it."""
    met: dict[str, Met] = field(default_factory=dict[str, Met])
    lost: dict[str, str] = field(default_factory=dict[str, str])
    """The proposed sources of cells that people deleted."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def changes(self) -> list[CellChange]:
        return compare(self.base, self.cells)

    @property
    def revision(self) -> str:
        """A hash of what merging would do. With it as `expect` nothing else is merged."""
        described = [
            (change.kinds, change.new_index, change.before and change.before.source, change.after)
            for change in self.changes()
        ]
        text = repr((described, sorted(self.met.items())))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]

    def record(self) -> str:
        """The proposal as the fork keeps it, for when this program is restarted and the Jupyter server is not."""
        fields = {name: getattr(self, name) for name in ("id", "owner", "session", "title", "met", "lost")}
        cells = [[cell.id, cell.cell_type, cell.source, cell.metadata] for cell in self.base]
        times = {"made": self.made.isoformat(), "changed": self.changed.isoformat()}
        return json.dumps({**fields, **times, "base": cells})


@dataclass(frozen=True, slots=True)
class Merge:
    """What a merge did."""

    proposal: Proposal
    edited: Edited[list[CellChange]]
    saved: bool


@dataclass(frozen=True, slots=True)
class Proposed:
    """A notebook as a proposal has it, while it is edited."""

    document: OpenDocument[LiveNotebook]
    proposal: str


class Proposals:
    """The open proposals of all callers. Each caller sees only its own."""

    def __init__(self, now: Callable[[], datetime], instance: str = "") -> None:
        """`instance` distinguishes this installation from others that use the same Jupyter server."""
        self._now = now
        self._instance = instance
        self._open: dict[str, Proposal] = {}
        self._ended: dict[str, tuple[str, str]] = {}
        self._making = asyncio.Lock()

    @asynccontextmanager
    async def edit(self, call: Call, desk: Desk, path: NotebookPath) -> AsyncGenerator[Proposed]:
        """The caller's proposal for this notebook, made if there is none, to be changed in the block."""
        await _check_offered(desk)
        async with desk.rooms.notebook(path) as root:
            async with self._making:
                proposal, fresh = await self._current_or_new(call, desk, root)
            accepted = False
            try:
                async with self._in_use(desk, proposal, root) as document:
                    try:
                        yield Proposed(document, proposal.id)
                        accepted = True
                    finally:
                        proposal.changed = self._now()
                        proposal.cells = plain(document.view)
                        _write_record(document.view, proposal)
                        await document.acknowledge()
            finally:
                if fresh and not accepted and proposal.cells == proposal.base:
                    # The edit was refused: nobody asked for an empty proposal.
                    await self._end(desk, proposal, "was never begun")

    async def listed(self, call: Call, desk: Desk, path: NotebookPath | None) -> list[Proposal]:
        """The caller's open proposals; with `path` those for this notebook, also from before this program was restarted."""
        if path is None:
            return [proposal for proposal in self._open.values() if proposal.owner == self._owner(call)]
        if not await desk.documents.forks.offered():
            return []
        async with desk.rooms.notebook(path) as root, self._making:
            return await self._for_notebook(call, desk, root)

    async def show(self, call: Call, desk: Desk, proposal_id: str) -> Proposal:
        """The proposal, compared with the notebook as it is now."""
        proposal = self._find(call, proposal_id)
        async with _notebook_of(desk, proposal) as root, self._in_use(desk, proposal, root):
            return replace(proposal)

    async def merge(self, call: Call, desk: Desk, proposal_id: str, expect: str | None) -> Merge:
        """Make the notebook what the proposal wants, keeping what people did meanwhile."""
        proposal = self._find(call, proposal_id)
        async with _notebook_of(desk, proposal) as root:
            async with self._in_use(desk, proposal, root):
                # Nothing was awaited since the proposal took in the notebook, so what was compared is what is changed.
                if expect is not None and expect != proposal.revision:
                    raise Conflict(
                        f"proposal {proposal.id} would now do something else than at revision {expect}; nothing was merged",
                        hint="show_nb_proposal shows it as it is now",
                        details={"revision": proposal.revision},
                    )
                check_recastable(root.view, proposal.changes())
                author, what = call.principal.id, f"merge proposal {proposal.id}"
                edited, _ = await root.change(
                    compared(lambda view: recast(view, proposal.cells, author=author, what=what))
                )
                self._forget(proposal, "was merged already")
            await self._throw_away(desk, proposal)
            return Merge(proposal, edited, await _try_save(root))

    async def drop(self, call: Call, desk: Desk, proposal_id: str) -> Proposal:
        """End the proposal; the notebook is not touched."""
        proposal = self._find(call, proposal_id)
        async with proposal.lock:
            self._check_open(proposal)
            await self._end(desk, proposal, "was dropped")
        return proposal

    def moved(self, before: DocPath, after: DocPath) -> None:
        """A file, or a folder with all that is in it, has another path now."""
        for proposal in self._open.values():
            if f"{proposal.path}/".startswith(f"{before}/"):
                proposal.path = NotebookPath(after.text + proposal.path.text[len(before.text) :])

    # -- finding -------------------------------------------------------------------------------------------------------------

    def _owner(self, call: Call) -> str:
        return f"{self._instance}/{call.principal.id}"

    def _find(self, call: Call, proposal_id: str) -> Proposal:
        proposal = self._open.get(proposal_id)
        if proposal is not None and proposal.owner == self._owner(call):
            return proposal
        owner, reason = self._ended.get(proposal_id, ("", ""))
        if owner == self._owner(call):
            raise ProposalEnded(f"proposal {proposal_id} {reason}", hint=BEGIN)
        raise NotFound(
            f"you have no proposal {proposal_id[:40]!r}",
            hint="list_nb_proposals shows yours; with path also those from before cellwright was restarted",
        )

    def _check_open(self, proposal: Proposal) -> None:
        if self._open.get(proposal.id) is not proposal:
            reason = self._ended.get(proposal.id, ("", "has ended"))[1]
            raise ProposalEnded(f"proposal {proposal.id} {reason}; nothing was changed", hint=BEGIN)

    async def _current_or_new(self, call: Call, desk: Desk, root: OpenDocument[LiveNotebook]) -> tuple[Proposal, bool]:
        """The proposal that this caller's session has for this notebook, or a new one; and whether it is new."""
        for proposal in await self._for_notebook(call, desk, root):
            if proposal.session == call.session:
                return proposal, False
        own = sum(proposal.owner == self._owner(call) for proposal in self._open.values())
        if own >= MAX_OWN or len(self._open) >= MAX_ALL:
            limit = f"you have {own} open proposals" if own >= MAX_OWN else f"{MAX_ALL} proposals are open here"
            raise LimitReached(f"{limit}; nothing was proposed", hint="merge_nb_proposal or drop_nb_proposal ends one")
        return await self._make(call, desk, root), True

    async def _for_notebook(self, call: Call, desk: Desk, root: OpenDocument[LiveNotebook]) -> list[Proposal]:
        room, path, owner = _room_id(desk, root), NotebookPath(root.path.text), self._owner(call)
        known_forks = {proposal.fork.id for proposal in self._open.values()}
        for fork, description in (await desk.documents.forks.of(room)).items():
            if description.startswith(MARK) and fork not in known_forks:
                await self._adopt(desk, fork, room, path)
        proposals = [
            proposal
            for proposal in self._open.values()
            if proposal.owner == owner and (proposal.root == room or proposal.path == path)
        ]
        for proposal in proposals:
            # The file may have another name by now, or be another file of the same name.
            proposal.path = path
        return proposals

    async def _adopt(self, desk: Desk, fork: str, room_id: str, path: NotebookPath) -> None:
        """Take over a proposal that was made before this program was restarted."""
        async with _fork_room(desk, fork, path) as (view, _):
            record = _read_record(view)
            if record and str(record.get("owner", "")).startswith(f"{self._instance}/") and len(self._open) < MAX_ALL:
                proposal = Proposal(
                    id=str(record["id"]),
                    owner=str(record["owner"]),
                    session=str(record["session"]),
                    path=path,
                    title=str(record["title"]),
                    made=datetime.fromisoformat(str(record["made"])),
                    changed=datetime.fromisoformat(str(record["changed"])),
                    root=room_id,
                    fork=Fork(fork, ""),
                )
                _apply_record(proposal, record)
                proposal.cells = plain(view)
                self._open.setdefault(proposal.id, proposal)

    # -- using ---------------------------------------------------------------------------------------------------------------

    async def _make(self, call: Call, desk: Desk, root: OpenDocument[LiveNotebook]) -> Proposal:
        plain(root.view)
        now, room = self._now(), _room_id(desk, root)
        title = f"{desk.who.name}, {now:%Y-%m-%d %H:%M}"
        name = f"p{secrets.token_hex(4)}"
        fork = await desk.documents.forks.make(room, title=title, description=f"{MARK} {name}")
        path = NotebookPath(root.path.text)
        proposal = Proposal(name, self._owner(call), call.session, path, title, now, now, room, fork)
        async with _fork_room(desk, fork.id, path) as (view, _):
            _set_idle(view)
            proposal.base = proposal.cells = plain(view)
            _write_record(view, proposal)
        self._open[name] = proposal
        return proposal

    @asynccontextmanager
    async def _in_use(
        self, desk: Desk, proposal: Proposal, root: OpenDocument[LiveNotebook]
    ) -> AsyncGenerator[OpenDocument[LiveNotebook]]:
        """The proposal's notebook, after it took in what people did. Nothing is awaited between that and the block."""
        async with proposal.lock:
            self._check_open(proposal)
            await self._renew_if_gone(desk, proposal, root)
            async with _fork_room(desk, proposal.fork.id, proposal.path) as (view, room):
                self._take_in_notebook(proposal, view, root.view)
                yield OpenDocument(proposal.path, view, ForkBacking(room))

    def _take_in_notebook(self, proposal: Proposal, view: LiveNotebook, root: LiveNotebook) -> None:
        """Take in what people did in the notebook since the last time."""
        record = _read_record(view)
        if record:
            _apply_record(proposal, record)
            proposal.cells = plain(view)
        notebook_cells = plain(root)
        proposed_sources = {cell.id: cell.source for cell in proposal.cells}
        merged = three_way(proposal.base, proposal.cells, notebook_cells)
        proposal.met.update(merged.met)
        proposal.lost.update(
            {cell_id: proposed_sources[cell_id] for cell_id, how in merged.met.items() if how is Met.GONE}
        )
        recast(view, merged.cells, author=FOLLOW, what=FOLLOW)
        if not record or proposal.base != notebook_cells:
            _set_idle(view)
            proposal.base, proposal.cells = notebook_cells, merged.cells
            _write_record(view, proposal)

    async def _renew_if_gone(self, desk: Desk, proposal: Proposal, root: OpenDocument[LiveNotebook]) -> None:
        """A restarted Jupyter server has lost the fork, but we know what was in it. One that somebody else ended stays ended."""
        forks, room = desk.documents.forks, _room_id(desk, root)
        if proposal.fork.id in await forks.of(proposal.root):
            return
        fork = await forks.make(room, title=proposal.title, description=f"{MARK} {proposal.id}")
        if fork.server_run == proposal.fork.server_run or not proposal.fork.server_run:
            await forks.end(fork.id)
            self._forget(proposal, "was ended by somebody else on the Jupyter server: merged or dropped there")
            self._check_open(proposal)
        log.info("proposal_renewed id=%s path=%s", proposal.id, proposal.path)
        proposal.fork, proposal.root = fork, room

    async def _end(self, desk: Desk, proposal: Proposal, reason: str) -> None:
        await desk.documents.forks.end(proposal.fork.id)
        self._forget(proposal, reason)

    async def _throw_away(self, desk: Desk, proposal: Proposal) -> None:
        """End the fork of a proposal that is merged already. If that fails, it ends with the server."""
        try:
            await desk.documents.forks.end(proposal.fork.id)
        except CellwrightError as error:
            log.info("fork_left_behind fork=%s error=%s", proposal.fork.id, error)

    def _forget(self, proposal: Proposal, reason: str) -> None:
        if self._open.pop(proposal.id, None) is not None:
            self._ended[proposal.id] = (proposal.owner, reason)
            if len(self._ended) > REMEMBERED:
                self._ended.pop(next(iter(self._ended)))


async def _check_offered(desk: Desk) -> None:
    if not await desk.documents.forks.offered():
        raise ForksNotOffered(
            f"the Jupyter server {desk.documents.url} offers no forks of documents, which proposals need; nothing was changed",
            hint="jupyter-collaboration 4 or newer has them; without propose the edit is made in the notebook itself",
        )


def _room_id(desk: Desk, root: OpenDocument[LiveNotebook]) -> str:
    room = desk.rooms.find(root.path, RoomKind.NOTEBOOK)
    if room is None or room.room_id is None:
        raise ForksNotOffered(
            f"{root.path} is not shared, so nothing can be proposed for it; nothing was changed",
            hint="edit without propose, or share documents: pip install jupyter-collaboration",
        )
    return room.room_id


@asynccontextmanager
async def _notebook_of(desk: Desk, proposal: Proposal) -> AsyncGenerator[OpenDocument[LiveNotebook]]:
    """The notebook that the proposal is for, held open for the block."""
    try:
        await desk.documents.stat(proposal.path)
    except NotFound as missing:
        raise NotFound(
            f"{proposal.path}, which proposal {proposal.id} is for, is not there any more",
            hint="If it was renamed, list_nb_proposals with its new path finds the proposal; drop_nb_proposal ends it",
        ) from missing
    async with desk.rooms.notebook(proposal.path) as root:
        yield root


@asynccontextmanager
async def _fork_room(desk: Desk, fork: str, path: NotebookPath) -> AsyncGenerator[tuple[LiveNotebook, Room]]:
    room = Room(await desk.documents.forks.join(fork, f"a proposal for {path}"), desk.who)
    view = LiveNotebook(room.doc, path.text)
    try:
        await room.join()
        yield view, room
    finally:
        view.close()
        await room.leave()


def _notes(view: LiveNotebook) -> Map[Any]:
    return view.doc.get(OWN_NOTES, type=Map)


def _write_record(view: LiveNotebook, proposal: Proposal) -> None:
    _notes(view)["record"] = proposal.record()


def _read_record(view: LiveNotebook) -> dict[str, Any]:
    """The record of its proposal that a fork has; empty if the fork is new."""
    text = _notes(view).get("record")
    try:
        data: object = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        data = {}
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def _apply_record(proposal: Proposal, record: dict[str, Any]) -> None:
    proposal.base = tuple(PlainCell(*map(str, cell)) for cell in record["base"])
    proposal.met = {str(cell_id): Met(how) for cell_id, how in record["met"].items()}
    proposal.lost = {str(cell_id): str(source) for cell_id, source in record["lost"].items()}


def _set_idle(view: LiveNotebook) -> None:
    """Mark cells as idle that ran when the fork was made: they do not run in the fork."""
    with view.doc.transaction(origin=FOLLOW):
        for index in range(view.cell_count):
            if view.head(index).running:
                view.shared_at(index)["execution_state"] = "idle"


async def _try_save(root: OpenDocument[LiveNotebook]) -> bool:
    try:
        return await root.save()
    except CellwrightError as error:
        log.info("merged_not_saved path=%s error=%s", root.path, error)
        return False
