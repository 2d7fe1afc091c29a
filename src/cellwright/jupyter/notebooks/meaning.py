"""Which cells a call means: those that its caller was shown, wherever they are by now."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cellwright.core.errors import Conflict, InvalidArgument, NotFound
from cellwright.core.text.counting import counted
from cellwright.core.types import Call
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.notebooks.meanwhile import OrderNews, ViewShown, order_news
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.notebooks.sights import PART_OF_PATH, ForgottenView, Sights
from cellwright.jupyter.notebooks.views import NOT_SHOWN, Order, Sight, View
from cellwright.notebook.addressing import CellRange, at, insert_position, resolve_each
from cellwright.notebook.merging import certainly_in_order

ANY = "any"
"""As `expect`: whatever is there, change it."""
Expected = dict[str, str] | Literal["any"] | None
"""The revisions that cells must have, by cell id."""
ASIDE = "aside"
"""As `view`: the last one; and what the call shows counts only in calls that name its new view."""
LINES_AROUND = 3
MOST_NAMED = 20
NOTHING_SHOWN = View.of(Sight(Order(()), (), ()), {})


@dataclass(frozen=True, slots=True)
class MeantCell:
    """A cell that a caller means."""

    index: int
    """Where it is now."""
    revision: str | None
    """The revision that the caller was shown; None if they were shown nothing of the notebook."""


def proposal_key(path: str, session: str) -> str:
    """Under which what was shown of a session's proposal for this notebook is remembered."""
    return f"{path}{PART_OF_PATH}{session}"


