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
from cellwright.jupyter.notebooks.shapes import cleaned_json
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.staleness.words import StaleNews
from cellwright.jupyter.tools.common import EditOutcome, SavedState, change_report, first_of, saved_state
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
    notebook_path = None if path is None else NotebookPath(path)
    open_proposals = await notebooks.proposals.listed(call, await notebooks.desk(call), notebook_path)
    return {"proposals": [_summary(proposal) for proposal in open_proposals]}


def _summary(proposal: Proposal) -> ProposalSummary:
    return {
        "proposal": proposal.id,
        "path": proposal.path.text,
        "title": clean(proposal.title).text,
        "made": proposal.made.isoformat(timespec="seconds"),
        "changed": proposal.changed.isoformat(timespec="seconds"),
        "cells": _counts(proposal.changes()),
    }


class ProposedChange(TypedDict):
    """What merging would do to one cell."""

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
    current = await notebooks.proposals.show(call, await notebooks.desk(call), proposal)
    changes = current.changes()
    page = first_of(map(_change_row, changes[offset:]), PAGE_TOKENS)
    next_offset = offset + len(page)
    return {
        **_summary(current),
        "cells": _counts(changes),
        "changes": page,
        **_meetings(current),
        "revision": current.revision,
        "next_offset": next_offset if next_offset < len(changes) else None,
    }


class MergedProposal(Meetings, EditOutcome):
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
    merge = await notebooks.proposals.merge(call, await notebooks.desk(call), proposal, expect)
    path = merge.proposal.path
    sight = notebooks.sight(call, path)
    notebooks.proposal_ended(call, path.text, merge.proposal.session)
    changes = merge.edited.result
    ids = [change.id for change in changes]
    # The caller wrote these texts, unless people's changes were merged into them.
    written = {change.id for change in changes if {"added", "changed"}.intersection(change.kinds)}
    report = change_report(sight, merge.edited, written.difference(merge.proposal.met))
    document = notebooks.open_now(path)
    saved: SavedState = {"saved": merge.saved} if merge.saved or document is None else saved_state(document.on_disk())
    return {
        "message": f"Merged into {merge.proposal.path}: {counted(len(ids), 'cell')}"
        if ids
        else "The notebook has all of it already",
        "path": merge.proposal.path.text,
        "cells": _counts(changes),
        "ids": ids[:MAX_NAMED],
        **report,
        **(StaleNews() if document is None else await notebooks.states.news(call, document.view)),
        **_meetings(merge.proposal),
        "live": True,
        **saved,
    }


class DroppedProposal(TypedDict):
    message: str
    proposal: str
    path: str


async def drop_nb_proposal(notebooks: LiveNotebooks, call: Call, proposal: ProposalId) -> DroppedProposal:
    """Throw a proposal away. The notebook stays as it is."""
    dropped = await notebooks.proposals.drop(call, await notebooks.desk(call), proposal)
    notebooks.proposal_ended(call, dropped.path.text, dropped.session)
    return {"message": f"Dropped; {dropped.path} is unchanged", "proposal": dropped.id, "path": dropped.path.text}


def _counts(changes: Sequence[CellChange]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for kind in (kind for change in changes for kind in change.kinds):
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def _change_row(change: CellChange) -> ProposedChange:
    cell = change.after or change.before
    before, after = change.before.source if change.before else "", change.after.source if change.after else ""
    row: ProposedChange = {
        "id": change.id,
        "change": list(change.kinds),
        "type": cell.cell_type if cell else "",
        "index": change.index,
        "new_index": change.new_index,
    }
    if "metadata" in change.kinds and change.after is not None:
        row["metadata"] = cleaned_json(json.loads(change.after.metadata))
    if before != after:
        row["diff"] = _diff(before, after)
    return row


def _diff(before: str, after: str) -> str:
    lines = unified(pictured(before).splitlines(), pictured(after).splitlines())
    text = clean("\n".join(lines[:DIFF_LINES])).text
    cut = text[:DIFF_CHARACTERS]
    if len(lines) > DIFF_LINES or len(cut) < len(text):
        cut += f"\n… cut: {counted(len(lines), 'line')} in all"
    return cut


def _meetings(proposal: Proposal) -> Meetings:
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
