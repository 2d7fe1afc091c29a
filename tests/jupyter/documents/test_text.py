"""Text documents that people edit at the same time."""

import asyncio
import random

import pytest

from cellwright.core.errors import Conflict, InvalidArgument
from cellwright.jupyter.documents.rooms import Rooms
from cellwright.jupyter.files.paths import DocPath
from jupyter_support import JupyterServer, PersonIn, eventually
from requirements import requirement

pytestmark = pytest.mark.anyio

TEXT = "Grüße an 😀 alle\nzweite Zeile: 語\nEnde\n"


@pytest.fixture
def path(jupyter_server: JupyterServer, folder: str) -> DocPath:
    (jupyter_server.root / folder / "notes é.md").write_text(TEXT, encoding="utf-8")
    return DocPath(f"{folder}/notes é.md")


@requirement("documents:text:positions")
async def test_positions_count_code_points_and_only_the_span_changes(
    rooms: Rooms, path: DocPath, jupyter_server: JupyterServer
) -> None:
    async with rooms.document(path) as opened:
        assert opened.view.text == TEXT
        await opened.change(lambda d: d.insert(10, "!"))
        removed, _ = await opened.change(lambda d: d.delete(0, 5))
        assert removed == "Grüße"
        replaced, known = await opened.change(lambda d: d.replace(7, 4, "jede"), save=True)
        assert replaced == "alle"
        assert opened.view.text == " an 😀! jede\nzweite Zeile: 語\nEnde\n"
        assert known.saved
        assert (jupyter_server.root / path.text).read_text(encoding="utf-8") == opened.view.text


@requirement("documents:text:positions")
@pytest.mark.parametrize(
    ("position", "length"), [(-1, 0), (0, -1), (len(TEXT) + 1, 0), (0, len(TEXT) + 1), (len(TEXT), 1)]
)
async def test_a_span_that_is_not_there_changes_nothing(
    rooms: Rooms, path: DocPath, position: int, length: int
) -> None:
    async with rooms.document(path) as opened:
        with pytest.raises(InvalidArgument, match=f"has {len(TEXT)} characters"):
            await opened.change(lambda d: d.replace(position, length, "x"))
        with pytest.raises(InvalidArgument, match="surrogate"):
            await opened.change(lambda d: d.insert(0, "\ud800"))
        assert opened.view.text == TEXT


@requirement("documents:text:positions")
async def test_random_edits_equal_those_of_a_plain_string(rooms: Rooms, path: DocPath, person: PersonIn) -> None:
    rng = random.Random(3)
    model = TEXT
    async with rooms.document(path) as opened:
        for _ in range(150):
            start = rng.randint(0, len(model))
            length = rng.randint(0, min(4, len(model) - start))
            new = "".join(rng.choice("aé😀語\n") for _ in range(rng.randint(0, 4)))
            opened.view.replace(start, length, new)
            model = model[:start] + new + model[start + length :]
        await opened.acknowledge()
        assert opened.view.text == model
        async with person(path.text, "file") as them:
            assert str(them.document) == model


@requirement("documents:text:shared")
async def test_a_person_who_types_in_the_same_document_loses_nothing(
    rooms: Rooms, path: DocPath, person: PersonIn
) -> None:
    async with rooms.document(path) as opened, person(path.text, "file") as them:

        async def type_at_the_end() -> None:
            for key in "typed by a person":
                them.document.insert(len(them.document), key)
                await asyncio.sleep(0.002)

        typing = asyncio.create_task(type_at_the_end())
        for turn in range(20):
            await opened.change(lambda d, turn=turn: d.insert(0, f"{turn},"))
        await opened.change(lambda d: d.overwrite(d.text.replace("zweite", "2.")))
        await typing
        expected = (
            "".join(f"{turn}," for turn in reversed(range(20))) + TEXT.replace("zweite", "2.") + "typed by a person"
        )
        await eventually(lambda: opened.view.text == str(them.document) == expected, "the same text on both sides")


@requirement("documents:text:shared")
async def test_an_outdated_revision_is_refused(rooms: Rooms, path: DocPath, person: PersonIn) -> None:
    async with rooms.document(path) as opened, person(path.text, "file") as them:
        seen = opened.view.revision
        them.document.insert(0, "new ")
        await eventually(lambda: opened.view.text.startswith("new "), "the person's edit")
        with pytest.raises(Conflict):
            await opened.change(lambda d: d.overwrite("mine", expect=seen))
        await opened.change(lambda d: d.overwrite("mine", expect=d.revision))
        await eventually(lambda: str(them.document) == "mine", "the agent's edit")
