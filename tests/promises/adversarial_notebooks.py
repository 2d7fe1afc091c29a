"""What an attacker tries with notebooks, their paths, their outputs and their rooms, and what must come of it."""

PROMISES = {
    # paths
    "adversarial:P1": "A path that leaves the root, however it is spelt, is refused by every tool and resource with one message.",
    "adversarial:P2": "A folder beside the root whose name begins like the root's is outside of it.",
    "adversarial:P3": "A folder that is swapped for a link while it is listed shows no name and no size from outside of the root.",
    "adversarial:P4": "Pipes, devices, folders, link loops and giant files that are named like notebooks are refused without a wait.",
    "adversarial:P5": "Names that differ in one code point, and names with any legal character, are kept to the letter.",
    "adversarial:P6": "Hidden folders and checkpoints are neither read, run, searched nor listed.",
    "adversarial:P7": "No name of a file can end the path of a request to Jupyter or add anything to it.",
    "adversarial:P8": "An address that is not of this Jupyter server is refused, and nobody is asked about it.",
    # outputs and contents
    "adversarial:O1": "What the model gets of outputs, sources, names and metadata is what a person would see, without an escape byte.",
    "adversarial:O2": "Hidden characters, also those written as HTML references, are removed and counted; emoji stay.",
    "adversarial:O3": "Text that imitates our answers, fences or outlines stays inside the field it belongs to.",
    "adversarial:O4": "HTML, SVG and scripts come as text or are left out with a link, never as something to run.",
    "adversarial:O5": "Large, lying and many pictures and floods of output come back within the budget and keep nobody else waiting.",
    "adversarial:O6": "What is no valid text is refused as an argument, and every result can be encoded.",
    "adversarial:O7": "A broken notebook file is shown as far as it goes or refused by name, and reading never writes it.",
    "adversarial:O8": "Our own tokens are masked wherever an output prints them.",
    "adversarial:O9": "An error without name or traceback is a failure in the run and in every later read.",
    "adversarial:O10": "Code that kills its kernel, loops or ignores interrupts ends in the stated way, and the server stays up.",
    "adversarial:O11": "No content of a notebook enters descriptions, templates or instructions.",
    # rooms
    "adversarial:R1": "When Jupyter is killed and comes back under an open room, no cell is doubled and no saved edit is lost.",
    "adversarial:R2": "When the wire is cut again and again, each acknowledged edit is there once, each other at most once and reported.",
    "adversarial:R3": "What a hostile peer puts into a document or announces is an error at most there: other calls and rooms go on.",
    "adversarial:R4": "An edit by index with expect, after a person inserted a cell above, is a conflict that changes nothing.",
    "adversarial:R5": "Three agents and two people who edit at once, leave and come back end with the same notebook, and nothing is lost.",
    "adversarial:R6": "A notebook that is renamed, deleted, replaced or made read-only in use gives a named error and is not resurrected.",
    "adversarial:T3": "Two agents with mixed edits in two notebooks of one server: each edit is in its notebook, none in the other.",
}
