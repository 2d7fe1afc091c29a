"""Who is in a shared notebook."""

from dataclasses import dataclass
from typing import cast

from cellwright.core.text.clean import clean
from cellwright.jupyter.documents.room import MAX_NAMES, NAME_CHARACTERS, Room
from cellwright.jupyter.notebooks.cells import name_of
from cellwright.jupyter.notebooks.notebook import LiveNotebook

COLOUR_CHARACTERS = 60
MOST_CURSORS = 20


@dataclass(frozen=True, slots=True)
class Present:
    """Somebody who has the notebook open. What they say of themselves may be anything, so it is cleaned."""

    name: str
    colour: str
    cell: str | None
    """Where they are: the cell of their cursor; of this program the one that it last changed."""
    agent: bool


def people_in(room: Room, view: LiveNotebook) -> list[Present]:
    """Everybody who has said who they are; this program too, once it has changed something."""
    found: list[Present] = []
    for client, state in tuple(room.awareness.states.items()):
        said: object = state
        about = cast("dict[str, object]", said).get("user") if isinstance(said, dict) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if not isinstance(about, dict) or not about:
            continue
        user = cast("dict[str, object]", about)
        own = client == room.awareness.client_id
        if own and view.touched is None:
            # Here only because somebody looks.
            continue
        name = user.get("display_name") or user.get("name")
        found.append(
            Present(
                clean(name).text[:NAME_CHARACTERS] if isinstance(name, str) else "somebody",
                clean(str(user.get("color") or "")).text[:COLOUR_CHARACTERS],
                view.touched if own else _cell_of(cast("dict[str, object]", said), view),
                agent=own or "agent" in user,
            )
        )
    return found[:MAX_NAMES]


def _cell_of(state: dict[str, object], view: LiveNotebook) -> str | None:
    """The cell in which somebody's cursor stands.

    By the name of its text alone. The position inside is not looked up: a made-up one brings the library down.
    """
    cursors: object = state.get("cursors")
    for cursor in cast("list[object]", cursors)[:MOST_CURSORS] if isinstance(cursors, list) else []:
        head: object = cast("dict[str, object]", cursor).get("head") if isinstance(cursor, dict) else None
        name = name_of(cast("dict[str, object]", head).get("type")) if isinstance(head, dict) else None
        if name is not None:
            return view.cell_with_text(*name)
    return None
