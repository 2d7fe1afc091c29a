"""Promises about memory: what is bounded, what comes back, and what is measured before it is taken in."""

PROMISES = {
    "memory:left": "A document that is left takes no more memory, however often; nothing follows it, no result of a run keeps it.",
    "memory:kept": "What is remembered of sources, edits, results, cursors and displays has a bound in bytes.",
    "memory:pictures": "A picture is looked at before it is decoded, and decoded in a worker process, two at a time: ours takes no memory for it.",
    "memory:updates:little-by-little": "Many small updates do not make a shared document deeper or larger than one large one may: it is left, and the process lives.",
    "memory:updates:in-pieces": "A large update is taken in piece by piece, with turns of the loop in between, and gives the same document as in one.",
    "memory:updates": "An update of a shared document is walked through before it is applied: one that would end or fill the process is refused.",
    "memory:answers": "An answer of a Jupyter server is measured before it is parsed; what cannot be asked for is said to be a wrong argument.",
    "memory:messages": "What a kernel sends is bounded in bytes, values and depth: what is over is told in its place among the outputs, and the run goes on. Printed text is taken in pieces, and what is left out of it is counted.",
    "memory:rooms": "Open documents that nobody uses have a total in bytes: those idle longest are left first, none in use or with unacknowledged work.",
    "memory:returned": "What a server frees goes back to the system: the allocator keeps little for later, and at rest nothing between what is still used, unless the user has set it otherwise.",
    "memory:search": "A hit in a very long line is shown with what stands around it, without working through the whole line.",
}
