"""The reasoning templates: each runs in a real kernel, and its board does what it says."""

import ast
import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Generator
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.tokens import estimate_tokens
from cellwright.jupyter.server.kernel_ports import use_kernel_ports
from cellwright.notebook.formats import srcmd
from cellwright.notebook.model import Kind
from cellwright.thinking.templates import TEMPLATES
from locations import DOCS
from requirements import requirement

NAMES = (
    "tree_of_thought",
    "beam_search",
    "mcts",
    "graph_of_thought",
    "orchestration_suggest",
    "ooda_loop",
    "ulysses_protocol",
)
CELL_TOKENS = 1_500
TEMPLATE_TOKENS = 4_000
MAKE = DOCS / "thinking" / "make.py"
HOSTILE = (
    "</svg><script>alert(1)</script>",
    "\"'&<>]]>",
    "👩‍👩‍👧 🏳️‍🌈",
    "שלום \u202e evil \u202c عربى",
    "\x00\x1b[31m\ud800\ufffe\n\t",
    "100 % of {x} %s %d \\",
    "long " * 2_000,
    "x" * 10_000,
    "漢字" * 500,
)
SCORES = st.floats(0, 1)
Namespace = dict[str, Any]


def code_cells(name: str) -> dict[str, str]:
    return {cell.filename: cell.source for cell in TEMPLATES[name].notebook.cells if cell.kind is Kind.CODE}


def executed(name: str) -> Namespace:
    namespace: Namespace = {"__name__": "template"}
    for filename, source in code_cells(name).items():
        exec(compile(source, filename, "exec"), namespace)
    return namespace


SPACES = {name: executed(name) for name in NAMES}
Tree = SPACES["tree_of_thought"]["TreeOfThought"]
Beam = SPACES["beam_search"]["BeamSearch"]
Search = SPACES["mcts"]["MonteCarloTreeSearch"]
Graph = SPACES["graph_of_thought"]["GraphOfThought"]
Plan = SPACES["orchestration_suggest"]["Orchestration"]
Loop = SPACES["ooda_loop"]["OodaLoop"]
Mast = SPACES["ulysses_protocol"]["UlyssesProtocol"]


def loaded(board: Any, state: object) -> Any:
    return board.load(state)


def refused(board: Any, kind: type[Exception], call: Callable[[], object], says: str) -> None:
    """The call raises with these words and leaves the board as it was."""
    before = board.state()
    with pytest.raises(kind, match=says):
        call()
    assert board.state() == before


# -- boards with something on them, for what holds of all --------------------------------------------------------------------


def full_tree(label: str) -> Any:
    tree = Tree(label)
    tree.add(0, label, label)
    tree.score(1, 0.5, label)
    tree.prune(2, label)
    return tree


def full_beam(label: str) -> Any:
    beam = Beam(label, width=1)
    beam.propose(0, label, 0.3)
    beam.propose(0, label, 0.6, label)
    beam.step()
    return beam


def full_search(label: str) -> Any:
    search = Search(label)
    search.expand(0, label, label)
    search.backup(1, 1, label)
    return search


def full_graph(label: str) -> Any:
    graph = Graph(label)
    graph.add(label)
    graph.add(label, 0)
    graph.contradict(0, 1)
    graph.score(1, 0.3, label)
    return graph


def full_plan(label: str) -> Any:
    plan = Plan(label)
    plan.rate("costly", 1, label)
    plan.done("ulysses_protocol", label)
    return plan


def full_loop(label: str) -> Any:
    loop = Loop(label, facts=1)
    fact = loop.observe(label, label)
    loop.advance()
    explanation = loop.suppose(label, 0.5, [fact])
    loop.advance()
    loop.decide(label, explanation, label)
    loop.advance()
    loop.act(label, False)
    loop.end(label)
    return loop


def full_mast(label: str) -> Any:
    mast = Mast(label)
    mast.require("planning", label)
    mast.prove("cause known", label)
    mast.rescope(label, label)
    return mast


FULL: dict[str, Callable[[str], Any]] = dict(
    zip(NAMES, (full_tree, full_beam, full_search, full_graph, full_plan, full_loop, full_mast), strict=True)
)


