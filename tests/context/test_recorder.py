"""What the recorder keeps in memory has a bound in bytes, whatever callers send and however long the database cannot be written."""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from cellwright.app.parts import MIGRATIONS
from cellwright.context import recorder as recording
from cellwright.context import sessions
from cellwright.context.finding import MOST_CALLERS, ProjectIndex
from cellwright.context.model import Session, SessionStatus
from cellwright.context.recorder import Recorder
from cellwright.core.errors import LimitReached
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.core.weight import weight
from cellwright.storage.database import Database, Transaction
from cellwright.storage.location import Location, open_database
from requirements import requirement
from support import until
from traces_support import TRACES

pytestmark = pytest.mark.anyio

ANN = Call(Principal("ann", ALL_SCOPES), connection="one", client="editor")


class FullDisk:
    """A database that cannot be written until there is room again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.full = True
        self.refused = 0

    async def write(self, work: Callable[[Transaction], Any]) -> object:
        if self.full:
            self.refused += 1
            raise LimitReached("the disk is full", hint="make room")
        return await self._database.write(work)


@requirement("context:sessions:bound")
@pytest.mark.parametrize(
    "arguments",
    [{"content": "x" * 1_000_000}, {"cells": [{"content": "x" * 1_000_000}]}, {"cell": {"content": "x" * 1_000_000}}],
    ids=["text", "cells", "cell"],
)
async def test_arguments_of_calls_are_not_kept_until_the_next_write(
    where: Location, arguments: Mapping[str, Any]
) -> None:
    database = open_database(where, MIGRATIONS)
    recorder = Recorder(database, "zoo", TRACES.trace_of, time.time)
    for number in range(100):
        recorder.called(ANN, "insert_nb_cells", {"path": f"{number}.ipynb", **arguments}, "ok")
        assert weight(recorder._noted) < 2_000_000
    await recorder.flush()
    (found,) = await database.read(lambda tx: sessions.recent(tx, "zoo", "ann", 9))
    assert (found.calls, len(found.touched)) == (100, 100)
    await recorder.close()
    await database.close()


@requirement("context:sessions:bound")
async def test_a_session_of_many_searches_remembers_the_terms_that_came_most(where: Location) -> None:
    database = open_database(where, MIGRATIONS)
    recorder = Recorder(database, "zoo", TRACES.trace_of, time.time)
    for _ in range(3_000):
        recorder.called(ANN, "search_nbs", {"query": f"giraffe {secrets.token_hex(8)}x {secrets.token_hex(8)}y"}, "ok")
    found = recorder.current(ANN)
    assert found is not None
    assert found.topics[0] == "giraffe"
    assert len(recorder._live[ANN.session].terms) <= 2 * recording.MOST_REMEMBERED_TERMS
    await recorder.close()
    await database.close()


@requirement("context:sessions:bound")
async def test_sessions_that_cannot_be_written_are_kept_up_to_a_bound_and_written_later(
    where: Location, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recording, "FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(recording, "LONGEST_PAUSE", 0.02)
    monkeypatch.setattr(recording, "UNWRITTEN_BYTES", 100_000, raising=False)
    database = open_database(where, MIGRATIONS)
    disk: Any = FullDisk(database)
    recorder = Recorder(disk, "zoo", TRACES.trace_of, time.time)
    for number in range(200):
        call = replace(ANN, connection=f"s{number}")
        for name in range(10):
            recorder.called(call, "read_file", {"path": f"{number}/{name}.py"}, "ok")
        recorder.left(call.session)
    before = disk.refused
    await until(lambda: disk.refused >= before + 3, "three more attempts")
    assert weight([live for live, _ in recorder._ended]) < 120_000
    assert "sessions_given_up" in caplog.text
    disk.full = False
    await until(lambda: not recorder._ended, "all that is left is written")
    await recorder.close()
    found = await database.read(lambda tx: sessions.recent(tx, "zoo", "ann", 500))
    assert 5 < len(found) < 200
    assert {one.path for session in found for one in session.touched} >= {"199/0.py", "199/9.py"}
    await database.close()


@requirement("context:sessions:bound")
async def test_what_was_indexed_of_sessions_is_remembered_for_so_many_callers() -> None:
    class Nowhere:
        written = 0

        async def write(self, _work: object) -> None:
            self.written += 1

    database: Any = Nowhere()
    nothing: Any = None
    known = ProjectIndex(database, nothing, nothing, "zoo")
    session = Session("s", SessionStatus.ACTIVE, 0.0, 0.0, None, "", 1, 0, 0, ("topic " * 1_000,), ())
    for number in range(2 * MOST_CALLERS):
        await known.add_session(f"caller {number}", session)
    # Nothing is written again for who has nothing new.
    await known.add_session(f"caller {2 * MOST_CALLERS - 1}", session)
    assert database.written == 2 * MOST_CALLERS
    assert weight(known._sessions) < 500_000
