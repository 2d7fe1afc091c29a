"""Events in the log: a name, and keys of its own instead of a sentence. Every part may tell one; the program decides how it is written."""

EVENT_KEYS = "cellwright_keys"
"""The attribute of a log record that holds the event's keys."""


def event_keys(**keys: object) -> dict[str, object]:
    """The `extra` of a log call that tells an event: `log.info("pad_evicted", extra=event_keys(pad="p"))`."""
    return {EVENT_KEYS: keys}
