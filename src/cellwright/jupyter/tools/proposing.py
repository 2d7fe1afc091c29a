"""What the editing tools say of an edit that is only proposed."""

from typing import Annotated

from pydantic import Field

from cellwright.jupyter.model import JsonObject

Propose = Annotated[bool, Field(description="only propose it; see merge_nb_proposal")]


def proposed(proposal: str | None) -> JsonObject:
    """Where the edit went, if not into the notebook."""
    if proposal is None:
        return {}
    return {
        "proposal": proposal,
        "next": "the notebook is unchanged and nothing ran: show_nb_proposal, merge_nb_proposal",
    }
