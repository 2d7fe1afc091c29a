"""What callers are told of what they cannot see: lost state, who is there, a Jupyter that is gone or hangs."""

PROMISES = {
    "kernel:lost:told": "A kernel that is new since the caller's last run (restarted, died, shut down, or gone with its server) is told with what that means, once, at the next run or look.",
    "kernel:lost:own": "Whoever restarted, replaced or shut down the kernel is not told that it is new; each connection of a caller is one for itself.",
    "kernel:lost:bounded": "In which kernel callers last ran something is remembered for a bounded number of them.",
    "kernel:server-gone": "A run whose Jupyter has died fails soon and says what is not known; until then it is not said to be still running, and never that its cell is gone.",
    "nb:people": "get_nb_stat tells who is in which cell, where in it as far as that is known, and which of them are agents; an invented cursor harms nobody.",
    "nb:people:unknown": "get_nb_stat tells nobody from not known: where no documents are shared people is null, and nobody announced is called that.",
    "nb:people:strangers": "Edits of somebody who has not announced themselves are told by get_nb_stat for some minutes, until they do.",
    "embedded:shared": "An embedded server stays, with its kernels, as long as one of the programs that use it is there, however the one ended that had started it; then nothing of it is left.",
    "jupyter:hangs": "A Jupyter that hangs keeps nobody waiting who looks at a notebook that is open, and the error says what was waited for.",
}
