"""Who is in a shared notebook."""

from dataclasses import dataclass
from typing import cast

from cellwright.core.text.clean import clean
from cellwright.jupyter.documents.room import MAX_NAMES, Room, display_name
from cellwright.jupyter.notebooks.cells import name_of
from cellwright.jupyter.notebooks.notebook import LiveNotebook

COLOUR_CHARACTERS = 60
MOST_CURSORS = 20


@dataclass(frozen=True, slots=True)
class Present:
    """Somebody who has the notebook open. Peers may say anything of themselves, so it is cleaned."""

    name: str
    colour: str
    cell: str | None
    """The cell of their cursor; for this program, the cell that it last changed."""
    agent: bool


def people_in(room: Room, view: LiveNotebook) -> list[Present]:
    """Everybody who has said who they are; this program too, once it has changed something."""
    people: list[Present] = []
    for client, state, user in room.users():
        is_us = client == room.awareness.client_id
        if is_us and view.touched is None:
            # We are here only because somebody looks.
            continue
        people.append(
            Present(
                display_name(user),
                clean(str(user.get("color") or "")).text[:COLOUR_CHARACTERS],
                view.touched if is_us else _cell_of(state, view),
                agent=is_us or "agent" in user,
            )
        )
    return people[:MAX_NAMES]


def _cell_of(state: dict[str, object], view: LiveNotebook) -> str | None:
    """The cell in which somebody's cursor stands.

    It is found by the name of the cell's text alone. The position inside is not looked up: an invented one crashes the library.
    """
    cursors: object = state.get("cursors")
    for cursor in cast("list[object]", cursors)[:MOST_CURSORS] if isinstance(cursors, list) else []:
        head: object = cast("dict[str, object]", cursor).get("head") if isinstance(cursor, dict) else None
        name = name_of(cast("dict[str, object]", head).get("type")) if isinstance(head, dict) else None
        if name is not None:
            return view.cell_with_text(*name)
    return None