# -- the books ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kernel() -> Generator[BlockingKernelClient]:
    use_kernel_ports()
    manager, client = start_new_kernel(kernel_name="python3")
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def run(client: Any, source: str) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []

    def collect(message: dict[str, Any]) -> None:
        outputs.append(message["content"])

    reply = client.execute_interactive(source, timeout=30, allow_stdin=False, output_hook=collect)
    assert reply["content"]["status"] == "ok", reply["content"].get("evalue")
    return outputs


@requirement("templates:run")
@pytest.mark.parametrize("name", NAMES)
def test_a_template_runs_from_top_to_bottom_in_a_kernel(kernel: BlockingKernelClient, name: str) -> None:
    run(kernel, "%reset -f")
    outputs = [output for source in code_cells(name).values() for output in run(kernel, source)]
    shown = [output["data"] for output in outputs if "data" in output]
    assert len(shown) == 1
    assert "here" in shown[0]["text/plain"]
    assert ET.fromstring(shown[0]["image/svg+xml"]).tag.endswith("svg")
    assert not [output for output in outputs if output.get("name") == "stderr"]


@requirement("templates:docs")
def test_the_worked_examples_are_what_running_them_gives() -> None:
    done = subprocess.run([sys.executable, MAKE, "--check"], capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr


@requirement("templates:run")
def test_there_are_the_seven_templates_of_the_contract() -> None:
    assert tuple(TEMPLATES) == NAMES
    for name, template in TEMPLATES.items():
        assert template.name == name
        assert template.notebook.language == "python"
        text = srcmd.encode(template.notebook)
        assert srcmd.decode(text.text) == template.notebook
        assert text.losses == ()


@requirement("templates:thrift")
@pytest.mark.parametrize("name", NAMES)
def test_a_template_is_cheap_to_read(name: str) -> None:
    costs = [estimate_tokens(cell.source) for cell in TEMPLATES[name].notebook.cells]
    assert max(costs) <= CELL_TOKENS
    assert sum(costs) <= TEMPLATE_TOKENS


@requirement("templates:portable", "templates:determined")
@pytest.mark.parametrize("name", NAMES)
def test_cells_import_only_pure_parts_of_the_standard_library(name: str) -> None:
    for source in code_cells(name).values():
        tree = ast.parse(source, feature_version=(3, 8))
        imports = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert imports <= {"html", "json", "math", "textwrap", "unicodedata"}
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


@requirement("templates:prompts")
@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_names_its_pattern_and_repeats_its_arguments(name: str) -> None:
    template = TEMPLATES[name]
    main = template.arguments[0].name
    text = template.prompt({main: "why is it slow?", "context": "it was fast"})
    assert f'notebook_create(pattern="{name}", problem="why is it slow?")' in text
    assert "notebook_run_cell" in text
    assert f"{main}: why is it slow?" in text
    assert "context: it was fast" in text
    assert estimate_tokens(text) < 350
    for wrong, says in (
        ({}, f"needs '{main}'"),
        ({main: " "}, "needs"),
        ({main: "x", "depth": "3"}, "no argument 'depth'"),
    ):
        with pytest.raises(InvalidArgument, match=says):
            template.prompt(wrong)
    with pytest.raises(InvalidArgument, match="4000 characters"):
        template.prompt({main: "x" * 4_001})


# -- what holds of every board -----------------------------------------------------------------------------------------------


@requirement("templates:state")
@pytest.mark.parametrize("name", NAMES)
def test_a_board_comes_back_from_its_state(name: str) -> None:
    board = FULL[name]("a label")
    data = board.state()
    for given_state in (data, json.dumps(data)):
        again = loaded(board, given_state)
        assert again.state() == data
        assert (repr(again), again.svg()) == (repr(board), board.svg())
    kept = board.state()
    given_away: dict[str, Any] = board.state()
    again = loaded(board, given_away)
    for value in given_away.values():
        if isinstance(value, list | dict):
            cast("Any", value).clear()
    assert again.state() == board.state() == kept, "a board shares nothing with its state"


@requirement("templates:errors")
@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_its_state_is_refused(name: str) -> None:
    board = FULL[name]("a label")
    other = FULL[NAMES[NAMES.index(name) - 1]]("a label")
    incomplete = {"board": board.state()["board"]}
    wrongs: tuple[object, ...] = (other.state(), incomplete, [], "[]", {})
    for wrong in wrongs:
        with pytest.raises(ValueError, match="not the state of"):
            loaded(board, wrong)
    with pytest.raises(ValueError, match="must say something"):
        type(board)("  ")


def parsed(svg: str) -> ET.Element:
    root = ET.fromstring(svg)
    assert {element.tag.split("}")[1] for element in root.iter()} <= {"svg", "g", "rect", "path", "text"}
    assert not [name for element in root.iter() for name in element.attrib if name.startswith("on") or "href" in name]
    return root


@requirement("templates:pictures")
@pytest.mark.parametrize("label", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("name", NAMES)
def test_hostile_labels_give_a_plain_picture(name: str, label: str) -> None:
    board = FULL[name](f"a{label}")
    svg = board.svg()
    parsed(svg)
    svg.encode()
    assert len(svg) < 20_000
    assert repr(board)


@requirement("templates:pictures")
@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80))
def test_any_label_gives_a_plain_picture(label: str) -> None:
    root = parsed(full_tree(f"a{label}").svg())
    assert all(len(element.text or "") <= 120 for element in root.iter())


