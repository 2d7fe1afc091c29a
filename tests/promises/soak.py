"""Promises about long mixed work while things break."""

PROMISES = {
    "soak:nothing-lost": "Whatever breaks meanwhile, what was acknowledged is in the document, the pad and the thinking notebook at the end.",
    "soak:nothing-doubled": "Nothing is there twice, no code ran more often than it was asked for, and what was refused did not happen.",
    "soak:memory": "Long mixed work with faults takes no more memory at its end than soon after its beginning, within what its documents grew by.",
    "soak:descriptors": "Long mixed work with faults leaves no descriptor, thread or worker process behind.",
    "soak:answers": "Every call during a fault is answered within its time and says what happened; none ends with INTERNAL_ERROR.",
    "soak:edit-stands": "An edit that has arrived is told as done also where what follows it fails: a run that did not begin is an error beside it, "
    "which says not to repeat the call.",
    "soak:holes": "Where Jupyter lost a part of a document's history, cells that change without an event are read as they are, and are saved.",
    "soak:unwritten": "What Jupyter could not write is written when the notebook is left, also after its connection was lost meanwhile.",
    "soak:being-written": "A file that is just being written is not taken for a broken one, and no search has Jupyter move it away as one.",
    "soak:nothing-left": "When the work ends no kernel, no room and no task is left, and after the stop of the server no process.",
}