class CallersSight:
    """What the caller of one call was shown of a notebook. Made when the call begins: a parallel call may show them more meanwhile.

    A proposal is a notebook of its own: what was shown of it does not count for the notebook. What is shown `aside` counts only in
    calls that name its view: a program asked for it, and no agent sees it.
    """

    def __init__(
        self, sights: Sights, call: Call, path: NotebookPath, view: str | None, *, proposes: bool, aside: bool = False
    ) -> None:
        self._sights = sights
        self._call = call
        self.path = path
        self._proposes = proposes
        self._aside = aside
        self._may_be_of_another = view is None and call.connection is None
        self._forgotten: ForgottenView | None = None
        try:
            self._shown = self._seen_of_proposal(view) if proposes else sights.seen(call, path.text, view)
        except ForgottenView as forgotten:
            if view is not None:
                raise
            # They can be shown the notebook anew. Until then no index means anything, and no text is known to them.
            self._shown, self._forgotten = NOTHING_SHOWN, forgotten

        surely = None if view is not None or self._forgotten else sights.surely_seen(call, self._key)
        self._surely_shown = surely or self._shown
        """What the caller had surely been shown when it sent this call: another of its calls at the same time may have shown more."""

    @property
    def _view(self) -> View | None:
        """What the caller was shown last; None if nothing was. Raises ForgottenView if that is not known."""
        if self._forgotten is not None:
            raise self._forgotten
        return self._shown

    def _seen_of_proposal(self, view: str | None) -> View | None:
        if view is None:
            shown = self._sights.seen(self._call, self._key)
            return shown or self._sights.seen(self._call, self.path.text)
        try:
            return self._sights.seen(self._call, self._key, view)
        except ForgottenView:
            return self._sights.seen(self._call, self.path.text, view)

    @property
    def _key(self) -> str:
        return proposal_key(self.path.text, self._call.session) if self._proposes else self.path.text

    def show(
        self,
        notebook: LiveNotebook | Sight,
        shown: Collection[str] = (),
        believed: Mapping[str, str] | None = None,
        *,
        lines: Collection[str] = (),
    ) -> str:
        """Remember that the caller knows the order of the cells now, and the texts of the `shown` ones. Returns the view's name.

        `believed` has revisions of texts that the caller takes for those of cells, although changes of others were merged into them.
        Of the cells of `lines` only a line was shown.
        """
        now = notebook if isinstance(notebook, Sight) else notebook.sight()
        believed = believed or {}
        texts = {key: believed.get(key) or now.revisions[now.positions[key]] for key in shown if key in now.positions}
        listed = {key: now.revisions[now.positions[key]] for key in lines if key in now.positions}
        return self._remember(now, shown, believed, texts, listed)

    def _remember(
        self,
        now: Sight,
        seen: Collection[str],
        believed: Mapping[str, str],
        texts: Mapping[str, str],
        lines: Mapping[str, str],
    ) -> str:
        unseen = self._shown.unseen_in(now, seen) if self._shown is not None else {}
        view = View.of(now, {**unseen, **believed}, aside=self._aside)
        return self._sights.remember(self._call, self._key, view, texts, lines, shown_before=self._shown)

    def order_news(self, now: Sight, before: Sight | None = None) -> OrderNews:
        """What others did to the order of the cells since it was shown. `before`: the notebook before an edit of the caller's own."""
        if self._shown is None or self._forgotten is not None:
            return {}
        return order_news(self._shown.sight, before or now, now)

    def outline_shown(self, notebook: LiveNotebook, start: int, count: int) -> ViewShown:
        """The view of an answer with the lines of these cells, and what the other lines would have told of their order."""
        news = OrderNews() if count == notebook.cell_count else self.order_news(notebook.sight())
        return {"view": self._show_outline(notebook, start, start + count), **news}

    def _show_outline(self, notebook: LiveNotebook, start: int, end: int) -> str:
        """Remember that the caller was shown the lines of these cells in an outline: of a new cell that is enough to know of it."""
        view = self._shown
        # Of whom it is not known what they saw, it is not known which cells are new to them.
        now = notebook.sight()
        lines = now.keys[start:end] if self._forgotten is None else ()
        new = [key for key in lines if view is None or not view.knows(key)]
        listed = {key: now.revisions[start + number] for number, key in enumerate(lines)}
        return self._remember(now, new, {}, {}, listed)

    def keep(self, notebook: LiveNotebook) -> str:
        """The view after a call that showed no cells: with new execution counts, but never with another order."""
        shown = self._shown
        if self._forgotten is not None:
            return self.show_aside(notebook, ())
        if shown is None or shown.sight.has_order_of(notebook.sight()):
            return self.show(notebook)
        return shown.name

    def show_aside(self, notebook: LiveNotebook | Sight, shown: Collection[str]) -> str:
        """A view that counts only in calls that name it."""
        now = notebook if isinstance(notebook, Sight) else notebook.sight()
        unseen = self._shown.unseen_in(now, shown) if self._shown is not None else {}
        return self._sights.remember(self._call, self._key, View.of(now, unseen, aside=True))

    def show_all(self, notebook: LiveNotebook | Sight) -> str:
        """Remember that the caller was shown all of the notebook."""
        sight = notebook if isinstance(notebook, Sight) else notebook.sight()
        return self.show(notebook, sight.keys)

    def known(self, notebook: LiveNotebook) -> set[str]:
        """The cells, by their keys, whose text is the one that the caller was shown."""
        now = notebook.sight()
        unseen = {} if self._shown is None else self._shown.unseen_in(now, ())
        return {*now.keys}.difference(unseen)

    def was_shown(self, cell: str, revision: str) -> bool:
        """Whether the caller, or another client of the same principal, was shown this text of the cell, which is named by its key."""
        return self._sights.shown_to_any(self._call, self._key, cell, revision)

    def each(self, notebook: LiveNotebook, ranges: Sequence[CellRange]) -> list[list[MeantCell]]:
        """The cells that each range means, in the order of the ranges. Raises NotFound if one is gone."""
        each = self._each_in(notebook, self._view, ranges)
        if self._surely_shown is self._shown:
            return each
        try:
            surely = self._each_in(notebook, self._surely_shown, ranges)
        except (NotFound, InvalidArgument) as error:
            raise self._ambiguous() from error
        if [[cell.index for cell in cells] for cells in each] != [[cell.index for cell in cells] for cells in surely]:
            raise self._ambiguous()
        return surely

    def _ambiguous(self) -> Conflict:
        return Conflict(
            "this call was sent together with others, and by their answers it means other cells than without them; "
            "nothing was done",
            hint="Give the view of the answer in which you saw the cells, or name them by id",
        )

    def _each_in(self, notebook: LiveNotebook, view: View | None, ranges: Sequence[CellRange]) -> list[list[MeantCell]]:
        if view is None:
            return [[MeantCell(index, None) for index in indexes] for indexes in notebook.resolve_each(ranges)]
        if view.sight is notebook.sight():
            return [
                [self._meant(notebook, index, index, view) for index in indexes]
                for indexes in notebook.resolve_each(ranges)
            ]
        try:
            return self._each_shown(notebook, view, ranges)
        except InvalidArgument as error:
            if len(view.sight.ids) == notebook.cell_count:
                raise
            raise InvalidArgument(
                f"{error.message}, as it was shown to you; by now it has {counted(notebook.cell_count, 'cell')}",
                hint="The outline shows the last of them; read_nb_cells has them all",
                details=self._around(notebook, notebook.cell_count),
            ) from error

    def _each_shown(self, notebook: LiveNotebook, view: View, ranges: Sequence[CellRange]) -> list[list[MeantCell]]:
        resolved = resolve_each(_ShownCells(view.sight, notebook), ranges)
        return [[self._now(notebook, view, position) for position in positions] for positions in resolved]

    def _meant(self, notebook: LiveNotebook, index: int, position: int, view: View) -> MeantCell:
        revision, current = view.revision(position), notebook.sight().revisions[index]
        if revision != current and self._may_be_of_another:
            # Clients of one token that nothing tells apart: what one of them was shown counts for all who name no view.
            revision = current if self.was_shown(notebook.sight().keys[index], current) else revision
        return MeantCell(index, revision)

    def cells(self, notebook: LiveNotebook, ranges: Sequence[CellRange]) -> list[MeantCell]:
        """All cells that the ranges mean, in the order in which they are now."""
        each = self.each(notebook, ranges)
        return sorted((cell for cells in each for cell in cells), key=lambda cell: cell.index)

    def indexes_to_read(self, notebook: LiveNotebook, ranges: Sequence[CellRange]) -> list[int]:
        """The cells that ranges mean. Of cells that came after the last that was shown, indexes mean the notebook as it is."""
        view = self._shown
        if view is None or self._forgotten is not None or view.sight is notebook.sight():
            return notebook.resolve(ranges)
        try:
            return sorted(cell.index for cells in self._each_shown(notebook, view, ranges) for cell in cells)
        except InvalidArgument:
            return notebook.resolve(ranges)

    def position(self, notebook: LiveNotebook, position: int) -> int:
        """Where cells go that are to be inserted at `position` of what was shown: after the cell that they were to follow."""
        if position == -1:
            return notebook.cell_count
        place = self._position_in(notebook, self._view, position)
        if self._surely_shown is not self._shown and place != self._position_in(notebook, self._surely_shown, position):
            raise self._ambiguous()
        return place

    def _position_in(self, notebook: LiveNotebook, view: View | None, position: int) -> int:
        sight = view.sight if view is not None else None
        if sight is None or sight is notebook.sight():
            return insert_position(notebook.cell_count, position)
        place = insert_position(len(sight.ids), position)
        for before in range(place - 1, -1, -1):
            index = _index_now(notebook, sight, before)
            if index is not None:
                return index + 1
        return 0

    def check_unchanged(self, notebook: LiveNotebook, cells: Sequence[MeantCell], expect: Expected) -> None:
        """Raise Conflict if somebody changed one of these cells after it was shown. What `expect` names is checked against that."""
        if expect == ANY:
            return
        for cell in cells:
            named = notebook.id_at(cell.index) in (expect or {})
            if cell.revision is not None and not named:
                notebook.check_revision(cell.index, cell.revision)

    def check_nothing_changed(self, notebook: LiveNotebook, expect: str | None) -> None:
        """Raise Conflict if anything that is written in the notebook changed after it was shown: before all of it is replaced."""
        view, now = self._view and self._surely_shown, notebook.sight()
        if expect == ANY or view is None:
            return
        unseen = view.unseen_in(now, ())
        # A cell that came and went again without being shown is no loss.
        if not unseen and [*filter(view.knows, view.sight.keys)] == [*now.keys]:
            return
        places = [index for index, key in enumerate(now.keys) if key in unseen or key not in view.sight.positions]
        raise Conflict(
            f"{self.path} has changed since you saw it; nothing was overwritten",
            hint=f'Read what is new, and write it with the rest; expect: "{ANY}" overwrites it',
            details={
                "outline": notebook.outline_lines(places[:MOST_NAMED]),
                "view": self.show(now, lines=[now.keys[index] for index in places[:MOST_NAMED]]),
                **self.order_news(now),
            },
        )

    def check_unmoved(self, notebook: LiveNotebook, cells: Sequence[MeantCell], expect: Expected) -> None:
        """Raise Conflict if somebody moved one of these cells after it was shown."""
        sight = self._view.sight if self._view is not None else None
        if expect == ANY or sight is None or sight.has_order_of(notebook.sight()):
            return
        now = notebook.sight()
        unmoved = certainly_in_order(sight.ids, notebook.ids)
        for cell in cells:
            cell_id = notebook.id_at(cell.index)
            position = sight.positions.get(cell_id)
            # Others may have come, gone or moved around it; a cell that got another type is put anew, but where it was.
            if position is not None and cell_id not in unmoved and not sight.still_has(position, now, cell.index):
                raise Conflict(
                    f"somebody moved cell {cell_id} to index {cell.index} after you saw it; nothing was moved",
                    hint='Look where it is; expect: "any" moves it all the same',
                    details=self._around(notebook, cell.index),
                )

    def _now(self, notebook: LiveNotebook, view: View, position: int) -> MeantCell:
        if position >= len(view.sight.ids):
            index = position - len(view.sight.ids)
            shown = self._sights.last_shown(self._call, self._key, notebook.sight().keys[index])
            return MeantCell(index, shown or NOT_SHOWN)
        index = _index_now(notebook, view.sight, position)
        if index is None:
            raise self._gone(notebook, view.sight, position)
        return self._meant(notebook, index, position, view)

    def _gone(self, notebook: LiveNotebook, sight: Sight, position: int) -> NotFound:
        neighbours = (_index_now(notebook, sight, before) for before in range(position - 1, -1, -1))
        near = next((index for index in neighbours if index is not None), 0)
        return NotFound(
            f"cell {sight.ids[position] or '(without an id)'}, shown to you at index {position}, is no longer in "
            f"{self.path}; nothing was changed",
            hint="The outline shows what is there now; indexes count in it from now on",
            details=self._around(notebook, near),
        )

    def _around(self, notebook: LiveNotebook, index: int) -> dict[str, object]:
        """The outline around a cell, which the caller is shown with a refusal."""
        start, end = max(0, index - LINES_AROUND), min(notebook.cell_count, index + LINES_AROUND + 1)
        shown = self.outline_shown(notebook, start, end - start)
        return {"outline": notebook.outline_lines(range(start, end)), **shown}


