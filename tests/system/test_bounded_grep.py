"""A search through a whole disk ends in time, also where no file fits."""

from pathlib import Path

import pytest

from cellwright.context.files.grep import GrepWanted, compiled, grep
from cellwright.context.files.paths import Root
from cellwright.context.scanner import walk
from requirements import requirement


@requirement("listing:bounded")
def test_a_search_that_finds_no_file_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}").mkdir()
    looked: list[str] = []
    entries = walk._entries

    def counted(folder: str) -> "list[object]":
        looked.append(folder)
        return list(entries(folder))

    monkeypatch.setattr(walk, "_entries", counted)
    wanted = GrepWanted(compiled("needle", case_sensitive=True), "*.never", 0, 10)
    assert not grep(Root(tmp_path), wanted, 60.0).timed_out
    assert len(looked) == 21
    looked.clear()
    assert grep(Root(tmp_path), wanted, 0.0).timed_out
    assert len(looked) == 1, "the rest is not looked at when time is up"
