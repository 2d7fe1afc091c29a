"""Promises about what is stale: what each cell defines and uses, what really ran, and what follows from both."""

PROMISES = {
    "stale:ran": "What ran in a kernel's present life is known with its source, number, end and whether an agent ran it, also what people ran and what ran before anybody listened.",
}