class _ShownCells:
    """The cells of a sight, by which ranges are resolved. Cells that came later are named by numbers after the last."""

    def __init__(self, sight: Sight, notebook: LiveNotebook) -> None:
        self._sight = sight
        self._notebook = notebook

    @property
    def ids(self) -> Sequence[str]:
        return self._sight.ids

    def named(self, name: str) -> int:
        position = self._sight.position_of(name)
        if position is not None:
            return position
        index = self._notebook.resolve([CellRange(id=name)])[0]
        # Named by a count that it got later, it is still the cell that was shown, with the text that was shown.
        shown_at = self._sight.positions.get(self._notebook.id_at(index))
        return len(self._sight.ids) + index if shown_at is None else shown_at


def _index_now(notebook: LiveNotebook, sight: Sight, position: int) -> int | None:
    """Where the cell is that was at this position; None if it is gone, or cannot be told from others."""
    now = notebook.sight()
    index = now.positions.get(sight.keys[position])
    if index is not None:
        return index
    # Files of older formats keep no ids, so the same cells have others after the file was opened again.
    same = sight.has_order_of(now) or (not notebook.ids_are_stable and sight.revisions == now.revisions)
    return position if same else None


def each_at(cells: Sequence[MeantCell]) -> list[CellRange]:
    """These cells as ranges of the notebook as it is now."""
    return [at(cell.index) for cell in cells]


def exactly(expect: Expected) -> dict[str, str] | None:
    """The revisions that cells must have, whatever was shown."""
    return None if expect == ANY else expect
