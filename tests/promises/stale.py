"""Promises about what is stale: what each cell defines and uses, what really ran, and what follows from both."""

PROMISES = {
    "stale:ran": "What ran in a kernel's present life is known with its source, number, end and whether an agent ran it, also what people ran and what ran before anybody listened.",
    "stale:python:really": "Names that a cell in Python really reads or changes when it runs are among those that are told of its source.",
    "stale:truth": "No cell of 300 real notebooks whose value another cell's edit changes is called fresh, as runs before and after the edit show.",
}
