"""Links between cells: after any sequence of changes they are those that a new look at the notebook gives."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.notebook.dependencies.graph import CellGraph
from cellwright.notebook.dependencies.reading import names_of
from cellwright.notebook.dependencies.states import LastRun, NotebookStates, State
from requirements import requirement

SOURCES = (
    "a = 1",
    "a = b",
    "b = a + 1",
    "b = [a]",
    "b.append(c)",
    "c = a\nc.x = 1",
    "if a: b = 2",
    "for c in b: pass",
    "def f(x): return x + a",
    "def f(x): x.append(b)",
    "def g(): return f(c)",
    "c = f(b)",
    "g()",
    "f(a)",
    "class K:\n    def go(self): return g()",
    "k = K()",
    "c = k.go()",
    "del a",
    "from m import *",
    "exec(a)",
    "print(a, b, c)",
    "1 +",
    "",
)


def arranged(cells: Sequence[tuple[str, str]]) -> CellGraph:
    graph = CellGraph()
    graph.arrange([key for key, _ in cells], {key: names_of(source, "python") for key, source in cells})
    return graph


def links_of(graph: CellGraph) -> dict[str, object]:
    return {
        key: (link.effects, {name: tuple(cells) for name, cells in link.sources.items()}, link.depends_on)
        for key in graph.order
        for link in [graph.link(key)]
    }


@requirement("stale:graph")
@pytest.mark.hypothesis
@given(st.integers(0, 10**9))
def test_whatever_is_changed_the_links_are_those_of_a_new_look(seed: int) -> None:
    chance = random.Random(seed)
    cells = [(f"k{number}", chance.choice(SOURCES)) for number in range(chance.randrange(9))]
    graph = arranged(cells)
    for step in range(12):
        changed: dict[str, str] = {}
        match chance.randrange(4):
            case 0:
                key = f"n{step}"
                changed[key] = chance.choice(SOURCES)
                cells.insert(chance.randint(0, len(cells)), (key, changed[key]))
            case 1 if cells:
                del cells[chance.randrange(len(cells))]
            case 2 if cells:
                moved = cells.pop(chance.randrange(len(cells)))
                cells.insert(chance.randint(0, len(cells)), moved)
                changed[moved[0]] = moved[1]
            case _ if cells:
                place = chance.randrange(len(cells))
                changed[cells[place][0]] = chance.choice(SOURCES)
                cells[place] = (cells[place][0], changed[cells[place][0]])
            case _:
                pass
        graph.arrange([key for key, _ in cells], {key: names_of(source, "python") for key, source in changed.items()})
        assert links_of(graph) == links_of(arranged(cells))


@requirement("stale:graph", "stale:states")
def test_only_what_depends_on_an_edit_is_judged_again() -> None:
    cells = [f"v{number} = {number}" for number in range(3_000)]
    cells[2_000] = "print(v1000)"
    states = NotebookStates()
    keys = [f"k{number}" for number in range(len(cells))]
    states.arrange(keys, {key: names_of(source, "python") for key, source in zip(keys, cells, strict=True)})
    for number, source in enumerate(cells, 1):
        states.ledger.add(number, source, names_of(source, "python"))
    states.note_runs({key: LastRun(State.FRESH, number) for number, key in enumerate(keys, 1)})
    assert states.judge()
    assert {state.state for state in states.states.values()} == {State.FRESH}
    before = states.judged_count
    states.arrange(keys, {"k1000": names_of("v1000 = 'other'", "python")})
    states.note_runs({"k1000": LastRun(State.EDITED)})
    states.judge()
    assert states.judged_count - before == 2
    stale = {key: state.state for key, state in states.states.items() if state.state is not State.FRESH}
    assert stale == {"k1000": State.EDITED, "k2000": State.STALE}
