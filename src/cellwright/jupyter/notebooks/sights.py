"""What callers were shown of notebooks. An index in a later call means the notebook as it was shown, not as it is by then."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from cellwright.core.errors import NotFound
from cellwright.core.lastshown import LastShown
from cellwright.core.types import Call
from cellwright.jupyter.notebooks.views import View, new_name

PART_OF_PATH = "\0"
"""Stands after the path of a notebook under which something else of it is remembered; no path has it."""
REMEMBERED_CELLS = 1_000_000
"""Of all views together; each takes a few words of memory, of which those about the order are shared by views of the same one."""
REMEMBERED_VIEWS = 2_000
REMEMBERED_OF_A_NOTEBOOK = 64
"""Views of one notebook that are remembered for one principal, besides the last of each connection."""
REMEMBERED_TEXTS = 10_000
"""Texts of one notebook of which it is remembered that one principal was shown them."""
REMEMBERED_NOTEBOOKS = 10_000
"""Notebooks, each counted once for every principal, of which it is remembered that something was shown."""


class ForgottenView(NotFound):
    code = "VIEW_FORGOTTEN"
    meaning = "The view that an index refers to is no longer remembered; nothing was done. Read the cells again."


@dataclass(slots=True)
class _Remembered:
    """The views of one notebook that one principal was given, oldest first, and the name of each connection's last one."""

    views: OrderedDict[str, View] = field(default_factory=OrderedDict[str, View])
    last: LastShown = field(default_factory=LastShown)
    texts: OrderedDict[tuple[str, str], None] = field(default_factory=OrderedDict[tuple[str, str], None])
    """The texts that were shown as a whole, each by its cell's key and its revision."""
    listed: OrderedDict[str, str] = field(default_factory=OrderedDict[str, str])
    """By a cell's key: the revision that it had when something of it was shown last, be it a line."""

    def note(self, texts: Mapping[str, str], lines: Mapping[str, str]) -> int:
        """Note of which cells the whole text was shown, and of which a line, each with its revision. Returns by how much it grew."""
        size = len(self.texts) + len(self.listed)
        for text in texts.items():
            self.texts[text] = None
            self.texts.move_to_end(text)
        for cell, revision in (*texts.items(), *lines.items()):
            self.listed[cell] = revision
            self.listed.move_to_end(cell)
        while len(self.texts) > REMEMBERED_TEXTS:
            self.texts.popitem(last=False)
        while len(self.listed) > REMEMBERED_TEXTS:
            self.listed.popitem(last=False)
        return len(self.texts) + len(self.listed) - size

    def forget_texts(self) -> int:
        """Forget what was noted. Returns how much that was."""
        size = len(self.texts) + len(self.listed)
        self.texts.clear()
        self.listed.clear()
        return size


