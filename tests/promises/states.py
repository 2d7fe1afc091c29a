"""Promises about the states of cells: which are fresh, why the others are not, and what is run by need."""

PROMISES = {
    "stale:states": "Each code cell is fresh, edited, stale, not run, lost, running or unknown, with a reason that names the other cell and the name that they share; after a change only what depends on it is judged again.",
    "stale:shown": "The outline, the cells that are read, the answer of an edit and the resources say what is stale, and whether a run from top to bottom would give what is shown.",
    "stale:people": "What people type and run changes the states in the agent's next answer.",
    "stale:need": "Cells are run by need: those that are not fresh, or those that one cell needs; past an error runs only what does not need the cell that failed.",
    "stale:graph": "After any sequence of changes the links between cells, and their states, are those that a new look at the notebook gives.",
}
