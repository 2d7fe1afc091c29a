"""Updates of shared documents: large ones are taken in piece by piece, and give the same document as in one."""

import random
from typing import Any

import pytest
from pycrdt import Array, Doc, Map, Text

from cellwright.jupyter.documents import updates
from cellwright.jupyter.documents.updates import IncomingUpdate, RefusedUpdate, _Reader
from requirements import requirement


def a_document_of_many_writers(chance: random.Random) -> Doc[Any]:
    """Several people who write at once, hear of each other now and then, and delete what others wrote."""
    writers: list[Doc[Any]] = [Doc(client_id=1 + number) for number in range(4)]
    for _ in range(60):
        writer = chance.choice(writers)
        cells: Array[Any] = writer.get("cells", type=Array)
        text: Text = writer.get("source", type=Text)
        match chance.randrange(6):
            case 0:
                cells.insert(chance.randint(0, len(cells)), Map({"id": str(chance.random()), "source": Text("é😀")}))
            case 1 if len(cells):
                del cells[chance.randrange(len(cells))]
            case 2 if len(cells):
                cells[chance.randrange(len(cells))]["source"] += "more"
            case 3 if len(cells):
                cells[chance.randrange(len(cells))]["outputs"] = Array([{"text": ["a", 1.5]}, Map({"b": None})])
            case 4:
                text.insert(0, "word ")
            case _:
                other = chance.choice(writers)
                writer.apply_update(other.get_update(writer.get_state()))
    for writer in writers[1:]:
        writers[0].apply_update(writer.get_update())
    return writers[0]


def taken_in_pieces(document: Doc[Any], update: bytes) -> int:
    """Take the update in as a room does. Returns in how many pieces."""
    incoming = IncomingUpdate(update)
    for _ in incoming.check():
        pass
    pieces = list(incoming.pieces(document.get_state()))
    for piece in pieces:
        document.apply_update(piece)
    return len(pieces)


def clocks(document: Doc[Any]) -> dict[int, int]:
    """How much of each writer the document has."""
    vector = _Reader(document.get_state())
    return dict(vector.read_id() for _ in range(vector.read_number()))


def contents(document: Doc[Any]) -> tuple[object, str]:
    return document.get("cells", type=Array).to_py(), str(document.get("source", type=Text))


@requirement("memory:updates:in-pieces")
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("most", [1, 7])
def test_in_pieces_an_update_gives_the_same_document(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "ITEMS_AT_A_TIME", most)
    chance = random.Random(seed)
    document = a_document_of_many_writers(chance)
    copy: Doc[Any] = Doc()
    assert taken_in_pieces(copy, document.get_update()) > 1
    assert contents(copy) == contents(document)
    # Nothing of it waits for what will not come.
    assert clocks(copy) == clocks(document)
    # And what comes later is taken in the same way.
    seen = document.get_state()
    cells: Array[Any] = document.get("cells", type=Array)
    cells.extend([Map({"id": str(number), "source": Text("x")}) for number in range(20)])
    del cells[0]
    assert taken_in_pieces(copy, document.get_update(seen)) > 1
    assert contents(copy) == contents(document)


@requirement("memory:updates:in-pieces")
def test_no_piece_has_more_items_than_the_library_takes_in_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "ITEMS_AT_A_TIME", 50)
    document: Doc[Any] = Doc()
    cells: Array[Any] = document.get("cells", type=Array)
    cells.extend([Map({"id": str(number), "source": Text("x")}) for number in range(100)])
    incoming = IncomingUpdate(document.get_update())
    for _ in incoming.check():
        pass
    sizes: list[int] = []
    for piece in incoming.pieces(Doc[Any]().get_state()):
        part = IncomingUpdate(piece)
        for _ in part.check():
            pass
        sizes.append(part._items)
    # The last one has the deletions.
    assert sizes == [50] * 8 + [0]


@requirement("memory:updates:in-pieces")
@pytest.mark.parametrize(
    "update",
    [
        # Two items of two clients, each beside the other.
        b"\x02" + b"\x01\x01\x00" + b"\x84\x02\x00\x01a" + b"\x01\x02\x00" + b"\x84\x01\x00\x01b" + b"\x00",
        # An item that is beside itself.
        b"\x01" + b"\x02\x01\x00" + b"\x84\x01\x00\x01a" + b"\x84\x01\x00\x01b" + b"\x00",
    ],
    ids=["in a circle", "beside itself"],
)
def test_items_that_build_on_each_other_are_refused(update: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "ITEMS_AT_A_TIME", 1)
    with pytest.raises(RefusedUpdate, match="cannot be read"):
        taken_in_pieces(Doc(), update)


@requirement("memory:updates:in-pieces")
def test_a_client_who_is_there_twice_is_refused() -> None:
    one = b"\x01\x01\x00" + b"\x04\x01\x06source" + b"\x01a"
    padding = b"\x01\x02\x00" + b"\x04\x01\x06source" + b"\xc0\x3e" + b"a" * 8_000
    with pytest.raises(RefusedUpdate, match="cannot be read"):
        list(IncomingUpdate(b"\x03" + one + one + padding + padding + b"\x00").check())
