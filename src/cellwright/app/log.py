"""Structured logs on stderr: one line an event, keys not prose, nothing secret.

Our own lines take their keys from an allow-list, so a new key is a decision. Lines of libraries pass through the same handler with
everything that looks like a credential masked.
"""

import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from typing import Final, TextIO
from urllib.parse import urlsplit, urlunsplit

from cellwright.core.events import EVENT_KEYS

LOGGER: Final = logging.getLogger("cellwright")

KEYS: Final = frozenset(
    {
        "client",
        "error",
        "host",
        "method",
        "ms",
        "outcome",
        "path",
        "port",
        "principal",
        "reason",
        "request",
        "root",
        "status",
    }
    | {
        "tokens",
        "tool",
        "toolsets",
        "transport",
        "uri",
        "version",
        "signal",
        "count",
        "pid",
        "task",
        "pad",
        "policy",
        "stack",
    }
)

MAX_VALUE_CHARS: Final = 500
LONGEST_CREDENTIAL: Final = 8_192
"""Beyond what is shown, so much is looked at: what begins in the one may end in the other."""
SHORTEST_CREDENTIAL: Final = 11
"""No single word shorter than this is one of those below."""

# What follows "token" or "bearer" in a sentence about one; anything else there may be one.
_ORDINARY: Final = (
    r"(?!(?:and|be|can|cannot|could|create|does|for|from|given|has|in|is|it|itself|lacks|list|may|must|needs|not|of|on|or|revoke|that|the|to"
    r"|token|tokens|was|were|which|will|with|would)(?![^\s,.;:!?)]))"
)
_CREDENTIALS: Final = re.compile(
    # A whole header, whatever scheme it names.
    r"(?P<header>(?:authorization|cookie)[\"']?\s*[=:]\s*[\"']?)[^\"'\r\n]+"
    rf"|(?P<scheme>(?:bearer|token)\s+){_ORDINARY}[^\s,;\"']+"
    r"|(?P<pair>(?:token|password|secret|api_key)[\"']?\s*[=:]\s*[\"']?)[^\s&,;\"'}]+"
    r"|cw_[A-Za-z0-9_-]{8,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    re.IGNORECASE,
)


_PLAIN: Final = re.compile(r'[^ "=\\]+')


def redact(text: str) -> str:
    """The text with everything that looks like a credential masked."""
    return _CREDENTIALS.sub(lambda found: (found["header"] or found["scheme"] or found["pair"] or "") + "***", text)


OWN_EVENT: Final = re.compile(r"(?P<event>[a-z][a-z_]*)(?P<keys>(?: [a-z_]+=%s)*)")
"""How parts of ours write an event."""


def without_credentials(url: str) -> str:
    """An address without what may let somebody in: user and password, query, fragment."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "***"
    return urlunsplit((parts.scheme, host, parts.path, "***" if parts.query else "", "")) if parts.netloc else url


def log_event(event: str, *, level: int = logging.INFO, exc_info: bool = False, **keys: object) -> None:
    """Log one event. A key that is not in the allow-list is a mistake of ours, found by the first test that gets here."""
    assert keys.keys() <= KEYS, f"log keys not in the allow-list: {keys.keys() - KEYS}"
    if not LOGGER.isEnabledFor(level):
        return
    # The record is made here: to find out which line of the source logs, as the logger does, is half of the cost of a line.
    record = logging.LogRecord(LOGGER.name, level, "", 0, event, None, sys.exc_info() if exc_info else None)
    record.__dict__[EVENT_KEYS] = keys
    LOGGER.handle(record)


class LineFormatter(logging.Formatter):
    """`time=… level=… event=… key=value …`, one line whatever happens."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        words = [f"time={time} level={record.levelname.lower()}"]
        event, keys = _told(record)
        words.append(f"event={event}")
        words += [f"{key}={_value(value)}" for key, value in keys.items()]
        if record.exc_info and record.exc_info[0] is not None:
            words.append(f"traceback={_value(''.join(traceback.format_exception(*record.exc_info)), whole=True)}")
        return " ".join(words)


def _told(record: logging.LogRecord) -> tuple[str, dict[str, object]]:
    """The event and its keys. Parts of ours tell one as `name key=%s …`, which other programs' logs show as a line of text."""
    keys: dict[str, object] | None = getattr(record, EVENT_KEYS, None)
    if keys is not None:
        return record.getMessage(), keys
    if record.name.startswith(f"{LOGGER.name}.") and (own := OWN_EVENT.fullmatch(str(record.msg))):
        return own["event"], dict(zip(own["keys"].replace("=%s", "").split(), record.args or (), strict=True))
    return "library", {"logger": record.name, "text": record.getMessage()}


def _value(value: object, *, whole: bool = False) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    if len(text) < SHORTEST_CREDENTIAL and text.isascii() and text.replace("_", "a").isalnum():
        return text
    text = redact(text if whole else text[: MAX_VALUE_CHARS + LONGEST_CREDENTIAL])
    if len(text) > MAX_VALUE_CHARS and not whole:
        text = text[:MAX_VALUE_CHARS] + "…"
    if _PLAIN.fullmatch(text) and text.isprintable():
        return text
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'


def configure_logging(level: str, stream: TextIO | None = None) -> None:
    """Send everything to one handler on stderr. Called once, by the program, never by the library."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    LOGGER.setLevel(level.upper())
    # Libraries are loud: they are heard from warnings on, or from info when the operator is debugging.
    for name in ("mcp", "uvicorn", "httpx2", "websockets", "asyncio", "sse_starlette"):
        logging.getLogger(name).setLevel(logging.INFO if level == "debug" else logging.WARNING)
    logging.captureWarnings(capture=True)
    # None of these is in our lines, and finding them out costs a third of a line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