@requirement("templates:pictures")
def test_hundreds_of_nodes_stay_apart() -> None:
    tree = Tree("a big one")
    for parent in range(40):
        tree.add(parent, *(f"thought {parent}.{k} that is long enough to be cut" for k in range(5)))
    svg = tree.svg()
    root = parsed(svg)
    spots = [(element.get("x"), element.get("y")) for element in root.iter() if element.tag.endswith("text")]
    assert len(spots) == len(set(spots)) == 2 * 201 + 2
    assert len(svg) < 100_000
    deep = Tree("a deep one")
    for parent in range(1_100):
        deep.add(parent, "down")
    assert deep.open() == [1_100]
    parsed(deep.svg())


@requirement("templates:errors")
def test_ids_and_scores_that_make_no_sense_are_refused() -> None:
    tree = full_tree("x")
    for wrong in (9, -1, "1", True, 1.0, None):
        refused(tree, LookupError, lambda wrong=wrong: tree.score(wrong, 0.5), "ids go from 0 to 2")
    for score in (1.01, -0.1, math.nan, math.inf, "0.5", True, None):
        refused(tree, ValueError, lambda score=score: tree.score(1, score), "number from 0 to 1")
    refused(tree, ValueError, lambda: tree.add(2, "x"), "pruned")
    refused(tree, ValueError, lambda: tree.add(0), "at least one")
    refused(tree, ValueError, lambda: tree.add(0, "fine", " "), "must say something")
    refused(tree, ValueError, lambda: tree.prune(0), "cannot be pruned")


# -- tree of thought ---------------------------------------------------------------------------------------------------------


@requirement("templates:tree")
@settings(max_examples=80, deadline=None)
@given(st.data())
def test_the_best_way_is_the_best_by_scores(data: st.DataObject) -> None:
    tree = Tree("root")
    size = data.draw(st.integers(1, 14))
    for i in range(1, size + 1):
        tree.add(data.draw(st.integers(0, i - 1)), f"thought {i}")
        tree.score(i, data.draw(SCORES))
    for i in data.draw(st.sets(st.integers(1, size), max_size=3)):
        tree.prune(i)
    live = [i for i in range(1, size + 1) if not any(tree.nodes[k]["cut"] for k in tree.path(i))]
    ends = [i for i in live if not any(tree.nodes[k]["parent"] == i for k in live)]
    best = tree.best()
    assert best == tree.path(best[-1])
    assert not any(tree.nodes[i]["cut"] for i in best)
    if ends:
        assert best[-1] in ends
        assert tree.nodes[best[-1]]["score"] == max(tree.nodes[i]["score"] for i in ends)
        assert tree.next() == best[-1]
    else:
        assert best == [0]


