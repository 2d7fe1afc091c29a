"""Promises about what a request can cost."""

PROMISES = {
    "costs:loop": "Nothing in any argument of any tool or address of a resource, of any size that is taken, nor folders however deep, holds the event "
    "loop for more than 250 ms.",
    "costs:linear": "What a call costs grows with the size of what is sent and of what is there, and no faster.",
    "costs:stored": "Nor does what is stored: notebooks of thousands of cells and cells of hundreds of thousands of values are read, exported and copied "
    "with turns for others, and what is read that way is of one moment.",
    "threads:fair": "No caller waits for the slow searches and readings of another: each has a share of the threads, and waits in its own line.",
    "costs:memory": "After a flood of large requests, and once the largest things were used and left, memory is back within 20 % of what it was when "
    "everything had been used once; nothing keeps what a call that has ended held.",
    "costs:ceiling": "The largest request to any tool or resource, on the largest things that are stored, takes less than 300 MB above idle, worker "
    "processes counted.",
}
