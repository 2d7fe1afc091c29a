"""What the states say of histories of runs: nothing is called fresh that a run from top to bottom would give otherwise."""

from collections.abc import Sequence

import pytest

from cellwright.notebook.dependencies.reading import names_of
from cellwright.notebook.dependencies.states import LastRun, NotebookStates, State
from requirements import requirement

Runs = Sequence[tuple[int | None, str]]
"""The cell of each run, None for code that stands in no cell, and what ran."""


def states_after(cells: Sequence[str], runs: Runs, first: int = 1) -> list[str]:
    """The states of cells after these runs, of which the first has this number: what ran before was not heard."""
    states = NotebookStates()
    keys = [f"c{number}" for number in range(len(cells))]
    states.arrange(keys, {key: names_of(source, "python") for key, source in zip(keys, cells, strict=True)})
    last: dict[str, LastRun] = {}
    for number, (cell, source) in enumerate(runs, first):
        states.ledger.add(number, source, names_of(source, "python"))
        if cell is not None:
            last[f"c{cell}"] = LastRun(State.FRESH, number) if cells[cell] == source else LastRun(State.EDITED)
    states.note_runs(last)
    assert states.judge()
    return [states.states[key].state.value for key in keys]


def in_order(cells: Sequence[str]) -> list[tuple[int | None, str]]:
    return list(enumerate(cells))


@requirement("stale:states")
@pytest.mark.parametrize(
    ("binding", "before", "after"),
    [
        ("if n:\n    b = 2", "n = 1", "n = 0"),
        ("for i in range(n): b = i", "n = 3", "n = 0"),
        ("try: b = 1 / n\nexcept ZeroDivisionError: pass", "n = 1", "n = 0"),
    ],
)
def test_what_may_not_have_been_bound_again_is_not_fresh(binding: str, before: str, after: str) -> None:
    cells = [after, "b = 1", binding, "b"]
    runs = [*in_order([before, *cells[1:]]), (0, after), (2, binding), (3, "b")]
    assert states_after(cells, runs) == ["fresh", "fresh", "fresh", "stale"]


@requirement("stale:states")
def test_a_loop_that_is_run_again_or_stands_twice_is_fresh() -> None:
    loop = "for i in range(3): print(i)"
    assert states_after([loop, "i"], [*in_order([loop, "i"]), (0, loop), (1, "i")]) == ["fresh"] * 2
    cells = ["n = 3", "for i in range(n): print(i)", "for i in range(n): print(i)", "i"]
    assert states_after(cells, in_order(cells)) == ["fresh"] * 4


@requirement("stale:states")
def test_what_is_deleted_was_read() -> None:
    cells = ["a = 1", "del a"]
    assert states_after(cells, in_order(cells)) == ["fresh", "fresh"]
    assert states_after(cells, [*in_order(cells), (1, "del a")])[1] == "stale"


@requirement("stale:states")
def test_names_of_runs_that_nobody_heard_are_not_known() -> None:
    assert states_after(["print(a)"], [(0, "print(a)")], first=2) == ["unknown"]
    assert states_after(["print(1)"], [(0, "print(1)")], first=2) == ["fresh"]


@requirement("stale:states")
@pytest.mark.parametrize(
    ("option", "again"),
    [("pd.set_option('a', 1)", "fresh"), ("pd.options.a = 1", "fresh"), ("pd.set_option('a', len(x))", "stale")],
)
def test_imports_with_options_that_run_again_change_nothing(option: str, again: str) -> None:
    cells = [f"import pandas as pd\n{option}", "y = pd.read()"]
    assert states_after(cells, [*in_order(cells), (0, cells[0])])[1] == again
    edited = [cells[0].replace("1", "2").replace("len(x)", "3"), cells[1]]
    assert states_after(edited, in_order(cells)) == ["edited", "stale"]


@requirement("stale:need")
def test_only_what_certainly_needs_a_cell_is_held_back_with_it() -> None:
    states = NotebookStates()
    cells = ["import numpy as np", "x = np.random.rand(1)", "y = np.random.rand(1)", "z = x", "z", "exec(z)"]
    states.arrange([f"c{n}" for n in range(6)], {f"c{n}": names_of(cell, "python") for n, cell in enumerate(cells)})
    assert states.graph.certain_dependents("c1") == {"c3", "c4"}
