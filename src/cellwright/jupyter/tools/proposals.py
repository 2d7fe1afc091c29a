"""Toolset `proposals`: edits that were made with `propose: true`, listed, compared, merged or dropped."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.core.text.sight import pictured, seen
from cellwright.core.toolset import Toolset, read, write
from cellwright.core.types import Call
from cellwright.jupyter.edits.proposals import Proposal
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.notebooks.shapes import told
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.common import EditAcknowledgement, first_of
from cellwright.notebook.differences import unified
from cellwright.notebook.merging import CellChange, Met

PAGE_TOKENS = 4_500
DIFF_LINES = 120
DIFF_CHARACTERS = 6_000
MAX_NAMED = 50

ProposalId = Annotated[str, Field(description="from list_nb_proposals")]


class ProposalSummary(TypedDict):
    proposal: str
    path: str
    title: str
    made: str
    changed: str
    cells: dict[str, int]
    """How many cells it changes, by the kind of change."""


class OpenProposals(TypedDict):
    proposals: list[ProposalSummary]


async def list_nb_proposals(notebooks: LiveNotebooks, call: Call, path: str | None = None) -> OpenProposals:
    """Your open proposals; with path those for one notebook, also from before cellwright was restarted."""
    checked = None if path is None else NotebookPath(path)
    found = await notebooks.proposals.listed(call, await notebooks.desk(call), checked)
    return {"proposals": [_about(proposal) for proposal in found]}


def _about(proposal: Proposal) -> ProposalSummary:
    return {
        "proposal": proposal.id,
        "path": proposal.path.text,
        "title": clean(proposal.title).text,
        "made": proposal.made.isoformat(timespec="seconds"),
        "changed": proposal.changed.isoformat(timespec="seconds"),
        "cells": _counts(proposal.changes()),
    }


class ProposedChange(TypedDict):
    """What becomes of one cell."""

    id: str
    change: list[str]
    type: str
    index: int | None
    new_index: int | None
    metadata: NotRequired[dict[str, Any]]
    diff: NotRequired[str]


class LostCell(TypedDict):
    """What was proposed for a cell that people deleted."""

    id: str
    proposed: str


class Meetings(TypedDict):
    """Cells in which the proposal and other people's work met."""

    both_changed: list[str]
    not_deleted: list[str]
    deleted_meanwhile: list[LostCell]


class ProposalComparison(ProposalSummary, Meetings):
    changes: list[ProposedChange]
    revision: str
    next_offset: int | None


async def show_nb_proposal(
    notebooks: LiveNotebooks, call: Call, proposal: ProposalId, offset: Annotated[int, Field(ge=0)] = 0
) -> ProposalComparison:
    """What merging would do now, cell by cell, with diffs; and where people worked on the same cells. Go on with next_offset."""
    found = await notebooks.proposals.show(call, await notebooks.desk(call), proposal)
    changes = found.changes()
    shown = first_of(map(_shown, changes[offset:]), PAGE_TOKENS)
    following = offset + len(shown)
    return {
        **_about(found),
        "cells": _counts(changes),
        "changes": shown,
        **_met(found),
        "revision": found.revision,
        "next_offset": following if following < len(changes) else None,
    }


class MergedProposal(Meetings, EditAcknowledgement):
    message: str
    path: str
    cells: dict[str, int]
    ids: list[str]


async def merge_nb_proposal(
    notebooks: LiveNotebooks,
    call: Call,
    proposal: ProposalId,
    expect: Annotated[str | None, Field(description="revision from show_nb_proposal")] = None,
) -> MergedProposal:
    """Put a proposal into the notebook. What people did meanwhile is kept; undo_nb_edit takes the merge back, part by part."""
    done = await notebooks.proposals.merge(call, await notebooks.desk(call), proposal, expect)
    ids = [change.id for change in done.changes]
    return {
        "message": f"Merged into {done.proposal.path}: {counted(len(ids), 'cell')}"
        if ids
        else "The notebook has all of it already",
        "path": done.proposal.path.text,
        "cells": _counts(done.changes),
        "ids": ids[:MAX_NAMED],
        **_met(done.proposal),
        "live": True,
        "saved": done.saved,
    }


class DroppedProposal(TypedDict):
    message: str
    proposal: str
    path: str


async def drop_nb_proposal(notebooks: LiveNotebooks, call: Call, proposal: ProposalId) -> DroppedProposal:
    """Throw a proposal away. The notebook stays as it is."""
    dropped = await notebooks.proposals.drop(call, await notebooks.desk(call), proposal)
    return {"message": f"Dropped; {dropped.path} is unchanged", "proposal": dropped.id, "path": dropped.path.text}


def _counts(changes: Sequence[CellChange]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for kind in (kind for change in changes for kind in change.kinds):
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def _shown(change: CellChange) -> ProposedChange:
    cell = change.after or change.before
    before, after = change.before.source if change.before else "", change.after.source if change.after else ""
    shown: ProposedChange = {
        "id": change.id,
        "change": list(change.kinds),
        "type": cell.cell_type if cell else "",
        "index": change.index,
        "new_index": change.new_index,
    }
    if "metadata" in change.kinds and change.after is not None:
        shown["metadata"] = told(json.loads(change.after.metadata))
    if before != after:
        shown["diff"] = _diff(before, after)
    return shown


def _diff(before: str, after: str) -> str:
    made = unified(pictured(before).splitlines(), pictured(after).splitlines())
    text = clean("\n".join(made[:DIFF_LINES])).text
    cut = text[:DIFF_CHARACTERS]
    if len(made) > DIFF_LINES or len(cut) < len(text):
        cut += f"\n… cut: {counted(len(made), 'line')} in all"
    return cut


def _met(proposal: Proposal) -> Meetings:
    def ids(how: Met) -> list[str]:
        return [cell_id for cell_id, met in proposal.met.items() if met is how][:MAX_NAMED]

    lost: list[LostCell] = [
        {"id": cell_id, "proposed": seen(text).text[:1_000]} for cell_id, text in proposal.lost.items()
    ]
    return {"both_changed": ids(Met.BOTH), "not_deleted": ids(Met.KEPT), "deleted_meanwhile": lost[:5]}


def proposals_toolset(notebooks: LiveNotebooks) -> Toolset:
    tools = (
        read(list_nb_proposals),
        read(show_nb_proposal),
        write(merge_nb_proposal),
        write(drop_nb_proposal, destructive=True),
    )
    return Toolset("proposals", "edits that nobody sees until they are merged", tools, notebooks)