@requirement("templates:tree")
@settings(deadline=None)
@given(st.lists(SCORES, min_size=1, max_size=12), st.integers(1, 12))
def test_keep_leaves_the_best_open(scores: list[float], count: int) -> None:
    tree = Tree("root")
    for i in tree.add(0, *("thought" for _ in scores)):
        tree.score(i, scores[i - 1])
    count = min(count, len(scores))
    kept: list[int] = tree.keep(count)
    assert kept == tree.open()
    assert sorted((scores[i - 1] for i in kept), reverse=True) == sorted(scores, reverse=True)[:count]
    pruned = next((i for i in range(1, len(scores) + 1) if i not in kept), None)
    if pruned:
        tree.restore(pruned)
        assert pruned in tree.open()


@requirement("templates:tree")
def test_a_thought_without_score_comes_first_and_cannot_be_compared() -> None:
    tree = Tree("root")
    tree.add(0, "a", "b")
    tree.score(1, 0.9)
    assert tree.next() == 2
    refused(tree, ValueError, lambda: tree.keep(1), r"\[2\] have no score yet")
    tree.add(1, "deeper")
    assert tree.best() == [0, 1], "the nearest thought that has a score"


# -- beam search -------------------------------------------------------------------------------------------------------------


@requirement("templates:beam")
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.lists(st.lists(SCORES, min_size=1, max_size=3), min_size=1, max_size=20))
def test_a_round_keeps_exactly_the_best(width: int, proposals: list[list[float]]) -> None:
    beam = Beam("root", width)
    left = iter(proposals)
    for _ in range(4):
        candidates: list[int] = []
        for parent in beam.beam():
            candidates += [beam.propose(parent, "step", score) for score in next(left, [0.5])]
        value = {i: sum(s := [beam.nodes[k]["score"] for k in beam.path(i)[1:]]) / len(s) for i in candidates}
        kept = beam.step()
        assert len(kept) == min(width, len(candidates))
        assert sorted(kept) == beam.beam()
        assert [value[i] for i in kept] == sorted(value.values(), reverse=True)[:width]
        assert beam.best()[-1] == kept[0]


@requirement("templates:beam")
def test_finished_answers_compete_and_every_answer_must_go_on() -> None:
    beam = Beam("root", 2)
    refused(beam, ValueError, beam.step, r"nothing follows \[0\]")
    good, fair = beam.propose(0, "good", 0.8), beam.propose(0, "fair", 0.5)
    assert beam.step() == [good, fair]
    beam.finish(good)
    refused(beam, ValueError, lambda: beam.propose(good, "more", 0.5), "is done")
    refused(beam, ValueError, beam.step, rf"nothing follows \[{fair}\]")
    better, worse = beam.propose(fair, "x", 0.9), beam.propose(fair, "y", 0.1)
    assert beam.step() == [good, better]
    assert beam.nodes[worse]["state"] == "beaten"
    beam.drop(better)
    refused(beam, ValueError, beam.step, "the search is over")
    assert beam.best() == [0, good]
    refused(beam, ValueError, lambda: beam.rescore(worse, 0.5), "decided")


# -- Monte Carlo tree search -------------------------------------------------------------------------------------------------


@requirement("templates:mcts")
@settings(max_examples=60, deadline=None)
@given(st.lists(SCORES, min_size=1, max_size=25), st.integers(1, 4), st.floats(0, 3))
def test_selection_follows_uct_and_values_count_all_the_way_up(values: list[float], moves: int, explore: float) -> None:
    search = Search("root", explore)
    search.expand(0, *("move" for _ in range(moves)))
    for value in values:
        chosen = search.select()
        if search.nodes[chosen]["visits"] and len(search.path(chosen)) < 4:
            search.expand(chosen, *("move" for _ in range(moves)))
            chosen = search.select()
        way = search.path(chosen)
        for parent, child in pairwise(way):
            under = [i for i, node in enumerate(search.nodes) if node["parent"] == parent]
            assert child == min(under, key=lambda i: (-formula(search, i, explore), i))
        search.backup(chosen, value)
    assert search.nodes[0]["visits"] == len(values)
    assert search.nodes[0]["total"] == pytest.approx(sum(values))
    for i, node in enumerate(search.nodes):
        own = [value for at, value, _ in search.log if i in search.path(at)]
        assert node["visits"] == len(own)
        assert node["total"] == pytest.approx(sum(own))
    assert search.best()[0] == 0


