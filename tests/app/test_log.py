"""Log lines: one event, one line, nothing secret."""

import ast
import io
import logging
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cellwright
from cellwright.app.log import LOGGER, MAX_VALUE_CHARS, OWN_EVENT, configure_logging, log_event, redact
from requirements import requirement

SOURCE = Path(cellwright.__file__).parent
CANARY = "canary-4711-canary"


@pytest.fixture
def lines() -> Generator[io.StringIO]:
    root = logging.getLogger()
    before = (root.handlers[:], root.level, LOGGER.level)
    stream = io.StringIO()
    configure_logging("debug", stream)
    yield stream
    logging.captureWarnings(capture=False)
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    LOGGER.setLevel(before[2])


@requirement("log:one-line")
def test_an_event_is_one_line_of_keys(lines: io.StringIO) -> None:
    log_event("tool", tool="a b", outcome='say "x"\nlevel=error', ms=1.5)
    try:
        int("first\nsecond")
    except ValueError:
        log_event("crash", level=logging.ERROR, exc_info=True)
    first, second = lines.getvalue().splitlines()
    assert 'event=tool tool="a b" outcome="say \\"x\\"\\nlevel=error" ms=1.500' in first
    assert "ValueError: invalid literal" in second
    assert "first\\\\nsecond" in second


@requirement("log:redact")
@pytest.mark.parametrize(
    "text",
    [
        f"GET /x?token={CANARY}&y=1",
        f"Authorization: Bearer {CANARY}",
        f"authorization=token {CANARY}",
        f'{{"password": "{CANARY}"}}',
        f"cookie: {CANARY}",
        f"Referer: https://x/?access_token={CANARY}",
    ],
)
def test_what_looks_like_a_credential_is_masked(text: str, lines: io.StringIO) -> None:
    assert CANARY not in redact(text)
    logging.getLogger("uvicorn.error").warning(text)
    assert CANARY not in lines.getvalue()
    assert "***" in lines.getvalue()


@requirement("log:redact")
def test_our_own_tokens_are_masked_anywhere() -> None:
    assert redact("x cw_abcdefgh_0123456789 y") == "x *** y"


@requirement("log:keys")
def test_a_key_must_be_in_the_allow_list() -> None:
    with pytest.raises(AssertionError, match="allow-list"):
        log_event("x", authorization="y")


@given(st.text())
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@requirement("log:words")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a valid bearer token is needed: this one", "a valid bearer token is needed: this one"),
        ("the token lacks the scope run", "the token lacks the scope run"),
        ("the token, which is", "the token, which is"),
        (f"bearer token {CANARY}", "bearer token ***"),
        ("token isabella", "token ***"),
        ("Bearer the-one", "Bearer ***"),
        ("access_token lower", "access_token ***"),
    ],
)
def test_a_sentence_about_tokens_stays_as_it_is(text: str, shown: str) -> None:
    assert redact(text) == shown


@requirement("door:log")
def test_a_long_value_is_looked_at_only_as_far_as_it_may_show(
    lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []

    def noting(text: str) -> str:
        looked_at.append(len(text))
        return redact(text)

    monkeypatch.setattr("cellwright.app.log.redact", noting)
    log_event("resource", uri="x://" + "-" * (MAX_VALUE_CHARS - 20) + f"?token={CANARY * 100}" + "y" * 5_000_000)
    assert CANARY[:4] not in lines.getvalue(), "it ends after what is shown"
    assert max(looked_at) < 10_000


@requirement("log:own-events")
def test_parts_tell_events_with_keys(lines: io.StringIO) -> None:
    logging.getLogger("cellwright.jupyter.documents.rooms").warning(
        "document_not_saved path=%s error=%s", "a b.ipynb", "disk full"
    )
    logging.getLogger("other").warning("document_not_saved path=%s error=%s", "a.ipynb", "disk full")
    ours, theirs = lines.getvalue().splitlines()
    assert ours.partition(" event=")[2] == 'document_not_saved path="a b.ipynb" error="disk full"'
    assert " event=library logger=other text=" in theirs


@requirement("log:own-events")
def test_every_line_that_parts_log_is_such_an_event() -> None:
    """Read from the source, so that no line is missed that no test brings about."""
    lines = [
        (file.name, call)
        for file in SOURCE.rglob("*.py")
        if "logging.getLogger(__name__)" in file.read_text(encoding="utf-8")
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func).partition(".")[0] in ("log", "logger")
    ]
    assert len(lines) > 30
    for file, call in lines:
        message = ast.literal_eval(call.args[0])
        found = OWN_EVENT.fullmatch(message)
        assert found is not None, (file, message)
        assert found["keys"].count("=%s") == len(call.args) - 1, (file, message)
