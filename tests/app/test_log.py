"""Log lines: one event, one line, nothing secret."""

import io
import logging
from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.app.log import LOGGER, configure_logging, log_event, redact
from requirements import requirement

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
