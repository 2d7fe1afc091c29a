"""The states of cells in the words of an answer."""

from collections.abc import Mapping, Sequence

from typing_extensions import TypedDict

from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.core.text.cutting import cut_text
from cellwright.jupyter.model import CellHead
from cellwright.jupyter.notebooks.cellreadings import CellStateShown
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.notebooks.outline import one_word
from cellwright.jupyter.staleness.tracking import NO_KERNEL, StatesOfNotebook, index_of, key_at
from cellwright.notebook.dependencies.states import CellState, Missing, Reason, State
from cellwright.notebook.model import Kind

MARKED = frozenset((State.EDITED, State.STALE, State.LOST, State.UNKNOWN))
"""States that an outline shows: of the others, the count and the word `running` tell."""
SURELY_OTHER = (State.EDITED, State.STALE, State.NOT_RUN)
MOST_NAMES = 10
MOST_CELLS = 20
NAME_CHARACTERS = 60
SHARED_THINGS = {
    "<random>": "the state of random numbers",
    "<folder>": "the working folder",
    "<environment>": "the environment's variables",
    "<files>": "a file",
    "<any file>": "a file",
}


class StatesShown(TypedDict, total=False):
    """The states of a notebook's code cells: how many are in each, and whether a run from top to bottom would give what is shown."""

    states: dict[str, int]
    top_to_bottom: str
    undefined: list[str]


class StaleNews(TypedDict, total=False):
    """Cells that are stale since an edit."""

    stale: str


def mark_of(states: StatesOfNotebook, view: LiveNotebook, index: int, head: CellHead) -> str:
    """The word for a cell's state in an outline; empty if it needs none."""
    if head.cell_type != Kind.CODE:
        return ""
    state = states.state_of(head, key_at(view, index)).state
    return state.value if state in MARKED and not (state is State.LOST and states.kernel.none) else ""


def state_shown(states: StatesOfNotebook, view: LiveNotebook, index: int, head: CellHead) -> CellStateShown:
    if head.cell_type != Kind.CODE:
        return {}
    key = key_at(view, index)
    state = states.state_of(head, key)
    shown: CellStateShown = {"state": state.state.value}
    if because := because_shown(states, view, key, state):
        shown["because"] = because
    return shown


def because_shown(states: StatesOfNotebook, view: LiveNotebook, key: str, state: CellState) -> str:
    """Why a cell is not fresh; empty if its state says it all."""
    if state.reason is not None:
        return sentence(state.reason, view)
    return states.note_of(key) if state.state in (State.LOST, State.UNKNOWN) else ""


def sentence(reason: Reason, view: LiveNotebook) -> str:
    """Why a cell is not fresh, with the place that the other cell has now."""
    return reason.why.value.format(name=name_shown(reason.name), cell=cell_shown(reason.cell, view))


def cell_shown(key: str, view: LiveNotebook) -> str:
    index = index_of(view, key)
    if index is None or index >= view.cell_count:
        return "a cell that is gone"
    return f"cell {index} ({one_word(view.id_at(index)) or '-'})"


def name_shown(name: str) -> str:
    if name.startswith("<file "):
        return f"the file {cut_text(clean(name[6:-1]).text, NAME_CHARACTERS)!r}"
    return SHARED_THINGS.get(name) or cut_text(clean(name).text, NAME_CHARACTERS)


def states_shown(states: StatesOfNotebook, view: LiveNotebook) -> StatesShown:
    counts = states.counts()
    missing = states.missing()
    shown: StatesShown = {
        "states": {state.value: counts[state] for state in State if counts[state]},
        "top_to_bottom": _verdict(states, missing, view),
    }
    if missing:
        shown["undefined"] = [_missing_shown(name, view) for name in missing[:MOST_NAMES]]
        if len(missing) > MOST_NAMES:
            shown["undefined"].append(f"{len(missing) - MOST_NAMES} more")
    return shown


def _verdict(states: StatesOfNotebook, missing: Sequence[Missing], view: LiveNotebook) -> str:
    """Whether a run from top to bottom would give what is shown."""
    if states.is_late:
        return "unknown: the cells are still being read, ask again"
    counts = states.counts()
    others = [f"{counts[state]} {state.value}" for state in SURELY_OTHER if counts[state]]
    if missing:
        others.append(f"{name_shown(missing[0].name)} is not defined above {cell_shown(missing[0].used_in, view)}")
    if others:
        return f"would give something else: {', '.join(others)}"
    doubtful = [f"{counts[state]} {state.value}" for state in State if counts[state] and state is not State.FRESH]
    if not doubtful:
        return "would give what is shown"
    why = f" ({NO_KERNEL})" if states.kernel.none else ""
    return f"unknown: {', '.join(doubtful)}{why}"


def _missing_shown(missing: Missing, view: LiveNotebook) -> str:
    used = f"{name_shown(missing.name)}: used in {cell_shown(missing.used_in, view)}"
    if missing.below:
        return f"{used}, defined only below, in {cell_shown(missing.below, view)}"
    if missing.ran:
        return f"{used}, defined only by code that stands in no cell now"
    return f"{used}, defined nowhere"


def stale_news(news: Mapping[str, State], view: LiveNotebook) -> StaleNews:
    """The cells that are stale now, in a line."""
    stale, unknown = (_indexes(news, state, view) for state in (State.STALE, State.UNKNOWN))
    parts: list[str] = []
    if stale:
        parts.append(f"{counted(len(stale), 'cell')} {'is' if len(stale) == 1 else 'are'} stale now: {_named(stale)}")
    if unknown:
        parts.append(f"not known whether stale: {_named(unknown)}")
    return {"stale": "; ".join(parts)} if parts else {}


def _indexes(news: Mapping[str, State], state: State, view: LiveNotebook) -> list[int]:
    return sorted(index for key in news if news[key] is state and (index := index_of(view, key)) is not None)


def _named(indexes: Sequence[int]) -> str:
    named = ", ".join(map(str, indexes[:MOST_CELLS]))
    return f"{named} and {len(indexes) - MOST_CELLS} more" if len(indexes) > MOST_CELLS else named