def formula(search: Any, i: int, explore: float) -> float:
    node = search.nodes[i]
    visits = node["visits"]
    if not visits:
        return math.inf
    return node["total"] / visits + explore * math.sqrt(math.log(search.nodes[node["parent"]]["visits"]) / visits)


@requirement("templates:mcts")
def test_closed_states_are_not_selected_and_close_what_is_above() -> None:
    search = Search("root")
    search.expand(0, "a", "b")
    search.expand(1, "c", "d")
    search.close(1)
    assert search.select() == 2
    search.close(3)
    assert search.nodes[1]["closed"], "closing below does not open above"
    refused(search, ValueError, lambda: search.expand(1, "e"), "closed")
    search.backup(2, 0.5)
    search.close(2)
    refused(search, ValueError, search.select, r"over: best\(\) is \[0, 2\]")
    refused(search, ValueError, lambda: search.backup(2, 2), "number from 0 to 1")
    assert "all is closed" in repr(search)


# -- graph of thought --------------------------------------------------------------------------------------------------------


@requirement("templates:graph")
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_rests_on_a_dropped_thought_is_not_live_and_not_best(data: st.DataObject) -> None:
    graph = Graph("why?")
    size = data.draw(st.integers(1, 10))
    for i in range(size):
        graph.add(f"thought {i}", *data.draw(st.sets(st.integers(0, i - 1), max_size=3) if i else st.just(set[int]())))
        graph.score(i, data.draw(SCORES))
    for a, b in data.draw(st.sets(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=4)):
        if a != b:
            graph.contradict(a, b)
    dropped = data.draw(st.integers(0, size - 1))
    graph.drop(dropped)
    for i in range(size):
        assert graph.live(i) == (dropped not in graph.grounds(i))
        assert all(ground <= i for ground in graph.grounds(i))
    best = graph.best()
    if best is not None:
        assert graph.live(best)
        for a, b in graph.conflicts():
            if best in (a, b):
                other = a + b - best
                assert graph.nodes[other]["score"] < graph.nodes[best]["score"]
    parsed(graph.svg())


@requirement("templates:graph")
def test_nothing_is_concluded_against_a_live_contradiction() -> None:
    graph = Graph("why?")
    graph.add("a")
    graph.add("b")
    graph.add("from a", 0)
    graph.contradict(1, 0)
    refused(graph, ValueError, lambda: graph.conclude(2), "has no score")
    graph.score(2, 0.9)
    refused(graph, ValueError, lambda: graph.conclude(2), r"\[\[1, 0\]\] still contradict")
    refused(graph, ValueError, lambda: graph.contradict(1, 0), "once is enough")
    refused(graph, ValueError, lambda: graph.merge("x", 1, 1), "two or more")
    refined = graph.refine(1, "b, but weaker")
    refused(graph, ValueError, lambda: graph.add("x", 1), "build on live")
    assert graph.conclude(2) == [0, 2]
    graph.score(refined, 0.9)
    graph.contradict(refined, 2)
    assert graph.best() is None, "two of the same score beat each other"
    graph.score(refined, 0.8)
    assert graph.best() == 2
    assert graph.grounds(refined) == [1, 3]
    graph.drop(0)
    assert graph.answer is None


# -- orchestration -----------------------------------------------------------------------------------------------------------


@requirement("templates:plan")
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_plan_is_what_the_rules_say(data: st.DataObject) -> None:
    space = SPACES["orchestration_suggest"]
    plan = Plan("what now?")
    ratings = data.draw(st.dictionaries(st.sampled_from(sorted(space["TRAITS"])), SCORES, min_size=1))
    for trait, value in ratings.items():
        plan.rate(trait, value)
    sums = {
        name: sum(w * ratings.get(t, 0) for template, t, w, _ in space["RULES"] if template == name)
        for name in space["ORDER"]
    }
    suggested = [step["template"] for step in plan.suggest()]
    clear = {name: total >= 0.5 for name, total in sums.items() if abs(total - 0.5) > 0.01}
    assert {name: name in suggested for name in clear} == clear
    assert suggested == sorted(suggested, key=space["ORDER"].index)
    assert all(step["because"] for step in plan.suggest())
    assert plan.next() == (suggested[0] if suggested else None)


