"""What each template is for, what its prompt asks, and how to work with it."""

from collections.abc import Mapping
from dataclasses import dataclass

from cellwright.core.prompts import PromptArgument


@dataclass(frozen=True, slots=True)
class Description:
    description: str
    steps: str
    arguments: tuple[PromptArgument, ...]


def _asks(name: str, description: str) -> tuple[PromptArgument, ...]:
    more = PromptArgument("context", "What is known already: facts, limits, what was tried.")
    return (PromptArgument(name, description, required=True), more)


_PROBLEM = _asks("problem", "What is to be solved or decided.")
_GOAL = _asks("goal", "What is to be found out or brought about.")

DESCRIPTIONS: Mapping[str, Description] = {
    "tree_of_thought": Description(
        "when there are several different ways to go on and a way may prove a dead end late; branch, score, prune, come back.",
        "Add 2 to 5 thoughts that differ in kind, score each, keep(2), add under tree.next(). Stop when a score is above 0.9 or "
        "three levels bring nothing better; then read tree.best() and answer from it.",
        _PROBLEM,
    ),
    "beam_search": Description(
        "when an answer grows step by step and half-finished answers can be compared; carry the best few from round to round.",
        "Propose 2 or 3 scored steps for every answer in beam.beam(), then beam.step(); finish() answers that are complete. Stop when "
        "all are finished; answer with beam.best().",
        _PROBLEM,
    ),
    "mcts": Description(
        "when the worth of a move shows only by playing it out; UCT says where to look next, you give the values you saw.",
        "Expand the start, then repeat: i = search.select(); play i out, in thought or by running something; search.backup(i, value). "
        "Expand what is selected a second time. After 15 to 30 play-outs answer with search.best().",
        _PROBLEM,
    ),
    "graph_of_thought": Description(
        "when findings rest on several others, must be merged, or contradict each other.",
        "Add what is known, then what follows from it with its grounds; merge, refine, score. Note every contradiction and resolve it "
        "with drop() or refine(). End with graph.conclude(id) and give the grounds with the answer.",
        _PROBLEM,
    ),
    "orchestration_suggest": Description(
        "when it is not clear how to think about a problem; rate its traits and get templates in an order, with reasons.",
        "Rate the traits that matter, honestly and with a reason each, then read plan.suggest(). Go through the plan with the "
        "templates it names, and note each outcome with plan.done(). An empty plan means: think straight ahead.",
        _PROBLEM,
    ),
    "ooda_loop": Description(
        "when the situation moves or is badly known, as in an incident; observe, orient, decide, act, with a gate between each.",
        "Facts with their sources first, then explanations with your belief, one action with what you expect of it, and what really "
        "happened. Go round until an explanation holds; then loop.end(result).",
        _GOAL,
    ),
    "ulysses_protocol": Description(
        "when a wrong result is costly; limits and proofs are fixed before the work and cannot be loosened under pressure.",
        "First agree on the limits and require() what each gate must prove. Prove with what was really seen, count work with spend(), "
        "and obey when a limit is reached. It ends with mast.ship(confidence) or mast.abort(why).",
        _GOAL,
    ),
}
