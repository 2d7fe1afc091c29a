"""What the reasoning templates promise."""

PROMISES = {
    "templates:run": "Every template runs from top to bottom in a real kernel without an error and shows its state as text and as a picture.",
    "templates:docs": "The worked examples in docs/thinking are what running the templates gives.",
    "templates:thrift": "A template is compact: what an agent pays to read each of its cells is bounded.",
    "templates:portable": "The cells of templates need only the standard library, and no syntax newer than Python 3.8.",
    "templates:determined": "No template draws a random number or reads a clock.",
    "templates:state": "The state of every board is JSON data, and a board loaded from it goes on as the one that was lost.",
    "templates:pictures": "Pictures are well-formed SVG without script whatever the labels say, also with hundreds of nodes.",
    "templates:errors": "Misuse of a board changes nothing and is answered with what to do instead.",
    "templates:prompts": "Every template is a prompt that names its pattern and repeats its arguments; what is missing or unknown is said.",
    "templates:tree": "The best way of a tree of thought is the best by the caller's scores, and pruned thoughts are never part of it.",
    "templates:beam": "A round of a beam search keeps exactly the best of all candidates, as many as its width.",
    "templates:mcts": "Monte Carlo tree search selects by the UCT formula, the first of equals, and every value counts on the whole way up.",
    "templates:graph": "A graph of thought concludes nothing that rests on a dropped or contradicted thought.",
    "templates:plan": "The suggested templates follow from explicit rules and the caller's ratings, in a fixed order, each with its reasons.",
    "templates:ooda": "The phases of an OODA loop come in their order and no gate opens before its needs are met.",
    "templates:ulysses": "No gate of the Ulysses protocol can be skipped and no limit loosened.",
}