@requirement("templates:plan")
def test_every_trait_and_template_has_a_rule_and_nothing_is_suggested_without_ratings() -> None:
    space = SPACES["orchestration_suggest"]
    assert {trait for _, trait, _, _ in space["RULES"]} == set(space["TRAITS"])
    assert set(space["ORDER"]) == {name for name, *_ in space["RULES"]} == set(NAMES) - {"orchestration_suggest"}
    for name in space["ORDER"]:
        plan = Plan("what speaks for it is enough to reach it")
        for template, trait, weight, _ in space["RULES"]:
            if template == name and weight > 0:
                plan.rate(trait, 1)
        assert name in [step["template"] for step in plan.suggest()]
    plan = Plan("empty")
    refused(plan, ValueError, plan.suggest, "nothing is rated yet")
    refused(plan, LookupError, lambda: plan.rate("hard", 1), "no trait 'hard'")
    refused(plan, LookupError, lambda: plan.done("chain", "x"), "no template 'chain'")
    plan.rate("long", 0.1)
    assert plan.suggest() == []
    assert "straight ahead" in repr(plan)


# -- the two state machines --------------------------------------------------------------------------------------------------


@requirement("templates:ooda")
@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(("observe", "suppose", "decide", "act", "advance")), max_size=40))
def test_phases_come_in_their_order_whatever_is_called(calls: list[str]) -> None:
    loop = Loop("goal", facts=2)
    todo: dict[str, Callable[[], object]] = {
        "observe": lambda: loop.observe("fact"),
        "suppose": lambda: loop.suppose("explanation", 0.5, [0]),
        "decide": lambda: loop.decide("action", last(loop, "explanation"), "this"),
        "act": lambda: loop.act("result", True),
        "advance": loop.advance,
    }
    belongs = {"observe": "observe", "suppose": "orient", "decide": "decide", "act": "act"}
    for call in calls:
        phase, number, before = loop.phase, loop.loop, loop.state()
        try:
            todo[call]()
        except RuntimeError:
            assert loop.state() == before
            continue
        now = [node["kind"] for node in loop.nodes if node["loop"] == number]
        if call == "advance":
            assert loop.phase == loop.PHASES[loop.PHASES.index(phase) + 1]
            needs = {"observe": ("fact", 2), "orient": ("explanation", 1), "decide": ("action", 1)}[phase]
            assert now.count(needs[0]) >= needs[1]
        else:
            assert phase == belongs[call]
            assert (loop.phase, loop.loop) == (("observe", number + 1) if call == "act" else (phase, number))
        assert now.count("action") <= 1


def last(loop: Any, kind: str) -> int:
    return max((i for i, node in enumerate(loop.nodes) if node["kind"] == kind), default=0)


@requirement("templates:ooda")
def test_a_loop_says_what_is_missing_and_counts_what_came_true() -> None:
    loop = Loop("goal", facts=2)
    loop.observe("one")
    refused(loop, RuntimeError, loop.advance, r"1 more fact in this loop with observe\(\)")
    refused(loop, RuntimeError, lambda: loop.decide("x", 0, "y"), "the phase is observe")
    refused(loop, RuntimeError, lambda: loop.end("x"), "at least one act")
    loop.observe("two")
    loop.advance()
    refused(loop, ValueError, lambda: loop.suppose("x", 0.5, []), "needs facts")
    refused(loop, LookupError, lambda: loop.suppose("x", 0.5, [7]), "ids go from")
    refused(loop, ValueError, lambda: loop.believe(0, 0.5, [1]), "0 is no explanation: it is of the kind fact")
    explanation = loop.suppose("x", 0.5, [0])
    loop.advance()
    loop.decide("do", explanation, "see")
    loop.advance()
    refused(loop, RuntimeError, loop.advance, r"act\(\) comes next")
    refused(loop, ValueError, lambda: loop.act("x", "yes"), "True or False")
    loop.act("saw", True)
    assert loop.hits() == (1, 1)
    loop.end("settled")
    refused(loop, RuntimeError, lambda: loop.observe("x"), "has ended")
    refused(loop, RuntimeError, loop.advance, "has ended")


