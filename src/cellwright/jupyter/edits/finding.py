"""Where a literal text is that is to be replaced: in a source as it is, or where it was in what the caller saw."""

from dataclasses import replace

from cellwright.jupyter.model import CellHead
from cellwright.jupyter.notebooks.guards import check_growth, check_occurrences, check_places
from cellwright.notebook.lineends import ShownText
from cellwright.notebook.textdiff import TextChange, changes, rebase


def replacements_as_seen(head: CellHead, shown: str, old: str, new: str, *, every: bool) -> list[TextChange] | None:
    """The changes of the source as it is now that replace `old` where it was in the source that was `shown`.

    Empty if it was not there; None if somebody has changed it since: the same words at another place are not what the caller means.
    """
    meant = replacements(shown, old, new)
    if not meant:
        return []
    check_occurrences(replace(head, source=shown), old, [change.start for change in meant], every=every)
    return rebase(meant, changes(shown, head.source))


def replacements(source: str, old: str, new: str) -> list[TextChange]:
    r"""The changes that replace `old` by `new`: as it stands, else as agents see the source, who are shown \r\n as a newline."""
    text = ShownText(source)
    if places := _occurrences(source, old):
        check_growth(source, len(places), len(new) - len(old))
        adapted_new = text.adapted(new)
        return [TextChange(start, start + len(old), adapted_new) for start in places]
    shown_old = old.replace("\r\n", "\n")
    places = _occurrences(text.shown, shown_old) if text.shown != source else []
    check_growth(source, len(places), len(new) - len(old))
    return text.real_changes([TextChange(start, start + len(shown_old), new) for start in places])


def _occurrences(source: str, old: str) -> list[int]:
    starts: list[int] = []
    start = source.find(old) if old else -1
    while start >= 0:
        starts.append(start)
        check_places(len(starts))
        start = source.find(old, start + len(old))
    return starts
