"""Traps for tools that work in somebody's notebook: kernels and servers that die, odd files, denied access."""

PROMISES = {
    "traps:kernel:killed": "A kernel killed while a cell runs is an error that names the loss, and the next run works in a new one.",
    "traps:kernel:restarted": "A kernel that somebody restarts by REST while a cell runs ends that run; what is asked for later runs.",
    "traps:kernel:no-notebook": "Restarting the kernel of a notebook that is not there starts none.",
    "traps:kernel:looked-at": "Looking at variables leaves the person's own names and last result as they were, whatever they shadow.",
    "traps:size:ten-thousand": "In a notebook of 10,000 cells one cell is read and edited as in a small one, and the outline is bounded.",
    "traps:format:old": "Notebooks of format 3 and 4.2 are read, edited and run; a 4.2 file stays one.",
    "traps:file:changed": "What another program writes into the file is in the next read, and the next edit keeps it.",
    "traps:jupyter:wrong-token": "A wrong Jupyter token is said to be that by every tool, and no token is in the message.",
    "traps:jupyter:not-live": "Without collaboration the tools read, edit and run, say live: false, and refuse to overwrite others' work.",
    "traps:search:expression": "An expression that never ends its search keeps nobody waiting and is given up.",
}
