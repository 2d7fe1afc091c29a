"""Promises about what the page shows of the states of cells, and of what they use of each other."""

PROMISES = {
    "page:states:marks": "On the page each code cell that is not fresh has a mark of a word and a sign, with the reason for those who hover, focus or hear; a line says whether a run from top to bottom would give what is shown.",
    "page:states:follow": "The marks follow what agents edit and run, also of cells that did not change themselves, and only states that changed are sent.",
    "page:states:graph": "A picture of the code cells and the names that they use of each other opens with a button, a key or a mark, leads to each cell by mouse and by keyboard, and has the same as a list of sentences.",
    "page:states:many": "Of more than 200 code cells the picture shows those that have to do with one of them, and says so.",
    "page:states:narrow": "Marks and picture are in sight at a phone's width, and nothing scrolls sideways.",
    "page:states:reader": "Who may only read sees states and picture; looking starts no kernel and runs nothing, also for those who may run.",
    "page:states:aside": "What the page has seen of states does not count as told to agents: the answer to their next edit says it.",
    "page:states:masked": "What the page is told of states and links has our own secrets removed.",
    "page:states:bounded": "However fast changes come, states are looked at once after those that come together, and less often the longer a look takes.",
}
"""Ids of the promises, each with its sentence."""
