"""Who is in a shared notebook, where their cursors are, and who edits it without having announced themselves."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

from pycrdt import Assoc, StickyIndex, Text

from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.jupyter.documents.room import MAX_NAMES, Room, display_name
from cellwright.jupyter.model import JsonObject
from cellwright.jupyter.notebooks.cells import name_of
from cellwright.jupyter.notebooks.notebook import LiveNotebook

COLOUR_CHARACTERS = 60
MOST_CURSORS = 20
MOST_SEARCHED = 5_000
"""Characters of a cell in which a cursor is looked for."""
REMEMBER_SECONDS = 300.0
"""For how long an edit of somebody unknown is remembered."""
MOST_DOCUMENTS = 200
MOST_CELLS = 3


@dataclass(frozen=True, slots=True)
class Present:
    """Somebody who has the notebook open. Peers may say anything of themselves, so it is cleaned."""

    name: str
    colour: str
    cell: str | None
    """The cell of their cursor; for this program, the cell that it last changed."""
    agent: bool
    selection: str | None = None
    """Their cursor in the cell, or what they have selected, by line and character from 1: `2:5`, or `2:5-3:1`."""


def people_in(room: Room, view: LiveNotebook) -> list[Present]:
    """Everybody who has said who they are; this program too, once it has changed something."""
    people = list(others_in(room, view))
    us = next((user for client, _, user in room.users() if client == room.awareness.client_id), None)
    # Without a change of ours we are here only because somebody looks.
    if us is not None and view.touched is not None:
        people.append(Present(display_name(us), _colour(us), view.touched, agent=True))
    return people[:MAX_NAMES]


def others_in(room: Room, view: LiveNotebook) -> Iterator[Present]:
    """Everybody else who has said who they are."""
    for client, state, user in tuple(room.users())[:MAX_NAMES]:
        if client != room.awareness.client_id:
            cell, selection = _cursor_of(state, view)
            yield Present(display_name(user), _colour(user), cell, "agent" in user, selection)


def _colour(user: JsonObject) -> str:
    return clean(str(user.get("color") or "")).text[:COLOUR_CHARACTERS]


def _cursor_of(state: JsonObject, view: LiveNotebook) -> tuple[str | None, str | None]:
    """The cell in which somebody's cursor stands, found by the name of the cell's text, and the place in it."""
    cursors: object = state.get("cursors")
    for cursor in cast("list[object]", cursors)[:MOST_CURSORS] if isinstance(cursors, list) else []:
        ends = cast("JsonObject", cursor) if isinstance(cursor, dict) else {}
        head = _position(ends.get("head"))
        name = name_of(head.get("type"))
        if name is not None:
            cell_id = view.cell_with_text(*name)
            anchor = _position(ends.get("anchor")) or head
            return cell_id, None if cell_id is None else _selection(view, cell_id, anchor, head)
    return None, None


def _position(candidate: object) -> JsonObject:
    return cast("JsonObject", candidate) if isinstance(candidate, dict) else {}


def _selection(view: LiveNotebook, cell_id: str, anchor: JsonObject, head: JsonObject) -> str | None:
    text = view.text_of(view.index_of(cell_id))
    source = str(text)
    offsets = [_offset_in(text, source, position) for position in (anchor, head)]
    known = sorted(offset for offset in offsets if offset is not None)
    if len(known) < len(offsets):
        return None
    start, end = known
    return _place(source, start) if start == end else f"{_place(source, start)}-{_place(source, end)}"


def _offset_in(text: Text, source: str, position: JsonObject) -> int | None:
    """The character of the text that a shared position names; None if that is not known.

    The library crashes on an invented position. So it is not asked where a position is, but which positions the text has. It counts
    bytes in them where others count characters: they are known only while both are the same.
    """
    is_before = str(position.get("assoc", 0)).startswith("-")
    if "item" in position and position["item"] is None:
        return 0 if is_before else len(source)
    item = name_of(position.get("item"))
    if item is None or not source.isascii() or len(source) > MOST_SEARCHED:
        return None
    for offset in range(len(source)):
        known = cast("JsonObject", StickyIndex.new(text, offset, Assoc.AFTER).to_json())  # pyright: ignore[reportUnknownMemberType]
        if name_of(known.get("item")) == item:
            return offset + is_before
    return None


def _place(source: str, offset: int) -> str:
    lines = source[:offset].split("\n")
    return f"{len(lines)}:{len(lines[-1]) + 1}"


@dataclass(frozen=True, slots=True)
class StrangeEdit:
    """The last edit of those who have not announced themselves."""

    at: float
    clients: frozenset[int]
    cells: tuple[str, ...]


class Strangers:
    """The last edit of each notebook by somebody who has not announced themselves, for some minutes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._edits: OrderedDict[str, StrangeEdit] = OrderedDict()

    def note(self, path: str, cells: frozenset[str], room: Room) -> None:
        """Others change these cells, by the update that the room takes in now."""
        authors = room.incoming_authors
        if authors is None:
            # They changed without an event, and now it was noticed: nobody knows who did it.
            return
        announced = _announced(room)
        strangers = authors - announced
        # An update that only deletes does not say who made it.
        if strangers if authors else len(announced) == 1:
            self._edits[path] = StrangeEdit(self._clock(), strangers, tuple(sorted(cells))[:MOST_CELLS])
            self._edits.move_to_end(path)
        while len(self._edits) > MOST_DOCUMENTS:
            self._edits.popitem(last=False)

    def seen_in(self, path: str, room: Room) -> str:
        """A sentence about the last edit by somebody who still has not announced themselves; empty if there was none lately."""
        edit = self._edits.get(path)
        if edit is None:
            return ""
        seconds = self._clock() - edit.at
        if seconds > REMEMBER_SECONDS or (edit.clients and edit.clients <= _announced(room)):
            del self._edits[path]
            return ""
        where = f" in {', '.join(clean(cell).text for cell in edit.cells)}" if any(edit.cells) else ""
        return f"somebody edits who has not announced themselves: last {counted(int(seconds), 'second')} ago{where}"


def _announced(room: Room) -> frozenset[int]:
    """The clients whose users have said who they are, and we."""
    return frozenset(client for client, _, _ in room.users()) | {room.awareness.client_id}
