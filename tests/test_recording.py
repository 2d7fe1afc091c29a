"""The picture of a run in README: drawn from what was recorded, and still what happens."""

import importlib
import re
import sys
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from locations import DOCS
from requirements import requirement

ID = re.compile(r"\b[0-9a-f]{8}\b")


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    return importlib.import_module("recording")


@requirement("docs:run")
def test_the_picture_is_what_was_recorded(recording: Any) -> None:
    drawn = recording.DRAWING.read_text(encoding="utf-8")
    assert drawn == recording.drawing(recording.recorded())
    root = ET.fromstring(drawn)
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
        "svg",
        "style",
        "rect",
        "path",
        "circle",
        "text",
    }
    assert "prefers-color-scheme: dark" in drawn
    width = float(root.attrib["viewBox"].split()[2])
    longest = max(len(element.text or "") for element in root.iter() if element.tag.endswith("text"))
    assert recording.EDGE + longest * recording.LETTER <= width


@requirement("docs:run")
@pytest.mark.anyio
@pytest.mark.timeout(150)
async def test_the_same_calls_give_the_same_answers_now(recording: Any) -> None:
    then = [(kind, ID.sub("ID", text)) for kind, text in recording.transcript(recording.recorded())]
    now = [(kind, ID.sub("ID", text)) for kind, text in recording.transcript(await recording.record())]
    assert now == then, "python docs/recording.py records it again"
