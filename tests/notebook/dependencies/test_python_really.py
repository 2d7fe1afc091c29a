"""What is said of a cell in Python, beside what Python really does when it runs it."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.notebook.dependencies.model import CellNames
from cellwright.notebook.dependencies.reading import names_of
from requirements import requirement

LISTS, NUMBERS, FUNCTIONS = ("a", "b", "c"), ("i", "j", "k"), ("f", "g", "h")
NAMES = LISTS + NUMBERS


class Kernel(dict[str, Any]):
    """The names of a kernel, which notes who reads and writes them."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.read_before_written: set[str] = set()
        self.written: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if name not in self.written:
            self.read_before_written.add(name)
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        self.written.add(name)
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self.written.add(name)
        super().__delitem__(name)


def indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


lists, numbers, functions = st.sampled_from(LISTS), st.sampled_from(NUMBERS), st.sampled_from(FUNCTIONS)
simple = st.one_of(
    st.builds("{} = {}".format, lists, lists),
    st.builds("{} = [{}, 2]".format, lists, lists),
    st.builds("{} = {}[:]".format, lists, lists),
    st.builds("{} = {}[-1:] or [9]".format, lists, lists),
    st.builds("{} = [x for x in {} if x != {}]".format, lists, lists, numbers),
    st.builds("{} = {}[0]".format, numbers, lists),
    st.builds("{} = {} and {}".format, lists, lists, lists),
    st.builds("{0}, {1} = {1}, {0}".format, lists, lists),
    st.builds("{} = len({}) + 1".format, numbers, lists),
    st.builds("{}.append({})".format, lists, numbers),
    st.builds("{}.insert(0, {})".format, lists, lists),
    st.builds("{}[0] = {}".format, lists, lists),
    st.builds("{} += [{}]".format, lists, numbers),
    st.builds("if type({0}[0]) is list: {0}[0].append(7)".format, lists),
    st.builds("for x in {}:\n    if type(x) is list: x.append(8)".format, lists),
    st.builds("{} = {} = [5]".format, lists, lists),
    st.builds("del {}".format, lists | numbers),
    st.builds("{}[1:] = []".format, lists),
    st.builds("[{}.append(x) for x in (1, 2)]".format, lists),
    st.builds("print('', *{}, sep='')".format, lists),
    st.builds("({} := {})".format, numbers, lists),
    st.builds("str({} if {} else {})".format, lists, numbers, numbers),
    st.builds("{}({})".format, functions, lists),
    st.builds("{} = {}({})".format, numbers, functions, lists),
    st.builds("sorted({}, key=lambda x: str((x, {})))".format, lists, numbers),
    st.builds("{} = lambda x: x.append({})".format, functions, numbers),
    st.builds("{} = lambda x, y={}: {}".format, functions, lists, numbers),
    st.builds("next(iter({}), None)".format, lists),
    st.just("raise ValueError"),
)


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    block = st.lists(inner, min_size=1, max_size=3).map("\n".join).map(indented)
    return st.one_of(
        st.builds("if {}:\n{}".format, numbers, block),
        st.builds("if {}:\n{}\nelse:\n{}".format, numbers, block, block),
        st.builds("for {} in {}[:3]:\n{}".format, numbers, lists, block),
        st.builds("for {} in range(2):\n{}".format, numbers, block),
        st.builds("for {} in ({}, {}):\n{}".format, lists, lists, lists, block),
        st.builds("for {} in range(3):\n{}\n    break\nelse:\n{}".format, numbers, block, block),
        st.builds("while True:\n{}\n    break".format, block),
        st.builds("try:\n{}\nexcept Exception as {}:\n{}".format, block, numbers, block),
        st.builds("try:\n{}\nexcept Exception:\n{}\nelse:\n{}\nfinally:\n{}".format, block, block, block, block),
        st.builds("with nothing() as {}:\n{}".format, numbers, block),
        st.builds("def {}(x):\n{}".format, functions, block),
        st.builds("def {}({}):\n{}\n    return {}".format, functions, lists, block, numbers),
        st.builds("def {}(x):\n    global {}\n{}".format, functions, lists, block),
        st.builds("class C:\n{}\n    def m(self, x):\n    {}".format, block, block.map(indented)),
        st.builds(
            "match {}:\n    case [{}, *_]:\n{}\n    case _:\n{}".format,
            lists,
            numbers,
            block.map(indented),
            block.map(indented),
        ),
    )


cells = st.lists(st.recursive(simple, compound, max_leaves=8), min_size=1, max_size=6).map("\n".join)


class Nothing:
    def __enter__(self) -> int:
        return 4

    def __exit__(self, *_: object) -> None:
        pass


def ran(source: str) -> tuple[Kernel, set[str], bool]:
    """The kernel after the cell ran, the names whose values it changed, and whether it came to its end."""

    def first(given: list[Any]) -> int:
        return len(given)

    values: dict[str, Any] = {"a": [1, 2, 3], "b": [[1], [2]], "c": [4, [5]], "i": 0, "j": 1, "k": 2}
    values |= dict.fromkeys(FUNCTIONS, first) | {"nothing": Nothing, "print": str.format}
    kernel = Kernel(values)
    before = copy.deepcopy({name: values[name] for name in NAMES})
    try:
        exec(compile(source, "<cell>", "exec"), kernel)
        ended = True
    except (ValueError, TypeError, NameError, IndexError, AttributeError, RecursionError, KeyError):
        ended = False
    after = dict.fromkeys(NAMES) | dict(kernel.items())
    return kernel, {name for name in NAMES if not same(before[name], after[name])}, ended


def same(one: object, other: object) -> bool:
    try:
        return repr(one) == repr(other)
    except RecursionError:
        return False


def compared(source: str, names: CellNames) -> list[str]:
    """What is wrong with what was said of the cell."""
    kernel, changed, ended = ran(source)
    known = {*NAMES, *FUNCTIONS, "nothing", "C"}
    # Where a function says `global`, Python binds the name past the dictionary, which then does not know when.
    traced = "global" not in source
    wrong = [f"reads {name}" for name in kernel.read_before_written & known - names.uses if traced]
    said = names.defines | names.perhaps | names.changes
    wrong += [f"changes {name}" for name in (changed | kernel.written & known) - said]
    if ended and traced:
        wrong += [f"does not bind {name}" for name in names.defines & known - kernel.written]
    return wrong


@requirement("stale:python:really")
@settings(max_examples=1500)
@given(cells)
def test_nothing_that_a_cell_really_reads_or_changes_is_missing(source: str) -> None:
    try:
        compile(source, "<cell>", "exec")
    except SyntaxError:
        return
    names = names_of(source, "python")
    assert not names.unknown
    assert compared(source, names) == []
    assert names.changes <= names.uses