class Sights:
    """What was shown to whom. It is bounded: what was shown long ago is forgotten, and then refused instead of guessed."""

    def __init__(self) -> None:
        self._remembered: OrderedDict[tuple[str, str], _Remembered] = OrderedDict()
        self._with_views: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._cells = 0
        self._count = 0

    def remember(
        self,
        call: Call,
        path: str,
        view: View,
        texts: Mapping[str, str] = MappingProxyType({}),
        lines: Mapping[str, str] = MappingProxyType({}),
        *,
        shown_before: View | None = None,
    ) -> str:
        """Note that the answer of this call shows this. Returns the name under which it can be referred to.

        `shown_before` is what the caller knew when it made the call. `texts` are the cells that are shown as a whole, `lines` those of
        which a line is shown: each by its key, with its revision.
        """
        key = (call.principal.id, path)
        remembered = self._remembered.setdefault(key, _Remembered())
        self._remembered.move_to_end(key)
        is_new = key not in self._with_views
        self._with_views[key] = None
        if is_new or not view.aside:
            # Notebooks that only a program polls are the first of which views are forgotten.
            self._with_views.move_to_end(key, last=not view.aside)
        name = self._keep(remembered, view)
        if not view.aside:

            def count_as() -> str:
                self._cells += remembered.note(texts, lines)
                latest = remembered.views.get(remembered.last.latest(call.session) or "")
                known = latest if latest is not shown_before and call.connection is not None else None
                return name if known is None or not view.unseen else self._keep(remembered, _with_known(view, known))

            remembered.last.note(call, name, count_as)
        self._bound(remembered)
        return name

    def _keep(self, remembered: _Remembered, view: View) -> str:
        """Keep a view, under its own name or another if that is taken."""
        while not remembered.views.get(view.name, view).shows_as(view):
            # Another view has this name already.
            view = replace(view, name=new_name())
        if view.name not in remembered.views:
            remembered.views[view.name] = view
            self._cells += _weight(view)
            self._count += 1
        remembered.views.move_to_end(view.name)
        return view.name

    def seen(self, call: Call, path: str, name: str | None = None) -> View | None:
        """The view with this name, or the last one that the caller was given; None if the caller was given none.

        Raises ForgottenView if it is no longer remembered.
        """
        remembered = self._remembered.get((call.principal.id, path))
        if name is None:
            name = remembered.last.of(call) if remembered else None
            if name is None and remembered is not None and remembered.last.is_forgotten(call):
                raise ForgottenView(
                    f"so many connections or calls at once use {path} that it is not known what yours was shown; nothing was done",
                    hint="Give the view of the answer in which you saw the cells; read_nb_cells shows them",
                )
            if name is None:
                return None
        if remembered is None or name not in remembered.views:
            raise ForgottenView(
                f"the view {name[:20]!r} of {path} is not remembered; nothing was done",
                hint="read_nb_cells shows the cells as they are now, with a new view",
            )
        return remembered.views[name]

    def surely_seen(self, call: Call, path: str) -> View | None:
        """The last view that the caller had when it made this call and those that it sent together with it; None if not known."""
        remembered = self._remembered.get((call.principal.id, path))
        return None if remembered is None else remembered.views.get(remembered.last.surely_of(call) or "")

    def shown_to_any(self, call: Call, path: str, cell: str, revision: str) -> bool:
        """Whether any client of the principal was shown this text of the cell, as a whole."""
        remembered = self._remembered.get((call.principal.id, path))
        return remembered is not None and (cell, revision) in remembered.texts

    def last_shown(self, call: Call, path: str, cell: str) -> str | None:
        """The revision of a cell when any client of the principal was shown something of it last; None if none was."""
        remembered = self._remembered.get((call.principal.id, path))
        return remembered.listed.get(cell) if remembered is not None else None

    def moved(self, before: str, after: str) -> None:
        """A notebook, or a folder with all that is in it, has another path now."""
        below = (f"{before}/", f"{before}{PART_OF_PATH}")
        for principal, path in [key for key in self._remembered if key[1] == before or key[1].startswith(below)]:
            key, new_key = (principal, path), (principal, after + path[len(before) :])
            self._forget(new_key)
            self._remembered[new_key] = self._remembered.pop(key)
            if self._with_views.pop(key, self) is None:
                self._with_views[new_key] = None

    def forget(self, call: Call, path: str) -> None:
        """Forget all that the principal was shown of it: it has ended."""
        self._forget((call.principal.id, path))

    def _forget(self, key: tuple[str, str]) -> None:
        remembered = self._remembered.pop(key, None)
        self._with_views.pop(key, None)
        if remembered is not None:
            self._forget_all(remembered)

    def _bound(self, latest: _Remembered) -> None:
        if len(latest.views) > REMEMBERED_OF_A_NOTEBOOK + len(latest.last):
            self._forget_oldest(latest)
        while self._count > REMEMBERED_VIEWS or self._cells > REMEMBERED_CELLS:
            key = next(iter(self._with_views))
            self._forget_oldest(self._remembered[key])
            if not self._remembered[key].views:
                self._cells -= self._remembered[key].forget_texts()
                del self._with_views[key]
        if len(self._remembered) > REMEMBERED_NOTEBOOKS:
            key, oldest = self._remembered.popitem(last=False)
            self._forget_all(oldest)
            self._with_views.pop(key, None)

    def _forget_all(self, remembered: _Remembered) -> None:
        while remembered.views:
            self._forget_oldest(remembered)
        self._cells -= remembered.forget_texts()

    def _forget_oldest(self, remembered: _Remembered) -> None:
        # The last view of a connection is likely to be needed, one of those before it is not; and least one that a program polls.
        needed = remembered.last.needed
        spare = [name for name in remembered.views if name not in needed]
        polled = (name for name in spare if remembered.views[name].aside)
        name = next(polled, spare[0] if spare else next(iter(remembered.views)))
        view = remembered.views.pop(name)
        self._cells -= _weight(view)
        self._count -= 1


def _with_known(view: View, known: View) -> View:
    """The view, without the unseen texts that an answer to a call at the same time has shown by now."""
    still_unseen = known.unseen_in(view.sight, ())
    return View.of(view.sight, {key: revision for key, revision in view.unseen.items() if key in still_unseen})


def _weight(view: View) -> int:
    return len(view.sight.ids) + len(view.unseen)
