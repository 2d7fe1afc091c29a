"""Structured logs on stderr: one line per event, with keys instead of prose, and nothing secret.

Our own lines take their keys from an allow-list, so a new key is a decision. Lines of libraries pass through the same handler, and
everything that looks like a credential is masked.
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
"""So many characters are searched beyond those that are shown: a credential may begin before the cut and end after it."""
SHORTEST_CREDENTIAL: Final = 11
"""No single word that is shorter can be one of the credentials below."""

# Ordinary words after "token" or "bearer" in a sentence; anything else in that place may be a credential.
_ORDINARY: Final = (
    r"(?!(?:and|be|can|cannot|could|create|does|for|from|given|has|in|is|it|itself|lacks|list|may|must|needs|not|of|on|or|revoke|that|the|to"
    r"|token|tokens|was|were|which|will|with|would)(?![^\s,.;:!?)]))"
)
_CREDENTIALS: Final = re.compile(
    # A whole header, with any scheme.
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
    return _CREDENTIALS.sub(lambda match: (match["header"] or match["scheme"] or match["pair"] or "") + "***", text)


OWN_EVENT: Final = re.compile(r"(?P<event>[a-z][a-z_]*)(?P<keys>(?: [a-z_]+=%s)*)")
"""The format in which our own packages log an event."""


def without_credentials(url: str) -> str:
    """An address without the parts that may hold credentials: user and password, query, fragment."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "***"
    return urlunsplit((parts.scheme, host, parts.path, "***" if parts.query else "", "")) if parts.netloc else url


def log_event(event: str, *, level: int = logging.INFO, exc_info: bool = False, **keys: object) -> None:
    """Log one event. A key outside of the allow-list is a bug, which the first test that comes here finds."""
    assert keys.keys() <= KEYS, f"log keys not in the allow-list: {keys.keys() - KEYS}"
    if not LOGGER.isEnabledFor(level):
        return
    # The record is made here because the logger would find out which source line logs, which is half of the cost of a line.
    record = logging.LogRecord(LOGGER.name, level, "", 0, event, None, sys.exc_info() if exc_info else None)
    record.__dict__[EVENT_KEYS] = keys
    LOGGER.handle(record)


class LineFormatter(logging.Formatter):
    """`time=… level=… event=… key=value …`, always on one line."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        words = [f"time={time} level={record.levelname.lower()}"]
        event, keys = _event_of(record)
        words.append(f"event={event}")
        words += [f"{key}={_value(value)}" for key, value in keys.items()]
        if record.exc_info and record.exc_info[0] is not None:
            words.append(f"traceback={_value(''.join(traceback.format_exception(*record.exc_info)), whole=True)}")
        return " ".join(words)


def _event_of(record: logging.LogRecord) -> tuple[str, dict[str, object]]:
    """The event and its keys. Our own packages log `name key=%s …`, which the logs of other programs show as a line of text."""
    keys: dict[str, object] | None = getattr(record, EVENT_KEYS, None)
    if keys is not None:
        return record.getMessage(), keys
    if record.name.startswith(f"{LOGGER.name}.") and (match := OWN_EVENT.fullmatch(str(record.msg))):
        return match["event"], dict(zip(match["keys"].replace("=%s", "").split(), record.args or (), strict=True))
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
    """Send everything to one handler on stderr. The program calls this once; code that others embed never does."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    LOGGER.setLevel(level.upper())
    # Libraries log a lot: only their warnings are shown, or from info on when the operator is debugging.
    for name in ("mcp", "uvicorn", "httpx2", "websockets", "asyncio", "sse_starlette"):
        logging.getLogger(name).setLevel(logging.INFO if level == "debug" else logging.WARNING)
    logging.captureWarnings(capture=True)
    # Our lines show none of these, and to find them out is a third of the cost of a line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
