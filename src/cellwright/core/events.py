"""Events in the log: each has a name and its own keys instead of a sentence. Parts log them; the program decides on their format."""

EVENT_KEYS = "cellwright_keys"
"""The attribute of a log record that holds the event's keys."""


def event_keys(**keys: object) -> dict[str, object]:
    """The `extra` of a log call for an event: `log.info("pad_evicted", extra=event_keys(pad="p"))`."""
    return {EVENT_KEYS: keys}
