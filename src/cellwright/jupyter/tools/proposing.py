"""What the editing tools say of an edit that is only proposed."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

Propose = Annotated[bool, Field(description="only propose it; see merge_nb_proposal")]


class ProposedEdit(TypedDict, total=False):
    """Where an edit went, if not into the notebook."""

    proposal: str
    next: str


def proposed(proposal: str | None) -> ProposedEdit:
    if proposal is None:
        return {}
    return {
        "proposal": proposal,
        "next": "the notebook is unchanged and nothing ran: show_nb_proposal, merge_nb_proposal",
    }