@requirement("templates:ulysses")
def test_a_retry_asks_for_its_proofs_again_and_is_counted() -> None:
    mast = Mast("goal", retries=0)
    while mast.gate != "validation":
        for proof in mast.missing():
            mast.prove(proof, "seen")
        mast.advance(0.9)
    mast.prove("goal checked", "seen")
    mast.retry("it failed")
    assert mast.gate == "implementation"
    bare = [node["proof"] for node in mast.nodes if not node["evidence"]]
    assert bare == ["change made", "goal checked", "nothing else broken", "risks named"]
    assert mast.over() == ["retries"]
    refused(mast, RuntimeError, lambda: mast.advance(0.9), "over the limit")


MAST_CALLS: dict[str, Callable[[Any], object]] = {
    "prove": lambda mast: mast.prove(mast.missing()[0] if mast.missing() else "?", "seen"),
    "advance": lambda mast: mast.advance(0.5),
    "retry": lambda mast: mast.retry("failed"),
    "rescope": lambda mast: mast.rescope("change", "why"),
    "spend": lambda mast: mast.spend(1),
    "ship": lambda mast: mast.ship(0.9),
    "doubt": lambda mast: mast.ship(0.7),
    "loosen": lambda mast: mast.tighten(budget=mast.limits["budget"] + 1),
    "doubtful": lambda mast: mast.tighten(confidence=mast.limits["confidence"] / 2),
}
OFTEN = ("prove",) * 6 + ("advance",) * 4


@requirement("templates:ulysses")
@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from((*OFTEN, *MAST_CALLS)), max_size=60))
def test_no_gate_is_skipped_and_no_limit_loosened_whatever_is_called(calls: list[str]) -> None:
    mast = Mast("goal", budget=5, retries=1, rescopes=1, confidence=0.8)
    limits = dict(mast.limits)
    for call in calls:
        gate, bound, shut, over = mast.gate, mast.outcome, mast.missing(), mast.over()
        before = mast.state()
        try:
            MAST_CALLS[call](mast)
        except (RuntimeError, ValueError, LookupError):
            assert mast.state() == before
            continue
        assert bound is None, "nothing happens after the end"
        assert call not in {"doubt", "loosen", "doubtful"}
        assert not over or gate == "decision"
        if call == "advance":
            assert not shut
            assert mast.gate == mast.GATES[mast.GATES.index(gate) + 1]
        elif call == "retry":
            assert (gate, mast.gate) == ("validation", "implementation")
            assert mast.missing()
        else:
            assert mast.gate == gate
    assert mast.limits == limits
    if mast.outcome:
        assert mast.outcome[0] == "shipped"
        assert mast.gate == "decision"
        assert all(node["evidence"] for node in mast.nodes)


@requirement("templates:ulysses")
def test_the_whole_way_to_ship_and_what_a_limit_leaves() -> None:
    mast = Mast("goal", budget=1)
    for _ in range(4):
        for proof in mast.missing():
            mast.prove(proof, "seen")
        mast.advance(0.9)
    refused(mast, RuntimeError, lambda: mast.ship(0.9), "prove")
    refused(mast, ValueError, lambda: mast.require("planning", "late"), "already passed")
    mast.tighten(confidence=0.95)
    assert mast.spend(2) == -1
    refused(mast, RuntimeError, lambda: mast.rescope("x", "y"), "over the limit of ..budget")
    mast.prove("risks named", "seen")
    refused(mast, RuntimeError, lambda: mast.ship(0.9), "below 0.95")
    mast.ship(0.96)
    refused(mast, RuntimeError, lambda: mast.abort("late"), "it is over, shipped")
    other = Mast("goal", budget=1)
    other.spend(2)
    refused(other, RuntimeError, lambda: other.prove("cause known", "seen"), "over the limit")
    other.abort("too long")
    assert other.outcome == ["aborted", "too long"]
